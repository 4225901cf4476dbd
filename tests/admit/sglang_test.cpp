// Worked examples of SGLang's rules, by hand; what it decides on whole runs is compared in tests/conformance (sglang-admission).
#include "catch.hpp"

#include <kvbudget/admit/controller.hpp>
#include <kvbudget/admit/policies/sglang.hpp>

#include <random>
#include <string>
#include <vector>

using namespace kvbudget;
using namespace kvbudget::literals;
using policies::Sglang;
using policies::sglang::FutureWalk;
using policies::sglang::NewTokenRatio;
using policies::sglang::Result;
using policies::sglang::Schedule;

namespace {

using Gate = AdmissionController<Sglang>;

Request ask(std::uint64_t prompt, std::uint64_t max_new, std::uint64_t tag = 0, std::int32_t priority = 0) {
  return {.prompt = {prompt}, .max_new = {max_new}, .tag = tag, .priority = priority};
}

/// A pass: decided, and done.
template <class Policy>
auto pass(AdmissionController<Policy>& gate) {
  gate.begin_step(gate.now() + 1);
  auto const plan = gate.plan();
  REQUIRE(gate.commit(plan));
  REQUIRE(gate.balanced());
  return plan;
}

std::vector<std::uint64_t> tags(std::vector<Planned> const& list) {
  std::vector<std::uint64_t> all;
  for (auto const& one : list) all.push_back(one.tag);
  return all;
}
using Tags = std::vector<std::uint64_t>;

double ratio(Gate const& gate) { return gate.memory().ratio; }
auto const& decisions(Gate const& gate) { return gate.memory().decisions; }
bool near(double a, double b) { return a - b < 1e-9 && b - a < 1e-9; }

/// No charge for what those that run may still generate: as many start as the pool lets in, and room runs out later.
constexpr Sglang carefree{.conservativeness = 0};
constexpr Sglang by_priority{.preempts = true, .order = {.by_priority = true}};

}  // namespace

TEST_CASE("max_new is cut so that a token of the context and a page of the pool stay free (S02)") {
  auto const cut = [](AdmissionLimits const& limits, Request const& request) { return Sglang{}.most_new(request, Gate{limits, {}}.pool(), limits.max_length); };
  AdmissionLimits const pages{.capacity = 128_tokens, .footprint = paged(16_tokens), .max_length = 4'096_tokens};
  REQUIRE(cut(pages, ask(20, 200)) == 79_tokens);  // 128 - 32 - 16 - 1
  REQUIRE(cut(pages, ask(20, 5)) == 5_tokens);
  REQUIRE(cut(pages, ask(120, 5)) == 0_tokens);
  REQUIRE(cut({.capacity = 10'000_tokens, .max_length = 100_tokens}, ask(20, 200)) == 78_tokens);  // 99 - 20 - 1
}

TEST_CASE("a request starts when its prompt, max_new and a page are less than what is left, and waits when they are equal (S11)") {
  for (bool const fits : {true, false}) {
    Gate gate{{.capacity = 100_tokens}};
    gate.submit(ask(40, 9));             // charged 40 + 9 + 1: 50 are left
    gate.submit(ask(40, fits ? 8 : 9));  // 49, or 50
    auto const plan = pass(gate);
    REQUIRE(decisions(gate)[1].before == 50.0);
    REQUIRE(decisions(gate)[1].result == (fits ? Result::go_on : Result::no_token));
    REQUIRE(plan.admit.size() == (fits ? 2 : 1));
  }
}

TEST_CASE("a prompt longer than what is left of the chunk is cut at the page below, and goes on first in the next pass (S11, S14)") {
  Gate gate{{.capacity = 640_tokens, .footprint = paged(16_tokens)}, {.chunked_prefill = 48_tokens}};
  gate.submit(ask(20, 5, 1));
  gate.submit(ask(50, 5, 2));
  auto plan = pass(gate);
  REQUIRE(tags(plan.admit) == Tags{1, 2});
  REQUIRE(plan.admit[0].tokens == 20_tokens);  // takes 32 of the 48
  REQUIRE(plan.admit[1].tokens == 16_tokens);
  REQUIRE(decisions(gate)[1].chunked);
  REQUIRE(gate.memory().chunked == plan.admit[1].ticket());
  plan = pass(gate);
  REQUIRE(tags(plan.grow) == Tags{2});  // and the other does not decode: a pass prefills or decodes
  REQUIRE(plan.grow[0].tokens == 34_tokens);
  REQUIRE(decisions(gate)[0].result == Result::chunk_goes_on);
  plan = pass(gate);
  REQUIRE(tags(plan.grow) == Tags{1, 2});
  REQUIRE(plan.tokens() == 2_tokens);
}

TEST_CASE("a cut prompt that is given up leaves the next one its turn to be cut") {
  Gate gate{{.capacity = 640_tokens}, {.chunked_prefill = 16_tokens}};
  auto const first = gate.submit(ask(50, 5, 1)).ticket;
  gate.submit(ask(50, 5, 2));
  REQUIRE(tags(pass(gate).admit) == Tags{1});
  gate.cancel(first);
  REQUIRE(tags(pass(gate).admit) == Tags{2});
  for (int i = 0; i < 3; ++i) REQUIRE(tags(pass(gate).grow) == Tags{2});
  REQUIRE(gate.memory().chunked == Ticket{});
}

TEST_CASE("a step's budget of tokens bounds a prefill as a chunk does, and less than a page starts nothing") {
  Gate gate{{.capacity = 640_tokens, .footprint = paged(16_tokens)}};
  gate.submit(ask(50, 5));
  REQUIRE(gate.plan({.tokens = 20_tokens}).admit[0].tokens == 16_tokens);
  auto const plan = gate.plan({.tokens = 15_tokens});
  REQUIRE(plan.admit.empty());
  REQUIRE(plan.wait[0].reason() == Reason::step_budget);
}

TEST_CASE("without chunks the first prompt starts however long it is, and a further one waits for the tokens of a prefill (S11)") {
  Gate gate{{.capacity = 1'000_tokens}, {.chunked_prefill = Tokens::max(), .max_prefill = 100_tokens}};
  for (std::uint64_t const prompt : {150U, 60U, 40U}) gate.submit(ask(prompt, 5, prompt));
  REQUIRE(tags(pass(gate).admit) == Tags{150});
  REQUIRE(tags(pass(gate).admit) == Tags{60});
  REQUIRE(decisions(gate)[1].result == Result::other);  // 40 >= 100 - 60
  REQUIRE(tags(pass(gate).admit) == Tags{40});
}

TEST_CASE("with chunks a prefill's tokens stop the scan only once they are spent (S12)") {
  Gate gate{{.capacity = 1'000_tokens}, {.max_prefill = 100_tokens}};
  for (std::uint64_t const prompt : {60U, 70U, 10U}) gate.submit(ask(prompt, 5, prompt));
  REQUIRE(tags(pass(gate).admit) == Tags{60, 70});
  REQUIRE(decisions(gate)[1].result == Result::other);
}

TEST_CASE("an admitted request is charged whole pages, all of max_new and a page, a cut prompt its part without max_new (S12)") {
  Gate gate{{.capacity = 640_tokens, .footprint = paged(16_tokens)}, {.chunked_prefill = 64_tokens}};
  gate.submit(ask(20, 5));
  gate.submit(ask(50, 7));
  pass(gate);
  REQUIRE(decisions(gate)[0].before - decisions(gate)[0].after == 32 + 5 + 16);
  REQUIRE(decisions(gate)[1].before - decisions(gate)[1].after == 32 + 16);
  pass(gate);
  REQUIRE(decisions(gate)[0].before - decisions(gate)[0].after == 32 + 7 + 16);  // the 18 that were left of it
}

TEST_CASE("a finished request gives its blocks back, and sits in the batch and is charged until the next decode (S10)") {
  for (std::uint64_t const seats : {1U, 2U}) {
    Gate gate{{.capacity = 100_tokens, .max_running = seats}};
    auto const first = gate.submit(ask(10, 20)).ticket;
    pass(gate);
    pass(gate);  // it has 2 outputs
    gate.finish(first);
    REQUIRE(gate.pool().supply.available() == 100_blocks);
    gate.submit(ask(10, 20, 2));
    if (seats == 1) REQUIRE(pass(gate).admit.empty());
    REQUIRE(tags(pass(gate).admit) == Tags{2});
    REQUIRE(near(decisions(gate)[0].before, seats == 1 ? 100 : 100 - 18 * ratio(gate)));
  }
}

TEST_CASE("after one did not fit nobody is looked at until one that runs has left the batch (S13)") {
  Gate gate{{.capacity = 100_tokens}};
  auto const first = gate.submit(ask(50, 20, 1)).ticket;
  pass(gate);
  gate.submit(ask(50, 10, 2));
  pass(gate);
  REQUIRE(decisions(gate)[0].result == Result::no_token);
  REQUIRE(gate.memory().batch_is_full);
  gate.submit(ask(1, 1, 3));
  REQUIRE(gate.cancel(gate.submit(ask(1, 1, 4)).ticket));
  pass(gate);
  REQUIRE(decisions(gate).empty());
  gate.finish(first);
  pass(gate);  // drops it, and opens the latch
  REQUIRE(decisions(gate).empty());
  REQUIRE(tags(pass(gate).admit) == Tags{2, 3});
}

TEST_CASE("the latch opens when the first requests join an empty batch (S13)") {
  Gate gate{{.capacity = 100_tokens}};
  gate.submit(ask(50, 20, 1));
  gate.submit(ask(50, 10, 2));
  pass(gate);
  REQUIRE(gate.memory().batch_is_full);
  pass(gate);
  REQUIRE(decisions(gate).size() == 1);  // looked at again
  pass(gate);
  REQUIRE(decisions(gate).empty());
}

TEST_CASE("the latch opens when one of a prefill is done with it (S13)") {
  Gate gate{{.capacity = 100_tokens}};
  gate.submit(ask(50, 20, 1));
  pass(gate);
  pass(gate);
  auto const done = gate.submit(ask(1, 1, 2)).ticket;
  gate.submit(ask(50, 10, 3));
  REQUIRE(tags(pass(gate).admit) == Tags{2});
  REQUIRE(gate.memory().batch_is_full);
  gate.finish(done);
  pass(gate);
  REQUIRE(decisions(gate).size() == 1);
}

TEST_CASE("requests sit in max_running seats, and a prefill may be limited to fewer (S14)") {
  Gate gate{{.capacity = 1'000_tokens, .max_running = 3}, {.prefill_max_requests = 2}};
  for (std::uint64_t tag = 1; tag <= 5; ++tag) gate.submit(ask(10, 5, tag));
  REQUIRE(tags(pass(gate).admit) == Tags{1, 2});
  REQUIRE(decisions(gate)[2].result == Result::other);
  REQUIRE(tags(pass(gate).admit) == Tags{3});
  REQUIRE(gate.memory().batch_is_full);
  REQUIRE(tags(pass(gate).grow) == Tags{1, 2, 3});
}

TEST_CASE("known lengths are followed to the end: a token for each that still runs must be left at every completion (S15)") {
  FutureWalk walk;
  REQUIRE(walk.empty());
  walk.begin({{60, 20_tokens}, {30, 20_tokens}, {0, 7_tokens}});
  REQUIRE(walk.fits(63_tokens));  // 63 - 30 x 2 > 2, then 83 - 60 > 1
  REQUIRE_FALSE(walk.fits(62_tokens));
  walk.insert({70, 0_tokens});     // goes before the last: 30, 70, 60
  REQUIRE(walk.fits(123_tokens));  // 123 - 30 x 3 > 3, 143 - 70 x 2 > 2, 143 - 60 > 1
  REQUIRE_FALSE(walk.fits(122_tokens));
  FutureWalk sorted;
  sorted.begin({{30, 20_tokens}, {60, 20_tokens}, {70, 0_tokens}});
  REQUIRE(sorted.fits(103_tokens));
}

TEST_CASE("requests that ignore EOS are let in by their lengths alone, whatever the ratio counts on (S15)") {
  Request const known{.prompt = 20_tokens, .max_new = 40_tokens, .ignore_eos = true};
  for (std::uint64_t const capacity : {124U, 123U}) {  // 124 - 20 - 1 for the first, - 20 for its own prompt, - 2 x 40 > 2
    Gate gate{{.capacity = Tokens{capacity}}};
    gate.submit(known);
    gate.submit(known);
    REQUIRE(pass(gate).admit.size() == (capacity == 124 ? 2 : 1));
    REQUIRE(decisions(gate)[1].before == static_cast<double>(capacity - 61));  // by S11 61 tokens would have to be less
  }
}

TEST_CASE("the ratio falls with every decode to its floor (S20)") {
  Gate gate{{.capacity = 2'000_tokens}};
  gate.submit(ask(10, 1'500));
  pass(gate);
  REQUIRE(ratio(gate) == 0.7);
  pass(gate);
  REQUIRE(near(ratio(gate), 0.7 - (0.7 - 0.098) / 600));
  for (int i = 0; i < 600; ++i) pass(gate);
  REQUIRE(ratio(gate) == NewTokenRatio{1}.least);
  REQUIRE(near(ratio(gate), 0.098));
  REQUIRE(NewTokenRatio{2}.first == 1.0);  // at most 1
}

TEST_CASE("what running requests may still generate is counted by the ratio, 4096 tokens of it at most (S10)") {
  Gate gate{{.capacity = 100'000_tokens}};
  gate.submit(ask(1'000, 5'000));
  pass(gate);
  gate.submit(ask(10, 100));
  pass(gate);
  REQUIRE(near(decisions(gate)[0].before, 99'000 - 4'096 * 0.7));
}

TEST_CASE("when the next tokens do not fit, who has fewest outputs gives way, then the longest prompt, and queues at the tail (S21)") {
  Gate gate{{.capacity = 100_tokens}, carefree};
  gate.submit(ask(10, 60, 1));
  gate.submit(ask(12, 60, 2));
  pass(gate);
  pass(gate);                               // one each
  for (int i = 0; i < 39; ++i) pass(gate);  // 22 + 2 x 39 = 100 tokens
  gate.submit(ask(1, 1, 3));
  REQUIRE(gate.pool().supply.available() == 0_blocks);
  auto const plan = pass(gate);
  REQUIRE(tags(plan.preempt) == Tags{2});
  REQUIRE(tags(plan.grow) == Tags{1});
  REQUIRE(plan.memory.retraction.need == 2_tokens);
  REQUIRE(plan.memory.retraction.available == 0_tokens);
  REQUIRE(near(ratio(gate), 60.0 / 61));  // 40 outputs and 20 to come, of 60 asked for
  REQUIRE(tags(pass(gate).admit) == Tags{3});
  REQUIRE(gate.queued() == 1);
}

TEST_CASE("a retracted request is looked for by what it has left, and charged all of max_new again (S11, S12)") {
  Gate gate{{.capacity = 100_tokens}, carefree};
  auto const first = gate.submit(ask(10, 60, 1)).ticket;
  gate.submit(ask(12, 60, 2));
  for (int i = 0; i < 42; ++i) pass(gate);
  gate.finish(first);
  REQUIRE(tags(pass(gate).admit) == Tags{2});
  REQUIRE(decisions(gate)[0].extend == 52_tokens);  // prompt and 40 outputs, and 52 + 20 + 1 < 100 - 19 x 60/61
  REQUIRE(near(decisions(gate)[0].before - decisions(gate)[0].after, 52 + 60 + 1));
}

TEST_CASE("only requests at the end of a page need another one to decode (S21)") {
  Gate gate{{.capacity = 64_tokens, .footprint = paged(16_tokens)}, carefree};
  gate.submit(ask(16, 8, 1));
  gate.submit(ask(12, 8, 2));
  pass(gate);
  REQUIRE(gate.pool().supply.available() == 3_blocks);
  pass(gate);
  REQUIRE(gate.pool().supply.available() == 2_blocks);
  pass(gate);
  REQUIRE(gate.pool().supply.available() == 1_blocks);
}

TEST_CASE("who is looked at first: by arrival, the largest max_new, or the larger priority, and of equals who queued first (S30)") {
  auto const order = [](policies::sglang::Order how) {
    Gate gate{{.capacity = 1'000_tokens}, {.order = how}};
    for (auto const& one : {ask(10, 5, 1, 3), ask(10, 9, 2, 1), ask(10, 9, 3, 3), ask(10, 7, 4, -2)}) gate.submit(one);
    return tags(pass(gate).admit);
  };
  REQUIRE(order({}) == Tags{1, 2, 3, 4});
  REQUIRE(order({.schedule = Schedule::lof}) == Tags{2, 3, 4, 1});
  REQUIRE(order({.by_priority = true}) == Tags{1, 3, 2, 4});
  REQUIRE(order({.by_priority = true, .low_first = true}) == Tags{4, 2, 1, 3});
  REQUIRE(order({.schedule = Schedule::lof, .by_priority = true}) == Tags{3, 1, 2, 4});
}

TEST_CASE("without a seat the least urgent and latest gives way, when it is less urgent by more than the threshold (S31)") {
  for (std::int32_t const priority : {10, 11}) {
    Gate gate{{.capacity = 200_tokens, .max_running = 3}, by_priority};
    for (auto const& one : {ask(20, 20, 1, 0), ask(20, 20, 2, 0), ask(20, 20, 3, 5)}) gate.submit(one);
    pass(gate);
    gate.submit(ask(20, 20, 4, priority));
    auto const plan = pass(gate);
    REQUIRE(tags(plan.preempt) == (priority == 11 ? Tags{2} : Tags{}));
    REQUIRE(tags(plan.admit) == (priority == 11 ? Tags{4} : Tags{}));
    REQUIRE(plan.refuse.empty());
    REQUIRE(gate.queued() == 1);
  }
}

TEST_CASE("as many give way as it takes by their charge, nobody where that is not enough, and nobody for want of tokens alone (S31)") {
  constexpr Sglang all_counted{.conservativeness = 2, .preempts = true, .order = {.by_priority = true}};
  for (std::uint64_t const max_new : {46U, 47U, 80U, 81U}) {
    Gate gate{{.capacity = 100_tokens, .max_running = 2}, all_counted};
    gate.submit(ask(10, 35, 1, 0));
    gate.submit(ask(10, 35, 2, 1));
    REQUIRE(pass(gate).admit.size() == 2);
    gate.submit(ask(10, max_new, 3, 20));  // 100 - 2 x 10 - 2 x 34 = 12 tokens are left, 34 more for each that gives way
    REQUIRE(tags(pass(gate).preempt) == (max_new == 81 ? Tags{} : max_new == 46 ? Tags{1} : Tags{1, 2}));
    if (max_new < 81) REQUIRE(decisions(gate)[0].before == (max_new == 46 ? 100 - 10 - 34 : 100));
  }
  Gate gate{{.capacity = 100_tokens, .max_running = 2}, all_counted};
  gate.submit(ask(10, 35, 1, 0));
  pass(gate);
  gate.submit(ask(30, 60, 2, 20));  // there is a seat
  auto const plan = pass(gate);
  REQUIRE(plan.preempt.empty());
  REQUIRE(plan.wait[0].reason() == Reason::no_room);
  REQUIRE(plan.wait[0].verdict.needed == 91_blocks);
  REQUIRE(plan.wait[0].verdict.free - plan.wait[0].verdict.headroom == 56_blocks);  // 90 - 34
}

TEST_CASE("a plan that is abandoned leaves no trace, and a plan made twice is the same") {
  Gate gate{{.capacity = 100_tokens}, carefree};
  for (std::uint64_t tag = 1; tag <= 4; ++tag) gate.submit(ask(10 + tag, 60, tag));
  for (int i = 0; i < 60; ++i) {
    gate.begin_step(gate.now() + 1);
    double const before = ratio(gate);
    auto const abandoned = gate.plan(), plan = gate.plan();
    REQUIRE(abandoned.digest() == plan.digest());
    REQUIRE(abandoned.memory.ratio == plan.memory.ratio);
    REQUIRE(ratio(gate) == before);
    REQUIRE(gate.commit(plan));
  }
}

TEST_CASE("leases and why() go by the parts: room for prompt and max_new, in the order of S30, and no ratio") {
  Gate gate{{.capacity = 100_tokens}, {.order = {.schedule = Schedule::lof}}};
  auto const shorter = gate.submit(ask(40, 10, 1)).ticket;
  gate.submit(ask(40, 20, 2));
  auto const lease = gate.admit_next();
  REQUIRE(lease.tag() == 2);
  REQUIRE(gate.pool().held == 60_blocks);
  REQUIRE(gate.why(shorter).reason == Reason::no_room);
  REQUIRE(gate.why(shorter).needed == 50_blocks);
  REQUIRE(pass(gate).grow.empty());  // nobody's plan drives a lease
}

TEST_CASE("limits that SGLang has no rule for are bad limits, each by its name") {
  auto const first = [](AdmissionLimits const& limits) {
    Gate gate{limits};
    REQUIRE(gate.submit(ask(1, 1)).reason == Reason::bad_limits);
    REQUIRE(gate.plan().admit.empty());
    return std::string{gate.complaints()[0].field};
  };
  REQUIRE(first({.capacity = 100_tokens, .headroom = 5_tokens}) == ".headroom");
  REQUIRE(first({.capacity = 100_tokens, .class_limits = {{.running = 3}}}) == ".class_limits");
  REQUIRE(first({.capacity = 100_tokens, .adapters = 2}) == ".adapters");
  REQUIRE(first({.capacity = 100_tokens, .whole_prompts = true}) == ".whole_prompts");
  REQUIRE(first({.capacity = 100_tokens, .retires = true}) == ".retires");
  REQUIRE(std::string{Sglang{.victim = {.by_priority = true, .low_first = true}}.check({.capacity = 100_tokens})[0].field} == ".victim.low_first");
  REQUIRE(first({.capacity = 10_blocks, .footprint = {.groups = {window_group(64_tokens, 16_tokens)}}}) == ".footprint");
  REQUIRE(first({.capacity = 10_blocks, .footprint = {.groups = {full_group(16_tokens), full_group(16_tokens)}}}) == ".footprint");
}

// ---- what the original gets wrong, and Recommended does not ----

TEST_CASE("OBS-5: a prompt that leaves no page free never starts, and nobody behind it is looked at, where Recommended starts both") {
  AdmissionLimits const limits{.capacity = 128_tokens, .footprint = paged(16_tokens)};
  Gate original{limits};
  AdmissionController gate{limits};
  auto const too_long = ask(120, 8, 1), small = ask(1, 1, 2);
  original.submit(too_long);
  original.submit(small);
  for (int i = 0; i < 5; ++i) {
    REQUIRE(pass(original).admit.empty());
    REQUIRE(decisions(original).size() == (i == 0 ? 1 : 0));  // 120 + 0 + 16 >= 128
  }
  auto const ticket = gate.submit(too_long).ticket;
  gate.submit(small);
  REQUIRE(tags(pass(gate).admit) == Tags{1});
  gate.finish(ticket);
  REQUIRE(tags(pass(gate).admit) == Tags{2});
}

TEST_CASE("OBS-5: what can never fit is queued for ever, where Recommended rejects it at submit") {
  AdmissionLimits const limits{.capacity = 128_tokens, .footprint = paged(16_tokens)};
  Gate original{limits};
  REQUIRE(original.submit(ask(129, 0)).queued());
  REQUIRE(pass(original).wait.size() == 1);
  REQUIRE(AdmissionController{limits}.submit(ask(129, 0)).reason == Reason::exceeds_capacity);
}

TEST_CASE("OBS-6: once the only request is aborted the ratio is 0, below its floor, where Recommended remembers nothing") {
  Gate original{{.capacity = 100_tokens}};
  original.submit(ask(10, 50, 1));
  pass(original);
  REQUIRE(original.resize(10_tokens).empty());  // a pool that shrinks: else max_new is cut so that the last one always fits
  auto const plan = pass(original);
  REQUIRE(tags(plan.refuse) == Tags{1});
  REQUIRE(plan.refuse[0].verdict.rejected());
  REQUIRE(ratio(original) == 0.0);
  REQUIRE(original.drained());
  REQUIRE(original.resize(100_tokens).empty());
  original.submit(ask(10, 50, 2));
  pass(original);
  REQUIRE(ratio(original) == 0.0);
  pass(original);
  REQUIRE(ratio(original) == NewTokenRatio{1}.least);

  AdmissionLimits const limits{.capacity = 100_tokens};
  AdmissionController gate{limits}, fresh{limits};
  gate.submit(ask(10, 50, 1));
  pass(gate);
  REQUIRE(gate.resize(10_tokens).empty());
  pass(gate);
  REQUIRE(gate.drained());
  REQUIRE(gate.resize(100_tokens).empty());
  for (std::uint64_t const prompt : {40U, 40U, 40U}) {
    gate.submit(ask(prompt, 50, prompt));
    fresh.submit(ask(prompt, 50, prompt));
  }
  REQUIRE(tags(pass(gate).admit) == tags(pass(fresh).admit));
}

TEST_CASE("OBS-7: beside a prompt that is cut Recommended refuses nobody for want of room: who asks gives way, and finishes later") {
  AdmissionController gate{{.capacity = 18_tokens, .chunk = 4_tokens}};
  gate.submit(ask(4, 8, 1));
  gate.submit(ask(12, 2, 2));
  Tags gave_way;
  for (int i = 0; i < 60 && !gate.drained(); ++i) {
    auto const plan = pass(gate);
    REQUIRE(plan.refuse.empty());
    for (auto const tag : tags(plan.preempt)) gave_way.push_back(tag);
    for (auto const& one : plan.grow)
      if (one.reserved == (one.tag == 1 ? 12_tokens : 14_tokens)) gate.finish(one.ticket());
  }
  REQUIRE(gave_way == Tags{1});
  REQUIRE(gate.drained());
}

TEST_CASE("OBS-8: a request never looked at preempts as if it had no prompt, for nothing, and the victim is lost, where Recommended preempts nobody") {
  AdmissionLimits const limits{.capacity = 100_tokens, .max_running = 2};
  Gate original{limits, by_priority};
  AdmissionController gate{limits};
  auto const urgent = ask(60, 10, 3, 20);
  for (auto const& one : {ask(30, 10, 1, 0), ask(30, 10, 2, 50)}) {
    original.submit(one);
    gate.submit(one);
  }
  REQUIRE(pass(original).admit.size() == 2);
  REQUIRE(pass(gate).admit.size() == 2);
  original.submit(urgent);
  gate.submit(urgent);

  auto const plan = pass(original);
  REQUIRE(tags(plan.preempt) == Tags{1});
  REQUIRE(plan.admit.empty());  // 60 + 10 + 1 >= 70 - 9 x 0.7
  REQUIRE(tags(plan.refuse) == Tags{1});
  REQUIRE(plan.refuse[0].reason() == Reason::preempted);
  REQUIRE(tags(plan.grow) == Tags{2});
  original.submit(ask(1, 1, 4, 0));
  REQUIRE(pass(original).preempt.empty());  // now its prompt counts

  auto const recommended = pass(gate);
  REQUIRE(recommended.preempt.empty());
  REQUIRE(recommended.refuse.empty());
  REQUIRE(tags(recommended.grow) == Tags{1, 2});
}

// ---- at random: what is held is what was computed, and what is counted is what the rules say of each request ----

namespace {

struct Known {
  Ticket ticket;
  std::uint64_t prompt, max_new, computed, out;
  enum class At { waits, in_prefill, cut, in_batch, left, gone } at;
};

class Model {
 public:
  explicit Model(std::uint64_t seed) : random_{seed}, page_{pick({1, 4, 16})}, gate_{limits(), policy()} {}

  void run(int passes) {
    for (int i = 0; i < passes; ++i) {
      while (draw(3) == 0) submit();
      if (draw(6) == 0) leave(draw(2) == 0);
      if (draw(40) == 0) gate_.resize(Blocks{draw(12) + 8});
      step();
    }
  }

 private:
  std::uint64_t draw(std::uint64_t below) { return random_() % below; }
  std::uint64_t pick(std::vector<std::uint64_t> const& from) { return from[draw(from.size())]; }

  AdmissionLimits limits() { return {.capacity = Blocks{draw(12) + 8}, .footprint = paged(Tokens{page_}), .max_live = 32, .max_running = draw(6) + 1}; }
  Sglang policy() {
    bool const prioritised = draw(2) == 0;
    return {.chunked_prefill = draw(3) == 0 ? Tokens::max() : Tokens{page_ * (draw(3) + 1)},
            .max_prefill = Tokens{pick({20, 100, 10'000})},
            .conservativeness = static_cast<double>(draw(30)) / 10,
            .preempts = prioritised,
            .preemption_threshold = 2,
            .order = {.schedule = draw(2) == 0 ? Schedule::fcfs : Schedule::lof, .by_priority = prioritised}};
  }

  void submit() {
    Request const request{.prompt = Tokens{draw(page_ * 6) + 1},
                          .max_new = Tokens{draw(40)},
                          .tag = known_.size(),
                          .priority = static_cast<std::int32_t>(draw(9)),
                          .ignore_eos = draw(5) == 0};
    auto const verdict = gate_.submit(request);
    if (verdict.rejected()) return;
    known_.push_back({verdict.ticket, request.prompt.count, gate_.policy().most_new(request, gate_.pool(), Tokens::max()).count, 0, 0, Known::At::waits});
  }

  /// One that is here is complete or given up, wherever it is.
  void leave(bool completed) {
    if (known_.empty()) return;
    Known& one = known_[draw(known_.size())];
    bool const here = one.at != Known::At::left && one.at != Known::At::gone;
    REQUIRE((completed ? gate_.finish(one.ticket) : gate_.cancel(one.ticket)) == here);
    if (here) gone(one);
  }
  static void gone(Known& one) {
    one.at = one.at == Known::At::in_batch ? Known::At::left : Known::At::gone;
    one.computed = 0;
  }

  void step() {
    gate_.begin_step(gate_.now() + 1);
    for (auto& one : known_)
      if (one.at == Known::At::in_prefill) one.at = Known::At::in_batch;
    double const counted = naive_rem_total();
    auto const plan = gate_.plan();
    REQUIRE(plan.digest() == gate_.plan().digest());
    REQUIRE(gate_.commit(plan));
    REQUIRE(gate_.balanced());
    if (!plan.memory.decisions.empty() && plan.preempt.empty()) REQUIRE(near(plan.memory.decisions[0].before, counted));
    follow(plan);
    std::uint64_t held = 0;
    for (auto const& one : known_) held += (one.computed + page_ - 1) / page_;
    REQUIRE(gate_.pool().held.count == held);
    for (auto& one : known_)
      if (one.at != Known::At::waits && one.out >= one.max_new && gate_.finish(one.ticket)) gone(one);
  }

  void follow(Gate::StepPlan const& plan) {
    bool const prefills = !plan.memory.prefilled.empty();
    for (auto const& one : plan.preempt) {
      known_[one.tag].at = Known::At::waits;
      known_[one.tag].computed = 0;
    }
    for (auto const& one : plan.refuse) known_[one.tag].at = Known::At::gone;
    for (auto const* list : {&plan.grow, &plan.admit})
      for (auto const& one : *list) {
        Known& of = known_[one.tag];
        of.computed += one.tokens.count;
        bool const cut = of.ticket == plan.memory.chunked;
        if (prefills) of.at = cut ? Known::At::cut : Known::At::in_prefill;
        of.out += !cut;
        REQUIRE(of.computed <= of.prompt + of.out);
      }
    if (prefills) return;
    for (auto& one : known_)
      if (one.at == Known::At::left) one.at = Known::At::gone;
  }

  double naive_rem_total() const {
    double rem = static_cast<double>(gate_.pool().supply.available().count * page_);
    for (auto const& one : known_)
      if (one.at == Known::At::in_batch || one.at == Known::At::left) rem -= static_cast<double>(one.max_new - one.out) * gate_.memory().ratio;
    return rem;
  }

  std::mt19937_64 random_;
  std::uint64_t page_;
  Gate gate_;
  std::vector<Known> known_;
};

}  // namespace

TEST_CASE("at random, blocks held are those of what was computed, every victim waits or is refused, and S10 counts what a naive sum counts") {
  for (std::uint64_t seed = 0; seed < 150; ++seed) {
    INFO("seed " << seed);
    Model{seed}.run(150);
  }
}
