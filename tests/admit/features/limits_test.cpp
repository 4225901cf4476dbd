// Adapters, lengths, prompts that are not cut, and what check() says of limits.
#include "gate.hpp"

using namespace kvbudget;
using namespace kvbudget::literals;

using Gate = AdmissionController<ByArrival>;

namespace {
Request with_adapter(std::uint64_t adapter, std::uint64_t tag, std::uint64_t max_new = 0) {
  return {.prompt = 10_tokens, .max_new = {max_new}, .tag = tag, .adapter = adapter};
}
}  // namespace

TEST_CASE("a request whose adapter does not fit is skipped, and stops nobody, even in strict order") {
  Gate gate{{.capacity = 1'000_tokens, .adapters = 2}};
  for (std::uint64_t const adapter : {7U, 8U, 9U, 7U, 0U}) gate.submit(with_adapter(adapter, adapter));
  gate.submit(with_adapter(9, 10));
  auto const plan = step(gate);
  REQUIRE(tags(plan.admit) == Tags{7, 8, 7, 0});
  REQUIRE(tags(plan.wait) == Tags{9, 10});
  auto const verdict = plan.wait[0].verdict;
  REQUIRE(verdict.reason == Reason::adapter_limit);
  REQUIRE(std::string{verdict.field} == ".adapters");
  REQUIRE(verdict.limit == 2_blocks);
  gate.finish(plan.admit[0].ticket());
  REQUIRE(step(gate).admit.empty());  // the other one with adapter 7 still runs
  gate.finish(plan.admit[2].ticket());
  REQUIRE(tags(step(gate).admit) == Tags{9, 10});
}

TEST_CASE("adapters of leases count, and one that is given up or preempted leaves its adapter") {
  Gate gate{{.capacity = 20_tokens, .adapters = 1}};
  gate.submit(with_adapter(0, 1, 10));
  gate.submit(with_adapter(7, 2, 10));
  auto leases = admit_all(gate);
  auto const other = gate.submit(with_adapter(8, 3)).ticket;
  REQUIRE(gate.why(other).reason == Reason::adapter_limit);
  SECTION("given up") {
    leases[1].cancel();
    REQUIRE(gate.admit_next().tag() == 3);
  }
  SECTION("preempted") {
    REQUIRE(leases[0].grow(1_tokens).admitted());
    REQUIRE(leases[1].ended());
    REQUIRE(gate.why(other).reason == Reason::no_room);
  }
}

TEST_CASE("with no limit on adapters nobody is skipped") {
  Gate gate{{.capacity = 1'000_tokens}};
  for (std::uint64_t adapter = 1; adapter <= 50; ++adapter) gate.submit(with_adapter(adapter, adapter));
  REQUIRE(step(gate).admit.size() == 50);
}

TEST_CASE("prompt + max_new is cut to the longest sequence there is, and a longer prompt is rejected") {
  Gate gate{{.capacity = 1'000_tokens, .max_length = 100_tokens}};
  auto const longest = [&](std::uint64_t prompt) {
    gate.submit(ask(prompt, 500));
    auto lease = gate.admit_next();
    lease.grow(500_tokens);
    return lease.tokens();
  };
  REQUIRE(longest(60) == 100_tokens);
  REQUIRE(longest(99) == 100_tokens);
  REQUIRE(longest(100) == 100_tokens);
  auto const verdict = gate.submit(ask(101));
  REQUIRE(verdict.reason == Reason::bad_request);
  REQUIRE(std::string{verdict.field} == ".prompt");
  REQUIRE(verdict.needed == 101_blocks);
  REQUIRE(verdict.limit == 100_blocks);
}

TEST_CASE("a max_new that is huge is no reason to reject where the length is limited") {
  AdmissionController<Parts<order::Arrival, need::PromptAndNew>> gate{{.capacity = 150_tokens, .max_length = 100_tokens}};
  Request const huge{.prompt = 10_tokens, .max_new = Tokens::max()};
  REQUIRE(gate.more_of(huge) == 1);
  REQUIRE(gate.submit(huge).queued());
  auto const lease = gate.admit_next();
  REQUIRE(gate.pool().held == 100_blocks);
}

TEST_CASE("whole prompts start only where the step computes all of them, and one that no step computes is rejected") {
  Gate gate{{.capacity = 1'000_tokens, .tokens_per_step = 100_tokens, .whole_prompts = true}};
  auto const never = gate.submit(ask(60, 41));  // after a preemption at its end all 101 were computed at once
  REQUIRE(never.reason == Reason::exceeds_step);
  REQUIRE(std::string{never.field} == ".tokens_per_step");
  REQUIRE(never.needed == 101_blocks);
  REQUIRE(never.limit == 100_blocks);
  gate.submit(ask(60, 40, 1));
  gate.submit(ask(60, 40, 2));
  auto plan = step(gate);
  REQUIRE(tags(plan.admit) == Tags{1});
  REQUIRE(plan.wait[0].reason() == Reason::step_budget);
  REQUIRE(plan.wait[0].verdict.needed == 60_blocks);
  REQUIRE(plan.wait[0].verdict.free == 40_blocks);
  plan = step(gate);
  REQUIRE(tokens_of(plan, 1) == 1_tokens);
  REQUIRE(tokens_of(plan, 2) == 60_tokens);
}

TEST_CASE("a chunk is the most of a prompt that is not cut, too") {
  Gate gate{{.capacity = 1'000_tokens, .chunk = 50_tokens, .whole_prompts = true}};
  REQUIRE(gate.submit(ask(50)).queued());
  REQUIRE(gate.submit(ask(51)).reason == Reason::exceeds_step);
  REQUIRE(step(gate, {.chunk = 49_tokens}).admit.empty());
  REQUIRE(step(gate).admit.size() == 1);
}

TEST_CASE("what is found cached is not computed, so that a prompt fits into a step that is too short for all of it") {
  Gate gate{{.capacity = 100_blocks, .footprint = paged(16_tokens), .tokens_per_step = 100_tokens, .whole_prompts = true}};
  gate.submit(ask(70, 0, 1));
  auto const ticket = gate.submit(ask(90, 0, 2)).ticket;
  gate.found(ticket, {.idle = 4_blocks});
  auto const plan = step(gate);
  REQUIRE(tags(plan.admit) == Tags{1, 2});
  REQUIRE(plan.admit[1].tokens == 26_tokens);
  REQUIRE(plan.admit[1].found == 64_tokens);
}

TEST_CASE("every complaint about limits names its field, its value and its class") {
  struct Case {
    AdmissionLimits limits;
    Complaint expected;
  };
  auto const classes = [](ClassLimit const& limit) {
    return AdmissionLimits{.capacity = 100_tokens, .classes = 2, .class_limits = {{}, limit}, .max_running = 8};
  };
  AdmissionLimits too_many{.capacity = 100_tokens, .classes = 40};
  for (int i = 0; i < 33; ++i) too_many.class_limits.push_back({});
  std::vector<Case> const cases{
      {{.capacity = 100_tokens, .max_running = 0}, {".max_running", 0}},
      {{.capacity = 100_tokens, .tenants = 0}, {".tenants", 0}},
      {{.capacity = 100_tokens, .classes = 1'024, .tenants = 1'025}, {".tenants", 1'025}},
      {{.capacity = 100_tokens, .max_length = 0_tokens}, {".max_length", 0}},
      {{.capacity = 100_tokens, .tokens_per_step = 0_tokens}, {".tokens_per_step", 0}},
      {{.capacity = 100_tokens, .chunk = 0_tokens}, {".chunk", 0}},
      {{.capacity = 100_tokens, .class_limits = {{}, {}}}, {".class_limits", 2}},
      {too_many, {".class_limits", 33}},
      {classes({.floor = 50_tokens, .tokens = 49_tokens}), {".tokens", 49, "", "", 1}},
      {classes({.share = Percent{101}}), {".share", 1'010'000, "", "", 1}},
      {classes({.floor_running = 3, .running = 2}), {".running", 2, "", "", 1}},
      {classes({.running = 0}), {".running", 0, "", "", 1}},
      {classes({.tokens = 0_tokens}), {".tokens", 0, "", "", 1}},
      {classes({.floor = 101_tokens}), {".floor", 101}},
      {classes({.floor_running = 9}), {".floor_running", 9}},
      {{.capacity = 100_tokens, .classes = 2, .class_limits = {{.share = Percent{60}}, {.floor = 41_tokens}}}, {".floor", 101}},
      {{.capacity = 100_blocks, .footprint = {.groups = {full_group(16_tokens), fixed_group(1_blocks)}}, .class_limits = {{.floor = 5_tokens}}}, {".floor", 5}},
  };
  for (auto const& of : cases) {
    auto const complaints = check(of.limits);
    CAPTURE(of.expected.field, of.expected.value);
    REQUIRE_FALSE(complaints.empty());
    REQUIRE(std::string{complaints[0].field} == of.expected.field);
    REQUIRE(complaints[0].value == of.expected.value);
    REQUIRE(complaints[0].index == of.expected.index);
    REQUIRE(std::string{complaints[0].accepted} != "");
    REQUIRE(std::string{complaints[0].next} != "");
    REQUIRE(Gate{of.limits}.submit(ask(1)).reason == Reason::bad_limits);
  }
}

TEST_CASE("limits that are just good have no complaint") {
  REQUIRE(check({.capacity = 100_tokens,
                 .classes = 2,
                 .class_limits = {{.share = Percent{60}, .floor_running = 3}, {.floor = 40_tokens, .floor_running = 5}},
                 .max_running = 8})
              .empty());
  REQUIRE(check({.capacity = 100_tokens, .classes = 1'024, .tenants = 1'024}).empty());
  REQUIRE(check({.capacity = 100_tokens, .class_limits = {{.floor = 50_tokens, .floor_running = 2, .running = 2, .tokens = 50_tokens, .to_compute = 0_tokens}}})
              .empty());
}

TEST_CASE("a pool of states, which nothing grows in, is used to the last") {
  AdmissionController gate{{.capacity = 1'000_blocks,
                            .footprint = {.groups = {full_group(16_tokens), fixed_group(1_blocks, 1)}},
                            .more_pools = {{.capacity = 8_blocks, .name = "states"}}}};
  for (int i = 0; i < 10; ++i) gate.submit(ask(100, 10));
  auto const leases = admit_all(gate);
  REQUIRE(gate.running() == 8);
  REQUIRE(gate.why(gate.submit(ask(100, 10)).ticket).pool == 1);
}

TEST_CASE("a floor that is a share is compared with the ceiling, too") {
  auto const complaints = check(AdmissionLimits{.capacity = 10'000_tokens, .class_limits = {{.share = Percent{50}, .tokens = 1'000_tokens}}});
  REQUIRE(complaints.size() == 1);
  REQUIRE(std::string{complaints[0].field} == ".tokens");
}

TEST_CASE("a policy's own headroom must leave something of the pool") {
  AdmissionController gate{AdmissionLimits{.capacity = 100_tokens}, policies::Recommended{.headroom = {.least = Percent{150}}}};
  REQUIRE(std::string{gate.complaints()[0].field} == ".headroom.least");
  REQUIRE(gate.submit(ask(10)).reason == Reason::bad_limits);
}

TEST_CASE("no more adapters than requests can be in use, and none are made room for") {
  Gate gate{{.capacity = 100_tokens, .max_live = 4, .adapters = 0xffff'ffff}};
  gate.submit({.prompt = 10_tokens, .adapter = 7});
  REQUIRE(gate.admit_next());
}

TEST_CASE("a step computes no more of a window than there is room for") {
  Gate gate{{.capacity = 100_blocks, .footprint = {.groups = {window_group(32_tokens, 16_tokens)}, .in_flight = 8_tokens}}};
  gate.submit(ask(800, 10, 1));
  REQUIRE(tokens_of(step(gate), 1) == 8_tokens);
  REQUIRE(tokens_of(step(gate), 1) == 8_tokens);
}

TEST_CASE("a prompt that is not cut and is more than a window has room for in a step is rejected, not kept waiting") {
  Gate gate{{.capacity = 100'000_blocks,
             .footprint = {.groups = {window_group(32_tokens, 16_tokens)}, .in_flight = 64_tokens},
             .tokens_per_step = 1'000_tokens,
             .whole_prompts = true}};
  auto const verdict = gate.submit(ask(100));
  REQUIRE(verdict.reason == Reason::exceeds_step);
  REQUIRE(verdict.limit == 64_blocks);
  REQUIRE(gate.submit(ask(64)).queued());
}
