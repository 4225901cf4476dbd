// The small parts a policy is composed of. Each is a pure function of const views and decides one thing:
//   need      how many tokens must have room before a waiting request starts
//   headroom  how many blocks of a pool admission leaves free while something runs
//   order     whether a request that does not fit stops those behind it
//   limits    whether a request's class may have another running now; one that may not is passed by, and stops nobody
//   victim    which running request gives way first when growth runs out of room
// A policy is an aggregate of them; the controller asks, and does the bookkeeping once for all.
#pragma once

#include <kvbudget/admit/account.hpp>

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
};

/// A pool, to decide its headroom by: what the limits give it, its capacity, and how many requests run.
struct HeadroomView {
  Blocks given{};
  Blocks capacity{};
  std::uint32_t running{};
};

namespace need {
/// Room for every known token. Admitting on the first chunk lets long prompts in that evict each other (vLLM #37307).
struct WholePrompt {
  constexpr Tokens operator()(WaitingView const& waiting) const { return waiting.known; }
};
}  // namespace need

namespace headroom {
/// As the limits say; waived when nothing runs, so that the head of the queue always starts then.
struct AsGiven {
  constexpr Blocks operator()(HeadroomView const& pool) const { return pool.running == 0 ? Blocks{} : pool.given; }
};
}  // namespace headroom

namespace order {
/// In order of arrival, preempted requests in front. Strict: a head that does not fit blocks all; else later ones may start.
struct Arrival {
  bool scan_on{false};
  constexpr bool stops_at(Verdict const&) const { return !scan_on; }
};
}  // namespace order

namespace limits {
/// Any class may run as much as fits.
struct None {
  constexpr bool admits(WaitingView const&, ClassAccount const&) const { return true; }
};
}  // namespace limits

namespace victim {
/// The newest gives way: it has the least to lose, and the oldest is sure to finish.
struct Newest {
  constexpr bool yields_before(RunningView const& a, RunningView const& b) const { return a.admission > b.admission; }
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

}  // namespace kvbudget::inline v1
