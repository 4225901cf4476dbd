// What one step of a scheduler does, decided and not yet done: who is preempted, who grows, who starts, who is refused, and why.
//
//   auto const plan = gate.plan();                 changes nothing, and says the same however often it is asked
//   for (auto const& one : plan.admit) ...         one.ticket(), one.tokens: what the engine computes of it in this step
//   gate.commit(plan);                             does it; false, and nothing done, when something has changed in between
// An abandoned plan leaves no trace. digest() is the same on every rank that saw the same calls: compare it before the step runs.
#pragma once

#include <kvbudget/admit/future_peak.hpp>
#include <kvbudget/admit/live.hpp>

namespace kvbudget::inline v1 {

/// What a request does in a step, and the room that it takes.
struct Work {
  Tokens tokens{};           // that the step computes of it, in one branch
  PoolBlocks blocks{};       // of each pool: held after it has grown, or taken to start
  Tokens reserved{};         // a start: the length it has room for
  Tokens found{};            // a start: tokens found cached
  Footprint::Reach reach{};  // how far it then gets
};

/// One decision of a plan. Its verdict says why, and holds the numbers and the pool it was made by.
struct Planned : Work {
  Verdict verdict{};
  RequestClass request_class{};
  std::uint64_t tag{};
  RequestClass beneficiary{};  // one that is preempted: the class of whom it gives way for
  std::uint32_t passed_by{};   // one that waits: how many start in this plan although it was looked at before them

  Ticket ticket() const { return verdict.ticket; }
  Reason reason() const { return verdict.reason; }
};

/// A waiting request that was looked at: whether it fits now, and what it takes where it does.
struct Considered : Work {
  Verdict verdict{};          // where it does not fit, with the numbers of what binds
  PoolBlocks must_be_free{};  // of each pool

  Ticket ticket() const { return verdict.ticket; }
  bool fits() const { return verdict.admitted(); }
};

/// What a class has, to compare with its limits.
struct ClassUsage {
  std::uint64_t active_requests{};
  std::uint64_t started{};  // of them, by a plan
  Tokens active_tokens{};
  Tokens to_compute{};
  Blocks held{};  // of pool 0
};

/// A policy that remembers nothing from step to step.
struct NoMemory {};

template <class Memory = NoMemory>
struct BasicStepPlan {
  // In this order they are done; in each list in the order they were decided in.
  std::vector<Planned> preempt;
  std::vector<Planned> grow;  // who runs on, and those whose growth waits (0 tokens)
  std::vector<Planned> admit;
  std::vector<Planned> refuse;  // queued or running requests that can never be served
  std::vector<Planned> wait;    // looked at, and not admitted

  /// Tokens that the step computes.
  Tokens tokens() const {
    Tokens sum{};
    for (auto const* list : {&grow, &admit})
      for (auto const& one : *list) sum += one.tokens;
    return sum;
  }

  /// The same for the same decisions, on every machine: FNV-1a over each list's tickets, reasons, pools and tokens.
  std::uint64_t digest() const {
    std::uint64_t hash = 0xcbf2'9ce4'8422'2325;
    auto const add = [&hash](std::uint64_t value) { hash = (hash ^ value) * 0x0000'0100'0000'01b3; };
    for (auto const* list : {&preempt, &grow, &admit, &refuse, &wait}) {
      add(list->size());
      for (auto const& one : *list) {
        add(std::uint64_t{one.ticket().slot} << 32 | one.ticket().generation);
        add(std::uint64_t{one.verdict.pool} << 8 | static_cast<std::uint64_t>(one.reason()));
        add(one.tokens.count);
      }
    }
    return hash;
  }

  /// What the planner works with. Of no use to anybody else; kept here so that a plan that is used again allocates nothing.
  struct Draft {
    struct OfPool {
      Blocks available{};
      Blocks owed{};    // held beyond the capacity
      Blocks coming{};  // free when the steps in flight retire
      Blocks next_step{};
    };
    struct Of {  // a request, as of `epoch`
      std::uint64_t epoch{};
      std::uint64_t look{};  // when it was last looked at in vain
      std::uint32_t grow{};  // its place in `grow`, one more; 0: none
      std::uint32_t wait{};  // and in `wait`
      bool preempted{};
      bool started{};
    };
    struct OfClass {
      std::uint64_t epoch{};
      ClassUsage usage{};
      std::uint64_t limited{};  // the look in which nobody of it is looked at any more
    };
    struct OfLane {
      std::uint64_t look{};
      std::uint32_t next{};  // who is looked at next
    };
    struct OfTenant {
      std::uint64_t epoch{};
      std::uint64_t served{};
    };
    std::uint64_t epoch{};
    std::uint64_t look{};  // of the queue from its front: the first of a plan, and another after each start where somebody waits
    OfPool pools[max_pools]{};
    Considered considered{};  // last
    std::vector<Of> requests;
    std::vector<OfClass> classes;
    std::vector<OfLane> lanes;
    std::vector<OfTenant> tenants;
    std::vector<std::uint64_t> adapters;  // that the plan loads
    FuturePeak peak;                      // with those that the plan starts, where the need looks ahead
  } draft;
  std::uint64_t version{};  // of the controller that it was made on
  PoolBlocks available{};   // that the sources had then
  bool of_whole_step{};     // commit() advances every request's tokens
  [[no_unique_address]] Memory memory{};

  void clear() {
    for (auto* list : {&preempt, &grow, &admit, &refuse, &wait}) list->clear();
    ++draft.epoch;
    ++draft.look;
    draft.adapters.clear();
    of_whole_step = false;
  }
};

}  // namespace kvbudget::inline v1
