// A GGUF file as llama.cpp itself sees it: the facts its sizing rules ask for (size/llama_cpp/model.hpp), by architecture.
//
// Rules: facts/llama_cpp.md R8 to R18. Architectures are the rows of gguf_architectures.hpp. Where gguf_model() describes what a
// sequence needs, this is what llama.cpp stores: NextN blocks that a hybrid does not leave out, layers of no bytes, a V of an
// indexer that nobody reads.
#pragma once

#include <kvbudget/read/gguf_model.hpp>
#include <kvbudget/read/json_fields.hpp>
#include <kvbudget/size/llama_cpp/model.hpp>

namespace kvbudget::inline v1::read {

namespace detail {

/// R10, R16: whether the main context's attention cache has a row for block i.
inline bool llama_cpp_attends(GgufKeys const& keys, GgufArchitecture const& row, GgufModel const& model, std::uint64_t i) {
  switch (row.recurs) {
    case GgufRecurs::always:
      return false;
    case GgufRecurs::beside_attention:
      return true;
    case GgufRecurs::where_no_heads:
      return !model.recurs[i];
    case GgufRecurs::where_no_heads_and_no_ff:
      return !model.recurs[i] && keys.per_block("feed_forward_length", model.blocks, 0)[i] == 0;
    case GgufRecurs::by_interval:
      return i < model.layers && !model.recurs[i];
    case GgufRecurs::never:
      break;
  }
  return row.indexer == GgufIndexer::after_dense || i < model.layers;
}

/// R17: whether the indexer's cache has a row for block i.
inline bool llama_cpp_indexes(GgufKeys const& keys, GgufArchitecture const& row, GgufModel const& model, std::uint64_t i) {
  return (row.indexer == GgufIndexer::after_dense || i < model.layers) && gguf_indexes(keys, row, model, i);
}

inline llama_cpp::Layer llama_cpp_layer(GgufKeys const& keys, GgufArchitecture const& row, GgufModel const& model, GgufState const& state, std::uint64_t i) {
  bool const own = gguf_keeps_own(keys, row, model, i);  // R9
  llama_cpp::Layer layer{.kv_heads = gguf_width(keys, model.kv_heads[i]),
                         .head_k = gguf_width(keys, model.slides[i] ? model.head_k_swa : model.head_k),  // R6
                         .head_v = gguf_width(keys, model.slides[i] ? model.head_v_swa : model.head_v),
                         .attends = own && llama_cpp_attends(keys, row, model, i),
                         .drafts = own && (i >= model.layers || model.layers == model.blocks),  // without NextN blocks every one (R10)
                         .slides = model.slides[i],
                         .indexes = llama_cpp_indexes(keys, row, model, i),
                         .recurs = model.recurs[i]};
  if (layer.recurs) layer.r = state.conv, layer.s = state.state, layer.p = gguf_embedding_elements(keys, i);
  return layer;
}

inline llama_cpp::Drafts llama_cpp_drafts(GgufDrafts drafts) {
  switch (drafts) {
    case GgufDrafts::nextn:
      return llama_cpp::Drafts::nextn;
    case GgufDrafts::nextn_in_one_cache:
      return llama_cpp::Drafts::nextn_in_one_cache;
    case GgufDrafts::as_main:
      break;
  }
  return llama_cpp::Drafts::as_main;
}

}  // namespace detail

/// From parsed metadata; `input` names it in errors. Throws Error.
inline llama_cpp::Model llama_cpp_model(GgufFile const& file, std::string const& input) {
  detail::GgufKeys const keys{file, input};
  auto const& row = detail::gguf_architecture(keys);
  GgufModel const facts = detail::gguf_facts(keys, row);
  llama_cpp::Model model{.nextn = static_cast<std::uint32_t>(facts.blocks - facts.layers),
                         .drafts = detail::llama_cpp_drafts(row.drafts),
                         .trained = facts.context,
                         .attention = row.recurs != GgufRecurs::always,
                         .recurrent = row.recurs != GgufRecurs::never,
                         .rolls_back = row.rolls_back,
                         .latents = facts.keeps_latents,
                         .index_after_dense = row.indexer == GgufIndexer::after_dense,
                         .compresses = row.compresses,
                         .no_flash_attention = row.no_flash_attention,
                         .no_memory = row.keeps_nothing};
  if (facts.windows) model.window = static_cast<std::uint32_t>(facts.window);
  if (keys.has("attention.kv_lora_rank"))
    model.latent = detail::gguf_width(keys, keys.count("attention.kv_lora_rank") + keys.count_or("rope.dimension_count", 0));
  if (row.indexer != GgufIndexer::none) model.index_width = detail::gguf_width(keys, keys.count("attention.indexer.key_length"));
  model.index_values = model.index_width != 0 && !model.latents && !model.recurrent;  // R17a, R17b
  if (row.compresses) {
    model.index_width = detail::gguf_width(keys, keys.count_or("attention.indexer.key_length", 128));
    model.compressor_width = detail::gguf_width(keys, facts.head_k);
  }
  bool const recurs = std::find(facts.recurs.begin(), facts.recurs.end(), true) != facts.recurs.end();
  auto const state = recurs ? detail::gguf_state_elements(keys, row, facts) : detail::GgufState{};
  auto const ratios = row.compresses ? keys.per_block("attention.compress_ratios", facts.blocks, 0) : std::vector<std::uint64_t>(facts.blocks, 0);
  std::uint64_t const loops = detail::gguf_loops(keys, row, facts);
  for (std::uint64_t loop = 0; loop < loops; ++loop)  // R11
    for (std::uint64_t i = 0; i < facts.blocks; ++i) {
      model.layers.push_back(detail::llama_cpp_layer(keys, row, facts, state, i));
      model.layers.back().ratio = static_cast<std::uint32_t>(ratios[i]);
    }
  if (row.adds_router)
    model.layers.push_back({.kv_heads = 1, .head_k = detail::gguf_width(keys, facts.head_k), .head_v = detail::gguf_width(keys, facts.head_v)});
  return model;
}

/// From a file, of a split model its first shard. Throws Error.
inline llama_cpp::Model llama_cpp_model(std::filesystem::path const& path) { return llama_cpp_model(gguf(path), path.string()); }

/// The same, with the refusal as a value.
inline Result<llama_cpp::Model> try_llama_cpp_model(std::filesystem::path const& path) {
  return attempt([&] { return llama_cpp_model(path); });
}

/// A type of the cache by its name on the command line. Throws Error.
inline llama_cpp::CacheType llama_cpp_cache_type(std::string const& name, std::string const& argument = "--cache-type") {
  if (auto const type = llama_cpp::cache_type(name)) return *type;
  std::string accepted;
  for (auto const& type : llama_cpp::cache_types) accepted += (accepted.empty() ? "" : ", ") + std::string{type.name};
  throw Error{{"", argument, "\"" + name + "\"", accepted, "choose one of these; others llama.cpp refuses, too"}};
}

namespace detail {

/// A value of a JSON object as GGUF would have it.
inline GgufValue gguf_value(std::string const& key, Json const& value, std::string const& input) {
  auto const whole = [&](Json const& of) {
    bool const fits = of.is_number_integer() && !(of.is_number_unsigned() && of.get<std::uint64_t>() > std::uint64_t{1} << 62);
    if (!fits && !of.is_boolean())
      throw Error{{input, key, shown(of), "a whole number of 63 bits, a string, or a list of such numbers", "give the key as GGUF has it"}};
    return of.is_boolean() ? std::int64_t{of.get<bool>()} : of.get<std::int64_t>();
  };
  if (value.is_string()) return {.type = GgufType::string, .text = value.get<std::string>()};
  if (!value.is_array()) return {.type = GgufType::u32, .number = whole(value)};
  GgufValue list{.type = GgufType::array, .element = GgufType::i32, .count = value.size()};
  for (auto const& of : value) list.numbers.push_back(whole(of));
  return list;
}

}  // namespace detail

/// Metadata in the form of a JSON object, key by key: whole numbers, strings and lists of whole numbers. Throws Error.
inline GgufFile gguf_keys(Json const& keys, std::string const& input) {
  GgufFile file{.version = 3, .keys = keys.size()};
  for (auto const& item : keys.items()) file.values.emplace(item.key(), detail::gguf_value(item.key(), item.value(), input));
  return file;
}

}  // namespace kvbudget::inline v1::read
