// Figures of two logs side by side: what a server printed, and what it would print by the estimate.
//
// The prediction is a log, too: the library's own lines, read by the same reader. So a figure is compared with the one that stands in the same form, at the
// same place; where the form is an older one, with the figure of the same name.
#pragma once

#include <kvbudget/read/runtime_log.hpp>

#include <kvbudget/read/measured.hpp>

#include <map>
#include <tuple>

namespace example {

using kvbudget::read::Figure;
using kvbudget::read::Quantity;
using kvbudget::read::RuntimeLog;

/// A figure, and where it stands.
struct Printed {
  Figure figure{};
  std::uint64_t line{};
  std::string process{};
  std::string_view form{};
  std::uint64_t window{};  // of TensorRT-LLM's lines
  std::size_t place{};     // among the figures of this name in this form, of one rank
};

inline std::string_view name_of(Quantity quantity) {
  for (auto const& known : kvbudget::read::figure_names)
    if (known.quantity == quantity) return known.name;
  return "figure";
}

inline std::vector<Printed> figures_of(RuntimeLog const& log) {
  std::vector<Printed> all;
  std::map<std::tuple<Quantity, std::string_view, std::uint64_t, std::string>, std::size_t> places;
  for (auto const& line : log.lines) {
    Figure const* const window = line.find(Quantity::window);
    for (auto const& figure : line.figures) {
      Printed printed{.figure = figure, .line = line.number, .process = line.process, .form = line.form, .window = window ? window->low : 0};
      printed.place = places[{figure.quantity, line.form, printed.window, kvbudget::read::detail::rank_of(line.process)}]++;
      all.push_back(std::move(printed));
    }
  }
  return all;
}

/// The digits of a figure and its unit, without what sets thousands apart.
inline std::string bare(std::string const& printed) {
  std::string text;
  for (char const c : printed)
    if (c != ',' && c != ' ') text.push_back(c);
  return text;
}

inline std::size_t decimals(std::string const& printed) {
  std::size_t const point = printed.find('.');
  if (point == std::string::npos) return 0;
  std::size_t end = point + 1;
  while (end < printed.size() && kvbudget::read::detail::is_digit(printed[end])) ++end;
  return end - point - 1;
}

/// Equal as printed; of two precisions or units, where one amount would print as both.
inline bool agree(Figure const& a, Figure const& b) {
  if (a.low == b.low && a.high == b.high) return a.low != 0 || a.high != 0 || decimals(a.printed) != decimals(b.printed) || bare(a.printed) == bare(b.printed);
  return decimals(a.printed) != decimals(b.printed) && a.low <= b.high && b.low <= a.high;
}

/// What a server is told, or finds, rather than works out: not compared.
inline bool is_input(Quantity quantity, std::string_view form = {}) {
  switch (quantity) {
    case Quantity::block:
      return form.find("block size to") == std::string_view::npos;  // that one vLLM works out
    case Quantity::available:
    case Quantity::device_total:
    case Quantity::device_free:
    case Quantity::fraction:
    case Quantity::max_length:
    case Quantity::asked_length:
    case Quantity::needed_length:
    case Quantity::concurrency_length:
    case Quantity::max_requests:
    case Quantity::n_seq_max:
    case Quantity::n_batch:
    case Quantity::n_ubatch:
    case Quantity::kv_unified:
    case Quantity::flash_attn:
    case Quantity::mla_attn:
    case Quantity::device:
    case Quantity::tag:
    case Quantity::window:
    case Quantity::key_type:
    case Quantity::value_type:
      return true;
    default:
      return false;
  }
}

/// Whether a figure of this name means the same in every form.
inline bool crosses_forms(Quantity quantity) { return !is_input(quantity) && quantity != Quantity::device_bytes; }

/// The predicted figure for a printed one.
struct Counterpart {
  Printed const* figure{};  // none where nothing predicts it
  bool further{};           // the log has more of these than the prediction: a draft model's, or an earlier start's
};

inline Counterpart counterpart(Printed const& of, std::vector<Printed> const& predicted) {
  std::vector<Printed const*> same_form, same_name;
  for (auto const& one : predicted) {
    if (one.figure.quantity != of.figure.quantity || (of.window != 0 && one.window != 0 && of.window != one.window)) continue;
    same_name.push_back(&one);
    if (one.form == of.form) same_form.push_back(&one);
  }
  auto const& candidates = !same_form.empty() || !crosses_forms(of.figure.quantity) ? same_form : same_name;
  if (candidates.empty()) return {};
  return {candidates[of.place % candidates.size()], of.place >= candidates.size()};
}

}  // namespace example
