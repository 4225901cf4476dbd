// The rules of admission again, without any of the controller's bookkeeping: one list that is searched, sums that are added up anew for every
// question, and a plan that is made on a copy, one decision after another. What the property tests compare the controller with.
//
// It knows policies that are composed of the parts rules_of() names, footprints of full, windowed and fixed groups, and a source whose blocks
// others may have pinned.
#pragma once

#include <kvbudget/admit/controller.hpp>
#include <kvbudget/admit/policies/plain.hpp>

#include <algorithm>
#include <array>
#include <vector>

namespace naive {

using namespace kvbudget;
using Count = std::uint64_t;
using PerPool = std::array<Count, max_pools>;

constexpr Count less(Count a, Count b) { return a - std::min(a, b); }

// ---- what is decided by ----

/// A policy, by what it says.
struct Rules {
  enum class Order { arrival, priority, fair_share } order{};
  Count age{}, input{}, output{};
  Bypass bypass{};
  Preemption preemption{};
  bool reserves_all{}, newest_yields{}, keeps_next_step_free{};
  Percent least{};
};

template <class Policy>
Rules rules_of(Policy const& policy) {
  Rules rules{.bypass = policy.order.bypass};
  if constexpr (requires { policy.order.age; }) rules.order = Rules::Order::priority, rules.age = policy.order.age;
  if constexpr (requires { policy.order.input; }) rules.order = Rules::Order::fair_share, rules.input = policy.order.input, rules.output = policy.order.output;
  if constexpr (requires { policy.preemption; }) rules.preemption = policy.preemption;
  if constexpr (requires { policy.headroom.least; }) rules.keeps_next_step_free = true, rules.least = policy.headroom.least;
  rules.reserves_all = std::same_as<decltype(policy.need), need::PromptAndNew>;
  rules.newest_yields = std::same_as<decltype(policy.victim), victim::Newest>;
  return rules;
}

/// What a step has left to compute, in all and of one request.
struct Budget {
  Count tokens{}, chunk{};
};

struct Item {
  Request request{};
  LiveState state{LiveState::waiting};
  Count grown{}, pending{}, done{}, lost{}, again{}, reserved{}, started_at{}, shared{};
  Count planned{};  // computed by the plan that is made: until it is committed that is still to compute
  Count arrived{}, arrival{}, admission{}, passed{}, token_steps{};
  PerPool kept{};
  Count kept_length{};  // computed when it was preempted, as far as its blocks are there
  Hits hits{};
  bool told{}, step_by_step{}, waited{}, front{};

  Count id() const { return request.tag; }
  std::uint32_t of_class() const { return request.request_class.index; }
  Count length() const { return request.prompt.count + grown; }
  Count longest() const { return request.prompt.count + request.max_new.count; }
  Count ahead() const { return request.max_new.count == 0 ? 0 : request.lookahead.count; }
  Count cached_at(Count length) const { return std::min(length, request.prompt.count) + less(length, request.prompt.count) * request.branches; }
  Count cached() const { return cached_at(length()); }
  Count computed() const { return step_by_step ? done : length(); }
  bool queued() const { return state == LiveState::waiting || state == LiveState::preempted; }
  bool in_flight() const { return state >= LiveState::arriving; }
  bool keeps_cache() const { return kept != PerPool{}; }
};

/// Whether one that waits may start, and what it then takes.
struct Answer {
  Reason reason{};
  Count pool{}, needed{}, free{}, headroom{};
  PerPool take{};
  Count found{}, tokens{}, reserved{}, shared{};

  bool starts() const { return reason == Reason::fits || reason == Reason::fits_alone; }
};

struct Decision {
  Count id{};
  Reason reason{};
  Count tokens{};               // that the step computes
  Count generated{};            // of them
  std::uint32_t beneficiary{};  // the class it is preempted for
  Count passed_by{};
  Answer start{};
};

struct Plan {
  std::vector<Decision> preempt, grow, admit, wait;
};

inline auto find(std::vector<Decision>& decisions, Count id) {
  return std::find_if(decisions.begin(), decisions.end(), [id](Decision const& one) { return one.id == id; });
}

class Model {
 public:
  Model(AdmissionLimits const& of, Rules const& by) : limits{of}, rules{by}, counters_(of.classes), served_(of.tenants) {
    for (std::uint32_t pool = 0; pool < of.pools(); ++pool) capacity[pool] = of.capacity_of(pool).count;
  }

  AdmissionLimits limits;
  Rules rules;
  std::vector<Item> items;  // that wait or are in flight, by submission
  PerPool capacity{};
  Count pinned = 0;  // blocks of pool 0 that others hold
  Count now = 0;
  bool yielding = false, resized = false, draining = false;

  // ---- what is there ----

  std::uint32_t pools() const { return limits.pools(); }
  std::uint32_t classes() const { return limits.classes; }

  Item const* find(Count id) const {
    auto const found = std::find_if(items.begin(), items.end(), [id](Item const& item) { return item.id() == id; });
    return found == items.end() ? nullptr : &*found;
  }

  /// Counted token by token: the blocks of one sequence of a group that hold a token it may still need on its way.
  Count one(CacheGroup const& group, Count length) const {
    if (group.keeps == Keeps::fixed) return group.fixed.count;
    Count const keeps = group.keeps == Keeps::everything ? length : group.span.count - 1 + limits.footprint.in_flight.count + group.block.count - 1;
    Count blocks = 0;
    for (Count token = 0; token < std::min(length, keeps); token += group.block.count) ++blocks;
    return blocks;
  }
  Count of_group(CacheGroup const& group, Item const& item, Count length) const {
    Count const each = one(group, length + item.ahead());
    bool const shares = item.request.branches > 1 && group.keeps == Keeps::everything;
    Count const shared = shares ? std::min(length + item.ahead(), item.request.prompt.count) / group.block.count : 0;
    return (shared + (each - shared) * item.request.branches) * group.blocks_per_entry;
  }
  /// What `item` takes of a pool to have room for `length` tokens; what it reserved it has in any case.
  Count blocks(std::uint32_t pool, Item const& item, Count length) const {
    Count sum = 0;
    for (auto const& group : limits.footprint.groups)
      if (group.pool == pool) sum += of_group(group, item, std::max(length, item.reserved));
    return less(sum, pool == 0 ? item.shared : 0);
  }
  Count tokens_held(Item const& item) const {
    for (auto const& group : limits.footprint.groups)
      if (group.keeps != Keeps::fixed) return of_group(group, item, std::max(item.length(), item.reserved)) / group.blocks_per_entry * group.block.count;
    return 0;
  }

  Count held(std::uint32_t pool, Item const& item) const { return item.in_flight() ? blocks(pool, item, item.length()) : 0; }
  Count held(std::uint32_t pool) const {
    Count sum = 0;
    for (auto const& item : items) sum += held(pool, item);
    return sum;
  }
  Count held_of(std::uint32_t of_class, std::uint32_t pool) const {
    Count sum = 0;
    for (auto const& item : items) sum += item.of_class() == of_class ? held(pool, item) : 0;
    return sum;
  }
  Count retiring(std::uint32_t pool) const {
    Count sum = 0;
    for (auto const& given : given_) sum += given.blocks[pool];
    return sum;
  }
  Count kept(std::uint32_t pool) const {
    Count sum = 0;
    for (auto const& item : items) sum += item.kept[pool];
    return sum;
  }
  Count used(std::uint32_t pool) const { return held(pool) + retiring(pool) + (pool == 0 ? pinned : 0); }
  Count available(std::uint32_t pool) const { return less(capacity[pool], used(pool)); }
  Count overcommitted(std::uint32_t pool) const { return less(held(pool) + retiring(pool), capacity[pool]); }
  Count next_step(std::uint32_t pool, Item const& item) const {
    bool const goes_on = item.state == LiveState::running && item.length() < item.longest();
    return goes_on ? blocks(pool, item, item.length() + 1) - held(pool, item) : 0;
  }
  Count next_step(std::uint32_t pool) const {
    Count sum = 0;
    for (auto const& item : items) sum += next_step(pool, item);
    return sum;
  }
  Count running() const {
    return Count(std::count_if(items.begin(), items.end(), [](Item const& item) { return item.in_flight(); }));
  }
  Count queued() const { return items.size() - running(); }
  Count sequences() const {
    Count sum = 0;
    for (auto const& item : items) sum += item.in_flight() ? item.request.branches : 0;
    return sum;
  }

  /// The account of a class: its counters, and gauges that are added up.
  ClassAccount account(std::uint32_t of_class) const {
    ClassAccount account = counters_[of_class];
    for (auto const& item : items) {
      if (item.of_class() != of_class) continue;
      if (item.queued()) {
        ++account.queued_requests;
        account.queued_tokens += Tokens{item.cached()};
      } else {
        ++account.active_requests;
        account.active_tokens += Tokens{item.cached()};
        account.to_compute += Tokens{item.length() - item.computed() + item.planned};
        account.tokens_held += Tokens{tokens_held(item)};
      }
    }
    return account;
  }
  Count served(std::uint32_t tenant) const { return served_[tenant]; }

  /// All that it remembers, but for the counters, with times as of now, and the order of those in flight, which is seen.
  template <class Into>
  void add_state(Into& into) const {
    into.add(items.size());
    for (auto const& item : items) {
      for (Count const number :
           {item.id(), Count(item.state), item.grown, item.pending, item.done, item.lost, item.again, item.reserved, item.started_at, item.shared, item.passed,
            item.kept_length, item.hits.active.count, item.hits.idle.count, item.hits.host.count, now - item.arrived})
        into.add(number);
      for (Count const kept : item.kept) into.add(kept);
      for (bool const flag : {item.told, item.step_by_step, item.waited, item.front}) into.add(flag);
    }
    into.add(given_.size());
    for (auto const& given : given_) {
      into.add(now - given.step);
      for (Count const blocks : given.blocks) into.add(blocks);
    }
    for (Count const tenant : served_) into.add(tenant);
    for (Count const blocks : capacity) into.add(blocks);
    into.add(pinned), into.add(step_tokens_);
    for (bool const flag : {yielding, resized, draining, begun_, passed_}) into.add(flag);
  }

  // ---- who comes first ----

  bool comes_before(Item const& a, Item const& b) const {
    bool const by_tenant = rules.order == Rules::Order::fair_share && a.front == b.front && served(a.request.tenant) != served(b.request.tenant);
    return by_tenant ? served(a.request.tenant) < served(b.request.tenant) : stands_before(a, b);
  }
  bool stands_before(Item const& a, Item const& b) const {
    if (a.front != b.front) return a.front;
    if (rank(a) != rank(b)) return rank(a) < rank(b);
    bool const by_time = rules.order == Rules::Order::priority && a.request.arrival_time != b.request.arrival_time;
    return by_time ? a.request.arrival_time < b.request.arrival_time : a.arrival < b.arrival;
  }
  Count rank(Item const& item) const {
    if (rules.order != Rules::Order::priority) return 0;
    Count const level = Count(std::int64_t{item.request.priority} + (std::int64_t{1} << 31));
    return rules.age == 0 ? level : item.arrived + level * rules.age;
  }
  std::vector<Item const*> in_order() const {
    std::vector<Item const*> waiting;
    for (auto const& item : items)
      if (item.queued()) waiting.push_back(&item);
    std::sort(waiting.begin(), waiting.end(), [this](Item const* a, Item const* b) { return comes_before(*a, *b); });
    return waiting;
  }
  std::vector<Count> waiting() const {
    std::vector<Count> ids;
    for (auto const* item : in_order()) ids.push_back(item->id());
    return ids;
  }
  std::vector<Count> in_flight() const {
    std::vector<Item const*> running;
    for (auto const& item : items)
      if (item.in_flight()) running.push_back(&item);
    std::sort(running.begin(), running.end(), [](Item const* a, Item const* b) { return a->admission < b->admission; });
    std::vector<Count> ids;
    for (auto const* item : running) ids.push_back(item->id());
    return ids;
  }

  // ---- what can never be ----

  Reason never(Request const& request) const {
    Item const whole{.request = request};
    for (std::uint32_t pool = 0; pool < pools(); ++pool)
      if (blocks(pool, whole, whole.longest()) > capacity[pool]) return Reason::exceeds_capacity;
    if (request.branches > limits.max_running) return Reason::exceeds_capacity;
    if (whole.cached_at(whole.longest()) > limit_of(whole).tokens.count) return Reason::exceeds_class;
    bool const cut = whole.longest() > std::min(limits.tokens_per_step.count, chunk());
    return limits.whole_prompts && cut ? Reason::exceeds_step : Reason::in_queue;
  }
  Reason screen(Request const& request) const {
    if (request.prompt > limits.max_length) return Reason::bad_request;
    if (draining) return Reason::draining;
    if (Reason const reason = never(request); reason != Reason::in_queue) return reason;
    if (request.deadline < now) return Reason::expired;
    Item const item{.request = request};
    ClassAccount const of = account(item.of_class());
    bool const queue_full = of.queued_requests >= limit_of(item).queued || of.queued_tokens + request.prompt > limit_of(item).queued_tokens;
    if (queue_full) return Reason::class_queue_full;
    return items.size() == limits.max_live ? Reason::queue_full : Reason::in_queue;
  }
  Request cut(Request request) const {
    if (request.prompt <= limits.max_length) request.max_new = min(request.max_new, limits.max_length - request.prompt);
    return request;
  }

  // ---- what happens to one ----

  Reason submit(Request const& asked) {
    Request const request = cut(asked);
    ClassAccount& counters = counters_[request.request_class.index];
    ++counters.submitted;
    Reason const reason = screen(request);
    if (reason != Reason::in_queue) {
      ++counters.rejected[std::size_t(reason)];
      return reason;
    }
    lift(request.tenant);
    items.push_back({.request = request, .arrived = now, .arrival = ++arrivals_});
    return reason;
  }

  bool found(Count id, Hits const& hits) {
    Item* const item = get(id);
    if (!item || !item->queued()) return false;
    item->hits = hits;
    item->told = true;
    return true;
  }

  bool leave(Count id, std::uint64_t ClassAccount::*how) {
    Item const* const item = find(id);
    if (!item) return false;
    ClassAccount& counters = counters_[item->of_class()];
    ++(counters.*how);
    if (how != &ClassAccount::completed) counters.wasted_token_steps += item->token_steps;
    give(*item);
    std::erase_if(items, [id](Item const& one) { return one.id() == id; });
    return true;
  }
  template <class Which>
  Count leave_if(std::uint64_t ClassAccount::*how, Which which) {
    std::vector<Count> ids;
    for (auto const& item : items)
      if (which(item)) ids.push_back(item.id());
    for (Count const id : ids) leave(id, how);
    return ids.size();
  }
  Count cancel_group(Count group) {
    return leave_if(&ClassAccount::cancelled, [group](Item const& item) { return group != 0 && item.request.group == group; });
  }

  bool arrived(Count id) { return become(id, LiveState::arriving, LiveState::running); }
  bool hold(Count id) { return become(id, LiveState::running, LiveState::held); }

  bool generated(Count id, Count more) {
    Item* const item = get(id);
    if (!item || !item->step_by_step) return false;
    item->pending = std::min(item->pending + more, item->longest() - item->length());
    return true;
  }

  // ---- what happens to all ----

  void begin_step(Count at) {
    if (begun_ && !passed_) pass();
    for (auto& item : items)
      if (item.in_flight()) item.token_steps += tokens_held(item);
    now = at;
    begun_ = true;
    passed_ = yielding = false;
    step_tokens_ = 0;
    leave_if(&ClassAccount::expired, [at](Item const& item) { return item.request.deadline < at; });
  }
  void retire(Count step) {
    std::erase_if(given_, [step](Given const& given) { return given.step <= step; });
  }
  /// False where it would be no capacity, or no more than the headroom.
  bool resize(std::uint32_t pool, Count blocks) {
    if (blocks == 0 || given_headroom(pool, blocks) >= blocks) return false;
    capacity[pool] = blocks;
    resized = true;
    evict();
    reject_impossible();
    return true;
  }

  /// A step's admission is over: whoever is queued has waited.
  void pass() {
    if (passed_) return;
    passed_ = true;
    for (auto& item : items) {
      if (!item.queued()) continue;
      ClassAccount& counters = counters_[item.of_class()];
      ++counters.steps_waited;
      counters.ever_waited += !item.waited;
      item.waited = true;
    }
  }

  // ---- whether one may start ----

  Count headroom(std::uint32_t pool) const {
    if (running() == 0) return 0;
    Count const least = limits.footprint.grows(pool) ? (capacity[pool] * rules.least.millionths + one_whole - 1) / one_whole : 0;
    return std::max(given_headroom(pool, capacity[pool]), least) + (rules.keeps_next_step_free ? next_step(pool) : 0);
  }
  /// The length that must have room when it starts, and the blocks that it takes for it.
  Count reserved(Item const& item) const { return std::min(rules.reserves_all ? item.longest() : item.length() + item.again, item.longest()); }
  Count needed(std::uint32_t pool, Item const& item) const { return less(blocks(pool, item, reserved(item)), pool == 0 ? usable(item).active.count : 0); }

  Budget budget(StepBudget const& step = {}) const {
    return {std::min(step.tokens.count, less(limits.tokens_per_step.count, step_tokens_)), std::min(step.chunk.count, chunk())};
  }
  /// Most tokens of one request in a step: of windows no more than they have room for.
  Count chunk() const { return (limits.footprint.moves() ? min(limits.chunk, limits.footprint.in_flight) : limits.chunk).count; }

  Answer consider(Item const& item, Budget const& left, bool floors_hold = true) const {
    Answer answer{.found = found(item)};
    answer.tokens = std::min({left.tokens, left.chunk, item.length() - answer.found});
    answer.reserved = reserved(item);
    answer.shared = usable(item).active.count;
    for (std::uint32_t pool = 0; pool < pools(); ++pool) answer.take[pool] = needed(pool, item);
    answer.reason = reason_beside_room(item, answer, floors_hold);
    if (answer.reason == Reason::fits) look_at_room(item, answer, floors_hold);
    return answer;
  }

  /// Why each of those that wait does, in order.
  std::vector<Answer> why() const {
    std::vector<Answer> answers;
    Scan scan{*this};
    for (auto const* item : in_order()) {
      Answer answer = consider(*item, budget());
      bool const reached = scan.looks_at(*item);
      if (answer.starts())
        answer.reason = yielding ? Reason::yielding : reached ? Reason::in_queue : Reason::behind_head;
      else if (reached)
        scan.goes_past(*item, answer.reason);
      if (answer.reason == Reason::class_floor && starts_alone(*item)) {
        answer = consider(*item, budget(), false);
        answer.reason = Reason::in_queue;
      }
      answers.push_back(answer);
    }
    return answers;
  }
  /// The next that starts, where floors would keep it waiting if anything ran.
  bool starts_alone(Item const& item) const {
    if (running() > 0) return false;
    Plan const next = decide_start(budget());
    return !next.admit.empty() && next.admit[0].id == item.id();
  }

  /// How many requests of this shape would start, one after another.
  Count more_of(Request const& request) const {
    if (yielding || screen(request) != Reason::in_queue) return 0;
    Model then = *this;
    Count more = 0;
    for (; then.items.size() < limits.max_live; ++more) {
      Item shape{.request = request};
      shape.request.tag = ~more;
      Answer const answer = then.consider(shape, then.budget());
      if (!answer.starts()) break;
      then.items.push_back(shape);
      then.start(then.items.back(), answer, true);
    }
    return more;
  }

  // ---- plans ----

  Plan plan(StepBudget const& step) const {
    Plan plan;
    Model then = *this;
    Budget left = then.budget(step);
    then.run_on(plan, left);
    for (bool more = true; more;) {
      Plan const one = then.decide_start(left);
      then.add(plan, one, left);
      more = !one.admit.empty();
    }
    return plan;
  }
  void commit(Plan const& plan) {
    carry_out(plan, true);
    for (auto& item : items) item.planned = 0;
    pass();
  }

  /// The id of what starts, or 0.
  Count admit_next() {
    Plan const one = decide_start(budget());
    carry_out(one, false);
    if (!one.admit.empty()) return one.admit[0].id;
    pass();
    return 0;
  }

  /// What the lease is told: why it holds the tokens, or does not.
  Reason grow(Count id, Count more) {
    Item const& item = *find(id);
    Count const allowed = item.longest() - item.length(), step = std::min(more, allowed);
    if (step > 0 && item.state != LiveState::running) return item.state == LiveState::arriving ? Reason::arriving : Reason::held;
    Plan const one = step > 0 ? decide_growth(item, step, step) : Plan{};
    Reason const ever = never(item.request);
    carry_out(one, false);
    if (step > 0 && one.grow.empty()) return ever == Reason::exceeds_capacity ? ever : Reason::preempted;
    if (step > 0 && one.grow[0].reason == Reason::retiring) return Reason::retiring;
    return more > allowed ? Reason::past_max_new : Reason::grown;
  }

 private:
  struct Given {
    Count step{};
    PerPool blocks{};
  };

  /// Who is looked at, after those that may not start.
  struct Scan {
    Model const& model;
    Count scanned = 0;
    std::vector<std::uint32_t> limited = {};
    bool only_below_floor = false, over = false;

    bool looks_at(Item const& item) const {
      bool const class_limited = std::find(limited.begin(), limited.end(), item.of_class()) != limited.end();
      return !over && !class_limited && !(only_below_floor && !model.below_floor(item.of_class()));
    }
    void goes_past(Item const& item, Reason reason) {
      if (reason == Reason::adapter_limit) return;
      if (reason == Reason::step_budget) return void(over = true);
      if (reason != Reason::class_limit) {
        Bypass const& bypass = model.rules.bypass;
        bool const may_be_passed = reason != Reason::running_limit && item.passed < bypass.passes && model.now - item.arrived < bypass.steps;
        if (may_be_passed && ++scanned < bypass.scan) return;
        only_below_floor = true;
        over = model.limits.class_limits.empty();
      }
      limited.push_back(item.of_class());
    }
  };

  Item* get(Count id) { return const_cast<Item*>(find(id)); }
  ClassLimit limit_of(Item const& item) const { return limits.class_limit(item.of_class()); }

  bool become(Count id, LiveState from, LiveState to) {
    Item* const item = get(id);
    if (!item || item->state != from) return false;
    item->state = to;
    return true;
  }

  void reject_impossible() {
    for (auto& item : items)
      if (item.queued() && never(item.request) != Reason::in_queue) ++counters_[item.of_class()].rejected[std::size_t(never(item.request))];
    std::erase_if(items, [this](Item const& item) { return item.queued() && never(item.request) != Reason::in_queue; });
  }

  // ---- what is found ----

  Hits usable(Item const& item) const {
    if (!item.told || limits.block(0) == Tokens{}) return {};  // several groups are in the pool
    Blocks const most{(item.length() - 1) / limits.block(0).count};
    Blocks const active = min(item.hits.active, most), idle = min(item.hits.idle, most - active);
    return {active, idle, min(item.hits.host, most - active - idle)};
  }
  Count found(Item const& item) const {
    if (item.request.arrives && item.state != LiveState::preempted) return item.length();
    bool const moved = item.state == LiveState::preempted && rules.preemption.keep == Keep::on_host;
    if (moved || item.keeps_cache()) return item.kept_length;
    Hits const hits = usable(item);
    return (hits.active + hits.idle + hits.host).count * limits.block(0).count;
  }

  // ---- the equation ----

  Count given_headroom(std::uint32_t pool, Count blocks) const {
    Headroom const given = limits.pool(pool).headroom;
    return given.in == Headroom::In::percent ? (blocks * given.count + one_whole - 1) / one_whole : given.count;
  }
  Reason reason_beside_room(Item const& item, Answer const& as, bool floors_hold) const {
    ClassLimit const limit = limit_of(item);
    ClassAccount const of = account(item.of_class());
    Count const to_compute = item.length() - as.found, with_regained = item.cached_at(std::min(item.length() + item.again, item.longest()));
    bool const computes_much = of.to_compute != Tokens{} && of.to_compute + Tokens{to_compute} > limit.to_compute;
    if (of.active_requests >= limit.running || of.active_tokens + Tokens{with_regained} > limit.tokens || computes_much) return Reason::class_limit;
    if (sequences() + item.request.branches > limits.max_running) return Reason::running_limit;
    if (floors_hold && sequences() + item.request.branches + missing_sequences(item.of_class()) > limits.max_running) return Reason::class_floor;
    if (!adapter_fits(item.request.adapter)) return Reason::adapter_limit;
    bool const no_tokens = to_compute > 0 && as.tokens == 0, is_cut = limits.whole_prompts && as.tokens < to_compute;
    return no_tokens || is_cut ? Reason::step_budget : Reason::fits;
  }
  void look_at_room(Item const& item, Answer& answer, bool floors_hold) const {
    for (std::uint32_t pool = 0; pool < pools(); ++pool) {
      Count const floors = pool == 0 && floors_hold ? missing_blocks(item.of_class()) : 0;
      answer.pool = pool, answer.needed = answer.take[pool], answer.free = available(pool), answer.headroom = headroom(pool);
      if (answer.needed > answer.free)
        answer.reason = Reason::no_room;
      else if (answer.needed + answer.headroom > answer.free)
        answer.reason = Reason::headroom;
      else if (answer.needed + answer.headroom + floors > answer.free)
        answer.reason = Reason::class_floor, answer.headroom += floors;
      if (answer.reason != Reason::fits) return;
    }
    answer.pool = 0, answer.needed = answer.take[0], answer.free = available(0), answer.headroom = headroom(0);
    if (running() == 0) answer.reason = Reason::fits_alone;
  }

  bool adapter_fits(Count adapter) const {
    if (adapter == 0 || limits.adapters == 0) return true;
    std::vector<Count> loaded;
    for (auto const& item : items) {
      if (!item.in_flight() || item.request.adapter == 0) continue;
      if (item.request.adapter == adapter) return true;
      if (std::find(loaded.begin(), loaded.end(), item.request.adapter) == loaded.end()) loaded.push_back(item.request.adapter);
    }
    return loaded.size() < limits.adapters;
  }

 public:
  // ---- floors ----

  /// Blocks of pool 0 that a class may still claim of its floor: no more than those of it that wait need.
  Count missing_blocks_of(std::uint32_t of_class) const {
    ClassLimit const limit = limits.class_limit(of_class);
    bool const may_start = account(of_class).active_requests < limit.running;
    Count const ceiling = limits.block(0) == Tokens{} ? Blocks::max().count : blocks_for(limit.tokens - account(of_class).active_tokens, limits.block(0)).count;
    return may_start ? std::min({less(floor(of_class), held_of(of_class, 0)), needed_by_waiting(of_class), ceiling}) : 0;
  }
  /// Of a pool that is smaller than all floors together everybody has a part as large as its own of all.
  Count floor(std::uint32_t of_class) const {
    Count sum = 0;
    for (std::uint32_t i = 0; i < limits.class_limits.size(); ++i) sum += whole_floor(i);
    return sum > capacity[0] ? whole_floor(of_class) * capacity[0] / sum : whole_floor(of_class);
  }
  Count whole_floor(std::uint32_t of_class) const {
    ClassLimit const limit = limits.class_limit(of_class);
    Count const block = std::max<Count>(limits.block(0).count, 1);
    return std::max((limit.floor.count + block - 1) / block, capacity[0] * limit.share.millionths / one_whole);
  }
  Count needed_by_waiting(std::uint32_t of_class) const {
    Count sum = 0;
    for (auto const& item : items)
      if (item.queued() && item.of_class() == of_class) sum += needed(0, item);
    return sum;
  }
  Count missing_sequences_of(std::uint32_t of_class) const {
    ClassAccount const of = account(of_class);
    return std::min(less(limits.class_limit(of_class).floor_running, of.active_requests), of.queued_requests);
  }
  bool below_floor(std::uint32_t of_class) const { return missing_blocks_of(of_class) + missing_sequences_of(of_class) > 0; }
  Count missing_blocks(std::uint32_t but) const {
    Count sum = 0;
    for (std::uint32_t i = 0; i < limits.class_limits.size(); ++i) sum += i == but ? 0 : missing_blocks_of(i);
    return sum;
  }
  Count missing_sequences(std::uint32_t but) const {
    Count sum = 0;
    for (std::uint32_t i = 0; i < limits.class_limits.size(); ++i) sum += i == but ? 0 : missing_sequences_of(i);
    return sum;
  }

 private:
  // ---- deciding ----

  /// The next that starts, if any, and those that were looked at before it. Where nothing runs, floors keep nobody from starting.
  Plan decide_start(Budget const& left) const {
    Plan plan;
    if (yielding) return plan;
    Scan scan{*this};
    Item const* behind_floor = nullptr;
    for (auto const* item : in_order()) {
      if (!scan.looks_at(*item)) continue;
      Answer const answer = consider(*item, left);
      if (answer.starts()) return starting(plan, *item, answer);
      if (answer.reason == Reason::class_floor && !behind_floor) behind_floor = item;
      plan.wait.push_back({.id = item->id(), .reason = answer.reason});
      scan.goes_past(*item, answer.reason);
    }
    if (!behind_floor || running() > 0) return plan;
    Answer const alone = consider(*behind_floor, left, false);
    if (!alone.starts()) return plan;
    std::erase_if(plan.wait, [id = behind_floor->id()](Decision const& one) { return one.id == id; });
    return starting(plan, *behind_floor, alone);
  }
  static Plan starting(Plan plan, Item const& item, Answer const& answer) {
    for (auto& one : plan.wait) one.passed_by = 1;
    plan.admit.push_back({.id = item.id(), .reason = answer.reason, .tokens = answer.tokens, .start = answer});
    return plan;
  }

  /// Every one that runs computes what it knows, in order of admission. On a copy.
  void run_on(Plan& plan, Budget& left) {
    for (Count const id : in_flight()) {
      Item const* const item = find(id);
      if (!item || item->state != LiveState::running) continue;  // it gave way
      bool const prefills = item->computed() < item->length();
      Count const step = std::min({prefills ? item->length() - item->computed() : item->pending, left.chunk, left.tokens});
      if (step == 0) continue;
      Plan const one = decide_growth(*item, step, prefills ? 0 : step);
      add(plan, one, left);
      if (one.grow.empty() && !rules.preemption.others_go_on) return;
    }
  }

  /// A decision more, which is done at once, so that the next one sees it. On a copy.
  void add(Plan& plan, Plan const& one, Budget& left) {
    for (auto const& victim : one.preempt) {
      plan.preempt.push_back(victim);
      auto const growth = naive::find(plan.grow, victim.id);
      if (growth == plan.grow.end()) continue;
      left.tokens += growth->tokens;
      plan.grow.erase(growth);
    }
    for (auto const& growth : one.grow) plan.grow.push_back(growth);
    for (auto const& start : one.admit) {
      plan.admit.push_back(start);
      std::erase_if(plan.wait, [&](Decision const& waits) { return waits.id == start.id; });
    }
    for (auto const& waits : one.wait) {
      auto const before = naive::find(plan.wait, waits.id);
      if (before == plan.wait.end())
        plan.wait.push_back(waits);
      else
        before->passed_by += waits.passed_by;
    }
    for (auto const* list : {&one.grow, &one.admit})
      for (auto const& computes : *list) left.tokens -= std::min(left.tokens, computes.tokens);
    carry_out(one, true);
  }

  /// Who gives way so that `asker` can compute `step` tokens, of which `generated` are new: the fewest first ones that are enough, or it itself.
  Plan decide_growth(Item const& asker, Count step, Count generated) const {
    Plan plan;
    PerPool more{};
    for (std::uint32_t pool = 0; pool < pools(); ++pool) more[pool] = less(blocks(pool, asker, asker.length() + generated), held(pool, asker));
    std::vector<Item const*> victims;
    bool enough = true;
    while (enough && (over_ceiling(asker, generated, victims) || is_short(more, victims))) {
      victims.push_back(first_to_yield(asker, victims, over_ceiling(asker, generated, victims)));
      enough = victims.back() != &asker;
    }
    if (!enough && rules.preemption.enough_or_none) victims = {&asker};
    for (auto const* victim : victims) plan.preempt.push_back({.id = victim->id(), .reason = Reason::preempted, .beneficiary = asker.of_class()});
    if (!enough) return plan;
    if (comes_later(more))
      plan.grow.push_back({.id = asker.id(), .reason = Reason::retiring});
    else
      plan.grow.push_back({.id = asker.id(), .reason = Reason::grown, .tokens = step, .generated = generated});
    return plan;
  }

  bool over_ceiling(Item const& asker, Count generated, std::vector<Item const*> const& victims) const {
    Count active = account(asker.of_class()).active_tokens.count;
    for (auto const* victim : victims) active -= victim->of_class() == asker.of_class() ? victim->cached() : 0;
    return generated > 0 && active + generated * asker.request.branches > limit_of(asker).tokens.count;
  }
  bool is_short(PerPool const& more, std::vector<Item const*> const& victims) const {
    for (std::uint32_t pool = 0; pool < pools(); ++pool) {
      Count stays = held(pool) + (pool == 0 ? pinned : 0);
      for (auto const* victim : victims) stays -= held(pool, *victim);
      if (more[pool] > 0 && stays + more[pool] > capacity[pool]) return true;
    }
    return false;
  }
  /// Blocks that steps in flight may still write are needed.
  bool comes_later(PerPool const& more) const {
    for (std::uint32_t pool = 0; pool < pools(); ++pool)
      if (limits.retires && more[pool] > available(pool)) return true;
    return false;
  }
  Item const* first_to_yield(Item const& asker, std::vector<Item const*> const& but, bool of_its_class) const {
    Item const* first = nullptr;
    for (auto const& item : items) {
      bool const guarded = rules.preemption.regain != Tokens{} && item.grown == item.started_at;
      if (item.state != LiveState::running || (guarded && &item != &asker)) continue;
      if ((of_its_class && item.of_class() != asker.of_class()) || std::find(but.begin(), but.end(), &item) != but.end()) continue;
      if (!first || yields_before(item, *first)) first = &item;
    }
    return first;
  }
  bool yields_before(Item const& a, Item const& b) const {
    return rules.newest_yields || a.cached() == b.cached() ? a.admission > b.admission : a.cached() < b.cached();
  }

  // ---- doing ----

  void carry_out(Plan const& plan, bool of_whole_step) {
    for (auto const& one : plan.preempt) preempt(*get(one.id), one.beneficiary);
    for (auto const& one : plan.grow) grow(*get(one.id), one, of_whole_step);
    for (auto const& one : plan.admit) start(*get(one.id), one.start, of_whole_step);
    for (auto const& one : plan.wait) get(one.id)->passed += one.passed_by;
    if (resized && yielding) reject_impossible();
  }

  void start(Item& item, Answer const& as, bool step_by_step) {
    ClassAccount& counters = counters_[item.of_class()];
    bool const again = item.state == LiveState::preempted;
    if (again && rules.preemption.keep == Keep::on_host) counters.moved_blocks += Blocks{std::min(as.take[0], blocks(0, item, item.kept_length))};
    item.kept = {};
    item.state = item.request.arrives && !again ? LiveState::arriving : LiveState::running;
    item.admission = ++admissions_;
    item.reserved = as.reserved;
    item.started_at = item.grown;
    item.step_by_step = step_by_step;
    item.shared = as.shared;
    ++counters.admitted;
    if (!again) counters.found_tokens += Tokens{as.found};
    serve(item, less(item.length(), as.found), rules.input);
    item.lost = less(item.lost, item.cached_at(as.found));
    item.done = as.found;
    compute(item, step_by_step ? as.tokens : item.length() - as.found);
    step_tokens_ += as.tokens;
    if (step_by_step) generate(item);
    evict();
    mark();
  }

  void grow(Item& item, Decision const& by, bool of_whole_step) {
    Count const before = item.cached();
    if (by.generated == 0) compute(item, by.tokens);
    item.grown += by.generated;
    if (item.step_by_step && by.generated > 0) item.done += by.generated, item.pending = less(item.pending, by.generated);
    counters_[item.of_class()].useful_tokens += Tokens{item.cached() - before};
    serve(item, by.generated * item.request.branches, rules.output);
    step_tokens_ += by.tokens;
    if (of_whole_step && by.reason == Reason::grown) generate(item);
    evict();
    mark();
  }

  /// Tokens it knows: those that were lost before are computed again.
  void compute(Item& item, Count tokens) {
    ClassAccount& counters = counters_[item.of_class()];
    Count const computed = item.cached_at(item.done + tokens) - item.cached_at(item.done), again = std::min(computed, item.lost);
    item.lost -= again;
    item.done += tokens;
    if (item.step_by_step) item.planned += tokens;
    counters.recomputed_tokens += Tokens{again};
    counters.useful_tokens += Tokens{computed - again};
  }
  /// A step that computed the last known token has generated another.
  static void generate(Item& item) {
    if (item.done == item.length() && item.pending == 0 && item.length() < item.longest()) item.pending = 1;
  }

  void preempt(Item& item, std::uint32_t beneficiary) {
    ClassAccount& counters = counters_[item.of_class()];
    PerPool held_before{};
    for (std::uint32_t pool = 0; pool < pools(); ++pool) held_before[pool] = held(pool, item);
    give(item);
    ++counters.preempted;
    ++counters_[beneficiary].preempted_for;
    bool const shared = item.shared > 0;
    item.kept_length = item.computed();
    item.lost += item.cached_at(item.computed());
    item.grown += item.pending;
    item.pending = item.reserved = item.shared = 0;
    item.step_by_step = item.told = false;
    item.again = std::max(item.again, rules.preemption.regain.count);
    item.front = rules.preemption.front;
    item.state = LiveState::preempted;
    if (rules.preemption.keep == Keep::on_host) counters.moved_blocks += Blocks{std::min(held_before[0], blocks(0, item, item.kept_length))};
    if (rules.preemption.keep == Keep::as_cache && !limits.retires && !shared) item.kept = held_before;
    evict();
    yielding = true;
  }

  /// Its blocks are free, or retire first.
  void give(Item const& item) {
    if (!limits.retires || !item.in_flight()) return;
    given_.push_back({.step = now});
    for (std::uint32_t pool = 0; pool < pools(); ++pool) given_.back().blocks[pool] = held(pool, item);
  }

  /// Blocks that were kept have been taken: of whoever stands last, from the end.
  void evict() {
    for (std::uint32_t pool = 0; pool < pools(); ++pool)
      while (kept(pool) > available(pool)) {
        Item* last = nullptr;
        for (auto& item : items)
          if (item.kept[pool] > 0 && (!last || stands_before(*last, item))) last = &item;
        lose(*last, pool, std::min(kept(pool) - available(pool), last->kept[pool]));
      }
  }
  /// What is left of its tokens are the first ones, where blocks are tokens; else none.
  void lose(Item& item, std::uint32_t pool, Count taken) {
    bool by_block = item.request.branches == 1;
    for (auto const& group : limits.footprint.groups) by_block = by_block && (group.pool != pool || group.keeps == Keeps::everything);
    item.kept[pool] -= taken;
    item.kept_length = by_block ? std::min(item.kept_length, item.kept[pool] * limits.block(pool).count) : 0;
    if (pool == 0) counters_[item.of_class()].evicted_blocks += Blocks{taken};
    if (item.kept_length == 0) item.kept = {};
  }

  void mark() {
    for (std::uint32_t i = 0; i < classes(); ++i) {
      ClassAccount all = account(i);
      all.mark_peaks();
      counters_[i].past_active_requests = all.past_active_requests;
      counters_[i].past_active_tokens = all.past_active_tokens;
      counters_[i].past_tokens_held = all.past_tokens_held;
    }
  }

  // ---- tenants ----

  void serve(Item const& item, Count tokens, Count weight) { served_[item.request.tenant] += tokens * weight; }
  /// A tenant that has nothing here starts with the least served of those that have.
  void lift(std::uint32_t tenant) {
    Count least = ~Count{0};
    for (auto const& item : items) {
      if (item.request.tenant == tenant) return;
      least = std::min(least, served(item.request.tenant));
    }
    if (!items.empty()) served_[tenant] = std::max(served_[tenant], least);
  }

  std::vector<ClassAccount> counters_;
  std::vector<Count> served_;
  std::vector<Given> given_;
  Count arrivals_ = 0, admissions_ = 0, step_tokens_ = 0;
  bool begun_ = false, passed_ = false;
};

}  // namespace naive
