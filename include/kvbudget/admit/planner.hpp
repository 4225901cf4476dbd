// Decides, and changes nothing: what it decides goes into a plan. Who runs on and who gives way is below (step_growth.hpp), as is whether a request
// fits (fit.hpp); here is who is looked at next, who starts, and whom a request that does not fit keeps waiting.
#pragma once

#include <kvbudget/admit/fit.hpp>
#include <kvbudget/admit/step_growth.hpp>

namespace kvbudget::inline v1 {

/// Of two that wait, whether `a` is looked at first: where tenants share, who is preempted still goes first, and then whose tenant was served least.
template <class View>
bool is_ahead(View& view, std::uint32_t a, std::uint32_t b) {
  auto const& state = view.state();
  Live const &one = state.table[a], &other = state.table[b];
  if constexpr (SharesFairly<decltype(state.policy.order)>) {
    auto const served_one = view.served(one.request.tenant), served_other = view.served(other.request.tenant);
    if (one.front == other.front && served_one != served_other) return served_one < served_other;
  }
  return waits_before(one, other);
}

/// Who is looked at first of all that wait, as it is; no_slot where nobody waits.
template <class State>
[[gnu::always_inline]] inline std::uint32_t first_waiting(AsItIs<State> const& now) {
  auto const& lanes = now.state().lanes;
  auto active = lanes.active();
  if (active.first == active.last) return no_slot;
  std::uint32_t first = lanes.front(*active.first++);
  for (auto const lane : active)
    if (is_ahead(now, lanes.front(lane), first)) first = lanes.front(lane);
  return first;
}

template <class State>
class Planner : public StepGrowth<State> {
  using Base = StepGrowth<State>;

 protected:
  using Base::mark, Base::class_of, Base::of_pool, Base::planned;
  using Base::state_, Base::plan_;

 public:
  using Base::Base, Base::pools, Base::is_started;

  /// Plans the next request that may start; false when none may.
  bool admit_next() {
    Considered const* const next = find_next();
    if (next) admit(next->ticket().slot, *next);
    return next;
  }

  /// Who starts next, and nothing is planned of it; null when nobody may.
  Considered const* find_next() {
    if (Base::preempts()) return nullptr;
    if (!plan_.wait.empty()) look_anew();
    for (std::uint32_t slot = next_waiting(); slot != no_slot; slot = next_waiting()) {
      Considered const& considered = consider(slot);
      if (considered.fits()) return &considered;
      let_wait(slot, considered.verdict);
      if (considered.verdict.reason == Reason::class_floor && behind_floor_ == no_slot) behind_floor_ = slot;
      if (!goes_on_past(slot, considered.verdict.reason)) break;
    }
    return Base::running() == 0 && behind_floor_ != no_slot ? consider_alone(behind_floor_) : nullptr;
  }

  /// Whether a waiting request fits now. As long as no other is considered.
  Considered const& consider(std::uint32_t slot) { return consider(state_.table[slot], slot); }
  Considered const& consider(Live const& live, std::uint32_t slot) {
    fit().consider(live, slot, plan_.draft.considered);
    return plan_.draft.considered;
  }

  /// The verdict on one that fits, with the numbers of the first pool.
  Verdict with_numbers(std::uint32_t slot, Considered const& as) {
    Verdict verdict = Base::at_pool(as.verdict.outcome, as.verdict.reason, slot, 0, as.must_be_free[0]);
    verdict.headroom = fit().headroom(0);
    return verdict;
  }

  /// It was looked at in vain.
  void let_wait(std::uint32_t slot, Verdict const& verdict) {
    auto& its = mark(slot);
    its.look = plan_.draft.look;
    if (its.wait != 0) return;
    plan_.wait.push_back(planned(state_.table[slot], {}, verdict));
    its.wait = static_cast<std::uint32_t>(plan_.wait.size());
  }

  /// Puts the start of a waiting request into the plan.
  void admit(std::uint32_t slot, Considered const& as) {
    Live const& live = state_.table[slot];
    plan_.admit.push_back(planned(live, as, with_numbers(slot, as)));
    take(live, slot, as);
    auto& its = mark(slot);
    its.started = true;
    if (its.wait != 0) plan_.wait[its.wait - 1].verdict.outcome = Outcome::admitted;  // finish() drops it
    for (auto& waits : plan_.wait) waits.passed_by += mark(waits.ticket().slot).look == plan_.draft.look;
    step_over(slot);
  }

  /// What the start of `live` takes, off what is left.
  void take(Live const& live, std::uint32_t slot, Considered const& as) {
    for (std::uint32_t pool = 0; pool < pools(); ++pool) of_pool(pool).available -= as.blocks[pool];
    if (State::at_end(live, live.length(), as.reach.room) && !live.arrives()) {
      PoolBlocks held = as.blocks;
      for (std::uint32_t pool = 0; pool < pools(); ++pool) held[pool] += fit().shared_by(live, slot, pool);
      PoolBlocks const next = state_.next_beyond(live, as.reach.room, held);
      for (std::uint32_t pool = 0; pool < pools(); ++pool) of_pool(pool).next_step += next[pool];
    }
    Base::tokens_ -= as.tokens;
    ++Base::running_;
    Base::sequences_ += live.request.branches;
    ClassUsage& of = class_of(live.request.request_class).usage;
    ++of.active_requests;
    of.active_tokens += live.cached();
    of.to_compute += live.length() - as.found;
    ++of.started;
    if constexpr (State::looks_ahead_) plan_.draft.peak.put(state_.table.size() + of_plan_++, state_.decoding(live));
    of.held += as.blocks[0];
    of.started_need += live.queued_need;
    if (!Base::loaded(live.request.adapter)) plan_.draft.adapters.push_back(live.request.adapter);
    Base::serve(live.request.tenant, live.length() - as.found, false);
  }

  /// One after the other, all that wait, in their order; no_slot after the last.
  std::uint32_t next_in_order() {
    std::uint32_t const slot = next_waiting();
    if (slot != no_slot) step_over(slot);
    return slot;
  }

  /// True when somebody before it in the order does not fit and may not be passed over.
  bool behind_another(std::uint32_t slot) {
    std::uint32_t ahead = next_waiting();
    for (; ahead != no_slot && ahead != slot; ahead = next_waiting()) {
      Reason const reason = consider(ahead).verdict.reason;
      if (reason == Reason::fits || reason == Reason::fits_alone)
        step_over(ahead);
      else if (!goes_on_past(ahead, reason))
        return true;
    }
    return ahead != slot;
  }

 private:
  Fit<AsPlanned<State>&> fit(bool floors_hold = true) { return Fit<AsPlanned<State>&>{*this, floors_hold}; }

  /// Where nothing runs and classes keep each other waiting by what their floors are missing, the first of them starts all the same.
  Considered const* consider_alone(std::uint32_t slot) {
    Considered& as = plan_.draft.considered;
    return fit(false).consider(state_.table[slot], slot, as) ? &as : nullptr;
  }

  std::uint32_t& cursor(std::uint32_t lane) {
    auto& of = plan_.draft.lanes[lane];
    if (of.look != plan_.draft.look) of = {plan_.draft.look, first_not_started(state_.lanes.front(lane))};
    return of.next;
  }
  void step_over(std::uint32_t slot) { cursor(state_.lanes.lane_of(state_.table[slot].request)) = first_not_started(state_.table[slot].next_slot); }
  std::uint32_t first_not_started(std::uint32_t slot) const {
    while (slot != no_slot && is_started(slot)) slot = state_.table[slot].next_slot;
    return slot;
  }

  /// From the front again, after a start: whoever was passed by may have been for the last time, or find that a class has reached its floor.
  void look_anew() {
    ++plan_.draft.look;
    scanned_ = skipped_ = 0;
    behind_floor_ = no_slot;
    only_below_floor_ = false;
  }

  /// The first in order of those not looked at yet whose class is not held back; no_slot where there is none.
  std::uint32_t next_waiting() {
    std::uint32_t first = no_slot;
    for (auto const lane : state_.lanes.active()) {
      std::uint32_t const slot = cursor(lane), of_class = state_.lanes.class_of(lane);
      if (slot == no_slot || class_is_limited(of_class)) continue;
      if (only_below_floor_ && !fit().is_below_floor(of_class)) continue;
      if (first == no_slot || is_ahead(*this, slot, first)) first = slot;
    }
    return first;
  }

  /// After one that may not start: whether others are looked at all the same.
  bool goes_on_past(std::uint32_t slot, Reason reason) {
    if (reason == Reason::step_budget) return false;
    if (reason == Reason::adapter_limit && may_be_skipped(slot)) return step_over(slot), true;
    if (reason != Reason::class_limit) {
      if (reason != Reason::running_limit && may_be_passed(slot)) return step_over(slot), true;
      only_below_floor_ = true;
      if (state_.limits.class_limits.empty()) return false;
    }
    class_of(state_.table[slot].request.request_class).limited = plan_.draft.look;
    return true;
  }
  bool may_be_passed(std::uint32_t slot) {
    Bypass const& bypass = state_.policy.order.bypass;
    return passed(slot) < bypass.passes && state_.now - state_.table[slot].arrived < bypass.steps && ++scanned_ < bypass.scan;
  }
  bool may_be_skipped(std::uint32_t slot) {
    Bypass const& bypass = state_.policy.order.bypass;
    return passed(slot) < bypass.adapter_passes && ++skipped_ < bypass.adapter_scan;
  }
  /// How many have started before it although it was looked at first.
  std::uint64_t passed(std::uint32_t slot) {
    auto const& its = mark(slot);
    return std::uint64_t{state_.table[slot].passed} + (its.wait == 0 ? 0 : plan_.wait[its.wait - 1].passed_by);
  }

  bool class_is_limited(std::uint32_t index) const {
    auto const& of = plan_.draft.classes[index];
    return of.epoch == plan_.draft.epoch && of.limited == plan_.draft.look;
  }

  std::uint32_t scanned_{};
  std::uint32_t skipped_{};
  std::uint32_t behind_floor_{no_slot};  // the first that only a floor keeps from starting
  std::uint64_t of_plan_{};              // starts, as far as the peak knows them
  bool only_below_floor_{};
};

}  // namespace kvbudget::inline v1
