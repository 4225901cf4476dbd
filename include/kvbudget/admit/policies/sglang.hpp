// SGLang's scheduler (9fec359a6), radix cache off, one full pool, no overlap, no speculation: rules S02 to S31 of facts/sglang.md 6, pass by
// pass as the runtime decides. A pass either prefills or decodes. S01, the check of a prompt's length, is the server's and comes before.
//
//   AdmissionController gate{{.capacity = 49'152_tokens,             // max_total_num_tokens
//                             .footprint = paged(16_tokens),          // page_size
//                             .max_running = 64,                      // max_running_requests
//                             .max_length = 8'192_tokens},            // context_length
//                            policies::Sglang{.conservativeness = 0.3}};
//   gate.commit(gate.plan()); gate.memory().ratio, .batch_is_full, .decisions   what SGLang would hold, and said of whom it looked at
// Plans decide so; leases, why() and more_of() go by the parts below, which know neither ratio nor latch. The new-token ratio, and what is
// compared with it, is in double because the runtime has it so; all else counts in integers. Classes, floors and headroom SGLang does not
// have: limits that name them are bad limits. A step's own budget bounds prefills. Plans allocate: the memory is lists of what runs.
//
// Of I1 to I24 (facts: admission.md E.3) the original breaks, and so does this:
//   I8   alone, the head may be neither started nor rejected: the gate wants a page more than there is [OBS-5], and the latch stays set (S13)
//   I9   what can never fit waits for ever, and with it all behind it [OBS-5]
//   I11  who finishes or is cancelled gives its blocks back, but keeps its seat and its charge until the next decode (S10)
//   I15  victims are chosen without the asker's prompt: too few give way, for nobody [OBS-8], and are then lost: refused (Reason::preempted)
//   I16  lof and priorities never age: who comes later may start first, for ever
//   I17  the page beside a request is asked for when nothing runs, too
// and the original alone: I22, several preempted together are queued in the order of a Python set (S32; here as they were chosen).
//   OBS-6  after the only request is aborted the ratio is 0, below its floor, until the next decode. Only a pool that shrank brings that about.
//   OBS-7  a prompt that was cut is no candidate when room runs out; without sliding windows no pass decodes while there is one.
// policies::Recommended has none of OBS-5 to OBS-8 (tests/admit/sglang_test.cpp).
#pragma once

#include <kvbudget/admit/policies/sglang/decode.hpp>
#include <kvbudget/admit/policies/sglang/order.hpp>
#include <kvbudget/admit/policies/sglang/prefill.hpp>
#include <kvbudget/admit/policies/sglang/running_batch.hpp>

namespace kvbudget::inline v1::policies {

struct Sglang {
  Tokens chunked_prefill{8'192};  // --chunked-prefill-size, of a prefill in all; Tokens::max(): off
  Tokens max_prefill{16'384};     // --max-prefill-tokens
  double conservativeness{1.0};   // --schedule-conservativeness
  std::uint64_t prefill_max_requests{saturated_count};
  bool preempts{};  // --enable-priority-preemption (S31)
  std::int64_t preemption_threshold{10};

  kvbudget::need::PromptAndNew need{};
  kvbudget::headroom::AsGiven headroom{};
  sglang::Order order{};
  sglang::FewestOutputs victim{};
  kvbudget::Preemption preemption{.front = false, .anew = true};
  static constexpr bool waits_for_ever = true;

  using Memory = sglang::Memory;
  Memory initial_memory() const { return {.ratio = sglang::NewTokenRatio{conservativeness}.first}; }
  static void left(Memory& memory, Ticket ticket, Live const& live) { sglang::leave(memory, ticket, live); }

  template <class Planner>
  void plan(Planner& planner) const {
    if (planner.pools() == 0) return;  // the limits are bad
    Memory& memory = planner.plan().memory;
    memory.decisions.clear();
    memory.retraction = {};
    memory.sorted = false;
    sglang::join(planner);
    if (!sglang::Prefill{planner, *this}.run()) sglang::Decode{planner, *this}.run();
  }

  /// S02: of the context and of the pool a token stays free, and of the pool a page.
  constexpr Tokens most_new(Request const& request, PoolView const& pool, Tokens context) const {
    Tokens const total = pool.block * pool.capacity.count, longest = min(context, total) - Tokens{1};
    return min(request.max_new, min(longest - request.prompt - Tokens{1}, total - round_up(request.prompt, pool.block) - pool.block - Tokens{1}));
  }

  constexpr Complaints check(AdmissionLimits const& limits) const {
    Complaints complaints{};
    auto const refuse = [&](char const* field, std::uint64_t value, char const* accepted) {
      if (value != 0) complaints.push_back({field, value, accepted, "leave it out, or take another policy"});
    };
    Footprint const footprint = limits.resolved_footprint();
    bool const one_full_pool = footprint.groups.size() == 1 && footprint.groups[0].keeps == Keeps::everything && limits.block(0) != Tokens{};
    refuse(".footprint", one_full_pool ? 0 : footprint.groups.size(), "one group that keeps every token: paged(page_size)");
    refuse(".more_pools", limits.more_pools.size(), "none");
    refuse(".headroom", limits.headroom_of(0).count, "none");
    refuse(".class_limits", limits.class_limits.size(), "none");
    refuse(".adapters", limits.adapters, "0");
    refuse(".whole_prompts", limits.whole_prompts, "false: no prompt is cut where chunked_prefill is Tokens::max()");
    refuse(".retires", limits.retires, "false: nothing is given back while a step may write it");
    refuse(".victim.low_first", victim.by_priority && victim.low_first != order.low_first, "the same as .order.low_first");
    return complaints;
  }
};
static_assert(AdmissionPolicy<Sglang>);

}  // namespace kvbudget::inline v1::policies
