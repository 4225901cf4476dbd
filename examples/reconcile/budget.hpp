// The measured figure as the budget: what a log alone gives an AdmissionController.
//
//   printed blocks and their tokens    {.capacity = 1'478_blocks, .footprint = paged(16_tokens)}
//   printed tokens                     {.capacity = 456'816_tokens}
#pragma once

#include <kvbudget/admit/policies/plain.hpp>
#include <kvbudget/kvbudget.hpp>
#include <kvbudget/read/measured.hpp>

#include <optional>

namespace example {

inline std::optional<kvbudget::AdmissionLimits> limits_of(kvbudget::read::Measured const& found) {
  using namespace kvbudget;
  AdmissionLimits limits{};
  if (!found.in_blocks()) {
    if (!found.tokens) return std::nullopt;
    limits.capacity = *found.tokens;
    return limits;
  }
  limits.capacity = found.usable();
  limits.footprint = paged(found.block);
  for (std::uint32_t i = 1; i < found.pools.size() && i < max_pools; ++i) {  // a pool for each window (A19, A20)
    CacheGroup group = window_group(found.pools[i].window, found.block, i);
    group.bound.tokens = found.pools[i].window;
    limits.footprint.groups.push_back(group);
    limits.more_pools.push_back({.capacity = found.pools[i].blocks, .name = "window"});
  }
  return limits;
}

/// The same of a plan: all of its pools, and what its layers keep.
inline kvbudget::AdmissionLimits limits_of(kvbudget::CachePlan const& plan) {
  kvbudget::AdmissionLimits limits{.capacity = plan.usable(), .footprint = plan.footprint};
  for (auto const& pool : plan.more_pools) limits.more_pools.push_back({.capacity = pool.usable(), .name = pool.name});
  return limits;
}

/// Requests of `length` tokens that a controller on these limits runs side by side, up to 65,536. Nothing is kept free: runtimes count so.
inline std::uint64_t admitted(kvbudget::AdmissionLimits limits, kvbudget::Tokens length) {
  constexpr std::uint32_t most = 65'536;
  kvbudget::Blocks const each = limits.resolved_footprint().most(0, length);
  std::uint64_t const room = each == kvbudget::Blocks{} ? most : kvbudget::floor_div(limits.capacity_of(0).count, each.count) + 1;
  limits.max_live = static_cast<std::uint32_t>(room < most ? room : most);
  kvbudget::AdmissionController gate{limits, kvbudget::policies::Plain{}};
  std::vector<decltype(gate)::Lease> running;
  for (std::uint32_t i = 0; i < limits.max_live; ++i)
    if (gate.submit({.prompt = length}).rejected()) break;
  while (auto lease = gate.admit_next()) running.push_back(std::move(lease));
  return running.size();
}

}  // namespace example
