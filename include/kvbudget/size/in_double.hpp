// What a runtime computes in double, and how its cast to an integer cuts that: for the runtime profiles alone. Everything else counts
// in integers.
//
//   cut_to_whole(in_double(10 GiB) x 0.9)   9'663'676'416
#pragma once

#include <kvbudget/core/rounding.hpp>

namespace kvbudget::inline v1 {

constexpr double in_double(std::uint64_t amount) { return static_cast<double>(amount); }
constexpr double in_double(Percent share) { return in_double(share.millionths) / in_double(one_whole); }

/// Towards zero; nothing where it is below zero or not a number, the maximum where 63 bits do not hold it.
constexpr std::uint64_t cut_to_whole(double amount) { return amount >= 0x1p63 ? saturated_count : amount >= 0 ? static_cast<std::uint64_t>(amount) : 0; }

}  // namespace kvbudget::inline v1
