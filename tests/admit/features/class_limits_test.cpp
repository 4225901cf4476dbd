// What a class is sure of, and what it may have at most.
#include "gate.hpp"

#include <random>

using namespace kvbudget;
using namespace kvbudget::literals;

using Gate = AdmissionController<ByArrival>;

TEST_CASE("growth stops at its class's ceiling and takes victims of its own class alone") {
  Gate gate{{.capacity = 1'000_tokens, .classes = 2, .class_limits = {{.tokens = 30_tokens}}}};
  gate.submit(of_class(0, 10, 10, 1));
  gate.submit(of_class(0, 18, 10, 2));
  gate.submit(of_class(1, 10, 10, 3));
  SECTION("by plans") {
    step(gate);
    REQUIRE(step(gate).preempt.empty());  // 11 + 19: equal is allowed
    auto const plan = step(gate);
    REQUIRE(tags(plan.preempt) == Tags{2});
    REQUIRE(tags(plan.grow) == Tags{1, 3});
    REQUIRE(gate.account(0).active_tokens == 12_tokens);
  }
  SECTION("by leases") {
    auto leases = admit_all(gate);
    REQUIRE(leases[0].grow(2_tokens).admitted());
    REQUIRE(leases[0].grow(1_tokens).admitted());
    REQUIRE(leases[1].ended());
    REQUIRE_FALSE(leases[2].ended());
  }
  SECTION("the newest of the class asks, and gives way itself") {
    auto leases = admit_all(gate);
    REQUIRE(leases[1].grow(3_tokens).reason == Reason::preempted);
    REQUIRE_FALSE(leases[0].ended());
    REQUIRE_FALSE(leases[2].ended());
  }
}

TEST_CASE("a preempted request starts again below its class's ceiling only with room for the token it must gain") {
  Gate gate{{.capacity = 1'000_tokens, .class_limits = {{.tokens = 100_tokens}}}, {.preemption = {.regain = 1_tokens}}};
  gate.submit(ask(40, 20, 1));
  gate.submit(ask(60, 20, 2));
  auto leases = admit_all(gate);
  REQUIRE(leases[0].grow(1_tokens).reason == Reason::preempted);  // the other has gained nothing yet
  gate.begin_step(1);
  REQUIRE_FALSE(gate.admit_next());
  leases[1].finish();
  auto lease = gate.admit_next();
  REQUIRE(lease.tag() == 1);
  REQUIRE(lease.grow(1_tokens).reason == Reason::grown);
}

TEST_CASE("nobody starts into what another class misses of its floor while that waits") {
  AdmissionLimits limits{.capacity = 100_tokens, .classes = 2, .class_limits = {{}, {.floor = 40_tokens}}};
  Gate gate{limits, {.order = {.bypass = unbounded_bypass}}};
  gate.submit(of_class(0, 70, 0, 1));
  step(gate);
  auto const waiting = gate.submit(of_class(1, 40, 0, 2)).ticket;
  auto const held_back = gate.submit(of_class(0, 10, 0, 3)).ticket;
  auto const plan = step(gate);
  REQUIRE(tags(plan.wait) == Tags{2, 3});
  auto const verdict = gate.why(held_back);
  REQUIRE(verdict.reason == Reason::class_floor);
  REQUIRE(verdict.needed == 10_blocks);
  REQUIRE(verdict.headroom == 40_blocks);
  REQUIRE(verdict.free == 30_blocks);
  REQUIRE(verdict.short_by() == 20_blocks);
  SECTION("once nobody of that class waits, the room is anybody's") {
    gate.cancel(waiting);
    REQUIRE(tags(step(gate).admit) == Tags{3});
  }
  SECTION("once it has its floor, too") {
    gate.finish(Ticket{0, 0});
    REQUIRE(tags(step(gate).admit) == Tags{2, 3});
  }
}

TEST_CASE("a class below its floor starts behind a head that does not fit, also in strict order") {
  Gate gate{{.capacity = 100_tokens, .classes = 3, .class_limits = {{}, {.floor = 40_tokens}}}};
  gate.submit(of_class(0, 50, 0, 1));
  step(gate);
  gate.submit(of_class(0, 80, 0, 2));
  gate.submit(of_class(2, 5, 0, 3));
  for (std::uint64_t tag = 4; tag <= 6; ++tag) gate.submit(of_class(1, 15, 0, tag));
  auto const plan = step(gate);
  REQUIRE(tags(plan.admit) == Tags{4, 5, 6});
  gate.submit(of_class(1, 5, 0, 7));
  REQUIRE(step(gate).admit.empty());  // it holds 45: its floor is full, and the head stops it like anybody
}

TEST_CASE("floors in sequences keep places for a class that waits, and only then") {
  AdmissionLimits limits{.capacity = 1'000_tokens, .classes = 2, .class_limits = {{}, {.floor_running = 2}}, .max_running = 4};
  Gate gate{limits, {.order = {.bypass = unbounded_bypass}}};
  for (std::uint64_t tag = 1; tag <= 3; ++tag) gate.submit(of_class(0, 10, 0, tag));
  auto const third = Ticket{2, 0};
  gate.submit(of_class(1, 10, 0, 4));
  SECTION("two of it wait, and have two places") {
    gate.submit(of_class(1, 10, 0, 5));
    auto const plan = gate.plan();
    REQUIRE(tags(plan.admit) == Tags{1, 2, 4, 5});
    REQUIRE(plan.wait[0].reason() == Reason::class_floor);
    REQUIRE(std::string{plan.wait[0].verdict.field} == ".max_running");
    REQUIRE(gate.commit(plan));
    REQUIRE(gate.why(third).reason == Reason::running_limit);
    gate.submit(of_class(1, 10, 0, 6));
    gate.finish(Ticket{0, 0});
    REQUIRE(tags(step(gate).admit) == Tags{3});  // two of it run: it is sure of no more
  }
  SECTION("one of it waits, and keeps no more than the one place it needs") { REQUIRE(tags(step(gate).admit) == Tags{1, 2, 3, 4}); }
  SECTION("nobody of it waits") {
    gate.cancel(Ticket{3, 0});
    gate.submit(of_class(0, 10, 0, 5));
    REQUIRE(tags(step(gate).admit) == Tags{1, 2, 3, 5});
  }
  SECTION("a request of many branches that has no place stops no class below its floor") {
    for (std::uint32_t slot = 1; slot <= 3; ++slot) gate.cancel(Ticket{slot, 0});
    step(gate);
    gate.submit({.prompt = 10_tokens, .branches = 4, .tag = 5});
    gate.submit(of_class(1, 10, 0, 6));
    REQUIRE(tags(step(gate).admit) == Tags{6});
  }
}

TEST_CASE("without pressure floors and shares change no decision") {
  std::mt19937_64 random{20'261'130};
  for (int world = 0; world < 30; ++world) {
    AdmissionLimits const limits{.capacity = 770_blocks, .footprint = paged(16_tokens), .classes = 3, .max_running = 60, .chunk = 64_tokens};
    AdmissionLimits floored = limits;
    floored.class_limits = {{.floor = 3'600_tokens, .floor_running = 20}, {.share = Percent{40}, .floor_running = 20}, {.share = Percent{30}}};
    Gate plain{limits}, gate{floored};
    REQUIRE(gate.complaints().empty());
    std::vector<Ticket> live;
    for (std::uint64_t now = 1; now < 100; ++now) {
      std::erase_if(live, [&](Ticket ticket) { return random() % 8 == 0 && plain.finish(ticket) && gate.finish(ticket); });
      for (std::uint64_t arrivals = random() % 6; arrivals > 0 && live.size() < 20; --arrivals) {  // 20 of the longest have all the room there is
        std::uint64_t const of = random() % 4 == 0 ? random() % 3 : now / 20 % 3;
        auto const request = of_class(std::uint32_t(of), 1 + random() % 500, random() % 100);
        live.push_back(plain.submit(request).ticket);
        REQUIRE(gate.submit(request).ticket == live.back());
      }
      REQUIRE(step(plain).digest() == step(gate).digest());
      REQUIRE(gate.queued() == 0);
    }
  }
}

TEST_CASE("a share is taken anew of every capacity, from the limits as they were given") {
  Gate gate{{.capacity = 100_tokens, .classes = 2, .class_limits = {{}, {.share = Percent{50}}}}};
  gate.submit(of_class(1, 9, 0, 1));
  step(gate);
  for (int i = 0; i < 3; ++i) gate.submit(of_class(1, 20));
  Request const asks = of_class(0, 1);
  auto const room = [&](Tokens capacity) {
    REQUIRE(gate.resize(capacity).empty());
    return gate.more_of(asks);
  };
  REQUIRE(room(100_tokens) == 91 - 41);
  REQUIRE(room(60_tokens) == 51 - 21);
  REQUIRE(room(41_tokens) == 32 - 11);  // rounded down
  REQUIRE(room(100_tokens) == 91 - 41);
}

TEST_CASE("a class at its ceiling in sequences claims no floor") {
  Gate gate{{.capacity = 100_tokens, .classes = 2, .class_limits = {{}, {.floor = 90_tokens, .running = 1}}}};
  gate.submit(of_class(1, 10, 0, 1));
  gate.submit(of_class(1, 10, 0, 2));
  gate.submit(of_class(0, 80, 0, 3));
  REQUIRE(tags(step(gate).admit) == Tags{1, 3});
}

TEST_CASE("a class has no more tokens to compute than its limit, but one that has none may start any prompt") {
  Gate gate{{.capacity = 1'000_tokens, .classes = 2, .class_limits = {{.to_compute = 50_tokens}}, .chunk = 10_tokens}};
  gate.submit(of_class(0, 100, 0, 1));
  gate.submit(of_class(0, 15, 0, 2));
  gate.submit(of_class(1, 200, 0, 3));
  auto plan = step(gate);
  REQUIRE(tags(plan.admit) == Tags{1, 3});
  REQUIRE(plan.wait[0].reason() == Reason::class_limit);
  REQUIRE(std::string{plan.wait[0].verdict.field} == ".to_compute");
  REQUIRE(gate.account(0).to_compute == 90_tokens);
  std::uint64_t steps = 1;
  while (plan = step(gate), tags(plan.admit) != Tags{2}) REQUIRE(++steps < 10);
  REQUIRE(steps == 7);  // the first had 40 left before the sixth step, and 30 before this one, beside which 15 may come
  REQUIRE(gate.account(0).to_compute == 25_tokens);
}

TEST_CASE("a full class queue refuses new requests, says the field and the numbers, and takes back whoever is preempted") {
  Gate gate{{.capacity = 21_tokens, .classes = 2, .class_limits = {{.queued = 1}, {.queued_tokens = 12_tokens}}}};
  gate.submit(of_class(0, 10, 10, 1));
  step(gate);
  gate.submit(of_class(0, 10, 10, 2));
  auto const full = gate.submit(of_class(0, 1));
  REQUIRE(full.reason == Reason::class_queue_full);
  REQUIRE(std::string{full.field} == ".queued");
  REQUIRE(full.needed == 2_blocks);
  REQUIRE(full.limit == 1_blocks);
  step(gate);
  gate.submit(of_class(0, 1, 0, 3));
  REQUIRE(tags(step(gate).preempt) == Tags{2});
  REQUIRE(gate.account(0).queued_requests == 2);
  REQUIRE(gate.submit(of_class(0, 1)).reason == Reason::class_queue_full);
  REQUIRE(gate.account(0).rejected_for(Reason::class_queue_full) == 2);
  REQUIRE(gate.submit(of_class(1, 10)).queued());
  auto const many = gate.submit(of_class(1, 3));
  REQUIRE(many.reason == Reason::class_queue_full);
  REQUIRE(std::string{many.field} == ".queued_tokens");
  REQUIRE(many.needed == 13_blocks);
  REQUIRE(many.limit == 12_blocks);
}

TEST_CASE("of a pool that has become smaller than all floors each class is sure of a part, and both run") {
  Gate gate{{.capacity = 12'000_tokens, .classes = 2, .class_limits = {{.floor = 6'000_tokens}, {.floor = 6'000_tokens}}}};
  for (std::uint32_t i = 0; i < 100; ++i) gate.submit(of_class(i % 2, 100, 10));
  REQUIRE(gate.resize(6'000_tokens).empty());
  auto leases = admit_all(gate);
  REQUIRE(gate.running() == 60);  // 3,000 tokens of each
  REQUIRE(gate.held(0) == 3'000_blocks);
  leases.clear();
  REQUIRE(gate.resize(12'000_tokens).empty());
  leases = admit_all(gate);
  REQUIRE(gate.queued() == 0);
}

TEST_CASE("two halves are no more than a whole, of an odd number of blocks and after a pool has grown by one") {
  AdmissionLimits const limits{.capacity = 101_blocks, .footprint = paged(16_tokens), .classes = 2, .class_limits = {{.share = 50_percent}, {.share = 50_percent}}};
  REQUIRE(check(limits).empty());
  Gate gate{limits};
  for (auto const capacity : {101_blocks, 102_blocks, 99_blocks}) {
    REQUIRE(gate.resize(capacity).empty());
    auto const waiting = gate.submit(of_class(0, 16 * 90)).ticket;
    auto const other = gate.submit(of_class(1, 16)).ticket;
    REQUIRE(gate.why(gate.submit(of_class(1, 16 * 60)).ticket).headroom == Blocks{capacity.count / 2});
    gate.cancel(waiting), gate.cancel(other);
  }
}

TEST_CASE("a floor keeps no more than its class's ceiling leaves") {
  Gate gate{{.capacity = 1'000_tokens, .classes = 2, .class_limits = {{.floor = 500_tokens, .tokens = 500_tokens}}}};
  gate.submit(of_class(0, 400, 50));
  auto const first = gate.admit_next();
  gate.submit(of_class(0, 450));  // over the ceiling as long as the first runs
  gate.submit(of_class(1, 500));
  REQUIRE(gate.admit_next().request_class() == RequestClass{1});
}

TEST_CASE("what a floor keeps for those that wait is what they need, however they came to wait") {
  AdmissionController<ByArrival, Shared> gate{{.capacity = 100_tokens, .classes = 2, .class_limits = {{.floor = 60_tokens}}}};
  gate.submit(of_class(1, 30, 10, 1));
  auto const lease = gate.admit_next();
  auto const kept = [&] { return gate.why(gate.submit(of_class(1, 70)).ticket).headroom; };
  auto const a = gate.submit(of_class(0, 25)).ticket, b = gate.submit(of_class(0, 15)).ticket;
  REQUIRE(kept() == 40_blocks);
  gate.found(b, {.active = 5_blocks});
  REQUIRE(kept() == 35_blocks);
  gate.found(b, {.idle = 5_blocks});
  REQUIRE(kept() == 40_blocks);
  gate.cancel(b);
  REQUIRE(kept() == 25_blocks);
  gate.cancel(a);
  REQUIRE(kept() == 0_blocks);
  for (int i = 0; i < 10; ++i) gate.submit(of_class(0, 10));
  REQUIRE(kept() == 60_blocks);
}

TEST_CASE("where nothing runs, the one that starts though floors keep all waiting is told so") {
  Gate gate{{.capacity = 1'000_tokens, .classes = 2, .class_limits = {{.floor = 500_tokens}, {.floor = 500_tokens}}}};
  auto const first = gate.submit(of_class(0, 800)).ticket, second = gate.submit(of_class(1, 800)).ticket;
  REQUIRE(gate.why(first).reason == Reason::in_queue);
  REQUIRE(gate.why(second).reason == Reason::class_floor);
  REQUIRE(gate.admit_next().ticket() == first);
}
