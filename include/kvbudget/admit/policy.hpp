// The small parts a policy is composed of. Each is a pure function of const views and decides one thing:
//   need        how many tokens must have room before a waiting request starts
//   headroom    how many blocks of a pool admission leaves free while something runs
//   order       who comes first, and whether a request that does not fit stops those behind it
//   victim      which running request gives way first when growth runs out of room
//   preemption  what a request that gave way keeps, and what it must find before it starts again      (may be left out)
//   holds       what a running request holds of a pool: the most it can on its way, or exactly          (may be left out)
// A policy is an aggregate of them; the controller asks, and does the bookkeeping once for all. One that mimics a runtime may also bring
//   plan(Planner&)           decides a whole step itself
//   Memory                   what it remembers from step to step: a plan holds the next one, and commit installs it
//   initial_memory()         the first one
//   left(Memory&, ..)        a request in flight leaves for good
//   most_new(..)             what max_new is cut to at submit
//   check(limits)            what the limits say and the policy does not know
//   waits_for_ever           a constant: what can never fit is queued all the same
#pragma once

#include <kvbudget/admit/account.hpp>
#include <kvbudget/admit/output_lengths.hpp>
#include <kvbudget/core/footprint.hpp>

namespace kvbudget::inline v1 {

/// A request that waits. `known` tokens are there to be computed: the prompt, and what was generated before a preemption.
struct WaitingView {
  Request const& request;
  Tokens known{};
  std::uint64_t arrived{};  // the step it was submitted in, as begin_step told it
  Tokens at_once{};         // the most tokens that its first step could compute
  Tokens generated{};
  OutputLengths const* outputs{};  // of its class, where the need learns from them
};

/// A request that runs. `admission` numbers the admissions: a larger one is newer. So does `arrival` the submissions.
struct RunningView {
  Request const& request;
  Tokens cached{};
  std::uint64_t admission{};
  Blocks held{};  // of pool 0
  std::uint64_t arrival{};
  Tokens generated{};
};

/// A pool, to decide its headroom by: what the limits give it, its capacity, how many requests run, and what their next token takes. Of a part
/// that has fixed(given, capacity), which only a resize changes, `given` is what that says.
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

/// Room for what the first step computes, and no more: how runtimes thrash on long prompts.
struct FirstChunk {
  static constexpr bool may_be_part = true;  // of the known tokens
  constexpr Tokens operator()(WaitingView const& waiting) const { return min(waiting.known, waiting.at_once); }
};

/// Room for every known token must be free, but only what a step computes is taken: others may take the rest meanwhile.
struct WholePromptFree {
  static constexpr bool taken_by_chunks = true;
  constexpr Tokens operator()(WaitingView const& waiting) const { return waiting.known; }
};

/// Room for all that may come: no growth ever fails, and nobody is preempted. Long limits on short outputs leave the pool empty.
struct PromptAndNew {
  constexpr Tokens operator()(WaitingView const& waiting) const { return waiting.request.prompt + waiting.request.max_new; }
};

/// Room for what its class's outputs have turned out to be: prompt + the length that `share` of them do not exceed; of one that has generated
/// more already, of those that got as far. As long as too few are known, room for all that may come.
struct PromptAndExpected {
  static constexpr bool learns = true;
  Percent share{90};
  constexpr Tokens operator()(WaitingView const& waiting) const {
    return waiting.request.prompt + min(waiting.request.max_new, waiting.outputs->quantile_beyond(share, waiting.generated));
  }
};

/// Room for every known token now, and for all that run together up to their last token: the most they will ever hold at once must fit beside
/// the headroom given (Past-Future, MC-SF). Where lengths are known and every request decodes a token a step, no growth ever fails.
struct FuturePeak {
  static constexpr bool looks_ahead = true;
  constexpr Tokens operator()(WaitingView const& waiting) const { return waiting.known; }
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
  constexpr Blocks fixed(Blocks given, Blocks capacity) const { return max(given, share_up(least, capacity)); }
  constexpr Blocks operator()(HeadroomView const& pool) const { return pool.running == 0 ? Blocks{} : pool.given + pool.next_step; }
};

/// `steps` blocks for each running request (MLC-LLM: 8). Waived when nothing runs.
struct StepsTimesBatch {
  std::uint32_t steps{8};
  constexpr Blocks operator()(HeadroomView const& pool) const { return max(pool.running == 0 ? Blocks{} : pool.given, Blocks{steps} * pool.running); }
};
}  // namespace headroom

/// How far a request that does not fit may be passed over by those behind it. Nothing said: not at all.
struct Bypass {
  std::uint32_t passes{};                  // requests that may start before one that was examined and did not fit; then it stops them
  std::uint64_t steps{~std::uint64_t{0}};  // since it was submitted; then, too, it stops them
  std::uint32_t scan{16};                  // requests that do not fit and are looked at, in one admission
};
inline constexpr Bypass unbounded_bypass{.passes = 0xffff'ffff, .scan = 0xffff'ffff};

// Who has the smaller rank comes first; of equals, whoever was submitted first. A request that was preempted comes before those that
// were not. A rank is a step: "as if it had been submitted then", so that whoever waits gets ahead of whoever comes much later.
namespace order {
/// In order of arrival.
struct Arrival {
  static constexpr bool by_arrival = true;  // all have the same rank
  Bypass bypass{};
  constexpr std::uint64_t rank(WaitingView const&) const { return 0; }
};

/// By Request::priority, smaller first, and of equals by arrival_time. A request rises by one priority in `age` steps of waiting; 0: never.
struct Priority {
  std::uint64_t age{};
  Bypass bypass{};
  constexpr Place rank(WaitingView const& waiting) const {
    std::uint64_t const level = static_cast<std::uint64_t>(std::int64_t{waiting.request.priority} + (std::int64_t{1} << 31));
    return {age == 0 ? level : saturating_add(waiting.arrived, saturating_multiply(level, age)), waiting.request.arrival_time};
  }
};

/// Fewest known tokens first. `pace` tokens weigh as much as one step of waiting, so that no request waits for those which come more than
/// known / pace steps later; 0: no such bound.
struct Shortest {
  Tokens pace{1'024};
  Bypass bypass{};
  constexpr std::uint64_t rank(WaitingView const& waiting) const {
    return pace == Tokens{} ? waiting.known.count : saturating_add(waiting.arrived, waiting.known.count / pace.count);
  }
};

/// The tenant that was served least comes first, in order of arrival within it (virtual token counter, arXiv 2401.00588): a token to compute
/// counts `input`, a generated one `output`. A tenant that had nothing here is lifted to the least served of those that have.
struct FairShare {
  static constexpr bool by_arrival = true;
  std::uint64_t input{1};
  std::uint64_t output{2};
  Bypass bypass{};
  constexpr std::uint64_t rank(WaitingView const&) const { return 0; }
};
}  // namespace order

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

/// The one with the largest Request::priority gives way, of equals the one that came in last, by arrival_time and then by submission.
struct LowestPriority {
  constexpr bool yields_before(RunningView const& a, RunningView const& b) const {
    if (a.request.priority != b.request.priority) return a.request.priority > b.request.priority;
    if (a.request.arrival_time != b.request.arrival_time) return a.request.arrival_time > b.request.arrival_time;
    return a.arrival > b.arrival;
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

/// What becomes of the cache of a request that gives way.
enum class Keep : std::uint8_t {
  nothing,   // it is computed again
  as_cache,  // its blocks are free for others, the last ones first; what nobody took by the time it starts again is not computed again.
             // Nothing is left where steps are in flight, or where it shared blocks of others
  on_host,   // it is moved out and back: nothing is computed again; the blocks moved are counted
};

struct Preemption {
  Keep keep{};
  /// Tokens beyond the known ones that a preempted request must find room for, and holds, when it starts again. It is nobody's victim before
  /// it has generated the first of them: no request is preempted twice without progress. 0: no such guard.
  Tokens regain{};
  bool enough_or_none{true};  // nobody is preempted for a request that must give way itself
  bool front{true};           // a preempted request comes before those that were not
  bool anew{};                // where not: it queues as if it had been submitted now
  bool others_go_on{true};    // a request that gives way itself does not end the step of those behind it
};

namespace holds {
/// The most a sequence holds on its way to a length: what the footprint says must be there. A window's blocks are held from the start.
struct Most {
  constexpr Blocks operator()(Footprint const& footprint, std::uint32_t pool, Sequences const& of, Tokens) const { return footprint.most(pool, of); }
};

/// What it holds after a step that computed `step` tokens; blocks out of a window go back as it moves. For single sequences. A part may
/// also say what must be free for a start, must_be_free(footprint, pool, sequences); else that is the most.
struct Exactly {
  constexpr Blocks operator()(Footprint const& footprint, std::uint32_t pool, Sequences const& of, Tokens step) const {
    return footprint.held(pool, of.length, step) * of.branches;
  }
};
}  // namespace holds

template <class P>
concept AdmissionPolicy = requires(P const& policy, WaitingView const& waiting, RunningView const& running, HeadroomView const& pool) {
  { policy.need(waiting) } -> std::same_as<Tokens>;
  { policy.headroom(pool) } -> std::same_as<Blocks>;
  { policy.order.rank(waiting) } -> std::convertible_to<Place>;
  { policy.order.bypass } -> std::convertible_to<Bypass>;
  { policy.victim.yields_before(running, running) } -> std::same_as<bool>;
};

/// An order that shares between tenants.
template <class Order>
concept SharesFairly = requires(Order const& order) {
  { order.input } -> std::convertible_to<std::uint64_t>;
  { order.output } -> std::convertible_to<std::uint64_t>;
};

}  // namespace kvbudget::inline v1
