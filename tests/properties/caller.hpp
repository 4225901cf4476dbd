// A controller and those who use it: its source of blocks, its tickets and leases, and all that can be seen of it.
#pragma once

#include "operation.hpp"

#include <array>
#include <bit>
#include <deque>
#include <vector>

namespace properties {

/// Numbers, each with an end: equal keys were made of equal numbers.
class Key {
 public:
  void add(Count value) {
    for (; value > 127; value >>= 7) bytes_ += char(128 | (value & 127));
    bytes_ += char(value);
  }
  std::string const& bytes() const { return bytes_; }

 private:
  std::string bytes_{};
};

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

  Count free() const { return saturating_subtract(capacity, taken + pinned); }
  Supply supply() const {
    Count const cached = std::min(idle, free());
    return {.clean = {free() - cached}, .cached_idle = {cached}, .reserved = {std::min(pinned, saturating_subtract(capacity, taken))}};
  }
};

struct Handle {
  static constexpr bool shares_blocks = true;
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
  std::vector<One> requests{};              // that are not done
  std::vector<Count> waiting{}, running{};  // in order
  std::vector<Count> numbers{};

  One const* find(Count id) const {
    for (auto const& one : requests)
      if (one.id == id) return &one;
    return nullptr;
  }

  /// Without the counters, which only add up. Into a Hash or a Key.
  template <class Into>
  void add_state(Into& into) const {
    for (auto const& pool : pools)
      for (Blocks const blocks :
           {pool.capacity, pool.headroom, pool.held, pool.overcommitted, pool.supply.clean, pool.supply.cached_idle, pool.supply.in_flight})
        into.add(blocks.count);
    into.add(requests.size());
    for (auto const& one : requests) {
      for (Count const number : {one.id, Count{one.why.pool}, Count(one.why.reason), one.tokens.count}) into.add(number);
      for (Blocks const blocks : {one.why.needed, one.why.free, one.why.headroom, one.why.limit}) into.add(blocks.count);
    }
    for (auto const* list : {&waiting, &running, &numbers}) {
      into.add(list->size());
      for (Count const number : *list) into.add(number);
    }
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

  StepPlan plan{};  // that was committed last

  /// Does it, and says what the controller answers: a reason, an id, a number, or whether it was done.
  Count perform(Operation const& of) {
    switch (of.call) {
      case Call::submit:
        return Count(submit(of.id, of.request));
      case Call::begin_step:
        return gate.begin_step(of.amount), 0;
      case Call::admit_next:
        return admit(gate.admit_next());
      case Call::grow:
        return Count(lease(of.id).grow(Tokens{of.amount}).reason);
      case Call::finish:
        return gate.finish(ticket(of.id));
      case Call::cancel:
        return gate.cancel(ticket(of.id));
      case Call::cancel_group:
        return gate.cancel_group(of.amount);
      case Call::drop:
        return lease(of.id) = {}, 0;
      case Call::move:
        return move(of.id), 0;
      case Call::lease:
        return admit(gate.lease(ticket(of.id)));
      case Call::plan:
        return gate.plan(kept_budget = of.budget, kept_plan), 0;
      case Call::commit:
        return gate.plan(of.budget, plan), gate.commit(plan);
      case Call::commit_old:
        return gate.commit(plan = kept_plan);
      case Call::generated:
        return gate.generated(ticket(of.id), {of.amount});
      case Call::found:
        return gate.found(ticket(of.id), hits(of.amount));
      case Call::arrived:
        return gate.arrived(ticket(of.id));
      case Call::hold:
        return gate.hold(ticket(of.id));
      case Call::retire:
        return gate.retire(of.amount), 0;
      case Call::resize:
        return gate.resize(Blocks{of.amount}, of.pool).empty();
      case Call::drain:
        return gate.drain(), 0;
      case Call::reopen:
        return gate.reopen(), 0;
      case Call::pin:
        return pin(of.amount);
      case Call::idle:
        return pools[0].idle = std::min(of.amount, pools[0].free()), 0;
      case Call::more_of:
        return gate.more_of(of.request);
    }
    return 0;
  }

  Hits hits(Count on_host) const { return {Blocks{pools[0].pinned}, Blocks{pools[0].idle}, Blocks{on_host}}; }

  /// As long as nobody uses what is pinned, which who pins it knows.
  Count pin(Count blocks) {
    if (blocks > pools[0].free() + pools[0].pinned) return 0;
    pools[0].pinned = blocks;
    pools[0].idle = std::min(pools[0].idle, pools[0].free());
    return 1;
  }

  void look(Seen& seen) {
    seen.pools.clear(), seen.accounts.clear(), seen.requests.clear(), seen.numbers.clear(), seen.waiting.clear(), seen.running.clear();
    gate.each_waiting([&](Ticket, Request const& request) { seen.waiting.push_back(request.tag); });
    gate.each_running([&](Ticket, Request const& request) { seen.running.push_back(request.tag); });
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

 protected:
  StepPlan kept_plan{};
  StepBudget kept_budget{};

 private:
  Reason submit(Count id, Request const& request) {
    Verdict const verdict = gate.submit(request);
    if (id >= tickets_.size()) tickets_.resize(id + 1);
    tickets_[id] = verdict.ticket;
    return verdict.reason;
  }
  /// Whose lease it is, or 0.
  Count admit(Lease got) {
    if (!got) return 0;
    Count const id = got.tag();
    lease(id) = std::move(got);
    return id;
  }
  void move(Count id) {
    auto moved = std::move(lease(id));
    lease(id) = std::move(moved);
  }

  static std::deque<Pool> pools_of(AdmissionLimits const& limits) {
    std::deque<Pool> pools;
    for (std::uint32_t i = 0; i < limits.pools(); ++i) pools.push_back({.capacity = limits.capacity_of(i).count});
    return pools;
  }
  Gate made(AdmissionLimits const& of, Policy const& policy, Observer const& observer) {
    if (pools.size() == 1) return Gate{of, policy, {Handle{&pools[0]}}, observer};
    if (pools.size() == 2) return Gate{of, policy, {Handle{&pools[0]}, Handle{&pools[1]}}, observer};
    return Gate{of, policy, {Handle{&pools[0]}, Handle{&pools[1]}, Handle{&pools[2]}}, observer};
  }

  std::vector<Ticket> tickets_;
  std::vector<Lease> leases_;
};

}  // namespace properties
