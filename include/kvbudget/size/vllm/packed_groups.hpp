// DeepSeek-V4's packed layout (facts: vllm.md C3): group 0 is all MLA layers, sliding-window latents follow by block and window.
//
// Layers of each page size make a tuple; every group has about as many tuples, so that one block id serves all of them.
// DeepSeek-V4-Pro: 91 caches of 256-token blocks, then groups of 31, 30, 31 and 60 sliding ones.
#pragma once

#include <kvbudget/size/vllm/grouping.hpp>

namespace kvbudget::inline v1::vllm::detail {

constexpr bool one_page_size(Specs const& specs) {
  return std::all_of(specs.begin(), specs.end(), [&](auto const& spec) { return page_bytes(spec) == page_bytes(specs[0]); });
}

constexpr bool is_packed_layout(Specs const& specs) {
  return std::any_of(specs.begin(), specs.end(), [](auto const& spec) { return spec.kind == SpecKind::sliding_window_mla; }) && !one_page_size(specs);
}

/// C3: layers by their page size, in first-seen order.
constexpr std::vector<Layers> by_page_size(Layers const& layers) {
  std::vector<Layers> classes;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    auto known = std::find_if(classes.begin(), classes.end(), [&](auto const& one) { return page_bytes(one.specs[0]) == page_bytes(layers.specs[i]); });
    if (known == classes.end()) known = classes.insert(known, Layers{});
    known->push_back(layers.places[i], layers.specs[i]);
  }
  return classes;
}

/// C3: a layer of each page size makes a tuple; as many as the most frequent size has layers.
constexpr std::uint64_t tuples_in(Specs const& specs) {
  Layers layers;
  for (auto const& spec : specs) layers.push_back(0, spec);
  std::uint64_t most = 0;
  for (auto const& one : by_page_size(layers)) most = std::max<std::uint64_t>(most, one.size());
  return most;
}

/// C3: the number of tuples a group should have: that which pads least, the larger of two that pad alike.
constexpr std::uint64_t tuples_per_group(std::vector<std::uint64_t> const& counts) {
  std::uint64_t best = counts[0], least = saturated_count;
  for (std::uint64_t tuples = counts[0]; tuples <= *std::max_element(counts.begin(), counts.end()); ++tuples) {
    std::uint64_t padding = 0;
    for (auto const count : counts) padding += ceil_div(count, tuples) * tuples - count;
    if (padding <= least) {
      least = padding;
      best = tuples;
    }
  }
  return best;
}

/// C3: sliding layers of one block and window.
constexpr std::vector<Layers> by_block_and_window(Layers const& layers) {
  std::vector<Layers> classes;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    auto const& spec = layers.specs[i];
    if (spec.kind != SpecKind::sliding_window_mla) continue;
    auto known =
        std::find_if(classes.begin(), classes.end(), [&](auto const& one) { return one.specs[0].block == spec.block && one.specs[0].window == spec.window; });
    if (known == classes.end()) known = classes.insert(known, Layers{});
    known->push_back(layers.places[i], spec);
  }
  return classes;
}

/// C3: whole tuples only: a layer of a size that has more of them than another is in no group, and so in no cache.
constexpr std::size_t whole_tuples(std::vector<Layers> const& classes) {
  std::size_t least = classes[0].size();
  for (auto const& one : classes) least = std::min(least, one.size());
  return least;
}

/// C3: every n-th tuple, from the first.
constexpr Group strided_tuples(std::vector<Layers> const& classes, std::size_t first, std::size_t n) {
  Group group{.uniform_type = true};
  for (std::size_t i = first; i < whole_tuples(classes); i += n)
    for (auto const& one : classes) {
      group.layers.push_back(one.places[i]);
      group.members.push_back(one.specs[i]);
    }
  return group;
}

/// C3: group 0.
constexpr Group latent_group(Layers const& layers) {
  Group group{.uniform_type = true};
  for (std::size_t i = 0; i < layers.size(); ++i) {
    if (layers.specs[i].kind != SpecKind::mla) continue;
    group.layers.push_back(layers.places[i]);
    group.members.push_back(layers.specs[i]);
  }
  return group;
}

/// C3. Layers of any other kind are in no group, as in vLLM.
constexpr Grouping packed_groups(Layers const& layers) {
  Grouping grouping{.groups = {latent_group(layers)}};
  if (grouping.groups[0].layers.empty()) return {.refusal = Refusal::layout_without_rule};
  auto const sliding = by_block_and_window(layers);
  std::vector<std::uint64_t> counts{tuples_in(grouping.groups[0].members)};
  for (auto const& one : sliding) counts.push_back(tuples_in(one.specs));
  std::uint64_t const tuples = tuples_per_group(counts);
  for (auto const& one : sliding) {
    auto const classes = by_page_size(one);
    std::uint64_t const n = ceil_div(whole_tuples(classes), tuples);
    for (std::uint64_t i = 0; i < n; ++i) grouping.groups.push_back(strided_tuples(classes, i, n));
  }
  return grouping;
}

}  // namespace kvbudget::inline v1::vllm::detail
