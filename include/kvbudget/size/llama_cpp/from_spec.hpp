// A model's layers in general (CacheSpec) as llama.cpp would cache them; what has no such layout is refused by name.
//
// llama.cpp has one type for all keys and one for all values, one window for all layers that slide, and one width of indexer
// keys; states are f32 whatever the model says (facts: llama_cpp.md R5, R13, R15, R17). MLA is a matter of the whole model (R8).
// What no layer shows is left at its default, for the caller to set: snapshots for rollback (R15), no flash attention (R12), whether
// llama.cpp leaves NextN blocks out of a hybrid's main context, as it is taken to here, or gives them a dead row (R10); layers stored
// without a byte (R6); whether indexers are DSA's or, as is taken where there are no latents, MSA's (R17a, R17b).
#pragma once

#include <kvbudget/model/model_spec.hpp>
#include <kvbudget/size/llama_cpp/model.hpp>

#include <utility>

namespace kvbudget::inline v1::llama_cpp {

struct FromSpec {
  Model model{};
  Complaints complaints{};  // not empty: the model is not to be used
};

namespace detail {

class SpecReader {
 public:
  constexpr SpecReader(CacheSpec const& spec, Tokens trained) : spec_{spec} { read_.model.trained = trained; }

  constexpr FromSpec read() {
    read_.complaints = kvbudget::check(spec_);
    if (read_.complaints.empty())
      for (std::size_t i = 0; i < spec_.layers.size(); ++i) layer(spec_.layers[i], spec_.layers.order[i]);
    Model& model = read_.model;
    if (plain_ && model.latents) complain(".layers", 0, "layers that all keep latents, or none that does", "llama.cpp decides on MLA for a whole model");
    model.drafts = drafts();
    model.attention = attends_;
    model.no_memory = !attends_ && !model.recurrent && model.nextn == 0;                                     // R18
    model.index_values = model.index_width != 0 && !model.latents && !model.recurrent && !model.compresses;  // R17b
    model.index_after_dense = model.index_values;
    return read_;
  }

 private:
  /// R10: NextN blocks are stored apart, where there are any; beside latents' indexers in one cache.
  constexpr Drafts drafts() const {
    if (read_.model.nextn == 0) return Drafts::as_main;
    return read_.model.index_width != 0 && read_.model.latents ? Drafts::nextn_in_one_cache : Drafts::nextn;
  }

  constexpr void complain(char const* field, std::uint64_t value, char const* accepted, char const* next) {
    for (auto const& known : read_.complaints)
      if (std::string_view{known.field} == field && std::string_view{known.accepted} == accepted) return;
    read_.complaints.push_back({field, value, accepted, next, shape_});
  }

  constexpr void layer(kvbudget::Layer const& from, std::uint32_t shape) {
    shape_ = shape;
    Layer to{.attends = false};
    for (auto const& part : from.parts) add(part, to);
    if (from.draft) {
      ++read_.model.nextn;
      to.drafts = std::exchange(to.attends, false);
    } else if (read_.model.nextn != 0) {
      complain(".layers", shape, "draft layers behind the model's own", "append the draft layers last");
    }
    attends_ = attends_ || to.attends;
    read_.model.layers.push_back(to);
  }

  constexpr void add(Part const& part, Layer& to) {
    switch (part.kind) {
      case PartKind::key:
      case PartKind::value:
        return attention(part, to);
      case PartKind::latent:
      case PartKind::latent_rope:
        return part.tokens_per_entry == 1 ? latents(part, to) : compressed(part, to);
      case PartKind::indexer:
        return indexer(part, to);
      case PartKind::conv_state:
      case PartKind::state:
        return state(part, to);
      case PartKind::compressor:
        return;  // R17c: its size follows from the ratio
      case PartKind::cross_key:
      case PartKind::cross_value:
        return complain(".cross_attention", part.entries, "no cross-attention cache", "llama.cpp keeps the encoder's output on the host instead (R18)");
    }
  }

  constexpr void attention(Part const& part, Layer& to) {
    plain_ = to.attends = true;
    to.kv_heads = part.heads;
    (part.kind == PartKind::key ? to.head_k : to.head_v) = part.width;
    kept(part, to);
  }
  constexpr void latents(Part const& part, Layer& to) {
    read_.model.latents = to.attends = true;
    to.kv_heads = part.heads;
    to.head_k += part.width;
    if (part.kind == PartKind::latent) to.head_v = part.width;
    kept(part, to);
  }
  /// R17c: entries of 4 or of 128 tokens behind a window of latents.
  constexpr void compressed(Part const& part, Layer& to) {
    if (part.tokens_per_entry != 4 && part.tokens_per_entry != 128)
      complain(".ratio", part.tokens_per_entry, "entries of 4 or 128 tokens", "llama.cpp compresses as DeepSeek-V4 does, and no other way");
    to.ratio = part.tokens_per_entry;
    read_.model.compresses = true;
    own_type(part);
  }
  /// R17a, R17b: its keys are of type_k, whatever the model's own dtype.
  constexpr void indexer(Part const& part, Layer& to) {
    std::uint32_t& width = read_.model.index_width;
    if (part.heads != 1 || (width != 0 && width != part.width))
      complain(".index_width", part.width, "one head of the same width in all layers", "llama.cpp keeps one width of indexer keys");
    width = part.width;
    to.indexes = true;
  }
  /// R15: the first convolution is R, a second one P.
  constexpr std::uint64_t& state_of(Part const& part, Layer& to) const {
    if (part.kind == PartKind::state) return to.s;
    return to.r == 0 ? to.r : to.p;
  }
  constexpr void state(Part const& part, Layer& to) {
    state_of(part, to) = saturating_multiply(saturating_multiply(part.heads, part.width), part.entries);
    read_.model.recurrent = to.recurs = true;
  }

  /// R13, R14: whether a layer slides; a chunk counts as a window. And section 1: no part has a type of its own.
  constexpr void kept(Part const& part, Layer& to) {
    own_type(part);
    if (part.keeps != Keeps::window && part.keeps != Keeps::chunk) return;
    auto& window = read_.model.window;
    if (part.span.count > 0xffff'ffff || (window && *window != part.span.count))
      complain(".window", part.span.count, "one window for all layers that slide", "llama.cpp keeps one sliding cache; give the largest window");
    window = static_cast<std::uint32_t>(part.span.count);
    to.slides = true;
  }
  constexpr void own_type(Part const& part) {
    if (part.dtype.is_set() && part.dtype != spec_.dtype)
      complain(".dtype", part.dtype.bytes_per_group, "parts of the spec's dtype", "llama.cpp's cache types are type_k and type_v, for all layers");
  }

  CacheSpec const& spec_;
  FromSpec read_{};
  std::uint32_t shape_{};
  bool plain_{};    // a layer keeps keys and values
  bool attends_{};  // a layer of the model itself attends
};

}  // namespace detail

/// `trained` is the context the model was trained for, which n_ctx = 0 asks for.
constexpr FromSpec from_spec(CacheSpec const& spec, Tokens trained = {}) { return detail::SpecReader{spec, trained}.read(); }

}  // namespace kvbudget::inline v1::llama_cpp
