// What an operation of admission costs, beside what costs least: kvbudget_benchmark measures nanoseconds, instructions.sh instructions.
//
// A scenario's work sets up in its constructor; operator()(i) is its i-th operation. The baselines take room for 1,000 tokens, 63 blocks of
// 16, and give it back, as submit_admit_release does, but keep no order and no accounts.
// A new scenario is a struct, and a line in for_each_scenario() with the most instructions an operation may take.
#pragma once

#include "floor.hpp"

#include <kvbudget/kvbudget.hpp>
#include <kvbudget/sync/token_gate.hpp>

#include <benchmark/benchmark.h>

#include <array>
#include <atomic>
#include <cstdlib>

namespace kvbudget::scenarios {

using namespace kvbudget::literals;

/// An operation that was not done is not measured.
inline void expect(bool done) {
  if (!done) std::abort();
}

struct PlainCounter {
  std::uint64_t free = 100'000;

  void operator()(std::uint64_t i) {
    std::uint64_t const need = (1'000 + i % 2 + 15) / 16;
    expect(need <= free);
    free -= need;
    benchmark::DoNotOptimize(free);
    free += need;
  }
};

struct AtomicPair {
  std::atomic<std::uint64_t> free = 100'000;

  void operator()(std::uint64_t) {
    free.fetch_sub(63, std::memory_order_acquire);
    free.fetch_add(63, std::memory_order_release);
  }
};

struct ReserveRelease {
  TokenGate gate{1'600'000_tokens, 32'000_tokens};
  TokenRoom another = gate.reserve(1'000_tokens);

  void operator()(std::uint64_t) {
    TokenRoom const room = gate.reserve(1'000_tokens);
    expect(static_cast<bool>(room));
  }
};

/// A controller with 64 requests of four classes running. Their prompts differ by a token, so that in every step four of them are
/// at the end of a block of 16.
struct Running {
  static constexpr std::uint64_t classes = 4;
  static AdmissionLimits limits() {
    return {.capacity = 10'000'000'000_blocks, .headroom = 2_percent, .footprint = paged(16_tokens), .classes = classes};
  }

  AdmissionController<> gate;
  std::array<AdmissionController<>::Lease, 64> batch;

  explicit Running(AdmissionLimits const& of = limits()) : gate{of} {
    for (std::uint64_t i = 0; i < batch.size(); ++i) {
      gate.submit({.prompt = Tokens{1'000 + i}, .max_new = 100'000'000'000_tokens, .request_class = i % classes});
      batch[i] = gate.admit_next();
      expect(!batch[i].ended());
    }
  }
};

struct SubmitAdmitRelease : Running {
  using Running::Running;
  void operator()(std::uint64_t i) {
    expect(gate.submit({.prompt = 1'000_tokens, .max_new = 100_tokens, .request_class = i % classes}).queued());
    auto const lease = gate.admit_next();
    expect(!lease.ended());
  }
};

/// What looking at each lease takes by itself: the loop, which is part of GrowToken.
struct LookAtLease : Running {
  void operator()(std::uint64_t i) {
    if (i % batch.size() != 0) return;
    for (auto& lease : batch) expect(!lease.ended());
  }
};

/// A token of each lease in every step, as a scheduler's loop asks for it and then looks whether the lease has ended.
struct GrowToken : Running {
  using Running::Running;
  void operator()(std::uint64_t i) {
    if (i % batch.size() != 0) return;
    for (auto& lease : batch) {
      lease.grow(1_tokens);
      expect(!lease.ended());
    }
  }
};

/// The same where each class is sure of a part and may have so much, and so many may run.
template <class Work>
struct WithClassLimits : Work {
  static AdmissionLimits limits() {
    AdmissionLimits of = Running::limits();
    for (std::uint64_t i = 0; i < Running::classes; ++i)
      of.class_limits.push_back({.floor = 1'000'000_tokens, .running = 1'000, .tokens = 1'000'000'000'000_tokens});
    of.max_running = 2'000;
    return of;
  }
  WithClassLimits() : Work{limits()} {}
};

/// Steps of a scheduler, planned and committed. An operation is one decision: a thousand requests of four classes run on, or start, and some
/// of 10,000 that wait are looked at.
struct PlannedSteps {
  static constexpr std::uint64_t classes = 4, decisions = 1'024;  // in each step

  AdmissionController<> gate;
  AdmissionController<>::StepPlan plan;

  PlannedSteps(std::uint64_t max_running, Bypass bypass)
      : gate{{.capacity = 10'000'000'000_blocks, .footprint = paged(16_tokens), .classes = classes, .max_live = 12'000, .max_running = max_running},
             {.order = {.bypass = bypass}}} {}

  void submit(std::uint64_t requests, Tokens shortest) {
    for (std::uint64_t i = 0; i < requests; ++i)
      expect(gate.submit({.prompt = shortest + Tokens{i}, .max_new = 100'000_tokens, .request_class = i % classes}).queued());
  }
  void step() {
    gate.begin_step(gate.now() + 1);
    gate.plan({}, plan);
    expect(gate.commit(plan));
  }
};

/// As many run as may, in order of arrival. In every step 64 are complete, and as many are submitted and start.
struct PlanStep : PlannedSteps {
  static constexpr std::uint64_t changing = 64;

  PlanStep() : PlannedSteps{decisions - 1, {}} {
    submit(decisions - 1 + 10'000, 1'000_tokens);
    step();
    step();
  }
  void operator()(std::uint64_t i) {
    if (i % decisions != 0) return;
    for (std::uint64_t first = 0; first < changing; ++first) expect(gate.finish(plan.grow[first].ticket()));
    submit(changing, 1'000_tokens);
    step();
    expect(plan.grow.size() + changing + 1 == decisions && plan.admit.size() == changing && plan.wait.size() == 1);
  }
};

/// None of those that wait fits beside those that run, and 16 of them are looked at in every step.
struct PlanStepBypass : PlannedSteps {
  static constexpr std::uint32_t scan = 16;

  PlanStepBypass() : PlannedSteps{saturated_count, {.passes = 16, .scan = scan}} {
    submit(decisions - scan, 1'000_tokens);
    step();
    submit(10'000, 159'999'800'000_tokens);
  }
  void operator()(std::uint64_t i) {
    if (i % decisions != 0) return;
    step();
    expect(plan.grow.size() + scan == decisions && plan.wait.size() == scan && plan.wait.back().reason() == Reason::no_room);
  }
};

inline constexpr std::uint64_t no_bound = 0;

/// The bound is on what an operation takes; where another scenario is named, on what it takes more than that one's.
template <class Work>
struct Scenario {
  char const* name;
  std::uint64_t most_instructions{no_bound};
  char const* more_than{"-"};
};

template <class Visit>
void for_each_scenario(Visit visit) {
  visit(Scenario<PlainCounter>{"plain_counter"});
  visit(Scenario<AtomicPair>{"atomic_pair"});
  visit(Scenario<ReserveRelease>{"token_gate_reserve_release"});
#if __has_include(<floor_prefix.cpp>)
  visit(Scenario<FloorBlocks>{"floor_take_give_63_blocks"});
#endif
  visit(Scenario<SubmitAdmitRelease>{"submit_admit_release", 600});
  visit(Scenario<LookAtLease>{"look_at_lease"});
  visit(Scenario<GrowToken>{"grow_token", 20, "look_at_lease"});
  visit(Scenario<WithClassLimits<SubmitAdmitRelease>>{"submit_admit_release_class_limits", 1'500});
  visit(Scenario<WithClassLimits<GrowToken>>{"grow_token_class_limits", 800, "look_at_lease"});
  visit(Scenario<PlanStep>{"plan_step", 1'500});
  visit(Scenario<PlanStepBypass>{"plan_step_bypass", 1'500});
}

}  // namespace kvbudget::scenarios
