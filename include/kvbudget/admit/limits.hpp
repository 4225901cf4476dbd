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

/// What a class is sure of and what it may have at most; nothing said is no floor and no ceiling. Room that a class's floor does not use is
/// anybody's, but for what those of the class that wait need: without pressure the limits change nothing.
struct ClassLimit {
  Tokens floor{};                          // of pool 0: while the class waits below it, others may not start into what is missing
  Percent share{};                         // the floor is at least this share of pool 0's capacity
  std::uint64_t floor_running{};           // the same in requests, of max_running: a sequence is left for each that is missing
  std::uint64_t running{saturated_count};  // most requests in flight
  Tokens tokens{Tokens::max()};            // most tokens cached by them, the one that would start included; growth stops there, too
  Tokens to_compute{Tokens::max()};        // most known tokens that they have still to compute, of those that plans run; waived when they have none
  std::uint64_t queued{saturated_count};   // most requests waiting, then submit rejects
  Tokens queued_tokens{Tokens::max()};     // most prompt tokens waiting, the one that asks included
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
  InplaceVector<ClassLimit, 32> class_limits{};  // of class 0, 1, ...; the classes after the last have none
  std::uint32_t tenants{1};                      // between whom an order may share
  std::uint32_t max_live{4'096};                 // queued + running, first come of all classes; a submit beyond it is rejected with queue_full
  std::uint64_t max_running{saturated_count};    // sequences in flight: branches count
  std::uint32_t adapters{};                      // most distinct adapters in use; 0: no limit
  Tokens max_length{Tokens::max()};              // prompt + generated; max_new is cut to it, a longer prompt is rejected
  Tokens tokens_per_step{Tokens::max()};         // most tokens computed in one step; of a lease its first chunk counts
  Tokens chunk{Tokens::max()};                   // most of them for one request
  bool whole_prompts{};                          // a prompt is never cut into chunks
  bool retires{};                                // what a request gives back is free only once retire(step) says that no step still writes there

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
  constexpr ClassLimit class_limit(std::uint32_t request_class) const {
    return request_class < class_limits.size() ? class_limits[request_class] : ClassLimit{};
  }
  constexpr Blocks capacity_of(std::uint32_t i) const { return pool(i).capacity.blocks(block(i)); }
  constexpr Blocks headroom_of(std::uint32_t i) const { return pool(i).headroom.blocks(block(i), capacity_of(i)); }
};

inline constexpr std::uint32_t max_classes = 65'536;
inline constexpr std::uint32_t max_live_requests = 1U << 24;
inline constexpr std::uint64_t max_lanes = 1U << 20;

/// The blocks of pool 0 that a class is sure of, where the pool has `capacity`. A share rounds down, so that two halves are no more than a whole.
constexpr Blocks floor_blocks(ClassLimit const& limit, Tokens block, Blocks capacity) {
  return max(limit.floor == Tokens{} ? Blocks{} : blocks_for(limit.floor, block), share_down(limit.share, capacity));
}

namespace detail {

class LimitsCheck {
 public:
  constexpr explicit LimitsCheck(AdmissionLimits const& limits) : limits_{limits}, complaints{check(limits.resolved_footprint())} {
    if (limits.more_pools.overflowed()) complain(".more_pools", limits.more_pools.size() + limits.more_pools.lost, "at most 7", "merge pools");
    if (limits.resolved_footprint().pools() > limits.pools())
      complain(".more_pools", limits.more_pools.size(), "one entry for each pool above 0 that the footprint names", "give every pool a capacity");
    if (!limits.capacity.in_tokens && limits.footprint.groups.empty() && limits.capacity.count != 0)
      complain(".footprint", 0, "a footprint, where the capacity is in blocks", "say how many tokens a block holds: .footprint = paged(16_tokens)");
    for (std::uint32_t i = 0; i < limits.pools(); ++i) pool(i);
    counts();
    steps();
    classes();
  }

 private:
  AdmissionLimits const& limits_;

 public:
  Complaints complaints;

 private:
  constexpr void complain(char const* field, std::uint64_t value, char const* accepted, char const* next, std::uint32_t index = 0) {
    complaints.push_back({field, value, accepted, next, index});
  }

  constexpr void pool(std::uint32_t i) {
    auto const of = limits_.pool(i);
    bool const counts_tokens = limits_.block(i) != Tokens{};
    if (of.capacity.in_tokens && !counts_tokens) {
      complain(".capacity", of.capacity.count, "blocks, where several groups or a fixed one share the pool", "give the capacity in blocks", i);
    } else if (limits_.capacity_of(i) == Blocks{} || limits_.capacity_of(i).saturated()) {
      complain(".capacity", of.capacity.count, "one block or more", "give the tokens or blocks the cache holds, for example plan.blocks", i);
    } else if (of.headroom.in == Headroom::In::tokens && !counts_tokens) {
      complain(".headroom", of.headroom.count, "blocks or percent, where several groups or a fixed one share the pool", "give the headroom in blocks", i);
    } else if (limits_.headroom_of(i) >= limits_.capacity_of(i)) {
      complain(".headroom", limits_.headroom_of(i).count, "less than the capacity", "lower the headroom: with it, only a lone request could ever start", i);
    }
  }

  constexpr void counts() {
    if (limits_.classes == 0 || limits_.classes > max_classes) complain(".classes", limits_.classes, "1 to 65536", "give the number of request classes");
    if (limits_.max_live == 0 || limits_.max_live > max_live_requests)
      complain(".max_live", limits_.max_live, "1 to 16777216", "bound the requests that are queued or running");
    if (limits_.max_running == 0) complain(".max_running", 0, "1 or more", "give the most sequences that may run at once");
    if (limits_.tenants == 0 || saturating_multiply(limits_.tenants, limits_.classes) > max_lanes)
      complain(".tenants", limits_.tenants, "1 or more, and at most 1048576 together with the classes", "give the number of tenants that share");
  }

  constexpr void steps() {
    if (limits_.max_length == Tokens{}) complain(".max_length", 0, "1 token or more", "give the longest sequence the model serves, max_model_len");
    if (limits_.tokens_per_step == Tokens{}) complain(".tokens_per_step", 0, "1 token or more", "give the most tokens a step computes, max_num_batched_tokens");
    if (limits_.chunk == Tokens{}) complain(".chunk", 0, "1 token or more", "give the most tokens a step computes of one prompt");
  }

  constexpr void classes() {
    if (limits_.class_limits.size() + limits_.class_limits.lost > limits_.classes || limits_.class_limits.overflowed())
      complain(".class_limits", limits_.class_limits.size() + limits_.class_limits.lost, "at most one for each class, and at most 32",
               "give .classes, or merge them");
    Tokens const block = limits_.block(0);
    Blocks const capacity = limits_.capacity_of(0);
    Blocks floors{};
    std::uint64_t running = 0;
    for (std::uint32_t i = 0; i < limits_.class_limits.size(); ++i) {
      ClassLimit const& of = limits_.class_limits[i];
      if (of.floor != Tokens{} && block == Tokens{})
        complain(".floor", of.floor.count, "a share, where several groups or a fixed one share the pool", "give .share instead", i);
      else if (of.floor > of.tokens || (block != Tokens{} && floor_blocks(of, block, capacity) > blocks_for(of.tokens, block)))
        complain(".tokens", of.tokens.count, "at least the class's floor", "raise the ceiling or lower .floor", i);
      else
        floors += floor_blocks(of, block, capacity);
      if (of.share.millionths > one_whole) complain(".share", of.share.millionths, "at most 1000000 millionths", "give a share of the capacity", i);
      if (of.floor_running > of.running) complain(".running", of.running, "at least the class's floor_running", "raise the ceiling or lower .floor_running", i);
      if (of.running == 0) complain(".running", 0, "1 or more", "a class that may never run is better rejected by the caller", i);
      if (of.tokens == Tokens{}) complain(".tokens", 0, "1 token or more", "a class that may never run is better rejected by the caller", i);
      running = saturating_add(running, of.floor_running);
    }
    if (floors > capacity)
      complain(".floor", floors.count, "floors and shares that add up to no more than the capacity", "lower .floor or .share of some class");
    if (running > limits_.max_running)
      complain(".floor_running", running, "floors that add up to no more than max_running", "lower .floor_running of some class");
  }
};

}  // namespace detail

/// Every complaint about limits. A controller built on bad ones rejects every request with bad_limits and the first field.
constexpr Complaints check(AdmissionLimits const& limits) { return detail::LimitsCheck{limits}.complaints; }

}  // namespace kvbudget::inline v1
