// The names of enumerators, as reports and JSON spell them.
#pragma once

#include <kvbudget/admit/observer.hpp>
#include <kvbudget/size/capacity.hpp>

#include <string_view>

namespace kvbudget::inline v1 {

constexpr std::string_view name_of(Outcome outcome) {
  switch (outcome) {
    case Outcome::rejected:
      return "rejected";
    case Outcome::queued:
      return "queued";
    case Outcome::admitted:
      return "admitted";
  }
  return "unknown";
}

constexpr std::string_view name_of(Reason reason) {
  switch (reason) {
    case Reason::fits:
      return "fits";
    case Reason::fits_alone:
      return "fits_alone";
    case Reason::grown:
      return "grown";
    case Reason::running:
      return "running";
    case Reason::in_queue:
      return "in_queue";
    case Reason::no_room:
      return "no_room";
    case Reason::headroom:
      return "headroom";
    case Reason::class_limit:
      return "class_limit";
    case Reason::behind_head:
      return "behind_head";
    case Reason::yielding:
      return "yielding";
    case Reason::preempted:
      return "preempted";
    case Reason::exceeds_capacity:
      return "exceeds_capacity";
    case Reason::queue_full:
      return "queue_full";
    case Reason::unknown_class:
      return "unknown_class";
    case Reason::bad_request:
      return "bad_request";
    case Reason::bad_limits:
      return "bad_limits";
    case Reason::past_max_new:
      return "past_max_new";
    case Reason::class_queue_full:
      return "class_queue_full";
    case Reason::draining:
      return "draining";
    case Reason::expired:
      return "expired";
    case Reason::ended:
      return "ended";
    case Reason::arriving:
      return "arriving";
    case Reason::held:
      return "held";
    case Reason::future_peak:
      return "future_peak";
    case Reason::class_floor:
      return "class_floor";
    case Reason::running_limit:
      return "running_limit";
    case Reason::adapter_limit:
      return "adapter_limit";
    case Reason::step_budget:
      return "step_budget";
    case Reason::retiring:
      return "retiring";
    case Reason::exceeds_class:
      return "exceeds_class";
    case Reason::exceeds_step:
      return "exceeds_step";
    case Reason::unknown_ticket:
      return "unknown_ticket";
  }
  return "unknown";
}

constexpr std::string_view name_of(EventKind kind) {
  switch (kind) {
    case EventKind::step_begun:
      return "step_begun";
    case EventKind::submitted:
      return "submitted";
    case EventKind::rejected:
      return "rejected";
    case EventKind::admitted:
      return "admitted";
    case EventKind::grown:
      return "grown";
    case EventKind::preempted:
      return "preempted";
    case EventKind::completed:
      return "completed";
    case EventKind::cancelled:
      return "cancelled";
    case EventKind::expired:
      return "expired";
  }
  return "unknown";
}

constexpr std::string_view name_of(Binds binds) {
  switch (binds) {
    case Binds::cache_bytes:
      return "cache_bytes";
    case Binds::max_length:
      return "max_length";
    case Binds::max_requests:
      return "max_requests";
    case Binds::one_request:
      return "one_request";
    case Binds::no_cache_bytes:
      return "no_cache_bytes";
  }
  return "unknown";
}

constexpr std::string_view name_of(Keeps keeps) {
  switch (keeps) {
    case Keeps::everything:
      return "everything";
    case Keeps::window:
      return "window";
    case Keeps::chunk:
      return "chunk";
    case Keeps::fixed:
      return "fixed";
  }
  return "unknown";
}

constexpr std::string_view name_of(Operation operation) {
  switch (operation) {
    case Operation::start:
      return "start";
    case Operation::add:
      return "add";
    case Operation::subtract:
      return "subtract";
    case Operation::share_down:
      return "share_down";
    case Operation::multiply:
      return "multiply";
    case Operation::divide_down:
      return "divide_down";
    case Operation::divide_up:
      return "divide_up";
    case Operation::at_most:
      return "at_most";
  }
  return "unknown";
}

constexpr std::string_view name_of(Unit unit) {
  switch (unit) {
    case Unit::number:
      return "";
    case Unit::bytes:
      return "bytes";
    case Unit::tokens:
      return "tokens";
    case Unit::blocks:
      return "blocks";
    case Unit::requests:
      return "requests";
    case Unit::millionths:
      return "millionths";
  }
  return "unknown";
}

}  // namespace kvbudget::inline v1
