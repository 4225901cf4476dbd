// A controller beside the naive model: each operation is done to both, and then all that can be seen of them must be equal and every
// invariant hold. What does not is thrown as Broken.
#pragma once

#include "naive_model.hpp"
#include "operation.hpp"

#include <bit>
#include <deque>

namespace properties {

/// What does not hold, by its sentence, and the numbers.
struct Broken {
  std::string sentence;
  std::string numbers{};
};
inline void must(bool holds, char const* sentence) {
  if (!holds) throw Broken{sentence};
}
inline void same(Count got, Count expected, char const* what) {
  if (got != expected) throw Broken{what, fmt::format("{}, not {}", got, expected)};
}

class Hash {
 public:
  void add(Count value) { hash_ = (hash_ ^ value) * 0x0000'0100'0000'01b3; }
  template <class Words>
  void add_words(Words const& words) {
    for (Count const word : std::bit_cast<std::array<Count, sizeof(Words) / sizeof(Count)>>(words)) add(word);
  }
  Count value() const { return hash_; }

 private:
  Count hash_ = 0xcbf2'9ce4'8422'2325;
};

/// A block manager of which others hold a part. A request that has the pinned blocks in its prompt uses them without taking any; idle ones are
/// free, and cached until they are taken. It remembers what should not have been asked of it.
struct Pool {
  Count capacity{};
  Count taken{}, pinned{}, idle{};
  Count refused{};  // takes of more than is free
  bool overpaid{};  // given more than was taken

  Count free() const { return naive::less(capacity, taken + pinned); }
  Supply supply() const {
    Count const cached = std::min(idle, free());
    return {.clean = {free() - cached}, .cached_idle = {cached}, .reserved = {std::min(pinned, naive::less(capacity, taken))}};
  }
};

struct Handle {
  Pool* pool;

  Supply supply() const { return pool->supply(); }
  bool take(Blocks blocks) {
    bool const fits = blocks.count <= pool->free();
    pool->refused += !fits;
    pool->taken += fits ? blocks.count : 0;
    pool->idle = std::min(pool->idle, pool->free());
    return fits;
  }
  void give(Blocks blocks) {
    pool->overpaid |= blocks.count > pool->taken;
    pool->taken -= std::min(blocks.count, pool->taken);
  }
  void resize(Blocks capacity) { pool->capacity = capacity.count; }
};

/// All that can be seen of a controller.
struct Seen {
  struct One {
    Count id{};
    Verdict why{};
    Tokens tokens{};  // of its lease
    bool in_flight() const { return why.admitted(); }
  };
  std::vector<PoolView> pools{};
  std::vector<ClassAccount> accounts{};
  std::vector<One> requests{};  // that are not done
  std::vector<Count> numbers{};

  One const* find(Count id) const {
    for (auto const& one : requests)
      if (one.id == id) return &one;
    return nullptr;
  }

  /// Without the counters, which only add up.
  void add_state(Hash& hash) const {
    for (auto const& pool : pools)
      for (Blocks const blocks : {pool.capacity, pool.headroom, pool.held, pool.overcommitted, pool.supply.clean, pool.supply.cached_idle, pool.supply.in_flight})
        hash.add(blocks.count);
    for (auto const& one : requests) {
      hash.add(one.id << 32 | Count{one.why.pool} << 16 | static_cast<Count>(one.why.reason));
      hash.add(one.tokens.count);
      for (Blocks const blocks : {one.why.needed, one.why.free, one.why.headroom, one.why.limit}) hash.add(blocks.count);
    }
    for (Count const number : numbers) hash.add(number);
  }
  Count hash() const {
    Hash hash;
    add_state(hash);
    for (auto const& account : accounts) hash.add_words(account);
    return hash.value();
  }
};

/// A controller, and those who use it: by id their tickets and leases.
template <class Policy, class Observer = Silent>
class Caller {
 public:
  using Gate = AdmissionController<Policy, Handle, Observer>;
  using Lease = typename Gate::Lease;
  using StepPlan = typename Gate::StepPlan;

  Caller(AdmissionLimits const& of, Policy const& policy, Observer observer = {}) : limits{of}, pools{pools_of(of)}, gate(made(of, policy, observer)) {}

  AdmissionLimits const limits;
  std::deque<Pool> pools;
  Gate gate;

  Ticket ticket(Count id) const { return id < tickets_.size() ? tickets_[id] : Ticket{}; }
  Lease& lease(Count id) {
    if (id >= leases_.size()) leases_.resize(id + 1);
    return leases_[id];
  }
  Count submissions() const { return tickets_.size(); }

  Verdict submit(Request const& request) {
    Verdict const verdict = gate.submit(request);
    if (request.tag >= tickets_.size()) tickets_.resize(request.tag + 1);
    tickets_[request.tag] = verdict.ticket;
    return verdict;
  }
  /// The id of what starts, or 0.
  Count admit_next() {
    auto started = gate.admit_next();
    if (!started) return 0;
    Count const id = started.tag();
    lease(id) = std::move(started);
    return id;
  }
  void move(Count id) {
    auto moved = std::move(lease(id));
    lease(id) = std::move(moved);
  }
  Hits hits(Count on_host) const { return {Blocks{pools[0].pinned}, Blocks{pools[0].idle}, Blocks{on_host}}; }

  void look(Seen& seen) {
    seen.pools.clear(), seen.accounts.clear(), seen.requests.clear(), seen.numbers.clear();
    for (std::uint32_t i = 0; i < gate.pools(); ++i) {
      seen.pools.push_back(gate.pool(i));
      seen.numbers.push_back(gate.next_step(i).count);
      for (std::uint32_t of = 0; of < gate.classes(); ++of) seen.numbers.push_back(gate.held(of, i).count);
    }
    for (std::uint32_t of = 0; of < gate.classes(); ++of) seen.accounts.push_back(gate.account(of));
    for (std::uint32_t tenant = 0; tenant < limits.tenants; ++tenant) seen.numbers.push_back(gate.served(tenant));
    for (Count id = 1; id < tickets_.size(); ++id) {
      Verdict const why = gate.why(tickets_[id]);
      if (why.reason != Reason::unknown_ticket) seen.requests.push_back({id, why, lease(id).tokens()});
    }
    for (Count const number : {Count{gate.queued()}, Count{gate.running()}, Count{gate.drained()}}) seen.numbers.push_back(number);
  }

 private:
  static std::deque<Pool> pools_of(AdmissionLimits const& limits) {
    std::deque<Pool> pools;
    for (std::uint32_t i = 0; i < limits.pools(); ++i) pools.push_back({.capacity = limits.capacity_of(i).count});
    return pools;
  }
  Gate made(AdmissionLimits const& of, Policy const& policy, Observer const& observer) {
    if (pools.size() == 1) return Gate{of, policy, {Handle{&pools[0]}}, observer};
    return Gate{of, policy, {Handle{&pools[0]}, Handle{&pools[1]}}, observer};
  }

  std::vector<Ticket> tickets_;
  std::vector<Lease> leases_;
};

/// What an operation did, as far as the caller was told.
struct Effects {
  Operation of{};
  std::vector<Count> started{};    // in order
  std::vector<Count> preempted{};  // in flight before it, and queued after it
  bool asked_to_start{};
  bool rejected{};
};

template <class Policy>
class World : public Caller<Policy> {
  using Base = Caller<Policy>;

 public:
  using Base::gate, Base::limits, Base::pools, Base::lease, Base::ticket;

  World(AdmissionLimits const& of, Policy const& policy) : World{of, policy, naive::rules_of(policy)} {}
  World(AdmissionLimits const& of, Policy const& policy, naive::Rules const& rules) : Base{of, policy}, model{of, rules} { this->look(seen); }

  naive::Model model;
  Seen seen{}, before{};
  std::vector<Count> order{}, order_before{};  // of those that wait
  naive::Plan expected{};                      // of the plan that was committed last
  typename Base::StepPlan plan{}, again{};
  Effects effects{};
  std::vector<Count> overtaken{};  // by id: times another started before it although it found no room first

  /// Does it, and compares. Operations on who is not there any more are done, too.
  void perform(Operation const& of) {
    std::swap(before, seen);
    std::swap(order_before, order);
    effects.of = of;
    effects.started.clear(), effects.preempted.clear();
    effects.asked_to_start = effects.rejected = false;
    apply(of);
    look_and_compare();
    overtaken.resize(this->submissions());
  }

  void look_and_compare() {
    this->look(seen);
    compare_pools();
    compare_requests();
    for (std::uint32_t i = 0; i < limits.classes; ++i) compare_account(seen.accounts[i], model.account(i));
    for (std::uint32_t tenant = 0; tenant < limits.tenants; ++tenant) same(gate.served(tenant), model.served(tenant), "a tenant's service is that of the model");
    for (auto const& one : seen.requests)
      if (auto const* was = before.find(one.id); was && was->in_flight() && !one.in_flight()) effects.preempted.push_back(one.id);
  }

 private:
  void apply(Operation const& of) {
    switch (of.call) {
      case Call::submit: return submit(of.request);
      case Call::begin_step: return gate.begin_step(of.amount), model.begin_step(of.amount);
      case Call::admit_next: return admit();
      case Call::grow: return grow(of.id, of.amount);
      case Call::finish: return same(gate.finish(ticket(of.id)), model.leave(of.id, &ClassAccount::completed), "finish() knows who is there");
      case Call::cancel: return same(gate.cancel(ticket(of.id)), model.leave(of.id, &ClassAccount::cancelled), "cancel() knows who is there");
      case Call::cancel_group: return same(gate.cancel_group(of.amount), model.cancel_group(of.amount), "cancel_group() counts");
      case Call::drop: return drop(of.id);
      case Call::move: return this->move(of.id);
      case Call::lease: return take_lease(of.id);
      case Call::plan: return plan_and_abandon(of.budget);
      case Call::commit: return commit(of.budget);
      case Call::commit_old: return commit_old();
      case Call::generated: return same(gate.generated(ticket(of.id), {of.amount}), model.generated(of.id, of.amount), "generated() knows who runs step by step");
      case Call::found: return same(gate.found(ticket(of.id), this->hits(of.amount)), model.found(of.id, this->hits(of.amount)), "found() knows who waits");
      case Call::arrived: return same(gate.arrived(ticket(of.id)), model.arrived(of.id), "arrived() knows who arrives");
      case Call::hold: return same(gate.hold(ticket(of.id)), model.hold(of.id), "hold() knows who runs");
      case Call::retire: return gate.retire(of.amount), model.retire(of.amount);
      case Call::resize: return resize(of.pool, of.amount);
      case Call::drain: return gate.drain(), void(model.draining = true);
      case Call::reopen: return gate.reopen(), void(model.draining = false);
      case Call::pin: return pin(of.amount);
      case Call::idle: return void(pools[0].idle = std::min(of.amount, pools[0].free()));
      case Call::more_of: return same(gate.more_of(of.request), model.more_of(model.cut(of.request)), "more_of() says how many would start");
    }
  }

  void submit(Request const& request) {
    Verdict const verdict = Base::submit(request);
    effects.rejected = verdict.rejected();
    same(Count(verdict.reason), Count(model.submit(request)), "submit() gives the model's reason");
  }
  void admit() {
    Count const id = this->admit_next();
    same(id, model.admit_next(), "admit_next() starts whom the model starts");
    effects.asked_to_start = true;
    if (id != 0) effects.started.push_back(id);
  }
  void grow(Count id, Count more) {
    Reason const got = lease(id).grow(Tokens{more}).reason;
    if (got != Reason::ended) same(Count(got), Count(model.grow(id, more)), "grow() gives the model's reason");
  }
  void drop(Count id) {
    if (lease(id)) model.leave(id, &ClassAccount::completed);
    lease(id) = {};
  }
  void take_lease(Count id) {
    auto const* item = model.find(id);
    bool const has_none = item && item->in_flight() && !lease(id);
    auto taken = gate.lease(ticket(id));
    same(!taken.ended(), has_none, "lease() is for those in flight that have none");
    if (taken) lease(id) = std::move(taken);
  }

  void plan_and_abandon(StepBudget const& budget) {
    kept_budget_ = budget;
    plan_twice(budget);
    kept_ = plan;
  }
  void plan_twice(StepBudget const& budget) {
    gate.plan(budget, plan);
    gate.plan(budget, again);
    must(plan.digest() == again.digest(), "i10_plan_twice_is_equal: plan() says the same when it is asked again");
    this->look(seen);
    must(seen.hash() == before.hash(), "i10_plan_changes_nothing: an abandoned plan leaves no trace");
  }
  void commit(StepBudget const& budget) {
    plan_twice(budget);
    must(gate.commit(plan), "i10_plan_is_committed: a plan is committed when nothing has changed");
    expected = model.plan(budget);
    compare_plan();
    carried_out();
    bool const did_something = !plan.preempt.empty() || !plan.admit.empty() || plan.tokens() != Tokens{};
    must(!(did_something && gate.commit(plan)), "i10_stale_plan_is_refused: a plan is committed once");
  }
  /// Whatever happened since: a plan that is still accepted is the one that would be made now.
  void commit_old() {
    gate.plan(kept_budget_, plan);
    bool const changed = plan.digest() != kept_.digest();
    if (!gate.commit(kept_)) return;
    must(!changed, "i10_stale_plan_is_refused: a plan that would not be made now is not committed");
    expected = model.plan(kept_budget_);
    carried_out();
  }
  void carried_out() {
    model.commit(expected);
    effects.asked_to_start = true;
    for (auto const& one : plan.admit) effects.started.push_back(one.tag);
  }

  void resize(std::uint32_t pool, Count blocks) {
    bool const good = gate.resize(Blocks{blocks}, pool).empty();
    if (good) model.resize(pool, blocks);
  }
  /// As long as nobody uses what is pinned, or was told of it.
  void pin(Count blocks) {
    for (auto const& item : model.items)
      if (item.shared > 0 || (item.told && item.hits.active != Blocks{})) return;
    if (blocks > pools[0].free() + pools[0].pinned) return;
    pools[0].pinned = model.pinned = blocks;
    pools[0].idle = std::min(pools[0].idle, pools[0].free());
  }

  // ---- comparing ----

  void compare_pools() {
    for (std::uint32_t i = 0; i < gate.pools(); ++i) {
      PoolView const& pool = seen.pools[i];
      same(pool.held.count, model.held(i), "what a pool holds is that of the model");
      same(pool.supply.available().count, model.available(i), "what a pool has left is that of the model");
      same(pool.overcommitted.count, model.overcommitted(i), "what a pool holds beyond its capacity is that of the model");
      same(pool.supply.in_flight.count, model.retiring(i), "what is given back and not free yet is that of the model");
      same(pool.supply.cached_idle.count, std::min(pools[i].idle + model.kept(i), model.available(i)), "what is kept as cache is that of the model");
      same(gate.next_step(i).count, model.next_step(i), "what the next step takes is that of the model");
      for (std::uint32_t of = 0; of < gate.classes(); ++of) same(gate.held(of, i).count, model.held_of(of, i), "what a class holds is that of the model");
    }
  }

  void compare_requests() {
    same(gate.running(), model.running(), "as many are in flight as in the model");
    same(gate.queued(), model.queued(), "as many wait as in the model");
    same(seen.requests.size(), model.items.size(), "those are there that are in the model");
    for (auto const& item : model.items) {
      auto const* one = seen.find(item.id());
      must(one != nullptr, "those are there that are in the model");
      must(one->in_flight() == item.in_flight(), "those are in flight that are in the model");
      if (item.in_flight()) compare_in_flight(*one, item);
      must(!lease(item.id()) || item.in_flight(), "a lease lasts as long as its request is in flight");
    }
    auto const waiting = model.in_order();
    auto const why = model.why();
    order.clear();
    for (std::size_t i = 0; i < waiting.size(); ++i) {
      order.push_back(waiting[i]->id());
      compare_why(seen.find(waiting[i]->id())->why, why[i]);
    }
  }
  void compare_in_flight(Seen::One const& one, naive::Item const& item) {
    Reason const reason = item.state == LiveState::running ? Reason::running : item.state == LiveState::arriving ? Reason::arriving : Reason::held;
    same(Count(one.why.reason), Count(reason), "why() says what one in flight does");
    same(one.why.needed.count, model.held(0, item), "why() says what one in flight holds");
    if (lease(item.id())) same(one.tokens.count, item.length(), "a lease's tokens are those of the model");
  }
  void compare_why(Verdict const& got, naive::Answer const& expected_answer) {
    same(Count(got.reason), Count(expected_answer.reason), "why() gives the model's reason");
    bool const of_room = got.reason == Reason::no_room || got.reason == Reason::headroom || got.reason == Reason::class_floor || got.reason == Reason::in_queue;
    if (!of_room || got.block == Tokens{}) return;
    same(got.pool, expected_answer.pool, "why() names the pool that binds");
    same(got.needed.count, expected_answer.needed, "why() says what is needed");
    same(got.free.count, expected_answer.free, "why() says what is free");
    same(got.headroom.count, expected_answer.headroom, "why() says what is left free");
  }

  static void compare_account(ClassAccount got, ClassAccount expected_account) {
    got.mark_peaks(), expected_account.mark_peaks();
    Hash hash, expected_hash;
    hash.add_words(got), expected_hash.add_words(expected_account);
    if (hash.value() == expected_hash.value()) return;
    for (auto const& [name, of] : counts) same(got.*of, expected_account.*of, name);
    for (auto const& [name, of] : tokens) same((got.*of).count, (expected_account.*of).count, name);
    for (std::size_t reason = 0; reason < reasons; ++reason) same(got.rejected[reason], expected_account.rejected[reason], "rejected[]");
    same(got.evicted_blocks.count, expected_account.evicted_blocks.count, "evicted_blocks");
    same(got.moved_blocks.count, expected_account.moved_blocks.count, "moved_blocks");
    must(false, "an account has a field that is not compared by name");
  }
  static constexpr std::pair<char const*, std::uint64_t ClassAccount::*> counts[] = {{"submitted", &ClassAccount::submitted},
                                                                                      {"admitted", &ClassAccount::admitted},
                                                                                      {"ever_waited", &ClassAccount::ever_waited},
                                                                                      {"steps_waited", &ClassAccount::steps_waited},
                                                                                      {"completed", &ClassAccount::completed},
                                                                                      {"cancelled", &ClassAccount::cancelled},
                                                                                      {"expired", &ClassAccount::expired},
                                                                                      {"preempted", &ClassAccount::preempted},
                                                                                      {"preempted_for", &ClassAccount::preempted_for},
                                                                                      {"wasted_token_steps", &ClassAccount::wasted_token_steps},
                                                                                      {"queued_requests", &ClassAccount::queued_requests},
                                                                                      {"active_requests", &ClassAccount::active_requests},
                                                                                      {"past_active_requests", &ClassAccount::past_active_requests}};
  static constexpr std::pair<char const*, Tokens ClassAccount::*> tokens[] = {{"useful_tokens", &ClassAccount::useful_tokens},
                                                                               {"found_tokens", &ClassAccount::found_tokens},
                                                                               {"recomputed_tokens", &ClassAccount::recomputed_tokens},
                                                                               {"queued_tokens", &ClassAccount::queued_tokens},
                                                                               {"active_tokens", &ClassAccount::active_tokens},
                                                                               {"to_compute", &ClassAccount::to_compute},
                                                                               {"tokens_held", &ClassAccount::tokens_held},
                                                                               {"past_active_tokens", &ClassAccount::past_active_tokens},
                                                                               {"past_tokens_held", &ClassAccount::past_tokens_held}};

  void compare_plan() {
    compare_list(plan.preempt, expected.preempt, "a plan preempts whom the model preempts");
    compare_list(plan.grow, expected.grow, "a plan grows whom the model grows");
    compare_list(plan.admit, expected.admit, "a plan starts whom the model starts");
    compare_list(plan.wait, expected.wait, "a plan lets wait whom the model lets wait");
    must(plan.refuse.empty(), "this policy refuses nobody once it is queued");
    for (std::size_t i = 0; i < plan.preempt.size(); ++i)
      same(plan.preempt[i].beneficiary.index, expected.preempt[i].beneficiary, "a plan says for whom one gives way");
    for (std::size_t i = 0; i < plan.wait.size(); ++i) same(plan.wait[i].passed_by, expected.wait[i].passed_by, "a plan counts who is passed by");
    for (std::size_t i = 0; i < plan.admit.size(); ++i) {
      same(plan.admit[i].found.count, expected.admit[i].start.found, "a plan finds what the model finds");
      for (std::uint32_t pool = 0; pool < gate.pools(); ++pool)
        same(plan.admit[i].blocks[pool].count, expected.admit[i].start.take[pool], "a plan takes what the model takes");
    }
  }
  static void compare_list(std::vector<Planned> const& got, std::vector<naive::Decision> const& expected_list, char const* what) {
    same(got.size(), expected_list.size(), what);
    for (std::size_t i = 0; i < got.size(); ++i) {
      same(got[i].tag, expected_list[i].id, what);
      same(Count(got[i].reason()), Count(expected_list[i].reason), what);
      same(got[i].tokens.count, expected_list[i].tokens, what);
    }
  }

  typename Base::StepPlan kept_{};
  StepBudget kept_budget_{};
};

}  // namespace properties
