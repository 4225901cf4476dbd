// What vLLM's rules of grouping work on and give: layers by their places, groups of them, and why there may be none.
#pragma once

#include <kvbudget/size/vllm/layer_spec.hpp>

#include <algorithm>
#include <vector>

namespace kvbudget::inline v1::vllm {

/// Why vLLM does not start, or why this library does not say what it would do.
enum class Refusal : std::uint8_t {
  none,
  bad_options,          // see Plan::complaints
  cannot_promote,       // C0: "Failed to promote local KV cache specs to one unified type."
  windows_differ,       // C0: "All attention layers in the same KV cache group must have the same window size."
  pages_do_not_unify,   // C5: a page that neither divides the largest nor can be padded
  layout_without_rule,  // C3 without MLA layers, hidden states alone, a stage without any cache
  cannot_auto_fit,      // D8: not one token fits
  no_memory,            // D6: "No available memory for the cache blocks"
  not_enough_memory     // D6: one request of max_model_len does not fit
};

struct Group {
  std::vector<std::uint32_t> layers{};  // their places in the model, all ranks' layers in a row
  std::vector<LayerSpec> members{};     // one for each layer where they differ (C2, C3); else one for all
  bool uniform_type{};                  // C2, C3: a block of this group is a page of every layer
};

struct Grouping {
  std::vector<Group> groups{};
  Refusal refusal{};
};

/// A group's block in bytes: of one layer, or of all where they differ.
constexpr Bytes page_bytes(Group const& group) {
  if (!group.uniform_type) return page_bytes(group.members[0]);
  Bytes sum{};
  for (auto const& member : group.members) sum += page_bytes(member);
  return sum;
}

/// B7: of layers that differ, the most.
constexpr Blocks blocks_per_request(Group const& group, RequestTerms const& terms, Tokens length) {
  Blocks most{};
  for (auto const& member : group.members) most = max(most, blocks_per_request(member, terms, length));
  return most;
}

namespace detail {

using Specs = std::vector<LayerSpec>;

/// Layers by their places: what is grouped.
struct Layers {
  std::vector<std::uint32_t> places{};
  Specs specs{};

  constexpr void push_back(std::uint32_t place, LayerSpec const& spec) {
    places.push_back(place);
    specs.push_back(spec);
  }
  constexpr std::size_t size() const { return places.size(); }
};

}  // namespace detail

}  // namespace kvbudget::inline v1::vllm
