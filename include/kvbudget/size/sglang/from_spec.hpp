// A CacheSpec as SGLang would size it, for layouts that it has: the way in for a model that is described, not read.
//
//   auto const given = sglang::model_of(spec, {.context = 131'072_tokens});
//   if (given.complaints.empty()) sglang::plan(given.model, memory, options);
// SGLang has one shape of attention for all layers, charges a layer that shares another's cache or keeps nothing as one of its own
// (R5), and decides by the architecture what a spec does not say: whether sliding layers have a pool (R6), states one (R10), and the
// types of states (R11). Say so in SpecFacts. A config.json is better read with read::sglang_model, which knows the architectures.
#pragma once

#include <kvbudget/model/model_spec.hpp>
#include <kvbudget/size/sglang/model.hpp>

#include <algorithm>

namespace kvbudget::inline v1::sglang {

struct SpecFacts {
  Tokens context{};                       // must be given
  CacheType dtype{CacheType::bf16};       // of the weights; the cache's is Options::kv_cache_dtype
  bool separate_sliding_pool{};           // R6: the architecture has a pool of its own for sliding layers
  std::optional<Tokens> window{};         // what the loaded model reports, where that is not the window itself (R43)
  bool states_recognised{true};           // R10: else there is no pool for them, and every layer is charged as attention
  CacheType state_type{CacheType::fp32};  // R11, of recurrent states: --mamba-ssm-dtype, else the file's mamba_ssm_dtype, not the spec's
  CacheType conv_type{CacheType::bf16};   // R11, of convolutions: not the spec's either
};

struct ModelOfSpec {
  Model model{};
  CacheType cache{CacheType::automatic};  // for Options::kv_cache_dtype: fp8_e4m3 of a spec in one byte
  Complaints complaints{};
};

namespace detail {

/// What a layer of a spec is charged as.
enum class Charged : std::uint8_t { nothing, as_full, as_sliding };

/// The shortest pattern that the layers before `end` repeat; 0 where there is none.
constexpr std::size_t repeated_pattern(std::vector<Charged> const& layers, std::size_t end) {
  for (std::size_t length = 1; 2 * length <= end; ++length) {
    std::size_t i = length;
    while (i < end && layers[i] == layers[i - length]) ++i;
    if (i == end) return length;
  }
  return 0;
}

constexpr bool is_attention(Part const& part) { return part.kind == PartKind::key || part.kind == PartKind::value; }
constexpr bool is_recurrent(Part const& part) { return part.kind == PartKind::conv_state || part.kind == PartKind::state; }
constexpr std::uint32_t narrowed(std::uint64_t n) { return static_cast<std::uint32_t>(std::min<std::uint64_t>(n, 0xffff'ffff)); }

struct SpecReader {
  CacheSpec const& spec;
  SpecFacts const& facts;
  ModelOfSpec found{};
  std::optional<AttentionShape> full{};
  std::optional<AttentionShape> sliding{};
  std::optional<StateModel> state{};  // of one layer
  std::vector<Charged> charged{};     // by layer

  constexpr void complain(char const* field, std::uint64_t value, char const* accepted, char const* next, std::uint32_t layer) {
    found.complaints.push_back({field, value, accepted, next, layer});
  }

  constexpr void keep_one(std::uint32_t& known, std::uint32_t value, char const* field, std::uint32_t layer) {
    if (known != 0 && known != value) complain(field, value, "one number for all layers", "SGLang sizes every layer by one shape; describe it so", layer);
    known = value;
  }

  /// One shape for all layers of a kind.
  constexpr void keep_shape(std::optional<AttentionShape>& of, Part const& part, std::uint32_t layer) {
    if (!of) of = AttentionShape{};
    keep_one(of->kv_heads, part.heads, ".kv_heads", layer);
    keep_one(part.kind == PartKind::key ? of->head_dim : of->value_dim, part.width, ".head_dim", layer);
  }

  constexpr bool slides(Part const& part) const {
    return facts.separate_sliding_pool && is_attention(part) && (part.keeps == Keeps::window || part.keeps == Keeps::chunk);
  }

  /// Everything but states, which are read together.
  constexpr void read_part(Part const& part, std::uint32_t layer) {
    Model& m = found.model;
    bool const every_token = part.keeps == Keeps::everything && part.tokens_per_entry == 1;
    if (part.dtype.is_set() && part.dtype != spec.dtype && part.kind != PartKind::indexer)
      complain(".dtype", part.dtype.bytes_per_group, "the spec's", "SGLang has one type for the whole cache", layer);
    if (is_attention(part) && part.keeps != Keeps::fixed) {
      if (slides(part)) m.window = facts.window.value_or(part.span);
      return keep_shape(slides(part) ? sliding : full, part, layer);
    }
    m.latent = m.latent || (part.kind == PartKind::latent && every_token);
    m.indexed = m.indexed || (part.kind == PartKind::indexer && every_token);
    if (part.kind == PartKind::latent && every_token) return keep_one(m.latent_dim, part.width, ".latent", layer);
    if (part.kind == PartKind::latent_rope && every_token) return keep_one(m.rope_dim, part.width, ".rope", layer);
    if (part.kind == PartKind::indexer && every_token) return keep_one(m.index_dim, part.width, ".indexer", layer);
    complain(".layers", layer, "attention, sliding windows, latents with or without an indexer, recurrent states",
             "read the model's config.json with read::sglang_model, or fill a sglang::Model", layer);
  }

  // ---- R11: states ----

  /// Three convolutions, of q, k and v, and a state of heads x dim x dim.
  static constexpr bool is_kda(Part const& convolution, std::size_t convolutions, Part const& recurrent) {
    std::uint64_t const dim = floor_div(convolution.heads, recurrent.heads);
    return convolutions == 3 && recurrent.heads != 0 && product(dim, recurrent.heads) == convolution.heads && product(dim, dim) == recurrent.width;
  }

  /// Of Mamba 2: B's and C's channels, which ranks do not divide, are groups x 2 x state of all.
  static constexpr bool has_groups(Part const& convolution, Part const& recurrent) {
    std::uint32_t const channels = convolution.group_heads;
    return convolution.groups != 0 && channels >= 2 && channels % 2 == 0 && product(convolution.groups, channels) < convolution.heads &&
           recurrent.width % (channels / 2) == 0;
  }

  static constexpr void shape_convolution(StateModel& s, Part const& convolution, bool grouped) {
    s.kernel = narrowed(std::uint64_t{convolution.width} + 1);
    s.inner = convolution.heads;
    if (!grouped) return;
    s.groups = convolution.groups;
    s.state = convolution.group_heads / 2;
    s.inner -= s.groups * convolution.group_heads;
  }

  static constexpr void shape_recurrent(StateModel& s, Part const& recurrent) {
    if (s.groups == 0) s.state = 1;
    s.heads = recurrent.heads;
    s.head_dim = recurrent.width / s.state;
  }

  /// R11. What a layer keeps as states, as one.
  constexpr std::optional<StateModel> state_of(Layer const& layer, std::uint32_t number) {
    Part convolution{}, recurrent{};
    std::size_t convolutions = 0, recurrents = 0;
    bool alike = true;
    for (auto const& part : layer.parts) {
      bool const convolves = part.kind == PartKind::conv_state;
      if (!convolves && part.kind != PartKind::state) continue;
      if (convolves && convolutions != 0) alike = alike && part == convolution;
      ++(convolves ? convolutions : recurrents);
      (convolves ? convolution : recurrent) = part;
    }
    if (convolutions + recurrents == 0) return std::nullopt;
    StateModel s{.kernel = 1, .conv_type = facts.conv_type, .state_type = facts.state_type};
    bool const kda = alike && recurrents == 1 && is_kda(convolution, convolutions, recurrent);
    if (!kda && (convolutions > 1 || recurrents > 1))
      complain(".state", convolutions + recurrents, "a convolution and a recurrent state, or KDA's three convolutions of heads x dim and its heads x dim x dim",
               "fill a sglang::StateModel", number);
    if (kda) {
      s.kind = StateKind::kda;
      s.heads = recurrent.heads;
      s.head_dim = convolution.heads / recurrent.heads;
      s.kernel = narrowed(std::uint64_t{convolution.width} + 1);
      return s;
    }
    if (recurrents == 0) s.kind = StateKind::short_conv;
    if (convolutions != 0) shape_convolution(s, convolution, recurrents != 0 && has_groups(convolution, recurrent));
    if (recurrents != 0) shape_recurrent(s, recurrent);
    return s;
  }

  constexpr void read_states(Layer const& layer, std::uint32_t number) {
    if (!facts.states_recognised) return;
    auto const own = state_of(layer, number);
    if (!own) return;
    if (state && *state != *own) complain(".state", number, "one state for all layers", "SGLang has one shape of state", number);
    state = own;
    if (!found.model.states) found.model.states = *own;
    found.model.states->linear_layers.push_back(number);
  }

  // ---- layers ----

  constexpr void read_layer(Layer const& layer, std::uint32_t number) {
    Charged as = Charged::nothing;
    for (auto const& part : layer.parts) {
      if (is_recurrent(part)) continue;
      as = slides(part) ? Charged::as_sliding : Charged::as_full;
      if (found.complaints.empty()) read_part(part, number);
    }
    if (found.complaints.empty()) read_states(layer, number);
    if (layer.shares_cache && found.model.states) as = Charged::as_full;
    charged.push_back(as);
  }

  /// R5. Of two pools, a layer without a cache of its own is charged to the one that the pattern of the layers before it goes on with.
  constexpr void charge_to_a_pool(std::size_t i) {
    std::size_t const length = repeated_pattern(charged, i);
    if (length == 0 && found.complaints.empty())
      complain(".layers", i, "a pattern of full and sliding layers that repeats, before a layer that keeps nothing of its own",
               "SGLang charges it to one of two pools (R5): write it as a layer of that kind", narrowed(i));
    charged[i] = length == 0 ? Charged::as_full : charged[i - length];
  }

  constexpr void list_layers() {
    Model& m = found.model;
    for (std::uint32_t i = 0; i < charged.size(); ++i) {
      if (charged[i] == Charged::nothing && sliding) charge_to_a_pool(i);
      if (charged[i] == Charged::as_full) m.full_layers.push_back(i);
      if (charged[i] == Charged::as_sliding) m.swa_layers.push_back(i);
    }
    if (m.states) m.states->full_layers = m.full_layers;
  }

  constexpr void read() {
    Model& m = found.model;
    std::uint32_t number = 0, drafts = 0;
    for (std::size_t i = 0; i < spec.layers.size(); ++i) {
      if (spec.layers[i].draft)
        ++drafts;
      else
        read_layer(spec.layers[i], number++);
    }
    m.hidden_layers = m.attention_layers = number;
    m.context = facts.context;
    m.dtype = facts.dtype;
    if (drafts != 0) m.nextn_layers = drafts;
    AttentionShape const own = full.value_or(sliding.value_or(AttentionShape{})), other = sliding.value_or(own);
    m.total_kv_heads = own.kv_heads;
    m.head_dim = own.head_dim;
    m.value_dim = own.value_dim;
    m.swa_total_kv_heads = other.kv_heads;
    m.swa_head_dim = other.head_dim;
    m.swa_value_dim = other.value_dim;
    m.hybrid_swa = sliding.has_value();
    m.swa_own_shape = true;
    list_layers();
    if (m.latent && full) complain(".layers", number, "latents, or keys and values", "SGLang has one cache for a model; describe it so", 0);
    if (m.indexed && !m.latent) complain(".layers", number, "an indexer beside latents", "MiniMax-M3's index is a sglang::SparseModel: fill that", 0);
  }
};

}  // namespace detail

/// The model of a spec, or the complaints of a layout that SGLang, or this way in, does not have.
constexpr ModelOfSpec model_of(CacheSpec const& spec, SpecFacts const& facts) {
  detail::SpecReader reader{spec, facts};
  reader.found.complaints = kvbudget::check(spec);
  if (!reader.found.complaints.empty()) return reader.found;
  if (spec.dtype != bf16 && spec.dtype != fp8)
    reader.complain(".dtype", spec.dtype.bytes_per_group, "2 bytes an element, or 1", "give the cache's type in Options::kv_cache_dtype", 0);
  for (auto const type : {facts.state_type, facts.conv_type})
    if (bytes_of(type) == 1) reader.complain(".state_type", bytes_of(type), "bf16, fp16 or fp32", "give the state's type as SGLang resolved it", 0);
  reader.found.cache = spec.dtype == fp8 ? CacheType::fp8_e4m3 : CacheType::automatic;
  reader.read();
  if (!reader.found.complaints.empty()) return reader.found;
  reader.found.complaints = check(reader.found.model);
  return reader.found;
}

}  // namespace kvbudget::inline v1::sglang
