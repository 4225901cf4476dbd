// A step that is planned, looked at, and done: what a plan lists, how many tokens it gives whom, and when it is stale.
#include "gate.hpp"

#include <functional>
#include <optional>

using namespace kvbudget;
using namespace kvbudget::literals;

using Gate = AdmissionController<ByArrival>;

TEST_CASE("a plan lists who starts and who waits, with tokens, blocks and numbers, and changes nothing") {
  Gate gate{{.capacity = 10_blocks, .footprint = paged(16_tokens), .classes = 2}};
  gate.submit(of_class(1, 100, 10, 7));
  gate.submit(ask(60, 10, 8));
  auto const plan = gate.plan();
  REQUIRE(tags(plan.admit) == Tags{7});
  REQUIRE(plan.admit[0].reason() == Reason::fits_alone);
  REQUIRE(plan.admit[0].request_class == RequestClass{1});
  REQUIRE(plan.admit[0].tokens == 100_tokens);
  REQUIRE(plan.admit[0].reserved == 100_tokens);
  REQUIRE(plan.admit[0].blocks[0] == 7_blocks);
  REQUIRE(tags(plan.wait) == Tags{8});
  REQUIRE(plan.wait[0].reason() == Reason::no_room);
  REQUIRE(plan.wait[0].verdict.needed == 4_blocks);
  REQUIRE(plan.wait[0].verdict.free == 3_blocks);
  REQUIRE(plan.tokens() == 100_tokens);
  REQUIRE(gate.queued() == 2);
  REQUIRE(gate.running() == 0);
  REQUIRE(gate.pool().held == 0_blocks);
  REQUIRE(gate.commit(plan));
  REQUIRE(gate.queued() == 1);
  REQUIRE(gate.pool().held == 7_blocks);
}

TEST_CASE("a plan that is asked for twice says the same, and an abandoned one leaves no trace") {
  auto const run = [](int asked) {
    Gate gate{{.capacity = 40_tokens, .chunk = 8_tokens}, {.order = {.bypass = {.passes = 2}}}};
    std::vector<std::uint64_t> digests;
    for (std::uint64_t i = 0; i < 12; ++i) {
      gate.submit(ask(5 + i * 7 % 13, 9, i));
      gate.begin_step(i);
      for (int again = 0; again < asked; ++again) {
        auto const first = gate.plan(), second = gate.plan();
        REQUIRE(first.digest() == second.digest());
      }
      auto const plan = gate.plan();
      REQUIRE(gate.commit(plan));
      digests.push_back(plan.digest());
    }
    auto const& account = gate.account(0);
    digests.insert(digests.end(), {account.steps_waited, account.ever_waited, account.admitted, account.preempted, account.useful_tokens.count});
    return digests;
  };
  REQUIRE(run(0) == run(3));
}

TEST_CASE("a plan is refused, and nothing is done, after anything has changed") {
  Gate gate{{.capacity = 100_tokens, .retires = true}};
  auto const running = gate.submit(ask(10, 10)).ticket;
  step(gate);
  Request remote = ask(10, 10);
  remote.arrives = true;
  auto const arriving = gate.submit(remote).ticket;
  step(gate);
  auto const waiting = gate.submit(ask(10)).ticket;
  std::function<void()> const changes[]{[&] { gate.submit(ask(1)); },       [&] { gate.cancel(waiting); },
                                        [&] { gate.finish(running); },      [&] { gate.hold(running); },
                                        [&] { gate.arrived(arriving); },    [&] { gate.generated(running, 1_tokens); },
                                        [&] { gate.found(waiting, {}); },   [&] { gate.retire(0); },
                                        [&] { gate.resize(90_tokens); },    [&] { gate.begin_step(9); },
                                        [&] { REQUIRE(gate.admit_next()); }};
  auto const change = GENERATE(range(std::size_t{0}, std::size_t{11}));
  CAPTURE(change);
  auto const plan = gate.plan();
  changes[change]();
  auto const useful = gate.account(0).useful_tokens;
  REQUIRE_FALSE(gate.commit(plan));
  REQUIRE(gate.account(0).useful_tokens == useful);
  auto const again = gate.plan();
  REQUIRE(gate.commit(again));
  REQUIRE_FALSE(gate.commit(again));
}

TEST_CASE("a plan is refused when the source has other blocks than it was made with") {
  Supply supply{.clean = 8_blocks};
  AdmissionController gate{{.capacity = 8_blocks, .footprint = paged(1_tokens)}, ByArrival{}, {BlockManager{&supply}}};
  gate.submit(ask(5));
  auto const plan = gate.plan();
  supply.clean = 4_blocks;  // the block manager gave the rest to somebody else
  REQUIRE_FALSE(gate.commit(plan));
  REQUIRE(gate.queued() == 1);
  supply.clean = 8_blocks;
  REQUIRE(gate.commit(plan));
}

TEST_CASE("equal calls give equal digests, and another decision another one") {
  auto const digest = [](std::uint64_t prompt, Tokens budget) {
    Gate gate{{.capacity = 20_tokens}};
    gate.submit(ask(10, 10));
    gate.submit(ask(prompt, 10));
    return gate.plan({.tokens = budget}).digest();
  };
  REQUIRE(digest(10, 100_tokens) == digest(10, 100_tokens));
  REQUIRE(digest(10, 100_tokens) != digest(11, 100_tokens));  // it waits
  REQUIRE(digest(10, 100_tokens) != digest(9, 100_tokens));   // other tokens
  REQUIRE(digest(10, 100_tokens) != digest(10, 15_tokens));
}

TEST_CASE("a prompt is computed by chunks, holds its room from the start, and then a token a step up to max_new") {
  Gate gate{{.capacity = 200_tokens, .chunk = 30_tokens}};
  gate.submit(ask(100, 2, 1));
  for (auto const tokens : {30_tokens, 30_tokens, 30_tokens, 10_tokens, 1_tokens, 1_tokens, 0_tokens}) {
    REQUIRE(step(gate).tokens() == tokens);
    REQUIRE(gate.pool().held >= 100_blocks);
  }
  REQUIRE(gate.account(0).active_tokens == 102_tokens);
  REQUIRE(gate.account(0).useful_tokens == 102_tokens);
  REQUIRE(gate.account(0).to_compute == 0_tokens);
}

TEST_CASE("a request that generates nothing computes its prompt and no more") {
  Gate gate{{.capacity = 100_tokens}};
  gate.submit(ask(10));
  REQUIRE(step(gate).tokens() == 10_tokens);
  REQUIRE(step(gate).tokens() == 0_tokens);
}

TEST_CASE("a step's budget goes to those that run, in order of admission, and the rest to who starts") {
  Gate gate{{.capacity = 1'000_tokens, .tokens_per_step = 50_tokens}};
  for (std::uint64_t tag = 1; tag <= 3; ++tag) gate.submit(ask(40, 10, tag));
  auto const is = [](auto const& plan, Tokens first, Tokens second, Tokens third) {
    return tokens_of(plan, 1) == first && tokens_of(plan, 2) == second && tokens_of(plan, 3) == third;
  };
  REQUIRE(is(step(gate), 40_tokens, 10_tokens, 0_tokens));
  REQUIRE(is(step(gate), 1_tokens, 30_tokens, 19_tokens));
  REQUIRE(is(step(gate), 1_tokens, 1_tokens, 21_tokens));
  REQUIRE(is(step(gate, {.tokens = 2_tokens}), 1_tokens, 1_tokens, 0_tokens));  // this step may compute less
  REQUIRE(is(step(gate, {.tokens = 1'000_tokens}), 1_tokens, 1_tokens, 1_tokens));
}

TEST_CASE("two plans of one step, and leases, share its budget") {
  Gate gate{{.capacity = 1'000_tokens, .tokens_per_step = 50_tokens}};
  gate.submit(ask(30, 0, 1));
  step(gate);
  gate.submit(ask(30, 0, 2));
  gate.submit(ask(30, 0, 3));
  auto const plan = gate.plan();
  REQUIRE(tokens_of(plan, 2) == 20_tokens);
  REQUIRE(tags(plan.wait) == Tags{3});
  REQUIRE(plan.wait[0].reason() == Reason::step_budget);
  REQUIRE(gate.commit(plan));
  REQUIRE_FALSE(gate.admit_next());
  gate.begin_step(gate.now() + 1);
  REQUIRE(gate.admit_next().tag() == 3);
}

TEST_CASE("what leases grow is off the step's budget, whether or not it takes a block") {
  Gate gate{{.capacity = 100_blocks, .footprint = paged(16_tokens), .tokens_per_step = 20_tokens}};
  gate.submit(ask(4, 60));
  auto lease = gate.admit_next();
  gate.submit(ask(4));
  gate.begin_step(1);
  lease.grow(10_tokens);
  lease.grow(10_tokens);
  REQUIRE_FALSE(gate.admit_next());
}

TEST_CASE("accepted drafts are computed in the next step, by chunks, and never past max_new") {
  Gate gate{{.capacity = 100_tokens, .chunk = 10_tokens}};
  auto const ticket = gate.submit(ask(10, 20)).ticket;
  REQUIRE_FALSE(gate.generated(ticket, 1_tokens));  // it waits
  step(gate);
  REQUIRE(gate.generated(ticket, 3_tokens));
  REQUIRE(step(gate).tokens() == 4_tokens);
  REQUIRE(gate.account(0).active_tokens == 14_tokens);
  REQUIRE(step(gate).tokens() == 1_tokens);
  REQUIRE(gate.generated(ticket, 100_tokens));
  REQUIRE(step(gate).tokens() == 10_tokens);
  REQUIRE(step(gate).tokens() == 5_tokens);
  REQUIRE(step(gate).tokens() == 0_tokens);
  REQUIRE(gate.account(0).active_tokens == 30_tokens);
  gate.finish(ticket);
  REQUIRE_FALSE(gate.generated(ticket, 1_tokens));
}

TEST_CASE("one that a plan started has a lease for whoever asks first, and one that waits has none") {
  Gate gate{{.capacity = 20_tokens}};
  auto const first = gate.submit(ask(10, 10, 4)).ticket, second = gate.submit(ask(15)).ticket;
  step(gate);
  REQUIRE_FALSE(gate.lease(second));
  {
    auto const lease = gate.lease(first);
    REQUIRE(lease.tokens() == 10_tokens);
    REQUIRE(lease.tag() == 4);
    REQUIRE_FALSE(gate.lease(first));
    step(gate);
    REQUIRE(lease.tokens() == 11_tokens);
  }
  REQUIRE(gate.account(0).completed == 1);
  REQUIRE_FALSE(gate.lease(first));
}

TEST_CASE("a plan says who gives way for whom, and starts nobody") {
  Gate gate{{.capacity = 20_tokens, .classes = 2}};
  gate.submit(ask(8, 12, 1));
  gate.submit(of_class(1, 8, 12, 2));
  for (int i = 0; i < 3; ++i) REQUIRE(step(gate).preempt.empty());
  gate.submit(ask(1, 0, 3));
  auto const plan = step(gate);
  REQUIRE(tags(plan.preempt) == Tags{2});
  REQUIRE(plan.preempt[0].reason() == Reason::preempted);
  REQUIRE(plan.preempt[0].beneficiary == RequestClass{0});
  REQUIRE(tags(plan.grow) == Tags{1});
  REQUIRE(plan.admit.empty());
  REQUIRE(gate.account(1).preempted == 1);
  REQUIRE(gate.account(0).preempted_for == 1);
  auto const next = step(gate);
  REQUIRE(tags(next.wait) == Tags{2});
  REQUIRE(next.wait[0].verdict.needed == 11_blocks);  // what it held, and the token it had generated
}

TEST_CASE("what a victim was planned to compute is left out, and its tokens and blocks go to others") {
  AdmissionController<Smallest> gate{{.capacity = 41_tokens}};
  gate.submit(ask(5, 20, 1));
  gate.submit(ask(20, 20, 2));
  gate.submit(ask(9, 20, 3));
  for (int i = 0; i < 3; ++i) REQUIRE(step(gate).preempt.empty());  // 7 + 22 + 11
  auto const plan = step(gate, {.tokens = 2_tokens});               // the first took the last block, and a token of two
  REQUIRE(tags(plan.preempt) == Tags{1});
  REQUIRE(tags(plan.grow) == Tags{2, 3});
  REQUIRE(plan.tokens() == 2_tokens);
  REQUIRE(gate.account(0).active_tokens == 35_tokens);
  REQUIRE(gate.account(0).queued_tokens == 8_tokens);
}

TEST_CASE("one that gives way itself stops the others' step only where the policy says so") {
  auto const grown = [](bool others_go_on) {
    AdmissionController<Parts<order::Arrival, need::WholePrompt, victim::LeastComputed>> gate{{.capacity = 30_blocks, .footprint = paged(4_tokens)},
                                                                                              {.preemption = {.others_go_on = others_go_on}}};
    gate.submit(ask(8, 50, 1));   // 2 blocks, at their end
    gate.submit(ask(111, 9, 2));  // 28 blocks, one token left
    step(gate);
    return tags(step(gate).grow);
  };
  REQUIRE(grown(true) == Tags{2});
  REQUIRE(grown(false).empty());
}

TEST_CASE("where not enough can be freed others give way with the asker only if the policy says so") {
  auto const preempted = [](bool enough_or_none) {
    Gate gate{{.capacity = 13_tokens}, {.preemption = {.enough_or_none = enough_or_none}}};
    gate.submit(ask(5, 7, 1));
    auto const asker = gate.submit(ask(4, 8, 2)).ticket;
    gate.submit(ask(3, 8, 3));
    step(gate);
    gate.generated(asker, 7_tokens);
    return tags(step(gate).preempt);
  };
  REQUIRE(preempted(true) == Tags{2});
  REQUIRE(preempted(false) == Tags{3, 2});
}

TEST_CASE("what a window gives back is free once, also when its owner gives way in the same plan") {
  AdmissionLimits const limits{.capacity = 10_blocks,
                               .footprint = {.groups = {full_group(8_tokens), window_group(4_tokens, 1_tokens, 1)}, .in_flight = 11_tokens},
                               .more_pools = {{.capacity = 17_blocks}}};
  AdmissionController<Parts<order::Arrival, need::FirstChunk, victim::LeastComputed, holds::Exactly>> gate{limits};
  gate.submit(ask(60, 4, 1));
  while (gate.account(0).active_tokens < 61_tokens) step(gate, {.chunk = 10_tokens});
  gate.submit(ask(8, 8, 2));
  gate.submit(ask(16, 0, 3));
  step(gate, {.tokens = 13_tokens});  // 1, 8 and 4 tokens: all of pool 0, and 4 + 8 + 4 of the windows' 17
  REQUIRE(gate.pool().supply.available() == 0_blocks);
  REQUIRE(gate.pool(1).held == 16_blocks);
  auto const plan = step(gate, {.chunk = 11_tokens});  // the third needs 10 more of the windows, where 1 + 8 are
  REQUIRE(tags(plan.preempt) == Tags{2, 3});
  REQUIRE(tags(plan.grow) == Tags{1});
}

TEST_CASE("a controller on bad limits plans nothing and commits nothing") {
  Gate gate{{}};
  gate.submit(ask(1));
  auto const plan = gate.plan();
  REQUIRE(plan.tokens() == 0_tokens);
  REQUIRE_FALSE(gate.commit(plan));
}

TEST_CASE("a plan may be used for one controller after the other, and none does what another planned") {
  Gate small{{.capacity = 1'000_tokens, .max_live = 16}};
  Gate large{{.capacity = 1'000_tokens, .classes = 4'000, .tenants = 3, .max_live = 16}};
  small.submit(ask(10));
  large.submit(of_class(3'999, 10));
  Gate::StepPlan plan;
  small.plan({}, plan);
  REQUIRE(plan.admit.size() == 1);
  REQUIRE_FALSE(large.commit(plan));
  large.plan({}, plan);
  REQUIRE_FALSE(small.commit(plan));
  REQUIRE(large.commit(plan));
}

TEST_CASE("the digest tells apart what plans take") {
  AdmissionLimits const limits{.capacity = 100_blocks, .footprint = paged(16_tokens)};
  Supply supply{.clean = 100_blocks}, other_supply = supply;
  AdmissionController<ByArrival, BlockManager> one{limits, {}, {BlockManager{&supply}}}, other{limits, {}, {BlockManager{&other_supply}}};
  one.found(one.submit(ask(160)).ticket, {.active = 4_blocks});
  other.found(other.submit(ask(160)).ticket, {.idle = 4_blocks});
  REQUIRE(one.plan().admit[0].blocks[0] == 6_blocks);
  REQUIRE(other.plan().admit[0].blocks[0] == 10_blocks);
  REQUIRE(one.plan().digest() != other.plan().digest());
}

namespace {
/// Says that it has all, and gives nothing.
struct Liar {
  Blocks says;
  Supply supply() const { return {.clean = says}; }
  bool take(Blocks blocks) { return blocks == Blocks{}; }
  void give(Blocks) {}
};
}  // namespace

TEST_CASE("a commit whose source gives less than it said is not told as done") {
  AdmissionController<ByArrival, Liar> gate{{.capacity = 100_blocks, .footprint = paged(16_tokens)}, {}, {Liar{100_blocks}}};
  gate.submit(ask(160));
  REQUIRE_FALSE(gate.commit(gate.plan()));
  REQUIRE(gate.running() == 0);
  REQUIRE(gate.queued() == 1);
}

TEST_CASE("a plan that a former controller made, be it at the same address, names nobody here") {
  std::optional<Gate> gate;
  gate.emplace(AdmissionLimits{.capacity = 1'000_tokens, .max_live = 64});
  for (int i = 0; i < 8; ++i) gate->submit(ask(10));
  auto const plan = gate->plan();
  gate.emplace(AdmissionLimits{.capacity = 1'000_tokens, .max_live = 2});
  for (int i = 0; i < 30; ++i) {
    gate->begin_step(static_cast<std::uint64_t>(i));
    REQUIRE_FALSE(gate->commit(plan));
  }
}
