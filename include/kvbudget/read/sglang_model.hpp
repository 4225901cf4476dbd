// A Hugging Face config.json as SGLang takes it, which is not always as it is meant (facts: sglang.md R1-R11).
//
//   auto const model = kvbudget::read::sglang_model("Qwen3-Next-80B-A3B-Instruct/config.json");
//   kvbudget::sglang::plan(model.model, {pre, post}, {.mem_fraction_static = 0.819, .tp_size = 4});
// Gemma-3's window is sized as full attention, Jamba's states as attention, Gemma-3n's shared layers as their own: what a row of
// sglang_architectures.hpp does not say, SGLang does not credit.
#pragma once

#include <kvbudget/read/sglang_states.hpp>
#include <kvbudget/size/sglang/from_spec.hpp>

namespace kvbudget::inline v1::read {

struct SglangModel {
  sglang::Model model{};
  std::string architecture{};
  std::uint32_t layers_as_draft{};  // layers it counts as a draft model (R47)
  bool drafts_itself{};             // its draft model is itself unless another is named (R26)
};

namespace detail {

class SglangReader : public SglangStateReader {
 public:
  using SglangStateReader::SglangStateReader;

  SglangModel read() {
    SglangModel found{.architecture = architecture_};
    sglang::Model& m = found.model;
    read_layers(m);
    read_heads(m);
    m.dtype = dtype();
    m.context = options_.context_length ? *options_.context_length : context();
    read_latent(m);
    read_sliding(m);
    read_compressed(m);
    read_sparse(m);
    read_states(m);
    if (auto const nextn = small("num_nextn_predict_layers")) m.nextn_layers = static_cast<std::uint32_t>(*nextn);
    found.drafts_itself = row_->drafts_itself;
    found.layers_as_draft = row_->layers_as_draft != 0 ? row_->layers_as_draft : m.nextn_layers.value_or(m.layers());
    refuse_bad(sglang::check(m), text_.input());
    return found;
  }

 private:
  /// R4. Layers, and how often the model runs through them.
  void read_layers(sglang::Model& m) const {
    std::uint64_t layers = 0;
    if (type_ == "nemotron_h")
      layers = nemotron_layers().size();
    else
      layers = text_.count("num_hidden_layers", 1, sglang::most_layers);
    std::uint64_t const times = row_->repeats_loop_num ? text_.count_if("loop_num", 1, 64).value_or(1) : row_->layers_times;
    if (layers * times > sglang::most_layers) throw text_.refuse("num_hidden_layers", Json(layers), "at most 4096 layers in all", "check the file");
    m.hidden_layers = static_cast<std::uint32_t>(layers);
    m.attention_layers = static_cast<std::uint32_t>(layers * times);
  }

  /// R3. All KV heads, by the first key there is.
  std::uint64_t total_kv_heads() const {
    bool const falcon = type_ == "falcon" || type_ == "RefinedWeb" || type_ == "RefinedWebModel";
    bool const multi_query = text_.flag_or("multi_query", false) && !(falcon && top_.flag_or("new_decoder_architecture", false));
    if (multi_query) return 1;
    if (type_ == "dbrx" || type_ == "mpt")
      if (auto const attention = text_.object_if("attn_config"))
        if (auto const heads = attention->count_if("kv_n_heads", 1, most_)) return *heads;
    for (auto const* key : {"n_head_kv", "num_kv_heads", "num_key_value_heads", "multi_query_group_num", "num_attention_groups"})
      if (auto const heads = small(key)) return *heads;
    return must("num_attention_heads");
  }

  std::uint64_t swa_total_kv_heads(std::uint64_t total) const {
    if (auto const heads = small("swa_num_key_value_heads")) return *heads;
    if (auto const other = text_.object_if("attention_other_setting")) return must(*other, "num_attention_groups");
    return total;
  }

  /// R2, R3. Heads, and the dims of a head.
  void read_heads(sglang::Model& m) const {
    std::uint64_t const total = total_kv_heads();
    m.total_kv_heads = static_cast<std::uint32_t>(total);
    m.swa_total_kv_heads = static_cast<std::uint32_t>(swa_total_kv_heads(total));
    auto head_dim = sglang_some(small("head_dim"));
    if (!head_dim) head_dim = must("hidden_size") / text_.count("num_attention_heads", 1, most_);
    m.head_dim = static_cast<std::uint32_t>(*head_dim);
    m.value_dim = static_cast<std::uint32_t>(sglang_some(small("v_head_dim")).value_or(*head_dim));
    m.swa_head_dim = static_cast<std::uint32_t>(sglang_some(small("swa_head_dim")).value_or(*head_dim));
    m.swa_value_dim = static_cast<std::uint32_t>(sglang_some(small("swa_v_head_dim")).value_or(m.swa_head_dim));
  }

  /// R8. The dtype that the weights run in.
  sglang::CacheType dtype() const {
    if (options_.compute_capability < 80) return sglang::CacheType::fp16;
    auto const quantised = top_.object_if("quantization_config");
    if (row_->bf16_when_mxfp4 && quantised && quantised->text_if("quant_method") == "mxfp4") return sglang::CacheType::bf16;
    std::string named;
    for (auto const* fields : {&text_, &top_})
      for (auto const* key : {"dtype", "torch_dtype"})
        if (named.empty()) named = fields->text_if(key).value_or("");
    if (named == "bfloat16") return sglang::CacheType::bf16;
    if (named == "float16") return sglang::CacheType::fp16;
    if (!named.empty() && named != "float32") throw top_.refuse("torch_dtype", Json(named), "bfloat16, float16, float32", "correct the field");
    return type_.rfind("gemma", 0) == 0 ? sglang::CacheType::bf16 : sglang::CacheType::fp16;
  }

  double rope_factor() const {
    for (auto const* key : {"rope_scaling", "rope_parameters"}) {
      auto const* rope = text_.find(key);
      if (!rope || !rope->is_object() || rope->empty()) continue;
      Fields const fields{*rope, text_.input(), text_.name(key)};
      bool const in_context_already = rope->contains("original_max_position_embeddings") || (fields.find("rope_type") && *fields.find("rope_type") == "llama3");
      auto const* factor = fields.find("factor");
      if (in_context_already || !factor) return 1;
      if (!factor->is_number() || !(factor->get<double>() > 0 && factor->get<double>() < 1e6))
        throw fields.refuse("factor", *factor, "a number above 0", "correct the field");
      return factor->get<double>();
    }
    return 1;
  }

  /// R7. The context, stretched by the rope's factor where the file's length does not have it yet.
  Tokens context() const {
    for (auto const* key : {"max_sequence_length", "seq_length", "max_seq_len", "model_max_length", "max_position_embeddings"})
      if (auto const length = text_.count_if(key, 1, std::uint64_t{1} << 40)) return {sglang::truncated_count(rope_factor() * static_cast<double>(*length))};
    return {2'048};
  }

  /// R9. Latents, and the indexer beside them.
  void read_latent(sglang::Model& m) const {
    m.latent = row_->latent == SglangLatent::yes || (row_->latent == SglangLatent::with_kv_lora_rank && sglang_some(small("kv_lora_rank"))) ||
               (row_->latent == SglangLatent::unless_use_mla_is_false && text_.flag_or("use_mla", true));
    if (!m.latent) return;
    m.latent_dim = must("kv_lora_rank");
    m.rope_dim = must("qk_rope_head_dim");
    if (row_->head_dim != 0) m.head_dim = row_->head_dim;
    m.indexed = row_->indexed && (text_.has("index_topk") || top_.has("index_topk"));
    if (m.indexed) m.index_dim = must("index_head_dim");
  }

  std::optional<Tokens> file_window() const {
    for (auto const* key : {"sliding_window_size", "sliding_window", "window_size", "attention_chunk_size"})
      if (auto const window = text_.count_if(key, 0, std::uint64_t{1} << 40)) return Tokens{*window};
    return std::nullopt;
  }

  SglangSliding sliding_rule() const {
    bool const by_architecture = row_->sliding != SglangSliding::no && (!row_->needs_window || sglang_some(text_.count_if("sliding_window", 0, most_)));
    if (by_architecture) return row_->sliding;
    if (!text_.flag_or("is_hybrid_swa", false)) return SglangSliding::no;
    return text_.has("hybrid_layer_pattern") ? SglangSliding::by_pattern : SglangSliding::by_layer_types;
  }

  /// R6. The layers with a pool of their own, and those without.
  void read_sliding(sglang::Model& m) const {
    m.window = options_.window;
    SglangSliding const rule = sliding_rule();
    m.hybrid_swa = rule != SglangSliding::no || row_->compressed;
    m.swa_own_shape = row_->own_sliding_shape;
    if (!m.hybrid_swa) return;
    if (!m.window) m.window = file_window();
    std::uint32_t const layers = m.hidden_layers;
    auto const split = [&](auto slides) {
      m.swa_layers = layers_where(layers, slides);
      m.full_layers = layers_where(layers, [&](std::uint32_t i) { return !slides(i); });
    };
    if (rule == SglangSliding::three_of_four) split([](std::uint32_t i) { return (i + 1) % 4 != 0; });
    if (rule == SglangSliding::all_layers) split([](std::uint32_t) { return true; });
    if (rule == SglangSliding::first_layer) m.swa_layers = {0};
    if (rule == SglangSliding::by_pattern) {
      Json const& pattern = text_.list("hybrid_layer_pattern");
      if (pattern.size() < layers) throw text_.refuse("hybrid_layer_pattern", Json(pattern.size()), "an entry for each layer", "correct the list");
      m.swa_layers = layers_where(layers, [&](std::uint32_t i) { return pattern[i] == 1; });
      m.full_layers = layers_where(layers, [&](std::uint32_t i) { return pattern[i] == 0; });
    }
    if (rule == SglangSliding::by_layer_types || rule == SglangSliding::by_layer_types_of_the_layers) {
      auto kinds = names("layer_types", {"sliding_attention", "full_attention"});
      if (rule == SglangSliding::by_layer_types_of_the_layers && kinds.size() > layers) kinds.resize(layers);
      m.swa_layers = where(kinds, {"sliding_attention"});
      m.full_layers = where(kinds, {"full_attention"});
    }
  }

  /// R9, R45. DeepSeek-V4.
  void read_compressed(sglang::Model& m) const {
    if (!row_->compressed) return;
    std::uint32_t const rope = must("qk_rope_head_dim"), head = must("head_dim");
    if (rope > head) throw text_.refuse("qk_rope_head_dim", Json(rope), "at most head_dim", "correct the field");
    sglang::CompressedModel c{.nope = head - rope, .rope = rope, .index_dim = must("index_head_dim"), .window = {text_.count("sliding_window", 1, most_)}};
    Json const& ratios = text_.list("compress_ratios");
    if (ratios.size() > sglang::most_layers) throw text_.refuse("compress_ratios", Json(ratios.size()), "at most 4096 layers", "check the list");
    for (auto const& ratio : ratios) {
      if (ratio != 0 && ratio != 1 && ratio != 4 && ratio != 128) throw text_.refuse("compress_ratios", ratio, "0, 1, 4 or 128", "correct the list");
      c.ratios.push_back(ratio.get<std::uint32_t>());
    }
    m.compressed = c;
  }

  /// R46. MiniMax-M3.
  void read_sparse(sglang::Model& m) const {
    if (!row_->sparse_index) return;
    auto const nested = text_.object_if("sparse_attention_config");
    auto const sparse = nested ? nested : top_.object_if("sparse_attention_config");
    if (!sparse) throw text_.missing("sparse_attention_config", "an object with sparse_attention_freq and sparse_index_dim");
    sglang::SparseModel s{.index_dim = must(*sparse, "sparse_index_dim")};
    Json const& frequency = sparse->list("sparse_attention_freq");
    Json const none = Json::array();
    Json const& key_only = sparse->has("sparse_disable_index_value") ? sparse->list("sparse_disable_index_value") : none;
    auto const set = [](Json const& list, std::uint32_t i) { return i < list.size() && list[i] != 0 && list[i] != false && !list[i].is_null(); };
    auto const length = static_cast<std::uint32_t>(std::min<std::size_t>(frequency.size(), sglang::most_layers));
    s.sparse_layers = layers_where(length, [&](std::uint32_t i) { return set(frequency, i); });
    s.dense_layers = layers_where(length, [&](std::uint32_t i) { return !set(frequency, i); });
    s.key_only_layers = layers_where(length, [&](std::uint32_t i) { return set(key_only, i); });
    m.sparse = s;
  }
};

}  // namespace detail

/// From a parsed config; `input` names it in errors. Throws Error.
inline SglangModel sglang_model(Json const& config, std::string const& input, SglangReadOptions const& options = {}) {
  Fields const top{config, input};  // an object, or refused
  return detail::SglangReader{config, input, options}.read();
}

/// From a file. Throws Error.
inline SglangModel sglang_model(std::filesystem::path const& path, SglangReadOptions const& options = {}) {
  return sglang_model(parse_json(file_text(path), path.string()), path.string(), options);
}

/// The same, with the refusal as a value.
inline Result<SglangModel> try_sglang_model(std::filesystem::path const& path, SglangReadOptions const& options = {}) {
  return attempt([&] { return sglang_model(path, options); });
}

/// R6, R10. What SGLang makes of a model that is described, not read: `facts` for its architecture. One it has no row for slides in no
/// pool of its own and has no states that it knows.
inline sglang::SpecFacts sglang_facts(std::string_view architecture, sglang::SpecFacts facts) {
  SglangArchitecture const& row = detail::sglang_row(architecture);
  facts.separate_sliding_pool = row.sliding != SglangSliding::no;
  facts.states_recognised = row.states != SglangStates::no;
  return facts;
}

/// R26, R47. The layers that SGLang charges for a draft model: those of the draft that is named, else of the model itself where it
/// drafts for itself, else none.
inline std::optional<std::uint32_t> sglang_draft_layers(SglangModel const& target, sglang::Options const& options, SglangModel const* draft) {
  if (!sglang::has_draft_model(options)) return std::nullopt;
  if (draft) return draft->layers_as_draft;
  return target.drafts_itself ? std::optional{target.layers_as_draft} : std::nullopt;
}

}  // namespace kvbudget::inline v1::read
