// The invariants of admission, each by its number and sentence (facts: admission.md E.3), as far as they can be stated on a controller by
// itself. I10 is checked where plans are made (world.hpp), I22 where two controllers are, and I15 and I20 once more for every small number
// (agreement_test.cpp). I4, I13's blocks and I19 belong to who shares blocks; I23 and I24 are differential and simulated.
#pragma once

#include "world.hpp"

namespace properties {

template <class Policy>
void i1_every_block_is_in_one_place(World<Policy> const& world) {
  must(world.gate.balanced(), "i1_every_block_is_in_one_place: the ledger is balanced");
  for (auto const& pool : world.seen.pools) {
    Blocks const all = pool.held + pool.supply.clean + pool.supply.cached_idle + pool.supply.in_flight + pool.supply.reserved;
    same(all.count, (pool.capacity + pool.overcommitted).count, "i1_every_block_is_in_one_place: the parts are the whole");
  }
}

template <class Policy>
void i1_nothing_wraps(World<Policy> const& world) {
  constexpr Count absurd = Count{1} << 32;
  for (auto const& pool : world.seen.pools) must(pool.held.count < absurd && pool.supply.available().count < absurd, "i1_nothing_wraps: no pool is negative");
  for (auto const& account : world.seen.accounts)
    for (Count const word : std::bit_cast<std::array<Count, sizeof(ClassAccount) / sizeof(Count)>>(account))
      must(word < absurd, "i1_nothing_wraps: no counter is negative");
}

template <class Policy>
void i2_only_what_was_taken_is_given(World<Policy> const& world) {
  for (auto const& pool : world.pools) must(!pool.overpaid, "i2_only_what_was_taken_is_given: no block is given back twice");
  for (std::size_t i = 0; i < world.pools.size(); ++i)
    same(world.pools[i].taken, (world.seen.pools[i].held + world.seen.pools[i].supply.in_flight).count,
         "i2_only_what_was_taken_is_given: what is taken is held, or not free yet");
}

template <class Policy>
void i3_classes_add_up(World<Policy> const& world) {
  Count running = 0, queued = 0;
  for (auto const& account : world.seen.accounts) running += account.active_requests, queued += account.queued_requests;
  same(running, world.gate.running(), "i3_classes_add_up: requests in flight");
  same(queued, world.gate.queued(), "i3_classes_add_up: requests that wait");
  for (std::uint32_t pool = 0; pool < world.gate.pools(); ++pool) {
    Count held = 0;
    for (std::uint32_t of = 0; of < world.gate.classes(); ++of) held += world.gate.held(of, pool).count;
    same(held, world.seen.pools[pool].held.count, "i3_classes_add_up: blocks that are held");
  }
}

/// A request is in an account's counters once for each thing that ended it, or is still there.
template <class Policy>
void i3_everybody_is_somewhere(World<Policy> const& world) {
  for (auto const& account : world.seen.accounts)
    same(account.submitted,
         account.rejected_in_all() + account.completed + account.cancelled + account.expired + account.active_requests + account.queued_requests,
         "i3_everybody_is_somewhere: submitted is rejected, ended, in flight or queued");
}

/// What others hold and requests use is not among what is free.
template <class Policy>
void i5_shared_blocks_are_not_free(World<Policy> const& world) {
  PoolView const& pool = world.seen.pools[0];
  for (auto const& item : world.model.items)
    must(item.shared <= world.pools[0].pinned, "i5_shared_blocks_are_not_free: what a request shares is held by others");
  if (pool.overcommitted == Blocks{}) same(pool.supply.reserved.count, world.pools[0].pinned, "i5_shared_blocks_are_not_free: and is not part of supply");
}

/// What a plan or admit_next admits and what a commit grows, the source has. A lease's growth tries before it decides: it is refused at most
/// once, and only where somebody then gives way or it waits for what retires.
template <class Policy>
void i6_what_is_admitted_is_taken(World<Policy> const& world) {
  auto const& effects = world.effects;
  if (effects.refused > 0) {
    must(effects.of.call == Call::grow && effects.refused == 1, "i6_what_is_admitted_is_taken: the source has all that it is asked for");
    must(effects.growth == Reason::retiring || !effects.preempted.empty(), "i6_what_is_admitted_is_taken: growth that is refused waits, or somebody gives way");
  }
  for (Count const id : effects.started) {
    auto const* const one = world.seen.find(id);
    must(one && one->in_flight(), "i6_what_is_admitted_is_taken: whoever starts is in flight");
  }
}

/// Under whole reservation; a class's ceiling in tokens and a smaller pool may take room from those who reserved it.
template <class Policy>
void i7_reserved_growth_never_fails(World<Policy> const& world) {
  if (!world.model.rules.reserves_all || world.model.resized) return;
  for (auto const& limit : world.limits.class_limits)
    if (limit.tokens != Tokens::max()) return;
  must(world.effects.preempted.empty(), "i7_reserved_growth_never_fails: nobody is preempted");
}

/// Blocks that others hold or that steps in flight may still write are not its to wait for; a step's tokens come back with the next.
template <class Policy>
void i8_something_starts_when_nothing_runs(World<Policy> const& world) {
  StepBudget const& budget = world.effects.of.budget;
  bool const all_tokens = budget.tokens == Tokens::max() && budget.chunk == Tokens::max();
  bool const could = world.effects.asked_to_start && all_tokens && world.gate.running() == 0 && world.gate.queued() > 0;
  if (!could || world.model.yielding || world.pools[0].pinned > 0) return;
  for (auto const& pool : world.seen.pools)
    if (pool.supply.in_flight != Blocks{}) return;
  for (auto const& one : world.seen.requests)
    if (one.why.reason == Reason::step_budget || one.why.reason == Reason::yielding) return;
  must(false, "i8_something_starts_when_nothing_runs: the head is admitted or rejected, never deferred");
}

template <class Policy>
void i9_nobody_waits_who_can_never_fit(World<Policy> const& world) {
  world.gate.each_waiting([&](Ticket, Request const& request) {
    naive::Item const whole{.request = request};
    for (std::uint32_t pool = 0; pool < world.gate.pools(); ++pool)
      must(world.model.blocks(pool, whole, whole.longest()) <= world.seen.pools[pool].capacity.count,
           "i9_nobody_waits_who_can_never_fit: prompt + max_new is at most the capacity");
  });
}

/// All of it, and once: a second time there is nobody, and nothing changes.
template <class Policy>
void i11_who_leaves_gives_all_back_once(World<Policy>& world) {
  Operation const& of = world.effects.of;
  if (of.call != Call::finish && of.call != Call::cancel && of.call != Call::drop) return;
  if (!world.before.find(of.id) || world.seen.find(of.id)) return;
  for (std::size_t i = 0; i < world.seen.pools.size(); ++i)
    same(world.seen.pools[i].held.count, world.before.pools[i].held.count - world.effects.held[i],
         "i11_who_leaves_gives_all_back_once: what it held is not held");
  must(!world.gate.cancel(world.ticket(of.id)) && !world.gate.finish(world.ticket(of.id)), "i11_who_leaves_gives_all_back_once: it is gone");
}

template <class Policy>
void i12_nothing_is_free_before_it_retires(World<Policy> const& world) {
  Call const call = world.effects.of.call;
  if (!world.limits.retires || call == Call::retire || call == Call::resize || call == Call::pin) return;
  for (std::size_t i = 0; i < world.seen.pools.size(); ++i)
    must(world.seen.pools[i].supply.available() <= world.before.pools[i].supply.available(), "i12_nothing_is_free_before_it_retires");
}

/// What is found is what it had computed before a preemption, what it was told is cached, or what arrives.
template <class Policy>
void i13_only_what_was_computed_is_found(World<Policy> const& world) {
  if (world.effects.of.call != Call::commit) return;
  for (auto const& one : world.plan.admit) {
    auto const& item = *world.model.find(one.tag);
    Count const told = item.told ? (item.hits.active + item.hits.idle + item.hits.host).count * world.limits.block(0).count : 0;
    Count const arrives = item.request.arrives ? item.length() : 0;
    must(one.found.count <= std::max({item.kept_length, told, arrives}), "i13_only_what_was_computed_is_found");
  }
}

template <class Policy>
void i14_failed_admission_takes_nothing(World<Policy> const& world) {
  Call const call = world.effects.of.call;
  bool const nothing_planned = world.plan.preempt.empty() && world.plan.grow.empty() && world.plan.admit.empty();
  bool const failed = world.effects.rejected || (call == Call::admit_next && world.effects.started.empty()) || (call == Call::commit && nothing_planned);
  if (!failed) return;
  for (std::size_t i = 0; i < world.seen.pools.size(); ++i)
    must(world.seen.pools[i].supply == world.before.pools[i].supply, "i14_failed_admission_takes_nothing: nothing is evicted for it");
}

/// Nor does growth that waits, or whose asker gives way alone.
template <class Policy>
void i14_failed_growth_evicts_nothing(World<Policy> const& world) {
  auto const& effects = world.effects;
  bool const failed = effects.growth == Reason::retiring || effects.preempted == std::vector{effects.of.id};
  if (effects.of.call != Call::grow || !failed) return;
  for (std::size_t i = 0; i < world.seen.pools.size(); ++i)
    must(world.seen.pools[i].supply.cached_idle >= world.before.pools[i].supply.cached_idle, "i14_failed_growth_evicts_nothing");
}

/// Somebody gives way for another only where the other then has what it asked for, or waits for what retires.
template <class Policy>
void i15_enough_or_none(World<Policy> const& world) {
  if (!world.model.rules.preemption.enough_or_none || world.effects.of.call != Call::grow) return;
  bool others = false;
  for (Count const id : world.effects.preempted) others |= id != world.effects.of.id;
  auto const* const asker = world.seen.find(world.effects.of.id);
  if (others) must(asker && asker->in_flight(), "i15_enough_or_none: who others give way for does not give way");
  for (Count const id : world.effects.preempted) must(!others || id != world.effects.of.id, "i15_enough_or_none: the asker gives way alone");
}

/// In a plan: some request of the class that another gives way for grows, waits for what retires, or gives way itself later.
template <class Policy>
void i15_the_beneficiary_is_served(World<Policy> const& world) {
  if (!world.model.rules.preemption.enough_or_none || world.effects.of.call != Call::commit) return;
  auto const& preempt = world.plan.preempt;
  for (auto victim = preempt.begin(); victim != preempt.end(); ++victim) {
    auto const is_of_class = [&](Planned const& one) { return one.request_class == victim->beneficiary; };
    must(std::any_of(victim, preempt.end(), is_of_class) || std::any_of(world.plan.grow.begin(), world.plan.grow.end(), is_of_class),
         "i15_the_beneficiary_is_served");
  }
}

/// Since it started it has generated something, unless it asked for the room itself.
template <class Policy>
void i15_nobody_twice_without_progress(World<Policy> const& world) {
  if (world.model.rules.preemption.regain == Tokens{}) return;
  for (Count const id : world.effects.preempted) {
    auto const* const item = world.model.find(id);
    bool const asked = world.effects.of.call == Call::grow && world.effects.of.id == id;
    if (item && !asked) must(item->grown > item->started_at, "i15_nobody_twice_without_progress");
  }
}

template <class Policy>
void i15_every_victim_waits_once(World<Policy>& world) {
  std::vector<Count> waiting = world.seen.waiting;
  std::sort(waiting.begin(), waiting.end());
  must(std::adjacent_find(waiting.begin(), waiting.end()) == waiting.end(), "i15_every_victim_waits_once: nobody is queued twice");
  for (Count const id : world.effects.preempted)
    must(!world.lease(id) && (!world.seen.find(id) || std::binary_search(waiting.begin(), waiting.end(), id)),
         "i15_every_victim_waits_once: it is queued again");
}

/// Why it waited when the first that started was chosen.
template <class Policy>
Reason reason_of_waiting(World<Policy> const& world, Count id) {
  if (world.effects.of.call == Call::admit_next) return world.before.find(id)->why.reason;
  for (auto const& one : world.plan.wait)
    if (one.tag == id) return one.reason();
  return Reason::in_queue;
}

/// A request that was looked at and found no room lets at most `passes` others start before it, and none once it has waited `steps`. Those
/// whom their class or adapter holds back are not kept waiting by the others, and a class below its floor passes other classes.
template <class Policy>
void i16_bypass_is_bounded(World<Policy>& world) {
  auto const& rules = world.model.rules;
  bool const room_alone_decides = world.limits.class_limits.empty() && world.limits.adapters == 0;
  auto const has_floor = [&](std::uint32_t of) {
    ClassLimit const limit = world.limits.class_limit(of);
    return limit.floor != Tokens{} || limit.share != Percent{} || limit.floor_running != 0;
  };
  if (rules.order == naive::Rules::Order::fair_share) return;
  for (Count const started : world.effects.started) {
    std::uint32_t const its_class = world.model.find(started)->of_class();
    std::vector<std::uint32_t> held_back;  // classes
    for (Count const ahead : world.before.waiting) {
      if (ahead == started) break;
      auto const* const item = world.model.find(ahead);
      Reason const reason = reason_of_waiting(world, ahead);
      if (reason == Reason::class_limit) held_back.push_back(item->of_class());
      if (item->in_flight() || (reason != Reason::no_room && reason != Reason::headroom)) continue;
      if (std::count(held_back.begin(), held_back.end(), item->of_class()) > 0) continue;
      if (item->of_class() != its_class && has_floor(its_class)) continue;
      must(++world.overtaken[ahead] <= rules.bypass.passes, "i16_bypass_is_bounded: by passes");
      must(world.model.now - item->arrived < rules.bypass.steps, "i16_bypass_is_bounded: by steps");
    }
    if (!room_alone_decides) return;
  }
}

/// Unless it is alone, whoever starts leaves the headroom free, and what the next token of those that ran takes.
template <class Policy>
void i17_headroom_is_left(World<Policy> const& world) {
  auto const& started = world.effects.started;
  if (started.empty() || world.gate.running() < 2) return;
  for (std::uint32_t i = 0; i < world.gate.pools(); ++i) {
    PoolView const& pool = world.seen.pools[i];
    Count next_step = 0;
    for (auto const& item : world.model.items)
      if (world.model.rules.keeps_next_step_free && std::count(started.begin(), started.end(), item.id()) == 0) next_step += world.model.next_step(i, item);
    Blocks const least = world.limits.footprint.grows(i) ? share_up(world.model.rules.least, pool.capacity) : Blocks{};
    Blocks const headroom = max(pool.headroom, least);
    must(pool.supply.available() >= headroom + Blocks{next_step}, "i17_headroom_is_left");
  }
}

/// Unless it is alone, whoever starts leaves what other classes that wait are sure of.
template <class Policy>
void i18_floors_are_left(World<Policy> const& world) {
  if (world.effects.started.empty() || world.gate.running() < 2) return;
  std::uint32_t const of = world.model.find(world.effects.started.back())->of_class();
  must(world.seen.pools[0].supply.available().count >= world.model.missing_blocks(of), "i18_floors_are_left: of the pool");
  must(world.model.sequences() + world.model.missing_sequences(of) <= world.limits.max_running, "i18_floors_are_left: of what may run");
}

/// Where all that wait fit together, no floor keeps anybody waiting: protection costs nothing without pressure.
template <class Policy>
void i18_floors_cost_nothing_without_pressure(World<Policy> const& world) {
  Count blocks = world.model.headroom(0), sequences = world.model.sequences();
  for (auto const& item : world.model.items)
    if (item.queued()) blocks += world.model.needed(0, item), sequences += item.request.branches;
  if (blocks > world.model.available(0) || sequences > world.limits.max_running) return;
  for (auto const& one : world.seen.requests) must(one.why.reason != Reason::class_floor, "i18_floors_cost_nothing_without_pressure");
}

template <class Policy>
void i18_ceilings_hold(World<Policy> const& world) {
  Count sequences = 0;
  world.gate.each_running([&](Ticket, Request const& request) { sequences += request.branches; });
  must(sequences <= world.limits.max_running, "i18_ceilings_hold: sequences in flight");
  for (std::uint32_t i = 0; i < world.gate.classes(); ++i) {
    ClassLimit const limit = world.limits.class_limit(i);
    ClassAccount const& account = world.seen.accounts[i];
    must(account.active_requests <= limit.running, "i18_ceilings_hold: requests in flight");
    must(account.active_tokens <= limit.tokens, "i18_ceilings_hold: tokens");
    auto const computes = [&](naive::Item const& item) { return item.in_flight() && item.of_class() == i && item.computed() < item.length(); };
    bool const several = std::count_if(world.model.items.begin(), world.model.items.end(), computes) > 1;
    must(!several || account.to_compute <= limit.to_compute, "i18_ceilings_hold: tokens to compute");
  }
}

/// Without pressure it is first come, first served: whoever starts passes nobody who could have started.
template <class Policy>
void i18_nobody_passes_one_who_fits(World<Policy> const& world) {
  if (world.effects.of.call != Call::admit_next || world.effects.started.empty()) return;
  for (Count const ahead : world.before.waiting) {
    if (ahead == world.effects.started[0]) return;
    must(world.before.find(ahead)->why.reason != Reason::in_queue, "i18_nobody_passes_one_who_fits");
  }
}

/// The blocks for the next look-ahead tokens of every branch are held.
template <class Policy>
void i20_lookahead_is_held(World<Policy> const& world) {
  for (auto const& one : world.seen.requests) {
    if (!one.in_flight()) continue;
    naive::Item item = *world.model.find(one.id);
    item.reserved = 0;
    must(one.why.needed.count >= world.model.blocks(0, item, item.length()), "i20_lookahead_is_held");
  }
}

template <class Policy>
void i21_counters_only_rise(World<Policy> const& world) {
  constexpr std::size_t counters = offsetof(ClassAccount, queued_requests) / sizeof(Count);
  using Words = std::array<Count, sizeof(ClassAccount) / sizeof(Count)>;
  for (std::size_t i = 0; i < world.seen.accounts.size(); ++i) {
    auto const now = std::bit_cast<Words>(world.seen.accounts[i]), was = std::bit_cast<Words>(world.before.accounts[i]);
    for (std::size_t word = 0; word < counters; ++word) must(now[word] >= was[word], "i21_counters_only_rise");
  }
}

/// What a step computes, it computes for the first time or again.
template <class Policy>
void i21_computed_is_first_or_again(World<Policy> const& world) {
  if (world.effects.of.call != Call::commit) return;
  Count computed = 0, accounted = 0;
  for (auto const* list : {&world.plan.grow, &world.plan.admit})
    for (auto const& one : *list) {
      auto const& item = *world.model.find(one.tag);
      computed += item.cached_at(item.done) - item.cached_at(item.done - one.tokens.count);
    }
  auto const all = [](ClassAccount const& account) { return (account.useful_tokens + account.recomputed_tokens).count; };
  for (std::size_t i = 0; i < world.seen.accounts.size(); ++i) accounted += all(world.seen.accounts[i]) - all(world.before.accounts[i]);
  same(accounted, computed, "i21_computed_is_first_or_again");
}

/// All of them.
template <class Policy>
void invariants_hold(World<Policy>& world) {
  i1_every_block_is_in_one_place(world);
  i1_nothing_wraps(world);
  i2_only_what_was_taken_is_given(world);
  i3_classes_add_up(world);
  i3_everybody_is_somewhere(world);
  i5_shared_blocks_are_not_free(world);
  i6_what_is_admitted_is_taken(world);
  i7_reserved_growth_never_fails(world);
  i8_something_starts_when_nothing_runs(world);
  i9_nobody_waits_who_can_never_fit(world);
  i11_who_leaves_gives_all_back_once(world);
  i12_nothing_is_free_before_it_retires(world);
  i13_only_what_was_computed_is_found(world);
  i14_failed_admission_takes_nothing(world);
  i14_failed_growth_evicts_nothing(world);
  i15_enough_or_none(world);
  i15_the_beneficiary_is_served(world);
  i15_nobody_twice_without_progress(world);
  i15_every_victim_waits_once(world);
  i16_bypass_is_bounded(world);
  i17_headroom_is_left(world);
  i18_floors_are_left(world);
  i18_floors_cost_nothing_without_pressure(world);
  i18_ceilings_hold(world);
  i18_nobody_passes_one_who_fits(world);
  i20_lookahead_is_held(world);
  i21_counters_only_rise(world);
  i21_computed_is_first_or_again(world);
}

}  // namespace properties
