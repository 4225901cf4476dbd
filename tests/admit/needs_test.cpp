// What a request must have room for before it starts: what its class's outputs turned out to be, and what all that run will need together.
#include "catch.hpp"

#include <kvbudget/admit/controller.hpp>
#include <kvbudget/admit/policies/guaranteed_no_evict.hpp>

#include <random>
#include <vector>

using namespace kvbudget;
using namespace kvbudget::literals;

namespace {

template <class Need>
struct With {
  Need need{};
  headroom::AsGiven headroom{};
  order::Arrival order{};
  victim::Newest victim{};
};

struct Course {
  std::uint64_t steps = 0, preempted = 0;
};

/// Every request generates all it may, a token a step, the first of them in the step after it started.
template <class Policy>
Course served(std::vector<Request> const& requests, std::uint64_t blocks) {
  AdmissionController<Policy> gate{{.capacity = Blocks{blocks}, .footprint = paged(16_tokens)}};
  for (auto const& request : requests)
    if (gate.submit(request).rejected()) return {};
  std::vector<typename AdmissionController<Policy>::Lease> batch;
  Course outcome;
  while (!gate.drained()) {
    gate.begin_step(++outcome.steps);
    std::erase_if(batch, [](auto const& lease) { return lease.tokens().count == lease.tag(); });
    for (auto& lease : batch) lease.grow(1_tokens);
    std::erase_if(batch, [](auto const& lease) { return lease.ended(); });
    while (auto lease = gate.admit_next()) batch.push_back(std::move(lease));
    REQUIRE(outcome.steps < 100'000);
  }
  outcome.preempted = gate.account(0).preempted;
  return outcome;
}

}  // namespace

TEST_CASE("where lengths are known no growth fails by future peak, and more runs at once than with all reserved") {
  std::mt19937_64 random{20'261'205};
  std::uint64_t peak_steps = 0, reserved_steps = 0;
  for (int world = 0; world < 60; ++world) {
    std::vector<Request> requests;
    for (int i = 0; i < 40; ++i) {
      std::uint64_t const prompt = 1 + random() % 200, max_new = random() % 200;
      requests.push_back({.prompt = Tokens{prompt}, .max_new = Tokens{max_new}, .tag = prompt + max_new});
    }
    Course const by_peak = served<With<need::FuturePeak>>(requests, 40), reserved = served<policies::GuaranteedNoEvict>(requests, 40);
    REQUIRE(by_peak.preempted == 0);
    REQUIRE(reserved.preempted == 0);
    REQUIRE(by_peak.steps > 0);
    peak_steps += by_peak.steps;
    reserved_steps += reserved.steps;
    REQUIRE(served<With<need::WholePrompt>>(requests, 40).preempted > 0);
  }
  REQUIRE(peak_steps * 100 < reserved_steps * 92);
}

TEST_CASE("what will not fit beside those that run waits for the future, and says how much that takes") {
  AdmissionController<With<need::FuturePeak>> gate{{.capacity = 100_tokens}};
  gate.submit({.prompt = 20_tokens, .max_new = 40_tokens});
  auto const first = gate.admit_next();
  auto const late = gate.submit({.prompt = 20_tokens, .max_new = 40_tokens}).ticket;
  REQUIRE_FALSE(gate.admit_next());
  auto const verdict = gate.why(late);
  REQUIRE(verdict.reason == Reason::future_peak);
  REQUIRE(verdict.needed == 120_blocks);
  REQUIRE(verdict.short_by() == 20_blocks);
  gate.cancel(late);
  REQUIRE(gate.more_of({.prompt = 20_tokens, .max_new = 20_tokens}) == 1);  // both at their 20th token: 40 + 40, then the first goes on to 60
  gate.submit({.prompt = 20_tokens, .max_new = 20_tokens});
  REQUIRE(gate.admit_next());
}

TEST_CASE("one that does not grow as foreseen is looked at anew in the next step") {
  AdmissionController<With<need::FuturePeak>> gate{{.capacity = 100_tokens}};
  gate.submit({.prompt = 10_tokens, .max_new = 50_tokens});
  auto lease = gate.admit_next();
  for (std::uint64_t step = 1; step <= 30; ++step) gate.begin_step(step);  // it never grew
  REQUIRE(gate.more_of({.prompt = 44_tokens}) == 2);  // beside 11 tokens; 60 of it would be too much
  REQUIRE(gate.more_of({.prompt = 45_tokens, .max_new = 30_tokens}) == 0);
  lease.grow(40_tokens);
  gate.begin_step(31);
  REQUIRE(gate.more_of({.prompt = 45_tokens, .max_new = 30_tokens}) == 0);  // 50 + 45 in 9 steps would still be too much
  REQUIRE(gate.more_of({.prompt = 25_tokens, .max_new = 40_tokens}) == 1);  // 60 + 34, then alone
}

TEST_CASE("by expected output a class reserves what its outputs turned out to be, and all it may generate until enough are known") {
  AdmissionController<With<need::PromptAndExpected>> gate{{.capacity = 10'000_tokens, .classes = 2}};
  auto const run_one = [&](std::uint32_t request_class, std::uint64_t generated) {
    gate.submit({.prompt = 100_tokens, .max_new = 1'000_tokens, .request_class = request_class});
    auto lease = gate.admit_next();
    Blocks const held = gate.pool().held;
    lease.grow(Tokens{generated});
    return held;
  };
  for (int i = 0; i < 32; ++i) REQUIRE(run_one(0, 20) == 1'100_blocks);
  REQUIRE(run_one(0, 20) == 120_blocks);
  REQUIRE(run_one(1, 20) == 1'100_blocks);  // another class has not learned yet
  for (int i = 0; i < 100; ++i) run_one(0, 200);
  REQUIRE(run_one(0, 20) >= 300_blocks);  // it follows
  REQUIRE(run_one(0, 20) < 320_blocks);
}

TEST_CASE("what never ran teaches nothing about outputs") {
  AdmissionController<With<need::PromptAndExpected>> gate{{.capacity = 10'000_tokens}};
  for (int i = 0; i < 40; ++i) REQUIRE(gate.finish(gate.submit({.prompt = 10_tokens, .max_new = 500_tokens}).ticket));
  for (int i = 0; i < 40; ++i) {
    gate.submit({.prompt = 10_tokens, .max_new = 500_tokens, .arrives = true});
    gate.admit_next().finish();  // before its cache is here
  }
  gate.submit({.prompt = 100_tokens, .max_new = 500_tokens});
  REQUIRE(gate.plan().admit[0].reserved == 600_tokens);
}

TEST_CASE("how many outputs are enough is the policy's to say") {
  AdmissionController<With<need::PromptAndExpected>> gate{{.capacity = 10'000_tokens}, {.need = {.observed = {.enough = 2, .kept = 8}}}};
  for (int i = 0; i < 2; ++i) {
    gate.submit({.prompt = 10_tokens, .max_new = 500_tokens});
    auto lease = gate.admit_next();
    lease.grow(20_tokens);
  }
  gate.submit({.prompt = 100_tokens, .max_new = 500_tokens});
  REQUIRE(gate.plan().admit[0].reserved == 120_tokens);
  AdmissionController<With<need::PromptAndExpected>> const bad{{.capacity = 10'000_tokens}, {.need = {.observed = {.enough = 0}}}};
  REQUIRE(std::string{bad.complaints()[0].field} == ".enough");
}
