// What a controller knows, and how it changes. Each transition moves one request, its blocks, its class's account and its tenant's counter
// together; none of them decides anything. Who decides is the planner, which only reads.
#pragma once

#include <kvbudget/admit/future_peak.hpp>
#include <kvbudget/admit/lanes.hpp>
#include <kvbudget/admit/plan.hpp>
#include <kvbudget/admit/policy.hpp>

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
  static constexpr bool looks_ahead_ = looks_ahead<Policy>;
  static constexpr bool by_arrival = requires { decltype(Policy::order)::by_arrival; };
  static constexpr bool holds_most = std::same_as<decltype(holds_of(std::declval<Policy const&>())), holds::Most>;

  struct AdapterUse {
    std::uint64_t adapter;
    std::uint64_t running;
  };

  template <class Make>
  AdmissionState(AdmissionLimits const& of, Policy its_policy, bool good, Make make)
      : policy{std::move(its_policy)},
        limits{of},
        footprint{of.resolved_footprint()},
        ledger{good ? Ledger<Source>{of, make} : Ledger<Source>{}},
        table{good ? of.max_live : 0},
        lanes{good ? of.classes : 0, good ? of.tenants : 0},
        accounts((good ? of.classes : 0) + std::size_t{1}),
        paged_by_{footprint.paged_by()},
        classes_{static_cast<std::uint32_t>(accounts.size()) - 1},
        fresh_(accounts.size()),
        served_(good ? of.tenants : 0),
        live_of_tenant_(served_.size()),
        hits_(std::size_t{table.size()} * ledger.pools()) {
    adapters.reserve(of.adapters);
    for (std::uint32_t pool = 0; pool < ledger.pools(); ++pool) fix_headroom(pool);
    plain_pool_ = ledger.pools() > 0 && is_plain_pool();
    bool const frees = holds_most && !SharesFairly<decltype(policy.order)> && of.tokens_per_step.saturated();
    free_classes_ = frees ? of.class_limits.size() : max_classes;
    limited = !of.class_limits.empty() || of.max_running != saturated_count || of.adapters != 0 || of.whole_prompts ||
              !of.tokens_per_step.saturated() || !of.chunk.saturated();
    if constexpr (learns_outputs<Policy>) outputs_.resize(classes());
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
  std::vector<AdapterUse> adapters;    // in use
  FuturePeak peak;                     // of those in flight, where the need looks ahead
  PoolBlocks headroom{};               // given, as far as only the limits and the policy decide it
  PoolBlocks next_step{};              // what the running requests' next token takes
  std::uint64_t sequences{};           // in flight: branches count
  std::uint64_t now{};
  std::uint64_t steps{};    // that have begun
  Tokens step_tokens{};     // computed in this one
  std::uint64_t version{};  // counts changes
  bool limited{};           // there are limits on starts that pools do not count, or floors
  bool yielding{};          // somebody was preempted in this step
  [[no_unique_address]] Memory memory{};

  // ---- reading ----

  std::uint32_t classes() const { return classes_; }
  std::size_t account_index(RequestClass request_class) const { return request_class.index < classes_ ? request_class.index : classes_; }
  ClassAccount& account(RequestClass request_class) { return accounts[account_index(request_class)]; }
  ClassAccount const& account(RequestClass request_class) const { return accounts[account_index(request_class)]; }
  std::uint64_t served(std::uint32_t tenant) const { return served_[tenant]; }
  ClassUsage usage(RequestClass request_class) const {
    ClassAccount const& of = account(request_class);
    return {.active_requests = of.active_requests,
            .started = 0,
            .active_tokens = of.active_tokens,
            .to_compute = of.to_compute,
            .held = ledger.held(0, request_class)};
  }
  /// Whether an adapter takes no more room among those in use.
  bool loaded(std::uint64_t adapter) const {
    if (adapter == 0 || limits.adapters == 0) return true;
    for (auto const& one : adapters)
      if (one.adapter == adapter) return true;
    return false;
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
    if (!footprint.keeps_everything(pool)) return {.idle = hits.active + hits.idle, .host = hits.host};
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

  // ---- waiting ----

  Ticket enqueue(Request const& request, ClassAccount& of_class) {
    std::uint32_t const slot = table.acquire(request);
    Live& live = table[slot];
    live.account = &of_class;
    live.arrival = ++arrivals_;
    live.arrived = now;
    live.plain = plain_pool_ && request.branches == 1 && !request.arrives && request.request_class.index >= free_classes_;
    if constexpr (SharesFairly<decltype(policy.order)>) {
      lift(request.tenant);
      ++live_of_tenant_[request.tenant];
    }
    queue(live, slot, LiveState::waiting, request.prompt);
    return {slot, live.generation};
  }

  void found(std::uint32_t slot, Hits const& hits, std::uint32_t pool) {
    Hits* const of_pools = &hits_[std::size_t{slot} * ledger.pools()];
    for (std::uint32_t other = 0; !table[slot].found && other < ledger.pools(); ++other) of_pools[other] = {};
    table[slot].found = true;
    table[slot].plain = false;
    of_pools[pool] = hits;
    ++version;
  }

  void refuse(std::uint32_t slot, Reason reason) {
    Live& live = table[slot];
    dequeue(live, live.cached());
    ++live.account->rejected[static_cast<std::size_t>(reason)];
    forget(live, slot);
  }

  /// A plan looked at it, and started `times` others all the same.
  void passed(std::uint32_t slot, std::uint32_t times) {
    table[slot].looked_at = table[slot].length();
    table[slot].passed = static_cast<std::uint32_t>(min(Tokens{std::uint64_t{table[slot].passed} + times}, Tokens{0xffff'ffff}).count);
    ++version;
  }

  /// A step's admission is over: whoever is queued has waited this step. Once a step.
  void end_pass() {
    if (pass_ended_) return;
    pass_ended_ = true;
    ++passes_;
    for (std::size_t i = 0; i < accounts.size(); ++i) {
      accounts[i].steps_waited += accounts[i].queued_requests;
      accounts[i].ever_waited += fresh_[i];
      fresh_[i] = 0;
    }
  }

  void begin_step(std::uint64_t at) {
    if (steps > 0) end_pass();
    now = at;
    ++steps;
    ++version;
    step_tokens = {};
    pass_ended_ = false;
    yielding = false;
    if constexpr (looks_ahead<Policy>) look_ahead();
  }

  // ---- starting and growing ----

  /// False when the source gives less than it said it had; the request stays queued.
  [[gnu::always_inline]] bool start(std::uint32_t slot, Work const& as, bool step_by_step) {
    Live& live = table[slot];
    return live.plain && !step_by_step ? start_plain(live, slot, as) : start_any(live, slot, as, step_by_step);
  }
  [[gnu::noinline]] bool start_any(Live& live, std::uint32_t slot, Work const& as, bool step_by_step) {
    if (live.keeps) drop_kept(live);
    if (!take(live, as.blocks)) return false;
    bool const again = live.state == LiveState::preempted;
    Tokens const length = live.length(), cached = live.cached();
    dequeue(live, cached);
    running.push_back(table, slot);
    live.state = live.arrives() ? LiveState::arriving : LiveState::running;
    live.admission = ++admissions_;
    live.reserved = as.reserved;
    live.started_at = live.grown();
    live.looked_at = length;
    live.step_by_step = step_by_step;
    live.done = as.found;
    see_how_it_grows(live);
    if (live.found)
      for (std::uint32_t pool = 0; pool < ledger.pools(); ++pool) live.shared[pool] = usable_hits(slot, pool).active;
    ledger.each_pool([&](std::uint32_t pool) { live.held[pool] = as.blocks[pool]; });
    sequences += live.request.branches;
    if (limits.adapters != 0) use(live.request.adapter);

    ClassAccount& of = *live.account;
    ++of.admitted;
    ++of.active_requests;
    of.active_tokens += cached;
    if (again) {
      if (preemption_of(policy).keep == Keep::on_host) of.moved_blocks += filled(live, as.blocks[0]);
      live.lost -= live.cached_at(as.found);
    } else {
      of.found_tokens += as.found;
    }
    serve(live.request.tenant, length - as.found, false);
    if (step_by_step) {
      account_for(live, as.found, as.found + as.tokens);
      of.to_compute += length - live.done;
      advance(live, as.tokens);
    } else {
      account_for(live, cached - live.cached_at(as.found));
    }
    live.counted_at = steps;
    live.room = as.reach.room;
    live.tokens_held = as.reach.tokens_held;
    of.tokens_held += live.tokens_held;
    measure(live);
    if constexpr (looks_ahead<Policy>) peak.put(slot, decoding(live));
    return true;
  }

  /// The same of a plain one: of all that a start moves, what is not nothing.
  [[gnu::always_inline]] bool start_plain(Live& live, std::uint32_t slot, Work const& as) {
    if (!ledger.take(as.blocks[0], live.request.request_class, 0)) return false;
    Tokens const prompt = live.request.prompt;
    leave_lane(live, prompt);
    running.push_back(table, slot);
    ++sequences;
    live.state = LiveState::running;
    live.freely = live.by_block = true;
    live.admission = ++admissions_;
    live.counted_at = steps;
    live.reserved = as.reserved;
    live.started_at = {};
    live.held[0] = as.blocks[0];
    live.room = as.reach.room;
    live.tokens_held = as.reach.tokens_held;
    live.ends = live.left = min(Tokens{live.room.count - live.ahead.count - prompt.count}, live.request.max_new);
    if (live.left == Tokens{} && live.request.max_new != Tokens{}) count_next(live);
    ClassAccount& of = *live.account;
    ++of.admitted;
    ++of.active_requests;
    of.active_tokens.count += prompt.count;
    of.useful_tokens.count += prompt.count;
    of.tokens_held.count += live.tokens_held.count;
    if constexpr (looks_ahead<Policy>) peak.put(slot, decoding(live));
    return true;
  }

  /// It holds `step` tokens more, for which it has the blocks.
  void grow(std::uint32_t slot, Tokens step) {
    Live& live = table[slot];
    Tokens const before = live.cached();
    live.ends = live.grown() + step;
    live.left = {};
    if (live.step_by_step) {
      live.done += step;
      live.pending -= step;
    }
    ClassAccount& of = *live.account;
    of.active_tokens += live.cached() - before;
    of.useful_tokens += live.cached() - before;
    serve(live.request.tenant, step * live.request.branches, true);
    ++version;
  }

  /// The same of one that grows freely, into room that it has: only counts move.
  void grow_in_room(Live& live, Tokens step) {
    live.left.count -= step.count;
    live.account->active_tokens.count += step.count;
    live.account->useful_tokens.count += step.count;
    ++version;
  }

  /// All of the room that it has.
  [[gnu::noinline]] void fill_room(Live& live) {
    grow_in_room(live, live.left);
    if (live.freely && live.ends < live.request.max_new) count_next(live);
  }

  /// Beyond its room, into blocks that are there for the taking. How many of pool 0 it took; the maximum, and nothing has changed, where
  /// somebody may have to give way.
  [[gnu::noinline]] Blocks grow_beyond_room(Live& live, Tokens step) {
    if (step == Tokens{1} && live.next_counted && live.by_block) return grow_by_a_block(live);
    if (!live.freely || step > live.longest() - live.length()) return Blocks::max();
    return grow_by_blocks(live, step);
  }

  /// A step by step request computes `tokens` of what it knows.
  void compute(std::uint32_t slot, Tokens tokens) {
    Live& live = table[slot];
    account_for(live, live.done, live.done + tokens);
    advance(live, tokens);
    ++version;
  }

  /// A step that computed the last known token has generated another.
  void generate(std::uint32_t slot) {
    Live& live = table[slot];
    if (live.done == live.length() && live.pending == Tokens{} && live.length() < live.longest()) live.pending = Tokens{1};
  }
  void generate(std::uint32_t slot, Tokens more) {
    Live& live = table[slot];
    live.pending = min(live.pending + more, live.longest() - live.length());
    ++version;
  }

  /// Another set of blocks for a request in flight. False when the source gives less than it said it had.
  bool exchange(std::uint32_t slot, PoolBlocks const& blocks) {
    Live& live = table[slot];
    PoolBlocks more{}, less{};
    bool gives = false;
    for (std::uint32_t pool = 0; pool < ledger.pools(); ++pool) {
      more[pool] = blocks[pool] - live.held[pool];
      less[pool] = live.held[pool] - blocks[pool];
      gives |= less[pool] != Blocks{};
    }
    if (gives) ledger.give(less, live.request.request_class, now);
    bool const taken = take(live, more);
    for (std::uint32_t pool = 0; pool < ledger.pools(); ++pool) live.held[pool] = live.held[pool] - less[pool] + (taken ? more[pool] : Blocks{});
    return taken;
  }

  /// Notes how far what a request in flight holds now reaches.
  void hold(std::uint32_t slot, Footprint::Reach const& reach) { hold(table[slot], reach); }
  [[gnu::always_inline]] void hold(Live& live, Footprint::Reach const& reach) {
    uncount_next(live);
    count_steps(live);
    if (reach.tokens_held < live.tokens_held) live.account->mark_peaks();
    live.account->tokens_held -= live.tokens_held;
    live.account->tokens_held += reach.tokens_held;
    live.tokens_held = reach.tokens_held;
    live.room = reach.room;
    measure(live);
  }

  /// How far growth needs no look at anything else, and whether its next token already takes blocks.
  void measure(std::uint32_t slot) { measure(table[slot]); }
  [[gnu::always_inline]] void measure(Live& live) {
    Tokens const grown = live.grown();
    live.ends = live.freely ? min(Tokens{live.room.count - live.ahead.count - live.request.prompt.count}, live.request.max_new) : grown;
    live.left = {live.ends.count - grown.count};
    if (live.left == Tokens{} && live.state == LiveState::running && at_end(live, live.length(), live.room))
      count_next(live);
    else
      uncount_next(live);
    ++version;
  }

  /// What the token after its room takes is among what the next step takes.
  void count_next(Live& live) {
    if (live.next_counted) return;
    live.next_counted = true;
    if (!live.by_block) return see_and_count_next(live);
    live.next[0] = Blocks{1};
    ++next_step[0].count;
  }
  void uncount_next(Live& live) {
    if (!live.next_counted) return;
    live.next_counted = false;
    ledger.each_pool([&](std::uint32_t pool) { next_step[pool] -= live.next[pool]; });
  }
  [[gnu::noinline]] void see_and_count_next(Live& live) {
    see_next(live, live.room - live.ahead + Tokens{1});
    for (std::uint32_t pool = 0; pool < ledger.pools(); ++pool) next_step[pool] += live.next[pool];
  }
  /// What `length` tokens take beyond what it holds.
  [[gnu::noinline]] void see_next(Live& live, Tokens length) {
    Sequences const of = live.sequences(max(length, live.reserved));
    for (std::uint32_t pool = 0; pool < ledger.pools(); ++pool) live.next[pool] = held(pool, of, Tokens{1}) - live.shared[pool] - live.held[pool];
  }
  void become(std::uint32_t slot, LiveState state) {
    table[slot].state = state;
    see_how_it_grows(table[slot]);
    measure(table[slot]);
  }

  // ---- stopping ----

  /// A request in flight gives its room back and waits again.
  void preempt(std::uint32_t slot) {
    Live& live = table[slot];
    Preemption const how = preemption_of(policy);
    PoolBlocks const held = live.held;
    bool const shares = live.shared != PoolBlocks{};
    live.done = live.computed();
    live.lost += live.cached_at(live.done);
    stop(slot);
    live.ends = live.grown() + live.pending;
    live.left = {};
    live.pending = {};
    live.step_by_step = live.freely = live.by_block = live.plain = false;
    live.again = max(live.again, how.regain);
    live.front = how.front;
    if (how.anew) live.arrival = ++arrivals_;
    ClassAccount& of = *live.account;
    ++of.preempted;
    live.found = false;
    queue(live, slot, LiveState::preempted, live.cached());
    if (how.keep == Keep::on_host) of.moved_blocks += filled(live, held[0]);
    if (how.keep == Keep::as_cache && !ledger.retires() && !shares) {
      live.kept = held;
      live.keeps = true;
      ledger.keep(held);
      evict();
    }
    yielding = true;
  }

  /// A request leaves for good, wherever it is.
  void leave(std::uint32_t slot, bool completed, std::uint64_t ClassAccount::*how) {
    Live& live = table[slot];
    count_steps(live);
    ClassAccount& of = *live.account;
    ++(of.*how);
    if constexpr (learns_outputs<Policy>)
      if (completed) outputs_[live.request.request_class.index].observe(live.grown());
    if (!completed) of.wasted_token_steps = saturating_add(of.wasted_token_steps, live.token_steps);
    if (live.in_flight()) {
      if constexpr (requires { policy.left(memory, Ticket{}, live); }) policy.left(memory, table.ticket(slot), live);
      stop(slot);
    } else {
      dequeue(live, live.cached());
    }
    forget(live, slot);
  }

  /// The same of one that grows by blocks of pool 0, and is complete.
  void complete_plain(Live& live, std::uint32_t slot) {
    ++live.account->completed;
    if constexpr (learns_outputs<Policy>) outputs_[live.request.request_class.index].observe(live.grown());
    if constexpr (requires { policy.left(memory, Ticket{}, live); }) policy.left(memory, table.ticket(slot), live);
    stop_plain(live, slot);
    forget(live, slot);
  }

  void retire(std::uint64_t step) {
    ledger.retire(step);
    ++version;
  }

  void resize(std::uint32_t pool, Blocks capacity) {
    ledger.resize(pool, capacity);
    fix_headroom(pool);
    plain_pool_ = is_plain_pool();
    for (std::uint32_t slot = 0; slot < table.size(); ++slot) {
      table[slot].plain &= plain_pool_;
      table[slot].by_block &= plain_pool_;
    }
    evict();
    ++version;
  }

 private:
  /// One pool, of which a token takes a block at most, and no count of all requests' tokens in it can saturate; what is kept in it as cache is
  /// not looked at.
  bool is_plain_pool() const {
    bool const counts = !(paged_by_ * (ledger.capacity(0) + Blocks{1}).count * table.size()).saturated();
    return ledger.pools() == 1 && paged_by_ != Tokens{} && counts && preemption_of(policy).keep != Keep::as_cache && limits.adapters == 0;
  }
  void fix_headroom(std::uint32_t pool) {
    headroom[pool] = ledger.headroom(pool);
    if constexpr (requires { policy.headroom.fixed(Blocks{}, Blocks{}); }) headroom[pool] = policy.headroom.fixed(headroom[pool], ledger.capacity(pool));
  }

  /// Freely: one sequence, whose class has no ceiling, driven by its lease alone, in steps without a budget.
  void see_how_it_grows(Live& live) {
    live.freely = live.request.request_class.index >= free_classes_ && live.request.branches == 1 && live.state == LiveState::running && !live.step_by_step;
    live.by_block = live.freely && plain_pool_;
  }

  [[gnu::noinline]] Blocks grow_by_blocks(Live& live, Tokens step) {
    uncount_next(live);
    see_next(live, live.length() + step);
    if (!take(live, live.next)) return measure(live), Blocks::max();
    Blocks const taken = live.next[0];
    for (std::uint32_t pool = 0; pool < ledger.pools(); ++pool) live.held[pool] += live.next[pool];
    live.ends = live.grown() + step;
    live.left = {};
    live.account->active_tokens += step;
    live.account->useful_tokens += step;
    hold(live, reach(live, live.length()));
    return taken;
  }
  /// The token after its room, of most requests: what hold() and measure() come to where a block of pool 0 is all that it takes.
  Blocks grow_by_a_block(Live& live) {
    if (!ledger.take(Blocks{1}, live.request.request_class, 0)) return Blocks::max();
    count_steps(live);
    std::uint64_t const block = paged_by_.count, grown = live.ends.count + 1;
    --next_step[0].count;
    live.next_counted = false;
    ++live.held[0].count;
    live.room.count += block;
    live.tokens_held.count += block;
    live.account->tokens_held.count += block;
    ++live.account->active_tokens.count;
    ++live.account->useful_tokens.count;
    live.ends = min(Tokens{live.ends.count + block}, live.request.max_new);
    live.left = {live.ends.count - grown};
    ++version;
    if (live.left == Tokens{} && live.ends < live.request.max_new) count_next(live);
    return Blocks{1};
  }

  [[gnu::always_inline]] void queue(Live& live, std::uint32_t slot, LiveState state, Tokens cached) {
    live.state = state;
    live.queued_in_pass = passes_;
    if constexpr (!by_arrival) live.rank = policy.order.rank(waiting_view(live, Tokens::max()));
    if (by_arrival && state == LiveState::waiting)
      lanes.append(table, slot);
    else
      lanes.insert(table, slot);
    ClassAccount& of = *live.account;
    ++of.queued_requests;
    of.queued_tokens += cached;
    if (!live.has_waited) ++fresh_[live.request.request_class.index];
    ++version;
  }

  void dequeue(Live& live, Tokens cached) {
    if (live.keeps) drop_kept(live);
    leave_lane(live, cached);
  }
  [[gnu::always_inline]] void leave_lane(Live& live, Tokens cached) {
    lanes.remove(table, live);
    --live.account->queued_requests;
    live.account->queued_tokens -= cached;
    ++version;
    if (live.has_waited) return;
    live.has_waited = live.queued_in_pass != passes_;
    if (!live.has_waited) --fresh_[live.request.request_class.index];
  }

  void forget(Live& live, std::uint32_t slot) {
    if constexpr (SharesFairly<decltype(policy.order)>) --live_of_tenant_[live.request.tenant];
    table.release(live, slot);
  }

  [[gnu::always_inline]] void stop(std::uint32_t slot) {
    Live& live = table[slot];
    ledger.give(live.held, live.request.request_class, now);
    running.remove(table, live);
    if constexpr (looks_ahead<Policy>) peak.remove(slot);
    sequences -= live.request.branches;
    if (limits.adapters != 0) stop_using(live.request.adapter);
    ClassAccount& of = *live.account;
    of.mark_peaks();
    --of.active_requests;
    of.active_tokens -= live.cached();
    if (live.step_by_step) of.to_compute -= live.length() - live.done;
    count_steps(live);
    of.tokens_held -= live.tokens_held;
    uncount_next(live);
    ledger.each_pool([&](std::uint32_t pool) { live.held[pool] = live.shared[pool] = {}; });
    live.reserved = live.tokens_held = {};
    ++version;
  }

  /// The same of one that grows by blocks of pool 0.
  void stop_plain(Live& live, std::uint32_t slot) {
    ledger.give(live.held, live.request.request_class, now);
    running.remove(table, live);
    --sequences;
    if constexpr (looks_ahead<Policy>) peak.remove(slot);
    ClassAccount& of = *live.account;
    of.mark_peaks();
    --of.active_requests;
    of.active_tokens.count -= live.length().count;
    of.tokens_held.count -= live.tokens_held.count;
    if (live.next_counted) uncount_next(live);
    live.held[0] = live.shared[0] = {};
    live.reserved = live.tokens_held = {};
    ++version;
  }

  /// A step has gone by since what runs was looked at last: those that did not grow by a token in it are put right.
  void look_ahead() {
    for (std::uint32_t slot = running.front(); slot != no_slot; slot = table[slot].next_slot)
      if (Live const& live = table[slot]; peak.length(slot) != live.sequences(live.length()).length) peak.put(slot, decoding(live));
    peak.advance();
  }

  void advance(Live& live, Tokens tokens) {
    live.done += tokens;
    live.account->to_compute -= tokens;
  }

  /// Tokens computed from one length to another: those that were lost before are computed again.
  void account_for(Live& live, Tokens from, Tokens to) { account_for(live, live.cached_at(to) - live.cached_at(from)); }
  void account_for(Live& live, Tokens computed) {
    live.account->useful_tokens += computed;
    if (live.lost != Tokens{}) recompute(live, computed);
  }
  [[gnu::noinline]] void recompute(Live& live, Tokens computed) {
    Tokens const again = min(computed, live.lost);
    live.account->useful_tokens -= again;
    live.account->recomputed_tokens += again;
    live.lost -= again;
  }

  /// Of so many blocks of pool 0, those with tokens that were computed before a preemption.
  Blocks filled(Live const& live, Blocks blocks) const { return min(blocks, footprint.most(0, live.sequences(live.done))); }

  /// Tokens held x steps, up to now.
  void count_steps(Live& live) {
    if (live.counted_at == steps) return;
    live.token_steps = saturating_add(live.token_steps, saturating_multiply(live.tokens_held.count, steps - live.counted_at));
    live.counted_at = steps;
  }

  // ---- what is kept as cache ----

  bool take(Live const& live, PoolBlocks const& blocks) {
    if (!ledger.take(blocks, live.request.request_class)) return false;
    if (preemption_of(policy).keep == Keep::as_cache) evict();
    return true;
  }

  /// Blocks that were kept have been taken: of whoever would start last, from the end.
  [[gnu::noinline]] void evict() {
    for (std::uint32_t pool = 0; pool < ledger.pools(); ++pool)
      while (ledger.taken_of_kept(pool) != Blocks{}) {
        Live& live = table[last_to_keep(pool)];
        PoolBlocks taken{};
        taken[pool] = min(ledger.taken_of_kept(pool), live.kept[pool]);
        live.done = found_without(live, taken);
        live.kept[pool] -= taken[pool];
        live.account->evicted_blocks += taken[0];
        ledger.evict(taken);
        if (live.done == Tokens{}) drop_kept(live);
      }
  }
  std::uint32_t last_to_keep(std::uint32_t pool) const {
    std::uint32_t last = no_slot;
    for (auto const lane : lanes.active())
      for (std::uint32_t slot = lanes.front(lane); slot != no_slot; slot = table[slot].next_slot)
        if (table[slot].kept[pool] != Blocks{} && (last == no_slot || waits_before(table[last], table[slot]))) last = slot;
    return last;
  }
  [[gnu::noinline]] void drop_kept(Live& live) {
    ledger.evict(live.kept);
    live.kept = {};
    live.keeps = false;
  }

  // ---- tenants and adapters ----

  void serve(std::uint32_t tenant, Tokens tokens, bool generated) {
    if constexpr (SharesFairly<decltype(policy.order)>)
      served_[tenant] = saturating_add(served_[tenant], saturating_multiply(tokens.count, generated ? policy.order.output : policy.order.input));
  }

  /// A tenant that has nothing here does not save up: it starts with the least served of those that have.
  void lift(std::uint32_t tenant) {
    if (live_of_tenant_[tenant] > 0) return;
    std::uint64_t least = saturated_count;
    for (std::uint32_t t = 0; t < served_.size(); ++t)
      if (live_of_tenant_[t] > 0 && served_[t] < least) least = served_[t];
    if (least != saturated_count && least > served_[tenant]) served_[tenant] = least;
  }

  [[gnu::noinline]] void use(std::uint64_t adapter) {
    if (adapter == 0) return;
    for (auto& one : adapters)
      if (one.adapter == adapter) return void(++one.running);
    adapters.push_back({adapter, 1});
  }
  [[gnu::noinline]] void stop_using(std::uint64_t adapter) {
    for (auto& one : adapters) {
      if (one.adapter != adapter || --one.running > 0) continue;
      one = adapters.back();
      adapters.pop_back();
      return;
    }
  }

  Tokens paged_by_;
  bool plain_pool_{};
  std::size_t free_classes_{};  // of this class and those after it growth may be free: they have no ceiling, nor steps a budget
  std::uint32_t classes_;
  std::vector<std::uint64_t> fresh_;  // queued requests of each class that no pass has passed over yet
  std::vector<std::uint64_t> served_;
  std::vector<std::uint32_t> live_of_tenant_;
  std::vector<Hits> hits_;
  std::vector<OutputLengths> outputs_;  // of each class, where the need learns from them
  std::uint64_t passes_{};  // admission passes that have ended
  std::uint64_t arrivals_{};
  std::uint64_t admissions_{};
  bool pass_ended_{};
};

}  // namespace kvbudget::inline v1
