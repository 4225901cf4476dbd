// One rank's cache is again a cache spec: on_rank(spec, sharding, rank).
//
//   tensor    KV heads per rank = max(1, heads / tp), so heads are replicated where there are fewer than ranks; heads and
//             ranks must divide one another (vllm.md A2). Latents and indexer keys are replicated, states divided exactly.
//   pipeline  layers / pp each; of the remainder, one more to the last stages but the very last: 126 over 4 is
//             31, 32, 32, 31 (vllm.md D2). Draft layers live on the last stage.
//   context   a rank keeps one entry for every cp tokens of what grows; states are replicated (vllm.md D11). Ranks of their
//             own (TensorRT-LLM's cp_size), or the tensor ranks again (vLLM's decode context parallelism, dcp).
// This is the strict, common rule. A runtime profile shards by its runtime's own where that differs.
#pragma once

#include <kvbudget/model/model_spec.hpp>

namespace kvbudget::inline v1 {

inline constexpr std::size_t max_stages = 64;

struct Sharding {
  std::uint32_t tensor{1};
  std::uint32_t pipeline{1};
  std::uint32_t context{1};                                 // ranks of their own, beside tensor and pipeline
  std::uint32_t decode_context{1};                          // tensor ranks that share out the tokens; adds no rank, and divides `tensor`
  InplaceVector<std::uint32_t, max_stages> stage_layers{};  // layers of each pipeline stage; empty: the default split

  /// Ranks that share out a sequence's tokens.
  constexpr std::uint64_t token_ranks() const { return saturating_multiply(context, decode_context); }
  constexpr std::uint64_t ranks() const { return saturating_multiply(saturating_multiply(tensor, pipeline), context); }
};

/// Where a device stands. Tensor and context ranks of one stage keep equal amounts, so a stage names them all.
struct Rank {
  std::uint32_t stage{};
};

namespace detail {

constexpr std::uint32_t own_layers(LayerList const& layers) {
  std::uint32_t n = 0;
  for (std::size_t i = 0; i < layers.size(); ++i) n += !layers[i].draft;
  return n;
}

/// Heads of all ranks together: where groups are fewer than ranks, each rank keeps one (vllm.md A10, sglang.md R11).
constexpr std::uint64_t heads_in_all(Part const& part, std::uint32_t tensor) {
  std::uint64_t const copies = part.groups != 0 && part.groups < tensor ? tensor - part.groups : 0;
  return part.heads + copies * part.group_heads;
}

constexpr bool shards(Part const& part, std::uint32_t tensor) {
  if (part.groups > tensor && part.groups % tensor != 0) return false;
  bool const even = heads_in_all(part, tensor) % tensor == 0;
  return part.split == Split::replicated || even || (part.split == Split::kv_heads && tensor % part.heads == 0);
}

constexpr std::uint32_t at_least_one(std::uint64_t n) { return n == 0 ? 1 : static_cast<std::uint32_t>(n); }

constexpr bool grows(Part const& part) { return part.keeps == Keeps::everything; }

constexpr Part on_rank(Part part, Sharding const& sharding) {
  if (part.split != Split::replicated) part.heads = at_least_one(heads_in_all(part, sharding.tensor) / sharding.tensor);
  if (part.groups != 0) part.groups = at_least_one(part.groups / sharding.tensor);
  if (grows(part)) part.tokens_per_entry *= static_cast<std::uint32_t>(sharding.token_ranks());
  return part;
}

}  // namespace detail

/// Layers of the target model on a stage, by the default split or the explicit list.
constexpr std::uint32_t layers_on_stage(std::uint32_t layers, Sharding const& sharding, std::uint32_t stage) {
  if (!sharding.stage_layers.empty()) return stage < sharding.stage_layers.size() ? sharding.stage_layers[stage] : 0;
  if (stage >= sharding.pipeline) return 0;
  std::uint32_t const remainder = layers % sharding.pipeline;
  bool const takes_one_more = stage + 1 < sharding.pipeline && stage + 1 + remainder >= sharding.pipeline;
  return layers / sharding.pipeline + (takes_one_more ? 1 : 0);
}

/// Every complaint about a spec and the way it is to be sharded.
constexpr Complaints check(CacheSpec const& spec, Sharding const& sharding) {
  Complaints complaints = check(spec);
  auto const complain = [&](char const* field, std::uint64_t value, char const* accepted, char const* next, std::uint32_t index = 0) {
    complaints.push_back({field, value, accepted, next, index});
  };
  if (sharding.tensor == 0) complain(".tensor", 0, "1 rank or more", "give 1 for no tensor parallelism");
  if (sharding.context == 0 || sharding.context > 65'535) complain(".context", sharding.context, "1 to 65535 ranks", "give 1 for no context parallelism");
  if (sharding.decode_context == 0 || (sharding.tensor != 0 && sharding.tensor % sharding.decode_context != 0))
    complain(".decode_context", sharding.decode_context, "a divisor of the tensor-parallel ranks", "give 1 for no decode context parallelism");
  if (sharding.pipeline == 0 || sharding.pipeline > max_stages)
    complain(".pipeline", sharding.pipeline, "1 to 64 stages", "give 1 for no pipeline parallelism");
  if (!complaints.empty()) return complaints;

  std::uint32_t const layers = detail::own_layers(spec.layers);
  if (sharding.stage_layers.empty()) {
    if (layers < sharding.pipeline) complain(".pipeline", sharding.pipeline, "no more stages than layers", "lower the number of stages");
  } else {
    std::uint64_t listed = 0;
    for (auto const n : sharding.stage_layers) {
      listed += n;
      if (n == 0) complain(".stage_layers", 0, "1 layer or more on each stage", "use fewer stages");
    }
    if (sharding.stage_layers.size() != sharding.pipeline || sharding.stage_layers.overflowed())
      complain(".stage_layers", sharding.stage_layers.size() + sharding.stage_layers.lost, "one entry for each stage",
               "list the layers of every pipeline stage");
    if (listed != layers) complain(".stage_layers", listed, "a sum of all the model's layers", "make the list add up to the layers");
  }
  for (std::uint32_t i = 0; i < spec.layers.palette.size(); ++i) {
    Layer const& layer = spec.layers.palette[i];
    for (std::size_t j = 0; j < layer.parts.size(); ++j) {
      if (layer.repeats(j)) continue;
      Part const& part = layer.parts[j];
      if (!detail::shards(part, sharding.tensor))
        complain(".tensor", sharding.tensor, "ranks that divide the heads, or KV heads that divide the ranks",
                 "choose another tensor-parallel size, or use a runtime profile that rounds", i);
      if (saturating_multiply(part.tokens_per_entry, sharding.token_ranks()) > detail::most_tokens_per_entry)
        complain(".context", sharding.context, "at most 65535 tokens behind one entry", "choose fewer context ranks", i);
      if (sharding.token_ranks() > 1 && (part.keeps == Keeps::window || part.keeps == Keeps::chunk))
        complain(sharding.context > 1 ? ".context" : ".decode_context", sharding.token_ranks(), "1 for a model with windows or chunks",
                 "runtimes shard only what grows with the context", i);
    }
  }
  return complaints;
}

/// The cache of one device of a stage. A bad spec, sharding or rank gives a spec that check() refuses: its need never fits.
constexpr CacheSpec on_rank(CacheSpec const& spec, Sharding const& sharding, Rank rank = {}) {
  if (!check(spec, sharding).empty() || rank.stage >= sharding.pipeline) return {};
  std::uint32_t first = 0;
  for (std::uint32_t stage = 0; stage < rank.stage; ++stage) first += layers_on_stage(detail::own_layers(spec.layers), sharding, stage);
  std::uint32_t const end = first + layers_on_stage(detail::own_layers(spec.layers), sharding, rank.stage);

  CacheSpec local{.dtype = spec.dtype};
  std::uint32_t own = 0;
  for (std::size_t i = 0; i < spec.layers.size(); ++i) {
    Layer layer = spec.layers[i];
    bool const here = layer.draft ? rank.stage + 1 == sharding.pipeline : own >= first && own < end;
    own += !layer.draft;
    if (!here) continue;
    for (auto& part : layer.parts) part = detail::on_rank(part, sharding);
    local.layers.append(layer);
  }
  return local;
}

}  // namespace kvbudget::inline v1
