// Who comes first, who may be passed over, and for how long.
#include "gate.hpp"

using namespace kvbudget;
using namespace kvbudget::literals;

namespace {

Request urgent(std::int32_t priority, std::uint64_t tag) { return {.prompt = 10_tokens, .tag = tag, .priority = priority}; }
Request of_tenant(std::uint32_t tenant, std::uint64_t prompt, std::uint64_t max_new, std::uint64_t tag) {
  return {.prompt = {prompt}, .max_new = {max_new}, .tag = tag, .tenant = tenant};
}

/// The step in which the request with tag 1 starts, where one request of a kind arrives in every step and one has room; none in `most` steps: most.
template <class Gate, class Arrive>
std::uint64_t starts_at(Gate& gate, Request first, Arrive arrive, std::uint64_t most) {
  first.tag = 1;
  gate.submit(arrive());
  gate.submit(first);
  std::vector<typename Gate::Lease> running;
  for (std::uint64_t now = 1; now < most; ++now) {
    gate.begin_step(now);
    gate.submit(arrive());
    running.clear();
    running = admit_all(gate);
    REQUIRE(running.size() == 1);
    if (running[0].tag() == 1) return now;
  }
  return most;
}

}  // namespace

TEST_CASE("the smaller priority goes first, and of equals whoever came first") {
  AdmissionController<Parts<order::Priority>> gate{{.capacity = 100_tokens}};
  for (auto const& request : {urgent(3, 1), urgent(-5, 2), urgent(3, 3), urgent(0, 4)}) gate.submit(request);
  REQUIRE(tags(gate.plan().admit) == Tags{2, 4, 1, 3});
}

TEST_CASE("with aging a low priority waits for what comes in so many steps for each level, without it for ever") {
  auto const arrive = [] { return urgent(0, 0); };
  AdmissionController<Parts<order::Priority>> aging{{.capacity = 10_tokens}, {.order = {.age = 10}}};
  REQUIRE(starts_at(aging, urgent(5, 1), arrive, 500) == 51);
  AdmissionController<Parts<order::Priority>> steadfast{{.capacity = 10_tokens}};
  REQUIRE(starts_at(steadfast, urgent(5, 1), arrive, 500) == 500);
}

TEST_CASE("the shortest goes first, and a long one waits no longer than its tokens by the pace") {
  AdmissionController<Parts<order::Shortest>> gate{{.capacity = 5'000_tokens}, {.order = {.pace = 0_tokens}}};
  for (std::uint64_t const prompt : {900U, 30U, 500U, 30U}) gate.submit(ask(prompt, 0, prompt));
  REQUIRE(tags(gate.plan().admit) == Tags{30, 30, 500, 900});
  auto const arrive = [] { return ask(60); };
  AdmissionController<Parts<order::Shortest>> paced{{.capacity = 1'000_tokens, .max_running = 1}, {.order = {.pace = 50_tokens}}};
  REQUIRE(starts_at(paced, ask(1'000), arrive, 500) == 20);  // 1'000 / 50 steps, where those that come weigh one
  AdmissionController<Parts<order::Shortest>> unbounded{{.capacity = 1'000_tokens, .max_running = 1}, {.order = {.pace = 0_tokens}}};
  REQUIRE(starts_at(unbounded, ask(1'000), arrive, 500) == 500);
}

TEST_CASE("the tenant that was served least goes first, in order of arrival within it") {
  AdmissionController<Parts<order::FairShare>> gate{{.capacity = 100_tokens, .tenants = 2}};
  for (std::uint64_t tag = 1; tag <= 4; ++tag) gate.submit(of_tenant(0, 10, 0, tag));
  gate.submit(of_tenant(1, 15, 0, 5));
  gate.submit(of_tenant(1, 15, 0, 6));
  auto const plan = step(gate);
  REQUIRE(tags(plan.admit) == Tags{1, 5, 2, 6, 3, 4});  // served 10:0, 10:15, 20:15, 20:30, ...
  REQUIRE(gate.served(0) == 40);
  REQUIRE(gate.served(1) == 30);
}

TEST_CASE("a generated token weighs more than a prompt's, and what was found cached nothing") {
  AdmissionController<Parts<order::FairShare>> gate{{.capacity = 10_blocks, .footprint = paged(16_tokens), .tenants = 2}, {.order = {.input = 1, .output = 3}}};
  auto const ticket = gate.submit(of_tenant(1, 40, 8, 1)).ticket;
  gate.found(ticket, {.idle = 2_blocks});
  auto lease = gate.admit_next();
  REQUIRE(gate.served(1) == 8);
  lease.grow(5_tokens);
  REQUIRE(gate.served(1) == 8 + 15);
}

TEST_CASE("a tenant that returns does not make up for when it had nothing to do") {
  AdmissionController<Parts<order::FairShare>> gate{{.capacity = 20_tokens, .tenants = 3}};
  for (int i = 0; i < 5; ++i) {
    gate.submit(of_tenant(0, 20, 0, 0));
    REQUIRE(gate.admit_next());
  }
  REQUIRE(gate.served(0) == 100);
  SECTION("beside one that is here it starts with as much as that was served") {
    gate.submit(of_tenant(0, 20, 0, 1));
    gate.submit(of_tenant(1, 20, 0, 2));
    gate.submit(of_tenant(1, 20, 0, 3));
    REQUIRE(gate.served(1) == 100);
    gate.submit(of_tenant(0, 20, 0, 4));
    Tags order;
    while (auto const lease = gate.admit_next()) order.push_back(lease.tag());
    REQUIRE(order == Tags{1, 2, 3, 4});
  }
  SECTION("beside one that runs, too") {
    gate.submit(of_tenant(0, 5, 0, 1));
    auto const lease = gate.admit_next();
    gate.submit(of_tenant(1, 5, 0, 2));
    REQUIRE(gate.served(1) == 105);
  }
  SECTION("alone it keeps what it had, and one that is here is lifted no further") {
    gate.submit(of_tenant(1, 20, 0, 1));
    REQUIRE(gate.served(1) == 0);
    gate.submit(of_tenant(0, 20, 0, 2));
    gate.submit(of_tenant(1, 20, 0, 3));
    REQUIRE(gate.served(1) == 0);
  }
}

TEST_CASE("a tenant in a flood of another's requests starts at once") {
  AdmissionController<Parts<order::FairShare>> gate{{.capacity = 10_tokens, .tenants = 2}};
  for (std::uint64_t tag = 1; tag <= 100; ++tag) gate.submit(of_tenant(0, 10, 0, tag));
  REQUIRE(gate.admit_next().tag() == 1);
  gate.submit(of_tenant(1, 10, 0, 200));
  REQUIRE(gate.admit_next().tag() == 2);  // both are at 10, and it came first
  REQUIRE(gate.admit_next().tag() == 200);
}

TEST_CASE("a preempted request comes before all that were not, by whatever order") {
  AdmissionController<Parts<order::Priority>> gate{{.capacity = 20_tokens}};
  gate.submit({.prompt = 10_tokens, .max_new = 10_tokens, .tag = 1, .priority = 0});
  gate.submit({.prompt = 10_tokens, .max_new = 10_tokens, .tag = 2, .priority = 9});
  step(gate);
  REQUIRE(tags(step(gate).preempt) == Tags{2});
  gate.submit(urgent(-9, 3));
  gate.finish(Ticket{0, 0});
  REQUIRE(tags(step(gate).admit) == Tags{2});
}

TEST_CASE("a request that does not fit is passed over so many times, then it stops the rest until it has started") {
  Parts<> const twice{.order = {.bypass = {.passes = 2}}};
  Tags const expected{1, 3, 4};
  auto const fill = [](auto& gate) {
    gate.submit(ask(60, 0, 1));
    gate.submit(ask(50, 0, 2));
    for (std::uint64_t tag = 3; tag <= 8; ++tag) gate.submit(ask(5, 0, tag));
  };
  SECTION("by leases") {
    AdmissionController<Parts<>> gate{{.capacity = 100_tokens}, twice};
    fill(gate);
    auto leases = admit_all(gate);
    REQUIRE(tags(leases) == expected);
    gate.begin_step(1);
    REQUIRE_FALSE(gate.admit_next());
    leases.erase(leases.begin());
    REQUIRE(tags(admit_all(gate)) == Tags{2, 5, 6, 7, 8});
  }
  SECTION("by a plan") {
    AdmissionController<Parts<>> gate{{.capacity = 100_tokens}, twice};
    fill(gate);
    auto const plan = step(gate);
    REQUIRE(tags(plan.admit) == expected);
    REQUIRE(tags(plan.wait) == Tags{2});
    REQUIRE(plan.wait[0].passed_by == 2);
    REQUIRE(step(gate).admit.empty());
    gate.finish(plan.admit[0].ticket());
    REQUIRE(tags(step(gate).admit) == Tags{2, 5, 6, 7, 8});
  }
  SECTION("over several plans") {
    AdmissionController<Parts<>> gate{{.capacity = 100_tokens}, twice};
    gate.submit(ask(60, 0, 1));
    gate.submit(ask(50, 0, 2));
    gate.submit(ask(5, 0, 3));
    REQUIRE(tags(step(gate).admit) == Tags{1, 3});
    gate.submit(ask(5, 0, 4));
    gate.submit(ask(5, 0, 5));
    REQUIRE(tags(step(gate).admit) == Tags{4});
    REQUIRE(step(gate).admit.empty());
  }
}

TEST_CASE("of several that were passed over the one with fewest passes left stops the rest") {
  AdmissionController<Parts<>> gate{{.capacity = 100_tokens}, {.order = {.bypass = {.passes = 3}}}};
  gate.submit(ask(60, 0, 1));
  gate.submit(ask(50, 0, 2));
  gate.submit(ask(5, 0, 3));
  step(gate);
  gate.submit(ask(45, 0, 4));
  for (std::uint64_t tag = 5; tag <= 9; ++tag) gate.submit(ask(5, 0, tag));
  REQUIRE(tags(step(gate).admit) == Tags{5, 6});
}

TEST_CASE("a request is passed over only within so many steps of its submission") {
  AdmissionController<Parts<>> gate{{.capacity = 100_tokens}, {.order = {.bypass = {.passes = 1'000, .steps = 3}}}};
  gate.begin_step(10);
  gate.submit(ask(60, 0, 1));
  gate.submit(ask(50, 0, 2));
  for (std::uint64_t now = 10; now < 16; ++now) {
    gate.submit(ask(1, 0, now));
    gate.begin_step(now);
    auto const plan = gate.plan();
    REQUIRE(gate.commit(plan));
    REQUIRE(tags(plan.admit) == (now == 10 ? Tags{1, 10} : now < 13 ? Tags{now} : Tags{}));
  }
}

TEST_CASE("no more requests that do not fit are looked at than the scan says") {
  auto const started = [](std::uint32_t scan) {
    AdmissionController<Parts<>> gate{{.capacity = 100_tokens}, {.order = {.bypass = {.passes = 1'000, .scan = scan}}}};
    gate.submit(ask(60, 0, 1));
    for (std::uint64_t tag = 2; tag <= 4; ++tag) gate.submit(ask(50, 0, tag));
    gate.submit(ask(5, 0, 5));
    auto const plan = gate.plan();
    REQUIRE(plan.wait.size() <= scan);
    return tags(plan.admit);
  };
  REQUIRE(started(1) == Tags{1});
  REQUIRE(started(3) == Tags{1});
  REQUIRE(started(4) == Tags{1, 5});
}

TEST_CASE("with no bypass said, nobody is passed over") {
  AdmissionController<Parts<>> gate{{.capacity = 100_tokens}};
  gate.submit(ask(60, 0, 1));
  gate.submit(ask(50, 0, 2));
  gate.submit(ask(5, 0, 3));
  REQUIRE(tags(step(gate).admit) == Tags{1});
}

TEST_CASE("whose adapter finds no room is passed by only so often") {
  AdmissionController<ByArrival> gate{{.capacity = 100'000_tokens, .adapters = 1}};
  gate.submit({.prompt = 10_tokens, .max_new = 10_tokens, .adapter = 1});
  std::vector<AdmissionController<ByArrival>::Lease> leases;
  leases.push_back(gate.admit_next());
  auto const other = gate.submit({.prompt = 10_tokens, .adapter = 2}).ticket;
  std::uint32_t passed = 0;
  for (std::uint64_t now = 1; now <= 200; ++now) {
    gate.begin_step(now);
    gate.submit({.prompt = 10_tokens, .max_new = 10_tokens, .adapter = 1});
    while (auto lease = gate.admit_next()) leases.push_back(std::move(lease)), ++passed;
    if (leases.size() > 3) leases.erase(leases.begin());
  }
  REQUIRE(passed == 64);
  leases.clear();
  REQUIRE(gate.admit_next().ticket() == other);
}
