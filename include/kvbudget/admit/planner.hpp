// Decides, and changes nothing: what it decides goes into a plan, and what the plan takes and gives back is remembered beside the state, so
// that the next decision sees it. The one equation of admission is here (consider), and the one choice of victims (make_room).
//
// For each pool: a request that waits needs N blocks for the length its policy asks for, less those of its hits that running requests use;
// it starts iff that + what classes below their floor may still claim + headroom <= clean + cached idle. Hits on idle cached blocks save
// compute, not room.
#pragma once

#include <kvbudget/admit/state.hpp>

namespace kvbudget::inline v1 {

/// How much a step of a scheduler may compute, in all and of one request. What is not said is as the limits say.
struct StepBudget {
  Tokens tokens{Tokens::max()};
  Tokens chunk{Tokens::max()};
};

template <class State>
class Planner {
 public:
  using Plan = typename State::Plan;

  /// Starts an empty plan in `plan`, whose memory is used again.
  Planner(State const& state, Plan& plan, StepBudget const& step)
      : state_{state},
        plan_{plan},
        tokens_{min(step.tokens, state.limits.tokens_per_step - state.step_tokens)},
        chunk_{min(step.chunk, state.limits.chunk)} {
    if (plan_.draft.requests.size() < state.table.size()) fit(plan_, state);
    plan_.clear();
    plan_.version = state.version;
    plan_.memory = state.memory;
    if constexpr (State::looks_ahead_) plan_.draft.peak = state.peak;
    running_ = state.running.size();
    sequences_ = state.sequences;
    for (std::uint32_t pool = 0; pool < pools(); ++pool) {
      available_[pool] = plan.available[pool] = state.ledger.available(pool);
      owed_[pool] = state.ledger.overcommitted(pool);
      coming_[pool] = state.ledger.retiring(pool);
      next_step_[pool] = state.next_step[pool];
    }
  }

  /// Makes a plan large enough for the state, once.
  static void fit(Plan& plan, State const& state) {
    plan.draft.requests.resize(state.table.size());
    plan.draft.classes.resize(state.classes());
    plan.draft.lanes.resize(state.lanes.lanes());
    plan.draft.tenants.resize(state.limits.tenants);
    plan.draft.adapters.reserve(state.limits.adapters);
  }

  State const& state() const { return state_; }
  Plan& plan() { return plan_; }
  std::uint32_t pools() const { return state_.ledger.pools(); }
  /// Blocks of a pool that the plan has left.
  Blocks available(std::uint32_t pool = 0) const { return available_[pool]; }
  /// Requests that run, as planned so far.
  std::uint32_t running() const { return running_; }
  /// Tokens that the step may still compute.
  Tokens tokens() const { return tokens_; }
  bool preempts() const { return state_.yielding || !plan_.preempt.empty(); }
  bool runs(std::uint32_t slot) const { return state_.table[slot].state == LiveState::running && !is_preempted(slot); }

  // ---- running on ----

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
    if (!in_room(live, length)) {
      one.blocks = state_.held_at(live, length, step);
      PoolBlocks more{};
      for (std::uint32_t pool = 0; pool < pools(); ++pool) more[pool] = one.blocks[pool] - live.held[pool];
      std::uint32_t const binding = short_of(more, {});
      one.verdict = at_pool(Outcome::admitted, Reason::grown, slot, binding == no_slot ? 0 : binding, more[binding == no_slot ? 0 : binding]);
      if (!make_room(slot, more, generated * live.request.branches)) return false;
      if (short_of(more, {}) != no_slot) return wait_for_retirement(one);
      for (std::uint32_t pool = 0; pool < pools(); ++pool) {
        available_[pool] -= more[pool];
        free(pool, live.held[pool] - one.blocks[pool]);
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

  // ---- starting ----

  /// Plans the next request that may start; false when none may.
  bool admit_next() {
    if (preempts()) return false;
    if (!plan_.wait.empty()) look_anew();
    for (std::uint32_t slot = next_waiting(); slot != no_slot; slot = next_waiting()) {
      Considered const considered = consider(slot);
      if (considered.verdict.admitted()) {
        admit(slot, considered);
        return true;
      }
      let_wait(slot, considered.verdict);
      if (considered.verdict.reason == Reason::class_floor && behind_floor_ == no_slot) behind_floor_ = slot;
      if (!goes_on_past(slot, considered.verdict.reason)) break;
    }
    return admit_alone();
  }

  struct Considered {
    Verdict verdict{};
    PoolBlocks take{};
    PoolBlocks shared{};  // of active hits
    Tokens reserved{};
    Tokens found{};
    Tokens tokens{};  // that the first step computes
  };

  /// Whether a waiting request fits now; the pool that binds, or else the first.
  Considered consider(std::uint32_t slot) { return consider(state_.table[slot], slot); }
  Considered consider(Live const& live, std::uint32_t slot) {
    Considered result{};
    result.found = found(live, slot);
    Tokens const at_once = min(min(chunk_, tokens_), live.length() - result.found);
    result.tokens = at_once;
    Tokens const asked = reserved_for(live, result.found, at_once);
    result.reserved = takes_by_chunks() ? result.found + at_once : asked;
    PoolBlocks must_be_free{};
    for (std::uint32_t pool = 0; pool < pools(); ++pool) {
      if (live.found) result.shared[pool] = state_.usable_hits(slot, pool).active;
      Blocks const whole = free_for(live, asked, pool), first = takes_by_chunks() ? held_first(live, result, pool) : whole;
      must_be_free[pool] = max(whole, first) - result.shared[pool];
      result.take[pool] = first - result.shared[pool];
    }
    result.verdict = judge(live, slot, must_be_free, result);
    return result;
  }

  /// Where nothing runs and classes keep each other waiting by what their floors are missing, the first of them starts all the same.
  bool admit_alone() {
    if (running_ != 0 || behind_floor_ == no_slot) return false;
    floors_hold_ = false;
    Considered const considered = consider(behind_floor_);
    floors_hold_ = true;
    if (!considered.verdict.admitted()) return false;
    admit(behind_floor_, considered);
    return true;
  }

  /// It was looked at in vain.
  void let_wait(std::uint32_t slot, Verdict const& verdict) {
    auto& its = mark(slot);
    its.look = plan_.draft.look;
    if (its.wait != 0) return;
    plan_.wait.push_back(planned(slot, verdict.reason));
    plan_.wait.back().verdict = verdict;
    its.wait = static_cast<std::uint32_t>(plan_.wait.size());
  }

  /// Puts the start of a waiting request into the plan.
  void admit(std::uint32_t slot, Considered const& as) {
    Live const& live = state_.table[slot];
    Planned one = planned(slot, as.verdict.reason);
    one.verdict = as.verdict;
    one.tokens = as.tokens;
    one.blocks = as.take;
    one.reserved = as.reserved;
    one.found = as.found;
    take(live, as);
    auto& its = mark(slot);
    its.started = true;
    if (its.wait != 0) plan_.wait[its.wait - 1].verdict.outcome = Outcome::admitted;  // finish() drops it
    for (auto& waits : plan_.wait) waits.passed_by += mark(waits.ticket().slot).look == plan_.draft.look;
    step_over(slot);
    plan_.admit.push_back(one);
  }

  /// What the start of `live` takes, off what is left.
  void take(Live const& live, Considered const& as) {
    Tokens const room = state_.footprint.room(live.sequences(as.reserved).length);
    PoolBlocks next{};
    if (State::at_end(live, live.length(), room)) {
      PoolBlocks held = as.take;
      for (std::uint32_t pool = 0; live.found && pool < pools(); ++pool) held[pool] += as.shared[pool];
      next = state_.beyond(live, room, held);
    }
    for (std::uint32_t pool = 0; pool < pools(); ++pool) {
      available_[pool] -= as.take[pool];
      if (!live.arrives()) next_step_[pool] += next[pool];
    }
    tokens_ -= as.tokens;
    ++running_;
    sequences_ += live.request.branches;
    auto& of = class_of(live.request.request_class);
    ++of.active_requests;
    of.active_tokens += live.cached();
    of.to_compute += live.length() - as.found;
    ++of.started;
    if constexpr (State::looks_ahead_) plan_.draft.peak.put(state_.table.size() + of_plan_++, state_.decoding(live));
    of.held += as.take[0];
    if (!loaded(live.request.adapter)) plan_.draft.adapters.push_back(live.request.adapter);
    serve(live.request.tenant, live.length() - as.found, false);
  }

  /// What is left out of the plan again is gone.
  void finish() {
    if (!plan_.preempt.empty()) std::erase_if(plan_.grow, [](Planned const& one) { return one.verdict.rejected(); });
    if (!plan_.admit.empty()) std::erase_if(plan_.wait, [](Planned const& one) { return one.verdict.admitted(); });
  }

  Blocks headroom(std::uint32_t pool) const {
    return state_.policy.headroom({state_.ledger.headroom(pool), state_.ledger.capacity(pool), running_, next_step_[pool]});
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

  Verdict at_pool(Outcome outcome, Reason reason, std::uint32_t slot, std::uint32_t pool, Blocks needed) const {
    return {.outcome = outcome,
            .reason = reason,
            .ticket = slot == no_slot ? Ticket{} : state_.table.ticket(slot),
            .pool = pool,
            .pool_name = state_.ledger.name(pool),
            .block = state_.ledger.block(pool),
            .needed = needed,
            .free = available_[pool],
            .limit = state_.ledger.capacity(pool)};
  }

 private:
  static constexpr bool takes_by_chunks() {
    return requires(State const& s) { s.policy.need.taken_by_chunks; };
  }
  static constexpr bool needs_part() {
    return requires(State const& s) { s.policy.need.may_be_part; };
  }
  static constexpr bool holds_exactly() { return !std::same_as<decltype(holds_of(std::declval<State const&>().policy)), holds::Most>; }

  bool in_room(Live const& live, Tokens length) const { return !holds_exactly() && live.sequences(length).length <= live.room; }

  // ---- what the plan has changed ----

  typename Plan::Draft::Of& mark(std::uint32_t slot) {
    auto& of = plan_.draft.requests[slot];
    if (of.epoch != plan_.draft.epoch) of = {.epoch = plan_.draft.epoch};
    return of;
  }
  bool is_preempted(std::uint32_t slot) const {
    auto const& of = plan_.draft.requests[slot];
    return of.epoch == plan_.draft.epoch && of.preempted;
  }
  bool is_started(std::uint32_t slot) const {
    auto const& of = plan_.draft.requests[slot];
    return of.epoch == plan_.draft.epoch && of.started;
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

  typename Plan::Draft::OfClass& class_of(RequestClass request_class) {
    auto& of = plan_.draft.classes[request_class.index];
    if (of.epoch != plan_.draft.epoch) {
      ClassAccount const& account = state_.account(request_class);
      of = {.epoch = plan_.draft.epoch,
            .active_requests = account.active_requests,
            .started = 0,
            .active_tokens = account.active_tokens,
            .to_compute = account.to_compute,
            .held = state_.ledger.held(0, request_class)};
    }
    return of;
  }
  void serve(std::uint32_t tenant, Tokens tokens, bool generated) {
    if constexpr (SharesFairly<decltype(state_.policy.order)>)
      served(tenant) = saturating_add(served(tenant), saturating_multiply(tokens.count, generated ? state_.policy.order.output : state_.policy.order.input));
  }
  std::uint64_t& served(std::uint32_t tenant) {
    auto& of = plan_.draft.tenants[tenant];
    if (of.epoch != plan_.draft.epoch) of = {plan_.draft.epoch, state_.served(tenant)};
    return of.served;
  }

  /// Blocks given back: they pay what is overcommitted first, and are free at once or when the steps in flight retire.
  void free(std::uint32_t pool, Blocks blocks) {
    Blocks const paid = min(owed_[pool], blocks);
    owed_[pool] -= paid;
    (state_.ledger.retires() ? coming_ : available_)[pool] += blocks - paid;
  }

  /// What its next token takes changes from what it was before the plan, or after the growth it plans, to `next`.
  void note_next(std::uint32_t slot, PoolBlocks const& next) {
    Live const& live = state_.table[slot];
    Planned const* const grown = growth_of(slot);
    if (!grown && !live.next_counted && next == PoolBlocks{}) return;
    PoolBlocks const before = grown ? next_after(live, *grown) : live.next_counted ? live.next : PoolBlocks{};
    for (std::uint32_t pool = 0; pool < pools(); ++pool) {
      next_step_[pool] += next[pool];
      next_step_[pool] -= before[pool];
    }
  }
  PoolBlocks next_after(Live const& live, Planned const& grown) const {
    Tokens const room = state_.room_at(live, grown.reserved);
    return State::at_end(live, max(live.length(), grown.reserved), room) ? state_.beyond(live, room, grown.blocks) : PoolBlocks{};
  }

  Planned planned(std::uint32_t slot, Reason reason) const {
    Request const& request = state_.table[slot].request;
    return {.verdict = {.outcome = Outcome::admitted, .reason = reason, .ticket = state_.table.ticket(slot)},
            .request_class = request.request_class,
            .tag = request.tag};
  }

  // ---- who gives way ----

  /// The first pool that has fewer than `more` blocks even with `freed` ones; no_slot when all have enough.
  std::uint32_t short_of(PoolBlocks const& more, PoolBlocks const& freed) const {
    for (std::uint32_t pool = 0; pool < pools(); ++pool)
      if (more[pool] > available_[pool] + (freed[pool] - owed_[pool])) return pool;
    return no_slot;
  }
  std::uint32_t short_in_the_end(PoolBlocks const& more, PoolBlocks const& freed) const {
    PoolBlocks all = freed;
    for (std::uint32_t pool = 0; pool < pools(); ++pool) all[pool] += coming_[pool];
    return short_of(more, all);
  }

  bool over_ceiling(Live const& live, Tokens more, Tokens freed) {
    if (more == Tokens{} || state_.limits.class_limits.empty()) return false;
    Tokens const most = state_.limits.class_limit(live.request.request_class.index).tokens;
    return class_of(live.request.request_class).active_tokens + more > most + freed;
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
    for (std::uint32_t pool = 0; pool < pools(); ++pool) free(pool, held[pool]);
    auto& of = class_of(live.request.request_class);
    of.active_tokens -= cached_by(slot);
    --of.active_requests;
    of.to_compute -= live.length() - live.computed();
    of.held -= held[0];
    note_next(slot, {});
    --running_;
    sequences_ -= live.request.branches;
    auto& its = mark(slot);
    if (its.grow == 0) return;
    tokens_ += plan_.grow[its.grow - 1].tokens;
    plan_.grow[its.grow - 1].verdict.outcome = Outcome::rejected;  // finish() drops it
    its.grow = 0;
  }

  /// Of those that run, the one the policy takes first: the asker itself, or one that has generated something since it started, where the
  /// policy asks for that.
  std::uint32_t first_to_yield(std::uint32_t asker, bool of_its_class) const {
    bool const guarded = preemption_of(state_.policy).regain != Tokens{};
    RequestClass const its_class = state_.table[asker].request.request_class;
    auto const view = [this](std::uint32_t slot) {
      Live const& live = state_.table[slot];
      return RunningView{live.request, cached_by(slot), live.admission, held_by(slot)[0], live.arrival, live.grown()};
    };
    std::uint32_t first = no_slot;
    for (std::uint32_t slot = state_.running.front(); slot != no_slot; slot = state_.table[slot].next_slot) {
      Live const& live = state_.table[slot];
      if (!runs(slot) || (of_its_class && !(live.request.request_class == its_class))) continue;
      if (guarded && slot != asker && !live.progressed() && !generates(slot)) continue;
      if (first == no_slot || state_.policy.victim.yields_before(view(slot), view(first))) first = slot;
    }
    return first;
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
    auto& of = class_of(live.request.request_class);
    of.active_tokens += generated * live.request.branches;
    of.held = of.held + one.blocks[0] - live.held[0];
    tokens_ -= one.tokens;
    serve(live.request.tenant, generated * live.request.branches, true);
    note_next(slot, next_after(live, one));
    put_growth(one);
  }

  // ---- who is looked at next ----

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
    scanned_ = 0;
    behind_floor_ = no_slot;
    only_below_floor_ = false;
  }

  /// The first in order of those not looked at yet whose class is not held back; no_slot where there is none.
  std::uint32_t next_waiting() {
    std::uint32_t first = no_slot;
    for (auto const lane : state_.lanes.active()) {
      std::uint32_t const slot = cursor(lane);
      if (slot == no_slot) continue;
      if (class_is_limited(state_.lanes.class_of(lane))) continue;
      if (only_below_floor_ && missing_of_floor(state_.lanes.class_of(lane)) == Blocks{} && !below_floor_running(state_.lanes.class_of(lane))) continue;
      if (first == no_slot || comes_before(slot, first)) first = slot;
    }
    return first;
  }

  bool comes_before(std::uint32_t a, std::uint32_t b) {
    Live const &one = state_.table[a], &other = state_.table[b];
    if constexpr (SharesFairly<decltype(state_.policy.order)>) {
      if (one.front == other.front && served(one.request.tenant) != served(other.request.tenant))
        return served(one.request.tenant) < served(other.request.tenant);
    }
    return waits_before(one, other);
  }

  /// After one that may not start: whether others are looked at all the same.
  bool goes_on_past(std::uint32_t slot, Reason reason) {
    if (reason == Reason::step_budget) return false;
    if (reason == Reason::adapter_limit) return step_over(slot), true;
    if (reason != Reason::class_limit) {
      if (reason != Reason::running_limit && may_be_passed(slot)) return step_over(slot), true;
      only_below_floor_ = true;
      if (state_.limits.class_limits.empty()) return false;
    }
    class_of(state_.table[slot].request.request_class).limited = plan_.draft.look;
    return true;
  }
  bool may_be_passed(std::uint32_t slot) {
    Live const& live = state_.table[slot];
    Bypass const& bypass = state_.policy.order.bypass;
    auto const& its = mark(slot);
    std::uint64_t const passed = std::uint64_t{live.passed} + (its.wait == 0 ? 0 : plan_.wait[its.wait - 1].passed_by);
    return passed < bypass.passes && state_.now - live.arrived < bypass.steps && ++scanned_ < bypass.scan;
  }

  bool class_is_limited(std::uint32_t index) const {
    auto const& of = plan_.draft.classes[index];
    return of.epoch == plan_.draft.epoch && of.limited == plan_.draft.look;
  }

  // ---- what a start needs ----

  /// Tokens that need not be computed: hits, as far as a token is left to compute, what arrives, and what a preempted request left and
  /// nobody took.
  Tokens found(Live const& live, std::uint32_t slot) const {
    if (live.arrives()) return live.length();
    if (live.state == LiveState::preempted) {
      Keep const keep = preemption_of(state_.policy).keep;
      if (keep == Keep::on_host || (keep == Keep::as_cache && live.keeps)) return state_.found_without(live, taken_of_kept(live));
    }
    if (!live.found) return {};
    Hits const hits = state_.usable_hits(slot, 0);
    return state_.ledger.block(0) * (hits.active + hits.idle + hits.host).count;
  }
  /// Of the blocks that it left as cache, those that the plan has taken: what is available goes first to those that start before it.
  PoolBlocks taken_of_kept(Live const& live) const {
    PoolBlocks taken{};
    for (auto const lane : state_.lanes.active())
      for (std::uint32_t slot = state_.lanes.front(lane); slot != no_slot; slot = state_.table[slot].next_slot) {
        Live const& other = state_.table[slot];
        if (waits_before(live, other)) break;
        for (std::uint32_t pool = 0; pool < pools() && !is_started(slot); ++pool) taken[pool] += other.kept[pool];
      }
    for (std::uint32_t pool = 0; pool < pools(); ++pool) taken[pool] = min(taken[pool] - available_[pool], live.kept[pool]);
    return taken;
  }

  /// The length that must have room: as the need says, at least the known tokens (a need may say that a part is enough), and at most
  /// prompt + max_new. One that was preempted needs more than it had.
  Tokens reserved_for(Live const& live, Tokens found, Tokens at_once) const {
    Tokens const least = needs_part() ? found + at_once : live.length() + live.again;
    Tokens const asked = state_.policy.need(state_.waiting_view(live, found + at_once));
    return min(max(asked, least), live.longest());
  }

  Blocks free_for(Live const& live, Tokens length, std::uint32_t pool) const {
    if constexpr (requires { holds_of(state_.policy).must_be_free(state_.footprint, pool, live.sequences(length)); })
      return holds_of(state_.policy).must_be_free(state_.footprint, pool, live.sequences(length));
    else
      return state_.footprint.most(pool, live.sequences(length));
  }
  Blocks held_first(Live const& live, Considered const& as, std::uint32_t pool) const {
    return holds_of(state_.policy)(state_.footprint, pool, live.sequences(as.reserved), as.tokens);
  }

  Verdict judge(Live const& live, std::uint32_t slot, PoolBlocks const& needed, Considered const& as) {
    auto const say = [&](Reason reason, std::uint32_t pool, Blocks beside) {
      Verdict verdict = at_pool(Outcome::queued, reason, slot, pool, needed[pool]);
      verdict.headroom = beside;
      return verdict;
    };
    auto const count = [&](Reason reason, char const* field, std::uint64_t value, std::uint64_t limit) {
      return Verdict{.outcome = Outcome::queued, .reason = reason, .ticket = at_pool({}, {}, slot, 0, {}).ticket, .needed = {value}, .free = {limit}, .limit = {limit}, .field = field};
    };
    AdmissionLimits const& limits = state_.limits;
    if (Ceiling const ceiling = class_ceiling(live, as); ceiling.field) return count(Reason::class_limit, ceiling.field, ceiling.with, ceiling.limit);
    std::uint64_t const sequences = sequences_ + live.request.branches, kept = missing_running(live.request.request_class);
    if (sequences > limits.max_running) return count(Reason::running_limit, ".max_running", sequences, limits.max_running);
    if (sequences > limits.max_running - kept) return count(Reason::class_floor, ".max_running", sequences, limits.max_running - kept);
    if (limits.adapters != 0 && !loaded(live.request.adapter) && state_.adapters.size() + plan_.draft.adapters.size() >= limits.adapters)
      return count(Reason::adapter_limit, ".adapters", limits.adapters + std::uint64_t{1}, limits.adapters);
    Tokens const to_compute = live.length() - as.found;
    if (to_compute != Tokens{} && (as.tokens == Tokens{} || (limits.whole_prompts && as.tokens < to_compute)))
      return count(Reason::step_budget, ".tokens_per_step", limits.whole_prompts ? to_compute.count : 1, tokens_.count);
    PoolBlocks const peak = peak_with(live);
    Blocks beside{};
    for (std::uint32_t pool = 0; pool < pools(); ++pool) {
      Blocks const left = headroom(pool), floors = pool == 0 ? missing_floors(live.request.request_class) : Blocks{};
      if (needed[pool] > available_[pool]) return say(Reason::no_room, pool, left);
      if (needed[pool] + left > available_[pool]) return say(Reason::headroom, pool, left);
      if (peak[pool] + (running_ == 0 ? Blocks{} : state_.ledger.headroom(pool)) > state_.ledger.capacity(pool)) {
        Verdict verdict = say(Reason::future_peak, pool, left);
        verdict.needed = peak[pool];
        verdict.free = state_.ledger.capacity(pool);
        return verdict;
      }
      if (needed[pool] + left + floors > available_[pool]) return say(Reason::class_floor, pool, left + floors);
      if (pool == 0) beside = left;
    }
    Verdict verdict = say(running_ == 0 ? Reason::fits_alone : Reason::fits, 0, beside);
    verdict.outcome = Outcome::admitted;
    return verdict;
  }

  /// The most that those in flight, and those that the plan starts, will hold at once with it; nothing where the need does not look ahead.
  PoolBlocks peak_with(Live const& live) {
    if constexpr (State::looks_ahead_)
      return plan_.draft.peak.peak_with(state_.decoding(live));
    else
      return {};
  }

  // ---- classes ----

  struct Ceiling {
    char const* field{};
    std::uint64_t with{};
    std::uint64_t limit{};
  };

  /// The ceiling that its class would exceed with it; none where it would not.
  Ceiling class_ceiling(Live const& live, Considered const& as) {
    if (live.request.request_class.index >= state_.limits.class_limits.size()) return {};
    ClassLimit const& limit = state_.limits.class_limits[live.request.request_class.index];
    auto const& of = class_of(live.request.request_class);
    Tokens const tokens = of.active_tokens + live.cached_at(min(live.length() + live.again, live.longest())), to_compute = of.to_compute + (live.length() - as.found);
    if (of.active_requests >= limit.running) return {".running", of.active_requests + 1, limit.running};
    if (tokens > limit.tokens) return {".tokens", tokens.count, limit.tokens.count};
    if (of.to_compute != Tokens{} && to_compute > limit.to_compute) return {".to_compute", to_compute.count, limit.to_compute.count};
    return {};
  }

  /// What a class with requests waiting may still claim of its floor.
  Blocks missing_of_floor(std::uint32_t index) {
    if (index >= state_.limits.class_limits.size()) return {};
    ClassLimit const& limit = state_.limits.class_limits[index];
    Blocks const floor = floor_blocks(limit, state_.ledger.block(0), state_.ledger.capacity(0));
    auto const& of = class_of(index);
    if (floor == Blocks{} || !waits(index) || of.active_requests >= limit.running) return {};
    return floor - of.held;
  }
  Blocks missing_floors(RequestClass asker) {
    Blocks sum{};
    if (!floors_hold_) return sum;
    for (std::uint32_t i = 0; i < state_.limits.class_limits.size(); ++i)
      if (i != asker.index) sum += missing_of_floor(i);
    return sum;
  }
  bool below_floor_running(std::uint32_t index) {
    if (index >= state_.limits.class_limits.size()) return false;
    return waits(index) && class_of(index).active_requests < state_.limits.class_limits[index].floor_running;
  }
  std::uint64_t missing_running(RequestClass asker) {
    std::uint64_t sum = 0;
    if (!floors_hold_) return sum;
    for (std::uint32_t i = 0; i < state_.limits.class_limits.size(); ++i)
      if (i != asker.index && below_floor_running(i)) sum += state_.limits.class_limits[i].floor_running - class_of(i).active_requests;
    return sum;
  }
  /// Somebody of the class waits whom this plan does not start.
  bool waits(std::uint32_t index) {
    return state_.account(RequestClass{index}).queued_requests > class_of(index).started;
  }

  bool loaded(std::uint64_t adapter) const {
    if (adapter == 0 || state_.limits.adapters == 0) return true;
    for (auto const& one : state_.adapters)
      if (one.adapter == adapter) return true;
    for (auto const one : plan_.draft.adapters)
      if (one == adapter) return true;
    return false;
  }

  State const& state_;
  Plan& plan_;
  PoolBlocks available_{};
  PoolBlocks owed_{};       // held beyond the capacity
  PoolBlocks coming_{};     // free when the steps in flight retire
  PoolBlocks next_step_{};
  std::uint64_t sequences_{};
  Tokens tokens_;           // that the step may still compute
  Tokens chunk_;            // and of one request
  std::uint32_t running_{};
  std::uint32_t scanned_{};
  std::uint32_t behind_floor_{no_slot};  // the first that only a floor keeps from starting
  std::uint64_t of_plan_{};  // starts, as far as the peak knows them
  bool only_below_floor_{};
  bool floors_hold_{true};
};

}  // namespace kvbudget::inline v1
