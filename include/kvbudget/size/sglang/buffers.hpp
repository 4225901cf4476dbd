// What SGLang then allocates: every pool's buffers, by shape (facts: sglang.md R60, R32, R44, R45, R48).
//
//   rows = tokens + one page that is never handed out. Llama-3.1-8B, 415'256 tokens: 32 x [415'257, 8, 128] for K, as much for V.
// The figures a pool prints of itself are key_bytes and value_bytes; FP4's scales are not among them (R44).
#pragma once

#include <kvbudget/size/sglang/cells.hpp>

namespace kvbudget::inline v1::sglang {

enum class BufferKind : std::uint8_t {
  keys,
  values,
  latents,
  key_scales,
  value_scales,
  latent_scales,
  index_keys,  // of a sparse-attention indexer, a page a row
  index_values,
  pages,  // DeepSeek-V4: whole pages of entries
  conv,
  recurrent,
  draft_conv,  // of speculative decoding: a state for each draft token
  draft_recurrent,
  compressor
};

/// `count` tensors of one shape: one a layer.
struct Buffer {
  BufferKind kind{};
  std::uint64_t count{};
  InplaceVector<std::uint64_t, 5> shape{};
  std::uint64_t element_bytes{};

  constexpr Bytes bytes() const {
    std::uint64_t n = product(count, element_bytes);
    for (auto const length : shape) n = saturating_multiply(n, length);
    return {n};
  }
};

enum class StoreKind : std::uint8_t { cache, full, sliding, sparse_index, windows, compressed_4, compressed_128, indexer_4, states, compressors };

/// A pool of SGLang's: its size in tokens (or slots), and its buffers.
struct Store {
  StoreKind kind{};
  Tokens size{};
  Tokens page{1};
  std::uint64_t layers{};
  std::vector<Buffer> buffers{};
  bool latent{};      // prints one figure, not two
  Bytes key_bytes{};  // what it prints of itself: of a latent pool, all of it
  Bytes value_bytes{};
  CacheType type{};

  constexpr Bytes allocated() const {
    Bytes sum{};
    for (auto const& buffer : buffers) sum += buffer.bytes();
    return sum;
  }
};

/// R60. Rows of a pool: its tokens, and the page that takes what no request owns.
constexpr std::uint64_t rows_of(Tokens tokens, Tokens page) { return (tokens + page).count; }

/// Heads and dims of one kind of layers.
struct HeadShape {
  std::uint64_t heads{};
  std::uint64_t key_dim{};
  std::uint64_t value_dim{};
};

/// R60. K or V, flat or page by page.
constexpr Buffer rows_buffer(BufferKind kind, std::uint64_t layers, Tokens tokens, std::uint64_t heads, std::uint64_t dim, Options const& o, CacheType type) {
  Buffer buffer{.kind = kind, .count = layers, .element_bytes = bytes_of(type)};
  std::uint64_t const rows = rows_of(tokens, o.page_size);
  if (o.page_major || o.unified_memory)
    buffer.shape = {floor_div(rows, o.page_size.count), o.page_size.count, heads, dim};
  else
    buffer.shape = {rows, heads, dim};
  return buffer;
}

/// R41, R60. Sliding layers are allocated with the full layers' heads and dims, and values as wide as keys, unless the model's pool
/// takes their own; so are sparse layers (R46). What decides is the layout, not the model: --disable-hybrid-swa-memory makes it plain.
constexpr HeadShape full_shape(RankModel const& rank, Layout layout) {
  Model const& m = rank.model;
  bool const own_values = layout == Layout::plain || (layout != Layout::sparse && m.swa_own_shape);
  return {rank.kv_heads, m.head_dim, own_values ? m.value_dim : m.head_dim};
}
constexpr HeadShape sliding_shape(RankModel const& rank, Layout layout) {
  Model const& m = rank.model;
  return m.swa_own_shape ? HeadShape{rank.swa_kv_heads, m.swa_head_dim, m.swa_value_dim} : full_shape(rank, layout);
}

/// R44. The plain pool puts two FP4 values into a byte; sliding and sparse ones an over-count, a byte for each (Plan::fp4_bytes_unused).
constexpr bool packs_fp4(Layout layout) { return layout == Layout::plain || layout == Layout::latent; }

/// R60, R44. A pool of keys and values. Where FP4 is packed, 16 values share a scale that the pool does not count as its own.
constexpr Store key_value_store(StoreKind kind, Layout layout, RankModel const& rank, Tokens tokens, std::uint64_t layers, Options const& o, CacheType type) {
  HeadShape const shape = kind == StoreKind::sliding ? sliding_shape(rank, layout) : full_shape(rank, layout);
  Store store{.kind = kind, .size = tokens, .page = o.page_size, .layers = layers, .type = type};
  std::uint64_t const packed = type == CacheType::fp4_e2m1 && packs_fp4(layout) ? 2 : 1;
  store.buffers.push_back(rows_buffer(BufferKind::keys, layers, tokens, shape.heads, shape.key_dim / packed, o, type));
  store.buffers.push_back(rows_buffer(BufferKind::values, layers, tokens, shape.heads, shape.value_dim / packed, o, type));
  store.key_bytes = store.buffers[0].bytes();
  store.value_bytes = store.buffers[1].bytes();
  if (packed == 1) return store;
  std::uint64_t const rows = rows_of(tokens, o.page_size);
  store.buffers.push_back({BufferKind::key_scales, layers, {rows, product(shape.heads, shape.key_dim) / 16}, 1});
  store.buffers.push_back({BufferKind::value_scales, layers, {rows, product(shape.heads, shape.value_dim) / 16}, 1});
  return store;
}

/// R60, R44, R48. A pool of latents, and of the indexer's keys, which are among what it prints.
constexpr Store latent_store(StoreKind kind, Tokens tokens, std::uint64_t layers, Model const& m, Options const& o, CacheType type) {
  Store store{.kind = kind, .size = tokens, .page = o.page_size, .layers = layers, .latent = true, .type = type};
  std::uint64_t const rows = rows_of(tokens, o.page_size), width = stored_latent_width(m, o, type);
  bool const packed = type == CacheType::fp4_e2m1;
  store.buffers.push_back({BufferKind::latents, layers, {rows, 1, packed ? width / 2 : width}, bytes_of(type)});
  store.key_bytes = store.buffers[0].bytes();
  if (packed) store.buffers.push_back({BufferKind::latent_scales, layers, {rows, width / 16}, 1});
  if (m.indexed) {
    std::uint64_t const pages = floor_div(saturating_add(rows, 1), o.page_size.count);
    store.buffers.push_back({BufferKind::index_keys, layers, {pages, product(o.page_size.count, index_key_bytes(m.index_dim))}, 1});
    store.key_bytes += store.buffers.back().bytes();
  }
  return store;
}

/// R46. The index cache of sparse layers: a key for each, values for some, in the model's own type.
constexpr Store sparse_index_store(Tokens tokens, SparseLayers const& layers, Model const& m, Options const& o) {
  Store store{
      .kind = StoreKind::sparse_index, .size = tokens, .page = o.page_size, .layers = layers.index_key_only + layers.index_key_and_value, .type = m.dtype};
  std::uint64_t const rows = rows_of(tokens, o.page_size);
  store.buffers.push_back({BufferKind::index_keys, store.layers, {rows, 1, m.sparse->index_dim}, bytes_of(m.dtype)});
  store.buffers.push_back({BufferKind::index_values, layers.index_key_and_value, {rows, 1, m.sparse->index_dim}, bytes_of(m.dtype)});
  store.key_bytes = store.buffers[0].bytes();
  store.value_bytes = store.buffers[1].bytes();
  return store;
}

/// R60. States of a stage's own linear layers; slot 0 is never handed out.
constexpr Store state_store(RankModel const& rank, std::uint64_t slots, std::uint64_t running, Options const& o) {
  StateModel const& s = *rank.model.states;
  auto const& [conv, recurrent] = rank.state;
  std::uint64_t const layers = linear_layers(rank), rows = saturating_add(slots, 1);
  Store store{.kind = StoreKind::states, .size = {slots}, .layers = layers, .type = s.state_type};
  store.buffers.push_back({BufferKind::conv, layers, {rows, conv[0], conv[1]}, bytes_of(s.conv_type)});
  store.buffers.push_back({BufferKind::recurrent, layers, {rows, recurrent[0], recurrent[1], recurrent[2]}, bytes_of(s.state_type)});
  if (!o.speculative_num_draft_tokens) return store;
  std::uint64_t const drafts = draft_tokens(o), requests = saturating_add(running, 1);
  store.buffers.push_back({BufferKind::draft_recurrent, layers, {requests, drafts, recurrent[0], recurrent[1], recurrent[2]}, bytes_of(s.state_type)});
  if (topk(o) <= 1)
    store.buffers.push_back(
        {BufferKind::draft_conv, layers, {requests, conv[0], saturating_add(drafts, saturating_subtract(conv[1], 1))}, bytes_of(s.conv_type)});
  else
    store.buffers.push_back({BufferKind::draft_conv, layers, {requests, drafts, conv[0], conv[1]}, bytes_of(s.conv_type)});
  return store;
}

/// R45. Pages of entries, each padded to a multiple of 576 bytes: a page of two 128-fold entries takes 1'728 bytes, not 1'168.
constexpr Store paged_store(StoreKind kind, std::uint64_t size, std::uint64_t page, std::uint64_t layers, std::uint64_t entry_bytes, bool padded) {
  std::uint64_t const pages = floor_div(saturating_add(saturating_add(size, page), 1), page), bytes = product(page, entry_bytes);
  std::uint64_t const row = padded ? round_up(Tokens{bytes}, Tokens{576}).count : bytes;
  return {
      .kind = kind, .size = {size}, .page = {page}, .layers = layers, .buffers = {{BufferKind::pages, layers, {pages, row}, 1}}, .type = CacheType::fp8_e4m3};
}

/// R45. A compressor's state, a tensor a layer: rows to a multiple of its ratio.
constexpr Buffer compressor_buffer(std::uint64_t layers, std::uint64_t rows, std::uint64_t ratio, std::uint64_t width, std::uint64_t element_bytes) {
  return {BufferKind::compressor, layers, {round_up(Tokens{rows}, Tokens{ratio}).count, width}, element_bytes};
}

}  // namespace kvbudget::inline v1::sglang
