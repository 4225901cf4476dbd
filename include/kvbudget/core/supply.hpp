// What a pool has to give, and what of a prompt is already there. Three rooms talk through these two types.
//
// The supply says in its type whether idle cached blocks count as free: `clean` never contains them. (vLLM and
// TensorRT-LLM print a "free" that does, SGLang and TGI one that does not; mixing the two is how pools over-admit.)
#pragma once

#include <kvbudget/core/units.hpp>

namespace kvbudget::inline v1 {

struct Supply {
  Blocks clean{};        // holds nothing
  Blocks cached_idle{};  // holds a prefix nobody uses now: can be taken, at the price of the hit
  Blocks in_flight{};    // released, but a step or a transfer may still write there
  Blocks reserved{};     // promised to somebody

  /// Blocks that may be taken now.
  constexpr Blocks available() const { return clean + cached_idle; }
  friend constexpr bool operator==(Supply, Supply) = default;
};

/// Blocks of a prompt that are found in the cache.
struct Hits {
  Blocks active{};  // in use by a running request: sharing them takes nothing from the supply
  Blocks idle{};    // cached and unused: they save compute, but pinning them takes them out of the supply
  Blocks host{};    // on the host: saves compute, needs a block here
};

}  // namespace kvbudget::inline v1
