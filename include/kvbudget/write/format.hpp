// {fmt} formatters: amounts, verdicts, complaints, capacity, the arithmetic trail.
//
//   fmt::format("{}", 131'072_B)            "128 KiB": the largest unit, at most two decimals
//   fmt::format("{:.1GiB}", 8'000_MiB)      "7.8 GiB": the unit and decimals asked for
//   fmt::format("{}", 12'000_tokens)        "12,000 tokens"
// The saturated maximum reads "without limit".
#pragma once

#include <kvbudget/write/names.hpp>

#include <fmt/format.h>

#include <string>

namespace kvbudget::inline v1::write {

struct BinaryUnit {
  std::string_view name;
  std::uint64_t bytes;
};
inline constexpr BinaryUnit binary_units[] = {
    {"TiB", std::uint64_t{1} << 40}, {"GiB", std::uint64_t{1} << 30}, {"MiB", std::uint64_t{1} << 20}, {"KiB", std::uint64_t{1} << 10}, {"B", 1}};

/// 1234567 as "1,234,567".
inline std::string grouped(std::uint64_t number) {
  std::string digits = std::to_string(number);
  for (std::size_t from_end = 3; from_end < digits.size(); from_end += 4) digits.insert(digits.size() - from_end, 1, ',');
  return digits;
}

inline std::string counted(std::uint64_t count, std::string_view one, std::string_view many) {
  if (count == saturated_count) return fmt::format("{} without limit", many);
  return fmt::format("{} {}", grouped(count), count == 1 ? one : many);
}

/// An amount in a unit, to `decimals` decimals; a negative number of decimals: at most two, without trailing zeros.
inline std::string in_unit(Bytes amount, BinaryUnit unit, int decimals = -1) {
  if (amount.saturated()) return "bytes without limit";
  if (unit.bytes == 1) return fmt::format("{} B", grouped(amount.count));
  double const value = static_cast<double>(amount.count) / static_cast<double>(unit.bytes);
  std::string text = fmt::format("{:.{}f}", value, decimals < 0 ? 2 : decimals);
  if (decimals < 0) {
    while (text.back() == '0') text.pop_back();
    if (text.back() == '.') text.pop_back();
  }
  return fmt::format("{} {}", text, unit.name);
}

constexpr BinaryUnit best_unit(Bytes amount) {
  for (auto const& unit : binary_units)
    if (amount.count >= unit.bytes) return unit;
  return {"B", 1};
}

inline std::string in_best_unit(Bytes amount) { return in_unit(amount, best_unit(amount)); }

/// Nothing is rounded away: in the best unit where two decimals say it all, else in bytes with the unit beside them.
inline std::string exactly(Bytes amount) {
  auto const unit = best_unit(amount);
  bool const says_all = amount.count % unit.bytes * 100 % unit.bytes == 0;
  return says_all || amount.saturated() ? in_best_unit(amount) : fmt::format("{} B ({})", grouped(amount.count), in_best_unit(amount));
}

inline std::string percentage(std::uint64_t millionths) { return fmt::format("{}%", static_cast<double>(millionths) / 10'000); }

inline std::string with_unit(std::uint64_t count, Unit unit) {
  switch (unit) {
    case Unit::number:
      return grouped(count);
    case Unit::bytes:
      return exactly({count});
    case Unit::tokens:
      return counted(count, "token", "tokens");
    case Unit::blocks:
      return counted(count, "block", "blocks");
    case Unit::requests:
      return counted(count, "request", "requests");
    case Unit::millionths:
      return percentage(count);
  }
  return grouped(count);
}

/// A formatter that takes no format specification.
struct Plain {
  constexpr auto parse(fmt::format_parse_context& context) { return context.begin(); }
};

constexpr std::string_view sign_of(Operation operation) {
  switch (operation) {
    case Operation::start:
      return "  ";
    case Operation::add:
      return "+ ";
    case Operation::subtract:
      return "- ";
    case Operation::share_down:
    case Operation::multiply:
      return "x ";
    case Operation::divide_down:
    case Operation::divide_up:
      return "/ ";
    case Operation::at_most:
      return "at most ";
  }
  return "? ";
}

}  // namespace kvbudget::inline v1::write

template <>
struct fmt::formatter<kvbudget::Bytes> {
  constexpr auto parse(fmt::format_parse_context& context) {
    auto at = context.begin();
    if (at != context.end() && *at == '.') {
      decimals_ = 0;
      for (++at; at != context.end() && *at >= '0' && *at <= '9'; ++at) decimals_ = decimals_ * 10 + (*at - '0');
    }
    auto const name = at;
    while (at != context.end() && *at != '}') ++at;
    std::string_view const wanted{name, static_cast<std::size_t>(at - name)};
    for (auto const& unit : kvbudget::write::binary_units)
      if (unit.name == wanted) unit_ = unit;
    if (unit_.bytes == 0 && (!wanted.empty() || decimals_ >= 0))
      throw fmt::format_error("Bytes are formatted as {}, {:GiB} or {:.1GiB}; units: B KiB MiB GiB TiB");
    return at;
  }
  template <class Context>
  auto format(kvbudget::Bytes amount, Context& context) const {
    return fmt::format_to(context.out(), "{}", unit_.bytes == 0 ? kvbudget::write::in_best_unit(amount) : kvbudget::write::in_unit(amount, unit_, decimals_));
  }

 private:
  kvbudget::write::BinaryUnit unit_{"", 0};
  int decimals_{-1};
};

template <>
struct fmt::formatter<kvbudget::Tokens> : kvbudget::write::Plain {
  template <class Context>
  auto format(kvbudget::Tokens tokens, Context& context) const {
    return fmt::format_to(context.out(), "{}", kvbudget::write::counted(tokens.count, "token", "tokens"));
  }
};

template <>
struct fmt::formatter<kvbudget::Blocks> : kvbudget::write::Plain {
  template <class Context>
  auto format(kvbudget::Blocks blocks, Context& context) const {
    return fmt::format_to(context.out(), "{}", kvbudget::write::counted(blocks.count, "block", "blocks"));
  }
};

template <>
struct fmt::formatter<kvbudget::Percent> : kvbudget::write::Plain {
  template <class Context>
  auto format(kvbudget::Percent percent, Context& context) const {
    return fmt::format_to(context.out(), "{}", kvbudget::write::percentage(percent.millionths));
  }
};

/// ".kv_heads is 0; accepted: 1 to 1048576; next: give ..."
template <>
struct fmt::formatter<kvbudget::Complaint> : kvbudget::write::Plain {
  template <class Context>
  auto format(kvbudget::Complaint const& complaint, Context& context) const {
    return fmt::format_to(context.out(), "{} is {}; accepted: {}; next: {}", complaint.field, complaint.value, complaint.accepted, complaint.next);
  }
};

/// All in one line, so that an error stays one line.
template <>
struct fmt::formatter<kvbudget::Complaints> : kvbudget::write::Plain {
  template <class Context>
  auto format(kvbudget::Complaints const& complaints, Context& context) const {
    auto out = context.out();
    for (auto const& complaint : complaints) out = fmt::format_to(out, "{}{}", &complaint == complaints.begin() ? "" : " | ", complaint);
    return complaints.overflowed() ? fmt::format_to(out, " | and {} more", complaints.lost) : out;
  }
};

/// "queued (no_room): needs 4,000 tokens of cache, 1,000 free, limit 12,000"
template <>
struct fmt::formatter<kvbudget::Verdict> : kvbudget::write::Plain {
  template <class Context>
  auto format(kvbudget::Verdict const& verdict, Context& context) const {
    using kvbudget::write::grouped;
    auto out = fmt::format_to(context.out(), "{} ({})", name_of(verdict.outcome), name_of(verdict.reason));
    if (verdict.field[0] != '\0') {
      out = fmt::format_to(out, ": {} is {}", verdict.field, grouped(verdict.needed.count));
      bool const says_limit = verdict.queued() || verdict.limit != kvbudget::Blocks{};  // of a step, none may be left
      return says_limit ? fmt::format_to(out, ", limit {}", grouped(verdict.limit.count)) : out;
    }
    if (verdict.limit == kvbudget::Blocks{}) return out;
    bool const counts_tokens = verdict.block == kvbudget::Tokens{1};
    out = counts_tokens ? fmt::format_to(out, ": needs {}", kvbudget::Tokens{verdict.needed.count}) : fmt::format_to(out, ": needs {}", verdict.needed);
    if (verdict.pool_name[0] != '\0') out = fmt::format_to(out, " of {}", verdict.pool_name);
    out = fmt::format_to(out, ", {} free", grouped(verdict.free.count));
    if (verdict.headroom != kvbudget::Blocks{}) out = fmt::format_to(out, ", {} of them headroom", grouped(verdict.headroom.count));
    return fmt::format_to(out, ", limit {}", grouped(verdict.limit.count));
  }
};

/// "weights                                 - 16 GiB           = 56 GiB"
template <>
struct fmt::formatter<kvbudget::Step> : kvbudget::write::Plain {
  template <class Context>
  auto format(kvbudget::Step const& step, Context& context) const {
    using kvbudget::write::with_unit;
    std::string const operand = fmt::format("{}{}", kvbudget::write::sign_of(step.operation), with_unit(step.operand, step.operand_unit));
    if (step.operation == kvbudget::Operation::start) return fmt::format_to(context.out(), "{:<40}{}", step.label, operand);
    auto out = fmt::format_to(context.out(), "{:<40}{:<18} = {}", step.label, operand, with_unit(step.result, step.result_unit));
    if (step.operation == kvbudget::Operation::divide_up) out = fmt::format_to(out, " (up)");
    return step.short_by == 0 ? out : fmt::format_to(out, ", short by {}", with_unit(step.short_by, step.operand_unit));
  }
};

/// One step a line.
template <>
struct fmt::formatter<kvbudget::Trail> : kvbudget::write::Plain {
  template <class Context>
  auto format(kvbudget::Trail const& trail, Context& context) const {
    auto out = context.out();
    for (auto const& step : trail.steps) out = fmt::format_to(out, "{}{}", &step == trail.steps.begin() ? "" : "\n", step);
    return out;
  }
};

/// "64 requests of 8,192 tokens: 512 blocks each, 1 GiB resident, 1 GiB reserved; 0 blocks unused; binds: cache_bytes"
template <>
struct fmt::formatter<kvbudget::RequestCapacity> : kvbudget::write::Plain {
  template <class Context>
  auto format(kvbudget::RequestCapacity const& capacity, Context& context) const {
    return fmt::format_to(context.out(), "{} of {}: {} each, {} resident, {} reserved; {} unused; binds: {}",
                          kvbudget::write::counted(capacity.requests, "request", "requests"), capacity.length, capacity.blocks_per_request, capacity.resident,
                          capacity.reserved, capacity.unused, name_of(capacity.binds));
  }
};

/// "32,768 blocks of 2 MiB in 64 GiB"
template <>
struct fmt::formatter<kvbudget::CachePlan> : kvbudget::write::Plain {
  template <class Context>
  auto format(kvbudget::CachePlan const& plan, Context& context) const {
    return fmt::format_to(context.out(), "{} of {} in {}", plan.blocks, plan.bytes_per_block, plan.pool);
  }
};
