// vLLM's rules F2 to F10 and E7 (facts/vllm.md) worked by hand. What vLLM itself did, step by step, is in tests/conformance, vllm-scheduler.
#include "steps.hpp"

#include <kvbudget/admit/policies/vllm_v1.hpp>
#include <kvbudget/size/vllm/layer_spec.hpp>

using namespace kvbudget;
using namespace kvbudget::literals;
using namespace steps;

namespace {

using Fcfs = AdmissionController<policies::VllmV1>;
using ByPriority = AdmissionController<policies::VllmV1Priority>;

}  // namespace

TEST_CASE("the last that started gives way, waits in front, and nobody starts in that step although there is room (F2, F3, F4)") {
  Fcfs gate{{.capacity = 4_blocks, .footprint = paged(16_tokens)}};
  gate.submit(ask('A', 32, 20));
  gate.submit(ask('B', 32, 20));
  REQUIRE(step(gate) == Did{.started = "AB"});
  gate.submit(ask('C', 8, 1));
  REQUIRE(step(gate) == Did{.preempted = "B", .went_on = "A"});  // A's 33rd token takes a third block
  REQUIRE(free(gate) == 1_blocks);
  REQUIRE(waiting(gate) == "BC");
}

TEST_CASE("a head that does not fit stops all behind it (F5)") {
  Fcfs gate{{.capacity = 4_blocks, .footprint = paged(16_tokens)}};
  gate.submit(ask('A', 32, 20));
  gate.submit(ask('B', 33, 1));
  gate.submit(ask('C', 8, 1));
  REQUIRE(step(gate) == Did{.started = "A"});
  REQUIRE(step(gate) == Did{.went_on = "A"});
  REQUIRE(waiting(gate) == "BC");
}

TEST_CASE("by priority the largest priority gives way, though it was scheduled already, and its tokens go to those behind (F2)") {
  ByPriority gate{{.capacity = 4_blocks, .footprint = paged(16_tokens)}};
  gate.submit(ask('A', 20, 9));
  REQUIRE(step(gate) == Did{.started = "A"});
  gate.submit(ask('B', 16, 9, -1));
  gate.submit(ask('C', 4, 9, -1));
  REQUIRE(step(gate) == Did{.went_on = "A", .started = "BC"});
  REQUIRE(free(gate) == 0_blocks);
  REQUIRE(step(gate, {.tokens = 2_tokens}) == Did{.preempted = "A", .went_on = "BC"});  // A's token first, then B's 17th takes A's block
}

TEST_CASE("of equal priority the one that came in last gives way, whenever it was submitted, and it returns to its place in the order (F2, F11)") {
  ByPriority gate{{.capacity = 2_blocks, .footprint = paged(16_tokens), .max_running = 2}};
  auto const at = [](Request request, std::uint64_t time) {
    request.arrival_time = time;
    return request;
  };
  gate.submit(at(ask('A', 16, 9), 7));
  gate.submit(at(ask('B', 16, 9), 5));
  REQUIRE(step(gate) == Did{.started = "BA"});
  gate.submit(at(ask('C', 9, 9), 6));
  gate.submit(at(ask('D', 9, 9, -1), 8));
  REQUIRE(step(gate) == Did{.preempted = "A", .went_on = "B"});
  REQUIRE(waiting(gate) == "DCA");
}

TEST_CASE("a request whose own turn it is gives way itself, and ends the step for those behind it (F2)") {
  ByPriority gate{{.capacity = 2_blocks, .footprint = paged(16_tokens)}};
  gate.submit(ask('A', 15, 9, 1));
  REQUIRE(step(gate) == Did{.started = "A"});
  gate.submit(ask('B', 8, 9));
  REQUIRE(step(gate) == Did{.went_on = "A", .started = "B"});
  REQUIRE(step(gate) == Did{.preempted = "A"});  // A's 17th token; B had room
  REQUIRE(step(gate) == Did{.went_on = "B"});
}

TEST_CASE("the gate looks for a whole prompt and takes a chunk, so two pass on the same blocks and one is preempted (F6)") {
  Fcfs gate{{.capacity = 20_blocks, .footprint = paged(16_tokens), .chunk = 32_tokens}};
  gate.submit(ask('A', 200, 5));
  gate.submit(ask('B', 200, 5));
  REQUIRE(step(gate) == Did{.started = "AB"});  // 13 of 20 blocks, then 13 of 18
  REQUIRE(free(gate) == 16_blocks);
  for (int i = 1; i < 5; ++i) REQUIRE(step(gate) == Did{.went_on = "AB"});
  REQUIRE(free(gate) == 0_blocks);
  REQUIRE(step(gate) == Did{.preempted = "B", .went_on = "A"});
  REQUIRE(free(gate) == 8_blocks);
  gate.submit(ask('C', 16, 1));
  REQUIRE(step(gate) == Did{.went_on = "A"});  // B needs 13 of 7
}

TEST_CASE("without the gate a prompt starts as soon as its first chunk fits (F6)") {
  Fcfs gate{{.capacity = 20_blocks, .footprint = paged(16_tokens), .chunk = 32_tokens}, {.need = {.scheduler_reserve_full_isl = false}}};
  gate.submit(ask('A', 300, 5));
  gate.submit(ask('B', 300, 5));
  REQUIRE(step(gate) == Did{.started = "AB"});
  for (int i = 1; i < 5; ++i) step(gate);
  REQUIRE(step(gate) == Did{.preempted = "B", .went_on = "A"});
  REQUIRE(step(gate) == Did{.went_on = "A", .started = "B"});  // and so on: it thrashes
}

TEST_CASE("the watermark is a share of all blocks, the null block counted, rounded down, and 0 when nothing runs (F7)") {
  policies::vllm_v1::Watermark const five{.watermark = 0.05};
  REQUIRE(five({.capacity = 64_blocks, .running = 1}) == 3_blocks);  // int(0.05 x 65) = int(3.25)
  REQUIRE(five({.capacity = 59_blocks, .running = 1}) == 3_blocks);  // int(0.05 x 60), of 59 it would be 2
  REQUIRE(five({.capacity = 8_blocks, .running = 1}) == 0_blocks);   // Percent{5} of 8 blocks is 1
  REQUIRE(five({.capacity = 64_blocks, .running = 0}) == 0_blocks);
  REQUIRE(five({.given = 4_blocks, .capacity = 64_blocks, .running = 1}) == 4_blocks);

  Fcfs gate{{.capacity = 64_blocks, .footprint = paged(16_tokens)}, {.headroom = {.watermark = 0.05}}};
  auto const whole = gate.submit(ask('A', 64 * 16, 1)).ticket;
  REQUIRE(step(gate) == Did{.started = "A"});
  gate.finish(whole);
  gate.submit(ask('B', 16, 16));
  gate.submit(ask('C', 60 * 16, 1));  // leaves 3
  REQUIRE(step(gate) == Did{.started = "BC"});
  gate.submit(ask('D', 1, 1));
  REQUIRE(step(gate).started.empty());
}

TEST_CASE("a window holds what its last step left of it, and starts only where what it could come to hold is free (E7, B2)") {
  auto const window = vllm::cache_group({.kind = vllm::SpecKind::sliding_window, .block = 16_tokens, .window = 64_tokens}, {.in_flight = 64_tokens});
  AdmissionLimits limits{
      .capacity = 9_blocks, .footprint = {.groups = {window}, .in_flight = 64_tokens}, .max_length = 2'048_tokens, .tokens_per_step = 64_tokens};
  Fcfs gate{limits};
  gate.submit(ask('A', 300, 6));  // 19 blocks, of which it holds at most 9
  for (auto const held : {4U, 8U, 8U, 8U, 7U, 5U, 5U, 5U, 4U, 5U}) {
    step(gate);
    REQUIRE(gate.pool().held == Blocks{held});
  }
  limits.capacity = 8_blocks;  // which is what it would hold
  Fcfs small{limits};
  small.submit(ask('A', 300, 6));
  REQUIRE(step(small) == Did{});
  limits.capacity = 4_blocks;  // of 64 tokens, and not the one more that B2 counts
  Fcfs tiny{limits};
  tiny.submit(ask('A', 64, 1));
  REQUIRE(step(tiny) == Did{.started = "A"});
}

TEST_CASE("a prompt that the pool can't hold waits for ever, and all behind it, where the recommended policy rejects it (F10)") {
  AdmissionLimits const limits{.capacity = 5_blocks, .footprint = paged(16_tokens)};
  Fcfs gate{limits};
  REQUIRE(gate.submit(ask('X', 100, 1)).queued());
  gate.submit(ask('Y', 1, 1));
  for (int i = 0; i < 3; ++i) REQUIRE(step(gate) == Did{});
  REQUIRE(waiting(gate) == "XY");
  AdmissionController<policies::Recommended> recommended{limits};
  REQUIRE(recommended.submit(ask('X', 100, 1)).reason == Reason::exceeds_capacity);
  recommended.submit(ask('Y', 1, 1));
  REQUIRE(step(recommended) == Did{.started = "Y"});
}

TEST_CASE("vLLM preempts another for a request that gives way itself, and the recommended policy only that one (I15)") {
  REQUIRE(asks_too_much(policies::VllmV1{}) == Did{.preempted = "CB", .went_on = "A"});
  REQUIRE(asks_too_much(policies::Recommended{}) == Did{.preempted = "B", .went_on = "AC"});
}

TEST_CASE("a watermark that is no share is refused, and starts nothing beside others") {
  for (double const watermark : {-0.1, 1.0, 1e30}) {
    AdmissionController<policies::VllmV1> gate{{.capacity = 100_blocks, .footprint = paged(16_tokens)}, {.headroom = {watermark}}};
    REQUIRE(std::string{gate.complaints()[0].field} == ".headroom.watermark");
    REQUIRE(policies::vllm_v1::Watermark{watermark}({.capacity = 100_blocks, .running = 1}) == Blocks::max());
  }
}
