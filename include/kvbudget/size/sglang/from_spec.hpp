// A CacheSpec as SGLang would size it, for layouts that it has: the way in for a model that is described, not read.
//
//   auto const given = sglang::model_of(spec, {.context = 131'072_tokens});
//   if (given.complaints.empty()) sglang::plan(given.model, memory, options);
// SGLang has one shape of attention for all layers, charges a layer that shares its neighbour's cache or keeps nothing as one of its
// own (R5), and takes a window for full attention unless the architecture has a pool for it (R6): say so with separate_sliding_pool.
#pragma once

#include <kvbudget/model/model_spec.hpp>
#include <kvbudget/size/sglang/model.hpp>

namespace kvbudget::inline v1::sglang {

struct SpecFacts {
  Tokens context{};                  // must be given
  CacheType dtype{CacheType::bf16};  // of the weights; the cache's is Options::kv_cache_dtype
  bool separate_sliding_pool{};      // R6: the architecture has a pool of its own for sliding layers
  std::optional<Tokens> window{};    // what the loaded model reports, where that is not the window itself (R43)
};

struct ModelOfSpec {
  Model model{};
  CacheType cache{CacheType::automatic};  // for Options::kv_cache_dtype: fp8_e4m3 of a spec in one byte
  Complaints complaints{};
};

namespace detail {

struct SpecReader {
  CacheSpec const& spec;
  SpecFacts const& facts;
  ModelOfSpec found{};
  std::optional<AttentionShape> full{};
  std::optional<AttentionShape> sliding{};

  constexpr void complain(char const* field, std::uint64_t value, char const* accepted, char const* next, std::uint32_t layer) {
    found.complaints.push_back({field, value, accepted, next, layer});
  }

  /// One shape for all layers of a kind.
  constexpr void keep_shape(std::optional<AttentionShape>& of, Part const& part, std::uint32_t layer) {
    if (!of) of = AttentionShape{};
    bool const is_key = part.kind == PartKind::key;
    auto const same = [&](std::uint32_t& known, std::uint32_t value, char const* field) {
      if (known != 0 && known != value) complain(field, value, "one number for all layers", "SGLang sizes every layer by one shape; describe it so", layer);
      known = value;
    };
    same(of->kv_heads, part.heads, ".kv_heads");
    same(is_key ? of->head_dim : of->value_dim, part.width, ".head_dim");
  }

  constexpr CacheType state_type(DType dtype, std::uint32_t layer) {
    if (dtype == fp32) return CacheType::fp32;
    if (dtype == bf16) return CacheType::bf16;
    complain(".dtype", dtype.bytes_per_group, "2 or 4 bytes of a state", "give the state's dtype: bf16 or fp32", layer);
    return CacheType::fp32;
  }

  constexpr void read_state(Part const& part, std::uint32_t layer) {
    Model& m = found.model;
    if (!m.states) m.states = StateModel{.kernel = 1};
    StateModel& s = *m.states;
    if (s.linear_layers.empty() || s.linear_layers.back() != layer) s.linear_layers.push_back(layer);
    auto const same = [&](std::uint32_t& known, std::uint32_t value) {
      if (s.linear_layers.size() > 1 && known != value) complain(".state", value, "one state for all layers", "SGLang has one shape of state", layer);
      known = value;
    };
    if (part.kind == PartKind::conv_state) {
      same(s.inner, part.heads);
      same(s.kernel, part.width + 1);
      s.conv_type = state_type(part.dtype, layer);
    } else {
      same(s.heads, part.heads);
      same(s.head_dim, part.width);
      s.state = 1;
      s.state_type = state_type(part.dtype, layer);
    }
  }

  constexpr void read_part(Part const& part, std::uint32_t layer) {
    Model& m = found.model;
    bool const own_dtype = part.dtype.is_set() && part.dtype != spec.dtype && !part.is_state() && part.kind != PartKind::indexer;
    if (own_dtype) complain(".dtype", part.dtype.bytes_per_group, "the spec's", "SGLang has one type for the whole cache", layer);
    bool const attention = part.kind == PartKind::key || part.kind == PartKind::value;
    bool const spans = part.keeps == Keeps::window || part.keeps == Keeps::chunk;
    if (part.kind == PartKind::conv_state || part.kind == PartKind::state) return read_state(part, layer);
    if (attention && spans && facts.separate_sliding_pool) {
      keep_shape(sliding, part, layer);
      m.window = facts.window.value_or(part.span);
    } else if (attention && part.keeps != Keeps::fixed) {
      keep_shape(full, part, layer);
    } else if (part.kind == PartKind::latent && part.keeps == Keeps::everything && part.tokens_per_entry == 1) {
      m.latent = true;
      m.latent_dim = part.width;
    } else if (part.kind == PartKind::latent_rope) {
      m.rope_dim = part.width;
    } else if (part.kind == PartKind::indexer && part.tokens_per_entry == 1) {
      m.indexed = true;
      m.index_dim = part.width;
    } else {
      complain(".layers", layer, "attention, sliding windows, latents with or without an indexer, recurrent states",
               "read the model's config.json with read::sglang_model, or fill a sglang::Model", layer);
    }
  }

  constexpr void read_layer(Layer const& layer, std::uint32_t number) {
    Model& m = found.model;
    bool slides = false, keeps = false;
    for (auto const& part : layer.parts) {
      bool const spans = part.keeps == Keeps::window || part.keeps == Keeps::chunk;
      slides = slides || (spans && facts.separate_sliding_pool);
      keeps = keeps || part.keeps != Keeps::fixed;
      if (found.complaints.empty()) read_part(part, number);
    }
    if (slides) m.swa_layers.push_back(number);
    if (keeps && !slides) m.full_layers.push_back(number);
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
    if (m.states) m.states->full_layers = m.full_layers;
    if (m.states && m.states->head_dim == 0) m.states->kind = StateKind::short_conv;
    if (m.latent && full) complain(".layers", number, "latents, or keys and values", "SGLang has one cache for a model; describe it so", 0);
    if (m.indexed && !m.latent) complain(".layers", number, "an indexer beside latents", "MiniMax-M3's index is a sglang::SparseModel: fill that", 0);
    if (m.states && sliding) complain(".layers", number, "states, or a pool for windows", "SGLang has no model with both; describe it so", 0);
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
  reader.found.cache = spec.dtype == fp8 ? CacheType::fp8_e4m3 : CacheType::automatic;
  reader.read();
  if (!reader.found.complaints.empty()) return reader.found;
  reader.found.complaints = check(reader.found.model);
  return reader.found;
}

}  // namespace kvbudget::inline v1::sglang
