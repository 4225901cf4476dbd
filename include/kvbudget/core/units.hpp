// Amounts with a unit: bytes, tokens and blocks never mix, never wrap and never turn negative.
//
// An amount is an unsigned 64-bit count. Arithmetic saturates: what would pass the maximum is the maximum, what would
// go below zero is zero. The maximum is sticky ("a need that never fits"): adding to it, taking from it or dividing it
// leaves it there. An amount divides only through core/rounding.hpp, where every division names its rounding.
#pragma once

#include <compare>
#include <concepts>
#include <cstdint>
#include <limits>

namespace kvbudget::inline v1 {

/// A count of anything. A negative one cannot be; it reads as the maximum, so that it is refused and never fits.
template <class T>
concept Count = std::integral<T> && !std::same_as<T, bool>;

inline constexpr std::uint64_t saturated_count = std::numeric_limits<std::uint64_t>::max();

constexpr std::uint64_t as_count(Count auto n) {
  if constexpr (std::signed_integral<decltype(n)>) {
    if (n < 0) return saturated_count;
  }
  return static_cast<std::uint64_t>(n);
}

constexpr std::uint64_t saturating_add(std::uint64_t a, std::uint64_t b) {
  std::uint64_t const sum = a + b;
  return sum < a ? saturated_count : sum;
}

/// Zero when b is larger. The saturated maximum stays, but taking it away leaves nothing.
constexpr std::uint64_t saturating_subtract(std::uint64_t a, std::uint64_t b) {
  if (b >= a) return 0;
  return a == saturated_count ? a : a - b;
}

constexpr std::uint64_t saturating_multiply(std::uint64_t a, std::uint64_t b) {
  if (((a | b) >> 32) == 0) return a * b;
  if (a == 0 || b == 0) return 0;
  return a > saturated_count / b ? saturated_count : a * b;
}

template <class Unit>
struct Amount {
  std::uint64_t count{};

  static constexpr Amount max() { return {saturated_count}; }
  constexpr bool saturated() const { return count == saturated_count; }

  friend constexpr auto operator<=>(Amount, Amount) = default;
  friend constexpr Amount operator+(Amount a, Amount b) { return {saturating_add(a.count, b.count)}; }
  friend constexpr Amount operator-(Amount a, Amount b) { return {saturating_subtract(a.count, b.count)}; }
  friend constexpr Amount operator*(Amount a, Count auto n) { return {saturating_multiply(a.count, as_count(n))}; }
  friend constexpr Amount operator*(Count auto n, Amount a) { return a * n; }
  constexpr Amount& operator+=(Amount other) { return *this = *this + other; }
  constexpr Amount& operator-=(Amount other) { return *this = *this - other; }
};

template <class Unit>
constexpr Amount<Unit> min(Amount<Unit> a, Amount<Unit> b) {
  return {b.count < a.count ? b.count : a.count};
}
template <class Unit>
constexpr Amount<Unit> max(Amount<Unit> a, Amount<Unit> b) {
  return {a.count < b.count ? b.count : a.count};
}

namespace unit {
struct Byte;
struct Token;
struct Block;
}  // namespace unit

using Bytes = Amount<unit::Byte>;
using Tokens = Amount<unit::Token>;
using Blocks = Amount<unit::Block>;

/// A share in hundredths, kept exactly to a millionth of the whole: Percent{92} is 920'000 millionths, Percent{83.5} 835'000.
struct Percent {
  std::uint64_t millionths{};

  constexpr Percent() = default;
  constexpr explicit Percent(Count auto whole) : millionths{saturating_multiply(as_count(whole), 10'000)} {}
  constexpr explicit Percent(std::floating_point auto percent)
      : millionths{percent >= 0 && percent < 1e9 ? static_cast<std::uint64_t>(percent * 10'000 + 0.5) : saturated_count} {}

  friend constexpr auto operator<=>(Percent, Percent) = default;
};

inline constexpr std::uint64_t one_whole = 1'000'000;  // millionths

/// constexpr, not consteval: clang 14 leaves consteval literals in generic lambdas unresolved, and refuses them as default arguments.
namespace literals {

constexpr Bytes operator""_B(unsigned long long n) { return {n}; }
constexpr Bytes operator""_KiB(unsigned long long n) { return Bytes{std::uint64_t{1} << 10} * n; }
constexpr Bytes operator""_MiB(unsigned long long n) { return Bytes{std::uint64_t{1} << 20} * n; }
constexpr Bytes operator""_GiB(unsigned long long n) { return Bytes{std::uint64_t{1} << 30} * n; }
constexpr Tokens operator""_tokens(unsigned long long n) { return {n}; }
constexpr Blocks operator""_blocks(unsigned long long n) { return {n}; }
constexpr Percent operator""_percent(unsigned long long n) { return Percent{n}; }
constexpr Percent operator""_percent(long double n) { return Percent{n}; }

}  // namespace literals
}  // namespace kvbudget::inline v1
