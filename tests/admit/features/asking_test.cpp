// What a request is told about where it is, by how much it is short, and how many more of a shape would start.
#include "gate.hpp"

using namespace kvbudget;
using namespace kvbudget::literals;

namespace {

using Gate = AdmissionController<ByArrival>;

/// It waits for a limit that counts no blocks: with it there would be `needed`, and `limit` may be. It is short of no blocks.
void counts(Verdict const& verdict, Reason reason, std::string const& field, std::uint64_t needed, std::uint64_t limit) {
  REQUIRE(verdict.queued());
  REQUIRE(verdict.reason == reason);
  REQUIRE(verdict.field == field);
  REQUIRE(verdict.needed == Blocks{needed});
  REQUIRE(verdict.limit == Blocks{limit});
  REQUIRE(verdict.short_by() == 0_blocks);
}

}  // namespace

TEST_CASE("one held back by a count is told the field, how many there would be and how many may be, and is short of no blocks") {
  SECTION("sequences") {
    Gate gate{{.capacity = 100_tokens, .max_running = 4}};
    gate.submit({.prompt = 10_tokens, .branches = 3});
    step(gate);
    counts(gate.why(gate.submit({.prompt = 10_tokens, .branches = 2}).ticket), Reason::running_limit, ".max_running", 5, 4);
  }
  SECTION("places kept for another class") {
    Gate gate{{.capacity = 100_tokens, .classes = 2, .class_limits = {{}, {.floor_running = 2}}, .max_running = 4}};
    gate.submit({.prompt = 10_tokens, .branches = 2});
    step(gate);
    gate.submit(of_class(1, 10));
    gate.submit(of_class(1, 10));
    counts(gate.why(gate.submit(of_class(0, 10)).ticket), Reason::class_floor, ".max_running", 3, 2);
  }
  SECTION("adapters") {
    Gate gate{{.capacity = 100_tokens, .adapters = 1}};
    gate.submit({.prompt = 10_tokens, .adapter = 1});
    step(gate);
    counts(gate.why(gate.submit({.prompt = 10_tokens, .adapter = 2}).ticket), Reason::adapter_limit, ".adapters", 2, 1);
  }
  SECTION("tokens of the step") {
    Gate gate{{.capacity = 100_tokens, .tokens_per_step = 50_tokens, .whole_prompts = true}};
    gate.submit(ask(30));
    step(gate);
    counts(gate.why(gate.submit(ask(25)).ticket), Reason::step_budget, ".tokens_per_step", 25, 20);
  }
  SECTION("requests of its class") {
    Gate gate{{.capacity = 100_tokens, .class_limits = {{.running = 1}}}};
    gate.submit(ask(30));
    step(gate);
    counts(gate.why(gate.submit(ask(25)).ticket), Reason::class_limit, ".running", 2, 1);
  }
  SECTION("tokens of its class") {
    Gate gate{{.capacity = 100_tokens, .class_limits = {{.tokens = 50_tokens}}}};
    gate.submit(ask(30));
    step(gate);
    counts(gate.why(gate.submit(ask(25)).ticket), Reason::class_limit, ".tokens", 55, 50);
  }
  SECTION("tokens that its class has still to compute") {
    Gate gate{{.capacity = 100_tokens, .class_limits = {{.to_compute = 30_tokens}}, .chunk = 10_tokens}};
    gate.submit(ask(30));
    step(gate);
    counts(gate.why(gate.submit(ask(25)).ticket), Reason::class_limit, ".to_compute", 45, 30);
  }
}

TEST_CASE("a request is short of blocks only where blocks are what it waits for") {
  Gate gate{{.capacity = 100_tokens, .headroom = 10_tokens}};
  REQUIRE(gate.submit(ask(60, 30)).short_by() == 0_blocks);  // nothing is decided yet
  gate.submit(ask(30, 60));
  auto const lease = gate.admit_next();
  REQUIRE(gate.submit(ask(30, 60)).short_by() == 0_blocks);
  auto const ticket = gate.submit(ask(35)).ticket;
  REQUIRE(gate.why(ticket).short_by() == 5_blocks);
  REQUIRE(gate.why(lease.ticket()).short_by() == 0_blocks);
}

TEST_CASE("a request behind a head that does not fit is told so, with limits on classes, too") {
  for (bool const limits : {false, true}) {
    AdmissionLimits of{.capacity = 100_tokens, .classes = 2};
    if (limits) of.class_limits = {{}, {.running = 5}};
    Gate gate{of};
    gate.submit(of_class(1, 60));
    step(gate);
    gate.submit(of_class(1, 50));
    auto const behind = gate.submit(of_class(0, 10)).ticket, last = gate.submit(of_class(1, 10)).ticket;
    REQUIRE(gate.why(behind).reason == Reason::behind_head);
    REQUIRE(gate.why(last).reason == Reason::behind_head);
  }
}

TEST_CASE("one that may pass a head is in the queue as long as the head may be passed") {
  Gate gate{{.capacity = 100_tokens}, {.order = {.bypass = {.passes = 1}}}};
  gate.submit(ask(60));
  gate.submit(ask(50));
  step(gate);
  auto const behind = gate.submit(ask(10)).ticket;
  REQUIRE(gate.why(behind).reason == Reason::in_queue);
  step(gate);
  REQUIRE(gate.why(gate.submit(ask(10)).ticket).reason == Reason::behind_head);
}

TEST_CASE("where somebody was preempted whoever would fit is told that nothing starts in this step") {
  Gate gate{{.capacity = 20_tokens}};
  gate.submit(ask(10, 10));
  gate.submit(ask(10, 10));
  step(gate);
  step(gate);
  auto const ticket = gate.submit(ask(1)).ticket;
  REQUIRE(gate.why(ticket).reason == Reason::yielding);
  REQUIRE(gate.more_of(ask(1)) == 0);
  gate.begin_step(gate.now() + 1);
  REQUIRE(gate.why(ticket).reason == Reason::behind_head);
  REQUIRE(gate.more_of(ask(1)) == 9);
}

TEST_CASE("asking changes nothing") {
  Gate gate{{.capacity = 20_tokens, .class_limits = {{.tokens = 15_tokens}}, .adapters = 1}, {.order = {.bypass = unbounded_bypass}}};
  gate.submit({.prompt = 10_tokens, .adapter = 1});
  auto const ticket = gate.submit({.prompt = 10_tokens, .adapter = 2}).ticket;
  auto const plan = gate.plan();
  for (int i = 0; i < 3; ++i) {
    gate.why(ticket);
    gate.more_of({.prompt = 5_tokens, .adapter = 3});
  }
  REQUIRE(gate.plan().digest() == plan.digest());
  REQUIRE(gate.commit(plan));
}

TEST_CASE("how many more of a shape would start is how many then start, under every limit") {
  struct Case {
    AdmissionLimits limits;
    Request shape;
    std::uint64_t expected;
  };
  std::vector<Case> const cases{
      {{.capacity = 100_tokens, .max_running = 5}, {.prompt = 3_tokens, .branches = 2}, 2},
      {{.capacity = 100_tokens, .class_limits = {{.tokens = 50_tokens}}}, ask(20), 2},
      {{.capacity = 100_tokens, .class_limits = {{.running = 3}}}, ask(20), 3},
      {{.capacity = 100_tokens, .classes = 2, .class_limits = {{.to_compute = 50_tokens}}}, ask(20), 2},
      {{.capacity = 100_tokens, .adapters = 1}, {.prompt = 30_tokens, .adapter = 9}, 3},
      {{.capacity = 100_tokens, .tokens_per_step = 35_tokens}, ask(10), 4},
      {{.capacity = 100_tokens, .tokens_per_step = 35_tokens, .whole_prompts = true}, ask(10), 3},
      {{.capacity = 100_tokens, .tokens_per_step = 35_tokens}, {.prompt = 30_tokens, .arrives = true}, 3},
      {{.capacity = 100_tokens, .max_length = 50_tokens}, ask(40, 1'000'000), 2},
      {{.capacity = 100_tokens, .max_length = 50_tokens}, ask(51), 0},
  };
  for (auto const& [limits, shape, expected] : cases) {
    Gate gate{limits};
    REQUIRE(gate.more_of(shape) == expected);
    for (std::uint64_t i = 0; i < expected + 2; ++i) gate.submit(shape);
    REQUIRE(gate.plan().admit.size() == expected);
  }
}
