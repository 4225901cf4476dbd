// The state as a plan will leave it: what the plan takes and gives back is remembered beside the state, which does not change, so that the
// next decision sees it. AsItIs is the same view of a state that no plan has touched.
//
// What both answer, and Fit asks: state(), available(pool), next_step(pool), running(), sequences(), tokens(), chunk(), usage(class),
// is_started(slot), loaded(adapter), adapters(), peak_with(decoding), bounded(), limited().
#pragma once

#include <kvbudget/admit/state.hpp>

namespace kvbudget::inline v1 {

/// How much a step of a scheduler may compute, in all and of one request. What is not said is as the limits say.
struct StepBudget {
  Tokens tokens{Tokens::max()};
  Tokens chunk{Tokens::max()};
};

template <class Of>
class AsItIs {
 public:
  using State = Of;
  explicit AsItIs(State const& state) : state_{state} {}

  State const& state() const { return state_; }
  Blocks available(std::uint32_t pool) const { return state_.ledger.available(pool); }
  Blocks next_step(std::uint32_t pool) const { return state_.next_step[pool]; }
  std::uint32_t running() const { return state_.running.size(); }
  std::uint64_t sequences() const { return state_.sequences; }
  Tokens tokens() const { return state_.limits.tokens_per_step - state_.step_tokens; }
  Tokens chunk() const { return state_.chunk; }
  bool bounded() const { return state_.bounded; }
  bool limited() const { return state_.limited; }
  ClassUsage usage(RequestClass of) const { return state_.usage(of); }
  std::uint64_t served(std::uint32_t tenant) const { return state_.tenants.served(tenant); }
  bool is_started(std::uint32_t) const { return false; }
  bool loaded(std::uint64_t adapter) const { return state_.adapters.has(adapter); }
  std::size_t adapters() const { return state_.adapters.size(); }
  PoolBlocks peak_with(Decoding const& candidate) const { return state_.peak.peak_with(candidate); }

 private:
  State const& state_;
};

template <class Of>
class AsPlanned {
 public:
  using State = Of;
  using Plan = typename State::Plan;

  /// Starts an empty plan in `plan`, whose memory is used again.
  AsPlanned(State const& state, Plan& plan, StepBudget const& step)
      : state_{state},
        plan_{plan},
        tokens_{min(step.tokens, state.limits.tokens_per_step - state.step_tokens)},
        chunk_{min(step.chunk, state.chunk)},
        bounded_{state.bounded || !step.tokens.saturated() || !step.chunk.saturated()},
        running_{state.running.size()},
        sequences_{state.sequences} {
    size_for(plan_, state);
    plan_.clear();
    plan_.made_on = &state;
    plan_.version = state.version;
    plan_.memory = state.memory;
    if constexpr (State::looks_ahead_) plan_.draft.peak = state.peak;
    for (std::uint32_t pool = 0; pool < pools(); ++pool) {
      plan.available[pool] = state.ledger.available(pool);
      of_pool(pool) = {.available = plan.available[pool],
                       .owed = state.ledger.overcommitted(pool),
                       .coming = state.ledger.retiring(pool),
                       .next_step = state.next_step[pool]};
    }
  }

  /// Makes a plan as large as the state; of a plan that is, nothing changes.
  static void size_for(Plan& plan, State const& state) {
    plan.draft.requests.resize(state.table.size());
    plan.draft.classes.resize(state.classes());
    plan.draft.lanes.resize(state.lanes.lanes());
    plan.draft.tenants.resize(state.limits.tenants);
    plan.draft.adapters.reserve(state.limits.adapters < state.limits.max_live ? state.limits.adapters : state.limits.max_live);
  }

  State const& state() const { return state_; }
  Plan& plan() { return plan_; }
  std::uint32_t pools() const { return state_.ledger.pools(); }
  /// Blocks of a pool that the plan has left.
  Blocks available(std::uint32_t pool = 0) const { return of_pool(pool).available; }
  Blocks next_step(std::uint32_t pool) const { return of_pool(pool).next_step; }
  /// Requests that run, as planned so far, and their sequences.
  std::uint32_t running() const { return running_; }
  std::uint64_t sequences() const { return sequences_; }
  /// Tokens that the step may still compute, and of one request.
  Tokens tokens() const { return tokens_; }
  Tokens chunk() const { return chunk_; }
  bool bounded() const { return bounded_; }
  bool limited() const { return bounded_ || state_.limited; }
  bool preempts() const { return state_.yielding || !plan_.preempt.empty(); }
  bool runs(std::uint32_t slot) const { return state_.table[slot].state == LiveState::running && !is_preempted(slot); }
  RunningView running_view(std::uint32_t slot) const {
    Live const& live = state_.table[slot];
    return {live.request, cached_by(slot), live.admission, held_by(slot)[0], live.arrival, live.grown()};
  }

  ClassUsage const& usage(RequestClass of) { return class_of(of).usage; }
  std::uint64_t& served(std::uint32_t tenant) {
    auto& of = plan_.draft.tenants[tenant];
    if (of.epoch != plan_.draft.epoch) of = {plan_.draft.epoch, state_.tenants.served(tenant)};
    return of.served;
  }
  bool is_started(std::uint32_t slot) const {
    auto const& of = plan_.draft.requests[slot];
    return of.epoch == plan_.draft.epoch && of.started;
  }
  bool loaded(std::uint64_t adapter) const {
    for (auto const one : plan_.draft.adapters)
      if (one == adapter) return true;
    return state_.adapters.has(adapter);
  }
  std::size_t adapters() const { return state_.adapters.size() + plan_.draft.adapters.size(); }
  PoolBlocks peak_with(Decoding const& candidate) const { return plan_.draft.peak.peak_with(candidate); }

  /// It leaves for good. One that runs is preempted first.
  void refuse(std::uint32_t slot, Verdict const& verdict) { plan_.refuse.push_back(planned(state_.table[slot], {}, verdict)); }

  Verdict at_pool(Outcome outcome, Reason reason, std::uint32_t slot, std::uint32_t pool, Blocks needed) const {
    return {.outcome = outcome,
            .reason = reason,
            .ticket = slot == no_slot ? Ticket{} : state_.table.ticket(slot),
            .pool = pool,
            .pool_name = state_.ledger.name(pool),
            .block = state_.ledger.block(pool),
            .needed = needed,
            .free = of_pool(pool).available,
            .limit = state_.ledger.capacity(pool)};
  }

  /// What is left out of the plan again is gone. Who gives way and can never fit any more, as a pool has shrunk, is refused.
  void finish() {
    if constexpr (!State::waits_for_ever)
      for (auto const& one : plan_.preempt)
        if (std::uint32_t const slot = one.ticket().slot, pool = state_.too_small_for(state_.table[slot].request); pool < pools())
          refuse(slot, at_pool(Outcome::rejected, Reason::exceeds_capacity, slot, pool, state_.most(pool, State::whole(state_.table[slot].request))));
    if (!plan_.preempt.empty()) std::erase_if(plan_.grow, [](Planned const& one) { return one.verdict.rejected(); });
    if (!plan_.admit.empty()) std::erase_if(plan_.wait, [](Planned const& one) { return one.verdict.admitted(); });
  }

 protected:
  auto& of_pool(std::uint32_t pool) const { return plan_.draft.pools[pool]; }
  auto& mark(std::uint32_t slot) {
    auto& of = plan_.draft.requests[slot];
    if (of.epoch != plan_.draft.epoch) of = {.epoch = plan_.draft.epoch};
    return of;
  }
  auto& class_of(RequestClass request_class) {
    auto& of = plan_.draft.classes[request_class.index];
    if (of.epoch != plan_.draft.epoch) of = {.epoch = plan_.draft.epoch, .usage = state_.usage(request_class)};
    return of;
  }

  bool is_preempted(std::uint32_t slot) const {
    auto const& of = plan_.draft.requests[slot];
    return of.epoch == plan_.draft.epoch && of.preempted;
  }
  Planned const* growth_of(std::uint32_t slot) const {
    auto const& of = plan_.draft.requests[slot];
    return of.epoch == plan_.draft.epoch && of.grow != 0 ? &plan_.grow[of.grow - 1] : nullptr;
  }
  bool generates(std::uint32_t slot) const {
    Planned const* const grown = growth_of(slot);
    return grown && grown->reserved > state_.table[slot].length();
  }
  PoolBlocks held_by(std::uint32_t slot) const {
    Planned const* const grown = growth_of(slot);
    return grown ? grown->blocks : state_.table[slot].held;
  }
  Tokens cached_by(std::uint32_t slot) const {
    Live const& live = state_.table[slot];
    Planned const* const grown = growth_of(slot);
    return grown ? max(live.cached(), live.cached_at(grown->reserved)) : live.cached();
  }

  void serve(std::uint32_t tenant, Tokens tokens, bool generated) {
    if constexpr (SharesFairly<decltype(state_.policy.order)>)
      served(tenant) = saturating_add(served(tenant), saturating_multiply(tokens.count, generated ? state_.policy.order.output : state_.policy.order.input));
  }

  /// Blocks given back: they pay what is overcommitted first, and are free at once or when the steps in flight retire.
  void free(std::uint32_t pool, Blocks blocks) {
    Blocks const paid = min(of_pool(pool).owed, blocks);
    of_pool(pool).owed -= paid;
    (state_.ledger.retires() ? of_pool(pool).coming : of_pool(pool).available) += blocks - paid;
  }

  /// What its next token takes changes from what it was before the plan, or after the growth it plans, to `next`.
  void note_next(std::uint32_t slot, PoolBlocks const& next) {
    Live const& live = state_.table[slot];
    Planned const* const grown = growth_of(slot);
    if (!grown && !live.next_counted && next == PoolBlocks{}) return;
    PoolBlocks const before = grown ? next_after(live, *grown) : live.next_counted ? live.next : PoolBlocks{};
    for (std::uint32_t pool = 0; pool < pools(); ++pool) {
      of_pool(pool).next_step += next[pool];
      of_pool(pool).next_step -= before[pool];
    }
  }
  PoolBlocks next_after(Live const& live, Planned const& grown) const {
    return State::at_end(live, max(live.length(), grown.reserved), grown.reach.room) ? state_.next_beyond(live, grown.reach.room, grown.blocks) : PoolBlocks{};
  }

  Planned planned(std::uint32_t slot, Reason reason) const {
    return planned(state_.table[slot], {}, {.outcome = Outcome::admitted, .reason = reason, .ticket = state_.table.ticket(slot)});
  }
  static Planned planned(Live const& live, Work const& work, Verdict const& verdict) { return {work, verdict, live.request.request_class, live.request.tag}; }

  State const& state_;
  Plan& plan_;
  Tokens tokens_;
  Tokens chunk_;
  bool bounded_;  // there are limits on starts that pools do not count, beside max_running
  std::uint32_t running_;
  std::uint64_t sequences_;
};

}  // namespace kvbudget::inline v1
