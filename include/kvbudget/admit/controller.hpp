// Who may start now, who waits, who can never fit, and who gives way: state + planner, by a policy.
//
//   submit      queues a request or rejects it; starts nothing. Rejected iff prompt + max_new (look-ahead and branches
//               counted, rounded up to blocks) exceeds the capacity: equal is accepted.
//   plan        what the next step does, decided and not yet done; commit does it. Two ways in, and this is the one for schedulers.
//   admit_next  the other way: a plan of one start, committed at once. The next request whose need + headroom <= free. Headroom is
//               waived when nothing runs, so the head of the queue always starts then.
//   grow        through the lease: holds the tokens, or the lease has ended. Where the room runs out, leases are preempted in
//               the policy's order until there is enough for the asker; where it is the asker's turn, only the asker is. A
//               preempted request returns to the front of the queue, and nothing starts before the next begin_step.
//   release     a lease ends, or cancel(ticket) in any state: the room is free at once, or, with steps in flight, once they retire.
// What the policy's need asks for is reserved from the start: at least the known tokens, at most prompt + max_new.
// Time is an argument; equal calls give equal decisions. After construction nothing is allocated, but for plans of the caller's own.
#pragma once

#include <kvbudget/admit/lease.hpp>
#include <kvbudget/admit/observer.hpp>
#include <kvbudget/admit/planner.hpp>
#include <kvbudget/admit/policies/recommended.hpp>
#include <kvbudget/admit/transitions.hpp>

namespace kvbudget::inline v1 {

template <AdmissionPolicy Policy = policies::Recommended, BlockSource Source = Counter, EventObserver Observer = Silent>
class AdmissionController {
  using State = AdmissionState<Policy, Source>;

 public:
  using Lease = kvbudget::Lease<AdmissionController>;
  using StepPlan = typename State::Plan;

  explicit AdmissionController(AdmissionLimits const& limits, Policy policy = {}, Observer observer = {}) requires std::constructible_from<Source, Blocks>
      : AdmissionController{limits, std::move(policy), std::move(observer), check_all(limits, policy),
                            [&](std::uint32_t pool) { return Source{limits.capacity_of(pool)}; }} {}

  /// With the pools' own sources of blocks, one for each pool: handles to a block manager, whose capacity the limits repeat.
  AdmissionController(AdmissionLimits const& limits, Policy policy, std::initializer_list<Source> sources, Observer observer = {})
      : AdmissionController{limits, std::move(policy), std::move(observer), check_sources(limits, policy, sources.size()),
                            [&](std::uint32_t pool) { return sources.begin()[pool]; }} {}

  /// Outlives its leases. Those that are left are a defect of the caller's; they end here.
  ~AdmissionController() {
    bool left = false;
    for (auto* lease : leases_)
      if (lease) {
        lease->gate_ = nullptr;
        left = true;
      }
    assert(!left && "a lease outlives its controller");
    (void)left;
  }
  AdmissionController(AdmissionController&&) = delete;

  /// What is wrong with the limits; empty when they are good.
  Complaints const& complaints() const { return complaints_; }

  /// The only clock: a step of the scheduler begins at `now`, in the caller's own measure. Requests whose deadline is past leave: see left().
  void begin_step(std::uint64_t now) {
    left_.clear();
    state_.begin_step(now);
    note({.kind = EventKind::step_begun, .now = now});
    if (now > earliest_deadline_) reap();
    tell();
  }

  /// Queues the request under verdict.ticket, or rejects it with the reason. max_new is cut to the limits' max_length, or as the policy says.
  Verdict submit(Request const& request) {
    Tokens const most = most_new(request);
    return request.max_new > most ? queue_cut(request, most) : queue(request);
  }

  /// Blocks of a waiting request's prompt that are found in the cache, as of now. False where it does not wait. Those that others use are shared
  /// only where the Source counts who uses a block (shares_blocks); of another they take room like idle ones.
  bool found(Ticket ticket, Hits const& hits, std::uint32_t pool = 0) {
    if (!state_.table.valid(ticket) || !state_.table[ticket.slot].queued() || pool >= pools()) return false;
    state_.found(ticket.slot, hits, pool);
    return true;
  }

  // ---- two ways in: plans of a step ----

  /// What the next step does. Every running request computes what it knows, by chunks, in order of admission; those whose room runs out take
  /// victims or give way; then, if nobody was preempted in this step, requests start. The first form allocates.
  StepPlan plan(StepBudget const& step = {}) const {
    StepPlan plan;
    this->plan(step, plan);
    return plan;
  }
  void plan(StepBudget const& step, StepPlan& plan) const {
    Planner<State> planner{state_, plan, step};
    if constexpr (requires { state_.policy.plan(planner); }) {
      state_.policy.plan(planner);
    } else {
      planner.run_on();
      while (planner.admit_next()) {}
    }
    planner.finish();
    plan.of_whole_step = true;
  }

  /// Does what the plan says. False, and nothing is done, when something has changed since it was made, or another controller made it; false,
  /// too, when a source then gives less than it said it had: who got nothing waits, or has given way.
  [[nodiscard]] bool commit(StepPlan const& plan) {
    if (plan.made_on != &state_ || plan.version != state_.version || !complaints_.empty() || !has_what_it_had(plan) || !names_live(plan)) return false;
    bool const all = carry_out(plan);
    state_.end_pass();
    tell();
    return all;
  }

  /// More tokens than the one that each step is taken to generate, which the next step has to compute: accepted drafts.
  bool generated(Ticket ticket, Tokens more) {
    if (!state_.table.valid(ticket) || !state_.table[ticket.slot].step_by_step) return false;
    state_.generate(ticket.slot, more);
    return true;
  }

  // ---- two ways in: leases ----

  /// The lease of the next request that may start, or one that has ended when none may in this step.
  Lease admit_next() {
    AsItIs<State> const now{state_};
    std::uint32_t const first = state_.yielding ? no_slot : first_waiting(now);
    if (first == no_slot) return state_.end_pass(), Lease{};
    Considered& as = scratch_.draft.considered;
    return Fit<AsItIs<State>>{now}.consider(state_.table[first], first, as) ? lease_of(first, as) : admit_another();
  }

  /// A lease of a request that runs and has none: one that a plan has started.
  Lease lease(Ticket ticket) {
    if (!state_.table.valid(ticket) || !state_.table[ticket.slot].in_flight() || leases_[ticket.slot]) return {};
    return Lease{*this, ticket, state_.table[ticket.slot]};
  }

  // ---- asking ----

  // Not from two threads at once, const as they are: they share what they work with.

  /// Why a request is where it is, and the numbers behind it; as of now.
  Verdict why(Ticket ticket) const {
    if (!state_.table.valid(ticket)) return {.reason = Reason::unknown_ticket, .ticket = ticket};
    Planner<State> planner{state_, asked_, {}};
    Live const& live = state_.table[ticket.slot];
    if (live.in_flight()) return planner.at_pool(Outcome::admitted, what_it_does(live), ticket.slot, 0, live.held[0]);
    Considered const& considered = planner.consider(ticket.slot);
    Verdict const waits = considered.verdict;
    bool const alone = waits.reason == Reason::class_floor && starts_alone(ticket);
    if (!waits.admitted() && !alone) return waits;
    Verdict verdict = planner.with_numbers(ticket.slot, considered);
    verdict.outcome = Outcome::queued;
    bool const behind = !alone && planner.behind_another(ticket.slot);
    verdict.reason = state_.yielding ? Reason::yielding : behind ? Reason::behind_head : Reason::in_queue;
    return verdict;
  }

  /// How many more requests of this shape would start now, if they alone were asked for: by room, headroom, limits and slots.
  std::uint64_t more_of(Request const& request) const {
    if (Tokens const most = most_new(request); request.max_new > most) return more_of(with(request, most));
    if (Verdict verdict = asked(request); state_.yielding || !takes(request, verdict)) return 0;
    Planner<State> planner{state_, asked_, {}};
    Live const shape{request};
    std::uint64_t more = 0;
    for (; more < state_.table.free(); ++more) {
      Considered const& considered = planner.consider(shape, no_slot);
      if (!considered.fits()) break;
      planner.take(shape, no_slot, considered);
    }
    return more;
  }

  /// Calls `each(ticket, request)` for those that wait, in the order they would be looked at now. Allocates; `each` may ask, and change nothing.
  template <class Each>
  void each_waiting(Each each) const {
    StepPlan look{};
    Planner<State> planner{state_, look, {}};
    for (auto slot = planner.next_in_order(); slot != no_slot; slot = planner.next_in_order()) each(state_.table.ticket(slot), state_.table[slot].request);
  }
  /// The same for those in flight, in the order they started.
  template <class Each>
  void each_running(Each each) const {
    for (auto slot = state_.running.front(); slot != no_slot; slot = state_.table[slot].next_slot) each(state_.table.ticket(slot), state_.table[slot].request);
  }

  // ---- leaving ----

  /// Who left since begin_step was called, in it or after it, though nobody finished or cancelled it: the engine computes no more of them.
  std::vector<Departure> const& left() const { return left_; }

  /// The request is given up, wherever it is. False for a stale ticket.
  bool cancel(Ticket ticket) { return leave(ticket, EventKind::cancelled); }

  /// Every request of the group is given up, wherever it is; how many there were. Group 0 is no group.
  std::uint32_t cancel_group(std::uint64_t group) {
    return leave_if(EventKind::cancelled, [group](Live const& live) { return group != 0 && live.request.group == group; });
  }

  /// The request is complete, wherever it is. False for a stale ticket.
  bool finish(Ticket ticket) { return leave(ticket, EventKind::completed); }

  /// The cache of an arriving request is here: it runs.
  bool arrived(Ticket ticket) { return become(ticket, LiveState::arriving, LiveState::running); }

  /// The request is complete, and its cache is being sent: it holds its room until finish() or cancel(), and gives way to nobody.
  bool hold(Ticket ticket) { return become(ticket, LiveState::running, LiveState::held); }

  /// No step up to `step`, as begin_step was told, writes any more: what requests gave back until then is free.
  void retire(std::uint64_t step) { state_.retire(step); }

  /// Another capacity of a pool. Below what is held the pool is overcommitted by a stated number: nothing starts, and growth takes
  /// victims. What is queued and can never fit any more is rejected, again when a capacity returns it is accepted. Complaints, and
  /// no change, where the capacity would be bad.
  Complaints resize(Budget capacity, std::uint32_t pool = 0) requires ResizableSource<Source> {
    if (Complaints const complaints = check_resize(capacity, pool); !complaints.empty()) return complaints;
    state_.resize(pool, capacity.blocks(state_.ledger.block(pool)));
    resized_ = true;
    reject_impossible();
    tell();
    return {};
  }

  /// Nothing new is taken from now on; what is queued and what runs goes on. reopen() ends it.
  void drain() { draining_ = true; }
  void reopen() { draining_ = false; }
  bool drained() const { return state_.lanes.empty() && state_.running.empty(); }

  std::uint64_t now() const { return state_.now; }
  std::uint32_t queued() const { return state_.lanes.size(); }
  /// Requests in flight: running, arriving and held.
  std::uint32_t running() const { return state_.running.size(); }
  std::uint32_t classes() const { return state_.classes(); }
  std::uint32_t pools() const { return state_.ledger.pools(); }
  PoolView pool(std::uint32_t i = 0) const { return i < pools() ? state_.ledger.view(i) : PoolView{}; }
  bool balanced() const { return state_.ledger.balanced(); }
  /// Blocks of a pool that the next token of all running requests takes.
  Blocks next_step(std::uint32_t pool = 0) const { return pool < max_pools ? state_.next_step[pool] : Blocks{}; }
  /// What a tenant was served so far, in the order's virtual tokens.
  std::uint64_t served(std::uint32_t tenant) const { return complaints_.empty() && tenant < state_.limits.tenants ? state_.tenants.served(tenant) : 0; }
  Policy const& policy() const { return state_.policy; }
  typename State::Memory const& memory() const { return state_.memory; }
  Observer& observer() { return observer_; }

  /// A class's account. Requests of unknown classes share one, which a class out of range names.
  ClassAccount const& account(RequestClass request_class) const { return state_.account(request_class); }
  /// Blocks a class holds of a pool.
  Blocks held(RequestClass request_class, std::uint32_t pool = 0) const {
    return request_class.index < classes() && pool < pools() ? state_.ledger.held(pool, request_class) : Blocks{};
  }

 private:
  friend Lease;

  template <class Make>
  AdmissionController(AdmissionLimits const& limits, Policy&& policy, Observer observer, Complaints const& complaints, Make make)
      : complaints_{complaints},
        observer_{std::move(observer)},
        state_{limits, std::move(policy), complaints.empty(), make},
        leases_(state_.table.size()) {
    Planner<State>::size_for(scratch_, state_);
    Planner<State>::size_for(asked_, state_);
    left_.reserve(leases_.size());
    scratch_.preempt.reserve(leases_.size());
    scratch_.refuse.reserve(leases_.size());
    scratch_.wait.reserve(leases_.size());
    scratch_.grow.reserve(1);
    scratch_.admit.reserve(1);
    if constexpr (told) events_.reserve(3 * leases_.size() + 16);
  }

  static constexpr bool told = !std::same_as<Observer, Silent>;

  static Complaints check_all(AdmissionLimits const& limits, Policy const& policy) {
    Complaints complaints = check(limits);
    if constexpr (requires { policy.check(limits); })
      for (auto const& complaint : policy.check(limits)) complaints.push_back(complaint);
    if constexpr (requires { policy.headroom.check(); })
      for (auto const& complaint : policy.headroom.check()) complaints.push_back(complaint);
    if constexpr (requires { policy.need.observed; })
      for (auto const& complaint : kvbudget::check(policy.need.observed)) complaints.push_back(complaint);
    return complaints;
  }
  static Complaints check_sources(AdmissionLimits const& limits, Policy const& policy, std::size_t sources) {
    Complaints complaints = check_all(limits, policy);
    if (sources != limits.pools())
      complaints.push_back({".sources", sources, "one source for each pool", "give a source for the cache and for each of more_pools"});
    return complaints;
  }

  /// So that prompt + max_new is a length: no longer than any may be, nor more than can be counted.
  Tokens most_new(Request const& request) const {
    Tokens const longest = min(state_.limits.max_length, Tokens{saturated_count - 1});
    if constexpr (requires { state_.policy.most_new(request, pool(), longest); })
      return state_.policy.most_new(request, pool(), longest);
    else
      return longest - request.prompt;
  }
  static Request with(Request request, Tokens max_new) {
    request.max_new = max_new;
    return request;
  }

  Verdict queue_cut(Request const& request, Tokens max_new) {
    Verdict verdict = queue(with(request, max_new));
    if (verdict.rejected()) return verdict;
    verdict.field = ".max_new";
    verdict.max_new = max_new;
    return verdict;
  }
  Verdict queue(Request const& request) {
    ClassAccount& account = state_.account(request.request_class);
    ++account.submitted;
    Verdict verdict = asked(request);
    if (takes(request, verdict)) {
      verdict.ticket = state_.enqueue(request, account);
      if (request.deadline < earliest_deadline_) earliest_deadline_ = request.deadline;
    } else {
      ++account.rejected[static_cast<std::size_t>(verdict.reason)];
    }
    note(verdict.rejected() ? EventKind::rejected : EventKind::submitted, request, verdict, {}, {});
    tell();
    return verdict;
  }

  // ---- what can never be ----

  /// Whether a request is queued: not where it is impossible for ever, or the queue is full. Then the verdict, as asked() has it, says why.
  [[gnu::always_inline]] bool takes(Request const& request, Verdict& verdict) const {
    AdmissionLimits const& limits = state_.limits;
    if (pools() == 0) return reject(verdict, Reason::bad_limits, complaints_[0].field, complaints_[0].value);
    if (request.request_class.index >= classes()) return reject(verdict, Reason::unknown_class, ".request_class", request.request_class.index, classes());
    if (request.prompt == Tokens{}) return reject(verdict, Reason::bad_request, ".prompt");
    if (request.prompt > limits.max_length) return reject(verdict, Reason::bad_request, ".prompt", request.prompt.count, limits.max_length.count);
    if (request.branches == 0) return reject(verdict, Reason::bad_request, ".branches");
    if (request.tenant >= limits.tenants) return reject(verdict, Reason::bad_request, ".tenant", request.tenant, limits.tenants);
    if (draining_) return reject(verdict, Reason::draining, "");
    if (!can_ever_fit(request, verdict)) return false;
    if (request.deadline != no_deadline && request.deadline < state_.now) return reject(verdict, Reason::expired, ".deadline", request.deadline, state_.now);
    if (state_.limited && !class_takes(request, verdict)) return false;
    return !state_.table.full() || reject(verdict, Reason::queue_full, ".max_live", leases_.size() + 1, leases_.size());
  }
  [[gnu::noinline]] bool class_takes(Request const& request, Verdict& verdict) const {
    if (request.request_class.index >= state_.limits.class_limits.size()) return true;
    ClassLimit const& limit = state_.limits.class_limits[request.request_class.index];
    ClassAccount const& of = state_.account(request.request_class);
    Tokens const tokens = of.queued_tokens + request.prompt;
    if (of.queued_requests >= limit.queued) return reject(verdict, Reason::class_queue_full, ".queued", of.queued_requests + 1, limit.queued);
    return tokens <= limit.queued_tokens || reject(verdict, Reason::class_queue_full, ".queued_tokens", tokens.count, limit.queued_tokens.count);
  }

  [[gnu::noinline]] static bool reject(Verdict& verdict, Reason reason, char const* field, std::uint64_t value = 0, std::uint64_t limit = 0) {
    verdict = {.reason = reason, .needed = {value}, .limit = {limit}, .field = field};
    return false;
  }
  Verdict at_pool(Outcome outcome, Reason reason, std::uint32_t pool, Blocks needed) const {
    auto const& ledger = state_.ledger;
    return {.outcome = outcome,
            .reason = reason,
            .pool = pool,
            .pool_name = ledger.name(pool),
            .block = ledger.block(pool),
            .needed = needed,
            .free = ledger.available(pool),
            .limit = ledger.capacity(pool)};
  }

  /// What the whole request needs of the first pool.
  Verdict asked(Request const& request) const {
    if (pools() == 0) return {};  // the limits are bad
    return at_pool(Outcome::queued, Reason::in_queue, 0, state_.most(0, State::whole(request)));
  }

  /// Whether the whole request could be served if it were alone. The verdict is as asked() has it.
  [[gnu::always_inline]] bool can_ever_fit(Request const& request, Verdict& verdict) const {
    if constexpr (waits_for_ever<Policy>) return true;
    if (verdict.needed > verdict.limit) return verdict.outcome = Outcome::rejected, verdict.reason = Reason::exceeds_capacity, false;
    if (pools() > 1)
      if (std::uint32_t const pool = state_.too_small_for(request); pool < pools())
        return verdict = at_pool(Outcome::rejected, Reason::exceeds_capacity, pool, state_.most(pool, State::whole(request))), false;
    return !state_.limited || within_limits(request, verdict);
  }
  /// The limits that pools do not count.
  [[gnu::noinline]] bool within_limits(Request const& request, Verdict& verdict) const {
    AdmissionLimits const& limits = state_.limits;
    if (request.branches > limits.max_running) return reject(verdict, Reason::exceeds_capacity, ".max_running", request.branches, limits.max_running);
    if (request.request_class.index < limits.class_limits.size()) {
      Tokens const most = limits.class_limits[request.request_class.index].tokens, tokens = request.prompt + request.max_new * request.branches;
      if (tokens > most) return reject(verdict, Reason::exceeds_class, ".tokens", tokens.count, most.count);
    }
    if (limits.whole_prompts) {
      Tokens const most = min(limits.tokens_per_step, state_.chunk), tokens = request.prompt + request.max_new;
      if (tokens > most) return reject(verdict, Reason::exceeds_step, ".tokens_per_step", tokens.count, most.count);
    }
    return true;
  }

  Complaints check_resize(Budget capacity, std::uint32_t pool) const {
    if (!complaints_.empty()) return complaints_;
    if (pool >= pools()) return {{".pool", pool, "one of the limits' pools", "number the pools from 0"}};
    auto const& ledger = state_.ledger;
    Tokens const block = ledger.block(pool);
    if (capacity.in_tokens && block == Tokens{})
      return {{".capacity", capacity.count, "blocks, where several groups or a fixed one share the pool", "give the capacity in blocks", pool}};
    Blocks const blocks = capacity.blocks(block), headroom = ledger.limits(pool).headroom.blocks(block, blocks);
    if (blocks == Blocks{} || blocks.saturated()) return {{".capacity", capacity.count, "one block or more", "drain() takes nothing new instead", pool}};
    if (headroom >= blocks) return {{".headroom", headroom.count, "less than the capacity", "give a larger capacity, or limits with less headroom", pool}};
    return {};
  }

  /// After a pool has shrunk: whoever is queued and can never fit any more.
  void reject_impossible() {
    for (std::uint32_t slot = 0; slot < leases_.size(); ++slot) {
      Live const& live = state_.table[slot];
      if (!live.queued()) continue;
      Verdict verdict = asked(live.request);
      if (can_ever_fit(live.request, verdict)) continue;
      verdict.ticket = state_.table.ticket(slot);
      note(EventKind::rejected, live.request, verdict, {}, {});
      depart(live, verdict);
      state_.refuse(slot, verdict.reason);
    }
  }

  // ---- doing what was planned ----

  /// The sources of blocks, which others may use as well.
  bool has_what_it_had(StepPlan const& plan) const {
    for (std::uint32_t pool = 0; pool < pools(); ++pool)
      if (state_.ledger.available(pool) != plan.available[pool]) return false;
    return true;
  }

  /// Whether all whom the plan names are where it saw them. They are, but for a plan that a former controller made at this address.
  bool names_live(StepPlan const& plan) const {
    auto const all = [this](std::vector<Planned> const& list, auto is) {
      for (auto const& one : list)
        if (!state_.table.valid(one.ticket()) || !is(state_.table[one.ticket().slot])) return false;
      return true;
    };
    auto const in_flight = [](Live const& live) { return live.in_flight(); };
    auto const queued = [](Live const& live) { return live.queued(); };
    return all(plan.preempt, in_flight) && all(plan.grow, in_flight) && all(plan.admit, queued) && all(plan.wait, queued) &&
           all(plan.refuse, [](Live const&) { return true; });
  }

  /// False when a source gave less than it said it had: what could not be done waits, or has given way.
  bool carry_out(StepPlan const& plan) {
    bool all = true;
    for (auto const& one : plan.preempt) preempt(one);
    for (auto const& one : plan.grow) all &= grow(one, plan.of_whole_step);
    for (auto const& one : plan.admit) all &= start(one.ticket().slot, one, plan.of_whole_step);
    for (auto const& one : plan.refuse) refuse(one);
    for (auto const& one : plan.wait) state_.passed(one.ticket().slot, one.passed_by);
    state_.memory = plan.memory;
    if (!all && resized_) reject_impossible();
    return all;
  }

  void preempt(Planned const& one) {
    std::uint32_t const slot = one.ticket().slot;
    Tokens const before = state_.table[slot].cached();
    end_lease(slot);
    state_.preempt(slot);
    ++state_.account(one.beneficiary).preempted_for;
    note(EventKind::preempted, state_.table[slot].request, one.verdict, before, {});
  }

  bool grow(Planned const& one, bool step_by_step) {
    if (one.reason() == Reason::retiring) return true;
    std::uint32_t const slot = one.ticket().slot;
    Live const& live = state_.table[slot];
    bool const in_room = live.sequences(one.reserved).length <= live.room && one.blocks == live.held;
    if (!in_room && !state_.exchange(slot, one.blocks)) {  // a source that gave less than it said
      Planned gone = one;
      gone.verdict.reason = Reason::preempted;
      gone.beneficiary = one.request_class;
      preempt(gone);
      return false;
    }
    Tokens const before = live.cached(), generated = one.reserved - live.length();
    if (generated == Tokens{})
      state_.compute(slot, one.tokens);
    else
      state_.grow(slot, generated);
    if (in_room)
      state_.measure(slot);
    else
      state_.hold(slot, one.reach);
    state_.step_tokens += one.tokens;
    if (step_by_step) state_.generate(slot);
    if (live.cached() != before) note(EventKind::grown, live.request, one.verdict, before, live.cached());
    return true;
  }

  /// Where the first does not start: as the policy says of those behind it.
  [[gnu::noinline]] Lease admit_another() {
    Planner<State> planner{state_, scratch_, {}};
    Considered const* const next = planner.find_next();
    for (auto const& one : scratch_.wait)
      if (next && one.ticket() != next->ticket()) state_.passed(one.ticket().slot, 1);
    return next ? lease_of(next->ticket().slot, *next) : (state_.end_pass(), Lease{});
  }
  /// An ended one where a source gave less than it said it had.
  [[gnu::always_inline]] Lease lease_of(std::uint32_t slot, Considered const& next) {
    if (!start(slot, next, false)) return state_.end_pass(), Lease{};
    Lease lease{*this, next.ticket(), state_.table[slot]};
    tell();
    return lease;
  }

  template <class Start>
  [[gnu::always_inline]] bool start(std::uint32_t slot, Start const& one, bool step_by_step) {
    if (!state_.start(slot, one, step_by_step)) return false;
    if (state_.bounded) state_.step_tokens += one.tokens;
    if (step_by_step) state_.generate(slot);
    note(EventKind::admitted, state_.table[slot].request, one.verdict, {}, state_.table[slot].cached());
    return true;
  }

  void refuse(Planned const& one) {
    std::uint32_t const slot = one.ticket().slot;
    depart(state_.table[slot], one.verdict);
    if (state_.table[slot].in_flight()) {
      end_lease(slot);
      state_.preempt(slot);
    }
    note(EventKind::rejected, state_.table[slot].request, one.verdict, {}, {});
    state_.refuse(slot, one.reason());
  }

  void depart(Live const& live, Verdict const& verdict) {
    left_.push_back({verdict.ticket, live.request.request_class, live.request.tag, verdict.reason, live.state != LiveState::waiting});
  }
  /// Where nothing runs, whether it is the one that starts although floors would keep it waiting.
  bool starts_alone(Ticket ticket) const {
    if (state_.running.size() > 0) return false;
    Planner<State> planner{state_, asked_, {}};
    Considered const* const next = planner.find_next();
    return next && next->ticket() == ticket;
  }

  static Reason what_it_does(Live const& live) {
    return live.state == LiveState::arriving ? Reason::arriving : live.state == LiveState::held ? Reason::held : Reason::running;
  }

  // ---- growth through a lease ----

  /// What there is nothing to decide about is done here; the numbers of a verdict that nobody looks at cost nothing.
  Verdict grow(Live& live, Ticket ticket, Tokens more) {
    if constexpr (told) return grow_by_decision(ticket, more);
    if (more < live.left) [[likely]] {
      state_.grow_in_room(live, more);
    } else if (more == live.left) {
      state_.fill_room(live);
    } else {
      Blocks const taken = state_.grow_beyond_room(live, more);
      if (taken.saturated()) return grow_by_decision(ticket, more);
      return grown(ticket, taken);
    }
    return {.outcome = Outcome::admitted, .reason = Reason::grown, .ticket = ticket};
  }
  Verdict grown(Ticket ticket, Blocks taken) const {
    Verdict verdict = at_pool(Outcome::admitted, Reason::grown, 0, taken);
    verdict.ticket = ticket;
    verdict.free += taken;
    return verdict;
  }

  Verdict grow_by_decision(Ticket ticket, Tokens more) {
    Live const& live = state_.table[ticket.slot];
    Tokens const max_new = live.request.max_new, allowed = max_new - live.grown(), step = min(more, allowed);
    if (step != Tokens{} && live.state != LiveState::running) return {.reason = what_it_does(live), .ticket = ticket};
    Verdict verdict{.outcome = Outcome::admitted, .reason = Reason::grown, .ticket = ticket};
    if (step != Tokens{}) verdict = extend(ticket.slot, step);
    tell();
    if (verdict.admitted() && more > allowed)
      verdict = {.outcome = Outcome::admitted,
                 .reason = Reason::past_max_new,
                 .ticket = ticket,
                 .block = Tokens{1},
                 .needed = {more.count},
                 .free = {allowed.count},
                 .limit = {max_new.count}};
    return verdict;
  }

  /// Room for `step` more tokens of every branch, or the request is preempted.
  Verdict extend(std::uint32_t slot, Tokens step) {
    Live const& live = state_.table[slot];
    Planner<State> planner{state_, scratch_, {}};
    planner.extend(slot, live.length() + step, step, step);
    planner.finish();
    Ticket const ticket = state_.table.ticket(slot);
    carry_out(scratch_);
    for (auto const& one : scratch_.refuse)
      if (one.ticket() == ticket) return one.verdict;
    if (!scratch_.grow.empty() && live.in_flight()) return scratch_.grow.front().verdict;
    Verdict verdict = scratch_.preempt.empty() ? scratch_.grow.front().verdict : scratch_.preempt.back().verdict;
    bool const waits = state_.table.valid(ticket);  // or a source gave less than it said, of a pool that has become too small
    verdict.outcome = waits ? Outcome::queued : Outcome::rejected;
    verdict.reason = waits ? Reason::preempted : Reason::exceeds_capacity;
    return verdict;
  }

  // ---- leaving ----

  bool leave(Ticket ticket, EventKind how) { return state_.table.valid(ticket) && leave(state_.table[ticket.slot], ticket, how); }
  bool leave(Live& live, Ticket ticket, EventKind how) {
    if (how == EventKind::expired) depart(live, {.reason = Reason::expired, .ticket = ticket});
    note(how, live.request, {.reason = Reason::ended, .ticket = ticket}, live.in_flight() ? live.cached() : Tokens{}, {});
    end_lease(ticket.slot);
    if (live.by_block && how == EventKind::completed)
      state_.complete_plain(live, ticket.slot);
    else
      state_.leave(ticket.slot, how == EventKind::completed,
                 how == EventKind::completed   ? &ClassAccount::completed
                 : how == EventKind::cancelled ? &ClassAccount::cancelled
                                               : &ClassAccount::expired);
    tell();
    return true;
  }

  /// Ends every live request that `which` picks.
  template <class Which>
  std::uint32_t leave_if(EventKind how, Which which) {
    std::uint32_t left = 0;
    for (std::uint32_t slot = 0; slot < leases_.size(); ++slot)
      if (state_.table.valid(state_.table.ticket(slot)) && which(state_.table[slot])) left += leave(state_.table.ticket(slot), how);
    return left;
  }

  void reap() {
    leave_if(EventKind::expired, [this](Live const& live) { return live.request.deadline < state_.now; });
    earliest_deadline_ = no_deadline;
    for (std::uint32_t slot = 0; slot < leases_.size(); ++slot)
      if (state_.table.valid(state_.table.ticket(slot)) && state_.table[slot].request.deadline < earliest_deadline_)
        earliest_deadline_ = state_.table[slot].request.deadline;
  }

  bool become(Ticket ticket, LiveState from, LiveState to) {
    if (!state_.table.valid(ticket) || state_.table[ticket.slot].state != from) return false;
    state_.become(ticket.slot, to);
    return true;
  }

  // ---- leases ----

  void lease_moved_to(Lease& lease) { leases_[lease.ticket_.slot] = &lease; }

  void end_lease(std::uint32_t slot) {
    if (leases_[slot]) leases_[slot]->gate_ = nullptr;
    leases_[slot] = nullptr;
  }

  // ---- telling: all that changes has changed before anybody is told, and an observer may call back ----

  void note(Event const& event) {
    if constexpr (told) events_.push_back(event);
  }
  void note(EventKind kind, Request const& request, Verdict const& verdict, Tokens before, Tokens after) {
    if constexpr (told)
      note({.kind = kind,
            .now = state_.now,
            .ticket = verdict.ticket,
            .request_class = request.request_class,
            .tag = request.tag,
            .reason = verdict.reason,
            .pool = verdict.pool,
            .before = before,
            .after = after});
  }
  void tell() {
    if constexpr (told) {
      if (telling_) return;
      telling_ = true;
      for (std::size_t i = 0; i < events_.size(); ++i) {
        Event const event = events_[i];
        observer_.on(event);
      }
      events_.clear();
      telling_ = false;
    }
  }

  Complaints complaints_;
  [[no_unique_address]] Observer observer_;
  Transitions<Policy, Source> state_;
  StepPlan scratch_;          // for what is committed at once
  mutable StepPlan asked_;    // for questions
  std::vector<Lease*> leases_;  // by slot; of requests that a plan has started only where lease() was asked for
  std::vector<Departure> left_;  // in this step
  std::vector<Event> events_;   // that happened and are not told yet
  std::uint64_t earliest_deadline_{no_deadline};
  bool resized_{};
  bool draining_{};
  bool telling_{};
};

}  // namespace kvbudget::inline v1
