// Two controllers that are given the same calls decide the same, and leases and plans are two ways to the same state.
#include "catch.hpp"
#include "caller.hpp"
#include "course.hpp"

#include <algorithm>

using namespace properties;
using namespace kvbudget::literals;

namespace {

/// Is told of everything: then no growth is free of a look at the whole.
struct Counting {
  std::uint64_t* events;
  void on(Event const&) const { ++*events; }
};

template <class Policy>
struct Ranks {
  std::uint64_t events = 0;
  Caller<Policy> one;
  Caller<Policy, Counting> other;
  Seen of_one{}, of_other{};

  Ranks(AdmissionLimits const& limits, Policy const& policy) : one{limits, policy}, other{limits, policy, Counting{&events}} {}

  bool agree_on(Operation const& of) {
    if (one.perform(of) != other.perform(of)) return false;
    one.look(of_one), other.look(of_other);
    return of_one.hash() == of_other.hash() && one.gate.plan().digest() == other.gate.plan().digest();
  }
};

}  // namespace

TEST_CASE("i22_same_calls_same_decisions: two ranks give the same digest after every call, whoever is told of it") {
  std::size_t operations = 0;
  for (std::uint64_t seed = 1; seed <= 400; ++seed) {
    Course const course = course_of(seed, 150);
    with_policy(course, [&](auto const& policy) {
      Ranks ranks{course.limits, policy};
      for (auto const& operation : course.operations) {
        INFO("seed " << seed << ": " << text_of(operation));
        REQUIRE(ranks.agree_on(operation));
        ++operations;
      }
      REQUIRE(ranks.events > 0);
    });
  }
  REQUIRE(operations >= 60'000);
}

namespace {

/// A step by leases: everybody grows by a token in the order they started, then whoever may starts.
template <class Policy>
void step_by_leases(Caller<Policy>& caller, Seen& seen) {
  caller.look(seen);
  for (auto const id : std::vector(seen.running))
    if (caller.gate.why(caller.ticket(id)).reason == Reason::running) caller.lease(id).grow(1_tokens);
  while (caller.perform({.call = Call::admit_next}) != 0) {
  }
}

template <class Policy>
void step_by_plan(Caller<Policy>& caller) {
  REQUIRE(caller.perform({.call = Call::commit}) == 1);
  for (auto const& one : caller.plan.admit) caller.perform({.call = Call::lease, .id = one.tag});
}

std::vector<std::uint64_t> lengths(Seen const& seen) {
  std::vector<std::uint64_t> lengths;
  for (auto const id : seen.running) lengths.push_back(seen.find(id)->tokens.count);
  return lengths;
}

/// Calls of a course that are the same in both ways: not those that grow or start.
bool is_common(Operation const& of) {
  switch (of.call) {
    case Call::submit:
    case Call::finish:
    case Call::cancel:
    case Call::cancel_group:
    case Call::found:
    case Call::arrived:
    case Call::hold:
    case Call::retire:
    case Call::resize:
    case Call::drain:
    case Call::reopen:
      return true;
    default:
      return false;
  }
}

/// Where both ways mean the same: no budget of a step, whole prompts.
AdmissionLimits without_budgets(AdmissionLimits limits) {
  limits.tokens_per_step = limits.chunk = limits.footprint.in_flight = Tokens::max();
  for (auto& limit : limits.class_limits) limit.to_compute = Tokens::max();
  return limits;
}

struct Driven {
  std::size_t steps = 0, preempted = 0;
};

/// Two worlds side by side, up to the first preemption: a plan keeps the token that the last step has generated of one that gives way, a lease
/// that could not grow has none.
template <class Policy>
void drive_both(Course const& course, Policy const& policy, Driven& driven) {
  Caller<Policy> by_leases{without_budgets(course.limits), policy}, by_plans{without_budgets(course.limits), policy};
  Seen of_leases, of_plans;
  std::uint64_t now = 0;
  for (auto const& operation : course.operations) {
    if (is_common(operation)) REQUIRE(by_leases.perform(operation) == by_plans.perform(operation));
    if (operation.call != Call::commit && operation.call != Call::begin_step) continue;
    for (auto* caller : {&by_leases, &by_plans}) caller->perform({.call = Call::begin_step, .amount = now});
    now += 1;
    step_by_leases(by_leases, of_leases);
    step_by_plan(by_plans);
    by_leases.look(of_leases), by_plans.look(of_plans);
    ++driven.steps;
    REQUIRE(of_leases.running == of_plans.running);
    REQUIRE(of_leases.waiting == of_plans.waiting);
    REQUIRE(lengths(of_leases) == lengths(of_plans));
    driven.preempted += by_plans.plan.preempt.size();
    if (!by_plans.plan.preempt.empty()) return;
    REQUIRE(of_leases.hash() == of_plans.hash());
  }
}

}  // namespace

TEST_CASE("leases that grow by a token and start one by one reach the state that a plan reaches, and take the same victims") {
  Driven driven;
  for (std::uint64_t seed = 1; seed <= 4'000; ++seed) {
    INFO("seed " << seed);
    Course course = course_of(seed, 150);
    course.preemption.others_go_on = true;  // each lease grows by itself
    with_policy(course, [&](auto const& policy) { drive_both(course, policy, driven); });
  }
  REQUIRE(driven.steps > 40'000);
  REQUIRE(driven.preempted > 800);
}

TEST_CASE("i20_lookahead_is_held: for every block, prompt, growth and look-ahead, the blocks of all their tokens and no more") {
  std::size_t cases = 0;
  for (std::uint64_t block = 1; block <= 5; ++block)
    for (std::uint64_t prompt = 1; prompt <= 2 * block + 1; ++prompt)
      for (std::uint64_t ahead = 0; ahead <= 2 * block + 1; ++ahead)
        for (std::uint32_t branches = 1; branches <= 2; ++branches) {
          AdmissionController<> gate{{.capacity = 100_blocks, .footprint = paged(Tokens{block}), .max_live = 1}};
          gate.submit({.prompt = {prompt}, .max_new = {block + 1}, .branches = branches, .lookahead = {ahead}});
          auto lease = gate.admit_next();
          for (std::uint64_t grown = 0; grown <= block + 1; ++grown, ++cases) {
            std::uint64_t const each = (prompt + grown + ahead + block - 1) / block, shared = branches == 1 ? 0 : prompt / block;
            CAPTURE(block, prompt, ahead, branches, grown);
            REQUIRE(gate.pool().held.count == shared + (each - shared) * branches);
            lease.grow(1_tokens);
          }
        }
  REQUIRE(cases > 2'000);
}

TEST_CASE("i15_enough_or_none: whoever of three grows by however much, others give way only where it then has all that it asked for") {
  std::size_t with_others_room = 0, alone = 0;
  for (std::uint64_t shape = 0; shape < 3 * 4 * 4 * 4; ++shape)
    for (std::uint64_t more = 1; more <= 8; ++more) {
      AdmissionController<> gate{{.capacity = 16_blocks, .footprint = paged(1_tokens), .max_live = 3}};
      for (std::uint64_t const prompt : {1 + shape / 3 % 4, 1 + shape / 12 % 4, 1 + shape / 48}) gate.submit({.prompt = {prompt}, .max_new = 12_tokens});
      std::vector<AdmissionController<>::Lease> leases;
      while (auto lease = gate.admit_next()) leases.push_back(std::move(lease));
      REQUIRE(leases.size() == 3);
      for (auto& lease : leases) lease.grow(1_tokens);
      auto& asker = leases[shape % 3];
      Tokens const before = asker.tokens();
      asker.grow({more});
      std::uint32_t const gave_way = 3 - gate.running();
      CAPTURE(shape, more);
      REQUIRE((asker.ended() ? gave_way == 1 : asker.tokens() == before + Tokens{more}));
      with_others_room += !asker.ended() && gave_way > 0;
      alone += asker.ended();
    }
  REQUIRE(with_others_room > 100);
  REQUIRE(alone > 100);
}
