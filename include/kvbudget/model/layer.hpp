// What one layer keeps for a sequence, as a list of parts; and a model's layers, in model order.
//
// A part is a kind of entry: `heads` vectors of `width` elements, one entry per `tokens_per_entry` tokens, kept for every
// token, for a window, for a chunk, or once per sequence. Every architecture is a factory here that fills parts in;
// estimates see only the reduced form (bytes per entry, tokens per entry, what is kept).
//   full_attention({.kv_heads = 8, .head_dim = 128})     K and V: 2 x 8 x 128 elements a token
//   sliding_window({.kv_heads = 8, .head_dim = 128}, 4'096_tokens)
//   latent_attention({.latent = 512, .rope = 64})        MLA: 576 elements a token, no V
//   cycle(62, {5 * local, global})                       62 layers, five local ones before each global one
#pragma once

#include <kvbudget/core/dtype.hpp>
#include <kvbudget/core/footprint.hpp>

#include <initializer_list>

namespace kvbudget::inline v1 {

inline constexpr std::size_t max_layers = 512;  // llama.cpp's own limit, too
inline constexpr std::size_t max_shapes = 16;   // different layers in one model
inline constexpr std::size_t max_parts = 6;     // of one layer

enum class PartKind : std::uint8_t { key, value, latent, latent_rope, indexer, conv_state, state, compressor, cross_key, cross_value };

/// How tensor parallelism cuts a part.
enum class Split : std::uint8_t {
  kv_heads,    // by head while there are enough, then one head, replicated: max(1, heads / tp)  (vllm.md A2)
  exact,       // by head, which the ranks must divide: recurrent states                         (vllm.md A10)
  replicated,  // every rank keeps all of it: latents, indexer keys                              (vllm.md A2, A7)
};

struct Part {
  PartKind kind{};
  Split split{Split::kv_heads};
  Keeps keeps{Keeps::everything};
  DType dtype{};                      // not set: the spec's; a state must have its own
  std::uint32_t heads{1};             // vectors per entry
  std::uint32_t width{};              // elements per vector
  std::uint32_t tokens_per_entry{1};  // compression, or context parallelism
  std::uint32_t groups{};             // of a convolution: groups of heads that ranks do not share
  std::uint32_t group_heads{};        // heads of one such group
  bool keeps_drafts{};                // speculative tokens lengthen its vectors: one element each (vllm.md A10)
  std::uint64_t entries{};            // per sequence, where keeps is fixed
  Tokens span{};                      // where keeps is a window or a chunk

  friend constexpr bool operator==(Part const&, Part const&) = default;

  constexpr bool is_state() const { return kind == PartKind::conv_state || kind == PartKind::state || kind == PartKind::compressor; }

  /// The part's own dtype, or else the spec's. A state never takes the spec's: quantising the cache leaves states as they are.
  constexpr DType dtype_in(DType spec_dtype) const { return dtype.is_set() || is_state() ? dtype : spec_dtype; }

  /// Bytes of one entry.
  constexpr Bytes entry_bytes(DType spec_dtype) const { return vector_bytes(dtype_in(spec_dtype), width) * heads; }

  /// Entries a sequence of `tokens` tokens keeps: what is resident between two steps, without blocks.
  constexpr std::uint64_t entries_at(Tokens tokens) const {
    if (keeps == Keeps::fixed) return entries;
    return ceil_div(keeps == Keeps::everything ? tokens : min(tokens, span), Tokens{tokens_per_entry});
  }
};

/// True for parts that differ in kind only: a key and a value of one shape.
constexpr bool alike(Part a, Part const& b) {
  a.kind = b.kind;
  return a == b;
}

struct Layer {
  InplaceVector<Part, max_parts> parts{};
  bool shares_cache{};  // reads the cache of an earlier layer and stores nothing of its own
  bool draft{};         // belongs to the draft model or is an MTP block: not one of the model's own layers

  friend constexpr bool operator==(Layer const&, Layer const&) = default;

  /// True when part i is like the one before it: what is wrong with both is said once.
  constexpr bool repeats(std::size_t i) const { return i > 0 && alike(parts[i], parts[i - 1]); }
};

// ---- factories: a new architecture is a new one of these ----

struct AttentionShape {
  std::uint32_t kv_heads{};
  std::uint32_t head_dim{};
  std::uint32_t value_dim{};  // 0: as head_dim
  DType key_dtype{};          // not set: the spec's
  DType value_dtype{};
};

namespace detail {
constexpr Layer attention(AttentionShape shape, Keeps keeps, Tokens span) {
  Part const key{.kind = PartKind::key, .keeps = keeps, .dtype = shape.key_dtype, .heads = shape.kv_heads, .width = shape.head_dim, .span = span};
  Part value = key;
  value.kind = PartKind::value;
  value.dtype = shape.value_dtype;
  if (shape.value_dim != 0) value.width = shape.value_dim;
  return {.parts = {key, value}};
}
}  // namespace detail

/// Keys and values of every token.
constexpr Layer full_attention(AttentionShape shape) { return detail::attention(shape, Keeps::everything, {}); }

/// Keys and values of the last `window` tokens.
constexpr Layer sliding_window(AttentionShape shape, Tokens window) { return detail::attention(shape, Keeps::window, window); }

/// Keys and values of the current chunk (Llama 4): at most `chunk` tokens.
constexpr Layer chunked_attention(AttentionShape shape, Tokens chunk) { return detail::attention(shape, Keeps::chunk, chunk); }

struct LatentShape {
  std::uint32_t latent{};  // kv_lora_rank
  std::uint32_t rope{};    // qk_rope_head_dim
  DType dtype{};           // not set: the spec's
};

/// Multi-head latent attention: latent + rope elements a token, no V, a full copy on every TP rank (vllm.md A7). Latent and
/// rotary key are quantised each by itself, so a per-token-head dtype has two scales: 512 + 64 + 2 x 4 = 584 bytes.
constexpr Layer latent_attention(LatentShape shape) {
  Part const latent{.kind = PartKind::latent, .split = Split::replicated, .dtype = shape.dtype, .width = shape.latent};
  Layer layer{.parts = {latent}};
  if (shape.rope != 0) {
    layer.parts.push_back(latent);
    layer.parts[1].kind = PartKind::latent_rope;
    layer.parts[1].width = shape.rope;
  }
  return layer;
}

/// Of an indexer's keys: one byte an element, and one fp32 scale per whole 128 of them.
constexpr DType indexer_dtype(std::uint32_t width) {
  if (width % 128 == 0) return {.elements_per_group = 128, .bytes_per_group = 132};
  return {.bytes_per_group = width < 1U << 20 ? std::uint16_t{1} : std::uint16_t{0},
          .bytes_per_vector = static_cast<std::uint16_t>(4 * (width < 1U << 20 ? width / 128 : 0))};
}
inline constexpr DType fp8_scaled_by_128 = indexer_dtype(128);

/// Adds the key cache of a sparse-attention indexer, one vector of `width` elements a token. width 128: 132 bytes (vllm.md A8).
constexpr Layer with_indexer(Layer layer, std::uint32_t width, DType dtype = fp8_scaled_by_128) {
  layer.parts.push_back({.kind = PartKind::indexer, .split = Split::replicated, .dtype = dtype, .width = width});
  return layer;
}

struct CompressedShape {
  std::uint32_t width{};           // elements of a latent entry, key and value in one
  Tokens window{};                 // every layer keeps the last entries uncompressed
  std::uint32_t ratio{};           // tokens behind a compressed entry; 0 or 1: the window is all there is
  std::uint32_t index_width{};     // of the indexer's keys over compressed entries; 0: no indexer
  DType index_dtype{};             // not set: the spec's
  std::uint32_t state_elements{};  // of the compressor's own state, fp32
};

/// DeepSeek-V4: a window of latents, compressed latents behind it, their indexer, and the compressor's state (vllm.md A9).
constexpr Layer compressed_attention(CompressedShape shape) {
  Part const latent{.kind = PartKind::latent, .split = Split::replicated, .keeps = Keeps::window, .width = shape.width, .span = shape.window};
  Layer layer{.parts = {latent}};
  if (shape.ratio <= 1) return layer;
  layer.parts.push_back({.kind = PartKind::latent, .split = Split::replicated, .width = shape.width, .tokens_per_entry = shape.ratio});
  if (shape.index_width != 0)
    layer.parts.push_back(
        {.kind = PartKind::indexer, .split = Split::replicated, .dtype = shape.index_dtype, .width = shape.index_width, .tokens_per_entry = shape.ratio});
  if (shape.state_elements != 0)
    layer.parts.push_back(
        {.kind = PartKind::compressor, .split = Split::replicated, .keeps = Keeps::fixed, .dtype = fp32, .width = shape.state_elements, .entries = 1});
  return layer;
}

struct StateShape {
  std::uint32_t heads{1};  // what tensor parallelism divides, exactly: heads, or channels of a convolution
  std::uint32_t width{};   // elements per head; 0: no such state
  DType dtype{};           // must be given: the model's for a convolution, often fp32 for a recurrent state
  // Of a convolution, where they are known:
  std::uint32_t groups{};       // Mamba 2: of its channels, groups x group_heads are B and C; a rank keeps at least one group
  std::uint32_t group_heads{};  // 2 x state size
  bool keeps_drafts{};          // gated delta nets, KDA: with speculative decoding it keeps the drafted tokens, too
};

struct RecurrentShape {
  StateShape conv{};   // the convolution's last inputs: channels x (kernel - 1)
  StateShape state{};  // the recurrent state: heads x (head dim x state size)
};

/// Linear attention, Mamba, gated delta net, short convolution: a state of fixed size, whatever the length (vllm.md A10).
constexpr Layer recurrent(RecurrentShape shape) {
  Layer layer{};
  auto const add = [&](PartKind kind, StateShape part) {
    if (part.width != 0)
      layer.parts.push_back({.kind = kind,
                             .split = Split::exact,
                             .keeps = Keeps::fixed,
                             .dtype = part.dtype,
                             .heads = part.heads,
                             .width = part.width,
                             .groups = part.groups,
                             .group_heads = part.group_heads,
                             .keeps_drafts = part.keeps_drafts,
                             .entries = 1});
  };
  add(PartKind::conv_state, shape.conv);
  add(PartKind::state, shape.state);
  if (layer.parts.empty()) layer.parts.push_back({.kind = PartKind::state, .keeps = Keeps::fixed});  // width 0: check() names it
  return layer;
}

/// Keys and values of the encoder's output: as many tokens as the encoder gives, whatever the decoder writes (vllm.md A11).
constexpr Layer cross_attention(AttentionShape shape, Tokens encoder_tokens) {
  Layer layer = detail::attention(shape, Keeps::fixed, {});
  for (auto& part : layer.parts) {
    part.kind = part.kind == PartKind::key ? PartKind::cross_key : PartKind::cross_value;
    part.entries = encoder_tokens.count;
  }
  return layer;
}

/// Attention that reads an earlier layer's cache (Gemma 3n's tail, cross-layer attention).
constexpr Layer shared_cache() { return {.shares_cache = true}; }

/// A layer without attention: an MLP, a mixture of experts, a no-op.
constexpr Layer no_cache() { return {}; }

/// A layer that keeps what both keep: Falcon-H1's attention beside Mamba.
constexpr Layer parallel(Layer a, Layer const& b) {
  for (auto const& part : b.parts) a.parts.push_back(part);
  return a;
}

/// Marks a layer as one of the draft model's or of an MTP block's.
constexpr Layer draft(Layer layer) {
  layer.draft = true;
  return layer;
}

// ---- a model's layers ----

/// A layer, several times in a row: `5 * local`.
struct LayerRun {
  Layer layer{};
  std::uint64_t count{1};
  constexpr LayerRun(Layer const& of, std::uint64_t times = 1) : layer{of}, count{times} {}
};
constexpr LayerRun operator*(Count auto times, Layer const& layer) { return {layer, as_count(times)}; }

/// Layers in model order: a palette of shapes, and the order as indices into it.
struct LayerList {
  InplaceVector<Layer, max_shapes> palette{};
  InplaceVector<std::uint8_t, max_layers> order{};

  constexpr LayerList() = default;
  constexpr LayerList(LayerRun const& run) { append(run); }
  constexpr LayerList(std::initializer_list<LayerRun> runs) {
    for (auto const& run : runs) append(run);
  }

  constexpr std::size_t size() const { return order.size(); }
  constexpr Layer const& operator[](std::size_t i) const { return palette[order[i]]; }

  constexpr void append(LayerRun const& run) {
    std::uint8_t const shape = shape_of(run.layer);
    std::uint64_t const wanted = run.count < max_layers + 1 ? run.count : max_layers + 1;  // one too many is enough to complain
    for (std::uint64_t i = 0; i < wanted; ++i) order.push_back(shape);
  }
  constexpr void append(LayerList const& other) {
    for (std::size_t i = 0; i < other.size(); ++i) append(other[i]);
    order.lost += other.order.lost;
    palette.lost += other.palette.lost;
  }

  /// How many layers have each shape of the palette.
  constexpr std::uint64_t count_of(std::size_t shape) const {
    std::uint64_t n = 0;
    for (auto const used : order) n += used == shape;
    return n;
  }

 private:
  constexpr std::uint8_t shape_of(Layer const& layer) {
    for (std::size_t i = 0; i < palette.size(); ++i)
      if (palette[i] == layer) return static_cast<std::uint8_t>(i);
    palette.push_back(layer);
    return static_cast<std::uint8_t>(palette.size() - 1);
  }
};

constexpr LayerList operator+(LayerList a, LayerList const& b) {
  a.append(b);
  return a;
}

/// `total` layers: the pattern again and again, cut where the total is reached.
constexpr LayerList cycle(std::uint64_t total, std::initializer_list<LayerRun> pattern) {
  LayerList const once{pattern};
  LayerList layers{};
  for (std::uint64_t i = 0; once.size() != 0 && i < total && !layers.order.overflowed(); ++i) layers.append(once[i % once.size()]);
  layers.palette.lost = once.palette.lost;
  return layers;
}

}  // namespace kvbudget::inline v1
