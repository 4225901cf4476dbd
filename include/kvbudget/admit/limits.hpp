// What a controller is built on: capacities, headroom, what a length costs, and how many classes and live requests there are.
//
//   {.capacity = 12'000_tokens, .headroom = 500_tokens}                                a token budget
//   {.capacity = 32'768_blocks, .headroom = Percent{2}, .footprint = paged(16_tokens)}  a block budget
// A capacity given in tokens rounds down to blocks, a headroom up: 5% of 8 blocks is 1 block, not 0.
#pragma once

#include <kvbudget/core/footprint.hpp>

namespace kvbudget::inline v1 {

/// A capacity, in tokens or in blocks.
struct Budget {
  std::uint64_t count{};
  bool in_tokens{};

  constexpr Budget() = default;
  constexpr Budget(Tokens tokens) : count{tokens.count}, in_tokens{true} {}
  constexpr Budget(Blocks blocks) : count{blocks.count} {}

  constexpr Blocks blocks(Tokens block) const { return in_tokens ? blocks_in(Tokens{count}, block) : Blocks{count}; }
};

/// Capacity that admission leaves unused on purpose, for the requests that run to grow into.
struct Headroom {
  std::uint64_t count{};
  enum class In : std::uint8_t { blocks, tokens, percent } in{};

  constexpr Headroom() = default;
  constexpr Headroom(Tokens tokens) : count{tokens.count}, in{In::tokens} {}
  constexpr Headroom(Blocks blocks) : count{blocks.count} {}
  constexpr Headroom(Percent percent) : count{percent.millionths}, in{In::percent} {}

  constexpr Blocks blocks(Tokens block, Blocks capacity) const {
    switch (in) {
      case In::blocks:
        return {count};
      case In::tokens:
        return blocks_for(Tokens{count}, block);
      case In::percent: {
        Percent share{};
        share.millionths = count;
        return share_up(share, capacity);
      }
    }
    return Blocks::max();
  }
};

struct PoolLimits {
  Budget capacity{};
  Headroom headroom{};
  char const* name{"pool"};
};

struct AdmissionLimits {
  Budget capacity{};                                      // of pool 0
  Headroom headroom{};                                    // of pool 0
  Footprint footprint{.groups = {}};                      // none: a token budget
  InplaceVector<PoolLimits, max_pools - 1> more_pools{};  // pools 1, 2, ... of the footprint
  std::uint32_t classes{1};
  std::uint32_t max_live{4'096};  // queued + running; a submit beyond it is rejected with queue_full

  constexpr Footprint resolved_footprint() const {
    Footprint resolved = footprint;
    if (resolved.groups.empty()) resolved.groups.push_back(full_group());
    return resolved;
  }
  constexpr std::uint32_t pools() const { return 1 + static_cast<std::uint32_t>(more_pools.size()); }
  constexpr PoolLimits pool(std::uint32_t i) const {
    if (i == 0) return {capacity, headroom, "cache"};
    return i < pools() ? more_pools[i - 1] : PoolLimits{};
  }

  /// Tokens per block of a pool, where tokens are a measure of it: one group, one pool block behind a block of tokens. Else 0.
  constexpr Tokens block(std::uint32_t pool) const {
    Tokens block{};
    std::uint32_t groups = 0;
    for (auto const& group : resolved_footprint().groups) {
      if (group.pool != pool) continue;
      ++groups;
      if (group.keeps != Keeps::fixed && group.blocks_per_entry == 1) block = group.block;
    }
    return groups == 1 ? block : Tokens{};
  }
  constexpr Blocks capacity_of(std::uint32_t i) const { return pool(i).capacity.blocks(block(i)); }
  constexpr Blocks headroom_of(std::uint32_t i) const { return pool(i).headroom.blocks(block(i), capacity_of(i)); }
};

inline constexpr std::uint32_t max_classes = 65'536;
inline constexpr std::uint32_t max_live_requests = 1U << 24;

/// Every complaint about limits. A controller built on bad ones rejects every request with bad_limits and the first field.
constexpr Complaints check(AdmissionLimits const& limits) {
  Complaints complaints = check(limits.resolved_footprint());
  auto const complain = [&](char const* field, std::uint64_t value, char const* accepted, char const* next, std::uint32_t index = 0) {
    complaints.push_back({field, value, accepted, next, index});
  };
  if (limits.more_pools.overflowed()) complain(".more_pools", limits.more_pools.size() + limits.more_pools.lost, "at most 7", "merge pools");
  if (limits.resolved_footprint().pools() > limits.pools())
    complain(".more_pools", limits.more_pools.size(), "one entry for each pool above 0 that the footprint names", "give every pool a capacity");
  if (!limits.capacity.in_tokens && limits.footprint.groups.empty() && limits.capacity.count != 0)
    complain(".footprint", 0, "a footprint, where the capacity is in blocks", "say how many tokens a block holds: .footprint = paged(16_tokens)");
  for (std::uint32_t i = 0; i < limits.pools(); ++i) {
    auto const pool = limits.pool(i);
    bool const counts_tokens = limits.block(i) != Tokens{};
    if (pool.capacity.in_tokens && !counts_tokens) {
      complain(".capacity", pool.capacity.count, "blocks, where several groups or a fixed one share the pool", "give the capacity in blocks", i);
    } else if (limits.capacity_of(i) == Blocks{} || limits.capacity_of(i).saturated()) {
      complain(".capacity", pool.capacity.count, "one block or more", "give the tokens or blocks the cache holds, for example plan.blocks", i);
    } else if (pool.headroom.in == Headroom::In::tokens && !counts_tokens) {
      complain(".headroom", pool.headroom.count, "blocks or percent, where several groups or a fixed one share the pool", "give the headroom in blocks", i);
    } else if (limits.headroom_of(i) >= limits.capacity_of(i)) {
      complain(".headroom", limits.headroom_of(i).count, "less than the capacity", "lower the headroom: with it, only a lone request could ever start", i);
    }
  }
  if (limits.classes == 0 || limits.classes > max_classes) complain(".classes", limits.classes, "1 to 65536", "give the number of request classes");
  if (limits.max_live == 0 || limits.max_live > max_live_requests)
    complain(".max_live", limits.max_live, "1 to 16777216", "bound the requests that are queued or running");
  return complaints;
}

}  // namespace kvbudget::inline v1
