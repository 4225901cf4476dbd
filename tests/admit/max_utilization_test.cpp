// TensorRT-LLM's MAX_UTILIZATION worked by hand (facts/admission.md B.1, B10).
#include "steps.hpp"

#include <kvbudget/admit/policies/max_utilization.hpp>

using namespace kvbudget;
using namespace kvbudget::literals;
using namespace steps;

namespace {
using Gate = AdmissionController<policies::MaxUtilization>;
}

TEST_CASE("a request starts when its whole prompt has room, though the step computes a chunk of it, and one that has none stops those behind") {
  Gate gate{{.capacity = 10_blocks, .footprint = paged(16_tokens), .chunk = 16_tokens}};
  gate.submit(ask('A', 100, 20));
  gate.submit(ask('B', 64, 20));
  gate.submit(ask('C', 16, 20));
  REQUIRE(step(gate) == Did{.started = "A"});
  REQUIRE(free(gate) == 3_blocks);  // A has 7 for its 100 tokens, and B needs 4
  REQUIRE(step(gate) == Did{.went_on = "A"});
  REQUIRE(waiting(gate) == "BC");
}

TEST_CASE("the last that started is paused, nothing of it is kept, and nobody starts in that step") {
  Gate gate{{.capacity = 4_blocks, .footprint = paged(16_tokens)}};
  auto const first = gate.submit(ask('A', 32, 20)).ticket;
  gate.submit(ask('B', 31, 20));
  REQUIRE(step(gate) == Did{.started = "AB"});
  gate.submit(ask('C', 8, 1));
  REQUIRE(step(gate) == Did{.preempted = "B", .went_on = "A"});
  REQUIRE(free(gate) == 1_blocks);
  REQUIRE(waiting(gate) == "BC");
  gate.finish(first);
  gate.begin_step(gate.now() + 1);
  auto const plan = gate.plan();
  REQUIRE(names(plan.admit) == "BC");
  REQUIRE(plan.admit[0].tokens == 32_tokens);  // its prompt, and the token it had generated
}

TEST_CASE("with overlap a step has room for the next one, too") {
  auto const held_after = [](Tokens lookahead, int steps) {
    Gate gate{{.capacity = 4_blocks, .footprint = paged(16_tokens)}};
    Request request = ask('A', 15, 20);
    request.lookahead = lookahead;
    gate.submit(request);
    for (int i = 0; i < steps; ++i) step(gate);
    return gate.pool().held;
  };
  REQUIRE(held_after(0_tokens, 1) == 1_blocks);
  REQUIRE(held_after(0_tokens, 2) == 1_blocks);
  REQUIRE(held_after(0_tokens, 3) == 2_blocks);
  REQUIRE(held_after(1_tokens, 1) == 1_blocks);
  REQUIRE(held_after(1_tokens, 2) == 2_blocks);
}

TEST_CASE("others stay paused for a request that is then paused itself, and the recommended policy spares them (I15)") {
  REQUIRE(asks_too_much(policies::MaxUtilization{}) == Did{.preempted = "CB", .went_on = "A"});
  REQUIRE(asks_too_much(policies::Recommended{}) == Did{.preempted = "B", .went_on = "AC"});
}

TEST_CASE("what can't fit alone is rejected at submit, where the original passes it over for ever (I8, I9)") {
  Gate gate{{.capacity = 4_blocks, .footprint = paged(16_tokens)}};
  REQUIRE(gate.submit(ask('A', 60, 5)).reason == Reason::exceeds_capacity);
  REQUIRE(gate.submit(ask('A', 60, 4)).queued());
}
