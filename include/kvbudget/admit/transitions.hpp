// How what a controller knows changes. Each transition moves one request, its blocks, its class's account and its tenant's counter together;
// none of them decides anything.
//
// Most requests are plain: a single sequence in one paged pool, of a class without a ceiling, driven by its lease. Of those a start, a token and
// an end move little, and have a short way each (start_plain, grow_in_room, grow_by_a_block, complete_plain), which does what the long one would.
#pragma once

#include <kvbudget/admit/state.hpp>

namespace kvbudget::inline v1 {

template <AdmissionPolicy Policy, BlockSource Source>
class Transitions : public AdmissionState<Policy, Source> {
  using Base = AdmissionState<Policy, Source>;
  using Base::holds_most, Base::starts_whole, Base::by_arrival, Base::paged_by_, Base::hits_, Base::outputs_;

 public:
  using Base::policy, Base::limits, Base::footprint, Base::ledger, Base::table, Base::lanes, Base::running, Base::accounts, Base::adapters, Base::tenants,
      Base::peak, Base::headroom, Base::floors, Base::queued_needs, Base::next_step, Base::sequences, Base::now, Base::steps, Base::step_tokens, Base::version,
      Base::yielding, Base::memory;
  using Base::waiting_view, Base::reach, Base::decoding, Base::held, Base::at_end, Base::usable_hits, Base::found_without;

  template <class Make>
  Transitions(AdmissionLimits const& of, Policy its_policy, bool good, Make make) : Base{of, std::move(its_policy), good, make}, fresh_(accounts.size()) {
    for (std::uint32_t pool = 0; pool < ledger.pools(); ++pool) see_capacity(pool);
    bool const frees = holds_most && starts_whole && !SharesFairly<decltype(policy.order)> && of.tokens_per_step.saturated();
    free_from_ = frees ? of.class_limits.size() : max_classes;
    plain_from_ = ledger.pools() > 0 && is_plain_pool() ? free_from_ : max_classes;
  }

  // ---- waiting ----

  Ticket enqueue(Request const& request, ClassAccount& of_class) {
    std::uint32_t const slot = table.acquire(request);
    Live& live = table[slot];
    live.account = &of_class;
    live.arrival = ++arrivals_;
    live.arrived = now;
    live.plain = request.request_class.index >= plain_from_ && request.branches == 1 && !request.arrives;
    if constexpr (SharesFairly<decltype(policy.order)>) tenants.arrive(request.tenant);
    queue(live, slot, LiveState::waiting, request.prompt);
    return {slot, live.generation};
  }

  void found(std::uint32_t slot, Hits const& hits, std::uint32_t pool) {
    Hits* const of_pools = &hits_[std::size_t{slot} * ledger.pools()];
    for (std::uint32_t other = 0; !table[slot].found && other < ledger.pools(); ++other) of_pools[other] = {};
    table[slot].found = true;
    table[slot].plain = false;
    of_pools[pool] = hits;
    if (counts_need(table[slot])) {
      uncount_need(table[slot]);
      count_need(table[slot], slot);
    }
    ++version;
  }

  void refuse(std::uint32_t slot, Reason reason) {
    Live& live = table[slot];
    dequeue(live, live.cached());
    ++live.account->rejected[static_cast<std::size_t>(reason)];
    forget(live, slot);
  }

  /// A plan looked at it, and started `times` others all the same.
  void passed(std::uint32_t slot, std::uint32_t times) {
    table[slot].looked_at = table[slot].length();
    table[slot].passed = static_cast<std::uint32_t>(min(Tokens{std::uint64_t{table[slot].passed} + times}, Tokens{0xffff'ffff}).count);
    ++version;
  }

  /// A step's admission is over: whoever is queued has waited this step. Once a step.
  void end_pass() {
    if (pass_ended_) return;
    pass_ended_ = true;
    ++passes_;
    for (std::size_t i = 0; i < accounts.size(); ++i) {
      accounts[i].steps_waited += accounts[i].queued_requests;
      accounts[i].ever_waited += fresh_[i];
      fresh_[i] = 0;
    }
  }

  void begin_step(std::uint64_t at) {
    if (steps > 0) end_pass();
    now = at;
    ++steps;
    ++version;
    step_tokens = {};
    pass_ended_ = false;
    yielding = false;
    if constexpr (looks_ahead<Policy>) look_ahead();
  }

  // ---- starting and growing ----

  /// False when the source gives less than it said it had; the request stays queued.
  [[gnu::always_inline]] bool start(std::uint32_t slot, Work const& as, bool step_by_step) {
    Live& live = table[slot];
    return live.plain && !step_by_step ? start_plain(live, slot, as) : start_any(live, slot, as, step_by_step);
  }
  [[gnu::noinline]] bool start_any(Live& live, std::uint32_t slot, Work const& as, bool step_by_step) {
    if (live.keeps) drop_kept(live);
    if (!take(live, as.blocks)) return false;
    bool const again = live.state == LiveState::preempted;
    Tokens const length = live.length(), cached = live.cached();
    dequeue(live, cached);
    running.push_back(table, slot);
    live.state = live.arrives() ? LiveState::arriving : LiveState::running;
    live.admission = ++admissions_;
    live.reserved = as.reserved;
    live.started_at = live.grown();
    live.looked_at = length;
    live.step_by_step = step_by_step;
    live.done = as.found;
    see_how_it_grows(live);
    if (live.found)
      for (std::uint32_t pool = 0; pool < ledger.pools(); ++pool) live.shared[pool] = usable_hits(slot, pool).active;
    ledger.each_pool([&](std::uint32_t pool) { live.held[pool] = as.blocks[pool]; });
    sequences += live.request.branches;
    adapters.add(live.request.adapter);

    ClassAccount& of = *live.account;
    ++of.admitted;
    ++of.active_requests;
    of.active_tokens += cached;
    if (again) {
      if (preemption_of(policy).keep == Keep::on_host) of.moved_blocks += filled(live, as.blocks[0]);
      live.lost -= live.cached_at(as.found);
    } else {
      of.found_tokens += as.found;
    }
    serve(live.request.tenant, length - as.found, false);
    if (step_by_step) {
      account_for(live, as.found, as.found + as.tokens);
      of.to_compute += length - live.done;
      advance(live, as.tokens);
    } else {
      account_for(live, cached - live.cached_at(as.found));
    }
    live.counted_at = steps;
    live.room = as.reach.room;
    live.tokens_held = as.reach.tokens_held;
    of.tokens_held += live.tokens_held;
    measure(live);
    if constexpr (looks_ahead<Policy>) peak.put(slot, decoding(live));
    return true;
  }

  /// The same of a plain one: of all that a start moves, what is not nothing.
  [[gnu::always_inline]] bool start_plain(Live& live, std::uint32_t slot, Work const& as) {
    if (!ledger.take(as.blocks[0], live.request.request_class, 0)) return false;
    Tokens const prompt = live.request.prompt;
    leave_lane(live, prompt);
    running.push_back(table, slot);
    ++sequences;
    live.state = LiveState::running;
    live.freely = live.by_block = true;
    live.admission = ++admissions_;
    live.counted_at = steps;
    live.reserved = as.reserved;
    live.started_at = {};
    live.held[0] = as.blocks[0];
    live.room = as.reach.room;
    live.tokens_held = as.reach.tokens_held;
    live.ends = live.left = min(Tokens{live.room.count - live.ahead.count - prompt.count}, live.request.max_new);
    if (live.left == Tokens{} && live.request.max_new != Tokens{}) count_next(live);
    ClassAccount& of = *live.account;
    ++of.admitted;
    ++of.active_requests;
    of.active_tokens.count += prompt.count;
    of.useful_tokens.count += prompt.count;
    of.tokens_held.count += live.tokens_held.count;
    if constexpr (looks_ahead<Policy>) peak.put(slot, decoding(live));
    return true;
  }

  /// It holds `step` tokens more, for which it has the blocks.
  void grow(std::uint32_t slot, Tokens step) {
    Live& live = table[slot];
    Tokens const before = live.cached();
    live.ends = live.grown() + step;
    live.left = {};
    if (live.step_by_step) {
      live.done += step;
      live.pending -= step;
    }
    ClassAccount& of = *live.account;
    of.active_tokens += live.cached() - before;
    of.useful_tokens += live.cached() - before;
    serve(live.request.tenant, step * live.request.branches, true);
    ++version;
  }

  /// The same of one that grows freely, into room that it has: only counts move.
  void grow_in_room(Live& live, Tokens step) {
    live.left.count -= step.count;
    live.account->active_tokens.count += step.count;
    live.account->useful_tokens.count += step.count;
    ++version;
  }

  /// All of the room that it has.
  [[gnu::noinline]] void fill_room(Live& live) {
    grow_in_room(live, live.left);
    if (live.freely && live.ends < live.request.max_new) count_next(live);
  }

  /// Beyond its room, into blocks that are there for the taking. How many of pool 0 it took; the maximum, and nothing has changed, where
  /// somebody may have to give way.
  [[gnu::noinline]] Blocks grow_beyond_room(Live& live, Tokens step) {
    if (step == Tokens{1} && live.next_counted && live.by_block) return grow_by_a_block(live);
    if (!live.freely || step > live.longest() - live.length()) return Blocks::max();
    return grow_by_blocks(live, step);
  }

  /// A step by step request computes `tokens` of what it knows.
  void compute(std::uint32_t slot, Tokens tokens) {
    Live& live = table[slot];
    account_for(live, live.done, live.done + tokens);
    advance(live, tokens);
    ++version;
  }

  /// A step that computed the last known token has generated another.
  void generate(std::uint32_t slot) {
    Live& live = table[slot];
    if (live.done == live.length() && live.pending == Tokens{} && live.length() < live.longest()) live.pending = Tokens{1};
  }
  void generate(std::uint32_t slot, Tokens more) {
    Live& live = table[slot];
    live.pending = min(live.pending + more, live.longest() - live.length());
    ++version;
  }

  /// Another set of blocks for a request in flight. False when the source gives less than it said it had.
  bool exchange(std::uint32_t slot, PoolBlocks const& blocks) {
    Live& live = table[slot];
    PoolBlocks more{}, less{};
    bool gives = false;
    for (std::uint32_t pool = 0; pool < ledger.pools(); ++pool) {
      more[pool] = blocks[pool] - live.held[pool];
      less[pool] = live.held[pool] - blocks[pool];
      gives |= less[pool] != Blocks{};
    }
    if (gives) ledger.give(less, live.request.request_class, now);
    bool const taken = take(live, more);
    for (std::uint32_t pool = 0; pool < ledger.pools(); ++pool) live.held[pool] = live.held[pool] - less[pool] + (taken ? more[pool] : Blocks{});
    return taken;
  }

  /// Notes how far what a request in flight holds now reaches.
  void hold(std::uint32_t slot, Footprint::Reach const& to) { hold(table[slot], to); }
  [[gnu::always_inline]] void hold(Live& live, Footprint::Reach const& to) {
    uncount_next(live);
    count_steps(live);
    if (to.tokens_held < live.tokens_held) live.account->mark_peaks();
    live.account->tokens_held -= live.tokens_held;
    live.account->tokens_held += to.tokens_held;
    live.tokens_held = to.tokens_held;
    live.room = to.room;
    measure(live);
  }

  /// How far growth needs no look at anything else, and whether its next token already takes blocks.
  void measure(std::uint32_t slot) { measure(table[slot]); }
  [[gnu::always_inline]] void measure(Live& live) {
    Tokens const grown = live.grown();
    live.ends = live.freely ? min(Tokens{live.room.count - live.ahead.count - live.request.prompt.count}, live.request.max_new) : grown;
    live.left = {live.ends.count - grown.count};
    if (live.left == Tokens{} && live.state == LiveState::running && at_end(live, live.length(), live.room))
      count_next(live);
    else
      uncount_next(live);
    ++version;
  }

  /// What the token after its room takes is among what the next step takes.
  void count_next(Live& live) {
    if (live.next_counted) return;
    live.next_counted = true;
    if (!live.by_block) return see_and_count_next(live);
    live.next[0] = Blocks{1};
    ++next_step[0].count;
  }
  void uncount_next(Live& live) {
    if (!live.next_counted) return;
    live.next_counted = false;
    ledger.each_pool([&](std::uint32_t pool) { next_step[pool] -= live.next[pool]; });
  }
  [[gnu::noinline]] void see_and_count_next(Live& live) {
    see_next(live, live.room - live.ahead + Tokens{1});
    for (std::uint32_t pool = 0; pool < ledger.pools(); ++pool) next_step[pool] += live.next[pool];
  }
  /// What `length` tokens take beyond what it holds.
  [[gnu::noinline]] void see_next(Live& live, Tokens length) {
    Sequences const of = live.sequences(max(length, live.reserved));
    for (std::uint32_t pool = 0; pool < ledger.pools(); ++pool) live.next[pool] = held(pool, of, Tokens{1}) - live.shared[pool] - live.held[pool];
  }
  void become(std::uint32_t slot, LiveState state) {
    table[slot].state = state;
    see_how_it_grows(table[slot]);
    measure(table[slot]);
  }

  // ---- stopping ----

  /// A request in flight gives its room back and waits again.
  void preempt(std::uint32_t slot) {
    Live& live = table[slot];
    Preemption const how = preemption_of(policy);
    PoolBlocks const had = live.held;
    bool const shares = live.shared != PoolBlocks{};
    live.done = live.computed();
    live.lost += live.cached_at(live.done);
    stop(slot);
    live.ends = live.grown() + live.pending;
    live.left = {};
    live.pending = {};
    live.step_by_step = live.freely = live.by_block = live.plain = false;
    live.again = max(live.again, how.regain);
    live.front = how.front;
    if (how.anew) live.arrival = ++arrivals_;
    ClassAccount& of = *live.account;
    ++of.preempted;
    live.found = false;
    queue(live, slot, LiveState::preempted, live.cached());
    if (how.keep == Keep::on_host) of.moved_blocks += filled(live, had[0]);
    if (how.keep == Keep::as_cache && !ledger.retires() && !shares) {
      live.kept = had;
      live.keeps = true;
      ledger.keep(had);
      evict();
    }
    yielding = true;
  }

  /// A request leaves for good, wherever it is.
  void leave(std::uint32_t slot, bool completed, std::uint64_t ClassAccount::*how) {
    Live& live = table[slot];
    count_steps(live);
    ClassAccount& of = *live.account;
    ++(of.*how);
    if constexpr (learns_outputs<Policy>)
      if (completed && (live.state >= LiveState::running || live.grown() != Tokens{})) outputs_[live.request.request_class.index].observe(live.grown());
    if (!completed) of.wasted_token_steps = saturating_add(of.wasted_token_steps, live.token_steps);
    if (live.in_flight()) {
      if constexpr (requires { policy.left(memory, Ticket{}, live); }) policy.left(memory, table.ticket(slot), live);
      stop(slot);
    } else {
      dequeue(live, live.cached());
    }
    forget(live, slot);
  }

  /// The same of one that grows by blocks of pool 0, and is complete.
  void complete_plain(Live& live, std::uint32_t slot) {
    ++live.account->completed;
    if constexpr (learns_outputs<Policy>) outputs_[live.request.request_class.index].observe(live.grown());
    if constexpr (requires { policy.left(memory, Ticket{}, live); }) policy.left(memory, table.ticket(slot), live);
    stop_plain(live, slot);
    forget(live, slot);
  }

  void retire(std::uint64_t step) {
    ledger.retire(step);
    ++version;
  }

  void resize(std::uint32_t pool, Blocks capacity) {
    ledger.resize(pool, capacity);
    see_capacity(pool);
    bool const plain = is_plain_pool();
    plain_from_ = plain ? free_from_ : max_classes;
    for (std::uint32_t slot = 0; slot < table.size(); ++slot) {
      table[slot].plain &= plain;
      table[slot].by_block &= plain;
    }
    evict();
    ++version;
  }

 private:
  /// One pool, of which a token takes a block at most, and no count of all requests' tokens in it can saturate; what is kept in it as cache is
  /// not looked at.
  bool is_plain_pool() const {
    bool const counts = !(paged_by_ * (ledger.capacity(0) + Blocks{1}).count * table.size()).saturated();
    return ledger.pools() == 1 && paged_by_ != Tokens{} && counts && preemption_of(policy).keep != Keep::as_cache && limits.adapters == 0;
  }
  /// What follows from a pool's capacity. The policy's own headroom is for growth: a pool of states has none.
  void see_capacity(std::uint32_t pool) {
    headroom[pool] = ledger.headroom(pool);
    if constexpr (requires { policy.headroom.fixed(Blocks{}, Blocks{}); })
      if (footprint.grows(pool)) headroom[pool] = policy.headroom.fixed(headroom[pool], ledger.capacity(pool));
    if (pool == 0) see_floors();
  }
  /// Of a pool that has become smaller than all floors together, each class is sure of its part of what there is.
  void see_floors() {
    Blocks const capacity = ledger.capacity(0);
    Blocks sum{};
    for (std::uint32_t i = 0; i < floors.size(); ++i) sum += floors[i] = floor_blocks(limits.class_limits[i], ledger.block(0), capacity);
    if (sum <= capacity) return;
    for (auto& floor : floors) {
      std::uint64_t const product = saturating_multiply(floor.count, capacity.count);
      floor = {product == saturated_count ? floor.count / ceil_div(sum, capacity) : product / sum.count};
    }
  }

  /// Freely: one sequence, whose class has no ceiling, driven by its lease alone, in steps without a budget.
  void see_how_it_grows(Live& live) {
    live.freely = live.request.request_class.index >= free_from_ && live.request.branches == 1 && live.state == LiveState::running && !live.step_by_step;
    live.by_block = live.freely && live.request.request_class.index >= plain_from_;
  }

  [[gnu::noinline]] Blocks grow_by_blocks(Live& live, Tokens step) {
    uncount_next(live);
    see_next(live, live.length() + step);
    if (!take(live, live.next)) return measure(live), Blocks::max();
    Blocks const taken = live.next[0];
    for (std::uint32_t pool = 0; pool < ledger.pools(); ++pool) live.held[pool] += live.next[pool];
    live.ends = live.grown() + step;
    live.left = {};
    live.account->active_tokens += step;
    live.account->useful_tokens += step;
    hold(live, reach(live, live.length()));
    return taken;
  }
  /// The token after its room, of most requests: what hold() and measure() come to where a block of pool 0 is all that it takes.
  Blocks grow_by_a_block(Live& live) {
    if (!ledger.take(Blocks{1}, live.request.request_class, 0)) return Blocks::max();
    count_steps(live);
    std::uint64_t const block = paged_by_.count, grown = live.ends.count + 1;
    --next_step[0].count;
    live.next_counted = false;
    ++live.held[0].count;
    live.room.count += block;
    live.tokens_held.count += block;
    live.account->tokens_held.count += block;
    ++live.account->active_tokens.count;
    ++live.account->useful_tokens.count;
    live.ends = min(Tokens{live.ends.count + block}, live.request.max_new);
    live.left = {live.ends.count - grown};
    ++version;
    if (live.left == Tokens{} && live.ends < live.request.max_new) count_next(live);
    return Blocks{1};
  }

  [[gnu::always_inline]] void queue(Live& live, std::uint32_t slot, LiveState state, Tokens cached) {
    live.state = state;
    live.queued_in_pass = passes_;
    if constexpr (!by_arrival) live.rank = policy.order.rank(waiting_view(live, Tokens::max()));
    if (by_arrival && state == LiveState::waiting)
      lanes.append(table, slot);
    else
      lanes.insert(table, slot);
    ClassAccount& of = *live.account;
    ++of.queued_requests;
    of.queued_tokens += cached;
    if (!live.has_waited) ++fresh_[live.request.request_class.index];
    if (!live.plain && counts_need(live)) count_need(live, slot);
    ++version;
  }

  void dequeue(Live& live, Tokens cached) {
    if (live.keeps) drop_kept(live);
    leave_lane(live, cached);
    if (counts_need(live)) uncount_need(live);
  }
  /// What those that wait need is counted for classes that may have a floor.
  bool counts_need(Live const& live) const { return live.request.request_class.index < queued_needs.size(); }
  [[gnu::noinline]] void count_need(Live& live, std::uint32_t slot) {
    live.queued_need = Base::free_for(live.sequences(Base::reserved_for(live, {}, live.length())), 0) - usable_hits(slot, 0).active;
    queued_needs[live.request.request_class.index] += live.queued_need;
  }
  void uncount_need(Live& live) { queued_needs[live.request.request_class.index] -= live.queued_need; }
  [[gnu::always_inline]] void leave_lane(Live& live, Tokens cached) {
    lanes.remove(table, live);
    --live.account->queued_requests;
    live.account->queued_tokens -= cached;
    ++version;
    if (live.has_waited) return;
    live.has_waited = live.queued_in_pass != passes_;
    if (!live.has_waited) --fresh_[live.request.request_class.index];
  }

  void forget(Live& live, std::uint32_t slot) {
    if constexpr (SharesFairly<decltype(policy.order)>) tenants.leave(live.request.tenant);
    table.release(live, slot);
  }

  [[gnu::always_inline]] void stop(std::uint32_t slot) {
    Live& live = table[slot];
    ledger.give(live.held, live.request.request_class, now);
    running.remove(table, live);
    if constexpr (looks_ahead<Policy>) peak.remove(slot);
    sequences -= live.request.branches;
    adapters.remove(live.request.adapter);
    ClassAccount& of = *live.account;
    of.mark_peaks();
    --of.active_requests;
    of.active_tokens -= live.cached();
    if (live.step_by_step) of.to_compute -= live.length() - live.done;
    count_steps(live);
    of.tokens_held -= live.tokens_held;
    uncount_next(live);
    ledger.each_pool([&](std::uint32_t pool) { live.held[pool] = live.shared[pool] = {}; });
    live.reserved = live.tokens_held = {};
    ++version;
  }

  /// The same of one that grows by blocks of pool 0.
  void stop_plain(Live& live, std::uint32_t slot) {
    ledger.give(live.held[0], live.request.request_class, now);
    running.remove(table, live);
    --sequences;
    if constexpr (looks_ahead<Policy>) peak.remove(slot);
    ClassAccount& of = *live.account;
    of.mark_peaks();
    --of.active_requests;
    of.active_tokens.count -= live.length().count;
    of.tokens_held.count -= live.tokens_held.count;
    uncount_next(live);
    live.held[0] = live.shared[0] = {};
    live.reserved = live.tokens_held = {};
    ++version;
  }

  /// A step has gone by since what runs was looked at last: those that did not grow by a token in it are put right.
  void look_ahead() {
    for (std::uint32_t slot = running.front(); slot != no_slot; slot = table[slot].next_slot)
      if (Live const& live = table[slot]; peak.length(slot) != live.sequences(live.length()).length) peak.put(slot, decoding(live));
    peak.advance();
  }

  void advance(Live& live, Tokens tokens) {
    live.done += tokens;
    live.account->to_compute -= tokens;
  }

  /// Tokens computed from one length to another: those that were lost before are computed again.
  void account_for(Live& live, Tokens from, Tokens to) { account_for(live, live.cached_at(to) - live.cached_at(from)); }
  void account_for(Live& live, Tokens computed) {
    live.account->useful_tokens += computed;
    if (live.lost != Tokens{}) recompute(live, computed);
  }
  [[gnu::noinline]] void recompute(Live& live, Tokens computed) {
    Tokens const again = min(computed, live.lost);
    live.account->useful_tokens -= again;
    live.account->recomputed_tokens += again;
    live.lost -= again;
  }

  /// Of so many blocks of pool 0, those with tokens that were computed before a preemption.
  Blocks filled(Live const& live, Blocks blocks) const { return min(blocks, footprint.most(0, live.sequences(live.done))); }

  /// Tokens held x steps, up to now.
  void count_steps(Live& live) {
    if (live.counted_at == steps) return;
    live.token_steps = saturating_add(live.token_steps, saturating_multiply(live.tokens_held.count, steps - live.counted_at));
    live.counted_at = steps;
  }

  // ---- what is kept as cache ----

  bool take(Live const& live, PoolBlocks const& blocks) {
    if (!ledger.take(blocks, live.request.request_class)) return false;
    if (preemption_of(policy).keep == Keep::as_cache) evict();
    return true;
  }

  /// Blocks that were kept have been taken: of whoever would start last, from the end.
  [[gnu::noinline]] void evict() {
    for (std::uint32_t pool = 0; pool < ledger.pools(); ++pool)
      while (ledger.taken_of_kept(pool) != Blocks{}) {
        Live& live = table[last_to_keep(pool)];
        PoolBlocks taken{};
        taken[pool] = min(ledger.taken_of_kept(pool), live.kept[pool]);
        live.done = found_without(live, taken);
        live.kept[pool] -= taken[pool];
        live.account->evicted_blocks += taken[0];
        ledger.evict(taken);
        if (live.done == Tokens{}) drop_kept(live);
      }
  }
  std::uint32_t last_to_keep(std::uint32_t pool) const {
    std::uint32_t last = no_slot;
    for (auto const lane : lanes.active())
      for (std::uint32_t slot = lanes.front(lane); slot != no_slot; slot = table[slot].next_slot)
        if (table[slot].kept[pool] != Blocks{} && (last == no_slot || waits_before(table[last], table[slot]))) last = slot;
    return last;
  }
  [[gnu::noinline]] void drop_kept(Live& live) {
    ledger.evict(live.kept);
    live.kept = {};
    live.keeps = false;
  }

  void serve(std::uint32_t tenant, Tokens tokens, bool generated) {
    if constexpr (SharesFairly<decltype(policy.order)>)
      tenants.serve(tenant, saturating_multiply(tokens.count, generated ? policy.order.output : policy.order.input));
  }

  std::size_t free_from_{};           // of this class and those after it growth may be free: they have no ceiling, nor steps a budget
  std::size_t plain_from_{};          // and requests plain
  std::vector<std::uint64_t> fresh_;  // queued requests of each class that no pass has passed over yet
  std::uint64_t passes_{};            // admission passes that have ended
  std::uint64_t arrivals_{};
  std::uint64_t admissions_{};
  bool pass_ended_{};
};

}  // namespace kvbudget::inline v1
