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

  explicit AdmissionController(AdmissionLimits const& limits, Policy policy = {}, Observer observer = {})
    requires std::constructible_from<Source, Blocks>
      : AdmissionController{limits, std::move(policy), std::move(observer), check(limits), [&](std::uint32_t pool) { return Source{limits.capacity_of(pool)}; }} {}

  /// With the pools' own sources of blocks, one for each pool: handles to a block manager, whose capacity the limits repeat.
  AdmissionController(AdmissionLimits const& limits, Policy policy, std::initializer_list<Source> sources, Observer observer = {})
      : AdmissionController{limits, std::move(policy), std::move(observer), check_sources(limits, sources.size()), [&](std::uint32_t pool) { return sources.begin()[pool]; }} {}

  /// Outlives its leases. Those that are left are a defect of the caller's; they end here.
  ~AdmissionController() {
    assert(running_.empty() && "a lease outlives its controller");
    for (auto* lease : leases_)
      if (lease) lease->gate_ = nullptr;
  }
  AdmissionController(AdmissionController&&) = delete;

  /// What is wrong with the limits; empty when they are good.
  Complaints const& complaints() const { return complaints_; }

  /// The only clock: a step of the scheduler begins at `now`, in the caller's own measure.
  void begin_step(std::uint64_t now) {
    if (step_begun_) end_pass();
    now_ = now;
    step_begun_ = true;
    pass_ended_ = false;
    yielding_ = false;
    observer_.on({.kind = EventKind::step_begun, .now = now_});
  }

  /// Queues the request under verdict.ticket, or rejects it with the reason.
  Verdict submit(Request const& request) {
    ClassAccount& account = account_of(request.request_class);
    ++account.submitted;
    Verdict verdict = screen(request);
    if (verdict.rejected()) {
      ++account.rejected[static_cast<std::size_t>(verdict.reason)];
      tell(EventKind::rejected, request, verdict);
      return verdict;
    }
    std::uint32_t const slot = table_.acquire(request);
    verdict.ticket = table_.ticket(slot);
    enqueue(slot, [&] { queue_.push_back(table_, slot); });
    tell(EventKind::submitted, request, verdict);
    return verdict;
  }

  /// The lease of the next request that may start, or one that has ended when none may in this step.
  Lease admit_next() {
    for (std::uint32_t slot = yielding_ ? no_slot : queue_.front(); slot != no_slot; slot = table_[slot].next) {
      Verdict const verdict = consider(slot);
      if (verdict.admitted() && start(slot)) return Lease{*this, table_.ticket(slot), table_[slot].request};
      if (policy_.order.stops_at(verdict)) break;
    }
    end_pass();
    return {};
  }

  /// Why a request is where it is, and the numbers behind it; as of now.
  Verdict why(Ticket ticket) const {
    if (!table_.valid(ticket)) return {.reason = Reason::unknown_ticket, .ticket = ticket};
    auto const& live = table_[ticket.slot];
    if (live.state == LiveState::running) return {.outcome = Outcome::admitted, .reason = Reason::running, .ticket = ticket, .pool_name = ledger_.name(0), .block = ledger_.block(0), .needed = live.held[0], .free = ledger_.available(0), .limit = ledger_.capacity(0)};
    Verdict verdict = consider(ticket.slot);
    if (!verdict.admitted()) return verdict;
    verdict.outcome = Outcome::queued;
    verdict.reason = yielding_ ? Reason::yielding : blocked(ticket.slot) ? Reason::behind_head : Reason::in_queue;
    return verdict;
  }

  /// The request is given up, wherever it is. False for a stale ticket.
  bool cancel(Ticket ticket) { return leave(ticket, EventKind::cancelled); }

  /// The request is complete, wherever it is. False for a stale ticket.
  bool finish(Ticket ticket) { return leave(ticket, EventKind::completed); }

  std::uint64_t now() const { return now_; }
  std::uint32_t queued() const { return queue_.size(); }
  std::uint32_t running() const { return running_.size(); }
  std::uint32_t classes() const { return static_cast<std::uint32_t>(accounts_.size()) - 1; }
  std::uint32_t pools() const { return ledger_.pools(); }
  PoolView pool(std::uint32_t i = 0) const { return i < ledger_.pools() ? ledger_.view(i) : PoolView{}; }
  bool balanced() const { return ledger_.balanced(); }
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
    if (sources != limits.pools()) complaints.push_back({".sources", sources, "one source for each pool", "give a source for the cache and for each of more_pools"});
    return complaints;
  }

  // ---- decisions ----

  /// What can be said of a request before it is queued: all that makes it impossible for ever.
  Verdict screen(Request const& request) const {
    auto const reject = [](Reason reason, char const* field) { return Verdict{.reason = reason, .field = field}; };
    if (!complaints_.empty()) return reject(Reason::bad_limits, complaints_[0].field);
    if (request.request_class.index >= classes()) return reject(Reason::unknown_class, ".request_class");
    if (request.prompt == Tokens{}) return reject(Reason::bad_request, ".prompt");
    if (request.branches == 0) return reject(Reason::bad_request, ".branches");
    Verdict verdict{.outcome = Outcome::queued, .reason = Reason::in_queue};
    Live const whole{.request = request};
    for (std::uint32_t pool = 0; pool < ledger_.pools(); ++pool) {
      Blocks const needed = footprint_.most(pool, whole.sequences(request.prompt + request.max_new));
      Verdict const at_pool{.reason = Reason::exceeds_capacity, .pool = pool, .pool_name = ledger_.name(pool), .block = ledger_.block(pool), .needed = needed, .free = ledger_.available(pool), .limit = ledger_.capacity(pool)};
      if (needed > ledger_.capacity(pool)) return at_pool;
    }
    if (table_.full()) verdict = reject(Reason::queue_full, ".max_live");
    return verdict;
  }

  PoolBlocks need(Live const& live, Tokens length) const {
    PoolBlocks blocks{};
    for (std::uint32_t pool = 0; pool < ledger_.pools(); ++pool) blocks[pool] = footprint_.most(pool, live.sequences(length));
    return blocks;
  }
  PoolBlocks need_to_start(Live const& live) const { return need(live, policy_.need(WaitingView{live.request, live.length()})); }

  /// Whether a waiting request fits now; the pool that binds, or else the first.
  Verdict consider(std::uint32_t slot) const {
    bool const alone = running_.empty();
    PoolBlocks const needed = need_to_start(table_[slot]);
    auto const say = [&](Outcome outcome, Reason reason, std::uint32_t pool) {
      return Verdict{.outcome = outcome, .reason = reason, .ticket = table_.ticket(slot), .pool = pool, .pool_name = ledger_.name(pool), .block = ledger_.block(pool), .needed = needed[pool],
                     .free = ledger_.available(pool), .headroom = alone ? Blocks{} : ledger_.headroom(pool), .limit = ledger_.capacity(pool)};
    };
    for (std::uint32_t pool = 0; pool < ledger_.pools(); ++pool) {
      if (needed[pool] > ledger_.available(pool)) return say(Outcome::queued, Reason::no_room, pool);
      if (!alone && needed[pool] + ledger_.headroom(pool) > ledger_.available(pool)) return say(Outcome::queued, Reason::headroom, pool);
    }
    return say(Outcome::admitted, alone ? Reason::fits_alone : Reason::fits, 0);
  }

  /// True when a request in front does not fit and stops those behind it.
  bool blocked(std::uint32_t slot) const {
    for (std::uint32_t ahead = table_[slot].previous; ahead != no_slot; ahead = table_[ahead].previous) {
      Verdict const verdict = consider(ahead);
      if (!verdict.admitted() && policy_.order.stops_at(verdict)) return true;
    }
    return false;
  }

  // ---- transitions: each moves one request, its blocks and its class's account together ----

  /// False when the source gives less than it said it had; the request stays queued.
  bool start(std::uint32_t slot) {
    auto& live = table_[slot];
    PoolBlocks const needed = need_to_start(live);
    if (!ledger_.take(needed, live.request.request_class)) return false;
    dequeue(slot);
    running_.push_back(table_, slot);
    live.state = LiveState::running;
    live.held = needed;
    live.room = footprint_.room(live.sequences(live.length()).length);
    live.admission = ++admissions_;
    ClassAccount& account = account_of(live.request.request_class);
    ++account.admitted;
    ++account.active_requests;
    account.active_tokens += live.cached();
    account.tokens_held += tokens_held(live);
    account.recomputed_tokens += live.lost;
    account.mark_peaks();
    live.lost = {};
    tell(EventKind::admitted, slot, Tokens{}, live.cached());
    return true;
  }

  void stop(std::uint32_t slot) {
    auto& live = table_[slot];
    ledger_.give(live.held, live.request.request_class);
    live.held = {};
    running_.remove(table_, slot);
    ClassAccount& account = account_of(live.request.request_class);
    --account.active_requests;
    account.active_tokens -= live.cached();
    account.tokens_held -= tokens_held(live);
    leases_[slot]->gate_ = nullptr;
    leases_[slot] = nullptr;
  }

  void preempt(std::uint32_t slot) {
    auto& live = table_[slot];
    stop(slot);
    ++account_of(live.request.request_class).preempted;
    live.lost = live.cached();
    enqueue(slot, [&] { queue_.push_front(table_, slot); });
    yielding_ = true;
    tell(EventKind::preempted, slot, live.cached(), Tokens{});
  }

  bool leave(Ticket ticket, EventKind how) {
    if (!table_.valid(ticket)) return false;
    auto& live = table_[ticket.slot];
    bool const was_running = live.state == LiveState::running;
    if (was_running)
      stop(ticket.slot);
    else
      dequeue(ticket.slot);
    ClassAccount& account = account_of(live.request.request_class);
    ++(how == EventKind::completed ? account.completed : account.cancelled);
    tell(how, ticket.slot, was_running ? live.cached() : Tokens{}, Tokens{});
    table_.release(ticket.slot);
    return true;
  }

  template <class Link>
  void enqueue(std::uint32_t slot, Link link) {
    auto& live = table_[slot];
    live.state = LiveState::queued;
    live.queued_in_pass = passes_;
    link();
    ClassAccount& account = account_of(live.request.request_class);
    ++account.queued_requests;
    account.queued_tokens += live.cached();
    if (!live.has_waited) ++fresh_[live.request.request_class.index];
  }

  void dequeue(std::uint32_t slot) {
    auto& live = table_[slot];
    queue_.remove(table_, slot);
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
    auto& live = table_[ticket.slot];
    Tokens const allowed = live.request.max_new - live.grown;
    Verdict verdict{.outcome = Outcome::admitted, .reason = Reason::grown, .ticket = ticket};
    if (Tokens const step = min(more, allowed); step != Tokens{}) verdict = extend(ticket.slot, step);
    if (verdict.admitted() && more > allowed)
      verdict = {.reason = Reason::past_max_new, .ticket = ticket, .block = Tokens{1}, .needed = {more.count}, .free = {allowed.count}, .limit = {live.request.max_new.count}, .field = ".max_new"};
    return verdict;
  }

  /// Room for `step` more tokens of every branch, or the request is preempted.
  Verdict extend(std::uint32_t slot, Tokens step) {
    auto& live = table_[slot];
    Tokens const before = live.cached();
    Verdict verdict{.outcome = Outcome::admitted, .reason = Reason::grown, .ticket = table_.ticket(slot)};
    Tokens const end = live.sequences(live.length() + step).length;
    ClassAccount& account = account_of(live.request.request_class);
    if (end > live.room) {
      PoolBlocks const needed = need(live, live.length() + step);
      PoolBlocks more{};
      for (std::uint32_t pool = 0; pool < ledger_.pools(); ++pool) more[pool] = needed[pool] - live.held[pool];
      std::uint32_t const pool = short_of(more, {});
      verdict.pool = pool == no_slot ? 0 : pool;
      verdict.pool_name = ledger_.name(verdict.pool);
      verdict.block = ledger_.block(verdict.pool);
      verdict.needed = more[verdict.pool];
      verdict.free = ledger_.available(verdict.pool);
      verdict.limit = ledger_.capacity(verdict.pool);
      if (!make_room(slot, more) || !ledger_.take(more, live.request.request_class)) {
        if (live.state == LiveState::running) preempt(slot);
        verdict.outcome = Outcome::queued;
        verdict.reason = Reason::preempted;
        return verdict;
      }
      account.tokens_held -= tokens_held(live);
      live.held = needed;
      live.room = footprint_.room(end);
      live.grown += step;
      account.tokens_held += tokens_held(live);
    } else {
      live.grown += step;
    }
    account.active_tokens += step * live.request.branches;
    account.mark_peaks();
    tell(EventKind::grown, slot, before, live.cached());
    return verdict;
  }

  /// The first pool that has fewer than `more` blocks even with `freed` ones; no_slot when all have enough.
  std::uint32_t short_of(PoolBlocks const& more, PoolBlocks const& freed) const {
    for (std::uint32_t pool = 0; pool < ledger_.pools(); ++pool)
      if (more[pool] > ledger_.available(pool) + freed[pool]) return pool;
    return no_slot;
  }

  /// Preempts, in the policy's order, until there are `more` blocks for the asker. When its own turn comes first, nobody else
  /// loses work for it, and the answer is false.
  bool make_room(std::uint32_t asker, PoolBlocks const& more) {
    PoolBlocks freed{};
    victims_.clear();
    bool enough = true;
    while (enough && short_of(more, freed) != no_slot) {
      std::uint32_t const victim = first_to_yield();
      enough = victim != asker;
      if (!enough) break;
      table_[victim].chosen = true;
      victims_.push_back(victim);
      for (std::uint32_t pool = 0; pool < ledger_.pools(); ++pool) freed[pool] += table_[victim].held[pool];
    }
    for (auto const victim : victims_) {
      table_[victim].chosen = false;
      if (enough) preempt(victim);
    }
    return enough;
  }

  /// Of the running requests not yet chosen, the one the policy takes first. The asker is one of them.
  std::uint32_t first_to_yield() const {
    auto const view = [this](std::uint32_t slot) { return RunningView{table_[slot].request, table_[slot].cached(), table_[slot].admission}; };
    std::uint32_t first = no_slot;
    for (std::uint32_t slot = running_.front(); slot != no_slot; slot = table_[slot].next) {
      if (table_[slot].chosen) continue;
      if (first == no_slot || policy_.victim.yields_before(view(slot), view(first))) first = slot;
    }
    return first;
  }

  // ---- small things ----

  /// Room in tokens: whole blocks of every branch, the prompt's shared ones once.
  Tokens tokens_held(Live const& live) const {
    Tokens const end = live.room.saturated() ? live.sequences(live.length()).length : live.room;
    if (live.request.branches == 1) return end;
    Tokens const shared = round_down(live.request.prompt, footprint_.block());
    return shared + (end - shared) * live.request.branches;
  }

  std::size_t account_index(RequestClass request_class) const { return request_class.index < classes() ? request_class.index : classes(); }
  ClassAccount& account_of(RequestClass request_class) { return accounts_[account_index(request_class)]; }

  void lease_moved_to(Lease& lease) { leases_[lease.ticket_.slot] = &lease; }

  void tell(EventKind kind, Request const& request, Verdict const& verdict) {
    observer_.on({.kind = kind, .now = now_, .ticket = verdict.ticket, .request_class = request.request_class, .tag = request.tag, .pool = verdict.pool});
  }
  void tell(EventKind kind, std::uint32_t slot, Tokens before, Tokens after) {
    auto const& request = table_[slot].request;
    observer_.on({.kind = kind, .now = now_, .ticket = table_.ticket(slot), .request_class = request.request_class, .tag = request.tag, .before = before, .after = after});
  }

  Complaints complaints_;
  [[no_unique_address]] Policy policy_;
  [[no_unique_address]] Observer observer_;
  Footprint footprint_;
  Ledger<Source> ledger_;
  LiveTable table_;
  LiveList queue_;
  LiveList running_;
  std::vector<Lease*> leases_;           // of the running requests, by slot
  std::vector<ClassAccount> accounts_;   // one for each class, and the last for requests of unknown classes
  std::vector<std::uint64_t> fresh_;     // queued requests of each class that no pass has passed over yet
  std::vector<std::uint32_t> victims_;
  std::uint64_t now_{};
  std::uint64_t passes_{};               // admission passes that have ended
  std::uint64_t admissions_{};
  bool step_begun_{};
  bool pass_ended_{};
  bool yielding_{};                      // somebody was preempted in this step
};

}  // namespace kvbudget::inline v1
