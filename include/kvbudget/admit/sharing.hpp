// What requests share beside blocks: adapters, which take room once for all that use them, and tenants, whose turn it is by what they were served.
#pragma once

#include <kvbudget/core/units.hpp>

#include <vector>

namespace kvbudget::inline v1 {

/// The adapters in use. Where there may be any number of them (0), none is counted.
class AdapterSet {
 public:
  /// No more than `requests` can be in use.
  AdapterSet(std::uint32_t most, std::uint32_t requests) : most_{most} { in_use_.reserve(most < requests ? most : requests); }

  std::size_t size() const { return in_use_.size(); }
  /// Whether one more request with it takes no more room. Adapter 0 is none.
  bool has(std::uint64_t adapter) const {
    if (adapter == 0 || most_ == 0) return true;
    for (auto const& one : in_use_)
      if (one.adapter == adapter) return true;
    return false;
  }

  void add(std::uint64_t adapter) {
    if (adapter == 0 || most_ == 0) return;
    for (auto& one : in_use_)
      if (one.adapter == adapter) return void(++one.running);
    in_use_.push_back({adapter, 1});
  }
  void remove(std::uint64_t adapter) {
    for (auto& one : in_use_) {
      if (one.adapter != adapter || --one.running > 0) continue;
      one = in_use_.back();
      in_use_.pop_back();
      return;
    }
  }

 private:
  struct Use {
    std::uint64_t adapter;
    std::uint64_t running;
  };
  std::uint32_t most_;
  std::vector<Use> in_use_;
};

/// What each tenant was served, in virtual tokens (arXiv 2401.00588).
class TenantShares {
 public:
  explicit TenantShares(std::uint32_t tenants) : served_(tenants), live_(tenants) {}

  std::uint64_t served(std::uint32_t tenant) const { return served_[tenant]; }
  void serve(std::uint32_t tenant, std::uint64_t amount) { served_[tenant] = saturating_add(served_[tenant], amount); }

  /// One more request of its. A tenant that had none does not save up: it starts with the least served of those that have.
  void arrive(std::uint32_t tenant) {
    if (live_[tenant]++ > 0) return;
    std::uint64_t least = saturated_count;
    for (std::uint32_t t = 0; t < served_.size(); ++t)
      if (t != tenant && live_[t] > 0 && served_[t] < least) least = served_[t];
    if (least != saturated_count && least > served_[tenant]) served_[tenant] = least;
  }
  void leave(std::uint32_t tenant) { --live_[tenant]; }

 private:
  std::vector<std::uint64_t> served_;
  std::vector<std::uint32_t> live_;  // requests that wait or are in flight
};

}  // namespace kvbudget::inline v1
