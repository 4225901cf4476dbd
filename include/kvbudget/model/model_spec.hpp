// A model as its KV cache sees it.
//
// ModelSpec is the four numbers of a model whose layers are all alike; CacheSpec is the general form, the layers in model
// order. bytes_per_token (size/estimate.hpp) of {layers 32, kv_heads 8, head_dim 128, bf16} is 32 x 2 x 8 x 128 x 2 = 128 KiB.
#pragma once

#include <kvbudget/core/complaint.hpp>
#include <kvbudget/model/layer.hpp>

namespace kvbudget::inline v1 {

struct CacheSpec {
  LayerList layers{};
  DType dtype{};  // of every part that does not say its own, states excepted
};

struct ModelSpec {
  std::uint32_t layers{};
  std::uint32_t kv_heads{};
  std::uint32_t head_dim{};  // elements of one key vector, and of one value vector
  DType dtype{};

  constexpr operator CacheSpec() const { return {.layers = layers * full_attention({.kv_heads = kv_heads, .head_dim = head_dim}), .dtype = dtype}; }
};

namespace detail {

inline constexpr std::uint32_t most_heads = 1U << 20;
inline constexpr std::uint32_t most_width = 1U << 26;
inline constexpr std::uint32_t most_tokens_per_entry = 65'535;

constexpr void check_part(Part const& part, DType spec_dtype, std::uint32_t shape, Complaints& complaints) {
  auto const complain = [&](char const* field, std::uint64_t value, char const* accepted, char const* next) {
    complaints.push_back({field, value, accepted, next, shape});
  };
  DType const dtype = part.dtype_in(spec_dtype);
  if (part.heads == 0 || part.heads > most_heads)
    complain(".kv_heads", part.heads, "1 to 1048576", "give the number of KV heads (num_key_value_heads), not of query heads");
  if (part.width == 0 || part.width > most_width)
    complain(".head_dim", part.width, "1 to 67108864", "give the elements of one vector (head_dim), or of one state");
  if (!dtype.is_set())
    complain(".dtype", dtype.bytes_per_group, "a dtype of 1 to 65535 bytes",
             "set .dtype, for example kvbudget::bf16 or bytes_per_element(2); a state needs its own");
  else if (!divides(dtype, part.width))
    complain(".head_dim", part.width, "a multiple of the dtype's group of elements", "choose a cache dtype whose groups divide the head dim");
  if (part.tokens_per_entry == 0 || part.tokens_per_entry > most_tokens_per_entry)
    complain(".tokens_per_entry", part.tokens_per_entry, "1 to 65535", "give 1 unless entries are compressed");
  bool const spans = part.keeps == Keeps::window || part.keeps == Keeps::chunk;
  if (spans && (part.span.count == 0 || part.span.saturated()))
    complain(".window", part.span.count, "1 token or more", "give the window or the chunk in tokens, or use full_attention");
  if (part.keeps == Keeps::fixed && part.entries == 0 && part.kind != PartKind::state)
    complain(".encoder_tokens", 0, "1 token or more", "give the number of tokens the encoder produces");
}

constexpr void check_layer_count(std::uint64_t layers, Complaints& complaints) {
  if (layers == 0 || layers > max_layers) complaints.push_back({".layers", layers, "1 to 512 layers", "give the model's layers in order (num_hidden_layers)"});
}

}  // namespace detail

/// Every complaint about a spec; empty when it is good.
constexpr Complaints check(CacheSpec const& spec) {
  Complaints complaints{};
  auto const& [palette, order] = spec.layers;
  detail::check_layer_count(order.size() + order.lost, complaints);
  if (palette.overflowed()) complaints.push_back({".layers", palette.size() + palette.lost, "at most 16 different layers", "merge shapes that cost the same"});
  for (std::uint32_t i = 0; i < palette.size(); ++i) {
    if (palette[i].parts.overflowed())
      complaints.push_back({".parts", palette[i].parts.size() + palette[i].parts.lost, "at most 6 parts in a layer", "merge parts that cost the same", i});
    for (std::size_t j = 0; j < palette[i].parts.size(); ++j)
      if (!palette[i].repeats(j)) detail::check_part(palette[i].parts[j], spec.dtype, i, complaints);
  }
  return complaints;
}

/// Every complaint about the four numbers.
constexpr Complaints check(ModelSpec const& spec) {
  Complaints complaints{};
  detail::check_layer_count(spec.layers, complaints);
  detail::check_part({.heads = spec.kv_heads, .width = spec.head_dim}, spec.dtype, 0, complaints);
  return complaints;
}

}  // namespace kvbudget::inline v1
