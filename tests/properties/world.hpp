// A controller beside the naive model: each operation is done to both, and then all that can be seen of them must be equal. What does not hold
// is thrown as Broken.
#pragma once

#include "caller.hpp"
#include "naive_model.hpp"

#include <kvbudget/write/names.hpp>

namespace properties {

/// What does not hold, by its sentence, and the numbers.
struct Broken {
  std::string sentence;
  std::string numbers{};
};
inline void must(bool holds, char const* sentence) {
  if (!holds) throw Broken{sentence};
}
inline void same(Count got, Count expected, char const* what) {
  if (got != expected) throw Broken{what, fmt::format("{}, not {}", got, expected)};
}
inline void same(Reason got, Reason expected, char const* what) {
  if (got != expected) throw Broken{what, fmt::format("{}, not {}", name_of(got), name_of(expected))};
}

/// How often each reason was given, as an answer or as why one waits.
using ReasonsGiven = std::array<Count, reasons>;

/// What an operation did, as far as the caller was told.
struct Effects {
  Operation of{};
  std::vector<Count> started{};    // in order
  std::vector<Count> preempted{};  // in flight before it, and not after it, although they had not ended
  naive::PerPool held{};           // before it, by whom it is about
  Count refused{};                 // takes, by the sources
  Reason growth{};                 // what a lease that asked to grow was told
  bool asked_to_start{};
  bool rejected{};
};

template <class Policy>
class World : public Caller<Policy> {
  using Base = Caller<Policy>;

 public:
  using Base::gate, Base::lease, Base::limits, Base::plan, Base::pools, Base::ticket;

  World(AdmissionLimits const& of, Policy const& policy) : World{of, policy, naive::rules_of(policy)} {}
  World(AdmissionLimits const& of, Policy const& policy, naive::Rules const& rules) : Base{of, policy}, model{of, rules} { this->look(seen); }

  naive::Model model;
  naive::Plan planned{};  // the model's, of the plan that was committed last
  Seen seen{}, before{};
  Effects effects{};
  ReasonsGiven reasons_given{};
  std::vector<Count> overtaken{};  // by id: times another started before it although it found no room first

  /// Does it, and compares. Operations on who is not there any more are done, too.
  void perform(Operation const& of) {
    std::swap(before, seen);
    begin(of);
    if (of.call == Call::commit_old)
      commit_old();
    else if (of.call != Call::pin || !is_pinned_for_somebody())
      do_to_both(of);
    look_and_compare();
    note_effects();
  }

  /// What is known beside the controller.
  struct Knowledge {
    naive::Model model{{}, {}};
    Seen seen{};
    std::vector<Count> overtaken{};
  };
  Knowledge knowledge() const { return {model, seen, overtaken}; }
  /// Goes on from where the controller is, with what was known then.
  void resume(Knowledge const& knew) {
    model = knew.model;
    seen = knew.seen;
    overtaken = knew.overtaken;
  }

 private:
  void begin(Operation const& of) {
    effects = {.of = of};
    for (auto& pool : pools) pool.refused = 0;
    if (auto const* whom = model.find(of.id))
      for (std::uint32_t i = 0; i < model.pools(); ++i) effects.held[i] = model.held(i, *whom);
  }
  void note_effects() {
    for (auto const& pool : pools) effects.refused += pool.refused;
    for (auto const& one : seen.requests) ++reasons_given[std::size_t(one.why.reason)];
    if (Call const call = effects.of.call; call == Call::grow || call == Call::commit || call == Call::commit_old) note_preempted();
    overtaken.resize(this->submissions());
  }
  void note_preempted() {
    for (auto const& was : before.requests)
      if (auto const* now = seen.find(was.id); was.in_flight() && !(now && now->in_flight())) effects.preempted.push_back(was.id);
  }

  void do_to_both(Operation const& of) {
    if (of.call == Call::plan || of.call == Call::commit) plan_twice(of.budget);
    Count const expected = by_model(of), got = Base::perform(of);
    if (of.call == Call::submit || of.call == Call::grow)
      same(Reason(got), Reason(expected), "the controller gives the model's reason"), ++reasons_given[got];
    else
      same(got, expected, "the controller answers what the model answers");
    if (of.call == Call::submit) effects.rejected = Reason(got) != Reason::in_queue;
    if (of.call == Call::grow) effects.growth = Reason(got);
    if (of.call == Call::admit_next) effects.asked_to_start = true;
    if (of.call == Call::admit_next && got != 0) effects.started.push_back(got);
    if (of.call != Call::commit) return;
    compare_plan();
    for (auto const* list : {&plan.preempt, &plan.grow, &plan.admit})
      for (auto const& one : *list) ++reasons_given[std::size_t(one.reason())];
    is_carried_out();
    bool const did_something = !plan.preempt.empty() || !plan.admit.empty() || plan.tokens() != Tokens{};
    must(!(did_something && gate.commit(plan)), "i10_stale_plan_is_refused: a plan is committed once");
  }

  Count by_model(Operation const& of) {
    switch (of.call) {
      case Call::submit:
        return Count(model.submit(of.request));
      case Call::begin_step:
        return model.begin_step(of.amount), 0;
      case Call::admit_next:
        return model.admit_next();
      case Call::grow:
        return Count(lease(of.id) ? model.grow(of.id, of.amount) : Reason::ended);
      case Call::finish:
        return model.leave(of.id, &ClassAccount::completed);
      case Call::cancel:
        return model.leave(of.id, &ClassAccount::cancelled);
      case Call::cancel_group:
        return model.cancel_group(of.amount);
      case Call::drop:
        return lease(of.id) && !model.leave(of.id, &ClassAccount::completed);
      case Call::lease:
        return lease(of.id) || !model.find(of.id) || !model.find(of.id)->in_flight() ? 0 : of.id;
      case Call::commit:
        return planned = model.plan(of.budget), model.commit(planned), 1;
      case Call::generated:
        return model.generated(of.id, of.amount);
      case Call::found:
        return model.found(of.id, this->hits(of.amount));
      case Call::arrived:
        return model.arrived(of.id);
      case Call::hold:
        return model.hold(of.id);
      case Call::retire:
        return model.retire(of.amount), 0;
      case Call::resize:
        return model.resize(of.pool, of.amount);
      case Call::drain:
        return model.draining = true, 0;
      case Call::reopen:
        return model.draining = false, 0;
      case Call::pin:
        return pools[0].free() + pools[0].pinned < of.amount ? 0 : (model.pinned = of.amount, 1);
      case Call::more_of:
        return model.more_of(model.cut(of.request));
      default:
        return 0;
    }
  }
  bool is_pinned_for_somebody() const {
    return std::any_of(model.items.begin(), model.items.end(),
                       [](naive::Item const& item) { return item.shared > 0 || (item.told && item.hits.active != Blocks{}); });
  }

  void plan_twice(StepBudget const& budget) {
    typename Base::StepPlan const& one = gate.plan(budget);
    gate.plan(budget, again_);
    must(one.digest() == again_.digest(), "i10_plan_twice_is_equal: plan() says the same when it is asked again");
    this->look(seen);
    must(seen.hash() == before.hash(), "i10_plan_changes_nothing: an abandoned plan leaves no trace");
  }
  /// Whatever happened since: a plan that is still accepted is the one that would be made now.
  void commit_old() {
    effects.of.budget = this->kept_budget;
    gate.plan(effects.of.budget, again_);
    if (Base::perform(effects.of) == 0) return;
    must(again_.digest() == plan.digest(), "i10_stale_plan_is_refused: a plan that would not be made now is not committed");
    planned = model.plan(effects.of.budget);
    model.commit(planned);
    is_carried_out();
  }
  void is_carried_out() {
    effects.asked_to_start = true;
    for (auto const& one : plan.admit) effects.started.push_back(one.tag);
  }

  // ---- comparing ----

  void look_and_compare() {
    this->look(seen);
    compare_pools();
    compare_requests();
    for (std::uint32_t i = 0; i < limits.classes; ++i) compare_account(seen.accounts[i], model.account(i));
    for (std::uint32_t tenant = 0; tenant < limits.tenants; ++tenant)
      same(gate.served(tenant), model.served(tenant), "a tenant's service is that of the model");
  }

  void compare_pools() {
    for (std::uint32_t i = 0; i < gate.pools(); ++i) {
      PoolView const& pool = seen.pools[i];
      same(pool.held.count, model.held(i), "what a pool holds is that of the model");
      same(pool.supply.available().count, model.available(i), "what a pool has left is that of the model");
      same(pool.overcommitted.count, model.overcommitted(i), "what a pool holds beyond its capacity is that of the model");
      same(pool.supply.in_flight.count, model.retiring(i), "what is given back and not free yet is that of the model");
      same(pool.supply.cached_idle.count, std::min(pools[i].idle + model.kept(i), model.available(i)), "what is kept as cache is that of the model");
      same(gate.next_step(i).count, model.next_step(i), "what the next step takes is that of the model");
      for (std::uint32_t of = 0; of < gate.classes(); ++of) same(gate.held(of, i).count, model.held_of(of, i), "what a class holds is that of the model");
    }
  }

  void compare_requests() {
    same(gate.running(), model.running(), "as many are in flight as in the model");
    same(gate.queued(), model.queued(), "as many wait as in the model");
    same(seen.requests.size(), model.items.size(), "those are there that are in the model");
    for (auto const& item : model.items) {
      auto const* one = seen.find(item.id());
      must(one != nullptr, "those are there that are in the model");
      must(one->in_flight() == item.in_flight(), "those are in flight that are in the model");
      if (item.in_flight()) compare_in_flight(*one, item);
      must(!lease(item.id()) || item.in_flight(), "a lease lasts as long as its request is in flight");
    }
    auto const waiting = model.waiting();
    auto const why = model.why();
    must(seen.waiting == waiting, "each_waiting() goes by the model's order");
    for (std::size_t i = 0; i < waiting.size(); ++i) compare_why(seen.find(waiting[i])->why, why[i]);
    must(seen.running == model.in_flight(), "each_running() goes by the model's order");
  }
  void compare_in_flight(Seen::One const& one, naive::Item const& item) {
    Reason const reason = item.state == LiveState::running ? Reason::running : item.state == LiveState::arriving ? Reason::arriving : Reason::held;
    same(one.why.reason, reason, "why() says what one in flight does");
    same(one.why.needed.count, model.held(0, item), "why() says what one in flight holds");
    if (lease(item.id())) same(one.tokens.count, item.length(), "a lease's tokens are those of the model");
  }
  void compare_why(Verdict const& got, naive::Answer const& expected) {
    same(got.reason, expected.reason, "why() gives the model's reason");
    bool const of_room = got.reason == Reason::no_room || got.reason == Reason::headroom || got.reason == Reason::class_floor || got.reason == Reason::in_queue;
    if (!of_room || got.block == Tokens{}) return;
    same(got.pool, expected.pool, "why() names the pool that binds");
    same(got.needed.count, expected.needed, "why() says what is needed");
    same(got.free.count, expected.free, "why() says what is free");
    same(got.headroom.count, expected.headroom, "why() says what is left free");
  }

  static void compare_account(ClassAccount got, ClassAccount expected) {
    got.mark_peaks(), expected.mark_peaks();
    Hash hash, expected_hash;
    hash.add_words(got), expected_hash.add_words(expected);
    if (hash.value() == expected_hash.value()) return;
    for (auto const& [name, of] : counts) same(got.*of, expected.*of, name);
    for (auto const& [name, of] : tokens) same((got.*of).count, (expected.*of).count, name);
    for (std::size_t reason = 0; reason < reasons; ++reason) same(got.rejected[reason], expected.rejected[reason], "rejected[]");
    same(got.evicted_blocks.count, expected.evicted_blocks.count, "evicted_blocks");
    same(got.moved_blocks.count, expected.moved_blocks.count, "moved_blocks");
    must(false, "an account has a field that is not compared by name");
  }
  static constexpr std::pair<char const*, std::uint64_t ClassAccount::*> counts[] = {{"submitted", &ClassAccount::submitted},
                                                                                     {"admitted", &ClassAccount::admitted},
                                                                                     {"ever_waited", &ClassAccount::ever_waited},
                                                                                     {"steps_waited", &ClassAccount::steps_waited},
                                                                                     {"completed", &ClassAccount::completed},
                                                                                     {"cancelled", &ClassAccount::cancelled},
                                                                                     {"expired", &ClassAccount::expired},
                                                                                     {"preempted", &ClassAccount::preempted},
                                                                                     {"preempted_for", &ClassAccount::preempted_for},
                                                                                     {"wasted_token_steps", &ClassAccount::wasted_token_steps},
                                                                                     {"queued_requests", &ClassAccount::queued_requests},
                                                                                     {"active_requests", &ClassAccount::active_requests},
                                                                                     {"past_active_requests", &ClassAccount::past_active_requests}};
  static constexpr std::pair<char const*, Tokens ClassAccount::*> tokens[] = {{"useful_tokens", &ClassAccount::useful_tokens},
                                                                              {"found_tokens", &ClassAccount::found_tokens},
                                                                              {"recomputed_tokens", &ClassAccount::recomputed_tokens},
                                                                              {"queued_tokens", &ClassAccount::queued_tokens},
                                                                              {"active_tokens", &ClassAccount::active_tokens},
                                                                              {"to_compute", &ClassAccount::to_compute},
                                                                              {"tokens_held", &ClassAccount::tokens_held},
                                                                              {"past_active_tokens", &ClassAccount::past_active_tokens},
                                                                              {"past_tokens_held", &ClassAccount::past_tokens_held}};

  void compare_plan() {
    compare_list(plan.preempt, planned.preempt, "a plan preempts whom the model preempts");
    compare_list(plan.grow, planned.grow, "a plan grows whom the model grows");
    compare_list(plan.admit, planned.admit, "a plan starts whom the model starts");
    compare_list(plan.wait, planned.wait, "a plan lets wait whom the model lets wait");
    std::size_t refused = 0;
    for (auto const& one : plan.preempt) refused += !model.find(one.tag);
    same(plan.refuse.size(), refused, "a plan refuses those who give way and can never fit any more");
    for (std::size_t i = 0; i < plan.preempt.size(); ++i)
      same(plan.preempt[i].beneficiary.index, planned.preempt[i].beneficiary, "a plan says for whom one gives way");
    for (std::size_t i = 0; i < plan.wait.size(); ++i) same(plan.wait[i].passed_by, planned.wait[i].passed_by, "a plan counts who is passed by");
    for (std::size_t i = 0; i < plan.admit.size(); ++i) {
      same(plan.admit[i].found.count, planned.admit[i].start.found, "a plan finds what the model finds");
      for (std::uint32_t pool = 0; pool < gate.pools(); ++pool)
        same(plan.admit[i].blocks[pool].count, planned.admit[i].start.take[pool], "a plan takes what the model takes");
    }
  }
  static void compare_list(std::vector<Planned> const& got, std::vector<naive::Decision> const& expected, char const* what) {
    same(got.size(), expected.size(), what);
    for (std::size_t i = 0; i < got.size(); ++i) {
      same(got[i].tag, expected[i].id, what);
      same(got[i].reason(), expected[i].reason, what);
      same(got[i].tokens.count, expected[i].tokens, what);
    }
  }

  typename Base::StepPlan again_{};
};

}  // namespace properties
