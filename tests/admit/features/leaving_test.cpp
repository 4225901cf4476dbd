// Who leaves though nobody finished or cancelled it: the caller is told, of plans by the plan, and of all by left().
#include "gate.hpp"

using namespace kvbudget;
using namespace kvbudget::literals;

using Gate = AdmissionController<ByArrival>;

namespace {
Request until(std::uint64_t deadline, std::uint64_t tag) { return {.prompt = 10_tokens, .max_new = 10_tokens, .tag = tag, .deadline = deadline}; }
}  // namespace

TEST_CASE("a deadline that is past is told of in the step it is found in, whether the request runs or waits") {
  Gate gate{{.capacity = 25_tokens}};
  gate.begin_step(1);
  gate.submit(until(1, 7));
  gate.submit(until(1, 8));
  REQUIRE(tags(step(gate).admit).empty());  // step 2: both are past
  REQUIRE(gate.left().size() == 2);
  gate.submit(until(3, 9));
  REQUIRE(tags(step(gate).admit) == Tags{9});
  REQUIRE(gate.left().empty());
  step(gate);
  REQUIRE(gate.left().size() == 1);
  REQUIRE(gate.left()[0].tag == 9);
  REQUIRE(gate.left()[0].reason == Reason::expired);
  REQUIRE(gate.left()[0].had_started);
  REQUIRE(gate.running() == 0);
}

TEST_CASE("who gives way in a pool that has become too small for it is refused by the plan, with the numbers") {
  AdmissionController<Smallest> gate{{.capacity = 1'000_tokens}};
  gate.submit(ask(500, 300, 1));
  gate.submit(ask(400, 300, 2));
  step(gate);
  REQUIRE(gate.resize(600_tokens).empty());
  gate.begin_step(2);
  auto const plan = gate.plan();
  REQUIRE(tags(plan.preempt) == Tags{2});
  REQUIRE(tags(plan.refuse) == Tags{2});
  REQUIRE(plan.refuse[0].reason() == Reason::exceeds_capacity);
  REQUIRE(plan.refuse[0].verdict.needed == 700_blocks);
  REQUIRE(plan.refuse[0].verdict.limit == 600_blocks);
  REQUIRE(gate.commit(plan));
  REQUIRE(gate.queued() == 0);
  REQUIRE(gate.left().size() == 1);
  REQUIRE(gate.left()[0].tag == 2);
  REQUIRE(gate.left()[0].had_started);
}

TEST_CASE("who waits and can never fit after a shrink is told of at once") {
  Gate gate{{.capacity = 100_tokens}};
  gate.submit(ask(60, 30, 5));
  REQUIRE(gate.resize(50_tokens).empty());
  REQUIRE(gate.left().size() == 1);
  REQUIRE(gate.left()[0].tag == 5);
  REQUIRE(gate.left()[0].reason == Reason::exceeds_capacity);
  REQUIRE_FALSE(gate.left()[0].had_started);
}

TEST_CASE("a request whose answer was cut to the longest length is told to what") {
  Gate gate{{.capacity = 1'000_tokens, .max_length = 100_tokens}};
  auto const cut = gate.submit(ask(90, 400));
  REQUIRE(cut.queued());
  REQUIRE(std::string{cut.field} == ".max_new");
  REQUIRE(cut.max_new == 10_tokens);
  REQUIRE(std::string{gate.submit(ask(90, 10)).field}.empty());
  REQUIRE(gate.submit(ask(101, 400)).reason == Reason::bad_request);
}
