// Comparing a log with a prediction: the memory that prints so, and what would explain a difference, found by trying.
//
//   compare(facts, predict, {low, high})  at the byte count between the two that comes nearest to what is printed
//   explain(facts, comparison, trials)    each trial predicts with one thing changed; the first that makes a figure agree names the cause
// Nothing here knows a runtime: a Predict turns bytes for the cache into the log it would print.
#pragma once

#include "figures.hpp"

#include <kvbudget/size/capacity.hpp>
#include <kvbudget/write/format.hpp>

#include <functional>

namespace example {

using kvbudget::Bytes;
using kvbudget::Tokens;

struct Prediction {
  std::vector<std::string> lines{};
  std::string refusal{};  // why the server would not start
  std::optional<kvbudget::CachePlan> plan{};
};
using Predict = std::function<Prediction(Bytes)>;

/// The byte counts that print alike; where no memory is known, any.
struct MemoryRange {
  Bytes low{1};
  Bytes high{std::uint64_t{1} << 46};
  bool known{};
};

/// A prediction with one thing changed.
struct Trial {
  std::string name{};
  Predict predict{};
  std::optional<MemoryRange> memory{};
};

enum class Agreement : std::uint8_t { equal, within_print_precision, different, not_compared };

constexpr std::string_view name_of(Agreement agreement) {
  switch (agreement) {
    case Agreement::equal:
      return "equal";
    case Agreement::within_print_precision:
      return "within print precision";
    case Agreement::different:
      return "different";
    case Agreement::not_compared:
      return "not compared";
  }
  return "unknown";
}

struct Compared {
  Printed printed{};
  std::string predicted{};
  std::uint64_t low{}, high{};  // of the predicted figure
  Agreement agreement{};
  bool explained{};                 // of what differs: a trial makes it agree
  std::string why{};                // that trial, or what the difference comes to; of what is not compared the reason
  std::vector<std::string> also{};  // other causes that explain as much
};

struct Comparison {
  MemoryRange range{};
  Bytes memory{};  // inside it, what comes nearest
  Prediction prediction{};
  std::vector<Compared> figures{};

  std::size_t count(Agreement agreement) const {
    return static_cast<std::size_t>(std::count_if(figures.begin(), figures.end(), [&](auto const& one) { return one.agreement == agreement; }));
  }
};

/// The figure that memory decides first: the length an error estimates, else blocks, else tokens, else concurrency.
struct Primary {
  Quantity quantity{};
  std::uint64_t value{};
};

inline std::optional<Primary> primary_of(RuntimeLog const& log) {
  if (auto const estimated = log.last(Quantity::estimated_length)) return Primary{Quantity::estimated_length, estimated->low};
  auto const found = kvbudget::read::measured(log);
  if (found && !found->pools.empty()) return Primary{Quantity::blocks, found->pools[0].blocks.count};
  if (found && found->tokens) return Primary{Quantity::tokens, found->tokens->count};
  if (auto const times = log.last(Quantity::concurrency)) return Primary{Quantity::concurrency, times->low};
  return std::nullopt;
}

inline RuntimeLog log_of(Prediction const& prediction) {
  std::string text;
  for (auto const& line : prediction.lines) text += line + "\n";
  return kvbudget::read::runtime_log_text(text);
}

/// What a prediction says of it: nothing fits where the server would not start, anything where an error is asked for and there is none.
inline std::uint64_t predicted_value(Prediction const& prediction, Quantity of) {
  RuntimeLog const log = log_of(prediction);
  if (of == Quantity::estimated_length) {
    auto const estimated = log.last(of);
    return estimated ? estimated->low : prediction.refusal.empty() ? kvbudget::saturated_count : 0;
  }
  if (of == Quantity::concurrency) {
    auto const times = log.last(of);
    return times ? times->low : 0;
  }
  auto const found = kvbudget::read::measured(log);
  if (!found) return 0;
  if (of == Quantity::blocks) return found->pools.empty() ? 0 : found->pools[0].blocks.count;
  return found->tokens.value_or(Tokens{}).count;
}

/// The least memory in the range whose prediction reaches the printed figure, or all of it.
inline Bytes memory_for(Primary const& primary, Predict const& predict, MemoryRange const& range) {
  auto const reaches = [&](Bytes memory) { return predicted_value(predict(memory), primary.quantity) >= primary.value; };
  if (range.low >= range.high || reaches(range.low)) return range.low;
  if (!reaches(range.high)) return range.high;
  Bytes low = range.low, high = range.high;
  while (low + Bytes{1} < high) {
    Bytes const middle{low.count + (high.count - low.count) / 2};
    (reaches(middle) ? high : low) = middle;
  }
  return high;
}

namespace detail {

inline bool same_figure(Printed const& of, std::vector<Printed> const& a, std::vector<Printed> const& b) {
  auto const* one = counterpart(of, a).figure;
  auto const* other = counterpart(of, b).figure;
  return one && other && agree(one->figure, other->figure);
}

/// A figure the prediction does not have: an error where it starts, or the other way round; else one that no rule gives.
inline void without_counterpart(Compared& compared, Prediction const& prediction) {
  Quantity const of = compared.printed.figure.quantity;
  bool const of_an_error = of == Quantity::needed || of == Quantity::estimated_length || of == Quantity::available;
  if (of_an_error || !prediction.refusal.empty()) {
    compared.agreement = Agreement::different;
    compared.predicted = prediction.refusal.empty() ? "it starts" : "it does not start";
    return;
  }
  compared.agreement = Agreement::not_compared;
  compared.why = "no rule of this runtime's predicts it";
}

/// The same figure of another rank or start, printed alike.
inline bool repeats(Compared const& a, Printed const& b, bool further) {
  return a.printed.figure.quantity == b.figure.quantity && a.printed.form == b.form && a.printed.window == b.window &&
         (further || a.printed.place == b.place) && a.printed.figure.printed == b.figure.printed;
}

inline bool is_primary(std::optional<Primary> const& primary, Printed const& printed) {
  return primary && primary->quantity == printed.figure.quantity && primary->quantity != Quantity::estimated_length;
}

/// A printed figure beside the predicted one.
struct Beside {
  Comparison const& whole;
  std::optional<Primary> primary;
  std::vector<Printed> predicted, lowest, highest;  // at the memory that comes nearest, and at the ends of the range

  Compared compare(Printed const& printed, Counterpart const& other) const {
    Compared one{.printed = printed};
    if (!other.figure) {
      without_counterpart(one, whole.prediction);
      return one;
    }
    Figure const& figure = other.figure->figure;
    one.predicted = figure.printed;
    one.low = figure.low;
    one.high = figure.high;
    one.agreement = agreement_of(printed, figure);
    if (one.agreement == Agreement::not_compared) one.why = fmt::format("the log prints no memory; by the estimate it takes {:.2GiB} a rank", whole.memory);
    if (one.agreement == Agreement::different && other.further) {
      one.agreement = Agreement::not_compared;
      one.predicted.clear();
      one.why = "the estimate has no further one of these: a draft model's, or an earlier start's";
    }
    return one;
  }

 private:
  Agreement agreement_of(Printed const& printed, Figure const& figure) const {
    if (!agree(printed.figure, figure)) return Agreement::different;
    if (!whole.range.known && is_primary(primary, printed)) return Agreement::not_compared;
    return !whole.range.known || same_figure(printed, lowest, highest) ? Agreement::equal : Agreement::within_print_precision;
  }
};

}  // namespace detail

/// What of a log is compared, worked out once for all predictions.
struct LogFacts {
  std::vector<Printed> figures{};
  std::optional<Primary> primary{};
};

inline LogFacts facts_of(RuntimeLog const& log) { return {figures_of(log), primary_of(log)}; }

/// Every printed figure beside its prediction, at most 512. What several ranks print alike stands there once.
inline Comparison compare(LogFacts const& log, Predict const& predict, MemoryRange const& range) {
  constexpr std::size_t most = 512;
  Comparison result{.range = range, .memory = log.primary ? memory_for(*log.primary, predict, range) : range.high};
  result.prediction = predict(result.memory);
  detail::Beside const beside{result, log.primary, figures_of(log_of(result.prediction)), figures_of(log_of(predict(range.low))),
                              figures_of(log_of(predict(range.high)))};
  std::vector<Compared> figures;
  for (auto const& printed : log.figures) {
    auto const other = counterpart(printed, beside.predicted);
    bool const of_an_error = printed.figure.quantity == Quantity::available && printed.form.find("needed") != std::string_view::npos;
    if ((is_input(printed.figure.quantity, printed.form) && !of_an_error) || figures.size() == most) continue;
    bool const known = std::any_of(figures.begin(), figures.end(), [&](auto const& one) { return detail::repeats(one, printed, other.further); });
    if (!known) figures.push_back(beside.compare(printed, other));
  }
  result.figures = std::move(figures);
  return result;
}

namespace detail {

/// The same printed figure in another comparison, or the one that it repeats there.
inline Compared const* same_in(Comparison const& other, Printed const& of) {
  Compared const* repeated = nullptr;
  for (auto const& one : other.figures) {
    if (one.printed.figure.quantity != of.figure.quantity || one.printed.form != of.form || one.printed.window != of.window) continue;
    if (one.printed.line == of.line && one.printed.place == of.place) return &one;
    if (one.printed.figure.printed == of.figure.printed) repeated = &one;
  }
  return repeated;
}

inline bool agrees_in(Comparison const& trial, Printed const& of) {
  auto const* same = same_in(trial, of);
  return same && (same->agreement == Agreement::equal || same->agreement == Agreement::within_print_precision);
}

/// Whether a trial makes a figure agree, and none worse.
inline bool explains(Comparison const& trial, Comparison const& base, Compared const& of) {
  if (!agrees_in(trial, of.printed)) return false;
  return std::all_of(trial.figures.begin(), trial.figures.end(), [&](auto const& one) {
    auto const* before = same_in(base, one.printed);
    return one.agreement != Agreement::different || !before || before->agreement == Agreement::different;
  });
}

/// Whether a trial is one that explains already, with something beside it.
inline bool says_more_than(std::string const& name, Compared const& of) {
  auto const within = [&](std::string const& known) {
    return name.rfind(known + ",", 0) == 0 || (name.size() > known.size() && name.find("and " + known) != std::string::npos);
  };
  return within(of.why) || std::any_of(of.also.begin(), of.also.end(), within);
}

/// What a difference comes to, where no trial explains it.
inline std::string ratio_of(Compared const& of, MemoryRange const& range, Bytes memory) {
  Quantity const quantity = of.printed.figure.quantity;
  auto const as_double = [](std::uint64_t n) { return static_cast<double>(n); };
  double const printed = (as_double(of.printed.figure.low) + as_double(of.printed.figure.high)) / 2, predicted = (as_double(of.low) + as_double(of.high)) / 2;
  if (printed <= 0 || predicted <= 0) return "the estimate has no such figure";
  bool const counts = quantity == Quantity::tokens || quantity == Quantity::blocks;
  if (counts && range.known)
    return fmt::format("{:.0f} B a {} by the log, {:.0f} B by the estimate, x{:.3f}", as_double(memory.count) / printed,
                       quantity == Quantity::tokens ? "token" : "block", as_double(memory.count) / predicted, predicted / printed);
  return fmt::format("printed is x{:.3f} of the estimate", printed / predicted);
}

}  // namespace detail

/// Gives every difference its cause: the trial that leaves least unexplained, the first of these.
inline void explain(LogFacts const& log, Comparison& base, std::vector<Trial> const& trials) {
  if (base.count(Agreement::different) == 0) return;
  std::vector<std::pair<std::string, Comparison>> tried;
  for (auto const& trial : trials) tried.emplace_back(trial.name, compare(log, trial.predict, trial.memory.value_or(base.range)));
  std::stable_sort(tried.begin(), tried.end(),
                   [](auto const& a, auto const& b) { return a.second.count(Agreement::different) < b.second.count(Agreement::different); });
  for (std::size_t i = 0; i < base.figures.size(); ++i) {
    if (base.figures[i].agreement != Agreement::different) continue;
    std::size_t left = 0;
    for (auto const& [name, trial] : tried) {
      if (!detail::explains(trial, base, base.figures[i])) continue;
      std::size_t const differ = trial.count(Agreement::different);
      if (base.figures[i].why.empty()) {
        base.figures[i].why = name;
        base.figures[i].explained = true;
        left = differ;
      } else if (differ == left && base.figures[i].also.size() < 3 && !detail::says_more_than(name, base.figures[i])) {
        base.figures[i].also.push_back(name);
      }
    }
    if (base.figures[i].why.empty()) base.figures[i].why = detail::ratio_of(base.figures[i], base.range, base.memory);
  }
}

}  // namespace example
