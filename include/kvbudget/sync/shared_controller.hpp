// One admission controller for many threads, a gateway's or an engine's: one lock around an AdmissionController, its calls, its answers.
//
//   SharedController gate{{.capacity = 12'000_tokens, .headroom = 500_tokens}};
//   auto verdict = gate.submit(request);                      // on any thread
//   gate.with([&](auto& alone) {                              // several calls, and nobody else's between them
//     alone.begin_step(now);
//     while (auto lease = alone.admit_next()) batch.push_back(std::move(lease));
//   });
// Under the lock are the controller and every lease it gave. What a thread holds is a SharedLease: the name of a lease that stays in
// here. So a preemption writes nothing that a thread owns, a name moves without the lock, and no unlocked lease gets out. All other
// answers are values.
// Policy, Source and Observer are called under the lock. It is recursive, as the controller is re-entrant: an observer may call back, and
// with() may use leases. Neither may wait for a thread that waits for the controller. After construction nothing is allocated.
#pragma once

#include <kvbudget/admit/controller.hpp>

#include <cassert>
#include <mutex>

namespace kvbudget::inline v1 {

/// The right to hold cache of a SharedController. Move-only, and ends as a Lease does. Any thread may have it, and several may call one
/// and the same; to move it, assign to it or destroy it is for one alone. The controller outlives it, even where it has ended.
template <class Gate>
class [[nodiscard]] SharedLease {
 public:
  SharedLease() = default;
  SharedLease(SharedLease&& other) noexcept : gate_{std::exchange(other.gate_, nullptr)}, grant_{other.grant_} {}
  SharedLease& operator=(SharedLease other) noexcept {
    std::swap(gate_, other.gate_);
    std::swap(grant_, other.grant_);
    return *this;
  }
  ~SharedLease() {
    if (gate_) gate_->take_back(*this);
  }

  explicit operator bool() const { return !ended(); }
  bool ended() const {
    return use([](auto& lease) { return lease.ended(); });
  }

  // These stay readable after the end.
  Ticket ticket() const { return grant_.ticket; }
  RequestClass request_class() const { return grant_.request_class; }
  std::uint64_t tag() const { return grant_.tag; }

  /// Cached tokens of one branch: prompt + grown. Zero once ended.
  Tokens tokens() const {
    return use([](auto& lease) { return lease.tokens(); });
  }

  /// As a Lease grows: afterwards it holds `more` tokens of every branch, or prompt + max_new, or has ended.
  Verdict grow(Tokens more) {
    return use([more, ticket = ticket()](auto& lease) {
      Verdict verdict = lease.grow(more);
      verdict.ticket = ticket;
      return verdict;
    });
  }

  /// The request is complete; its room is free at once. Again: nothing.
  void finish() {
    use([](auto& lease) { lease.finish(); });
  }
  /// The request is given up; its room is free at once. Again: nothing.
  void cancel() {
    use([](auto& lease) { lease.cancel(); });
  }

 private:
  friend Gate;

  /// One admission of a request. A request that was preempted has another when it starts again.
  struct Grant {
    Ticket ticket{};
    RequestClass request_class{};
    std::uint64_t tag{};
    std::uint64_t admission{};
  };

  SharedLease(Gate* gate, Grant const& grant) : gate_{gate}, grant_{grant} {}

  /// What `call` makes, under the lock, of the lease this one names; of an ended one where there is none. Nothing of the name is looked at
  /// afterwards: an observer may have destroyed it.
  template <class Call>
  auto use(Call call) const {
    typename Gate::Named none;
    return gate_ ? gate_->use(grant_, none, call) : call(none);
  }

  Gate* gate_{};
  Grant grant_{};
};

template <AdmissionPolicy Policy = policies::Recommended, BlockSource Source = Counter, EventObserver Observer = Silent>
class SharedController {
  using Controller = AdmissionController<Policy, Source, Observer>;

 public:
  using Lease = SharedLease<SharedController>;
  using StepPlan = typename Controller::StepPlan;

  explicit SharedController(AdmissionLimits const& limits, Policy policy = {}, Observer observer = {}) requires std::constructible_from<Source, Blocks>
      : gate_{limits, std::move(policy), std::move(observer)}, named_(places(limits)) {}
  SharedController(AdmissionLimits const& limits, Policy policy, std::initializer_list<Source> sources, Observer observer = {})
      : gate_{limits, std::move(policy), sources, std::move(observer)}, named_(places(limits)) {}

  ~SharedController() { assert(names_ == 0 && "a lease outlives its controller"); }
  SharedController(SharedController&&) = delete;

  /// Several calls as one: `calls` is given this controller, and no other thread's call comes between its own. What it returns is returned
  /// by value.
  template <class Calls>
  auto with(Calls calls) {
    Lock const lock{mutex_};
    return calls(*this);
  }
  template <class Calls>
  auto with(Calls calls) const {
    Lock const lock{mutex_};
    return calls(*this);
  }

  /// The same for the observer, which is told under the lock and so is read under it.
  template <class Calls>
  auto with_observer(Calls calls) {
    Lock const lock{mutex_};
    return calls(gate_.observer());
  }

  // Each as the AdmissionController's.
  void begin_step(std::uint64_t now) { locked()->begin_step(now); }
  Verdict submit(Request const& request) { return locked()->submit(request); }
  /// A lease that has a ticket and has ended was given, and ended by another thread before this one saw it: ask on.
  Lease admit_next() {
    Lock const lock{mutex_};
    return name(gate_.admit_next());
  }
  StepPlan plan(StepBudget const& step = {}) const { return locked()->plan(step); }
  void plan(StepBudget const& step, StepPlan& plan) const { locked()->plan(step, plan); }
  /// False where another thread's call came in between: plan and commit in one with(), or plan again.
  [[nodiscard]] bool commit(StepPlan const& plan) { return locked()->commit(plan); }
  bool generated(Ticket ticket, Tokens more) { return locked()->generated(ticket, more); }
  Lease lease(Ticket ticket) {
    Lock const lock{mutex_};
    return name(gate_.lease(ticket));
  }
  bool found(Ticket ticket, Hits const& hits, std::uint32_t pool = 0) { return locked()->found(ticket, hits, pool); }
  bool arrived(Ticket ticket) { return locked()->arrived(ticket); }
  bool hold(Ticket ticket) { return locked()->hold(ticket); }
  void retire(std::uint64_t step) { locked()->retire(step); }
  Verdict why(Ticket ticket) const { return locked()->why(ticket); }
  std::uint64_t more_of(Request const& request) const { return locked()->more_of(request); }
  std::vector<Departure> left() const { return locked()->left(); }
  template <class Each>
  void each_waiting(Each each) const {
    locked()->each_waiting(each);
  }
  template <class Each>
  void each_running(Each each) const {
    locked()->each_running(each);
  }
  bool cancel(Ticket ticket) { return locked()->cancel(ticket); }
  std::uint32_t cancel_group(std::uint64_t group) { return locked()->cancel_group(group); }
  bool finish(Ticket ticket) { return locked()->finish(ticket); }
  Complaints resize(Budget capacity, std::uint32_t pool = 0) requires ResizableSource<Source> { return locked()->resize(capacity, pool); }
  void drain() { locked()->drain(); }
  void reopen() { locked()->reopen(); }
  bool drained() const { return locked()->drained(); }

  Complaints complaints() const { return locked()->complaints(); }
  Policy policy() const { return locked()->policy(); }
  std::uint64_t now() const { return locked()->now(); }
  std::uint32_t queued() const { return locked()->queued(); }
  std::uint32_t running() const { return locked()->running(); }
  std::uint32_t classes() const { return locked()->classes(); }
  std::uint32_t pools() const { return locked()->pools(); }
  PoolView pool(std::uint32_t i = 0) const { return locked()->pool(i); }
  bool balanced() const { return locked()->balanced(); }
  Blocks next_step(std::uint32_t pool = 0) const { return locked()->next_step(pool); }
  std::uint64_t served(std::uint32_t tenant) const { return locked()->served(tenant); }
  ClassAccount account(RequestClass request_class) const { return locked()->account(request_class); }
  Blocks held(RequestClass request_class, std::uint32_t pool = 0) const { return locked()->held(request_class, pool); }

 private:
  friend Lease;
  using Named = typename Controller::Lease;
  using Grant = typename Lease::Grant;
  using Lock = std::lock_guard<std::recursive_mutex>;

  /// A pointer that holds the lock: until the end of the expression it stands in.
  template <class Of>
  struct Locked {
    Lock lock;
    Of& of;
    Of* operator->() const { return &of; }
  };
  Locked<Controller> locked() { return {Lock{mutex_}, gate_}; }
  Locked<Controller const> locked() const { return {Lock{mutex_}, gate_}; }

  /// The last lease of a slot, and the number of its admission.
  struct Place {
    Named lease{};
    std::uint64_t admission{};
  };
  static std::size_t places(AdmissionLimits const& limits) { return check(limits).empty() ? limits.max_live : 0; }

  Lease name(Named lease) {
    Grant const grant{lease.ticket(), lease.request_class(), lease.tag(), ++admissions_};
    if (lease.ended()) return {nullptr, grant};
    named_[grant.ticket.slot] = {std::move(lease), grant.admission};
    ++names_;
    return {this, grant};
  }

  template <class Call>
  auto use(Grant const& grant, Named& none, Call& call) {
    Lock const lock{mutex_};
    Place& place = named_[grant.ticket.slot];
    return call(place.admission == grant.admission ? place.lease : none);
  }

  void take_back(Lease& lease) {
    Lock const lock{mutex_};
    lease.finish();
    --names_;
  }

  mutable std::recursive_mutex mutex_;
  Controller gate_;
  std::vector<Place> named_;    // by slot
  std::uint64_t admissions_{};  // so many times a lease was asked for
  std::uint64_t names_{};       // that threads hold, of ended leases too
};

}  // namespace kvbudget::inline v1
