// What an observer is told: one event for every change, once the change is complete and in the order changes happen.
// An observer may call the controller back; what it changes is told before the rest of what it interrupted.
#pragma once

#include <kvbudget/admit/verdict.hpp>

namespace kvbudget::inline v1 {

enum class EventKind : std::uint8_t { step_begun, submitted, rejected, admitted, grown, preempted, completed, cancelled, expired };

struct Event {
  EventKind kind{};
  std::uint64_t now{};  // as begin_step was told
  Ticket ticket{};
  RequestClass request_class{};
  std::uint64_t tag{};
  Reason reason{};       // why: fits or fits_alone, the ground of a rejection, ...
  std::uint32_t pool{};  // the pool that binds, where one does
  Tokens before{};       // cached tokens of the request
  Tokens after{};
};

/// The observer that is told and does nothing.
struct Silent {
  constexpr void on(Event const&) const {}
};

template <class O>
concept EventObserver = requires(O observer, Event const& event) {
  observer.on(event);
};

}  // namespace kvbudget::inline v1
