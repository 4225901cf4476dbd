// The steps of a scheduler, told by the names of its requests: who was preempted, who went on, who started.
#pragma once

#include "catch.hpp"

#include <kvbudget/admit/controller.hpp>

#include <ostream>
#include <string>

namespace steps {

using namespace kvbudget;

inline Request ask(char name, std::uint64_t prompt, std::uint64_t max_new, std::int32_t priority = 0) {
  return {.prompt = {prompt}, .max_new = {max_new}, .tag = static_cast<unsigned char>(name), .priority = priority};
}

/// Names, one after the other.
template <class List>
std::string names(List const& list) {
  std::string all;
  for (auto const& one : list) all += static_cast<char>(one.tag);
  return all;
}

template <class Gate>
std::string waiting(Gate const& gate) {
  std::string all;
  gate.each_waiting([&](Ticket, Request const& request) { all += static_cast<char>(request.tag); });
  return all;
}

struct Did {
  std::string preempted{};
  std::string went_on{};
  std::string started{};

  friend bool operator==(Did const&, Did const&) = default;
};

inline std::ostream& operator<<(std::ostream& out, Did const& did) { return out << did.preempted << "/" << did.went_on << "/" << did.started; }

template <class Gate>
Did step(Gate& gate, StepBudget const& budget = {}) {
  gate.begin_step(gate.now() + 1);
  auto const plan = gate.plan(budget);
  REQUIRE(gate.commit(plan));
  REQUIRE(gate.balanced());
  return {names(plan.preempt), names(plan.grow), names(plan.admit)};
}

/// Three run, and 3 blocks are free. The first takes one; the second has 7 tokens to compute, where the third would give 3 more.
template <class Policy>
Did asks_too_much(Policy policy) {
  AdmissionController<Policy> gate{{.capacity = Tokens{15}}, policy};
  gate.submit(ask('A', 5, 8));
  Ticket const asker = gate.submit(ask('B', 4, 8)).ticket;
  gate.submit(ask('C', 3, 8));
  REQUIRE(step(gate) == Did{.started = "ABC"});
  REQUIRE(gate.generated(asker, Tokens{6}));
  return step(gate);
}

Blocks free(auto const& gate) { return gate.pool().supply.available(); }

}  // namespace steps
