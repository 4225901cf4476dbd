// Every division in the library, by the name of its rounding. A limit rounds down, a reserve rounds up.
//
// blocks_for(100 tokens, 16) = ceil(100/16) = 7 blocks are needed; blocks_in(100 tokens, 16) = floor(100/16) = 6 fit.
// Division fails closed: by zero, a need is the maximum (it never fits) and a capacity is nothing.
#pragma once

#include <kvbudget/core/units.hpp>

namespace kvbudget::inline v1 {

/// How many b it takes to hold a. The maximum when b is zero or a is saturated.
constexpr std::uint64_t ceil_div(std::uint64_t a, std::uint64_t b) {
  if (b == 0 || a == saturated_count) return saturated_count;
  return a / b + (a % b != 0);
}

/// How many whole b there are in a. Zero when b is zero or too large to count; a saturated a stays saturated otherwise.
constexpr std::uint64_t floor_div(std::uint64_t a, std::uint64_t b) {
  if (b == 0 || b == saturated_count) return 0;
  return a == saturated_count ? a : a / b;
}

template <class Unit>
constexpr std::uint64_t ceil_div(Amount<Unit> a, Amount<Unit> b) {
  return ceil_div(a.count, b.count);
}
template <class Unit>
constexpr std::uint64_t floor_div(Amount<Unit> a, Amount<Unit> b) {
  return floor_div(a.count, b.count);
}

/// An equal part of a for each of n, rounded up: what one rank of n must hold.
template <class Unit>
constexpr Amount<Unit> part_up(Amount<Unit> a, Count auto n) {
  return {ceil_div(a.count, as_count(n))};
}

/// Blocks of `block` tokens that `tokens` tokens need (up).
constexpr Blocks blocks_for(Tokens tokens, Tokens block) { return {ceil_div(tokens, block)}; }

/// Whole blocks of `block` tokens in a room of `tokens` tokens (down).
constexpr Blocks blocks_in(Tokens tokens, Tokens block) { return {floor_div(tokens, block)}; }

constexpr Tokens round_up(Tokens tokens, Tokens block) { return block * ceil_div(tokens, block); }
constexpr Tokens round_down(Tokens tokens, Tokens block) { return block * floor_div(tokens, block); }

/// A share of an amount, rounded up: a reserve. 5% of 8 blocks is 1 block, not 0.
template <class Unit>
constexpr Amount<Unit> share_up(Percent share, Amount<Unit> whole) {
  if (whole.saturated()) return whole;
  std::uint64_t const remainder = saturating_multiply(whole.count % one_whole, share.millionths);
  return {saturating_add(saturating_multiply(whole.count / one_whole, share.millionths), ceil_div(remainder, one_whole))};
}

/// A share of an amount, rounded down: a limit. 92% of 80 GiB is 79,027,398,246 bytes.
template <class Unit>
constexpr Amount<Unit> share_down(Percent share, Amount<Unit> whole) {
  if (whole.saturated()) return whole;
  std::uint64_t const remainder = saturating_multiply(whole.count % one_whole, share.millionths);
  return {saturating_add(saturating_multiply(whole.count / one_whole, share.millionths), floor_div(remainder, one_whole))};
}

}  // namespace kvbudget::inline v1
