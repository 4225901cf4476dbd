// The arithmetic trail: a result and its explanation are written by the same line, so they cannot disagree.
//
//   Trail trail;
//   trail.start("device memory", 80_GiB);          // 80 GiB
//   trail.share_down("usable", Percent{90});       // x 90% = 72 GiB
//   trail.subtract("weights", 16_GiB);             // - 16 GiB = 56 GiB
//   Bytes cache = trail.bytes();
// The trail keeps the running result; write/format.hpp prints it, one step a line.
#pragma once

#include <kvbudget/core/inplace_vector.hpp>
#include <kvbudget/core/rounding.hpp>

namespace kvbudget::inline v1 {

enum class Operation : std::uint8_t { start, add, subtract, share_down, multiply, divide_down, divide_up, at_most };
enum class Unit : std::uint8_t { number, bytes, tokens, blocks, requests, millionths };

struct Step {
  char const* label{""};
  Operation operation{};
  std::uint64_t operand{};
  Unit operand_unit{};
  std::uint64_t result{};
  Unit result_unit{};
  std::uint64_t short_by{};  // how much more than there was a subtraction would have taken
};

struct Trail {
  InplaceVector<Step, 24> steps{};

  constexpr std::uint64_t result() const { return steps.empty() ? 0 : steps[steps.size() - 1].result; }
  constexpr Unit unit() const { return steps.empty() ? Unit::number : steps[steps.size() - 1].result_unit; }
  constexpr Bytes bytes() const { return {result()}; }
  constexpr Blocks blocks() const { return {result()}; }

  constexpr void start(char const* label, Bytes amount) { start(label, amount.count, Unit::bytes); }
  constexpr void start(char const* label, Tokens amount) { start(label, amount.count, Unit::tokens); }
  constexpr void start(char const* label, Blocks amount) { start(label, amount.count, Unit::blocks); }

  constexpr void add(char const* label, Bytes amount) { add(label, amount.count, Unit::bytes); }
  constexpr void add(char const* label, Blocks amount) { add(label, amount.count, Unit::blocks); }
  constexpr void add(char const* label, Tokens amount) { add(label, amount.count, Unit::tokens); }

  /// Takes an amount of the same unit away; nothing is left where there is less than that.
  constexpr void subtract(char const* label, Bytes amount) { subtract(label, amount.count, Unit::bytes); }
  constexpr void subtract(char const* label, Blocks amount) { subtract(label, amount.count, Unit::blocks); }
  constexpr void share_down(char const* label, Percent share) {
    write(label, Operation::share_down, share.millionths, Unit::millionths, kvbudget::share_down(share, Bytes{result()}).count, unit());
  }
  constexpr void multiply(char const* label, std::uint64_t by, Unit by_unit, Unit to) {
    write(label, Operation::multiply, by, by_unit, saturating_multiply(result(), by), to);
  }
  /// A limit: whole `by` in the result so far.
  constexpr void divide_down(char const* label, std::uint64_t by, Unit by_unit, Unit to) {
    write(label, Operation::divide_down, by, by_unit, floor_div(result(), by), to);
  }
  /// A need: how many `by` it takes to hold the result so far.
  constexpr void divide_up(char const* label, std::uint64_t by, Unit by_unit, Unit to) {
    write(label, Operation::divide_up, by, by_unit, ceil_div(result(), by), to);
  }
  /// A second limit; the smaller one stands. No step where there is no limit.
  constexpr void at_most(char const* label, std::uint64_t limit) {
    if (limit != saturated_count) write(label, Operation::at_most, limit, unit(), limit < result() ? limit : result(), unit());
  }

 private:
  constexpr void add(char const* label, std::uint64_t amount, Unit in) { write(label, Operation::add, amount, in, saturating_add(result(), amount), unit()); }
  constexpr void subtract(char const* label, std::uint64_t amount, Unit in) {
    std::uint64_t const short_by = saturating_subtract(amount, result());
    write(label, Operation::subtract, amount, in, saturating_subtract(result(), amount), unit(), short_by);
  }
  constexpr void start(char const* label, std::uint64_t amount, Unit in) { write(label, Operation::start, amount, in, amount, in); }
  constexpr void write(char const* label, Operation operation, std::uint64_t operand, Unit operand_unit, std::uint64_t result, Unit unit,
                       std::uint64_t short_by = 0) {
    steps.push_back({label, operation, operand, operand_unit, result, unit, short_by});
  }
};

}  // namespace kvbudget::inline v1
