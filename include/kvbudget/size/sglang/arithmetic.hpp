// SGLang counts memory in Python floats (GiB) and ints; this is their arithmetic, so that the last token comes out the same.
//
// int(x) cuts towards zero; x // y rounds down, from an exact remainder: 54'428'455'403 // 44'236.8 = 1'230'388.
// Python's ints never overflow; here they saturate. Only this folder of the library computes bytes in floating point.
#pragma once

#include <kvbudget/core/rounding.hpp>

#include <limits>

namespace kvbudget::inline v1::sglang {

inline constexpr double one_gib = 1'073'741'824.0;

constexpr double as_double(std::uint64_t n) { return static_cast<double>(n); }

/// Python's int(x). What no 64-bit number holds is the nearest that one does; not-a-number is 0.
constexpr std::int64_t truncated(double x) {
  if (x != x) return 0;
  if (x >= 0x1p63) return std::numeric_limits<std::int64_t>::max();
  if (x <= -0x1p63) return std::numeric_limits<std::int64_t>::min();
  return static_cast<std::int64_t>(x);
}

/// The same for what cannot be negative.
constexpr std::uint64_t truncated_count(double x) { return x > 0 ? static_cast<std::uint64_t>(truncated(x)) : 0; }

/// a - n x b for the largest whole n, exactly: each subtraction is of a number between a/2 and a. For finite a >= 0, b > 0.
constexpr double exact_remainder(double a, double b) {
  while (a >= b) {
    double multiple = b;
    while (multiple <= a / 2) multiple *= 2;
    a -= multiple;
  }
  return a;
}

/// Python's a // b for floats; nothing where b is not a positive number.
constexpr double floor_quotient(double a, double b) {
  if (!(b > 0) || !(a > -0x1p1000 && a < 0x1p1000)) return 0;
  double const rest = exact_remainder(a < 0 ? -a : a, b);
  double const quotient = ((a < 0 ? -a : a) - rest) / b;
  double const whole = quotient < 0x1p62 ? static_cast<double>(static_cast<std::int64_t>(quotient + 0.5)) : quotient;
  return a >= 0 ? whole : rest == 0 ? -whole : -whole - 1;
}

/// Python's a // b for ints, where a may be negative.
constexpr std::int64_t floor_quotient(std::int64_t a, std::int64_t b) {
  if (b <= 0) return 0;
  return a / b - (a % b < 0);
}

/// Signed counts, where a rule adds a -1 that stands for "off".
constexpr std::int64_t as_signed(std::uint64_t n) { return n > 0x7fff'ffff'ffff'ffff ? 0x7fff'ffff'ffff'ffff : static_cast<std::int64_t>(n); }
constexpr std::int64_t saturating_sum(std::int64_t a, std::int64_t b) {
  if (b > 0 && a > std::numeric_limits<std::int64_t>::max() - b) return std::numeric_limits<std::int64_t>::max();
  if (b < 0 && a < std::numeric_limits<std::int64_t>::min() - b) return std::numeric_limits<std::int64_t>::min();
  return a + b;
}

/// Saturating products of many factors.
constexpr std::uint64_t product(std::uint64_t a, Count auto... more) {
  ((a = saturating_multiply(a, as_count(more))), ...);
  return a;
}

}  // namespace kvbudget::inline v1::sglang
