// What a device leaves for the cache: memory x usable fraction - everything else.
//
//   of_total(92%)               memory x 92% - weights - activations - graphs - adapters - reserve   (vLLM, SGLang say it so)
//   of_free_after_weights(90%)  (memory - weights) x 90% - activations - graphs - adapters - reserve (TensorRT-LLM, LMDeploy)
// The two are named apart because the field confuses them; the library has no default fraction. All figures are one rank's.
// 80 GiB, of_total(100%), 16 GiB of weights: 64 GiB.
#pragma once

#include <kvbudget/core/complaint.hpp>
#include <kvbudget/core/steps.hpp>

namespace kvbudget::inline v1 {

struct UsableFraction {
  enum class Of : std::uint8_t { not_set, total, free_after_weights };
  Of of{};
  Percent share{};
};

constexpr UsableFraction of_total(Percent share) { return {UsableFraction::Of::total, share}; }
constexpr UsableFraction of_free_after_weights(Percent share) { return {UsableFraction::Of::free_after_weights, share}; }

struct DeviceBudget {
  Bytes memory{};
  UsableFraction usable{};  // must be given
  Bytes weights{};
  Bytes activations{};
  Bytes graphs{};
  Bytes adapters{};
  Bytes reserve{};
};

/// Every complaint about a device budget.
constexpr Complaints check(DeviceBudget const& device) {
  Complaints complaints{};
  if (device.memory == Bytes{} || device.memory.saturated())
    complaints.push_back({".memory", device.memory.count, "1 byte or more", "give one device's memory in bytes, for example 80_GiB"});
  if (device.usable.of == UsableFraction::Of::not_set)
    complaints.push_back({".usable", 0, "of_total(percent) or of_free_after_weights(percent)", "say what the runtime's memory fraction is a fraction of"});
  else if (device.usable.share == Percent{} || device.usable.share > Percent{100})
    complaints.push_back({".usable", device.usable.share.millionths, "more than 0% and at most 100% (in millionths)", "give a percentage: 92% is Percent{92}"});
  return complaints;
}

/// Bytes for the cache on this rank, each step in the trail. Nothing when the budget is bad or the rest takes it all.
constexpr Bytes cache_bytes(DeviceBudget const& device, Trail& trail) {
  if (!check(device).empty()) return nothing_fits<Bytes>();
  trail.start("device memory", device.memory);
  if (device.usable.of == UsableFraction::Of::total) {
    trail.share_down("usable fraction of total", device.usable.share);
    trail.subtract("weights", device.weights);
  } else {
    trail.subtract("weights", device.weights);
    trail.share_down("usable fraction of free after weights", device.usable.share);
  }
  trail.subtract("activations", device.activations);
  trail.subtract("graphs", device.graphs);
  trail.subtract("adapters", device.adapters);
  trail.subtract("reserve", device.reserve);
  return trail.bytes();
}

constexpr Bytes cache_bytes(DeviceBudget const& device) {
  Trail trail{};
  return cache_bytes(device, trail);
}

}  // namespace kvbudget::inline v1
