// What a config.json says of a model's cache, and how a family of models is described to the reader.
//
// The layout is data: a family is a row, {model_type, layout, KV-head rule}, and a layout is a function from the text model's
// fields to layers. A key that changes what layers keep and that the layout has not read is refused, so that nothing a
// family does not know is lost. A user's own families go into HfOptions::families and are looked up first.
#pragma once

#include <kvbudget/model/model_spec.hpp>
#include <kvbudget/read/amount.hpp>
#include <kvbudget/read/json_fields.hpp>

#include <algorithm>
#include <set>
#include <span>
#include <vector>

namespace kvbudget::inline v1::read {

class HfText;

/// The layers of a model, in order.
using HfLayout = LayerList (*)(HfText& text);

/// KV heads of the model's attention.
using HfKvHeads = std::uint32_t (*)(HfText& text);

inline std::uint32_t hf_kv_heads(HfText& text);

/// What the family's configuration class fills in; 0: no default. A class may fill in each field that is missing, or stand in
/// for a nested config that has no sizes at all.
struct HfDefaults {
  std::uint32_t layers{};
  std::uint32_t heads{};
  std::uint32_t kv_heads{};
  std::uint32_t head_dim{};
  bool field_by_field{};
};

struct HfFamily {
  std::string_view model_type{};
  HfLayout layout{};
  HfKvHeads kv_heads{hf_kv_heads};
  HfDefaults defaults{};
};

struct HfOptions {
  std::optional<DType> cache_dtype{};    // instead of what the file says; its dtype fields are then not read
  std::optional<DType> state_dtype{};    // of recurrent states whose dtype the file leaves open; bf16 (vLLM) unless told, SGLang's is fp32
  std::span<HfFamily const> families{};  // the caller's own, looked up before the library's
};

/// A recurrent state of one layer, by its name in the field: "conv", "ssm", ...
struct HfState {
  std::string name;
  std::vector<std::uint64_t> shape;
};

struct HfModel {
  CacheSpec spec{};                        // at the cache's dtype: as told, as the checkpoint declares it, or the model's
  std::uint64_t mtp_layers{};              // MTP blocks, as the file counts them
  LayerList draft_layers{};                // what they keep: not in the spec; append them when speculative decoding is on
  std::string model_type{};                // of the text model
  std::string text_path{};                 // where it was found: "", "text_config", "thinker_config.text_config", ...
  std::uint64_t layers{};                  // as the file counts them; a looped model keeps more
  std::uint32_t attention_heads{};         // query heads: what the KV heads would be without grouping
  AttentionShape attention{};              // of the layers that grow; zeros where no layer has keys and values
  std::optional<Tokens> context{};         // the longest sequence it was trained for, where the file says
  std::optional<Tokens> encoder_tokens{};  // behind the cross-attention layers
  std::string dtype{};                     // as the file spells it; empty: it does not say
  bool declares_cache_dtype{};             // the checkpoint declares a quantised cache
  Json kv_cache_scheme{};                  // as the file has it; null: it does not
  std::vector<HfState> states{};           // of one recurrent layer
  std::string state_dtype{};               // of its recurrent part, as the file has it
  std::vector<std::string> notes{};        // what a reader of the numbers should know
};

/// Keys that change what layers keep. Whatever of them a layout has not read is refused.
// clang-format off
inline constexpr std::string_view hf_layout_keys[]{
    "kv_lora_rank", "index_topk", "index_head_dim", "indexer_types", "compress_ratios", "compress_rates", "attention_chunk_size", "sliding_window",
    "sliding_window_pattern", "_sliding_window_pattern", "hybrid_layer_pattern", "hybrid_override_pattern", "layers_block_type", "layer_types",
    "attn_type_list", "attn_layer_period", "attn_layer_indices", "full_attention_interval", "linear_attn_config", "mamba_d_state", "mamba_d_conv",
    "mamba_d_ssm", "ssm_state_size", "state_size", "conv_L_cache", "num_kv_shared_layers", "cross_attention_layers", "block_configs", "total_ut_steps",
    "loop_num", "global_head_dim", "num_global_key_value_heads", "v_head_dim", "swa_num_key_value_heads", "swa_head_dim", "attention_other_setting",
    "num_attention_groups", "multi_query_group_num", "sparse_attention_config", "efficient_attention_config", "use_cla", "multi_query", "attn_config",
    "linear_num_value_heads", "mamba_step", "block_types", "_block_types", "decoder_layers",
};
// clang-format on

/// The text model's fields, with the names the field has for the same thing, and a memory of what was read.
class HfText {
 public:
  HfText(Fields text, Fields top, HfOptions const& options, HfModel& model) : text_{std::move(text)}, top_{std::move(top)}, options_{options}, model_{model} {}

  // ---- reading, noted ----
  bool has(std::string_view key) { return note_read(key).has(key); }
  std::uint64_t count(std::string_view key, std::uint64_t most = most_count) { return note_read(key).count(key, 0, most); }
  std::uint64_t count_or(std::string_view key, std::uint64_t otherwise) { return note_read(key).count_if(key, 0, most_count).value_or(otherwise); }
  std::optional<std::uint64_t> count_if(std::string_view key) { return note_read(key).count_if(key, 0, most_count); }
  std::string text(std::string_view key) { return note_read(key).text(key); }
  std::optional<std::string> text_if(std::string_view key) { return note_read(key).text_if(key); }
  bool flag_or(std::string_view key, bool otherwise) { return note_read(key).flag_or(key, otherwise); }
  Json const& list(std::string_view key) { return note_read(key).list(key); }
  Fields object(std::string_view key) {
    auto found = note_read(key).object_if(key);
    if (!found) throw text_.missing(key, "an object");
    return *std::move(found);
  }
  Json const* find(std::string_view key) { return note_read(key).find(key); }
  /// Keys that look like a layout and are none here.
  void ignore(std::initializer_list<std::string_view> decoys) {
    for (auto const key : decoys) note_read(key);
  }
  /// The first of several keys that is there.
  std::optional<std::uint64_t> first_of(std::initializer_list<std::string_view> keys) {
    for (auto const key : keys)
      if (auto const found = count_if(key)) return found;
    return std::nullopt;
  }

  // ---- the same thing under its several names (hf_config.md section 2) ----
  std::uint64_t layers() {
    std::uint64_t found = 0;
    for (std::string_view const key : {"num_hidden_layers", "n_layer", "n_layers", "num_layers", "num_blocks"})
      if (found == 0 && text_.has(key)) found = note_read(key).count(key, 1, max_layers);
    for (std::string_view const key : {"layers_block_type", "block_configs"})
      if (found == 0 && text_.has(key)) found = list(key).size();
    if (found == 0 && text_.has("hybrid_override_pattern")) found = text("hybrid_override_pattern").size();
    if (found == 0) found = by_default(family_.defaults.layers).value_or(0);
    if (found == 0) throw text_.missing("num_hidden_layers", "a whole number from 1 to 512");
    if (found > max_layers) throw text_.refuse("num_hidden_layers", Json(found), "a whole number from 1 to 512", "correct the field");
    return found;
  }
  /// The layers as the file counts them: layers(), unless the layout says otherwise.
  std::uint64_t counted_layers() { return counted_ ? *counted_ : layers(); }
  void count_layers(std::uint64_t n) { counted_ = n; }
  std::uint32_t heads() { return positive({"num_attention_heads", "n_head", "n_heads", "num_heads"}, 65'536, by_default(family_.defaults.heads)); }
  std::uint64_t hidden() { return positive({"hidden_size", "n_embd", "n_embed", "d_model", "dim"}, 1U << 24); }
  std::uint32_t head_dim() {
    for (std::string_view const key : {"head_dim", "kv_channels", "attention_head_dim", "d_kv", "hidden_size_per_head"})
      if (text_.has(key)) return positive({key}, 65'536);
    if (auto const given = by_default(family_.defaults.head_dim)) return *given;
    if (hidden() % heads() != 0)
      throw text_.refuse("hidden_size", Json(hidden()), "a multiple of num_attention_heads (" + std::to_string(heads()) + "), where head_dim is missing",
                         "add head_dim");
    return static_cast<std::uint32_t>(hidden() / heads());
  }
  void use(HfFamily const& family) { family_ = family; }
  /// A class default, where the class has one and it applies.
  std::optional<std::uint32_t> by_default(std::uint32_t value) const {
    bool const no_sizes = !model_.text_path.empty() && !text_.has("num_hidden_layers") && !text_.has("num_attention_heads") && !text_.has("hidden_size");
    return value != 0 && (family_.defaults.field_by_field || no_sizes) ? std::optional{value} : std::nullopt;
  }
  HfDefaults const& defaults() const { return family_.defaults; }
  std::uint32_t kv_heads() { return family_.kv_heads(*this); }

  /// Keys and values of an ordinary layer of this model.
  AttentionShape attention() {
    model_.attention = {.kv_heads = kv_heads(), .head_dim = head_dim()};
    return model_.attention;
  }
  Tokens window(std::string_view key = "sliding_window") {
    std::uint64_t const tokens = count(key, std::uint64_t{1} << 40);
    if (tokens == 0) throw text_.refuse(key, Json(0), "1 token or more, where layers slide", "correct the field");
    return {tokens};
  }
  std::uint32_t small(std::string_view key) { return static_cast<std::uint32_t>(positive({key}, 1U << 24)); }
  std::uint32_t small_or(std::string_view key, std::uint32_t otherwise) { return text_.has(key) ? small(key) : otherwise; }

  /// The dtype of a recurrent part: what the file says under `key`, else what the caller wants, else `otherwise`.
  DType state_dtype(std::string_view key = "", DType otherwise = bf16) {
    if (auto const named = key.empty() ? std::nullopt : text_if(key); named && *named != "auto") {
      model_.state_dtype = *named;
      return dtype(*named, name(key), text_.input());
    }
    return options_.state_dtype.value_or(otherwise);
  }
  /// Notes the shape of a state and gives it to `recurrent`: heads are what tensor parallelism divides.
  StateShape state(std::string name, std::vector<std::uint64_t> shape, DType dtype) {
    bool const rows_first = name.rfind("conv", 0) == 0 || name == "shift";  // [kernel - 1, channels]
    std::uint64_t const heads = rows_first ? shape.back() : shape.front();
    std::uint64_t width = 1;
    for (auto const n : shape) width = saturating_multiply(width, n);
    width = heads == 0 ? 0 : width / heads;
    if (heads > 0xffff'ffff || width > 0xffff'ffff)
      throw text_.refuse(name, Json(shape), "a state of at most 2^32 elements a head", "correct the fields it is made of");
    bool known = false;
    for (auto const& other : model_.states) known = known || other.name == name;
    if (!known) model_.states.push_back({std::move(name), std::move(shape)});
    return {.heads = static_cast<std::uint32_t>(heads), .width = static_cast<std::uint32_t>(width), .dtype = dtype};
  }

  /// Layers from a rule for each: `layer(i)`.
  template <class OfLayer>
  LayerList each(std::uint64_t layers, OfLayer of_layer) {
    LayerList list;
    for (std::uint64_t i = 0; i < layers; ++i) list.append(LayerRun{of_layer(i)});
    return list;
  }
  /// One entry of a list that has one for each layer, or more where `longer` is allowed. Throws Error.
  Json const& per_layer(std::string_view key, std::uint64_t layers, bool longer = false) {
    auto const& values = list(key);
    if (values.size() < layers || (values.size() > layers && !longer))
      throw text_.refuse(key, Json(values.size()), "one entry for each of the " + std::to_string(layers) + " layers", "make it as long as the layers");
    return values;
  }
  Error not_understood(std::string_view key, std::uint64_t i, Json const& value, std::string accepted) {
    return text_.refuse(std::string{key} + "[" + std::to_string(i) + "]", value, std::move(accepted), "describe its layers as a CacheSpec");
  }

  void note(std::string text) { model_.notes.push_back(std::move(text)); }
  HfModel& model() { return model_; }
  Fields const& fields() const { return text_; }
  Fields const& top() const { return top_; }
  std::string name(std::string_view key) const { return text_.name(key); }

  /// Throws Error for a key that changes what layers keep and that nobody has read.
  void refuse_unread() const {
    for (auto const key : hf_layout_keys)
      if (text_.has(key) && !read_.contains(std::string{key}))
        throw text_.refuse(key, *text_.find(key), "no such field in a " + model_.model_type + " model", "describe its layers as a CacheSpec");
  }

 private:
  static constexpr std::uint64_t most_count = std::uint64_t{1} << 40;

  Fields const& note_read(std::string_view key) {
    read_.insert(std::string{key});
    return text_;
  }
  std::uint32_t positive(std::initializer_list<std::string_view> keys, std::uint64_t most, std::optional<std::uint32_t> otherwise = {}) {
    for (auto const key : keys)
      if (text_.has(key)) return static_cast<std::uint32_t>(note_read(key).count(key, 1, most));
    if (otherwise) return *otherwise;
    throw text_.missing(*keys.begin(), "a whole number from 1 to " + std::to_string(most));
  }

  Fields text_;
  Fields top_;
  HfOptions const& options_;
  HfModel& model_;
  HfFamily family_{};
  std::optional<std::uint64_t> counted_{};
  std::set<std::string> read_;
};

/// The usual rule: the first of the keys there are for it, else a KV head for every head (hf_config.md section 2).
inline std::uint32_t hf_kv_heads(HfText& text) {
  std::uint32_t const heads = text.heads();
  auto found = text.first_of({"num_key_value_heads", "n_head_kv", "num_kv_heads", "n_kv_heads"});
  if (!found) found = text.by_default(text.defaults().kv_heads);
  if (!found) return heads;
  if (*found == 0 || *found > heads || heads % *found != 0)
    throw text.fields().refuse("num_key_value_heads", Json(*found), "a divisor of num_attention_heads (" + std::to_string(heads) + ")", "correct the field");
  return static_cast<std::uint32_t>(*found);
}

}  // namespace kvbudget::inline v1::read
