// Requests whose cache is computed elsewhere or sent away, and blocks that a step in flight may still write.
#include "gate.hpp"

#include <functional>

using namespace kvbudget;
using namespace kvbudget::literals;

namespace {

using Gate = AdmissionController<ByArrival>;

Request remote(std::uint64_t prompt, std::uint64_t max_new, std::uint64_t tag = 0) {
  return {.prompt = {prompt}, .max_new = {max_new}, .tag = tag, .arrives = true};
}

}  // namespace

TEST_CASE("an arriving request holds its room, computes nothing, and generates once its cache is here") {
  Gate gate{{.capacity = 100_tokens, .tokens_per_step = 20_tokens}};
  auto const ticket = gate.submit(remote(60, 10, 1)).ticket;
  gate.submit(ask(15, 10, 2));
  auto const plan = step(gate);
  REQUIRE(tags(plan.admit) == Tags{1, 2});
  REQUIRE(tokens_of(plan, 1) == 0_tokens);  // elsewhere: nothing of this step's budget
  REQUIRE(tokens_of(plan, 2) == 15_tokens);
  REQUIRE(gate.pool().held == 75_blocks);
  REQUIRE(gate.why(ticket).reason == Reason::arriving);
  REQUIRE(tokens_of(step(gate), 1) == 0_tokens);
  REQUIRE(gate.arrived(ticket));
  REQUIRE(gate.why(ticket).reason == Reason::running);
  REQUIRE(tokens_of(step(gate), 1) == 1_tokens);
  REQUIRE(gate.account(0).useful_tokens == 15_tokens + 2_tokens + 1_tokens);
  REQUIRE(gate.account(0).found_tokens == 60_tokens);
  REQUIRE(gate.account(0).to_compute == 0_tokens);
}

TEST_CASE("an arriving request starts in a step that computes nothing, and of whole prompts and chunks knows nothing") {
  Gate gate{{.capacity = 100_tokens, .chunk = 50_tokens, .whole_prompts = true}};
  gate.submit(remote(40, 10, 1));
  REQUIRE(tags(step(gate, {.tokens = 0_tokens}).admit) == Tags{1});
}

TEST_CASE("arriving and held requests count as in flight, and are nobody's victims") {
  Gate gate{{.capacity = 30_tokens, .max_running = 3}};
  gate.submit(ask(10, 10, 1));
  auto const held = gate.submit(ask(10, 0, 2)).ticket;
  auto const arriving = gate.submit(remote(10, 5, 3)).ticket;
  step(gate);
  REQUIRE(gate.hold(held));
  REQUIRE(gate.running() == 3);
  auto const fourth = gate.submit(ask(1)).ticket;
  REQUIRE(gate.why(fourth).reason == Reason::running_limit);
  auto const plan = step(gate);
  REQUIRE(tags(plan.preempt) == Tags{1});  // the asker: nobody else may give way
  REQUIRE(gate.why(held).reason == Reason::held);
  REQUIRE(gate.why(arriving).reason == Reason::arriving);
  REQUIRE(gate.why(held).admitted());
  REQUIRE(gate.next_step() == 0_blocks);
}

TEST_CASE("an arriving or held request does not grow, and says so") {
  Gate gate{{.capacity = 20_tokens}};
  gate.submit(remote(5, 5));
  gate.submit(ask(5, 5));
  auto leases = admit_all(gate);
  auto const arriving = leases[0].grow(1_tokens);
  REQUIRE_FALSE(arriving.admitted());
  REQUIRE(arriving.reason == Reason::arriving);
  gate.hold(leases[1].ticket());
  REQUIRE(leases[1].grow(3_tokens).reason == Reason::held);
  REQUIRE(leases[1].tokens() == 5_tokens);
  REQUIRE(gate.running() == 2);
  leases[1].finish();
  gate.arrived(leases[0].ticket());
  REQUIRE(leases[0].grow(1_tokens).reason == Reason::grown);
}

TEST_CASE("a request that was preempted is computed here, wherever it was computed first") {
  Gate gate{{.capacity = 20_tokens}};
  gate.submit(ask(8, 12, 1));
  auto const ticket = gate.submit(remote(8, 12, 2)).ticket;
  step(gate);
  gate.arrived(ticket);
  while (step(gate).preempt.empty()) {
  }
  gate.finish(Ticket{0, 0});
  auto const plan = step(gate);
  REQUIRE(plan.admit[0].tokens == 11_tokens);
  REQUIRE(gate.why(ticket).reason == Reason::running);
}

TEST_CASE("arrived, hold and finish do what they say once, and in no other state") {
  Gate gate{{.capacity = 100_tokens}};
  auto const submitted = [&](Request const& request) { return gate.submit(request).ticket; };
  auto const started = [&](Request const& request) {
    auto const ticket = submitted(request);
    step(gate);
    return ticket;
  };
  struct Case {
    Ticket ticket;
    bool arrives, holds;
  };
  std::function<Case()> const cases[]{
      [&] {
        return Case{submitted(ask(10)), false, false};
      },
      [&] {
        return Case{started(remote(10, 5)), true, true};
      },
      [&] {
        return Case{started(ask(10, 5)), false, true};
      },
      [&] {
        auto const ticket = started(ask(10));
        gate.hold(ticket);
        return Case{ticket, false, false};
      },
      [&] {
        started(ask(50, 50));
        gate.submit(ask(45, 50));
        step(gate);
        for (int i = 0; i < 10; ++i) step(gate);
        return Case{Ticket{1, 0}, false, false};  // preempted
      },
  };
  auto const which = GENERATE(range(std::size_t{0}, std::size_t{5}));
  CAPTURE(which);
  auto const [ticket, arrives, holds] = cases[which]();
  REQUIRE(gate.arrived(ticket) == arrives);
  REQUIRE_FALSE(gate.arrived(ticket));
  REQUIRE(gate.hold(ticket) == holds);
  REQUIRE_FALSE(gate.hold(ticket));
  REQUIRE_FALSE(gate.arrived(ticket));
  std::uint64_t const completed = gate.account(0).completed;
  REQUIRE(gate.finish(ticket));
  REQUIRE_FALSE(gate.finish(ticket));
  REQUIRE_FALSE(gate.cancel(ticket));
  REQUIRE_FALSE(gate.hold(ticket));
  REQUIRE_FALSE(gate.arrived(ticket));
  REQUIRE(gate.account(0).completed == completed + 1);
  REQUIRE(gate.balanced());
}

TEST_CASE("what is given back with steps in flight is free only when those steps have retired") {
  Gate gate{{.capacity = 100_tokens, .retires = true}};
  gate.submit(ask(60, 0, 1));
  step(gate);
  gate.finish(Ticket{0, 0});
  REQUIRE(gate.pool().supply == Supply{.clean = 40_blocks, .in_flight = 60_blocks});
  auto const next = gate.submit(ask(50, 0, 2)).ticket;
  REQUIRE(gate.why(next).reason == Reason::no_room);
  REQUIRE(step(gate).admit.empty());
  gate.retire(0);  // an earlier step
  REQUIRE(step(gate).admit.empty());
  gate.retire(1);
  REQUIRE(gate.pool().supply == Supply{.clean = 100_blocks});
  REQUIRE(tags(step(gate).admit) == Tags{2});
}

TEST_CASE("each step's blocks come back with that step, and those of more steps than there are stages with the last") {
  Gate gate{{.capacity = 200_tokens, .retires = true}};
  for (int i = 0; i < 100; ++i) gate.submit(ask(1));
  step(gate);
  for (std::uint32_t slot = 0; slot < 100; ++slot) {
    gate.begin_step(10 + slot);
    gate.finish(Ticket{slot, 0});
    REQUIRE(gate.balanced());
  }
  REQUIRE(gate.pool().supply == Supply{.clean = 100_blocks, .in_flight = 100_blocks});
  gate.retire(10 + 39);
  REQUIRE(gate.pool().supply.in_flight == 60_blocks);
  gate.retire(10 + 98);
  REQUIRE(gate.pool().supply.in_flight > 0_blocks);
  gate.retire(10 + 99);
  REQUIRE(gate.pool().supply == Supply{.clean = 200_blocks});
}

TEST_CASE("growth waits for blocks that come back, and takes no victim for them a second time") {
  Gate gate{{.capacity = 20_tokens, .retires = true}};
  gate.submit(ask(10, 10, 1));
  gate.submit(ask(5, 5, 2));
  gate.submit(ask(5, 5, 3));
  step(gate);
  auto plan = step(gate);
  REQUIRE(tags(plan.preempt) == Tags{3});
  REQUIRE(tags(plan.grow) == Tags{1, 2});
  for (auto const& one : plan.grow) {
    REQUIRE(one.reason() == Reason::retiring);
    REQUIRE(one.verdict.queued());
    REQUIRE(one.verdict.needed == 1_blocks);
    REQUIRE(one.verdict.free == 0_blocks);
    REQUIRE(one.tokens == 0_tokens);
  }
  REQUIRE(gate.pool().held == 15_blocks);
  plan = step(gate);
  REQUIRE(plan.preempt.empty());
  REQUIRE(plan.tokens() == 0_tokens);
  gate.retire(gate.now());
  REQUIRE(step(gate).tokens() == 2_tokens);
}

TEST_CASE("a lease whose growth waits for steps in flight holds what it held, and grows when they retire") {
  Gate gate{{.capacity = 20_tokens, .retires = true}};
  gate.submit(ask(10, 10));
  gate.submit(ask(10, 10));
  auto leases = admit_all(gate);
  gate.begin_step(1);
  leases[1].finish();
  auto const verdict = leases[0].grow(1_tokens);
  REQUIRE(verdict.queued());
  REQUIRE(verdict.reason == Reason::retiring);
  REQUIRE(verdict.short_by() == 1_blocks);
  REQUIRE(leases[0].tokens() == 10_tokens);
  gate.retire(1);
  REQUIRE(leases[0].grow(1_tokens).reason == Reason::grown);
}

TEST_CASE("a pool that shrinks counts what retires, and is whole again when it has") {
  Gate gate{{.capacity = 20_tokens, .retires = true}};
  gate.submit(ask(10, 2));
  gate.submit(ask(10, 2));
  auto leases = admit_all(gate);
  leases[1].finish();
  REQUIRE(gate.resize(12_tokens).empty());
  REQUIRE(gate.pool().overcommitted == 8_blocks);
  REQUIRE(gate.balanced());
  REQUIRE(leases[0].grow(1_tokens).reason == Reason::retiring);
  gate.retire(0);
  REQUIRE(gate.pool().overcommitted == 0_blocks);
  REQUIRE(leases[0].grow(2_tokens).reason == Reason::grown);
}

TEST_CASE("a cancel in flight gives nothing back before the step is over, from every state that holds room") {
  Gate gate{{.capacity = 40_tokens, .retires = true}};
  auto const running = gate.submit(ask(10)).ticket, held = gate.submit(ask(10)).ticket, arriving = gate.submit(remote(10, 5)).ticket;
  step(gate);
  gate.hold(held);
  for (auto const ticket : {running, held, arriving}) {
    REQUIRE(gate.cancel(ticket));
    REQUIRE_FALSE(gate.cancel(ticket));
  }
  REQUIRE(gate.running() == 0);
  REQUIRE(gate.pool().supply == Supply{.clean = 10_blocks, .in_flight = 30_blocks});
  gate.retire(gate.now());
  REQUIRE(gate.pool().supply == Supply{.clean = 40_blocks});
}
