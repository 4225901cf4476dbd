// A model as SGLang's sizing sees it, and what of it one rank holds (facts: sglang.md R3, R4, R11).
//
//   KV heads of a rank = max(1, heads / attention tp), rounded down: 6 heads on 4 ranks count 1.
//   Layers of a stage  = L / pp, and the last L % pp stages take one more: 61 over 2 is 30, 31.
//   State of a slot    = layers x (convolution + recurrent state): Qwen3-Next on 4 ranks, 19'316'736 bytes.
#pragma once

#include <kvbudget/size/sglang/options.hpp>

#include <array>
#include <utility>
#include <vector>

namespace kvbudget::inline v1::sglang {

using LayerIds = std::vector<std::uint32_t>;

inline constexpr std::uint32_t most_layers = 4'096;

enum class StateKind : std::uint8_t {
  mamba,       // Mamba-2 and the gated delta nets: convolution over inner + 2 x groups x state channels
  kda,         // Kimi's delta attention: the convolution's three inputs side by side
  short_conv,  // LFM2: a convolution and no recurrent state
};

/// What linear-attention layers keep for a request, before it is divided among ranks.
struct StateModel {
  StateKind kind{};
  std::uint32_t inner{};  // of mamba: heads x head dim; of short_conv: the hidden size
  std::uint32_t groups{};
  std::uint32_t heads{};
  std::uint32_t head_dim{};
  std::uint32_t state{};
  std::uint32_t kernel{};
  CacheType conv_type{CacheType::bf16};
  CacheType state_type{CacheType::fp32};
  LayerIds linear_layers{};
  LayerIds full_layers{};  // the layers with a KV cache

  friend constexpr bool operator==(StateModel const&, StateModel const&) = default;
};

/// DeepSeek-V4: a window of latents, and compressed ones behind it (R45).
struct CompressedModel {
  std::uint32_t nope{};
  std::uint32_t rope{};
  std::uint32_t index_dim{};
  Tokens window{};
  LayerIds ratios{};  // by layer: 0, 4 or 128; may be longer than the layers
};

/// MiniMax-M3: an index cache beside the keys and values of its sparse layers (R46).
struct SparseModel {
  LayerIds dense_layers{};
  LayerIds sparse_layers{};
  LayerIds key_only_layers{};  // sparse layers whose index keeps no values
  std::uint32_t index_dim{};
};

struct Model {
  std::uint32_t hidden_layers{};
  std::uint32_t attention_layers{};
  std::uint32_t total_kv_heads{};
  std::uint32_t swa_total_kv_heads{};
  std::uint32_t head_dim{};
  std::uint32_t value_dim{};
  std::uint32_t swa_head_dim{};
  std::uint32_t swa_value_dim{};
  CacheType dtype{CacheType::bf16};  // of the weights as they are run
  Tokens context{};

  bool latent{};  // MLA
  std::uint32_t latent_dim{};
  std::uint32_t rope_dim{};
  bool indexed{};  // DSA
  std::uint32_t index_dim{};

  bool hybrid_swa{};  // has a pool of its own for sliding layers (R6)
  LayerIds full_layers{};
  LayerIds swa_layers{};
  bool swa_own_shape{};            // the sliding layers' own heads and dims are allocated, not the full layers'
  std::optional<Tokens> window{};  // what the loaded model reports, else the file's window or chunk (R43)

  std::optional<StateModel> states{};
  std::optional<CompressedModel> compressed{};
  std::optional<SparseModel> sparse{};
  std::optional<std::uint32_t> nextn_layers{};  // MTP blocks, where the file says

  constexpr std::uint32_t layers() const { return hidden_layers > attention_layers ? hidden_layers : attention_layers; }
};

/// Of a state: the shape of the convolution's inputs and of the recurrent state, of one layer on one rank.
struct StateShape {
  std::array<std::uint64_t, 2> conv{};
  std::array<std::uint64_t, 3> recurrent{};
};

/// What does not divide, where a rank can't have a whole part: SGLang stops with an AssertionError.
struct Indivisible {
  std::uint64_t number{};
  std::uint64_t by{};
};

/// One rank's share of a model.
struct RankModel {
  Model model{};
  std::uint32_t stage{};
  std::uint32_t first_layer{};
  std::uint32_t end_layer{};
  std::uint32_t kv_heads{};
  std::uint32_t swa_kv_heads{};
  StateShape state{};
  std::optional<Indivisible> indivisible{};

  constexpr bool has(std::uint32_t layer) const { return layer >= first_layer && layer < end_layer; }
  constexpr std::uint32_t layers() const { return end_layer - first_layer; }
};

/// R3. KV heads of a rank: rounded down, and never none.
constexpr std::uint32_t heads_on_rank(std::uint32_t total, std::uint32_t tp) { return tp == 0 || total < tp ? 1 : total / tp; }

/// R4. The layers [first, end) of a pipeline stage: the last stages take what does not divide.
constexpr std::pair<std::uint32_t, std::uint32_t> stage_layers(std::uint32_t layers, std::uint32_t stage, std::uint32_t stages) {
  std::uint32_t const each = layers / stages, without_extra = stages - layers % stages;
  std::uint32_t const extra_before = stage > without_extra ? stage - without_extra : 0;
  std::uint32_t const first = each * stage + extra_before;
  return {first, first + each + (stage >= without_extra ? 1 : 0)};
}

/// R11. One layer's state on a rank; groups that the ranks do not divide are raised to one a rank. Sets `wrong` where the ranks
/// do not divide the state.
constexpr StateShape state_shape(StateModel const& s, std::uint64_t tp, std::optional<Indivisible>& wrong) {
  auto const divided = [&](std::uint64_t n) {
    if (n % tp != 0 && !wrong) wrong = Indivisible{n, tp};
    return n / tp;
  };
  std::uint64_t const before = s.kernel == 0 ? 0 : s.kernel - 1;
  if (s.kind == StateKind::kda) return {{before, product(divided(product(s.heads, s.head_dim)), 3)}, {divided(s.heads), s.head_dim, s.head_dim}};
  if (s.kind == StateKind::short_conv) return {{divided(s.inner), before}, {1, s.inner, 0}};
  std::uint64_t const raised = s.groups % tp == 0 ? s.groups : tp;
  return {{divided(saturating_add(s.inner, product(2, raised, s.state))), before}, {divided(s.heads), s.head_dim, s.state}};
}

/// R11. Bytes of one layer's state in one slot.
constexpr Bytes layer_state_bytes(StateModel const& s, StateShape const& shape) {
  return Bytes{product(shape.conv[0], shape.conv[1], bytes_of(s.conv_type))} +
         Bytes{product(shape.recurrent[0], shape.recurrent[1], shape.recurrent[2], bytes_of(s.state_type))};
}

/// R11. Bytes of a slot: of all the model's linear layers, also where a pipeline stage has but some of them (R49).
constexpr Bytes slot_bytes(StateModel const& s, StateShape const& shape) { return layer_state_bytes(s, shape) * s.linear_layers.size(); }

/// A rank's share of a model.
constexpr RankModel on_rank(Model const& model, Options const& options, std::uint32_t stage) {
  RankModel rank{.model = model, .stage = stage};
  std::uint32_t const tp = attention_tp(options);
  auto const [first, end] = stage_layers(model.layers(), stage, options.pp_size == 0 ? 1 : options.pp_size);
  rank.first_layer = first;
  rank.end_layer = end;
  rank.kv_heads = heads_on_rank(model.total_kv_heads, tp);
  rank.swa_kv_heads = heads_on_rank(model.swa_total_kv_heads, tp);
  if (model.states) rank.state = state_shape(*model.states, tp, rank.indivisible);
  return rank;
}

constexpr std::uint32_t count_in(LayerIds const& layers, std::uint32_t first, std::uint32_t end) {
  std::uint32_t n = 0;
  for (auto const layer : layers) n += layer >= first && layer < end;
  return n;
}

/// Every complaint about a model's facts.
constexpr Complaints check(Model const& m) {
  Complaints complaints{};
  auto const at_least_one = [&](char const* field, std::uint64_t value, std::uint64_t most) {
    if (value == 0 || value > most) complaints.push_back({field, value, "1 or more, and no more than any model has", "give the model's own number"});
  };
  at_least_one(".hidden_layers", m.layers(), most_layers);
  at_least_one(".context", m.context.count, std::uint64_t{1} << 40);
  if (m.latent) {
    at_least_one(".latent_dim", m.latent_dim, 1U << 26);
  } else if (!m.compressed) {
    at_least_one(".total_kv_heads", m.total_kv_heads, 1U << 20);
    at_least_one(".head_dim", m.head_dim, 1U << 26);
    at_least_one(".value_dim", m.value_dim, 1U << 26);
  }
  if (m.indexed) at_least_one(".index_dim", m.index_dim, 1U << 20);
  if (m.compressed) at_least_one(".compressed.window", m.compressed->window.count, std::uint64_t{1} << 40);
  if (m.compressed && m.compressed->ratios.size() < m.layers())
    complaints.push_back({".compressed.ratios", m.compressed->ratios.size(), "a ratio for each layer", "list compress_ratios, one a layer"});
  if (m.hybrid_swa && m.states)
    complaints.push_back(
        {".hybrid_swa", 1, "recurrent states, or a pool of its own for sliding layers", "SGLang's sizing of both is not known here; take one away"});
  if (m.hybrid_swa && !m.compressed && m.full_layers.empty() && m.swa_layers.empty())
    complaints.push_back({".swa_layers", 0, "layers that slide, or layers that do not", "list full_layers and swa_layers"});
  return complaints;
}

}  // namespace kvbudget::inline v1::sglang
