// Who runs on, and who gives way where the room runs out: the one choice of victims (make_room).
#pragma once

#include <kvbudget/admit/views.hpp>

namespace kvbudget::inline v1 {

template <class State>
class StepGrowth : public AsPlanned<State> {
  using Base = AsPlanned<State>;

 protected:
  using Base::mark, Base::class_of, Base::of_pool, Base::planned, Base::held_by, Base::cached_by, Base::is_preempted;
  using Base::state_, Base::plan_, Base::tokens_, Base::chunk_;

 public:
  using Base::Base, Base::pools, Base::runs, Base::running_view, Base::at_pool;

  /// Every running request computes what it knows and has not computed, by chunks, in order of admission.
  void run_on() {
    for (std::uint32_t slot = state_.running.front(); slot != no_slot && tokens_ != Tokens{}; slot = state_.table[slot].next_slot) {
      if (!runs(slot)) continue;
      Live const& live = state_.table[slot];
      bool const prefills = live.computed() < live.length();
      Tokens const step = min(min(prefills ? live.length() - live.computed() : live.pending, chunk_), tokens_);
      if (step == Tokens{}) continue;
      bool const goes_on = prefills ? extend(slot, live.computed() + step, step, {}) : extend(slot, live.length() + step, step, step);
      if (!goes_on && is_preempted(slot) && !preemption_of(state_.policy).others_go_on) break;
    }
  }

  /// Room for `length` tokens of every branch, of which the step computes `step` and `generated` are new; else the request waits or gives way.
  bool extend(std::uint32_t slot, Tokens length, Tokens step, Tokens generated) {
    Live const& live = state_.table[slot];
    Planned one = planned(slot, Reason::grown);
    one.tokens = step;
    one.reserved = length;
    one.blocks = live.held;
    one.reach = {live.room, live.tokens_held};
    if (!in_room(live, length)) {
      one.reach = state_.reach(live, length);
      one.blocks = state_.held_at(live, length, step);
      PoolBlocks more{};
      for (std::uint32_t pool = 0; pool < pools(); ++pool) more[pool] = one.blocks[pool] - live.held[pool];
      std::uint32_t const binding = short_of(more, {});
      one.verdict = at_pool(Outcome::admitted, Reason::grown, slot, binding == no_slot ? 0 : binding, more[binding == no_slot ? 0 : binding]);
      if (!make_room(slot, more, generated * live.request.branches)) return false;
      if (short_of(more, {}) != no_slot) return wait_for_retirement(one);
      for (std::uint32_t pool = 0; pool < pools(); ++pool) {
        of_pool(pool).available -= more[pool];
        Base::free(pool, live.held[pool] - one.blocks[pool]);
      }
    } else if (over_ceiling(live, generated * live.request.branches, {}) && !make_room(slot, {}, generated * live.request.branches)) {
      return false;
    }
    run(slot, one, generated);
    return true;
  }

  /// The request gives way, and what it was planned to grow with it, for `beneficiary`, which pool `pool` is too small for.
  void preempt(std::uint32_t slot, std::uint32_t beneficiary, std::uint32_t pool) {
    choose(slot, beneficiary, pool);
    give_up(slot);
  }

 private:
  bool in_room(Live const& live, Tokens length) const { return State::holds_most && live.sequences(length).length <= live.room; }

  /// The first pool that has fewer than `more` blocks even with `freed` ones; no_slot when all have enough.
  std::uint32_t short_of(PoolBlocks const& more, PoolBlocks const& freed) const {
    for (std::uint32_t pool = 0; pool < pools(); ++pool)
      if (more[pool] > of_pool(pool).available + (freed[pool] - of_pool(pool).owed)) return pool;
    return no_slot;
  }
  std::uint32_t short_in_the_end(PoolBlocks const& more, PoolBlocks const& freed) const {
    PoolBlocks all = freed;
    for (std::uint32_t pool = 0; pool < pools(); ++pool) all[pool] += of_pool(pool).coming;
    return short_of(more, all);
  }

  bool over_ceiling(Live const& live, Tokens more, Tokens freed) {
    if (more == Tokens{} || state_.limits.class_limits.empty()) return false;
    Tokens const most = state_.limits.class_limit(live.request.request_class.index).tokens;
    return Base::usage(live.request.request_class).active_tokens + more > most + freed;
  }

  /// Preempts whom it takes for `more` blocks and `tokens` more of its class, in the policy's order. False when the asker's own turn came:
  /// then only the asker gives way, or, where the policy does not know enough_or_none, the asker too.
  bool make_room(std::uint32_t asker, PoolBlocks const& more, Tokens tokens) {
    Live const& live = state_.table[asker];
    std::size_t const first = plan_.preempt.size();
    std::uint32_t const binding = short_in_the_end(more, {}), pool = binding == no_slot ? 0 : binding;
    PoolBlocks freed{};
    Tokens freed_tokens{};
    bool enough = true;
    while (enough) {
      bool const of_class = over_ceiling(live, tokens, freed_tokens);
      if (!of_class && short_in_the_end(more, freed) == no_slot) break;
      std::uint32_t const victim = first_to_yield(asker, of_class);
      enough = victim != asker;
      if (!enough) break;
      choose(victim, asker, pool);
      PoolBlocks const held = held_by(victim);
      for (std::uint32_t i = 0; i < pools(); ++i) freed[i] += held[i];
      if (state_.table[victim].request.request_class == live.request.request_class) freed_tokens += cached_by(victim);
    }
    if (!enough && preemption_of(state_.policy).enough_or_none) spare(first);
    for (std::size_t i = first; i < plan_.preempt.size(); ++i) give_up(plan_.preempt[i].ticket().slot);
    if (!enough) preempt(asker, asker, pool);
    return enough;
  }

  /// Of those that run, the one the policy takes first: the asker itself, or one that has generated something since it started, where the
  /// policy asks for that.
  std::uint32_t first_to_yield(std::uint32_t asker, bool of_its_class) const {
    bool const guarded = preemption_of(state_.policy).regain != Tokens{};
    RequestClass const its_class = state_.table[asker].request.request_class;
    std::uint32_t first = no_slot;
    for (std::uint32_t slot = state_.running.front(); slot != no_slot; slot = state_.table[slot].next_slot) {
      Live const& live = state_.table[slot];
      if (!runs(slot) || (of_its_class && !(live.request.request_class == its_class))) continue;
      if (guarded && slot != asker && !live.progressed() && !Base::generates(slot)) continue;
      if (first == no_slot || state_.policy.victim.yields_before(running_view(slot), running_view(first))) first = slot;
    }
    return first;
  }

  void choose(std::uint32_t slot, std::uint32_t beneficiary, std::uint32_t pool) {
    mark(slot).preempted = true;
    Planned one = planned(slot, Reason::preempted);
    one.verdict.outcome = Outcome::queued;
    one.verdict.pool = pool;
    one.verdict.pool_name = state_.ledger.name(pool);
    one.beneficiary = state_.table[beneficiary].request.request_class;
    plan_.preempt.push_back(one);
  }

  /// Those chosen from `first` on keep what they have after all.
  void spare(std::size_t first) {
    for (std::size_t i = first; i < plan_.preempt.size(); ++i) mark(plan_.preempt[i].ticket().slot).preempted = false;
    plan_.preempt.resize(first);
  }

  /// What one that is preempted held, and was planned to compute, is there for others.
  void give_up(std::uint32_t slot) {
    Live const& live = state_.table[slot];
    PoolBlocks const held = held_by(slot);
    for (std::uint32_t pool = 0; pool < pools(); ++pool) Base::free(pool, held[pool]);
    ClassUsage& of = class_of(live.request.request_class).usage;
    of.active_tokens -= cached_by(slot);
    --of.active_requests;
    of.to_compute -= live.length() - live.computed();
    of.held -= held[0];
    Base::note_next(slot, {});
    --Base::running_;
    Base::sequences_ -= live.request.branches;
    auto& its = mark(slot);
    if (its.grow == 0) return;
    tokens_ += plan_.grow[its.grow - 1].tokens;
    plan_.grow[its.grow - 1].verdict.outcome = Outcome::rejected;  // finish() drops it
    its.grow = 0;
  }

  /// The blocks it needs come back with the steps in flight: it keeps what it has, and computes nothing in this step.
  bool wait_for_retirement(Planned one) {
    Live const& live = state_.table[one.ticket().slot];
    one.verdict.outcome = Outcome::queued;
    one.verdict.reason = Reason::retiring;
    one.tokens = {};
    one.blocks = live.held;
    one.reserved = live.length();
    put_growth(one);
    return false;
  }
  void put_growth(Planned const& one) {
    plan_.grow.push_back(one);
    mark(one.ticket().slot).grow = static_cast<std::uint32_t>(plan_.grow.size());
  }

  /// It computes `one.tokens` more, and holds `one.blocks`.
  void run(std::uint32_t slot, Planned const& one, Tokens generated) {
    Live const& live = state_.table[slot];
    ClassUsage& of = class_of(live.request.request_class).usage;
    of.active_tokens += generated * live.request.branches;
    of.held = of.held + one.blocks[0] - live.held[0];
    tokens_ -= one.tokens;
    Base::serve(live.request.tenant, generated * live.request.branches, true);
    Base::note_next(slot, Base::next_after(live, one));
    put_growth(one);
  }
};

}  // namespace kvbudget::inline v1
