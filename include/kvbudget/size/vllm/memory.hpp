// What vLLM's profiling leaves for the cache (facts: vllm.md D12).
//
//   available = ceil(total x gpu_memory_utilization) - weights - activations - CUDA graphs;  or what kv_cache_memory_bytes says
// 80 GiB at 0.92: 79'027'398'247 bytes before anything is taken off.
#pragma once

#include <kvbudget/core/complaint.hpp>
#include <kvbudget/core/steps.hpp>
#include <kvbudget/size/in_double.hpp>

namespace kvbudget::inline v1::vllm {

struct Memory {
  Bytes total{};
  Bytes free{};  // at start; 0: not looked at
  Percent gpu_memory_utilization{92};
  Bytes weights{};      // consumed when the model is loaded, all of it
  Bytes activations{};  // torch's peak beyond that
  Bytes cuda_graphs{};  // the estimate, counted since 0.21
  Bytes multimodal_reserve{};
  Bytes kv_cache_memory{};  // --kv-cache-memory-bytes: what it is, without profiling; 0: not given
};

/// ceil(total x utilization) as Python computes it, in double.
constexpr Bytes requested_memory(Bytes total, Percent utilization) {
  double const exact = in_double(total.count) * in_double(utilization);
  Bytes const whole{cut_to_whole(exact)};
  return in_double(whole.count) < exact ? whole + Bytes{1} : whole;
}

/// D12: vLLM does not start where less is free than it may use.
constexpr Complaints check(Memory const& memory) {
  Complaints complaints{};
  auto const complain = [&](char const* field, std::uint64_t value, char const* accepted, char const* next) {
    complaints.push_back({field, value, accepted, next});
  };
  if (memory.kv_cache_memory != Bytes{}) return complaints;
  if (memory.total == Bytes{} || memory.total.saturated())
    complain(".total", memory.total.count, "1 byte or more", "give one device's memory, for example 80_GiB");
  if (memory.gpu_memory_utilization == Percent{} || memory.gpu_memory_utilization > Percent{100})
    complain(".gpu_memory_utilization", memory.gpu_memory_utilization.millionths, "more than 0% and at most 100% (in millionths)",
             "give for example Percent{92}");
  if (complaints.empty() && memory.free != Bytes{} && memory.free < requested_memory(memory.total, memory.gpu_memory_utilization))
    complain(".free", memory.free.count, "at least memory x gpu_memory_utilization", "free the device, or lower gpu_memory_utilization");
  return complaints;
}

/// D12: bytes for the cache on one rank, each step in the trail. Nothing where check(memory) complains.
constexpr Bytes available_bytes(Memory const& memory, Trail& trail) {
  if (!check(memory).empty()) return nothing_fits<Bytes>();
  if (memory.kv_cache_memory != Bytes{}) {
    trail.start("kv_cache_memory_bytes", memory.kv_cache_memory);
    return trail.bytes();
  }
  trail.start("memory x gpu_memory_utilization (up)", requested_memory(memory.total, memory.gpu_memory_utilization));
  trail.subtract("weights", memory.weights);
  trail.subtract("activations", memory.activations);
  trail.subtract("CUDA graphs", memory.cuda_graphs);
  trail.subtract("multimodal reserve", memory.multimodal_reserve);
  return trail.bytes();
}

}  // namespace kvbudget::inline v1::vllm
