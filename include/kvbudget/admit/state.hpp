// What a controller knows: all that deciding needs, and what of it follows by itself. How it changes is in transitions.hpp; who decides is
// the planner, which only reads.
#pragma once

#include <kvbudget/admit/future_peak.hpp>
#include <kvbudget/admit/lanes.hpp>
#include <kvbudget/admit/plan.hpp>
#include <kvbudget/admit/policy.hpp>
#include <kvbudget/admit/sharing.hpp>

namespace kvbudget::inline v1 {

/// What of a policy was left out.
template <class Policy>
constexpr auto preemption_of(Policy const& policy) {
  if constexpr (requires { policy.preemption; })
    return policy.preemption;
  else
    return Preemption{};
}
template <class Policy>
constexpr auto holds_of(Policy const& policy) {
  if constexpr (requires { policy.holds; })
    return policy.holds;
  else
    return holds::Most{};
}
template <class Policy>
struct MemoryOf {
  using type = NoMemory;
};
template <class Policy>
requires requires { typename Policy::Memory; }
struct MemoryOf<Policy> {
  using type = typename Policy::Memory;
};

template <class Policy>
inline constexpr bool learns_outputs = requires { decltype(Policy::need)::learns; };
template <class Policy>
inline constexpr bool looks_ahead = requires { decltype(Policy::need)::looks_ahead; };
template <class Policy>
inline constexpr bool waits_for_ever = requires { Policy::waits_for_ever; };

template <AdmissionPolicy Policy, BlockSource Source>
class AdmissionState {
 public:
  using Memory = typename MemoryOf<Policy>::type;
  using Plan = BasicStepPlan<Memory>;
  static constexpr bool learns = learns_outputs<Policy>;
  static constexpr bool waits_for_ever = kvbudget::waits_for_ever<Policy>;
  static constexpr bool looks_ahead_ = looks_ahead<Policy>;
  // Of a need: what is taken to start is one chunk; a part of the known tokens is enough; neither, and all that is known has room.
  static constexpr bool takes_by_chunks = requires { decltype(Policy::need)::taken_by_chunks; };
  static constexpr bool needs_part = requires { decltype(Policy::need)::may_be_part; };
  static constexpr bool starts_whole = !takes_by_chunks && !needs_part;
  static constexpr bool by_arrival = requires { decltype(Policy::order)::by_arrival; };
  static constexpr bool holds_most = std::same_as<decltype(holds_of(std::declval<Policy const&>())), holds::Most>;

  template <class Make>
  AdmissionState(AdmissionLimits const& of, Policy its_policy, bool good, Make make)
      : policy{std::move(its_policy)},
        limits{of},
        footprint{of.resolved_footprint()},
        ledger{good ? Ledger<Source>{of, make} : Ledger<Source>{}},
        table{good ? of.max_live : 0},
        lanes{good ? of.classes : 0, good ? of.tenants : 0},
        accounts((good ? of.classes : 0) + std::size_t{1}),
        adapters{of.adapters, of.max_live},
        tenants{good ? of.tenants : 0},
        chunk{of.chunk},
        paged_by_{footprint.paged_by()},
        classes_{static_cast<std::uint32_t>(accounts.size()) - 1},
        hits_(std::size_t{table.size()} * ledger.pools()) {
    if (footprint.moves()) chunk = min(of.chunk, footprint.in_flight);
    bounded = !of.class_limits.empty() || of.adapters != 0 || of.whole_prompts || !of.tokens_per_step.saturated() || !chunk.saturated();
    limited = bounded || of.max_running != saturated_count;
    if (good) floors.resize(of.class_limits.size());
    if (good) queued_needs.resize(of.class_limits.size());
    if constexpr (learns_outputs<Policy>) outputs_.resize(classes(), OutputLengths{policy.need.observed});
    if constexpr (looks_ahead<Policy>) peak = FuturePeak{footprint, table.size()};
    if constexpr (requires { policy.initial_memory(); }) memory = policy.initial_memory();
  }

  Policy policy;
  AdmissionLimits limits;
  Footprint footprint;
  Ledger<Source> ledger;
  LiveTable table;
  WaitingLanes lanes;
  LiveList running;                    // in flight, by admission
  std::vector<ClassAccount> accounts;  // one for each class, and the last for requests of unknown classes
  AdapterSet adapters;
  TenantShares tenants;
  FuturePeak peak;                     // of those in flight, where the need looks ahead
  PoolBlocks headroom{};               // given, as far as only the limits and the policy decide it
  std::vector<Blocks> floors;          // of pool 0, of each class that has limits
  std::vector<Blocks> queued_needs;    // and what those of it that wait need together
  PoolBlocks next_step{};              // what the running requests' next token takes
  std::uint64_t sequences{};           // in flight: branches count
  std::uint64_t now{};
  std::uint64_t steps{};    // that have begun
  Tokens step_tokens{};     // computed in this one
  std::uint64_t version{};  // counts changes
  Tokens chunk{};           // most tokens of one request in a step: as the limits say, and of windows no more than they have room for
  bool bounded{};           // there are limits on starts that pools do not count, beside max_running
  bool limited{};           // there are limits on starts that pools do not count, or floors
  bool yielding{};          // somebody was preempted in this step
  [[no_unique_address]] Memory memory{};

  // ---- reading ----

  std::uint32_t classes() const { return classes_; }
  std::size_t account_index(RequestClass request_class) const { return request_class.index < classes_ ? request_class.index : classes_; }
  ClassAccount& account(RequestClass request_class) { return accounts[account_index(request_class)]; }
  ClassAccount const& account(RequestClass request_class) const { return accounts[account_index(request_class)]; }
  ClassUsage usage(RequestClass request_class) const {
    ClassAccount const& of = account(request_class);
    return {.active_requests = of.active_requests,
            .started = 0,
            .active_tokens = of.active_tokens,
            .to_compute = of.to_compute,
            .held = ledger.held(0, request_class)};
  }

  WaitingView waiting_view(Live const& live, Tokens at_once) const { return waiting_view(live, live.grown(), at_once); }
  /// With so many tokens generated.
  WaitingView waiting_view(Live const& live, Tokens generated, Tokens at_once) const {
    Tokens const known{live.request.prompt.count + generated.count};
    return {live.request, known, live.arrived, at_once, generated, learns_outputs<Policy> ? &outputs_[live.request.request_class.index] : nullptr};
  }
  /// As the footprint says; of most footprints it is one division.
  [[gnu::always_inline]] Blocks most(std::uint32_t pool, Sequences const& of) const {
    if (paged_by_ == Tokens{} || of.branches != 1) return footprint.most(pool, of);
    return pool == 0 ? blocks_for(of.length, paged_by_) : Blocks{};
  }
  static Sequences whole(Request const& request) { return {request.prompt + request.max_new + request.ahead(), request.prompt, request.branches}; }
  /// The first pool in which the whole request would have no room if it were alone; as many as there are pools where it has.
  std::uint32_t too_small_for(Request const& request) const {
    std::uint32_t pool = 0;
    while (pool < ledger.pools() && most(pool, whole(request)) <= ledger.capacity(pool)) ++pool;
    return pool;
  }
  /// How far `live` gets with `blocks` of pool 0, which are those for `length`.
  Footprint::Reach reach(Live const& live, Tokens length, Blocks blocks) const {
    if (paged_by_ == Tokens{} || live.request.branches != 1) return footprint.reach(live.sequences(length));
    Tokens const end = paged_by_ * blocks.count;
    return {.room = end, .tokens_held = end};
  }
  Footprint::Reach reach(Live const& live, Tokens length) const {
    Tokens const reserved = max(length, live.reserved);
    return reach(live, reserved, most(0, live.sequences(reserved)));
  }

  /// The block of a footprint that is as paged() makes it; 0 of any other.
  Tokens paged_by() const { return paged_by_; }

  /// The length that must have room: as the need says, at least the known tokens (a need may say that a part is enough), and at most
  /// prompt + max_new. One that was preempted needs more than it had.
  Tokens reserved_for(Live const& live, Tokens found, Tokens at_once) const {
    Tokens const least = needs_part ? found + at_once : live.length() + live.again;
    Tokens const asked = policy.need(waiting_view(live, found + at_once));
    return min(max(asked, least), live.longest());
  }
  Blocks free_for(Sequences const& of, std::uint32_t pool) const {
    if constexpr (requires { holds_of(policy).must_be_free(footprint, pool, of); })
      return holds_of(policy).must_be_free(footprint, pool, of);
    else
      return most(pool, of);
  }

  Decoding decoding(Live const& live) const { return {live.sequences(live.length()), live.longest() - live.length()}; }
  /// Blocks of every pool that `live` holds at `length`, after a step of `step` tokens; what is reserved is held in any case.
  PoolBlocks held_at(Live const& live, Tokens length, Tokens step) const {
    PoolBlocks blocks{};
    Sequences const of = live.sequences(max(length, live.reserved));
    for (std::uint32_t pool = 0; pool < ledger.pools(); ++pool) blocks[pool] = held(pool, of, step) - live.shared[pool];
    return blocks;
  }
  Blocks held(std::uint32_t pool, Sequences const& of, Tokens step) const {
    if constexpr (holds_most)
      return most(pool, of);
    else
      return holds_of(policy)(footprint, pool, of, step);
  }

  /// What the token after those that there is room for takes beyond `held` blocks, where there may be one.
  PoolBlocks next_beyond(Live const& live, Tokens room, PoolBlocks const& held) const {
    Tokens const full = room - live.ahead;
    if (full >= live.longest()) return {};
    PoolBlocks next = held_at(live, full + Tokens{1}, Tokens{1});
    for (std::uint32_t pool = 0; pool < ledger.pools(); ++pool) next[pool] -= held[pool];
    return next;
  }
  /// Whether the next token is the one after those that there is room for.
  static bool at_end(Live const& live, Tokens length, Tokens room) { return length < live.longest() && live.sequences(length + Tokens{1}).length > room; }

  /// A full hit computes its last token all the same, in a block of its own; of the rest, those on the host go first. What is shared of a
  /// window is out of it soon: such hits take room like idle ones.
  [[gnu::noinline]] Hits usable_hits(std::uint32_t slot, std::uint32_t pool) const {
    Live const& live = table[slot];
    Tokens const block = ledger.block(pool);
    if (!live.found || block == Tokens{}) return {};
    Blocks const most = blocks_in(live.length() - Tokens{1}, block);
    Hits hits = hits_[std::size_t{slot} * ledger.pools() + pool];
    hits.active = min(hits.active, most);
    hits.idle = min(hits.idle, most - hits.active);
    hits.host = min(hits.host, most - hits.active - hits.idle);
    if (!shares_blocks<Source> || !footprint.keeps_everything(pool)) return {.idle = hits.active + hits.idle, .host = hits.host};
    return hits;
  }

  /// Tokens that a preempted request left as cache, without those in blocks that are `taken`: its first ones, where blocks are tokens; else
  /// all of them or none.
  Tokens found_without(Live const& live, PoolBlocks const& taken) const {
    Tokens found = live.done;
    for (std::uint32_t pool = 0; pool < ledger.pools(); ++pool) {
      if (taken[pool] == Blocks{}) continue;
      bool const by_block = live.request.branches == 1 && footprint.keeps_everything(pool);
      found = min(found, by_block ? ledger.block(pool) * (live.kept[pool] - taken[pool]).count : Tokens{});
    }
    return found;
  }

 protected:
  Tokens paged_by_;
  std::uint32_t classes_;
  std::vector<Hits> hits_;              // of each slot, pool by pool
  std::vector<OutputLengths> outputs_;  // of each class, where the need learns from them
};

}  // namespace kvbudget::inline v1
