// A config.json as SGLang's configuration classes hold it: the text model found, its keys renamed, their defaults filled in
// (facts: sglang.md R1, R5), and the row of its architecture.
//
// A GPT-2's n_embd is its hidden_size, a Gemma-4's head_dim its sliding layers'.
#pragma once

#include <kvbudget/read/sglang_architectures.hpp>
#include <kvbudget/size/sglang.hpp>

#include <algorithm>
#include <vector>

namespace kvbudget::inline v1::read {

struct SglangReadOptions {
  std::optional<Tokens> context_length{};        // --context-length
  std::optional<Tokens> window{};                // what the loaded model reports: gpt-oss and Gemma say sliding_window - 1 (R43)
  std::optional<sglang::CacheType> ssm_dtype{};  // --mamba-ssm-dtype
  std::uint32_t compute_capability{90};          // below 80, weights run in float16 (R8)
};

namespace detail {

inline constexpr SglangArchitecture sglang_plain{};

inline SglangArchitecture const& sglang_row(std::string_view name) {
  for (auto const& row : sglang_architectures)
    if (row.name == name) return row;
  return sglang_plain;
}

/// R1. Where the text model is: its key, or "" for the top. SGLang's own order, without a look at what is inside; the order in
/// hf_config.hpp is for any runtime, takes only what is a model, and knows VILA's llm_cfg.
inline std::string sglang_text_path(Json const& config) {
  for (std::string const key : {"thinker_config", "llm_config", "language_config", "text_config"})
    if (config.contains(key) && config[key].is_object()) return key;
  return "";
}

/// A nested config that says nothing of its size: its class's defaults stand (hf_config.md T13).
inline bool sglang_has_no_sizes(Json const& text) {
  for (auto const* key : {"num_hidden_layers", "num_attention_heads", "hidden_size"})
    if (text.contains(key) && !text[key].is_null()) return false;
  return true;
}

/// R1. The text model's fields, with the names and defaults of SGLang's own configuration classes.
inline Json sglang_text(Json const& config, std::string const& path) {
  Json text = path.empty() ? config : config[path];
  if (path == "thinker_config" && text.contains("text_config") && text["text_config"].is_object()) text = Json(text["text_config"]);
  std::string const type = text.value("model_type", Json{}).is_string() ? text["model_type"].get<std::string>() : "";
  auto const missing = [&](std::string_view key) { return !text.contains(std::string{key}) || text[std::string{key}].is_null(); };
  if (path.empty() && type == "step3p7") {
    text = Json::object();
    for (auto const& known : sglang_step3p7_flat) text[std::string{known.key}] = known.value;
  }
  bool const without_sizes = !path.empty() && sglang_has_no_sizes(text);
  for (auto const& known : sglang_defaults)
    if (known.model_type == type && missing(known.key) && (without_sizes || !known.only_without_sizes)) text[std::string{known.key}] = known.value;
  for (auto const& alias : sglang_aliases)
    for (auto const model_type : alias.model_types)
      if (model_type == type && missing(alias.key) && !missing(alias.in_file)) text[std::string{alias.key}] = Json(text[std::string{alias.in_file}]);
  return text;
}

/// Python's `a or b`: zero is as good as nothing.
inline std::optional<std::uint64_t> sglang_some(std::optional<std::uint64_t> value) { return value && *value != 0 ? value : std::nullopt; }

class SglangText {
 public:
  SglangText(Json const& config, std::string const& input, SglangReadOptions const& options)
      : options_{options},
        path_{sglang_text_path(config)},
        json_(sglang_text(config, path_)),
        top_{config, input},
        text_{json_, input, path_},
        type_{text_.text_if("model_type").value_or("")},
        architecture_{architecture()},
        row_{&sglang_row(architecture_)} {
    if (row_->own_dims_slide) rename_global_dims();
  }
  SglangText(SglangText const&) = delete;  // text_ looks at json_
  SglangText& operator=(SglangText const&) = delete;

 protected:
  static constexpr std::uint64_t most_ = 1U << 26;

  std::optional<std::uint64_t> small(std::string_view key) const { return text_.count_if(key, 0, most_); }
  std::uint32_t must(std::string_view key) const { return static_cast<std::uint32_t>(text_.count(key, 0, most_)); }
  std::uint32_t must(Fields const& of, std::string_view key) const { return static_cast<std::uint32_t>(of.count(key, 0, most_)); }

  std::string architecture() const {
    if (top_.text_if("model_type") == "multi_modality") return "MultiModalityCausalLM";
    Json const& list = top_.list("architectures");
    if (list.empty() || !list[0].is_string()) throw top_.refuse("architectures", list, "a list of one name", "name the architecture that SGLang is to run");
    return list[0].get<std::string>();
  }

  /// A list of layer kinds, each of them one that SGLang's configuration class knows.
  std::vector<std::string> names(std::string_view key, std::vector<std::string_view> const& known) const {
    std::vector<std::string> found;
    for (auto const& name : text_.list(key)) {
      if (!name.is_string() || std::find(known.begin(), known.end(), name.get_ref<std::string const&>()) == known.end())
        throw text_.refuse(std::string{key} + "[" + std::to_string(found.size()) + "]", name, listing(known), "spell the layers as SGLang does");
      found.push_back(name.get<std::string>());
    }
    if (found.size() > sglang::most_layers) throw text_.refuse(key, Json(found.size()), "at most 4096 layers", "check the list");
    return found;
  }

  static std::string listing(std::vector<std::string_view> const& words) {
    std::string text;
    for (auto const word : words) text += (text.empty() ? "" : ", ") + std::string{word};
    return text;
  }

  sglang::LayerIds where(std::vector<std::string> const& kinds, std::initializer_list<std::string_view> wanted) const {
    sglang::LayerIds ids;
    for (std::size_t i = 0; i < kinds.size(); ++i)
      for (auto const kind : wanted)
        if (kinds[i] == kind) ids.push_back(static_cast<std::uint32_t>(i));
    return ids;
  }

  /// Layers i of the first `count` for which `test` holds.
  template <class Test>
  static sglang::LayerIds layers_where(std::uint32_t count, Test test) {
    sglang::LayerIds ids;
    for (std::uint32_t i = 0; i < count; ++i)
      if (test(i)) ids.push_back(i);
    return ids;
  }

  /// Which of the layers a list of numbers names, where the first layer has the number `first`.
  static std::vector<bool> listed(Fields const& of, std::string_view key, std::uint32_t layers, std::int64_t first) {
    std::vector<bool> found(layers, false);
    for (auto const& item : of.list(key)) {
      if (!item.is_number_integer()) throw of.refuse(key, item, "numbers of layers", "correct the list");
      auto const number = item.get<std::int64_t>();
      if (number >= first && number < first + std::int64_t{layers}) found[static_cast<std::size_t>(number - first)] = true;
    }
    return found;
  }

  SglangReadOptions options_;
  std::string path_;
  Json json_;
  Fields top_;
  Fields text_;
  std::string type_;
  std::string architecture_;
  SglangArchitecture const* row_;

 private:
  /// R5. Gemma-4's own values are its sliding layers'; the global_ ones are the full layers'.
  void rename_global_dims() {
    auto const move = [&](std::string const& from, std::string const& to) {
      if (json_.contains(from) && !json_[from].is_null()) json_[to] = Json(json_[from]);
    };
    move("head_dim", "swa_head_dim");
    move("head_dim", "swa_v_head_dim");
    move("num_key_value_heads", "swa_num_key_value_heads");
    move("global_head_dim", "head_dim");
    move("num_global_key_value_heads", "num_key_value_heads");
  }
};

}  // namespace detail
}  // namespace kvbudget::inline v1::read
