// S30 and S21: who is looked at first, and who is retracted first. SGLang's larger priority is the more urgent, unless low values are.
#pragma once

#include <kvbudget/admit/policy.hpp>

namespace kvbudget::inline v1::policies::sglang {

/// --schedule-policy. Those that go by the radix tree (lpm, dfs-weight) are fcfs where it is off.
enum class Schedule : std::uint8_t { fcfs, lof };

struct Order {
  Schedule schedule{};
  bool by_priority{};  // --enable-priority-scheduling
  bool low_first{};    // --schedule-low-priority-values-first
  Bypass bypass{};

  /// Larger is more urgent.
  constexpr std::int64_t urgency(std::int32_t priority) const { return low_first ? -std::int64_t{priority} : std::int64_t{priority}; }

  /// The more urgent first, then, by lof, the larger max_new. Of equals who queued first, of which a preempted one is the last.
  constexpr Place rank(WaitingView const& waiting) const {
    std::uint64_t const level = static_cast<std::uint64_t>((std::int64_t{1} << 31) - urgency(waiting.request.priority));
    return {by_priority ? level : 0, schedule == Schedule::lof ? saturated_count - waiting.request.max_new.count : 0};
  }
};

/// Fewest outputs, then the longest prompt, give way; by --retraction-policy priority the least urgent before that.
struct FewestOutputs {
  bool by_priority{};
  bool low_first{};

  constexpr bool yields_before(RunningView const& a, RunningView const& b) const {
    Order const order{.low_first = low_first};
    if (by_priority && a.request.priority != b.request.priority) return order.urgency(a.request.priority) < order.urgency(b.request.priority);
    return a.generated != b.generated ? a.generated < b.generated : a.request.prompt > b.request.prompt;
  }
};

}  // namespace kvbudget::inline v1::policies::sglang
