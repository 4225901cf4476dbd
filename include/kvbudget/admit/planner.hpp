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
    limited_ = state.limited || !tokens_.saturated() || !chunk_.saturated();
    for (std::uint32_t pool = 0; pool < pools(); ++pool) {
      plan.available[pool] = state.ledger.available(pool);
      of_pool(pool) = {.available = plan.available[pool],
                       .owed = state.ledger.overcommitted(pool),
                       .coming = state.ledger.retiring(pool),
                       .next_step = state.next_step[pool]};
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
  Blocks available(std::uint32_t pool = 0) const { return of_pool(pool).available; }
  /// Requests that run, as planned so far.
  std::uint32_t running() const { return running_; }
  /// Tokens that the step may still compute, and of one request.
  Tokens tokens() const { return tokens_; }
  Tokens chunk() const { return chunk_; }
  bool preempts() const { return state_.yielding || !plan_.preempt.empty(); }
  bool runs(std::uint32_t slot) const { return state_.table[slot].state == LiveState::running && !is_preempted(slot); }
  RunningView running_view(std::uint32_t slot) const {
    Live const& live = state_.table[slot];
    return {live.request, cached_by(slot), live.admission, held_by(slot)[0], live.arrival, live.grown()};
  }

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
    Considered const* const next = find_next();
    if (next) admit(next->ticket().slot, *next);
    return next;
  }

  /// Who starts next, and nothing is planned of it; null when nobody may.
  Considered const* find_next() {
    if (preempts()) return nullptr;
    if (!plan_.wait.empty()) look_anew();
    for (std::uint32_t slot = next_waiting(); slot != no_slot; slot = next_waiting()) {
      Considered const& considered = consider(slot);
      if (considered.fits()) return &considered;
      let_wait(slot, considered.verdict);
      if (considered.verdict.reason == Reason::class_floor && behind_floor_ == no_slot) behind_floor_ = slot;
      if (!goes_on_past(slot, considered.verdict.reason)) break;
    }
    return running_ == 0 && behind_floor_ != no_slot ? consider_alone(behind_floor_) : nullptr;
  }

  /// Whether a waiting request fits now. As long as no other is considered.
  Considered const& consider(std::uint32_t slot) { return consider(state_.table[slot], slot); }
  Considered const& consider(Live const& live, std::uint32_t slot) {
    Considered& as = plan_.draft.considered;
    need(live, slot, as);
    judge(live, slot, as);
    if (as.fits()) as.reach = state_.reach(live.sequences(as.reserved));
    return as;
  }
  void need(Live const& live, std::uint32_t slot, Considered& as) {
    as.found = found(live, slot);
    as.tokens = min(min(chunk_, tokens_), live.length() - as.found);
    Tokens const asked = reserved_for(live, as.found, as.tokens);
    Sequences const all = live.sequences(asked);
    if constexpr (takes_by_chunks()) {
      as.reserved = as.found + as.tokens;
      Sequences const at_first = live.sequences(as.reserved);
      state_.ledger.each_pool([&](std::uint32_t pool) {
        Blocks const first = state_.held(pool, at_first, as.tokens), shared = shared_by(live, slot, pool);
        as.must_be_free[pool] = max(free_for(all, pool), first) - shared;
        as.blocks[pool] = first - shared;
      });
    } else {
      as.reserved = asked;
      state_.ledger.each_pool([&](std::uint32_t pool) { as.must_be_free[pool] = as.blocks[pool] = free_for(all, pool) - shared_by(live, slot, pool); });
    }
  }

  /// The verdict on one that fits, with the numbers of the first pool.
  Verdict with_numbers(std::uint32_t slot, Considered const& as) const {
    Verdict verdict = at_pool(as.verdict.outcome, as.verdict.reason, slot, 0, as.must_be_free[0]);
    verdict.headroom = headroom(0);
    return verdict;
  }

  /// Where nothing runs and classes keep each other waiting by what their floors are missing, the first of them starts all the same.
  Considered const* consider_alone(std::uint32_t slot) {
    floors_hold_ = false;
    Considered const& considered = consider(slot);
    floors_hold_ = true;
    return considered.fits() ? &considered : nullptr;
  }

  /// It was looked at in vain.
  void let_wait(std::uint32_t slot, Verdict const& verdict) {
    auto& its = mark(slot);
    its.look = plan_.draft.look;
    if (its.wait != 0) return;
    plan_.wait.push_back(planned(state_.table[slot], {}, verdict));
    its.wait = static_cast<std::uint32_t>(plan_.wait.size());
  }

  /// It leaves for good. One that runs is preempted first.
  void refuse(std::uint32_t slot, Verdict const& verdict) { plan_.refuse.push_back(planned(state_.table[slot], {}, verdict)); }

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
    for (std::uint32_t pool = 0; pool < pools(); ++pool) {
      of_pool(pool).available -= as.blocks[pool];
    }
    if (State::at_end(live, live.length(), as.reach.room) && !live.arrives()) {
      PoolBlocks held = as.blocks;
      for (std::uint32_t pool = 0; pool < pools(); ++pool) held[pool] += shared_by(live, slot, pool);
      PoolBlocks const next = state_.next_beyond(live, as.reach.room, held);
      for (std::uint32_t pool = 0; pool < pools(); ++pool) of_pool(pool).next_step += next[pool];
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
    of.held += as.blocks[0];
    if (!loaded(live.request.adapter)) plan_.draft.adapters.push_back(live.request.adapter);
    serve(live.request.tenant, live.length() - as.found, false);
  }

  /// What is left out of the plan again is gone.
  void finish() {
    if (!plan_.preempt.empty()) std::erase_if(plan_.grow, [](Planned const& one) { return one.verdict.rejected(); });
    if (!plan_.admit.empty()) std::erase_if(plan_.wait, [](Planned const& one) { return one.verdict.admitted(); });
  }

  Blocks headroom(std::uint32_t pool) const {
    return state_.policy.headroom({state_.headroom[pool], state_.ledger.capacity(pool), running_, of_pool(pool).next_step});
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
            .ticket = ticket(slot),
            .pool = pool,
            .pool_name = state_.ledger.name(pool),
            .block = state_.ledger.block(pool),
            .needed = needed,
            .free = of_pool(pool).available,
            .limit = state_.ledger.capacity(pool)};
  }

 private:
  static constexpr bool takes_by_chunks() {
    return requires(State const& s) { s.policy.need.taken_by_chunks; };
  }
  static constexpr bool needs_part() {
    return requires(State const& s) { s.policy.need.may_be_part; };
  }
  Ticket ticket(std::uint32_t slot) const { return slot == no_slot ? Ticket{} : state_.table.ticket(slot); }

  bool in_room(Live const& live, Tokens length) const { return State::holds_most && live.sequences(length).length <= live.room; }

  // ---- what the plan has changed ----

  typename Plan::Draft::OfPool& of_pool(std::uint32_t pool) const { return plan_.draft.pools[pool]; }
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

  // ---- who gives way ----

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
    std::uint32_t first = no_slot;
    for (std::uint32_t slot = state_.running.front(); slot != no_slot; slot = state_.table[slot].next_slot) {
      Live const& live = state_.table[slot];
      if (!runs(slot) || (of_its_class && !(live.request.request_class == its_class))) continue;
      if (guarded && slot != asker && !live.progressed() && !generates(slot)) continue;
      if (first == no_slot || state_.policy.victim.yields_before(running_view(slot), running_view(first))) first = slot;
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
      if (only_below_floor_ && !is_below_floor(state_.lanes.class_of(lane))) continue;
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
  Blocks shared_by(Live const& live, std::uint32_t slot, std::uint32_t pool) const { return live.found ? state_.usable_hits(slot, pool).active : Blocks{}; }
  /// Of the blocks that it left as cache, those that the plan has taken: what is available goes first to those that start before it.
  PoolBlocks taken_of_kept(Live const& live) const {
    PoolBlocks taken{};
    for (auto const lane : state_.lanes.active())
      for (std::uint32_t slot = state_.lanes.front(lane); slot != no_slot; slot = state_.table[slot].next_slot) {
        Live const& other = state_.table[slot];
        if (waits_before(live, other)) break;
        for (std::uint32_t pool = 0; pool < pools() && !is_started(slot); ++pool) taken[pool] += other.kept[pool];
      }
    for (std::uint32_t pool = 0; pool < pools(); ++pool) taken[pool] = min(taken[pool] - of_pool(pool).available, live.kept[pool]);
    return taken;
  }

  /// The length that must have room: as the need says, at least the known tokens (a need may say that a part is enough), and at most
  /// prompt + max_new. One that was preempted needs more than it had.
  Tokens reserved_for(Live const& live, Tokens found, Tokens at_once) const {
    Tokens const least = needs_part() ? found + at_once : live.length() + live.again;
    Tokens const asked = state_.policy.need(state_.waiting_view(live, found + at_once));
    return min(max(asked, least), live.longest());
  }

  Blocks free_for(Sequences const& of, std::uint32_t pool) const {
    if constexpr (requires { holds_of(state_.policy).must_be_free(state_.footprint, pool, of); })
      return holds_of(state_.policy).must_be_free(state_.footprint, pool, of);
    else
      return state_.most(pool, of);
  }

  /// Whether it fits what its need says, by every limit. One that fits is given no numbers: with_numbers() does.
  void judge(Live const& live, std::uint32_t slot, Considered& as) {
    if (limited_ && !within_limits(live, slot, as)) return;
    PoolBlocks const peak = peak_with(live);
    for (std::uint32_t pool = 0; pool < pools(); ++pool)
      if (!has_room(live, slot, as, pool, peak[pool])) return;
    as.verdict.outcome = Outcome::admitted;
    as.verdict.reason = running_ == 0 ? Reason::fits_alone : Reason::fits;
    as.verdict.ticket = ticket(slot);
    as.verdict.pool = 0;
  }

  /// The limits that pools do not count.
  bool within_limits(Live const& live, std::uint32_t slot, Considered& as) {
    auto const over = [&](Reason reason, char const* field, std::uint64_t value, std::uint64_t limit) {
      as.verdict = {.outcome = Outcome::queued, .reason = reason, .ticket = ticket(slot), .needed = {value}, .free = {limit}, .limit = {limit}, .field = field};
      return false;
    };
    AdmissionLimits const& limits = state_.limits;
    if (Ceiling const ceiling = class_ceiling(live, as); ceiling.field) return over(Reason::class_limit, ceiling.field, ceiling.with, ceiling.limit);
    std::uint64_t const sequences = sequences_ + live.request.branches, kept = missing_running(live.request.request_class);
    if (sequences > limits.max_running) return over(Reason::running_limit, ".max_running", sequences, limits.max_running);
    if (sequences > limits.max_running - kept) return over(Reason::class_floor, ".max_running", sequences, limits.max_running - kept);
    if (limits.adapters != 0 && !loaded(live.request.adapter) && state_.adapters.size() + plan_.draft.adapters.size() >= limits.adapters)
      return over(Reason::adapter_limit, ".adapters", limits.adapters + std::uint64_t{1}, limits.adapters);
    Tokens const to_compute = live.length() - as.found;
    if (to_compute != Tokens{} && (as.tokens == Tokens{} || (limits.whole_prompts && as.tokens < to_compute)))
      return over(Reason::step_budget, ".tokens_per_step", limits.whole_prompts ? to_compute.count : 1, tokens_.count);
    return true;
  }

  bool has_room(Live const& live, std::uint32_t slot, Considered& as, std::uint32_t pool, Blocks peak) {
    Blocks const needed = as.must_be_free[pool], free = of_pool(pool).available, left = headroom(pool);
    Blocks const floors = pool == 0 && limited_ ? missing_floors(live.request.request_class) : Blocks{};
    Blocks const peak_free = state_.ledger.capacity(pool) - (running_ == 0 ? Blocks{} : state_.ledger.headroom(pool));
    if (needed + left + floors <= free && peak <= peak_free) return true;
    Reason const reason = needed > free ? Reason::no_room : needed + left > free ? Reason::headroom : peak > peak_free ? Reason::future_peak : Reason::class_floor;
    as.verdict = at_pool(Outcome::queued, reason, slot, pool, reason == Reason::future_peak ? peak : needed);
    as.verdict.headroom = reason == Reason::class_floor ? left + floors : left;
    if (reason == Reason::future_peak) as.verdict.free = state_.ledger.capacity(pool);
    return false;
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
    Tokens const tokens = of.active_tokens + live.cached_at(min(live.length() + live.again, live.longest()));
    Tokens const to_compute = of.to_compute + (live.length() - as.found);
    if (of.active_requests >= limit.running) return {".running", of.active_requests + 1, limit.running};
    if (tokens > limit.tokens) return {".tokens", tokens.count, limit.tokens.count};
    if (of.to_compute != Tokens{} && to_compute > limit.to_compute) return {".to_compute", to_compute.count, limit.to_compute.count};
    return {};
  }

  /// What a class with requests waiting may still claim of its floor: no more than they need.
  Blocks missing_of_floor(std::uint32_t index) {
    if (index >= state_.limits.class_limits.size()) return {};
    ClassLimit const& limit = state_.limits.class_limits[index];
    Blocks const floor = floor_blocks(limit, state_.ledger.block(0), state_.ledger.capacity(0));
    auto const& of = class_of(index);
    if (floor == Blocks{} || waiting(index) == 0 || of.active_requests >= limit.running) return {};
    return needed_by_waiting(index, floor - of.held);
  }
  /// What those of a class that wait need of pool 0, or `most` where that is less.
  Blocks needed_by_waiting(std::uint32_t index, Blocks most) {
    Blocks needed{};
    for (auto const lane : state_.lanes.active()) {
      if (state_.lanes.class_of(lane) != index) continue;
      for (std::uint32_t slot = first_not_started(state_.lanes.front(lane)); slot != no_slot && needed < most;
           slot = first_not_started(state_.table[slot].next_slot)) {
        Considered as{};
        need(state_.table[slot], slot, as);
        needed += as.must_be_free[0];
      }
    }
    return min(needed, most);
  }
  Blocks missing_floors(RequestClass asker) {
    Blocks sum{};
    if (!floors_hold_) return sum;
    for (std::uint32_t i = 0; i < state_.limits.class_limits.size(); ++i)
      if (i != asker.index) sum += missing_of_floor(i);
    return sum;
  }
  /// And of its floor in requests.
  std::uint64_t missing_of_floor_running(std::uint32_t index) {
    if (index >= state_.limits.class_limits.size()) return 0;
    std::uint64_t const missing = saturating_subtract(state_.limits.class_limits[index].floor_running, class_of(index).active_requests);
    return waiting(index) < missing ? waiting(index) : missing;
  }
  bool is_below_floor(std::uint32_t index) { return missing_of_floor(index) != Blocks{} || missing_of_floor_running(index) != 0; }
  std::uint64_t missing_running(RequestClass asker) {
    std::uint64_t sum = 0;
    if (!floors_hold_) return sum;
    for (std::uint32_t i = 0; i < state_.limits.class_limits.size(); ++i)
      if (i != asker.index) sum += missing_of_floor_running(i);
    return sum;
  }
  /// Requests of the class that wait and that this plan does not start.
  std::uint64_t waiting(std::uint32_t index) {
    return saturating_subtract(state_.account(RequestClass{index}).queued_requests, class_of(index).started);
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
  std::uint64_t sequences_{};
  Tokens tokens_;           // that the step may still compute
  Tokens chunk_;            // and of one request
  std::uint32_t running_{};
  std::uint32_t scanned_{};
  std::uint32_t behind_floor_{no_slot};  // the first that only a floor keeps from starting
  std::uint64_t of_plan_{};  // starts, as far as the peak knows them
  bool limited_{};           // there are limits that pools do not count, or floors
  bool only_below_floor_{};
  bool floors_hold_{true};
};

}  // namespace kvbudget::inline v1
