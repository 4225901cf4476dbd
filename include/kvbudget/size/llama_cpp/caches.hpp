// The caches llama.cpp v0.5.0 creates for a model and a context, cell by cell and byte by byte; rules R5 to R18 in order.
//
// Facts: llama_cpp.md, sections 3 to 6.
//   K bytes of a layer = row(type_k, head_k x kv_heads) x cells x streams, V alike
//   sliding cells = pad256(min(cells, n_swa x (unified ? n_seq : 1) + n_ubatch))
//   states = f32 elements x sequences x (1 + snapshots)
// Llama-3.1-8B, 4'096 tokens, f16: 32 layers x 1'024 x 2 bytes x 4'096 cells = 256 MiB of K, and as much V.
#pragma once

#include <kvbudget/size/llama_cpp/context.hpp>

namespace kvbudget::inline v1::llama_cpp {

// ---- a cache ----

enum class CacheKind : std::uint8_t { attention, recurrent, compressor_state };

/// What a cache is for. csa, hca and lid are DeepSeek-V4's.
enum class Role : std::uint8_t { main, sliding, indexer, recurrent, csa, hca, lid, csa_state, hca_state, lid_state };

/// The tensors of a cache: keys, values; states R, S and P; the two of a compressor.
enum class TensorKind : std::uint8_t { k, v, r, s, p, compressor };

/// One tensor of one layer. Its rows are those of all cells and streams, or of all sequences and their snapshots.
struct Tensor {
  TensorKind kind{};
  std::uint32_t layer{};
  CacheType type{};
  std::uint64_t elements{};  // of a row
  std::uint64_t rows{};

  constexpr Bytes row() const { return vector_bytes(type.dtype, elements); }
  constexpr Bytes bytes() const { return row() * rows; }
};

struct Cache {
  CacheKind kind{};
  Role role{};
  Tokens cells{};   // of one stream; of a recurrent cache, its sequences
  Tokens wanted{};  // cells before DeepSeek-V4's padding, as its log says
  std::uint32_t n_seq{1};
  std::uint32_t streams{1};
  std::uint32_t n_rs_seq{};
  CacheType type_k{};
  CacheType type_v{};
  std::uint64_t v_padding{};               // elements every V row is padded to, where rows differ and flash attention is off (R7)
  std::uint64_t layers_printed{};          // layers stored; of a recurrent cache, all the model's own (R15)
  std::uint32_t ratio{};                   // of a compressor
  std::uint32_t rows{};                    // of a compressor's state, for one sequence
  std::uint64_t width{};                   // elements of such a row
  std::vector<std::uint32_t> layer_ids{};  // the layers stored
  std::vector<Tensor> tensors{};

  constexpr Bytes bytes(TensorKind of) const {
    Bytes sum{};
    for (auto const& tensor : tensors)
      if (tensor.kind == of) sum += tensor.bytes();
    return sum;
  }
  constexpr Bytes bytes() const {
    Bytes sum{};
    for (auto const& tensor : tensors) sum += tensor.bytes();
    return sum;
  }
};

using LayerIds = std::vector<std::uint32_t>;

namespace detail {

template <class Test>
constexpr LayerIds layers_where(Model const& model, Test test) {
  LayerIds ids;
  for (std::uint32_t i = 0; i < model.layers.size(); ++i)
    if (test(model.layers[i])) ids.push_back(i);
  return ids;
}

/// R10: a draft context that stores what drafts and nothing else; beside an indexer only where there are NextN blocks.
constexpr bool drafts_alone(Model const& model, Options const& options) {
  bool const apart = model.drafts == Drafts::nextn || (model.drafts == Drafts::nextn_in_one_cache && model.nextn != 0);
  return options.context == Context::mtp && apart;
}

}  // namespace detail

// ---- one attention cache (section 3) ----

/// R6: elements of a layer's K row.
constexpr std::uint64_t k_row(Layer const& layer) { return saturating_multiply(layer.head_k, layer.kv_heads); }
constexpr std::uint64_t v_row(Layer const& layer) { return saturating_multiply(layer.head_v, layer.kv_heads); }

/// R7: elements of the widest V row of the model, stored or not.
constexpr std::uint64_t widest_v_row(Model const& model) {
  std::uint64_t widest = 0;
  for (auto const& layer : model.layers) widest = std::max(widest, v_row(layer));
  return widest;
}

/// R7: whether V rows differ.
constexpr bool v_rows_differ(Model const& model) {
  return std::any_of(model.layers.begin(), model.layers.end(), [&](Layer const& layer) { return v_row(layer) != v_row(model.layers.front()); });
}

/// R8: whether the attention cache stores values.
constexpr bool stores_values(Model const& model, Release const& release) { return !model.compresses && (!model.latents || release.latents_keep_values); }

/// R5: the cache of the layers `ids` of a model as this cache sees it: an indexer's has other heads.
constexpr Cache attention_cache(Model const& seen, Resolved const& context, Options const& options, Role role, Tokens cells, LayerIds ids, bool values) {
  Cache cache{.kind = CacheKind::attention,
              .role = role,
              .cells = cells,
              .wanted = cells,
              .n_seq = context.n_seq,
              .streams = context.streams,
              .type_k = options.type_k,
              .type_v = options.type_v,
              .layers_printed = ids.size(),
              .layer_ids = ids};
  if (!context.flash_attention && v_rows_differ(seen)) cache.v_padding = widest_v_row(seen);
  std::uint64_t const rows = saturating_multiply(cells.count, context.streams);
  for (auto const i : ids) {
    cache.tensors.push_back({TensorKind::k, i, options.type_k, k_row(seen.layers[i]), rows});
    if (values) cache.tensors.push_back({TensorKind::v, i, options.type_v, cache.v_padding != 0 ? cache.v_padding : v_row(seen.layers[i]), rows});
  }
  return cache;
}

/// R9, R10: the layers an attention cache stores.
constexpr LayerIds attention_layers(Model const& model, Options const& options) {
  bool const alone = detail::drafts_alone(model, options);
  return detail::layers_where(model, [&](Layer const& layer) { return alone ? layer.drafts : layer.attends; });
}

// ---- sliding windows (section 4) ----

/// R13, R10: whether the layers that slide have a cache of their own.
constexpr bool splits_windows(Model const& model, Options const& options) {
  bool const one_cache = model.drafts == Drafts::nextn_in_one_cache && detail::drafts_alone(model, options);
  return model.window && options.release.windows != Windows::kept_whole && !one_cache;
}

/// R13: cells of the sliding cache, in 32-bit arithmetic that wraps as llama.cpp's does.
constexpr Tokens sliding_cells(Model const& model, Resolved const& context, Options const& options) {
  if (options.swa_full) return context.n_ctx_seq;
  std::uint32_t const windows = model.window.value_or(0) * (context.streams == 1 ? context.n_seq : 1U);
  Tokens const wanted{windows + static_cast<std::uint32_t>(context.n_ubatch.count)};
  Tokens const pad = padding(options.release, context.flash_attention);
  if (options.release.windows == Windows::padded_first) return min(context.n_ctx_seq, round_up(wanted, pad));
  return round_up(min(context.n_ctx_seq, wanted), pad);
}

/// R13: the options of the sliding cache; for a time it stayed f16 beside quantised ones.
constexpr Options sliding_options(Options options) {
  if (options.release.quantises_windows) return options;
  if (options.type_k.quantised()) options.type_k = types::f16;
  if (options.type_v.quantised()) options.type_v = types::f16;
  return options;
}

// ---- recurrent state (section 5) ----

/// R15: f32, a row for each sequence and each of its snapshots.
constexpr Cache recurrent_cache(Model const& model, Resolved const& context) {
  Cache cache{.kind = CacheKind::recurrent,
              .role = Role::recurrent,
              .cells = {context.n_seq},
              .n_seq = context.n_seq,
              .n_rs_seq = context.n_rs_seq,
              .type_k = types::f32,
              .type_v = types::f32,
              .layers_printed = model.trunk(),
              .layer_ids = detail::layers_where(model, [](Layer const& layer) { return layer.recurs; })};
  std::uint64_t const rows = saturating_multiply(context.n_seq, saturating_add(1, context.n_rs_seq));
  for (auto const i : cache.layer_ids) {
    Layer const& layer = model.layers[i];
    cache.tensors.push_back({TensorKind::r, i, types::f32, layer.r, rows});
    cache.tensors.push_back({TensorKind::s, i, types::f32, layer.s, rows});
    if (layer.p != 0) cache.tensors.push_back({TensorKind::p, i, types::f32, layer.p, rows});
  }
  return cache;
}

// ---- further caches (section 6) ----

/// R17: the model as an indexer's cache sees it: one head of its keys in each layer.
constexpr Model as_indexer_sees(Model model) {
  for (auto& layer : model.layers) layer.kv_heads = 1, layer.head_k = model.index_width;
  return model;
}

/// R17a, R17b: keys of one head, and of a model without latents a V of one value head that nobody reads.
constexpr Cache indexer_cache(Model const& model, Resolved const& context, Options const& options) {
  bool const every = options.release.indexes_every_layer && !model.index_after_dense;
  bool const values = model.index_values || (options.release.index_values && !model.latents);
  auto const ids = detail::layers_where(model, [&](Layer const& layer) { return layer.indexes || (every && layer.attends); });
  return attention_cache(as_indexer_sees(model), context, options, Role::indexer, context.n_ctx_seq, ids, values);
}

/// R17c: DeepSeek-V4's cells of entries that stand for `ratio` tokens.
constexpr Tokens compressed_cells(Resolved const& context, std::uint32_t ratio) {
  return {std::max<std::uint64_t>(ceil_div(context.n_ctx_seq.count, ratio), 1)};
}

/// R17c: the state of a compressor: rows x width, f32, keys and scores.
constexpr Cache compressor_cache(Resolved const& context, Role role, LayerIds const& ids, std::uint32_t ratio, std::uint32_t rows, std::uint64_t width) {
  Cache cache{.kind = CacheKind::compressor_state,
              .role = role,
              .n_seq = context.n_seq,
              .streams = context.n_seq,
              .n_rs_seq = context.n_rs_seq,
              .layers_printed = ids.size(),
              .ratio = ratio,
              .rows = rows,
              .width = width,
              .layer_ids = ids};
  std::uint64_t const of_all = saturating_multiply(saturating_multiply(context.n_seq, saturating_add(1, context.n_rs_seq)), rows);
  for (auto const i : ids)
    for (int tensor = 0; tensor < 2; ++tensor) cache.tensors.push_back({TensorKind::compressor, i, types::f32, width, of_all});
  return cache;
}

/// R17c: a window of all layers, compressed entries behind it, an indexer over those, and the compressors' states; a stream for
/// each sequence, unified or not.
constexpr std::vector<Cache> compressed_caches(Model const& model, Resolved context, Options const& options) {
  constexpr std::uint32_t csa_ratio = 4, hca_ratio = 128;
  context.streams = context.n_seq;
  auto const all = attention_layers(model, options);
  auto const of_ratio = [&](std::uint32_t ratio) {
    return detail::layers_where(model, [&](Layer const& layer) { return layer.attends && layer.ratio == ratio; });
  };
  auto const compressed = [&](Model const& seen, Role role, std::uint32_t ratio) {
    Tokens const wanted = compressed_cells(context, ratio);
    Cache cache = attention_cache(seen, context, options, role, round_up(wanted, Tokens{256}), of_ratio(ratio), false);
    cache.wanted = wanted;
    return cache;
  };
  std::uint64_t const head = model.compressor_width != 0 ? model.compressor_width : model.layers.front().head_k, index = model.index_width;
  return {attention_cache(model, context, options, Role::main, context.n_ctx_seq, {}, false),
          attention_cache(model, context, options, Role::sliding, sliding_cells(model, context, options), all, false),
          compressed(model, Role::csa, csa_ratio),
          compressed(model, Role::hca, hca_ratio),
          compressed(as_indexer_sees(model), Role::lid, csa_ratio),
          compressor_cache(context, Role::csa_state, of_ratio(csa_ratio), csa_ratio, 2 * csa_ratio, 2 * head),
          compressor_cache(context, Role::hca_state, of_ratio(hca_ratio), hca_ratio, hca_ratio, head),
          compressor_cache(context, Role::lid_state, of_ratio(csa_ratio), csa_ratio, 2 * csa_ratio, 2 * index)};
}

// ---- all of a context's caches, in the order they are created ----

/// ik_llama.cpp's -mla: latents of a file that describes full heads.
constexpr Model as_release_sees(Model model, Release const& release) {
  if (!release.latents_always || model.latents || model.latent == 0) return model;
  for (auto& layer : model.layers) layer.kv_heads = layer.kv_heads != 0 ? 1 : 0, layer.head_k = model.latent;
  model.latents = true;
  return model;
}

/// How the attention caches hang together: llama.cpp has a class for each, and its log says which.
enum class Layout : std::uint8_t { plain, windows, indexed, indexed_windows, indexed_with_values, compressed };

/// R13, R17; an indexer beside recurrent states is a cache apart.
constexpr Layout layout_of(Model const& model, Options const& options) {
  if (model.compresses) return Layout::compressed;
  bool const indexed = model.index_width != 0 && !model.recurrent && !detail::drafts_alone(model, options);
  bool const windows = splits_windows(model, options);
  if (!indexed) return windows ? Layout::windows : Layout::plain;
  if (windows) return Layout::indexed_windows;
  return model.index_after_dense ? Layout::indexed_with_values : Layout::indexed;
}

namespace detail {

/// R5, R9, R10: one cache of all that attends, or of those layers of it that slide or do not.
constexpr Cache plain_cache(Model const& model, Resolved const& context, Options const& options) {
  return attention_cache(model, context, options, Role::main, context.n_ctx_seq, attention_layers(model, options), stores_values(model, options.release));
}
constexpr LayerIds layers_that_slide(Model const& model, Options const& options, bool slide) {
  LayerIds ids = attention_layers(model, options);
  ids.erase(std::remove_if(ids.begin(), ids.end(), [&](std::uint32_t i) { return model.layers[i].slides != slide; }), ids.end());
  return ids;
}
constexpr Cache full_cache(Model const& model, Resolved const& context, Options const& options) {
  return attention_cache(model, context, options, Role::main, context.n_ctx_seq, layers_that_slide(model, options, false),
                         stores_values(model, options.release));
}
constexpr Cache sliding_cache(Model const& model, Resolved const& context, Options const& options) {
  return attention_cache(model, context, sliding_options(options), Role::sliding, sliding_cells(model, context, options),
                         layers_that_slide(model, options, true), stores_values(model, options.release));
}

constexpr std::vector<Cache> attention_caches(Layout layout, Model const& model, Resolved const& context, Options const& options) {
  switch (layout) {
    case Layout::plain:
      return {plain_cache(model, context, options)};
    case Layout::windows:
      return {full_cache(model, context, options), sliding_cache(model, context, options)};
    case Layout::indexed:
    case Layout::indexed_with_values:
      return {plain_cache(model, context, options), indexer_cache(model, context, options)};
    case Layout::indexed_windows:
      return {full_cache(model, context, options), indexer_cache(model, context, options), sliding_cache(model, context, options)};
    case Layout::compressed:
      return compressed_caches(model, context, options);
  }
  return {};
}

}  // namespace detail

constexpr std::vector<Cache> caches(Model const& model, Resolved const& context, Options const& options) {
  if (model.no_memory) return {};  // R18
  bool const alone = detail::drafts_alone(model, options);
  std::vector<Cache> all;
  if (model.attention || alone) all = detail::attention_caches(layout_of(model, options), model, context, options);
  if (!model.recurrent || alone || model.compresses) return all;
  all.push_back(recurrent_cache(model, context));  // R16
  if (model.index_width != 0) all.push_back(indexer_cache(model, context, options));
  return all;
}

/// A row of a cache that its type's blocks do not fill: llama.cpp stops there, too, but without a message of its own.
constexpr Refused refused_rows(std::vector<Cache> const& caches) {
  for (auto const& cache : caches)
    for (auto const& tensor : cache.tensors)
      if (!divides(tensor.type.dtype, tensor.elements)) return {Refusal::row_is_not_whole_blocks, tensor.elements};
  return {};
}

}  // namespace kvbudget::inline v1::llama_cpp
