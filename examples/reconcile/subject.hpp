// What a runtime brings to a reconciliation: its flags, with what its log tells of them, a prediction, and what else to try.
#pragma once

#include "../estimate/runtime.hpp"
#include "search.hpp"

namespace example {

/// One runtime's side, once flags and model are known.
struct Subject {
  Predict predict{};
  std::vector<Trial> trials{};
};

struct Reconciler {
  std::string name{};
  std::function<void(CLI::App&)> add_flags{};
  std::function<Subject(kvbudget::read::Model const&, Question const&)> subject{};
};

/// The last figure of a kind, or 0.
inline std::uint64_t told(RuntimeLog const& log, Quantity quantity) {
  auto const figure = log.last(quantity);
  return figure ? figure->low : 0;
}

/// The length of requests that the log speaks of, or 0.
inline std::uint64_t length_in(RuntimeLog const& log) {
  for (auto const quantity : {Quantity::needed_length, Quantity::concurrency_length, Quantity::max_length, Quantity::n_ctx_seq, Quantity::window})
    if (std::uint64_t const length = told(log, quantity); length != 0) return length;
  return 0;
}

/// A variant of a runtime's flags, as a trial; a prediction that its readers refuse is one of nothing.
template <class Setup, class Change>
Trial variant(std::string name, Setup setup, Change change) {
  change(setup);
  return {std::move(name),
          [setup](Bytes memory) {
            try {
              return setup.predict(memory);
            } catch (kvbudget::read::Error const& error) {
              return Prediction{.lines = {}, .refusal = error.what(), .plan = {}};
            }
          },
          {}};
}

/// The memory that a figure prints.
inline MemoryRange range_of(Figure const& figure) { return {.low = {figure.low}, .high = {std::max(figure.high, figure.low)}, .known = true}; }

/// Whether the figure is of an error: without the null block, where a release takes it off.
inline bool of_an_error(kvbudget::read::LogLine const& line) { return line.find(Quantity::estimated_length) || line.find(Quantity::needed); }

/// The memory the cache was made of: as told, else the least that the log prints of its last start, else any.
inline MemoryRange memory_in(RuntimeLog const& log, Question const& question) {
  if (!question.available.empty()) {
    Bytes const available = kvbudget::read::bytes(question.available, "--available");
    return {.low = available, .high = available, .known = true};
  }
  RuntimeLog plain;
  for (auto const& line : log.lines)
    if (!of_an_error(line)) plain.lines.push_back(line);
  if (auto const least = kvbudget::read::detail::settled(plain, Quantity::available)) return range_of(*least);
  if (auto const least = log.last(Quantity::available)) return range_of(*least);
  return {};
}

/// Whether an error alone says the memory.
inline bool only_an_error_says_memory(RuntimeLog const& log) {
  bool error = false;
  for (auto const& line : log.lines)
    if (line.find(Quantity::available)) {
      if (!of_an_error(line)) return false;
      error = true;
    }
  return error;
}

/// Every other memory that the log prints: of other ranks, of earlier starts.
inline std::vector<Trial> other_memories(RuntimeLog const& log, MemoryRange const& used, Predict const& predict) {
  std::vector<Trial> trials;
  for (auto const& line : log.lines) {
    auto const* figure = line.find(Quantity::available);
    if (!figure || of_an_error(line)) continue;
    MemoryRange const range = range_of(*figure);
    bool known = range.low == used.low && range.high == used.high;
    for (auto const& trial : trials) known = known || trial.memory->low == range.low;
    if (known || trials.size() == 64) continue;
    std::string const whose = line.process.empty() ? "" : ", " + line.process;
    trials.push_back({fmt::format("another rank's memory, or an earlier start's: {} of line {}{}", figure->printed, line.number, whose), predict, range});
  }
  return trials;
}

/// A flag, tried with each of its values but the one it has.
template <class Setup, class Value, class Assign>
void try_each(std::vector<Trial>& trials, Setup const& setup, std::string const& flag, std::vector<Value> const& values, Value const& now, Assign assign) {
  for (auto const& value : values)
    if (value != now) trials.push_back(variant(fmt::format("{} {}", flag, value), setup, [&](Setup& changed) { assign(changed, value); }));
}

}  // namespace example
