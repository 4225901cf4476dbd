// The requests that wait: a lane for each class and tenant, each in order. Who comes first of all is the first of the lanes' heads, so that
// a class at its ceiling, or a tenant that was served enough, costs no more than a look at its head.
//
// In a lane, and between lanes: preempted requests in front, then the smaller rank, then who was submitted first. That is a total order.
#pragma once

#include <kvbudget/admit/live.hpp>

namespace kvbudget::inline v1 {

/// True when `a` comes before `b`.
constexpr bool waits_before(Live const& a, Live const& b) {
  if (a.front != b.front) return a.front;
  if (a.rank != b.rank) return a.rank < b.rank;
  return a.arrival < b.arrival;
}

class WaitingLanes {
 public:
  WaitingLanes(std::uint32_t classes, std::uint32_t tenants) : tenants_{tenants}, lanes_(std::size_t{classes} * tenants), active_(lanes_.size()) {}

  std::uint32_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  std::uint32_t lanes() const { return static_cast<std::uint32_t>(lanes_.size()); }
  std::uint32_t lane_of(Request const& request) const { return request.request_class.index * tenants_ + request.tenant; }
  std::uint32_t class_of(std::uint32_t lane) const { return lane / tenants_; }
  std::uint32_t front(std::uint32_t lane) const { return lanes_[lane].list.front(); }
  struct Active {
    std::uint32_t const *first, *last;
    std::uint32_t const* begin() const { return first; }
    std::uint32_t const* end() const { return last; }
  };
  /// The lanes in which somebody waits, in no order.
  Active active() const { return {active_.data(), active_.data() + active_count_}; }

  /// Behind all that come before it. From the front where it was preempted, from the back else: that is where its place is near.
  void insert(LiveTable& table, std::uint32_t slot) {
    Live const& live = table[slot];
    LiveList& list = lane_for(live.request);
    std::uint32_t next = no_slot;
    if (live.front) {
      for (next = list.front(); next != no_slot && waits_before(table[next], live);) next = table[next].next_slot;
    } else {
      for (std::uint32_t last = list.back(); last != no_slot && waits_before(live, table[last]); last = table[last].previous) next = last;
    }
    list.insert_before(table, slot, next);
  }
  /// Behind all of its lane: that it comes after them is known.
  void append(LiveTable& table, std::uint32_t slot) { lane_for(table[slot].request).push_back(table, slot); }

  [[gnu::always_inline]] void remove(LiveTable& table, Live const& live) {
    std::uint32_t const lane = lane_of(live.request);
    lanes_[lane].list.remove(table, live);
    if (lanes_[lane].list.empty()) deactivate(lane);
    --size_;
  }

 private:
  struct Lane {
    LiveList list{};
    std::uint32_t at{};  // where it stands in active_
  };

  /// Where one more is about to wait.
  LiveList& lane_for(Request const& request) {
    std::uint32_t const lane = lane_of(request);
    if (lanes_[lane].list.empty()) activate(lane);
    ++size_;
    return lanes_[lane].list;
  }

  void activate(std::uint32_t lane) {
    lanes_[lane].at = active_count_;
    active_[active_count_++] = lane;
  }
  void deactivate(std::uint32_t lane) {
    std::uint32_t const at = lanes_[lane].at, last = active_[--active_count_];
    active_[at] = last;
    lanes_[last].at = at;
  }

  std::uint32_t tenants_;
  std::vector<Lane> lanes_;
  std::vector<std::uint32_t> active_;  // the first active_count_
  std::uint32_t active_count_{};
  std::uint32_t size_{};
};

}  // namespace kvbudget::inline v1
