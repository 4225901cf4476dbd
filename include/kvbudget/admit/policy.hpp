// The small parts a policy is composed of. Each is a pure function of const views and decides one thing:
//   need    how many tokens must have room before a waiting request starts
//   order   whether a request that does not fit stops those behind it
//   victim  which running request gives way first when growth runs out of room
// A policy is an aggregate of them; the controller asks, and does the bookkeeping once for all.
#pragma once

#include <kvbudget/admit/verdict.hpp>

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

namespace need {
/// Room for every known token. Admitting on the first chunk lets long prompts in that evict each other (vLLM #37307).
struct WholePrompt {
  constexpr Tokens operator()(WaitingView const& waiting) const { return waiting.known; }
};
}  // namespace need

namespace order {
/// In order of arrival, preempted requests in front. Strict: a head that does not fit blocks all; else later ones may start.
struct Arrival {
  bool scan_on{false};
  constexpr bool stops_at(Verdict const&) const { return !scan_on; }
};
}  // namespace order

namespace victim {
/// The newest gives way: it has the least to lose, and the oldest is sure to finish.
struct Newest {
  constexpr bool yields_before(RunningView const& a, RunningView const& b) const { return a.admission > b.admission; }
};
}  // namespace victim

template <class P>
concept AdmissionPolicy = requires(P const& policy, WaitingView const& waiting, RunningView const& running, Verdict const& verdict) {
  { policy.need(waiting) } -> std::same_as<Tokens>;
  { policy.order.stops_at(verdict) } -> std::same_as<bool>;
  { policy.victim.yields_before(running, running) } -> std::same_as<bool>;
};

}  // namespace kvbudget::inline v1
