// A Hugging Face config.json becomes a CacheSpec, or a refusal that names the field.
//
//   auto const model = kvbudget::read::hf_config("Llama-3.1-8B/config.json");
//   kvbudget::kv_bytes(model.spec, 8'000_tokens);                           // 1'000 MiB
// Rules: facts/hf_config.md. The text model is found where the file nests it; its family is a row in hf_families.hpp, or one
// of the caller's own; what the family's layout has no rule for is refused, never guessed and never ignored.
#pragma once

#include <kvbudget/read/hf_families.hpp>

#include <array>

namespace kvbudget::inline v1::read {

namespace detail {

/// Where the text model lives: the first of these that is a model, else the top (hf_config.md section 1). Right for every file, not as
/// one runtime looks for it: sglang_text.hpp has SGLang's own order (sglang.md R1).
inline constexpr std::array<std::string_view, 5> hf_text_paths{"thinker_config.text_config", "text_config", "llm_config", "language_config", "llm_cfg"};

inline std::optional<Fields> hf_nested(Fields const& top, std::string_view path) {
  auto const dot = path.find('.');
  auto const* value = top.find(path.substr(0, dot));
  if (!value || !value->is_object()) return std::nullopt;
  Fields const found{*value, top.input(), top.name(path.substr(0, dot))};
  if (dot != std::string_view::npos) return hf_nested(found, path.substr(dot + 1));
  return found.has("model_type") || found.has("num_hidden_layers") || found.has("hidden_size") ? std::optional{found} : std::nullopt;
}

/// The row of a model type; the caller's own first. DeepSeek's own files name no type and are known by their compress_ratios.
inline HfFamily const& hf_family(Fields const& text, Fields const& top, std::span<HfFamily const> own) {
  auto type = text.text_if("model_type");
  if (!type) type = top.text_if("model_type");
  if (type && !text.has("model_type"))
    for (auto const& wrapper : hf_wrappers)
      if (wrapper.model_type == *type) type = wrapper.text_type;
  if (!type && text.has("compress_ratios")) type = "deepseek_v4";
  if (!type) type = text.text("model_type");
  for (auto const rows : {own, std::span<HfFamily const>{hf_families}})
    for (auto const& family : rows)
      if (family.model_type == *type) return family;
  std::string accepted, sets;
  for (auto const& family : hf_families) accepted += (accepted.empty() ? "" : ", ") + std::string{family.model_type};
  for (auto const key : hf_layout_keys)
    if (text.has(key)) sets += (sets.empty() ? "" : ", ") + text.name(key);
  throw text.refuse("model_type", Json(*type), accepted,
                    "describe its layers as a CacheSpec, or give its family in HfOptions::families" +
                        (sets.empty() ? "" : ": it sets " + sets + ", which is not understood"));
}

inline std::optional<Tokens> hf_context(Fields const& text) {
  for (std::string_view const key :
       {"max_position_embeddings", "seq_length", "n_positions", "max_seq_len", "max_target_positions", "model_max_length", "max_sequence_length"})
    if (auto const length = text.count_if(key, 1, std::uint64_t{1} << 40)) return Tokens{*length};
  return std::nullopt;
}

/// The model's dtype as the file spells it, at the top or else in the text model; empty where it does not say.
inline std::string hf_dtype_name(Fields const& top, Fields const& text) {
  for (auto const* fields : {&top, &text})
    for (std::string_view const key : {"torch_dtype", "dtype"})
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

/// quantization_config.kv_cache_scheme, as the file has it (hf_config.md section 5, J7); null where there is none.
inline Json hf_kv_cache_scheme(Fields const& top, Fields const& text) {
  for (auto const* fields : {&top, &text}) {
    auto const config = fields->object_if("quantization_config");
    if (!config) continue;
    auto const* scheme = config->find("kv_cache_scheme");
    return scheme ? *scheme : Json{};
  }
  return {};
}

/// kv_cache_quant_algo of the hf_quant_config.json that ModelOpt writes beside a config, as a scheme; null where there is none.
inline Json hf_quant_beside(std::filesystem::path const& config) {
  auto const path = config.parent_path() / "hf_quant_config.json";
  if (!std::filesystem::exists(path)) return {};
  Json const json = parse_json(file_text(path), path.string());
  auto const quantization = Fields{json, path.string()}.object_if("quantization");
  auto const algorithm = quantization ? quantization->text_if("kv_cache_quant_algo") : std::nullopt;
  return algorithm && *algorithm != "none" ? Json(*algorithm) : Json{};
}

inline DType hf_scheme_dtype(Fields const& top, Json const& scheme) {
  bool const named = scheme.is_string() && (scheme == "FP8" || scheme == "fp8");
  if (scheme == "NVFP4") return nvfp4;
  bool const described = scheme.is_object() && scheme.value("num_bits", Json{}) == 8 && scheme.value("type", Json{}) == "float";
  if (!named && !described)
    throw top.refuse("quantization_config.kv_cache_scheme", scheme, "FP8, NVFP4, or num_bits 8 and type float",
                     "give the cache's dtype yourself (HfOptions::cache_dtype, or --dtype)");
  return fp8;
}

/// Blocks that predict further tokens (hf_config.md section 4): kept apart from the model's own layers.
inline std::uint64_t hf_mtp_layers(Fields const& top, Fields const& text) {
  for (auto const* fields : {&text, &top})
    for (std::string_view const key : {"num_nextn_predict_layers", "mtp_num_hidden_layers", "num_mtp_modules", "_num_mtp_layers"})
      if (auto const n = fields->count_if(key, 0, 64)) return *n;
  return 0;
}

/// What an MTP block keeps: as the model's last layer that keeps every token.
inline LayerList hf_draft_layers(LayerList const& layers, std::uint64_t count) {
  for (std::size_t i = layers.size(); i-- > 0 && count != 0;)
    for (auto const& part : layers[i].parts)
      if (part.keeps == Keeps::everything) return count * draft(layers[i]);
  return {};
}

}  // namespace detail

/// From a parsed config; `input` names it in errors, `quantised` is the cache's quantisation as a file beside it says. Throws Error.
inline HfModel hf_config(Json const& config, std::string const& input, HfOptions const& options = {}, Json const& quantised = {}) {
  Fields const top{config, input};
  HfModel model;
  std::optional<Fields> nested;
  for (auto const path : detail::hf_text_paths) {
    nested = detail::hf_nested(top, path);
    if (nested) model.text_path = path;
    if (nested) break;
  }
  Fields const& fields = nested ? *nested : top;
  HfFamily const& family = detail::hf_family(fields, top, options.families);
  model.model_type = family.model_type;
  model.context = detail::hf_context(fields);

  HfText text{fields, top, options, model};
  text.use(family);
  model.spec.layers = family.layout(text);
  text.refuse_unread();
  model.layers = text.counted_layers();
  bool keeps = model.layers == 0;  // an encoder alone
  for (auto const& layer : model.spec.layers.palette) keeps = keeps || !layer.parts.empty();
  if (!keeps)
    throw fields.refuse("model_type", Json(model.model_type), "a model one of whose layers keeps keys and values, a latent or a state",
                        "check the lists of its layers");
  if (auto const heads = text.first_of({"num_attention_heads", "n_head", "n_heads", "num_heads"}))
    model.attention_heads = static_cast<std::uint32_t>(std::min<std::uint64_t>(*heads, 65'536));
  model.mtp_layers = detail::hf_mtp_layers(top, fields);
  if (model.draft_layers.size() != model.mtp_layers) model.draft_layers = detail::hf_draft_layers(model.spec.layers, model.mtp_layers);

  model.dtype = detail::hf_dtype_name(top, fields);
  model.kv_cache_scheme = detail::hf_kv_cache_scheme(top, fields);
  if (model.kv_cache_scheme.is_null()) model.kv_cache_scheme = quantised;
  if (options.cache_dtype) {
    model.spec.dtype = *options.cache_dtype;
  } else if (!model.kv_cache_scheme.is_null()) {
    model.spec.dtype = detail::hf_scheme_dtype(top, model.kv_cache_scheme);
    model.declares_cache_dtype = true;
  } else {
    model.spec.dtype = detail::hf_model_dtype(top, model);
  }
  detail::refuse_bad(check(model.spec), input);
  return model;
}

/// From a file. Throws Error: not there, a directory, empty, not JSON, or a field that is missing, wrong or not understood.
inline HfModel hf_config(std::filesystem::path const& path, HfOptions const& options = {}) {
  return hf_config(parse_json(file_text(path), path.string()), path.string(), options, detail::hf_quant_beside(path));
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
