// Kind hf-config EXPECTED.jsonl: the facts of each config.json, as facts/hf_config.md defines them.
#include "kinds.hpp"

#include <kvbudget/read/hf_config.hpp>
#include <kvbudget/size/estimate.hpp>

#include <set>

namespace conformance {

namespace {

using namespace kvbudget;

std::set<std::string> const not_facts{"file",       "model_id",   "model_type", "quality",       "text_path", "text_model_type",
                                      "confidence", "derivation", "notes",      "notes_context", "alt"};

bool is_attention(Part const& part) {
  return part.kind == PartKind::key || part.kind == PartKind::value || part.kind == PartKind::latent || part.kind == PartKind::latent_rope;
}

bool has(Layer const& layer, PartKind kind, Keeps keeps) {
  for (auto const& part : layer.parts)
    if (part.kind == kind && part.keeps == keeps) return true;
  return false;
}

/// Sums over all layers something that a part counts.
template <class OfPart>
double sum(LayerList const& layers, OfPart of_part) {
  double total = 0;
  for (std::size_t i = 0; i < layers.size(); ++i)
    for (auto const& part : layers[i].parts) total += of_part(part);
  return total;
}

template <class Test>
std::uint64_t count(LayerList const& layers, Test test) {
  std::uint64_t n = 0;
  for (std::size_t i = 0; i < layers.size(); ++i) n += test(layers[i]);
  return n;
}

/// Every fact the reader states of a model, by the names of expected.jsonl.
Json facts_of(read::HfModel const& model) {
  LayerList const& layers = model.spec.layers;
  auto const per_token = [&](Part const& part) { return static_cast<double>(part.entry_bytes(bf16).count) / part.tokens_per_entry; };
  auto const elements = [](Part const& part) { return double{1} * part.heads * part.width; };
  auto const kept = [&](PartKind kind, Keeps keeps) { return count(layers, [&](Layer const& layer) { return has(layer, kind, keeps); }); };
  auto const is_state = [](Layer const& layer) { return has(layer, PartKind::state, Keeps::fixed); };
  auto const is_conv = [&](Layer const& layer) { return has(layer, PartKind::conv_state, Keeps::fixed) && !is_state(layer); };
  auto const is_bare = [](Layer const& layer) { return layer.parts.empty() && !layer.shares_cache; };

  Json facts;
  facts["layers_total"] = model.layers;
  facts["full"] = kept(PartKind::key, Keeps::everything);
  facts["sliding"] = kept(PartKind::key, Keeps::window);
  facts["chunked"] = kept(PartKind::key, Keeps::chunk);
  facts["mla"] = kept(PartKind::latent, Keeps::everything);
  facts["swa_mla"] = kept(PartKind::latent, Keeps::window);
  facts["linear"] = count(layers, is_state);
  facts["conv"] = count(layers, is_conv);
  facts["cross"] = kept(PartKind::cross_key, Keeps::fixed);
  facts["shared"] = count(layers, [](Layer const& layer) { return layer.shares_cache; });
  facts["none"] = std::min(model.layers, count(layers, is_bare));

  // the heads and widths of the layers that grow, or else of those that slide
  std::set<std::uint64_t> heads;
  Json by_layer = Json::array();
  std::uint64_t width_k = model.attention.head_dim, width_v = model.attention.value_dim == 0 ? width_k : model.attention.value_dim;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    std::uint64_t latent = 0, of_layer = 0;
    for (auto const& part : layers[i].parts) {
      if (part.keeps == Keeps::everything && part.kind == PartKind::key) of_layer = part.heads;
      bool const is_latent = part.keeps == Keeps::everything && (part.kind == PartKind::latent || part.kind == PartKind::latent_rope);
      if (is_latent) latent += part.width;
    }
    if (of_layer != 0) heads.insert(of_layer);
    if (latent != 0) heads.insert(1), width_k = latent, width_v = 0;
    by_layer.push_back(of_layer);
  }
  if (model.attention.kv_heads != 0 && heads.empty()) heads.insert(model.attention.kv_heads);
  facts["kv_heads"] = model.model_type == "nemotron-nas" ? Json(heads) : heads.empty() ? Json(0) : Json(*heads.begin());
  facts["kv_heads_per_layer"] = by_layer;
  facts["head_dim_k"] = width_k;
  facts["head_dim_v"] = width_v;
  for (auto const& layer : layers.palette) {
    for (auto const& part : layer.parts) {
      bool const windowed = part.keeps == Keeps::window || part.keeps == Keeps::chunk;
      if (windowed) facts["window"] = part.span.count;
      if (windowed && part.kind == PartKind::key) facts["kv_heads_sliding"] = part.heads, facts["head_dim_sliding"][0] = part.width;
      if (windowed && part.kind == PartKind::value) facts["head_dim_sliding"][1] = part.width;
      if (part.kind == PartKind::compressor) facts["compress"] = Json::object();
    }
  }
  if (facts.contains("compress"))
    for (std::size_t i = 0; i < layers.size(); ++i) {
      std::string const ratio = layers[i].parts.size() > 1 ? std::to_string(layers[i].parts[1].tokens_per_entry) : "0";
      facts["compress"][ratio] = facts["compress"].value(ratio, 0) + 1;
    }

  facts["full_bpt"] = sum(layers, [&](Part const& part) { return is_attention(part) && part.keeps == Keeps::everything ? per_token(part) : 0; });
  facts["sliding_bpt"] =
      sum(layers, [&](Part const& part) { return is_attention(part) && (part.keeps == Keeps::window || part.keeps == Keeps::chunk) ? per_token(part) : 0; });
  facts["indexer_bpt"] = sum(layers, [&](Part const& part) { return part.kind == PartKind::indexer ? per_token(part) : 0; });
  std::uint64_t const indexers = kept(PartKind::indexer, Keeps::everything);
  facts["indexer_layers"] = indexers;
  facts["indexer_bpt_all_layers"] = indexers == 0 ? 0 : facts["indexer_bpt"].get<double>() / static_cast<double>(indexers) * static_cast<double>(model.layers);
  facts["fp8_ds_mla_bpt"] = sum(layers, [](Part const& part) {  // an entry of DeepSeek-V3.2 is 656 bytes, of V4 584 (vllm.md A7, A9)
    if (part.kind != PartKind::latent || part.keeps != Keeps::everything) return 0.0;
    return part.tokens_per_entry > 1 ? 584.0 / part.tokens_per_entry : 656.0;
  });
  auto const bytes = [&](PartKind kind) {
    return sum(layers, [&](Part const& part) { return part.kind == kind ? static_cast<double>(part.entry_bytes(bf16).count) : 0; });
  };
  facts["compressor_state_bytes"] = bytes(PartKind::compressor);
  facts["state_bytes"] = bytes(PartKind::state) + bytes(PartKind::conv_state);
  facts["state_bytes_ssm_fp32"] =
      bytes(PartKind::conv_state) + sum(layers, [&](Part const& part) { return part.kind == PartKind::state ? 4 * elements(part) : 0; });
  facts["cross_bytes_per_encoder_token"] = bytes(PartKind::cross_key) + bytes(PartKind::cross_value);
  facts["encoder_tokens"] = model.encoder_tokens ? Json(model.encoder_tokens->count) : Json(nullptr);
  facts["state_per_layer"] = Json::object();
  for (auto const& state : model.states) facts["state_per_layer"][state.name] = state.shape;
  if (facts["state_per_layer"].contains("ssm"))
    facts["state_per_layer"]["ssm_dtype"] = model.state_dtype.empty() ? "auto(=model dtype in vLLM)" : model.state_dtype;

  facts["dtype"] = model.dtype.empty() ? Json(nullptr) : Json(model.dtype);
  facts["context"] = model.context ? Json(model.context->count) : Json(nullptr);
  facts["mtp_layers"] = model.mtp_layers;
  if (model.kv_cache_scheme.is_object()) {
    facts["kv_cache_scheme"] = Json::object();
    for (auto const* key : {"num_bits", "type", "dynamic", "strategy"})
      if (model.kv_cache_scheme.contains(key)) facts["kv_cache_scheme"][key] = model.kv_cache_scheme[key];
    facts["kv_bits_from_checkpoint"] = model.kv_cache_scheme.value("num_bits", Json{});
  } else if (model.kv_cache_scheme.is_string()) {
    facts["kv_cache_scheme"] = model.kv_cache_scheme;
    facts["kv_bits_from_checkpoint"] = 8;
  }
  return facts;
}

}  // namespace

Cases hf_config(Options const& options) {
  return each_file(options, [&](std::string const& file, Json& expected, Case& one) {
    one.name = expected.at("file").get<std::string>();
    auto const path = std::filesystem::path{file}.parent_path() / one.name;
    if (!std::filesystem::exists(path)) throw std::runtime_error{path.string() + " is not there"};
    if (options.self_test && !perturb(expected, not_facts)) one.wrong("", "has no number to change");
    auto const model = kvbudget::read::try_hf_config(path, {.cache_dtype = kvbudget::bf16});
    if (!model) {
      one.refusal = model.refusal().message();
      return;
    }
    Json facts = facts_of(*model);
    // the dtype of a state is stated for the gated delta nets only
    if (expected.contains("state_per_layer") && !expected["state_per_layer"].contains("ssm_dtype")) facts["state_per_layer"].erase("ssm_dtype");
    one.compare_all(expected, facts, not_facts);
  });
}

}  // namespace conformance
