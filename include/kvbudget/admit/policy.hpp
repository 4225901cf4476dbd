// The small parts a policy is composed of. Each is a pure function of const views and decides one thing:
//   need      how many tokens must have room before a waiting request starts
//   headroom  how many blocks of a pool admission leaves free while something runs
//   order     whether a request that does not fit stops those behind it
//   limits    whether a request's class may have another running now; one that may not is passed by, and stops nobody. And, where
//             they say so, whether it may have another queued
//   victim    which running request gives way first when growth runs out of room
// A policy is an aggregate of them; the controller asks, and does the bookkeeping once for all.
#pragma once

#include <kvbudget/admit/account.hpp>
#include <kvbudget/core/rounding.hpp>

#include <array>

namespace kvbudget::inline v1 {

/// A request that waits. `known` tokens are there to be computed: the prompt, and what was grown before a preemption.
struct WaitingView {
  Request const& request;
  Tokens known{};
};

/// A request that runs. `admission` numbers the admissions: a larger one is newer.
struct RunningView {
  Request const& request;
  Tokens cached{};
  std::uint64_t admission{};
  Blocks held{};  // of pool 0
};

/// A pool, to decide its headroom by: what the limits give it, its capacity, how many requests run, and what their next token takes.
struct HeadroomView {
  Blocks given{};
  Blocks capacity{};
  std::uint32_t running{};
  Blocks next_step{};
};

namespace need {
/// Room for every known token. Admitting on the first chunk lets long prompts in that evict each other (vLLM #37307).
struct WholePrompt {
  constexpr Tokens operator()(WaitingView const& waiting) const { return waiting.known; }
};

/// Room for all that may come: no growth ever fails, and nobody is preempted. Long limits on short outputs leave the pool empty.
struct PromptAndNew {
  constexpr Tokens operator()(WaitingView const& waiting) const { return waiting.request.prompt + waiting.request.max_new; }
};
}  // namespace need

namespace headroom {
/// As the limits say; waived when nothing runs, so that the head of the queue always starts then.
struct AsGiven {
  constexpr Blocks operator()(HeadroomView const& pool) const { return pool.running == 0 ? Blocks{} : pool.given; }
};

/// Beside that, what the running requests' next token takes: a request that starts does not preempt one in the same step. At least
/// `least` of the pool, rounded up. Waived when nothing runs.
struct NextStep {
  Percent least{};
  constexpr Blocks operator()(HeadroomView const& pool) const {
    if (pool.running == 0) return {};
    return max(pool.given, share_up(least, pool.capacity)) + pool.next_step;
  }
};

/// `steps` blocks for each running request (MLC-LLM: 8). Waived when nothing runs.
struct StepsTimesBatch {
  std::uint32_t steps{8};
  constexpr Blocks operator()(HeadroomView const& pool) const { return max(pool.running == 0 ? Blocks{} : pool.given, Blocks{steps} * pool.running); }
};
}  // namespace headroom

namespace order {
/// In order of arrival, preempted requests in front. Strict: a head that does not fit blocks all; else later ones may start.
struct Arrival {
  bool scan_on{false};
  constexpr bool stops_at(Verdict const&) const { return !scan_on; }
};
}  // namespace order

/// What a class may have at most; nothing said is no limit.
struct ClassLimit {
  std::uint64_t running{saturated_count};  // requests
  Tokens tokens{Tokens::max()};            // cached by them, the one that would start included
  std::uint64_t queued{saturated_count};   // requests
  Tokens queued_tokens{Tokens::max()};     // prompts, the one that asks included
};

namespace limits {
/// Any class may run as much as fits.
struct None {
  constexpr bool admits(WaitingView const&, ClassAccount const&) const { return true; }
};

/// A ceiling for each of the first N classes, in requests and in tokens, running and queued. A class at its ceiling is passed by and
/// stops nobody; a full queue rejects at submit, before any work is done. Under its ceilings a class is served as without them.
template <std::size_t N>
struct Ceilings {
  std::array<ClassLimit, N> of{};

  constexpr bool admits(WaitingView const& waiting, ClassAccount const& account) const {
    ClassLimit const limit = of_class(waiting.request);
    return account.active_requests < limit.running && account.active_tokens + waiting.known <= limit.tokens;
  }
  constexpr bool queues(Request const& request, ClassAccount const& account) const {
    ClassLimit const limit = of_class(request);
    return account.queued_requests < limit.queued && account.queued_tokens + request.prompt <= limit.queued_tokens;
  }

 private:
  constexpr ClassLimit of_class(Request const& request) const { return request.request_class.index < N ? of[request.request_class.index] : ClassLimit{}; }
};
}  // namespace limits

namespace victim {
/// The newest gives way: it has the least to lose, and the oldest is sure to finish.
struct Newest {
  constexpr bool yields_before(RunningView const& a, RunningView const& b) const { return a.admission > b.admission; }
};

/// The one with fewest cached tokens gives way: least is computed again (vLLM RFC #54644: 40% to 59% less waste). Of equals the newest.
struct LeastComputed {
  constexpr bool yields_before(RunningView const& a, RunningView const& b) const {
    return a.cached != b.cached ? a.cached < b.cached : a.admission > b.admission;
  }
};

/// The lowest class gives way, which is the one of the highest index; in a class the newest.
struct LowestClass {
  constexpr bool yields_before(RunningView const& a, RunningView const& b) const {
    auto const of = [](RunningView const& view) { return view.request.request_class.index; };
    return of(a) != of(b) ? of(a) > of(b) : a.admission > b.admission;
  }
};

/// The one whose blocks cost least to compute again gives way: cached tokens for each block that it frees. Of equals the newest.
struct CheapestBlocks {
  constexpr bool yields_before(RunningView const& a, RunningView const& b) const {
    std::uint64_t const cost_a = saturating_multiply(a.cached.count, b.held.count), cost_b = saturating_multiply(b.cached.count, a.held.count);
    return cost_a != cost_b ? cost_a < cost_b : a.admission > b.admission;
  }
};
}  // namespace victim

template <class P>
concept AdmissionPolicy = requires(P const& policy, WaitingView const& waiting, RunningView const& running, HeadroomView const& pool, Verdict const& verdict,
                                   ClassAccount const& account) {
  { policy.need(waiting) } -> std::same_as<Tokens>;
  { policy.headroom(pool) } -> std::same_as<Blocks>;
  { policy.order.stops_at(verdict) } -> std::same_as<bool>;
  { policy.limits.admits(waiting, account) } -> std::same_as<bool>;
  { policy.victim.yields_before(running, running) } -> std::same_as<bool>;
};

/// Limits that bound a class's queue as well.
template <class Limits>
concept BoundsQueues = requires(Limits const& limits, Request const& request, ClassAccount const& account) {
  { limits.queues(request, account) } -> std::same_as<bool>;
};

}  // namespace kvbudget::inline v1
