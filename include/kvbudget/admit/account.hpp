// What each request class was given, waited for, lost and holds.
//
// Counters only rise; gauges say what is now, and their peaks what was most. Cached tokens of an admitted request are
// prompt + grown, per branch beyond the shared prompt; what rounding to blocks and look-ahead add is in tokens_held only.
// A request waits a step when that step's admission leaves it queued: when admit_next() first comes back empty, or, where it
// never does, when the next step begins.
#pragma once

#include <kvbudget/admit/verdict.hpp>

namespace kvbudget::inline v1 {

struct ClassAccount {
  // counters
  std::uint64_t submitted{};
  std::uint64_t rejected[reasons]{};  // by reason
  std::uint64_t admitted{};           // again for each admission after a preemption
  std::uint64_t ever_waited{};        // requests that a step's admission left in the queue at least once
  std::uint64_t steps_waited{};       // requests x steps
  std::uint64_t completed{};
  std::uint64_t cancelled{};
  std::uint64_t expired{};
  std::uint64_t preempted{};           // times, not requests: as a victim
  std::uint64_t preempted_for{};       // times others, or it itself, gave way for one of its requests to grow
  std::uint64_t wasted_token_steps{};  // tokens held x steps, by requests that were later cancelled or expired
  Tokens useful_tokens{};              // computed for the first time: prompts, less what was found cached, and what was generated
  Tokens found_tokens{};               // of prompts, found cached or received from elsewhere
  Tokens recomputed_tokens{};          // cached before, lost to a preemption, computed again
  Blocks evicted_blocks{};             // of pool 0, kept as cache at a preemption, taken by others before the request started again
  Blocks moved_blocks{};               // of pool 0, moved to the host at a preemption and back

  // gauges
  std::uint64_t queued_requests{};
  Tokens queued_tokens{};  // they need at their next start: prompt, and what was grown before a preemption
  std::uint64_t active_requests{};
  Tokens active_tokens{};                // cached tokens of the admitted requests
  Tokens to_compute{};                   // of them, known and not computed yet; requests that run step by step
  Tokens tokens_held{};                  // the room they hold: look-ahead and the rest of last blocks too, and of a window what it keeps
  std::uint64_t past_active_requests{};  // the peaks of these gauges, as last marked
  Tokens past_active_tokens{};
  Tokens past_tokens_held{};

  constexpr std::uint64_t rejected_for(Reason reason) const { return rejected[static_cast<std::size_t>(reason)]; }
  constexpr std::uint64_t rejected_in_all() const {
    std::uint64_t sum = 0;
    for (auto const n : rejected) sum += n;
    return sum;
  }
  /// Cached tokens per admitted request, now; rounded down.
  constexpr Tokens tokens_per_request() const { return active_requests == 0 ? Tokens{} : Tokens{active_tokens.count / active_requests}; }

  /// The thrash ratio: tokens computed again, per million computed for the first time; rounded down.
  constexpr std::uint64_t recomputed_per_million() const {
    return useful_tokens == Tokens{} ? 0 : saturating_multiply(recomputed_tokens.count, 1'000'000) / useful_tokens.count;
  }

  constexpr std::uint64_t peak_active_requests() const { return past_active_requests > active_requests ? past_active_requests : active_requests; }
  constexpr Tokens peak_active_tokens() const { return max(past_active_tokens, active_tokens); }
  constexpr Tokens peak_tokens_held() const { return max(past_tokens_held, tokens_held); }

  /// Before a gauge falls: its peak is not forgotten.
  [[gnu::always_inline]] constexpr void mark_peaks() {
    past_active_requests = peak_active_requests();
    past_active_tokens = peak_active_tokens();
    past_tokens_held = peak_tokens_held();
  }
};

}  // namespace kvbudget::inline v1
