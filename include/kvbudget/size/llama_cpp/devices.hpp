// Which device a layer of llama.cpp lives on, and what its buffers take there: R19 and R20 (facts: llama_cpp.md section 7).
//
//   device of layer il = first whose cumulative share exceeds (il - i_gpu_start) / min(ngl, layers + 1)
//   buffer = sum over tensors of pad(bytes + what the backend adds to a row, alignment)
// 80 layers on two equal devices are 41 + 39: the output layer takes a slot on the last one. Shares are float32, as in llama.cpp.
#pragma once

#include <kvbudget/size/llama_cpp/caches.hpp>

#include <array>

namespace kvbudget::inline v1::llama_cpp {

/// How a backend sizes a tensor's allocation (R19).
struct Backend {
  std::uint32_t alignment{32};
  std::uint32_t row_elements{};  // quantised rows are filled up to a multiple of so many elements, once for each tensor; 0: not
};

inline constexpr Backend cpu{};
inline constexpr Backend cuda{.alignment = 128, .row_elements = 512};

/// R19: bytes a tensor takes in a buffer. A q8_0 row of 576 on CUDA is 448 short of 1'024: 476 bytes more.
constexpr Bytes allocated(Tensor const& tensor, Backend const& backend) {
  Bytes bytes = tensor.bytes();
  std::uint64_t const over = backend.row_elements == 0 ? 0 : tensor.elements % backend.row_elements;
  if (tensor.type.quantised() && over != 0) bytes += vector_bytes(tensor.type.dtype, backend.row_elements - over);
  return Bytes{backend.alignment} * ceil_div(bytes.count, backend.alignment);
}

inline constexpr std::size_t most_devices = 16;

struct Devices {
  InplaceVector<Bytes, most_devices> splits{};  // by --tensor-split, or the free memory of each
  std::uint32_t gpu_layers{0xffff'ffff};        // -ngl: layers on them, the output layer counted
  bool offload_kqv{true};
  Backend backend{cuda};
};

/// Every complaint about devices.
constexpr Complaints check(Devices const& devices) {
  Complaints complaints{};
  if (devices.splits.overflowed())
    complaints.push_back({".splits", devices.splits.size() + devices.splits.lost, "at most 16 devices", "merge devices, or size them apart"});
  for (std::uint32_t i = 0; i < devices.splits.size(); ++i)
    if (devices.splits[i].saturated())
      complaints.push_back({".splits", devices.splits[i].count, "shares or bytes", "give each device's share of the layers", i});
  if (devices.backend.alignment == 0) complaints.push_back({".alignment", 0, "1 byte or more", "give the backend's alignment, for example 32"});
  return complaints;
}

inline constexpr std::uint32_t on_cpu = 0xffff'ffff;

namespace detail {
/// Cumulative shares of the devices, normalised.
constexpr std::array<float, most_devices> cumulative(Devices const& devices) {
  std::array<float, most_devices> shares{};
  float sum = 0;
  for (std::size_t i = 0; i < devices.splits.size(); ++i) shares[i] = sum += static_cast<float>(devices.splits[i].count);
  for (auto& share : shares) share = sum > 0 ? share / sum : 0;
  return shares;
}
}  // namespace detail

/// R20: the device of layer `il` of `layers`, NextN blocks included; the output layer is layer `layers`.
constexpr std::uint32_t device_of(std::uint32_t il, std::uint32_t layers, Devices const& devices) {
  std::uint32_t const on_gpu = std::min(devices.gpu_layers, layers + 1), start = layers + 1 - on_gpu;
  std::size_t const n = devices.splits.size();
  if (n == 0 || il < start || il - start >= on_gpu) return on_cpu;
  auto const shares = detail::cumulative(devices);
  float const at = static_cast<float>(il - start) / static_cast<float>(on_gpu);
  std::size_t const found = static_cast<std::size_t>(std::upper_bound(shares.begin(), shares.begin() + n, at) - shares.begin());
  return static_cast<std::uint32_t>(std::min(found, n - 1));
}

/// What one cache takes of one device; the server prints a line for each.
struct Buffer {
  std::size_t cache{};  // which of the caches
  std::uint32_t device{on_cpu};
  Bytes bytes{};
};

/// R19, R20: the buffers of one cache, the host's first, as recent logs have them (lc008, lc022); none where it stores nothing.
constexpr std::vector<Buffer> buffers_of(std::vector<Cache> const& caches, std::size_t cache, std::uint32_t layers, Devices const& devices) {
  std::vector<Buffer> all(devices.splits.size() + 1, {.cache = cache});
  for (std::uint32_t i = 0; i < devices.splits.size(); ++i) all[i + 1].device = i;
  for (auto const& tensor : caches[cache].tensors) {
    std::uint32_t const device = devices.offload_kqv ? device_of(tensor.layer, layers, devices) : on_cpu;
    all[device == on_cpu ? 0 : std::size_t{device} + 1].bytes += allocated(tensor, device == on_cpu ? cpu : devices.backend);
  }
  all.erase(std::remove_if(all.begin(), all.end(), [](Buffer const& buffer) { return buffer.bytes == Bytes{}; }), all.end());
  return all;
}

/// What one device holds of all caches.
struct DeviceShare {
  std::uint32_t device{on_cpu};
  std::uint32_t layers{};  // of the model that live there, the output layer not counted
  Bytes kv{};              // of its attention caches and compressors' states
  Bytes rs{};              // of its recurrent states
};

/// R19, R20: what each device holds, and last the host.
constexpr std::vector<DeviceShare> per_device(std::vector<Cache> const& caches, std::uint32_t layers, Devices const& devices) {
  std::vector<DeviceShare> shares;
  for (std::uint32_t i = 0; i < devices.splits.size(); ++i) shares.push_back({.device = i});
  shares.push_back({.device = on_cpu});
  auto const share_of = [&](std::uint32_t device) -> DeviceShare& { return device == on_cpu ? shares.back() : shares[device]; };
  for (std::uint32_t il = 0; il < layers; ++il) ++share_of(device_of(il, layers, devices)).layers;
  for (std::size_t i = 0; i < caches.size(); ++i)
    for (auto const& buffer : buffers_of(caches, i, layers, devices))
      (caches[i].kind == CacheKind::recurrent ? share_of(buffer.device).rs : share_of(buffer.device).kv) += buffer.bytes;
  return shares;
}

}  // namespace kvbudget::inline v1::llama_cpp
