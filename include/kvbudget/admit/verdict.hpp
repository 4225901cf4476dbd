// What the controller answers: queued, admitted or rejected, why, the pool that binds, and the numbers.
//
// A refusal is a value. The numbers are those of the decision: `needed` blocks were compared with `free` less `headroom`
// (zero where it is waived), and `limit` is the pool's capacity. In a token budget blocks are tokens.
#pragma once

#include <kvbudget/admit/request.hpp>

namespace kvbudget::inline v1 {

enum class Outcome : std::uint8_t { rejected, queued, admitted };

/// Why. The list is open: later versions add to it, so a switch over it needs a default.
enum class Reason : std::uint8_t {
  unknown_ticket,  // no such request, or it is done
  // admitted
  fits,
  fits_alone,  // nothing else runs, so the headroom is waived
  grown,
  past_max_new,  // growth beyond prompt + max_new: it holds prompt + max_new; the counts are tokens asked for, and left
  running,
  arriving,  // admitted; its cache is still being received
  held,      // finished; its cache is still being sent
  // queued
  in_queue,       // submitted; admit_next() decides
  no_room,        // the pool has fewer free blocks than it needs
  headroom,       // the pool has the blocks, but admission may not use the headroom
  future_peak,    // the pool has the blocks now, but those that run will need them
  class_floor,    // the pool has the blocks, but they are another class's guaranteed floor, and that class has requests waiting
  class_limit,    // its class is at a ceiling; others pass it by
  running_limit,  // max_running sequences run
  adapter_limit,  // as many adapters are in use as fit; those whose adapter is in use pass it by
  step_budget,    // this step has no tokens left
  behind_head,    // it would fit, but one before it in the order does not, and may not be passed over
  yielding,       // a lease was preempted in this step: nothing starts before the next
  retiring,       // growth waits: the blocks it needs come back when the steps in flight retire
  preempted,
  // rejected
  exceeds_capacity,  // it can never fit: prompt + max_new is more than the pool holds
  exceeds_class,     // prompt + max_new is more than its class may ever have
  exceeds_step,      // prompts are not cut into chunks, and prompt + max_new, which it may have to compute again, is more than a step computes
  queue_full,
  class_queue_full,  // the limits on its class's queue
  draining,          // nothing new is taken
  unknown_class,
  bad_request,
  bad_limits,
  expired,  // its deadline is past
  ended,    // the lease has ended: growth does nothing
};
inline constexpr std::size_t reasons = static_cast<std::size_t>(Reason::ended) + 1;

struct Verdict {
  Outcome outcome{};
  Reason reason{};
  Ticket ticket{};
  std::uint32_t pool{};  // the pool that binds
  char const* pool_name{""};
  Tokens block{};  // tokens per block of the pool; 1: the counts are tokens; 0: several groups share it
  Blocks needed{};
  Blocks free{};
  Blocks headroom{};
  Blocks limit{};
  char const* field{""};  // what is bad, or the limit that binds where no pool does; `needed` is then its value, in what the field counts.
                          // Of a queued request ".max_new" says that it was cut, and max_new to what
  Tokens max_new{};

  /// What would let it in: so many blocks of the pool given back. None where blocks are not what it waits for.
  constexpr Blocks short_by() const {
    bool const of_blocks = outcome == Outcome::queued && reason != Reason::in_queue && field[0] == '\0';
    return of_blocks ? needed + headroom - free : Blocks{};
  }

  constexpr bool rejected() const { return outcome == Outcome::rejected; }
  constexpr bool queued() const { return outcome == Outcome::queued; }
  constexpr bool admitted() const { return outcome == Outcome::admitted; }
};

/// A request that left though nobody finished or cancelled it.
struct Departure {
  Ticket ticket{};
  RequestClass request_class{};
  std::uint64_t tag{};
  Reason reason{};     // expired; exceeds_capacity, since a pool has become too small for it; or what a plan refused it for
  bool had_started{};  // it ran until then, or had been preempted
};

}  // namespace kvbudget::inline v1
