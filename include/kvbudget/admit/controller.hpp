// Who may start now, who waits, who can never fit, and who gives way: queue + ledger + policy.
//
//   submit      queues a request or rejects it; starts nothing. Rejected iff prompt + max_new (look-ahead and branches
//               counted, rounded up to blocks) exceeds the capacity: equal is accepted.
//   admit_next  the only way in: the next request whose need + headroom <= free. Headroom is waived when nothing runs, so
//               the head of the queue always starts then.
//   grow        through the lease: holds the tokens, or the lease has ended. Where the room runs out, leases are preempted in
//               the policy's order until there is enough for the asker; where it is the asker's turn, only the asker is. A
//               preempted request returns to the front of the queue, and nothing starts before the next begin_step.
//   release     a lease ends, or cancel(ticket) in any state: the room is free at once.
// What the policy's need asks for is reserved from the start: at least the known tokens, at most prompt + max_new.
// Time is an argument; equal calls give equal decisions. After construction nothing is allocated.
#pragma once

#include <kvbudget/admit/account.hpp>
#include <kvbudget/admit/lease.hpp>
#include <kvbudget/admit/live.hpp>
#include <kvbudget/admit/observer.hpp>
#include <kvbudget/admit/policies/plain.hpp>

namespace kvbudget::inline v1 {

template <AdmissionPolicy Policy = policies::Plain, BlockSource Source = Counter, EventObserver Observer = Silent>
class AdmissionController {
 public:
  using Lease = kvbudget::Lease<AdmissionController>;

  explicit AdmissionController(AdmissionLimits const& limits, Policy policy = {}, Observer observer = {}) requires std::constructible_from<Source, Blocks>
      : AdmissionController{limits, std::move(policy), std::move(observer), check(limits),
                            [&](std::uint32_t pool) { return Source{limits.capacity_of(pool)}; }} {}

  /// With the pools' own sources of blocks, one for each pool: handles to a block manager, whose capacity the limits repeat.
  AdmissionController(AdmissionLimits const& limits, Policy policy, std::initializer_list<Source> sources, Observer observer = {})
      : AdmissionController{limits, std::move(policy), std::move(observer), check_sources(limits, sources.size()),
                            [&](std::uint32_t pool) { return sources.begin()[pool]; }} {}

  /// Outlives its leases. Those that are left are a defect of the caller's; they end here.
  ~AdmissionController() {
    assert(running_.empty() && "a lease outlives its controller");
    for (auto* lease : leases_)
      if (lease) lease->gate_ = nullptr;
  }
  AdmissionController(AdmissionController&&) = delete;

  /// What is wrong with the limits; empty when they are good.
  Complaints const& complaints() const { return complaints_; }

  /// The only clock: a step of the scheduler begins at `now`, in the caller's own measure. Requests whose deadline is past leave.
  void begin_step(std::uint64_t now) {
    if (step_begun_) end_pass();
    now_ = now;
    ++steps_;
    step_begun_ = true;
    pass_ended_ = false;
    yielding_ = false;
    observer_.on({.kind = EventKind::step_begun, .now = now_});
    if (now_ > earliest_deadline_) reap();
  }

  /// Queues the request under verdict.ticket, or rejects it with the reason.
  Verdict submit(Request const& request) {
    ClassAccount& account = account_of(request.request_class);
    ++account.submitted;
    Verdict verdict = screen(request);
    if (verdict.rejected()) {
      ++account.rejected[static_cast<std::size_t>(verdict.reason)];
      tell(EventKind::rejected, request, verdict, {}, {});
      return verdict;
    }
    std::uint32_t const slot = table_.acquire(request);
    verdict.ticket = table_.ticket(slot);
    queue_.push_back(table_, slot);
    enqueued(slot);
    if (request.deadline < earliest_deadline_) earliest_deadline_ = request.deadline;
    tell(EventKind::submitted, request, verdict, {}, {});
    return verdict;
  }

  /// The lease of the next request that may start, or one that has ended when none may in this step.
  Lease admit_next() {
    for (std::uint32_t slot = yielding_ ? no_slot : queue_.front(); slot != no_slot; slot = table_[slot].next) {
      Considered const considered = consider(slot);
      if (considered.verdict.admitted() && start(slot, considered)) {
        Request const& request = table_[slot].request;
        Lease lease{*this, table_.ticket(slot), request};
        tell(EventKind::admitted, request, considered.verdict, {}, table_[slot].cached());
        return lease;
      }
      if (considered.verdict.reason != Reason::class_limit && policy_.order.stops_at(considered.verdict)) break;
    }
    end_pass();
    return {};
  }

  /// Why a request is where it is, and the numbers behind it; as of now.
  Verdict why(Ticket ticket) const {
    if (!table_.valid(ticket)) return {.reason = Reason::unknown_ticket, .ticket = ticket};
    auto const& live = table_[ticket.slot];
    if (live.state == LiveState::running) return at_pool(Outcome::admitted, Reason::running, ticket, 0, live.held[0]);
    Verdict verdict = consider(ticket.slot).verdict;
    if (!verdict.admitted()) return verdict;
    verdict.outcome = Outcome::queued;
    verdict.reason = yielding_ ? Reason::yielding : blocked(ticket.slot) ? Reason::behind_head : Reason::in_queue;
    return verdict;
  }

  /// How many more requests of this shape would start now, if they alone were asked for: by room, headroom, limits and slots.
  std::uint64_t more_of(Request const& request) const {
    if (yielding_ || screen(request).rejected()) return 0;
    Live const shape{.request = request};
    Tokens const reserved = reserved_for(shape);
    PoolBlocks const needed = need(shape, reserved), next = beyond(shape, reserved, needed);
    ClassAccount account = this->account(request.request_class);
    std::uint64_t more = 0;
    for (PoolBlocks taken{}; more < table_.free() && policy_.limits.admits({request, request.prompt}, account); ++more) {
      for (std::uint32_t pool = 0; pool < ledger_.pools(); ++pool) {
        HeadroomView const view{ledger_.headroom(pool), ledger_.capacity(pool), static_cast<std::uint32_t>(running_.size() + more),
                                next_step_[pool] + next[pool] * more};
        if (taken[pool] + needed[pool] + policy_.headroom(view) > ledger_.available(pool)) return more;
        taken[pool] += needed[pool];
      }
      ++account.active_requests;
      account.active_tokens += shape.cached();
    }
    return more;
  }

  /// The request is given up, wherever it is. False for a stale ticket.
  bool cancel(Ticket ticket) { return leave(ticket, EventKind::cancelled); }

  /// Every request of the group is given up, wherever it is; how many there were. Group 0 is no group.
  std::uint32_t cancel_group(std::uint64_t group) {
    return leave_if(EventKind::cancelled, [group](Live const& live) { return group != 0 && live.request.group == group; });
  }

  /// The request is complete, wherever it is. False for a stale ticket.
  bool finish(Ticket ticket) { return leave(ticket, EventKind::completed); }

  /// Another capacity of a pool. Below what is held the pool is overcommitted by a stated number: nothing starts, and growth takes
  /// victims. What is queued and can never fit any more is rejected, again when a capacity returns it is accepted. Complaints, and
  /// no change, where the capacity would be bad.
  Complaints resize(Budget capacity, std::uint32_t pool = 0) requires ResizableSource<Source> {
    if (Complaints const complaints = check_resize(capacity, pool); !complaints.empty()) return complaints;
    ledger_.resize(pool, capacity.blocks(ledger_.block(pool)));
    resized_ = true;
    reject_impossible();
    return {};
  }

  /// Nothing new is taken from now on; what is queued and what runs goes on. reopen() ends it.
  void drain() { draining_ = true; }
  void reopen() { draining_ = false; }
  bool drained() const { return queue_.empty() && running_.empty(); }

  std::uint64_t now() const { return now_; }
  std::uint32_t queued() const { return queue_.size(); }
  std::uint32_t running() const { return running_.size(); }
  std::uint32_t classes() const { return static_cast<std::uint32_t>(accounts_.size()) - 1; }
  std::uint32_t pools() const { return ledger_.pools(); }
  PoolView pool(std::uint32_t i = 0) const { return i < ledger_.pools() ? ledger_.view(i) : PoolView{}; }
  bool balanced() const { return ledger_.balanced(); }
  /// Blocks of a pool that the next token of all running requests takes.
  Blocks next_step(std::uint32_t pool = 0) const { return pool < max_pools ? next_step_[pool] : Blocks{}; }
  Policy const& policy() const { return policy_; }
  Observer& observer() { return observer_; }

  /// A class's account. Requests of unknown classes share one, which a class out of range names.
  ClassAccount const& account(RequestClass request_class) const { return accounts_[account_index(request_class)]; }
  /// Blocks a class holds of a pool.
  Blocks held(RequestClass request_class, std::uint32_t pool = 0) const {
    return request_class.index < classes() && pool < ledger_.pools() ? ledger_.held(pool, request_class) : Blocks{};
  }

 private:
  friend Lease;

  template <class Make>
  AdmissionController(AdmissionLimits const& limits, Policy policy, Observer observer, Complaints const& complaints, Make make)
      : complaints_{complaints},
        policy_{std::move(policy)},
        observer_{std::move(observer)},
        footprint_{limits.resolved_footprint()},
        ledger_{complaints.empty() ? Ledger<Source>{limits, make} : Ledger<Source>{}},
        table_{complaints.empty() ? limits.max_live : 0},
        leases_(complaints.empty() ? limits.max_live : 0),
        accounts_((complaints.empty() ? limits.classes : 0) + std::size_t{1}),
        fresh_(accounts_.size()) {
    victims_.reserve(leases_.size());
  }

  static Complaints check_sources(AdmissionLimits const& limits, std::size_t sources) {
    Complaints complaints = check(limits);
    if (sources != limits.pools())
      complaints.push_back({".sources", sources, "one source for each pool", "give a source for the cache and for each of more_pools"});
    return complaints;
  }

  // ---- decisions ----

  struct Considered {
    Verdict verdict{};
    PoolBlocks needed{};
    Tokens reserved{};
  };

  Verdict at_pool(Outcome outcome, Reason reason, Ticket ticket, std::uint32_t pool, Blocks needed) const {
    return {.outcome = outcome,
            .reason = reason,
            .ticket = ticket,
            .pool = pool,
            .pool_name = ledger_.name(pool),
            .block = ledger_.block(pool),
            .needed = needed,
            .free = ledger_.available(pool),
            .limit = ledger_.capacity(pool)};
  }

  /// What can be said of a request before it is queued: all that makes it impossible for ever, and a full queue.
  Verdict screen(Request const& request) const {
    auto const reject = [](Reason reason, char const* field, std::uint64_t value, std::uint64_t limit) {
      return Verdict{.reason = reason, .needed = {value}, .limit = {limit}, .field = field};
    };
    if (!complaints_.empty()) return reject(Reason::bad_limits, complaints_[0].field, complaints_[0].value, 0);
    if (request.request_class.index >= classes()) return reject(Reason::unknown_class, ".request_class", request.request_class.index, classes());
    if (request.prompt == Tokens{}) return reject(Reason::bad_request, ".prompt", 0, 0);
    if (request.branches == 0) return reject(Reason::bad_request, ".branches", 0, 0);
    if (draining_) return reject(Reason::draining, "", 0, 0);
    Sequences const whole = Live{.request = request}.sequences(request.prompt + request.max_new);
    if (auto const pool = impossible_in(request); pool != no_slot)
      return at_pool(Outcome::rejected, Reason::exceeds_capacity, {}, pool, footprint_.most(pool, whole));
    if (request.deadline < now_) return reject(Reason::expired, ".deadline", request.deadline, now_);
    if constexpr (BoundsQueues<decltype(policy_.limits)>) {
      ClassAccount const& of = account(request.request_class);
      if (!policy_.limits.queues(request, of)) return reject(Reason::class_queue_full, ".request_class", request.request_class.index, 0);
    }
    if (table_.full()) return reject(Reason::queue_full, ".max_live", leases_.size() + 1, leases_.size());
    return at_pool(Outcome::queued, Reason::in_queue, {}, 0, footprint_.most(0, whole));
  }

  /// The first pool that could not hold the whole request even if it were alone; no_slot when all could.
  std::uint32_t impossible_in(Request const& request) const {
    Sequences const whole = Live{.request = request}.sequences(request.prompt + request.max_new);
    for (std::uint32_t pool = 0; pool < ledger_.pools(); ++pool)
      if (footprint_.most(pool, whole) > ledger_.capacity(pool)) return pool;
    return no_slot;
  }

  Complaints check_resize(Budget capacity, std::uint32_t pool) const {
    if (!complaints_.empty()) return complaints_;
    if (pool >= ledger_.pools()) return {{".pool", pool, "one of the limits' pools", "number the pools from 0"}};
    Tokens const block = ledger_.block(pool);
    if (capacity.in_tokens && block == Tokens{})
      return {{".capacity", capacity.count, "blocks, where several groups or a fixed one share the pool", "give the capacity in blocks", pool}};
    Blocks const blocks = capacity.blocks(block), headroom = ledger_.limits(pool).headroom.blocks(block, blocks);
    if (blocks == Blocks{} || blocks.saturated()) return {{".capacity", capacity.count, "one block or more", "drain() takes nothing new instead", pool}};
    if (headroom >= blocks) return {{".headroom", headroom.count, "less than the capacity", "give a larger capacity, or limits with less headroom", pool}};
    return {};
  }

  /// After a pool has shrunk: whoever is queued and can never fit any more.
  void reject_impossible() {
    for (std::uint32_t slot = queue_.front(); slot != no_slot;) {
      Request const request = table_[slot].request;
      Ticket const ticket = table_.ticket(slot);
      std::uint32_t const pool = impossible_in(request);
      std::uint32_t const next = table_[slot].next;
      if (pool == no_slot) {
        slot = next;
        continue;
      }
      queue_.remove(table_, slot);
      dequeued(slot);
      table_.release(slot);
      ++account_of(request.request_class).rejected[static_cast<std::size_t>(Reason::exceeds_capacity)];
      tell(EventKind::rejected, request, {.reason = Reason::exceeds_capacity, .ticket = ticket, .pool = pool}, {}, {});
      slot = queue_.front();  // an observer may have changed the queue
    }
  }

  PoolBlocks need(Live const& live, Tokens length) const {
    PoolBlocks blocks{};
    for (std::uint32_t pool = 0; pool < ledger_.pools(); ++pool) blocks[pool] = footprint_.most(pool, live.sequences(length));
    return blocks;
  }

  /// What is reserved from the start: as the need says, at least the known tokens and at most prompt + max_new.
  Tokens reserved_for(Live const& live) const {
    return min(max(policy_.need({live.request, live.length()}), live.length()), live.request.prompt + live.request.max_new);
  }

  /// What the token after `reserved` ones takes beyond `held` blocks.
  PoolBlocks beyond(Live const& live, Tokens reserved, PoolBlocks const& held) const {
    PoolBlocks next{};
    if (reserved >= live.request.prompt + live.request.max_new) return next;
    next = need(live, reserved + Tokens{1});
    for (std::uint32_t pool = 0; pool < ledger_.pools(); ++pool) next[pool] -= held[pool];
    return next;
  }

  /// Whether a waiting request fits now; the pool that binds, or else the first.
  Considered consider(std::uint32_t slot) const {
    auto const& live = table_[slot];
    WaitingView const view{live.request, live.length()};
    Tokens const reserved = reserved_for(live);
    PoolBlocks const needed = need(live, reserved);
    auto const say = [&](Outcome outcome, Reason reason, std::uint32_t pool) {
      Verdict verdict = at_pool(outcome, reason, table_.ticket(slot), pool, needed[pool]);
      verdict.headroom = headroom(pool);
      return Considered{verdict, needed, reserved};
    };
    if (!policy_.limits.admits(view, account(live.request.request_class))) return say(Outcome::queued, Reason::class_limit, 0);
    for (std::uint32_t pool = 0; pool < ledger_.pools(); ++pool) {
      if (needed[pool] > ledger_.available(pool)) return say(Outcome::queued, Reason::no_room, pool);
      if (needed[pool] + headroom(pool) > ledger_.available(pool)) return say(Outcome::queued, Reason::headroom, pool);
    }
    return say(Outcome::admitted, running_.empty() ? Reason::fits_alone : Reason::fits, 0);
  }
  Blocks headroom(std::uint32_t pool) const { return policy_.headroom({ledger_.headroom(pool), ledger_.capacity(pool), running_.size(), next_step_[pool]}); }

  /// True when a request in front does not fit and stops those behind it.
  bool blocked(std::uint32_t slot) const {
    for (std::uint32_t ahead = table_[slot].previous; ahead != no_slot; ahead = table_[ahead].previous) {
      Verdict const verdict = consider(ahead).verdict;
      if (!verdict.admitted() && verdict.reason != Reason::class_limit && policy_.order.stops_at(verdict)) return true;
    }
    return false;
  }

  // ---- transitions: each moves one request, its blocks and its class's account together; telling comes after ----

  /// False when the source gives less than it said it had; the request stays queued.
  bool start(std::uint32_t slot, Considered const& considered) {
    auto& live = table_[slot];
    if (!ledger_.take(considered.needed, live.request.request_class)) return false;
    queue_.remove(table_, slot);
    dequeued(slot);
    running_.push_back(table_, slot);
    live.state = LiveState::running;
    live.admission = ++admissions_;
    live.reserved = considered.reserved;
    ClassAccount& account = account_of(live.request.request_class);
    ++account.admitted;
    ++account.active_requests;
    account.active_tokens += live.cached();
    account.recomputed_tokens += live.lost;
    hold(live, considered.needed);
    account.mark_peaks();
    return true;
  }

  /// Notes what a running request holds now, and how far that reaches.
  void hold(Live& live, PoolBlocks const& blocks) {
    ClassAccount& account = account_of(live.request.request_class);
    Sequences const reach = live.sequences(max(live.length(), live.reserved));
    live.held = blocks;
    live.room = footprint_.room(reach.length);
    count_steps(live);
    account.tokens_held -= live.tokens_held;
    live.tokens_held = footprint_.tokens_held(reach);
    account.tokens_held += live.tokens_held;
    note_next(live);
  }

  bool at_end_of_room(Live const& live) const { return live.sequences(live.length() + Tokens{1}).length > live.room; }

  /// Keeps what the next step takes: of this request, and of all of them together.
  void note_next(Live& live) {
    PoolBlocks next{};
    if (live.state == LiveState::running && at_end_of_room(live)) next = beyond(live, live.length(), live.held);
    for (std::uint32_t pool = 0; pool < ledger_.pools(); ++pool) {
      next_step_[pool] += next[pool];
      next_step_[pool] -= live.next_token[pool];
    }
    live.next_token = next;
  }

  void stop(std::uint32_t slot) {
    auto& live = table_[slot];
    ledger_.give(live.held, live.request.request_class);
    running_.remove(table_, slot);
    ClassAccount& account = account_of(live.request.request_class);
    --account.active_requests;
    account.active_tokens -= live.cached();
    count_steps(live);
    account.tokens_held -= live.tokens_held;
    live.held = {};
    live.tokens_held = {};
    for (std::uint32_t pool = 0; pool < ledger_.pools(); ++pool) next_step_[pool] -= live.next_token[pool];
    live.next_token = {};
    if (leases_[slot]) leases_[slot]->gate_ = nullptr;
    leases_[slot] = nullptr;
  }

  void preempt(std::uint32_t slot) {
    auto& live = table_[slot];
    stop(slot);
    ++account_of(live.request.request_class).preempted;
    live.lost = live.cached();
    queue_.push_front(table_, slot);
    enqueued(slot);
    yielding_ = true;
  }

  /// Ends every live request that `which` picks. An observer that is told may end others: each is looked at afresh.
  template <class Which>
  std::uint32_t leave_if(EventKind how, Which which) {
    std::uint32_t left = 0;
    for (std::uint32_t slot = 0; slot < leases_.size(); ++slot)
      if (table_.valid(table_.ticket(slot)) && which(table_[slot])) left += leave(table_.ticket(slot), how);
    return left;
  }

  void reap() {
    leave_if(EventKind::expired, [this](Live const& live) { return live.request.deadline < now_; });
    earliest_deadline_ = no_deadline;
    for (std::uint32_t slot = 0; slot < leases_.size(); ++slot)
      if (table_.valid(table_.ticket(slot)) && table_[slot].request.deadline < earliest_deadline_) earliest_deadline_ = table_[slot].request.deadline;
  }

  /// Tokens held x steps, up to now.
  void count_steps(Live& live) {
    live.token_steps = saturating_add(live.token_steps, saturating_multiply(live.tokens_held.count, steps_ - live.counted_at));
    live.counted_at = steps_;
  }

  bool leave(Ticket ticket, EventKind how) {
    if (!table_.valid(ticket)) return false;
    count_steps(table_[ticket.slot]);
    Live const before = table_[ticket.slot];
    if (before.state == LiveState::running) {
      stop(ticket.slot);
    } else {
      queue_.remove(table_, ticket.slot);
      dequeued(ticket.slot);
    }
    ClassAccount& account = account_of(before.request.request_class);
    ++(how == EventKind::completed ? account.completed : how == EventKind::cancelled ? account.cancelled : account.expired);
    if (how != EventKind::completed) account.wasted_token_steps = saturating_add(account.wasted_token_steps, before.token_steps);
    table_.release(ticket.slot);
    tell(how, before.request, {.reason = Reason::ended, .ticket = ticket}, before.state == LiveState::running ? before.cached() : Tokens{}, {});
    return true;
  }

  void enqueued(std::uint32_t slot) {
    auto& live = table_[slot];
    live.state = LiveState::queued;
    live.queued_in_pass = passes_;
    ClassAccount& account = account_of(live.request.request_class);
    ++account.queued_requests;
    account.queued_tokens += live.cached();
    if (!live.has_waited) ++fresh_[live.request.request_class.index];
  }

  void dequeued(std::uint32_t slot) {
    auto& live = table_[slot];
    ClassAccount& account = account_of(live.request.request_class);
    --account.queued_requests;
    account.queued_tokens -= live.cached();
    if (live.has_waited) return;
    live.has_waited = live.queued_in_pass != passes_;
    if (!live.has_waited) --fresh_[live.request.request_class.index];
  }

  /// A step's admission is over: whoever is queued has waited this step. Once a step.
  void end_pass() {
    if (pass_ended_) return;
    pass_ended_ = true;
    ++passes_;
    for (std::size_t i = 0; i < accounts_.size(); ++i) {
      accounts_[i].steps_waited += accounts_[i].queued_requests;
      accounts_[i].ever_waited += fresh_[i];
      fresh_[i] = 0;
    }
  }

  // ---- growth ----

  Tokens cached(Ticket ticket) const { return table_[ticket.slot].length(); }

  Verdict grow(Ticket ticket, Tokens more) {
    auto const& live = table_[ticket.slot];
    Tokens const allowed = live.request.max_new - live.grown;
    Verdict verdict{.outcome = Outcome::admitted, .reason = Reason::grown, .ticket = ticket};
    if (Tokens const step = min(more, allowed); step != Tokens{}) verdict = extend(ticket.slot, step);
    if (verdict.admitted() && more > allowed)
      verdict = {.outcome = Outcome::admitted,
                 .reason = Reason::past_max_new,
                 .ticket = ticket,
                 .block = Tokens{1},
                 .needed = {more.count},
                 .free = {allowed.count},
                 .limit = {live.request.max_new.count}};
    return verdict;
  }

  /// Room for `step` more tokens of every branch, or the request is preempted.
  Verdict extend(std::uint32_t slot, Tokens step) {
    auto& live = table_[slot];
    Verdict verdict{.outcome = Outcome::admitted, .reason = Reason::grown, .ticket = table_.ticket(slot)};
    if (live.sequences(live.length() + step).length > live.room) {
      verdict = take_more(slot, need(live, live.length() + step), step);
      if (!table_.valid(verdict.ticket)) return verdict;  // an observer ended it
    } else {
      live.grown += step;
      grown(live, step);
      if (at_end_of_room(live)) note_next(live);
    }
    if (verdict.admitted()) tell(EventKind::grown, live.request, verdict, live.cached() - step * live.request.branches, live.cached());
    return verdict;
  }

  void grown(Live const& live, Tokens step) {
    ClassAccount& account = account_of(live.request.request_class);
    account.active_tokens += step * live.request.branches;
    account.mark_peaks();
  }

  /// Growth over the end of a block. All that changes has changed before anybody is told.
  Verdict take_more(std::uint32_t slot, PoolBlocks const& needed, Tokens step) {
    auto& live = table_[slot];
    PoolBlocks more{};
    for (std::uint32_t pool = 0; pool < ledger_.pools(); ++pool) more[pool] = needed[pool] - live.held[pool];
    std::uint32_t const binding = short_of(more, {});
    Verdict verdict = at_pool(Outcome::admitted, Reason::grown, table_.ticket(slot), binding == no_slot ? 0 : binding, more[binding == no_slot ? 0 : binding]);

    std::size_t const first = victims_.size();
    if (choose_victims(slot, more)) preempt_chosen(first);
    if (ledger_.take(more, live.request.request_class)) {
      live.grown += step;
      hold(live, needed);
      grown(live, step);
    } else {  // its own turn came first; nobody else has lost work for it
      preempt(slot);
      victims_.push_back(verdict.ticket);
      verdict.outcome = Outcome::queued;
      verdict.reason = Reason::preempted;
    }
    while (victims_.size() > first) {
      Ticket const ticket = victims_.back();
      victims_.pop_back();
      if (table_.valid(ticket))
        tell(EventKind::preempted, table_[ticket.slot].request, {.reason = Reason::preempted, .ticket = ticket, .pool = verdict.pool},
             table_[ticket.slot].cached(), {});
    }
    if (resized_) reject_impossible();
    return verdict;
  }

  /// The first pool that has fewer than `more` blocks even with `freed` ones; no_slot when all have enough.
  std::uint32_t short_of(PoolBlocks const& more, PoolBlocks const& freed) const {
    for (std::uint32_t pool = 0; pool < ledger_.pools(); ++pool)
      if (more[pool] > ledger_.available(pool) + freed[pool] - ledger_.overcommitted(pool)) return pool;
    return no_slot;
  }

  /// Adds to victims_, in the policy's order, whom it takes for `more` blocks to be free. False, and nobody is added, when the
  /// asker's own turn comes first.
  bool choose_victims(std::uint32_t asker, PoolBlocks const& more) {
    std::size_t const first = victims_.size();
    PoolBlocks freed{};
    bool enough = true;
    while (enough && short_of(more, freed) != no_slot) {
      std::uint32_t const victim = first_to_yield();
      enough = victim != asker;
      if (!enough) break;
      table_[victim].chosen = true;
      victims_.push_back(table_.ticket(victim));
      for (std::uint32_t pool = 0; pool < ledger_.pools(); ++pool) freed[pool] += table_[victim].held[pool];
    }
    for (std::size_t i = first; i < victims_.size(); ++i) table_[victims_[i].slot].chosen = false;
    if (!enough) victims_.resize(first);
    return enough;
  }

  /// Preempts the victims from `first` on, the newest first, so that they stand at the front of the queue in the order they
  /// were admitted in. Leaves them sorted, oldest first: they are told from the back, as they were preempted.
  void preempt_chosen(std::size_t first) {
    auto const admission = [this](std::size_t i) { return table_[victims_[i].slot].admission; };
    for (std::size_t i = first; i < victims_.size(); ++i)
      for (std::size_t j = i; j > first && admission(j) < admission(j - 1); --j) std::swap(victims_[j], victims_[j - 1]);
    for (std::size_t i = victims_.size(); i-- > first;) preempt(victims_[i].slot);
  }

  /// Of the running requests not yet chosen, the one the policy takes first. The asker is one of them.
  std::uint32_t first_to_yield() const {
    auto const view = [this](std::uint32_t slot) {
      return RunningView{table_[slot].request, table_[slot].cached(), table_[slot].admission, table_[slot].held[0]};
    };
    std::uint32_t first = no_slot;
    for (std::uint32_t slot = running_.front(); slot != no_slot; slot = table_[slot].next) {
      if (table_[slot].chosen) continue;
      if (first == no_slot || policy_.victim.yields_before(view(slot), view(first))) first = slot;
    }
    return first;
  }

  // ---- small things ----

  std::size_t account_index(RequestClass request_class) const { return request_class.index < classes() ? request_class.index : classes(); }
  ClassAccount& account_of(RequestClass request_class) { return accounts_[account_index(request_class)]; }

  void lease_moved_to(Lease& lease) { leases_[lease.ticket_.slot] = &lease; }

  void tell(EventKind kind, Request const& request, Verdict const& verdict, Tokens before, Tokens after) {
    observer_.on({.kind = kind,
                  .now = now_,
                  .ticket = verdict.ticket,
                  .request_class = request.request_class,
                  .tag = request.tag,
                  .reason = verdict.reason,
                  .pool = verdict.pool,
                  .before = before,
                  .after = after});
  }

  Complaints complaints_;
  [[no_unique_address]] Policy policy_;
  [[no_unique_address]] Observer observer_;
  Footprint footprint_;
  Ledger<Source> ledger_;
  LiveTable table_;
  LiveList queue_;
  LiveList running_;
  std::vector<Lease*> leases_;          // of the running requests, by slot
  std::vector<ClassAccount> accounts_;  // one for each class, and the last for requests of unknown classes
  std::vector<std::uint64_t> fresh_;    // queued requests of each class that no pass has passed over yet
  std::vector<Ticket> victims_;         // chosen, and not told yet
  PoolBlocks next_step_{};              // what the running requests' next token takes
  std::uint64_t now_{};
  std::uint64_t steps_{};  // that have begun
  std::uint64_t earliest_deadline_{no_deadline};
  std::uint64_t passes_{};  // admission passes that have ended
  std::uint64_t admissions_{};
  bool resized_{};
  bool draining_{};
  bool step_begun_{};
  bool pass_ended_{};
  bool yielding_{};  // somebody was preempted in this step
};

}  // namespace kvbudget::inline v1
