// S20: what share of the tokens that running requests may still generate admission counts on. It falls with every decode that retracts
// nobody, and rises to what the kept ones have shown when one does. In double, as the runtime has it.
//
//   first = min(0.7 x conservativeness, 1), least = 0.14 x first, (first - least) / 600 less per decode
//   after a retraction: min(1, (sum of out + 20 n) / (sum of max_new + 1)) over the n that are kept; 0 where none is [OBS-6]
// Example: 0.7 and 0.098, 0.001003.. less per decode.
#pragma once

#include <kvbudget/admit/policies/sglang/memory.hpp>

#include <algorithm>

namespace kvbudget::inline v1::policies::sglang {

inline constexpr Tokens retract_steps{20};  // decodes that a retraction makes room for

struct NewTokenRatio {
  double first{};
  double least{};
  double decay{};

  constexpr explicit NewTokenRatio(double conservativeness)
      : first{std::min(0.7 * conservativeness, 1.0)}, least{std::min(first * 0.14, 1.0)}, decay{(first - least) / 600} {}

  constexpr double after_decode(double ratio) const { return std::max(ratio - decay, least); }
};

constexpr double ratio_after_retraction(std::vector<Member> const& kept) {
  Tokens shown{}, asked{1};
  for (Member const& member : kept) {
    shown += member.out + retract_steps;
    asked += member.max_new;
  }
  return std::min(1.0, as_double(shown) / as_double(asked));
}

}  // namespace kvbudget::inline v1::policies::sglang
