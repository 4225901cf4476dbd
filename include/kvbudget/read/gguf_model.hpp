// A GGUF file becomes a CacheSpec, layers in order, or a refusal that names the key.
//
// Rules: facts/llama_cpp.md R5 to R18 and section 10. An architecture is a row in gguf_architectures.hpp: which layers slide,
// which are recurrent, whether its attention may keep latents, and where its indexer keys lie.
#pragma once

#include <kvbudget/model/model_spec.hpp>
#include <kvbudget/read/gguf.hpp>
#include <kvbudget/read/gguf_architectures.hpp>

#include <algorithm>

namespace kvbudget::inline v1::read {

struct GgufModel {
  CacheSpec spec{};          // of the model's own layers, in f16 unless spec.dtype is changed; states are f32 always
  LayerList draft_layers{};  // NextN blocks: kept apart
  std::string architecture{};
  Tokens context{};
  std::optional<Bytes> weights{};         // of the described tensors, where this file has all of them
  std::uint64_t blocks{};                 // block_count, NextN blocks and loops included
  std::uint64_t layers{};                 // without the NextN blocks
  std::vector<std::uint64_t> kv_heads{};  // of each block
  std::vector<bool> slides{};             // of each block
  std::vector<bool> recurs{};             // of each block
  bool keeps_latents{};                   // MLA: no V
  std::uint64_t head_k{};                 // elements of a key head of the layers that keep every token, and of those that slide
  std::uint64_t head_v{};
  std::uint64_t head_k_swa{};
  std::uint64_t head_v_swa{};
  bool windows{};          // whether blocks may slide
  std::uint64_t window{};  // 0 where the architecture switches it off
  std::uint64_t ssm_conv_kernel{};
  std::uint64_t ssm_inner{};
  std::uint64_t ssm_state{};
  std::uint64_t ssm_groups{};
};

namespace detail {

/// The hyper-parameters of a file's architecture, by their keys without the prefix.
class GgufKeys {
 public:
  GgufKeys(GgufFile const& file, std::string input) : file_{file}, input_{std::move(input)} {
    auto const found = file.values.find("general.architecture");
    if (found == file.values.end() || found->second.type != GgufType::string)
      throw refuse("general.architecture", "missing", "the name of an architecture", "check that this is the first shard of a model");
    architecture_ = found->second.text;
  }

  std::string const& architecture() const { return architecture_; }
  std::string name(std::string_view key) const { return architecture_ + "." + std::string{key}; }
  GgufValue const* find(std::string_view key) const {
    auto const found = file_.values.find(name(key));
    return found == file_.values.end() ? nullptr : &found->second;
  }
  bool has(std::string_view key) const { return find(key) != nullptr; }

  /// Any whole number serves; llama.cpp itself takes u32 only.
  std::optional<std::uint64_t> count_if(std::string_view key) const {
    auto const* value = find(key);
    if (!value) return std::nullopt;
    bool const whole = value->type == GgufType::u32 || value->type == GgufType::i32 || value->type == GgufType::u16 || value->type == GgufType::i16 ||
                       value->type == GgufType::u64 || value->type == GgufType::i64 || value->type == GgufType::u8 || value->type == GgufType::i8;
    if (!whole || value->number < 0 || value->number > most)
      throw refuse(name(key), whole ? std::to_string(value->number) : "not a whole number", "a whole number from 0 to 2^32 - 1", "convert the model again");
    return static_cast<std::uint64_t>(value->number);
  }
  std::uint64_t count_or(std::string_view key, std::uint64_t otherwise) const { return count_if(key).value_or(otherwise); }
  std::uint64_t count(std::string_view key) const {
    auto const found = count_if(key);
    if (!found) throw refuse(name(key), "missing", "a whole number", "convert the model again");
    return *found;
  }
  /// A number for each of `n` blocks: a scalar for all, or an array of exactly n.
  std::vector<std::uint64_t> per_block(std::string_view key, std::uint64_t n, std::uint64_t otherwise) const {
    auto const* value = find(key);
    if (!value || value->type != GgufType::array) return std::vector<std::uint64_t>(n, value ? count(key) : otherwise);
    bool const fits = value->element == GgufType::u32 || value->element == GgufType::i32 || value->element == GgufType::boolean;
    if (!fits) throw refuse(name(key), "an array of another type", "an array of u32, i32 or booleans", "convert the model again");
    if (value->count != n)
      throw refuse(name(key), "an array of " + std::to_string(value->count), "one entry for each of the " + std::to_string(n) + " blocks",
                   "convert the model again");
    std::vector<std::uint64_t> numbers;
    for (auto const number : value->numbers) {
      if (number < 0 || number > most) throw refuse(name(key), std::to_string(number), "whole numbers from 0 to 2^32 - 1", "convert the model again");
      numbers.push_back(static_cast<std::uint64_t>(number));
    }
    return numbers;
  }
  bool is_array(std::string_view key) const { return has(key) && find(key)->type == GgufType::array; }

  Error refuse(std::string field, std::string value, std::string accepted, std::string next) const {
    return Error{{input_, std::move(field), std::move(value), std::move(accepted), std::move(next)}};
  }
  bool has_tensor(std::string const& tensor) const { return file_.tensor_names.contains(tensor); }

 private:
  static constexpr std::int64_t most = 0xffff'ffff;

  GgufFile const& file_;
  std::string input_;
  std::string architecture_;
};

inline GgufArchitecture const& gguf_architecture(GgufKeys const& keys) {
  std::string accepted;
  for (auto const& row : gguf_architectures) {
    if (row.name == keys.architecture()) return row;
    accepted += (accepted.empty() ? "" : ", ") + std::string{row.name};
  }
  throw keys.refuse("general.architecture", "\"" + keys.architecture() + "\"", accepted, "describe its layers as a CacheSpec");
}

/// R14: which blocks slide, and how far they look back.
inline void gguf_windows(GgufKeys const& keys, GgufArchitecture const& row, GgufModel& model) {
  model.slides.assign(model.blocks, false);
  std::uint64_t const given = keys.count_or("attention.sliding_window", 0);
  bool on = false;
  switch (row.slides) {
    case GgufSlides::never:
      break;
    case GgufSlides::always:
      on = true;
      break;
    case GgufSlides::if_given:
      on = given > 0;
      break;
    case GgufSlides::unless_zero:
      on = !(keys.has("attention.sliding_window") && given == 0);
      break;
    case GgufSlides::of_64_layers:
      on = model.layers == 64;
      break;
  }
  if (!on) return;
  model.windows = true;
  model.window = row.forced_window != 0 ? row.forced_window : keys.has("attention.sliding_window") ? given : row.default_window;
  if (model.window == 0 && !keys.has("attention.sliding_window"))
    throw keys.refuse(keys.name("attention.sliding_window"), "missing", "the window of the layers that slide", "convert the model again");
  if (row.pattern == gguf_pattern_attention || row.pattern == gguf_pattern_all) {  // NextN blocks too
    for (std::uint64_t i = 0; i < model.blocks; ++i) model.slides[i] = row.pattern == gguf_pattern_all || model.kv_heads[i] > 0;
    return;
  }
  if (keys.is_array("attention.sliding_window_pattern")) {
    auto const pattern = keys.per_block("attention.sliding_window_pattern", model.blocks, 0);
    for (std::size_t i = 0; i < pattern.size(); ++i) model.slides[i] = pattern[i] != 0;
    return;
  }
  if (row.pattern == gguf_pattern_in_file && !keys.has("attention.sliding_window_pattern"))
    throw keys.refuse(keys.name("attention.sliding_window_pattern"), "missing", "an array of one entry for each block", "convert the model again");
  std::uint64_t const n = keys.count_or("attention.sliding_window_pattern", row.pattern);
  for (std::uint64_t i = 0; i < model.layers; ++i) model.slides[i] = n == 0 || (row.dense_first ? i % n != 0 : i % n < n - 1);
}

/// R16: which blocks are recurrent.
inline void gguf_recurrence(GgufKeys const& keys, GgufArchitecture const& row, GgufModel& model) {
  model.recurs.assign(model.blocks, false);
  auto const feed_forward =
      row.recurs == GgufRecurs::where_no_heads_and_no_ff ? keys.per_block("feed_forward_length", model.blocks, 0) : std::vector<std::uint64_t>(model.blocks, 0);
  std::uint64_t const interval = std::max<std::uint64_t>(keys.count_or("full_attention_interval", row.interval), 1);
  auto const listed =
      keys.is_array("attention.recurrent_layers") ? keys.per_block("attention.recurrent_layers", model.blocks, 0) : std::vector<std::uint64_t>{};
  for (std::uint64_t i = 0; i < model.layers; ++i) {
    switch (row.recurs) {
      case GgufRecurs::never:
        break;
      case GgufRecurs::always:
      case GgufRecurs::beside_attention:
        model.recurs[i] = true;
        break;
      case GgufRecurs::where_no_heads:
        model.recurs[i] = model.kv_heads[i] == 0;
        break;
      case GgufRecurs::where_no_heads_and_no_ff:
        model.recurs[i] = model.kv_heads[i] == 0 && feed_forward[i] == 0;
        break;
      case GgufRecurs::by_interval:
        model.recurs[i] = listed.empty() ? (i + 1) % interval != 0 : listed[i] != 0;
        break;
    }
  }
}

/// R15: f32 elements of the two states of a recurrent block.
struct GgufState {
  std::uint64_t conv{};
  std::uint64_t state{};
};

inline GgufState gguf_state_elements(GgufKeys const& keys, GgufArchitecture const& row, GgufModel const& model) {
  std::uint64_t const embedding = keys.count("embedding_length"), heads = keys.per_block("attention.head_count", model.blocks, 0).front();
  std::uint64_t const rows = model.ssm_conv_kernel > 0 ? model.ssm_conv_kernel - 1 : 0;
  GgufState of{.conv = saturating_multiply(rows, saturating_add(model.ssm_inner, saturating_multiply(2 * model.ssm_groups, model.ssm_state))),
               .state = saturating_multiply(model.ssm_state, model.ssm_inner)};
  if (auto const size = keys.count_or("wkv.head_size", 0); size != 0) {
    of.conv = saturating_multiply(keys.count_or("token_shift_count", 2), embedding);
    of.state = saturating_multiply(embedding, size);
  } else if (auto const cache = keys.count_or("shortconv.l_cache", 0); cache != 0) {
    of = {.conv = saturating_multiply(embedding, cache - 1)};
  } else if (auto const dim = keys.count_or("kda.head_dim", 0); dim != 0) {
    of.conv = saturating_multiply(3 * (model.ssm_conv_kernel > 0 ? rows : 3), saturating_multiply(heads, dim));
    of.state = saturating_multiply(saturating_multiply(dim, dim), heads);
  } else if (row.lightning) {
    of = {.state = saturating_multiply(saturating_multiply(model.head_k, model.head_k), heads)};
  }
  if (of.conv > 0xffff'ffff || of.state > 0xffff'ffff || of.conv + of.state == 0)
    throw keys.refuse(keys.name("ssm.*"), "a state of " + std::to_string(saturating_add(of.conv, of.state)) + " elements", "1 to 2^32 elements",
                      "check the ssm, wkv, kda or shortconv keys");
  return of;
}

inline Layer gguf_state(GgufKeys const& keys, GgufArchitecture const& row, GgufModel const& model) {
  auto const of = gguf_state_elements(keys, row, model);
  return recurrent(
      {.conv = {.width = static_cast<std::uint32_t>(of.conv), .dtype = fp32}, .state = {.width = static_cast<std::uint32_t>(of.state), .dtype = fp32}});
}

/// R15: elements of the third state, of per-layer embeddings, on the layers that ple.layers names; 0 on others.
inline std::uint64_t gguf_embedding_elements(GgufKeys const& keys, std::uint64_t i) {
  auto const* listed = keys.find("ple.layers");
  if (!listed || std::find(listed->numbers.begin(), listed->numbers.end(), static_cast<std::int64_t>(i)) == listed->numbers.end()) return 0;
  std::uint64_t const rows = saturating_subtract(keys.count_or("ple.conv_kernel", 0), 1);
  std::uint64_t const elements = saturating_multiply(saturating_multiply(rows, keys.count_or("ple.ngram_size", 0)),
                                                     saturating_multiply(keys.count_or("hyper_connection.count", 0), keys.count("embedding_length")));
  if (elements == 0 || elements > 0xffff'ffff)
    throw keys.refuse(keys.name("ple.*"), "a state of " + std::to_string(elements) + " elements", "1 to 2^32 elements", "check the ple keys");
  return elements;
}

inline Layer gguf_with_embeddings(GgufKeys const& keys, Layer layer, std::uint64_t i) {
  std::uint64_t const elements = gguf_embedding_elements(keys, i);
  return elements == 0 ? layer : parallel(layer, recurrent({.conv = {.width = static_cast<std::uint32_t>(elements), .dtype = fp32}}));
}

/// R9: whether a block keeps a cache of its own: Gemma 3n's first ones, Gemma 4's all but the last.
inline bool gguf_keeps_own(GgufKeys const& keys, GgufArchitecture const& row, GgufModel const& model, std::uint64_t i) {
  if (row.from_start != 0 && i >= row.from_start) return false;
  return !row.shares_tail || i + keys.count_or("attention.shared_kv_layers", 0) < model.blocks;
}

/// R8, R17: whether a block's indexer keeps keys.
inline bool gguf_indexes(GgufKeys const& keys, GgufArchitecture const& row, GgufModel const& model, std::uint64_t i) {
  switch (row.indexer) {
    case GgufIndexer::none:
      return false;
    case GgufIndexer::every_layer:
      return true;
    case GgufIndexer::attention_layers:
      return !model.recurs[i];
    case GgufIndexer::after_dense:
      return i >= keys.count_or("leading_dense_block_count", 0);
    case GgufIndexer::full_types: {
      if (keys.has("attention.indexer.types")) {
        auto const* types = keys.find("attention.indexer.types");
        if (types->type != GgufType::array || i >= types->numbers.size())
          throw keys.refuse(keys.name("attention.indexer.types"), "of " + std::to_string(types->count) + " entries", "one entry for each block",
                            "convert the model again");
        return types->numbers[i] != 0;
      }
      // GLM without the key: every layer, but 5.2 and later, known by their context, the first three and then every fourth
      return !row.fewer_indexers_when_long || model.context.count < 1'048'576 || i < 3 || (i - 2) % 4 == 0;
    }
  }
  return false;
}

inline std::uint32_t gguf_width(GgufKeys const& keys, std::uint64_t width) {
  if (width > 0xffff'ffff) throw keys.refuse(keys.name("attention.key_length"), std::to_string(width), "at most 2^32 - 1", "convert the model again");
  return static_cast<std::uint32_t>(width);
}

/// What block i keeps, NextN blocks included.
inline Layer gguf_layer(GgufKeys const& keys, GgufArchitecture const& row, GgufModel const& model, std::uint64_t i) {
  if (row.keeps_nothing) return no_cache();
  if (!gguf_keeps_own(keys, row, model, i)) return shared_cache();
  bool const beside = row.recurs == GgufRecurs::beside_attention;
  if (model.recurs[i] && !beside) return gguf_with_embeddings(keys, gguf_state(keys, row, model), i);
  if (row.recurs == GgufRecurs::where_no_heads_and_no_ff && keys.per_block("feed_forward_length", model.blocks, 0)[i] != 0) return no_cache();
  if (model.kv_heads[i] == 0) return beside && model.recurs[i] ? gguf_state(keys, row, model) : no_cache();  // R6: a stored layer of 0 bytes

  if (model.slides[i] && model.window == 0)
    throw keys.refuse(keys.name("attention.sliding_window"), "0", "the tokens a layer that slides looks back on", "convert the model again");
  if (row.compresses) {  // R17c: DeepSeek-V4
    auto const ratios = keys.per_block("attention.compress_ratios", model.blocks, 0);
    std::uint64_t const width = model.head_k, entry = model.head_k_swa, index = keys.count_or("attention.indexer.key_length", 128);
    std::uint64_t const state = ratios[i] == 4 ? 8 * 2 * (2 * width + 2 * index) : 2 * 128 * width;
    if (ratios[i] > 65'535) throw keys.refuse(keys.name("attention.compress_ratios"), std::to_string(ratios[i]), "at most 65535", "convert the model again");
    return compressed_attention({.width = gguf_width(keys, entry),
                                 .window = {model.window},
                                 .ratio = static_cast<std::uint32_t>(ratios[i]),
                                 .index_width = ratios[i] == 4 ? gguf_width(keys, index) : 0,
                                 .state_elements = gguf_width(keys, state)});
  }

  std::uint64_t const k = model.slides[i] ? model.head_k_swa : model.head_k, v = model.slides[i] ? model.head_v_swa : model.head_v;
  Layer layer;
  if (model.keeps_latents) {
    std::uint64_t const latent = std::min(keys.count_or("attention.kv_lora_rank", k), k);
    layer = latent_attention({.latent = gguf_width(keys, latent), .rope = gguf_width(keys, k - latent)});
    for (auto& part : layer.parts) {
      part.heads = gguf_width(keys, model.kv_heads[i]);
      if (model.slides[i]) part.keeps = Keeps::window, part.span = {model.window};
    }
  } else {
    AttentionShape const shape{.kv_heads = gguf_width(keys, model.kv_heads[i]), .head_dim = gguf_width(keys, k), .value_dim = gguf_width(keys, v)};
    layer = model.slides[i] ? row.chunked ? chunked_attention(shape, {model.window}) : sliding_window(shape, {model.window}) : full_attention(shape);
  }
  if (!model.keeps_latents && v == 0) layer.parts = {layer.parts[0]};  // keys alone
  if (gguf_indexes(keys, row, model, i)) layer = with_indexer(layer, gguf_width(keys, keys.count("attention.indexer.key_length")), DType{});
  return beside && i < model.layers ? parallel(layer, gguf_state(keys, row, model)) : layer;
}

/// Everything about a model but its layers: which block slides or recurs, heads, head sizes, state sizes.
inline GgufModel gguf_facts(GgufKeys const& keys, GgufArchitecture const& row) {
  GgufModel model{.architecture = keys.architecture(), .context = {keys.count("context_length")}};
  model.blocks = keys.count("block_count");
  std::uint64_t nextn = keys.count_or("nextn_predict_layers", 0);  // R10
  if (row.compresses && nextn != 0 && !keys.has_tensor("blk." + std::to_string(model.blocks - 1) + ".nextn.eh_proj.weight")) nextn = 0;
  if (model.blocks == 0 || model.blocks > max_layers || nextn >= model.blocks)
    throw keys.refuse(keys.name("block_count"), std::to_string(model.blocks), "1 to 512 blocks, and fewer NextN blocks than that", "convert the model again");
  model.layers = model.blocks - nextn;
  if (keys.count_or("attention.shared_kv_layers", 0) >= model.blocks)
    throw keys.refuse(keys.name("attention.shared_kv_layers"), std::to_string(keys.count("attention.shared_kv_layers")), "fewer than the blocks",
                      "convert the model again");

  auto const heads = keys.per_block("attention.head_count", model.blocks, 0);
  model.kv_heads = heads;
  if (keys.has("attention.head_count_kv")) model.kv_heads = keys.per_block("attention.head_count_kv", model.blocks, 0);
  std::uint64_t const embedding = keys.count("embedding_length");
  std::uint64_t const by_division = heads.front() == 0 ? 0 : embedding / heads.front();  // no head: no head size, and no division by it
  model.head_k = keys.count_or("attention.key_length", by_division);
  model.head_v = keys.count_or("attention.value_length", by_division);
  model.head_k_swa = keys.count_or("attention.key_length_swa", model.head_k);
  model.head_v_swa = keys.count_or("attention.value_length_swa", model.head_v);
  if (row.latent_wide_values) model.head_v = keys.count("attention.kv_lora_rank");
  model.keeps_latents = row.may_keep_latents && keys.count_or("attention.key_length_mla", 0) != 0 && keys.count_or("attention.value_length_mla", 0) != 0;  // R8
  model.ssm_conv_kernel = keys.count_or("ssm.conv_kernel", 0);
  model.ssm_inner = keys.count_or("ssm.inner_size", 0);
  model.ssm_state = keys.count_or("ssm.state_size", 0);
  model.ssm_groups = keys.count_or("ssm.group_count", 0);
  gguf_windows(keys, row, model);
  gguf_recurrence(keys, row, model);
  return model;
}

/// R11: how often the blocks are gone through, each time with a cache of their own.
inline std::uint64_t gguf_loops(GgufKeys const& keys, GgufArchitecture const& row, GgufModel const& model) {
  std::uint64_t const loops = row.loops ? std::max<std::uint64_t>(keys.count_or("num_loops", 1), 1) : 1;
  if (saturating_multiply(model.blocks, loops) > max_layers)
    throw keys.refuse(keys.name("num_loops"), std::to_string(loops), "at most 512 layers in all loops", "convert the model again");
  return loops;
}

}  // namespace detail

/// From parsed metadata; `input` names it in errors. Throws Error.
inline GgufModel gguf_model(GgufFile const& file, std::string const& input) {
  detail::GgufKeys const keys{file, input};
  auto const& row = detail::gguf_architecture(keys);
  GgufModel model = detail::gguf_facts(keys, row);
  std::uint64_t const loops = detail::gguf_loops(keys, row, model);
  for (std::uint64_t loop = 0; loop < loops; ++loop)
    for (std::uint64_t i = 0; i < model.layers; ++i) model.spec.layers.append(detail::gguf_layer(keys, row, model, i));
  if (row.adds_router)  // R11
    model.spec.layers.append(
        full_attention({.kv_heads = 1, .head_dim = detail::gguf_width(keys, model.head_k), .value_dim = detail::gguf_width(keys, model.head_v)}));
  for (std::uint64_t i = model.layers; i < model.blocks; ++i) model.draft_layers.append(draft(detail::gguf_layer(keys, row, model, i)));
  model.spec.dtype = fp16;
  detail::refuse_bad(check(model.spec), input);
  auto const split = file.values.find("split.count");
  if (file.tensors != 0 && (split == file.values.end() || split->second.number <= 1)) model.weights = Bytes{file.tensor_bytes};
  return model;
}

/// From a file, of a split model its first shard. Throws Error.
inline GgufModel gguf_model(std::filesystem::path const& path) { return gguf_model(gguf(path), path.string()); }

/// The same, with the refusal as a value.
inline Result<GgufModel> try_gguf_model(std::filesystem::path const& path) {
  return attempt([&] { return gguf_model(path); });
}

}  // namespace kvbudget::inline v1::read
