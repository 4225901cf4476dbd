// The floor for handing out 63 block ids and taking them back: a minimal block manager shaped like vLLM's, without a cache.
//
// It lies in ../shared/bench, and is a baseline where that is beside the project. It is a program in one file: the namespace is
// for its main().
#pragma once

#if __has_include(<floor_prefix.cpp>)

#include <bench.h>

#include <array>

namespace kvbudget::scenarios {

namespace floor_prefix {
#include <floor_prefix.cpp>
}

struct FloorBlocks {
  static constexpr std::uint32_t taken = 63;
  floor_prefix::Mgr manager{100'000, false};
  std::array<std::uint32_t, taken> blocks{};

  void operator()(std::uint64_t) {
    for (auto& block : blocks) block = manager.pop();
    keep(blocks[0]);
    manager.release(blocks.data(), taken);
  }
};

}  // namespace kvbudget::scenarios

#endif
