// A Hugging Face config.json becomes a CacheSpec, or a refusal that names the field.
//
//   auto const model = kvbudget::read::hf_config("Llama-3.1-8B/config.json");
//   kvbudget::kv_bytes(model.spec, 8'000_tokens);                           // 1'000 MiB
// Rules: facts/hf_config.md sections 1 to 3. Understood so far: the families in the table below, at top level or under
// `text_config`. A field that changes what layers keep, and that the family has no rule for, is refused, never ignored.
#pragma once

#include <kvbudget/model/model_spec.hpp>
#include <kvbudget/read/amount.hpp>
#include <kvbudget/read/json_fields.hpp>

#include <algorithm>
#include <array>
#include <vector>

namespace kvbudget::inline v1::read {

struct HfOptions {
  std::optional<DType> cache_dtype{};  // instead of what the file says; its dtype fields are then not read
};

struct HfModel {
  CacheSpec spec{};                  // at the cache's dtype: as told, as the checkpoint declares it, or the model's
  std::string model_type{};          // of the text model
  std::string text_path{};           // where it was found: "" or "text_config"
  std::uint32_t attention_heads{};   // query heads: what the KV heads would be without grouping
  std::optional<Tokens> context{};   // the longest sequence it was trained for, where the file says
  std::string dtype{};               // as the file spells it; empty: it does not say
  bool declares_cache_dtype{};       // the checkpoint declares a quantised cache (kv_cache_scheme)
  std::vector<std::string> notes{};  // what a reader of the numbers should know
};

/// Which layers slide, when the file has a `sliding_window`.
enum class WindowRule : std::uint8_t {
  none,           // the family has no windows: the key is refused
  every_layer,    // every layer, without a switch (Mistral 7B v0.1)
  behind_switch,  // layers from max_window_layers on, if use_sliding_window (Qwen 2 and 3)
};

struct HfFamily {
  std::string_view model_type;
  WindowRule windows;
};

inline constexpr std::array hf_families{
    HfFamily{"gemma", WindowRule::none},          HfFamily{"llama", WindowRule::none},          HfFamily{"mistral", WindowRule::every_layer},
    HfFamily{"mixtral", WindowRule::every_layer}, HfFamily{"qwen2", WindowRule::behind_switch}, HfFamily{"qwen3", WindowRule::behind_switch},
};

/// Keys that change what layers keep and that none of these families has a rule for.
inline constexpr std::array<std::string_view, 33> hf_layout_keys{
    "kv_lora_rank",
    "index_topk",
    "index_head_dim",
    "compress_ratios",
    "attention_chunk_size",
    "sliding_window_pattern",
    "_sliding_window_pattern",
    "hybrid_layer_pattern",
    "hybrid_override_pattern",
    "layers_block_type",
    "attn_type_list",
    "attn_layer_period",
    "full_attention_interval",
    "linear_attn_config",
    "mamba_d_state",
    "ssm_state_size",
    "conv_L_cache",
    "num_kv_shared_layers",
    "cross_attention_layers",
    "block_configs",
    "total_ut_steps",
    "loop_num",
    "global_head_dim",
    "num_global_key_value_heads",
    "v_head_dim",
    "swa_num_key_value_heads",
    "swa_head_dim",
    "attention_other_setting",
    "num_attention_groups",
    "multi_query_group_num",
    "sparse_attention_config",
    "efficient_attention_config",
    "cla_share_factor",
};

namespace detail {

inline HfFamily const& hf_family(Fields const& text) {
  std::string const type = text.text("model_type");
  auto const found = std::find_if(hf_families.begin(), hf_families.end(), [&](auto const& family) { return family.model_type == type; });
  if (found != hf_families.end()) return *found;
  std::string accepted, sets;
  for (auto const& family : hf_families) accepted += (accepted.empty() ? "" : ", ") + std::string{family.model_type};
  for (auto const key : hf_layout_keys)
    if (text.has(key)) sets += (sets.empty() ? "" : ", ") + text.name(key);
  throw text.refuse("model_type", Json(type), accepted,
                    sets.empty() ? "describe its layers as a CacheSpec" : "describe its layers as a CacheSpec: it sets " + sets + ", which is not understood");
}

inline std::optional<Tokens> hf_context(Fields const& text) {
  for (std::string_view const key : {"model_max_length", "max_position_embeddings", "n_positions", "max_seq_len", "seq_length", "max_sequence_length"})
    if (auto const length = text.count_if(key, 1, std::uint64_t{1} << 40)) return Tokens{*length};
  return std::nullopt;
}

/// The model's dtype as the file spells it, at the top or else in the text model; empty where it does not say.
inline std::string hf_dtype_name(Fields const& top, Fields const& text) {
  for (auto const* fields : {&top, &text})
    for (std::string_view const key : {"dtype", "torch_dtype"})
      if (auto name = fields->text_if(key)) return *std::move(name);
  return "";
}

/// A cache at the model's dtype. Checkpoints in float32, or that do not say, are served in two bytes (hf_config.md T26).
inline DType hf_model_dtype(Fields const& top, HfModel& model) {
  if (model.dtype == "bfloat16" || model.dtype == "float16") return bf16;
  if (!model.dtype.empty() && model.dtype != "float32")
    throw top.refuse("torch_dtype", Json(model.dtype), "bfloat16, float16, float32", "give the cache's dtype yourself (HfOptions::cache_dtype, or --dtype)");
  model.notes.push_back((model.dtype.empty() ? "the file names no dtype" : "the file's dtype is float32") +
                        std::string{": the cache is counted at 2 bytes an element, as servers run it"});
  return bf16;
}

/// A quantised cache that the checkpoint declares: quantization_config.kv_cache_scheme (hf_config.md section 5, J7).
inline std::optional<DType> hf_kv_cache_scheme(Fields const& top, Fields const& text) {
  auto const found = top.has("quantization_config") ? top.object_if("quantization_config") : text.object_if("quantization_config");
  if (!found) return std::nullopt;
  Fields const& config = *found;
  auto const* scheme = config.find("kv_cache_scheme");
  if (!scheme) return std::nullopt;
  bool const named = scheme->is_string() && (*scheme == "FP8" || *scheme == "fp8");
  bool const described = scheme->is_object() && scheme->value("num_bits", Json{}) == 8 && scheme->value("type", Json{}) == "float";
  if (!named && !described)
    throw config.refuse("kv_cache_scheme", *scheme, "\"FP8\", or num_bits 8 and type float",
                        "give the cache's dtype yourself (HfOptions::cache_dtype, or --dtype)");
  return fp8;
}

/// For each layer, whether it slides: as layer_types says, else by the family's rule.
inline std::vector<bool> hf_sliding(Fields const& text, HfFamily const& family, std::size_t layers) {
  std::vector<bool> sliding(layers, false);
  bool const has_window = text.has("sliding_window") && text.count("sliding_window", 0, std::uint64_t{1} << 40) != 0;
  bool const switched_on = family.windows == WindowRule::every_layer || text.flag_or("use_sliding_window", family.windows == WindowRule::none);
  if (text.has("layer_types")) {
    auto const& types = text.list("layer_types");
    if (types.size() != layers)
      throw text.refuse("layer_types", types, "one entry for each of the " + std::to_string(layers) + " layers", "make it as long as num_hidden_layers");
    for (std::size_t i = 0; i < layers; ++i) {
      sliding[i] = types[i] == "sliding_attention";
      if (!sliding[i] && types[i] != "full_attention")
        throw text.refuse("layer_types[" + std::to_string(i) + "]", types[i], "full_attention, sliding_attention", "describe its layers as a CacheSpec");
    }
    bool const any = std::find(sliding.begin(), sliding.end(), true) != sliding.end();
    if (any && !has_window) throw text.missing("sliding_window", "the window of the sliding layers, in tokens");
    if (any && !switched_on) throw text.refuse("use_sliding_window", Json(false), "true, where layer_types has sliding layers", "make the two fields agree");
    return sliding;
  }
  if (!has_window || !switched_on) return sliding;
  switch (family.windows) {
    case WindowRule::none:
      throw text.refuse("sliding_window", *text.find("sliding_window"), "no window in a " + std::string{family.model_type} + " model",
                        "describe its layers as a CacheSpec");
    case WindowRule::every_layer:
      sliding.assign(layers, true);
      break;
    case WindowRule::behind_switch: {
      std::size_t const first = text.count("max_window_layers", 0, std::uint64_t{1} << 20);
      for (std::size_t i = first; i < layers; ++i) sliding[i] = true;
    }
  }
  return sliding;
}

inline std::uint32_t hf_head_dim(Fields const& text, std::uint64_t heads) {
  if (auto const given = text.count_if("head_dim", 1, 65'536)) return static_cast<std::uint32_t>(*given);
  std::uint64_t const hidden = text.count("hidden_size", 1, std::uint64_t{1} << 24);
  if (hidden % heads != 0)
    throw text.refuse("hidden_size", Json(hidden), "a multiple of num_attention_heads (" + std::to_string(heads) + "), where head_dim is missing",
                      "add head_dim");
  return static_cast<std::uint32_t>(hidden / heads);
}

}  // namespace detail

/// From a parsed config; `input` names it in errors. Throws Error.
inline HfModel hf_config(Json const& config, std::string const& input, HfOptions const& options = {}) {
  Fields const top{config, input};
  auto const nested = top.object_if("text_config");
  Fields const& text = nested && nested->has("model_type") ? *nested : top;

  HfModel model;
  auto const& family = detail::hf_family(text);
  model.model_type = family.model_type;
  model.text_path = &text == &top ? "" : "text_config";
  for (auto const key : hf_layout_keys)
    if (text.has(key)) throw text.refuse(key, *text.find(key), "no such field in a " + model.model_type + " model", "describe its layers as a CacheSpec");

  auto const layers = static_cast<std::size_t>(text.count("num_hidden_layers", 1, max_layers));
  auto const heads = text.count("num_attention_heads", 1, 65'536);
  auto const kv_heads = static_cast<std::uint32_t>(text.count_if("num_key_value_heads", 1, 65'536).value_or(heads));
  if (heads % kv_heads != 0)
    throw text.refuse("num_key_value_heads", Json(kv_heads), "a divisor of num_attention_heads (" + std::to_string(heads) + ")", "correct the field");
  AttentionShape const shape{.kv_heads = kv_heads, .head_dim = detail::hf_head_dim(text, heads)};
  model.attention_heads = static_cast<std::uint32_t>(heads);
  model.context = detail::hf_context(text);
  model.dtype = detail::hf_dtype_name(top, text);
  if (options.cache_dtype) {
    model.spec.dtype = *options.cache_dtype;
  } else if (auto const declared = detail::hf_kv_cache_scheme(top, text)) {
    model.spec.dtype = *declared;
    model.declares_cache_dtype = true;
  } else {
    model.spec.dtype = detail::hf_model_dtype(top, model);
  }

  Tokens const window{text.count_if("sliding_window", 0, std::uint64_t{1} << 40).value_or(0)};
  bool const cuts = !model.context || window < *model.context;  // a window as long as the context never drops a token
  for (bool const slides : detail::hf_sliding(text, family, layers))
    model.spec.layers.append(slides && cuts ? sliding_window(shape, window) : full_attention(shape));
  return model;
}

/// From a file. Throws Error: not there, a directory, empty, not JSON, or a field that is missing, wrong or not understood.
inline HfModel hf_config(std::filesystem::path const& path, HfOptions const& options = {}) {
  return hf_config(parse_json(file_text(path), path.string()), path.string(), options);
}

/// The same, with the refusal as a value.
inline Result<HfModel> try_hf_config(std::filesystem::path const& path, HfOptions const& options = {}) {
  return attempt([&] { return hf_config(path, options); });
}

/// Bytes of the weights, from the model.safetensors.index.json beside a config (metadata.total_size); none where there is no
/// such file. Throws Error when the file is there and does not say.
inline std::optional<Bytes> weights_beside(std::filesystem::path const& config) {
  auto const index = config.parent_path() / "model.safetensors.index.json";
  if (!std::filesystem::exists(index)) return std::nullopt;
  Json const json = parse_json(file_text(index), index.string());
  auto const metadata = Fields{json, index.string()}.object_if("metadata");
  if (!metadata) throw Fields(json, index.string()).missing("metadata", "an object with total_size");
  // Some exporters write the count as a float: 16060522496.0.
  if (auto const* size = metadata->find("total_size"); size && size->is_number_float() && size->get<double>() >= 1 && size->get<double>() < 0x1p53)
    return Bytes{static_cast<std::uint64_t>(size->get<double>())};
  return Bytes{metadata->count("total_size", 1, std::uint64_t{1} << 53)};
}

}  // namespace kvbudget::inline v1::read
