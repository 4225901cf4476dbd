// What the tests of admission share: a policy put together of parts, requests by their numbers, and a step that is planned and done.
#pragma once

#include "catch.hpp"

#include <kvbudget/admit/controller.hpp>

#include <string>
#include <vector>

template <class Order = kvbudget::order::Arrival, class Need = kvbudget::need::WholePrompt, class Victim = kvbudget::victim::Newest,
          class Holds = kvbudget::holds::Most>
struct Parts {
  Need need{};
  kvbudget::headroom::AsGiven headroom{};
  Order order{};
  Victim victim{};
  kvbudget::Preemption preemption{};
  Holds holds{};
};
using ByArrival = Parts<>;
using Smallest = Parts<kvbudget::order::Arrival, kvbudget::need::WholePrompt, kvbudget::victim::LeastComputed>;  // gives way first

inline kvbudget::Request ask(std::uint64_t prompt, std::uint64_t max_new = 0, std::uint64_t tag = 0) {
  return {.prompt = {prompt}, .max_new = {max_new}, .tag = tag};
}
inline kvbudget::Request of_class(std::uint32_t index, std::uint64_t prompt, std::uint64_t max_new = 0, std::uint64_t tag = 0) {
  return {.prompt = {prompt}, .max_new = {max_new}, .request_class = index, .tag = tag};
}

using Tags = std::vector<std::uint64_t>;

inline Tags tags(std::vector<kvbudget::Planned> const& list) {
  Tags result;
  for (auto const& one : list) result.push_back(one.tag);
  return result;
}
template <class Lease>
Tags tags(std::vector<Lease> const& leases) {
  Tags result;
  for (auto const& lease : leases) result.push_back(lease.tag());
  return result;
}

/// Tokens that a plan computes of the request with this tag.
template <class Plan>
kvbudget::Tokens tokens_of(Plan const& plan, std::uint64_t tag) {
  for (auto const* list : {&plan.grow, &plan.admit})
    for (auto const& one : *list)
      if (one.tag == tag) return one.tokens;
  return {};
}

template <class Gate>
auto step(Gate& gate, kvbudget::StepBudget const& budget = {}) {
  gate.begin_step(gate.now() + 1);
  auto plan = gate.plan(budget);
  REQUIRE(gate.commit(plan));
  REQUIRE(gate.balanced());
  return plan;
}

template <class Gate>
std::vector<typename Gate::Lease> admit_all(Gate& gate) {
  std::vector<typename Gate::Lease> leases;
  while (auto lease = gate.admit_next()) leases.push_back(std::move(lease));
  return leases;
}

/// A number of blocks, of which requests may use the same ones.
struct Shared : kvbudget::Counter {
  static constexpr bool shares_blocks = true;
  using kvbudget::Counter::Counter;
};

/// Somebody else's block manager: one count, of which others hold a part and whose cached blocks may be taken.
struct BlockManager {
  static constexpr bool shares_blocks = true;
  kvbudget::Supply* supplied;

  kvbudget::Supply supply() const { return *supplied; }
  bool take(kvbudget::Blocks blocks) {
    if (blocks > supplied->available()) return false;
    kvbudget::Blocks const clean = min(blocks, supplied->clean);
    supplied->clean -= clean;
    supplied->cached_idle -= blocks - clean;
    return true;
  }
  void give(kvbudget::Blocks blocks) { supplied->clean += blocks; }
};
