// Bytes of a token, and tokens of a budget, by the kind of cache (facts: sglang.md R40-R48).
//
//   plain       heads x (head dim + value dim) x layers x element;   tokens = budget // cell, whole pages
//   latent      (latent + rope) x layers x element: no rank divides it
//   sliding     full layers + ratio x sliding layers, a double
//   compressed  DeepSeek-V4: 7'705.45 bytes a token for its 43 layers
// What SGLang believes a token costs is not always what it stores: see stored_latent_width (R48) and swa_layers_counted (R41).
#pragma once

#include <kvbudget/size/sglang/budget.hpp>

#include <algorithm>

namespace kvbudget::inline v1::sglang {

enum class Layout : std::uint8_t { plain, latent, sparse, sliding, sliding_capped, compressed };

/// The cache's element type: the flag's, else the checkpoint's, else the model's.
constexpr CacheType cache_type(Options const& o, Model const& m) {
  if (o.kv_cache_dtype != CacheType::automatic) return o.kv_cache_dtype;
  return o.checkpoint_fp8 ? CacheType::fp8_e4m3 : m.dtype;
}

/// Layers of a stage that keep keys and values, R40: of a hybrid, its full-attention layers.
constexpr std::uint32_t cached_layers(RankModel const& rank) {
  return rank.model.states ? count_in(rank.model.states->full_layers, rank.first_layer, rank.end_layer) : rank.layers();
}

constexpr std::uint32_t linear_layers(RankModel const& rank) {
  return rank.model.states ? count_in(rank.model.states->linear_layers, rank.first_layer, rank.end_layer) : 0;
}

// ---- R40: plain ----

/// R40, R44. Keys and values. FP4 counts half a byte a value, and a byte of scale for 16 of the keys and of the values.
constexpr Bytes plain_cell(RankModel const& rank, CacheType type) {
  Model const& m = rank.model;
  std::uint64_t const layers = cached_layers(rank), element = bytes_of(type);
  std::uint64_t const cell = product(rank.kv_heads, std::uint64_t{m.head_dim} + m.value_dim, layers, element);
  if (type != CacheType::fp4_e2m1) return {cell};
  return Bytes{cell / 2} + Bytes{product(rank.kv_heads, m.head_dim, layers, 2, element) / 16};
}

// ---- R42: latent ----

constexpr std::uint64_t latent_width(Model const& m) { return std::uint64_t{m.latent_dim} + m.rope_dim; }

/// R42. An indexer's key: a byte a value, and a float for 128 of them.
constexpr std::uint64_t index_key_bytes(std::uint64_t dim) { return dim + dim / 128 * 4; }

/// R42, R44. Latents, which no rank divides, and the indexer's keys.
constexpr Bytes latent_cell(RankModel const& rank, CacheType type) {
  std::uint64_t const layers = cached_layers(rank), width = latent_width(rank.model);
  Bytes cell{product(width, layers, bytes_of(type))};
  if (type == CacheType::fp4_e2m1) cell = Bytes{cell.count / 2} + Bytes{product(width / 16, layers)};
  return rank.model.indexed ? cell + Bytes{product(index_key_bytes(rank.model.index_dim), layers)} : cell;
}

/// R48. What is stored for a latent, in elements of the cache. Sized as its width, but stored by an fp8 sparse backend that is not
/// trtllm with a float for 128 values and a two-byte rotary part: 656 for 576. The pool then is larger than the budget.
constexpr std::uint64_t stored_latent_width(Model const& m, Options const& o, CacheType type) {
  if (!m.indexed || type != CacheType::fp8_e4m3 || o.dsa_trtllm) return latent_width(m);
  return std::uint64_t{m.latent_dim} + m.latent_dim / 128 * 4 + product(m.rope_dim, 2);
}

// ---- R46: MiniMax-M3 ----

struct SparseLayers {
  std::uint64_t all{};  // with keys and values
  std::uint64_t index_key_and_value{};
  std::uint64_t index_key_only{};
};

constexpr SparseLayers sparse_layers(RankModel const& rank) {
  SparseModel const& s = *rank.model.sparse;
  SparseLayers layers{.all = count_in(s.dense_layers, rank.first_layer, rank.end_layer)};
  for (auto const layer : s.sparse_layers) {
    if (!rank.has(layer)) continue;
    ++layers.all;
    ++(count_in(s.key_only_layers, layer, layer + 1) != 0 ? layers.index_key_only : layers.index_key_and_value);
  }
  return layers;
}

/// R46. Keys and values of all layers, and the index cache of the sparse ones, which stays in the model's own type.
constexpr Bytes sparse_cell(RankModel const& rank, CacheType type) {
  SparseLayers const layers = sparse_layers(rank);
  Bytes const cache{product(layers.all, 2, rank.kv_heads, rank.model.head_dim, bytes_of(type))};
  std::uint64_t const index_vectors = layers.index_key_only + 2 * layers.index_key_and_value;
  return cache + Bytes{product(index_vectors, rank.model.sparse->index_dim, bytes_of(rank.model.dtype))};
}

// ---- R47: draft models ----

/// R47. The algorithms that run a draft model; NGRAM needs none.
constexpr bool has_draft_model(Options const& o) { return speculates(o) && o.speculative_algorithm != Speculation::ngram; }

/// R47. Layers charged for the draft model: as many as the caller says SGLang counts, none where it counts none.
constexpr std::uint32_t charged_draft_layers(Options const& o) { return has_draft_model(o) ? o.draft_layers.value_or(0) : 0; }

/// R47. Draft layers are charged at the size of the model's own cached layers, whatever theirs is.
constexpr Bytes with_draft(Bytes cell, std::uint32_t layers, std::uint32_t draft) {
  if (draft == 0 || layers == 0) return cell;
  return {truncated_count(as_double(cell.count) * (1 + as_double(draft) / as_double(layers)))};
}

/// R40. Whole pages of tokens.
constexpr Tokens tokens_for(Bytes budget, Bytes cell, Tokens page) { return round_down(Tokens{floor_div(budget.count, cell.count)}, page); }

// ---- R41: a pool of its own for sliding layers ----

struct SlidingCell {
  Bytes full_per_token{};
  Bytes swa_per_token{};
  std::uint32_t full_layers{};
  std::uint32_t swa_layers{};
  std::uint32_t draft_layers{};
  double cell{};

  /// Bytes of a token in the full pool, draft layers among them.
  constexpr double of_full_layers() const { return as_double(full_per_token.count) * as_double(std::uint64_t{full_layers} + draft_layers); }
};

/// R41. The layers counted for a stage: by a range whose end is included, so every stage but the last pays one layer too many.
constexpr std::uint32_t swa_layers_counted(RankModel const& rank, LayerIds const& layers) { return count_in(layers, rank.first_layer, rank.end_layer + 1); }

/// R41. A full token is charged with the sliding tokens that come with it.
constexpr SlidingCell sliding_cell(RankModel const& rank, Options const& o, CacheType type) {
  Model const& m = rank.model;
  SlidingCell s{.full_per_token = {product(rank.kv_heads, std::uint64_t{m.head_dim} + m.value_dim, bytes_of(type))},
                .swa_per_token = {product(rank.swa_kv_heads, std::uint64_t{m.swa_head_dim} + m.swa_value_dim, bytes_of(type))},
                .full_layers = swa_layers_counted(rank, m.full_layers),
                .swa_layers = swa_layers_counted(rank, m.swa_layers),
                .draft_layers = charged_draft_layers(o)};
  double const full = as_double(s.full_per_token.count), swa = as_double(s.swa_per_token.count);
  if (s.full_layers == 0)
    s.cell = swa * s.swa_layers + full * s.draft_layers;
  else
    s.cell = s.of_full_layers() + o.swa_full_tokens_ratio * swa * s.swa_layers;
  return s;
}

/// R41. A double's floor division, then whole pages.
constexpr Tokens tokens_for(Bytes budget, double cell, Tokens page) {
  return round_down(Tokens{truncated_count(floor_quotient(as_double(budget.count), cell))}, page);
}

/// R41. Sliding tokens beside so many full ones.
constexpr Tokens swa_tokens_beside(Tokens full, Options const& o) {
  return round_down(Tokens{truncated_count(as_double(full.count) * o.swa_full_tokens_ratio)}, o.page_size);
}

// ---- R43: sliding tokens from a cap ----

/// R43. A cap holds where nothing is cached for others, and the requests, the window and the prefill chunk are known.
constexpr bool sliding_is_capped(Options const& o, Model const& m, SlidingCell const& s) {
  return running_wanted(o) && o.disable_radix_cache && o.chunked_prefill_size && m.window && s.full_layers != 0;
}

/// R43. Tokens one speculative step may write ahead of a request's own, with overlap.
constexpr std::uint64_t lookahead(Options const& o) {
  std::uint64_t const steps = o.speculative_num_steps.value_or(1), k = topk(o), page = o.page_size.count;
  if (page == 1 || k == 1) return std::max(product(steps, k), draft_tokens(o));
  return std::max(product(round_up(Tokens{saturating_add(page - 1, steps)}, o.page_size).count, k), draft_tokens(o));
}

/// R43. The same without overlap: page by page, where pages have several tokens.
constexpr std::uint64_t lookahead_without_overlap(Options const& o) {
  Tokens ahead{o.speculative_num_steps.value_or(1)}, drafts{draft_tokens(o)};
  if (o.page_size > Tokens{1}) {
    ahead = round_up(topk(o) > 1 ? ahead + o.page_size : ahead, o.page_size);
    drafts = round_up(drafts, o.page_size);
  }
  return std::max(product(ahead.count, topk(o)), drafts.count);
}

/// R43. Tokens allocated ahead for a request at each decode step.
constexpr std::uint64_t decode_allocation(Options const& o) {
  if (!speculates(o)) return o.page_size.count;
  return o.disable_overlap_schedule ? lookahead_without_overlap(o) : product(2, lookahead(o));
}

/// R43. What SGLang reckons that a decoding request holds of its sliding layers: the window, what has not been evicted yet, and
/// what is allocated ahead.
constexpr Tokens swa_tokens_per_request(Options const& o, Tokens window) {
  std::uint64_t const interval = o.swa_eviction_interval == 0 ? 1 : o.swa_eviction_interval;
  return window + Tokens{product(interval, draft_tokens(o))} + o.page_size + Tokens{decode_allocation(o)};
}

/// R43. The prefill's share, with two chunks where steps overlap. A chunk of -1, "off", enters as -1: the pool then has no room
/// for a prompt longer than the window and its margin.
constexpr std::int64_t swa_tokens_for_prefill(Options const& o, Tokens window) {
  if (o.disaggregation_mode == Disaggregation::decode) return as_signed(product(saturating_add(window.count, o.page_size.count), decode_extra_slots(o)));
  std::int64_t const chunk = *o.chunked_prefill_size;
  return saturating_sum(o.disable_overlap_schedule ? chunk : 2 * chunk, as_signed(o.page_size.count));
}

/// R43. The cap on sliding tokens.
constexpr Tokens swa_cap(Options const& o, Tokens window) {
  std::uint64_t const requests = product(swa_tokens_per_request(o, window).count, *running_wanted(o));
  std::int64_t const cap = saturating_sum(as_signed(requests), swa_tokens_for_prefill(o, window));
  return {cap > 0 ? static_cast<std::uint64_t>(cap) : 0};
}

/// R43. Full tokens of what the capped sliding pool leaves. Negative where it takes more than there is.
constexpr std::int64_t full_tokens_beside_cap(Bytes budget, Bytes swa, SlidingCell const& s, Tokens page) {
  double const left = as_double(budget.count) - as_double(swa.count);
  std::int64_t const tokens = truncated(floor_quotient(left, s.of_full_layers()));
  return tokens <= 0 ? tokens : as_signed(round_down(Tokens{static_cast<std::uint64_t>(tokens)}, page).count);
}

// ---- R45: DeepSeek-V4 ----

/// R45. The only page that the pools take: 64 entries for 4 tokens, 2 for 128.
inline constexpr Tokens compressed_page{256};

struct CompressedCell {
  std::uint64_t layers{};
  std::uint64_t layers_4{};    // with one entry for 4 tokens, and an indexer
  std::uint64_t layers_128{};  // with one entry for 128 tokens
  std::uint64_t ring_4{};      // rows of a compressor's state that a window of tokens keeps
  std::uint64_t ring_128{};    // rows that a request keeps
  std::uint64_t state_bytes{};
  double bytes_per_full_token{};
};

/// R45. A latent entry: fp8 values, a two-byte rotary part, and eight bytes of scales, whatever the cache's dtype.
constexpr std::uint64_t compressed_entry_bytes(CompressedModel const& c) { return std::uint64_t{c.nope} + product(c.rope, 2) + 8; }
constexpr std::uint64_t compressed_width(CompressedModel const& c) { return std::uint64_t{c.nope} + c.rope; }

/// R45. Bytes of a full token: of the windows' pool its ratio, a quarter and a 128th of the compressed entries, a quarter of the
/// indexer's, and the ratio's share of the compressors' states.
constexpr double bytes_per_full_token(CompressedModel const& c, CompressedCell const& cell, Options const& o) {
  double const ratio = o.swa_full_tokens_ratio, entry = as_double(compressed_entry_bytes(c)), index = as_double(index_key_bytes(c.index_dim));
  double const n = as_double(cell.layers), n4 = as_double(cell.layers_4), n128 = as_double(cell.layers_128);
  double const state = as_double(product(4, compressed_width(c), cell.state_bytes)), index_state = as_double(product(4, c.index_dim, cell.state_bytes));
  double const rows = as_double(cell.ring_4) / as_double(c.window.count);
  double const entries = ratio * entry * n + 1.0 / 4 * entry * n4 + 1.0 / 128 * entry * n128 + 1.0 / 4 * index * n4;
  double const all = entries + ratio * rows * state * n4 + ratio * rows * index_state * n4;
  return speculates(o) ? all * ((n + 1) / n) : all;
}

constexpr CompressedCell compressed_cell(RankModel const& rank, Options const& o) {
  CompressedModel const& c = *rank.model.compressed;
  CompressedCell cell{.layers = rank.layers(),
                      .ring_4 = speculates(o) ? 16U : 8U,
                      .ring_128 = o.online_compress ? 1U
                                  : speculates(o)   ? 256U
                                                    : 128U,
                      .state_bytes = o.compress_state_bf16 ? 2U : 4U};
  for (std::uint32_t i = rank.first_layer; i < rank.end_layer; ++i) {
    cell.layers_4 += c.ratios[i] == 4;
    cell.layers_128 += c.ratios[i] == 128;
  }
  cell.bytes_per_full_token = bytes_per_full_token(c, cell, o);
  return cell;
}

/// R45. Requests whose 128-fold compressors have a state: those that run, those in transfer, and one that is never handed out.
constexpr std::uint64_t compressor_slots(Options const& o, std::uint64_t running) { return saturating_add(saturating_add(running, decode_extra_slots(o)), 1); }

/// R45. Rows and width of one layer's 128-fold compressor states.
constexpr std::uint64_t compressor_rows(CompressedCell const& cell, Options const& o, std::uint64_t running) {
  std::uint64_t const rows = saturating_add(product(compressor_slots(o, running), cell.ring_128), cell.ring_128 + 1);
  return o.online_compress ? rows : round_up(Tokens{rows}, Tokens{128}).count;
}
constexpr std::uint64_t compressor_width(CompressedModel const& c, Options const& o) { return product(o.online_compress ? 3 : 2, compressed_width(c)); }

/// R45. Bytes of the 128-fold compressors' states, which the length of the context does not change.
constexpr Bytes compressor_bytes(CompressedModel const& c, CompressedCell const& cell, Options const& o, std::uint64_t running) {
  if (cell.layers_128 == 0) return {};
  return {product(compressor_rows(cell, o, running), compressor_width(c, o), cell.state_bytes, cell.layers_128)};
}

/// R45. The same before the number of requests is known: as many as are expected of the tokens that would fit without them.
constexpr Bytes compressor_bytes(RankModel const& rank, CompressedCell const& cell, Options const& o, Bytes budget) {
  if (auto const running = running_wanted(o)) return compressor_bytes(*rank.model.compressed, cell, o, *running);
  Tokens const tokens{truncated_count(as_double(budget.count) / cell.bytes_per_full_token)};
  return compressor_bytes(*rank.model.compressed, cell, o, std::min(expected_requests(tokens, rank.model.context), tokens.count / 2));
}

constexpr Tokens compressed_tokens(Bytes budget, CompressedCell const& cell, Tokens page) {
  return round_down(Tokens{truncated_count(as_double(budget.count) / cell.bytes_per_full_token)}, page);
}

/// R45. Rows of a 4-fold compressor's state: a ring for each window of sliding tokens.
constexpr std::uint64_t compressor_4_rows(Tokens swa, CompressedModel const& c, CompressedCell const& cell) {
  return product(floor_div(swa, c.window), cell.ring_4);
}

}  // namespace kvbudget::inline v1::sglang
