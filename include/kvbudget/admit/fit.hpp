// Whether a request that waits fits: the one equation of admission. Of a plan as it stands (AsPlanned), or of the state as it is (AsItIs).
//
// For each pool: a request needs N blocks for the length its policy asks for, less those of its hits that running requests use; it starts iff
// that + what classes below their floor may still claim + headroom <= clean + cached idle. Hits on idle cached blocks save compute, not room.
#pragma once

#include <kvbudget/admit/views.hpp>

namespace kvbudget::inline v1 {

/// View: AsItIs<State>, or AsPlanned<State>&.
template <class View>
class Fit {
 public:
  using State = typename std::remove_reference_t<View>::State;

  /// Where floors do not hold, what other classes are missing keeps nobody from starting.
  explicit Fit(View view, bool floors_hold = true) : view_{view}, state_{view.state()}, floors_hold_{floors_hold} {}

  /// Of a request that waits, or, without a slot, of one that is only asked for. `as` says what it takes where it fits, and why it does not.
  [[gnu::always_inline]] bool consider(Live const& live, std::uint32_t slot, Considered& as) {
    return is_plain(live) ? consider_plain(live, slot, as) : consider_any(live, slot, as);
  }

  /// Blocks of a pool that admission leaves free.
  Blocks headroom(std::uint32_t pool) const {
    return state_.policy.headroom({state_.headroom[pool], state_.ledger.capacity(pool), view_.running(), view_.next_step(pool)});
  }

  Blocks shared_by(Live const& live, std::uint32_t slot, std::uint32_t pool) const { return live.found ? state_.usable_hits(slot, pool).active : Blocks{}; }

  bool is_below_floor(std::uint32_t index) { return missing_of_floor(index) != Blocks{} || missing_of_floor_running(index) != 0; }

 private:
  // ---- of most requests, the same in short ----

  bool is_plain(Live const& live) const { return live.plain && !view_.bounded() && view_.sequences() < state_.limits.max_running; }

  [[gnu::always_inline]] bool consider_plain(Live const& live, std::uint32_t slot, Considered& as) {
    Tokens const prompt = live.request.prompt, asked = state_.policy.need(state_.waiting_view(live, {}, prompt));
    as.found = {};
    as.tokens = prompt;
    as.reserved = min(max(asked, prompt), live.longest());
    std::uint64_t const length = live.sequences(as.reserved).length.count, block = state_.paged_by().count, blocks = length / block + (length % block != 0);
    as.blocks[0] = as.must_be_free[0] = {blocks};
    PoolBlocks const peak = peak_with(live);
    if (!has_room(as, 0, {}, peak)) return as.verdict = too_little(live, slot, as, 0, {}, peak), false;
    as.reach.room = as.reach.tokens_held = {blocks * block};
    fits(live, slot, as);
    return true;
  }

  [[gnu::noinline]] bool consider_any(Live const& live, std::uint32_t slot, Considered& as) {
    need(live, slot, as);
    if (!judge(live, slot, as)) return false;
    as.reach = state_.reach(live, as.reserved, live.found ? as.blocks[0] + shared_by(live, slot, 0) : as.blocks[0]);
    return true;
  }

  // ---- what it needs ----

  void need(Live const& live, std::uint32_t slot, Considered& as) {
    as.found = found(live, slot);
    as.tokens = {live.length().count - as.found.count};
    if (view_.bounded()) as.tokens = min(as.tokens, min(view_.chunk(), view_.tokens()));
    Tokens const asked = state_.reserved_for(live, as.found, as.tokens);
    Sequences const all = live.sequences(asked);
    if constexpr (State::takes_by_chunks) {
      as.reserved = as.found + as.tokens;
      Sequences const at_first = live.sequences(as.reserved);
      state_.ledger.each_pool([&](std::uint32_t pool) {
        Blocks const first = state_.held(pool, at_first, as.tokens), shared = shared_by(live, slot, pool);
        as.must_be_free[pool] = max(state_.free_for(all, pool), first) - shared;
        as.blocks[pool] = first - shared;
      });
    } else {
      as.reserved = asked;
      state_.ledger.each_pool([&](std::uint32_t pool) {
        Blocks const whole = state_.free_for(all, pool);
        as.must_be_free[pool] = as.blocks[pool] = live.found ? whole - shared_by(live, slot, pool) : whole;
      });
    }
  }

  /// Tokens that need not be computed: hits, as far as a token is left to compute, what arrives, and what a preempted request left and
  /// nobody took.
  Tokens found(Live const& live, std::uint32_t slot) const {
    bool const anew = live.state != LiveState::preempted && !live.request.arrives && !live.found;
    return anew ? Tokens{} : found_of(live, slot);
  }
  [[gnu::noinline]] Tokens found_of(Live const& live, std::uint32_t slot) const {
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
        for (std::uint32_t pool = 0; pool < pools() && !view_.is_started(slot); ++pool) taken[pool] += other.kept[pool];
      }
    for (std::uint32_t pool = 0; pool < pools(); ++pool) taken[pool] = min(taken[pool] - view_.available(pool), live.kept[pool]);
    return taken;
  }

  // ---- whether that is there ----

  /// By every limit. One that fits is given no numbers.
  bool judge(Live const& live, std::uint32_t slot, Considered& as) {
    if (view_.limited() && !within_limits(live, slot, as)) return false;
    PoolBlocks const peak = peak_with(live);
    Blocks const floors = view_.limited() ? missing_floors(live.request.request_class) : Blocks{};
    if (!has_room(as, 0, floors, peak)) return as.verdict = too_little(live, slot, as, 0, floors, peak), false;
    for (std::uint32_t pool = 1; pool < pools(); ++pool)
      if (!has_room(as, pool, {}, peak)) return as.verdict = too_little(live, slot, as, pool, {}, peak), false;
    fits(live, slot, as);
    return true;
  }
  void fits(Live const& live, std::uint32_t slot, Considered& as) const {
    as.verdict.outcome = Outcome::admitted;
    as.verdict.reason = view_.running() == 0 ? Reason::fits_alone : Reason::fits;
    as.verdict.ticket = {slot, live.generation};
    as.verdict.pool = 0;
  }
  bool has_room(Considered const& as, std::uint32_t pool, Blocks floors, PoolBlocks const& peak) const {
    bool const enough = as.must_be_free[pool] + headroom(pool) + floors <= view_.available(pool);
    return State::looks_ahead_ ? enough && peak[pool] <= room_for_peak(pool) : enough;
  }

  [[gnu::noinline]] Verdict too_little(Live const& live, std::uint32_t slot, Considered const& as, std::uint32_t pool, Blocks floors,
                                       PoolBlocks const& peak) const {
    Blocks const needed = as.must_be_free[pool], left = headroom(pool), free = view_.available(pool), capacity = state_.ledger.capacity(pool);
    Verdict verdict{.outcome = Outcome::queued,
                    .reason = Reason::class_floor,
                    .ticket = {slot, live.generation},
                    .pool = pool,
                    .pool_name = state_.ledger.name(pool),
                    .block = state_.ledger.block(pool),
                    .needed = needed,
                    .free = free,
                    .headroom = left,
                    .limit = capacity};
    if (needed > free) {
      verdict.reason = Reason::no_room;
    } else if (needed + left > free) {
      verdict.reason = Reason::headroom;
    } else if (State::looks_ahead_ && peak[pool] > room_for_peak(pool)) {
      verdict.reason = Reason::future_peak;
      verdict.needed = peak[pool];
      verdict.free = capacity;
    } else {
      verdict.headroom += floors;
    }
    return verdict;
  }

  /// The most that those in flight, and those that the plan starts, will hold at once with it; nothing where the need does not look ahead.
  PoolBlocks peak_with(Live const& live) const {
    if constexpr (State::looks_ahead_)
      return view_.peak_with(state_.decoding(live));
    else
      return {};
  }
  Blocks room_for_peak(std::uint32_t pool) const { return state_.ledger.capacity(pool) - (view_.running() == 0 ? Blocks{} : state_.ledger.headroom(pool)); }

  /// The limits that pools do not count.
  [[gnu::noinline]] bool within_limits(Live const& live, std::uint32_t slot, Considered& as) {
    auto const over = [&](Reason reason, char const* field, std::uint64_t value, std::uint64_t limit) {
      as.verdict = {.outcome = Outcome::queued,
                    .reason = reason,
                    .ticket = {slot, live.generation},
                    .needed = {value},
                    .free = {limit},
                    .limit = {limit},
                    .field = field};
      return false;
    };
    AdmissionLimits const& limits = state_.limits;
    if (Ceiling const ceiling = class_ceiling(live, as); ceiling.field) return over(Reason::class_limit, ceiling.field, ceiling.with, ceiling.limit);
    std::uint64_t const sequences = view_.sequences() + live.request.branches, kept = missing_running(live.request.request_class);
    if (sequences > limits.max_running) return over(Reason::running_limit, ".max_running", sequences, limits.max_running);
    if (sequences > limits.max_running - kept) return over(Reason::class_floor, ".max_running", sequences, limits.max_running - kept);
    if (!view_.loaded(live.request.adapter) && view_.adapters() >= limits.adapters)
      return over(Reason::adapter_limit, ".adapters", limits.adapters + std::uint64_t{1}, limits.adapters);
    Tokens const to_compute = live.length() - as.found;
    if (to_compute != Tokens{} && (as.tokens == Tokens{} || (limits.whole_prompts && as.tokens < to_compute)))
      return over(Reason::step_budget, ".tokens_per_step", limits.whole_prompts ? to_compute.count : 1, view_.tokens().count);
    return true;
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
    ClassUsage const& of = view_.usage(live.request.request_class);
    Tokens const tokens = of.active_tokens + live.cached_at(min(live.length() + live.again, live.longest()));
    Tokens const to_compute = of.to_compute + (live.length() - as.found);
    if (of.active_requests >= limit.running) return {".running", of.active_requests + 1, limit.running};
    if (tokens > limit.tokens) return {".tokens", tokens.count, limit.tokens.count};
    if (of.to_compute != Tokens{} && to_compute > limit.to_compute) return {".to_compute", to_compute.count, limit.to_compute.count};
    return {};
  }

  /// What other classes with requests waiting may still claim of their floors, in blocks and in requests.
  Blocks missing_floors(RequestClass asker) {
    Blocks sum{};
    for (std::uint32_t i = 0; floors_hold_ && i < state_.limits.class_limits.size(); ++i)
      if (i != asker.index) sum += missing_of_floor(i);
    return sum;
  }
  std::uint64_t missing_running(RequestClass asker) {
    std::uint64_t sum = 0;
    for (std::uint32_t i = 0; floors_hold_ && i < state_.limits.class_limits.size(); ++i)
      if (i != asker.index) sum += missing_of_floor_running(i);
    return sum;
  }

  /// No more than those that wait need, nor than its ceiling leaves.
  Blocks missing_of_floor(std::uint32_t index) {
    if (index >= state_.floors.size() || state_.floors[index] == Blocks{}) return {};
    ClassLimit const& limit = state_.limits.class_limits[index];
    ClassUsage const& of = view_.usage(index);
    if (waiting(index) == 0 || of.active_requests >= limit.running) return {};
    Blocks const missing = min(state_.floors[index] - of.held, blocks_for(limit.tokens - of.active_tokens, state_.ledger.block(0)));
    return needed_by_waiting(index, missing);
  }
  std::uint64_t missing_of_floor_running(std::uint32_t index) {
    if (index >= state_.limits.class_limits.size()) return 0;
    std::uint64_t const missing = saturating_subtract(state_.limits.class_limits[index].floor_running, view_.usage(index).active_requests);
    return waiting(index) < missing ? waiting(index) : missing;
  }

  /// What those of a class that wait need of pool 0, or `most` where that is less.
  Blocks needed_by_waiting(std::uint32_t index, Blocks most) {
    constexpr bool is_known = State::starts_whole && !State::learns;  // else it changes while they wait
    return min(is_known ? state_.queued_needs[index] - view_.usage(index).started_need : count_waiting(index, most), most);
  }
  Blocks count_waiting(std::uint32_t index, Blocks most) {
    Blocks needed{};
    for (auto const lane : state_.lanes.active()) {
      if (state_.lanes.class_of(lane) != index) continue;
      for (std::uint32_t slot = state_.lanes.front(lane); slot != no_slot && needed < most; slot = state_.table[slot].next_slot) {
        if (view_.is_started(slot)) continue;
        Considered as{};
        need(state_.table[slot], slot, as);
        needed += as.must_be_free[0];
      }
    }
    return needed;
  }

  /// Requests of the class that wait and that the plan does not start.
  std::uint64_t waiting(std::uint32_t index) { return saturating_subtract(state_.account(index).queued_requests, view_.usage(index).started); }

  std::uint32_t pools() const { return state_.ledger.pools(); }

  View view_;
  State const& state_;
  bool floors_hold_;
};

}  // namespace kvbudget::inline v1
