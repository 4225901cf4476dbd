// What a course of operations breaks, and the fewest of its operations that still break it.
#pragma once

#include "course.hpp"
#include "invariants.hpp"

#include <numeric>

namespace properties {

inline constexpr std::size_t operations_of_a_course = 150;

/// Operations of a seed's course, by their places; all of them where none is named. A failure prints one, which a test can hold on to.
struct Run {
  Count seed{};
  std::vector<std::size_t> kept{};
};

inline std::vector<Operation> operations_of(Run const& run, Course const& course) {
  if (run.kept.empty()) return course.operations;
  std::vector<Operation> kept;
  for (std::size_t const place : run.kept) kept.push_back(course.operations[place]);
  return kept;
}

struct Result {
  std::string broken{};  // the sentence that does not hold; empty where all do
  std::string numbers{};
  std::size_t operations{};  // that were done
  ReasonsGiven reasons_given{};

  bool failed() const { return !broken.empty(); }
};

/// Does the operations one by one. In the end everybody is given up: then nothing is held.
template <class Policy>
Result result_of(std::vector<Operation> const& operations, World<Policy>& world) {
  Result result;
  try {
    for (auto const& operation : operations) {
      ++result.operations;
      world.perform(operation);
      invariants_hold(world);
    }
    for (Count id = 1; id < world.submissions(); ++id) world.gate.cancel(world.ticket(id));
    world.gate.retire(saturated_count);
    for (auto const& pool : world.pools) same(pool.taken, 0, "i11_in_the_end_nothing_is_held");
  } catch (Broken const& broken) {
    result.broken = broken.sentence;
    result.numbers = broken.numbers;
  }
  result.reasons_given = world.reasons_given;
  return result;
}

/// The rules of the model stay what the policy's are.
struct AsTheyAre {
  void operator()(naive::Rules&) const {}
};

/// With the rules of the model as `change` leaves them.
template <class Change = AsTheyAre>
Result result_of(Run const& run, Change change = {}) {
  Course const course = course_of(run.seed, operations_of_a_course);
  return with_policy(course, [&](auto const& policy) {
    naive::Rules rules = naive::rules_of(policy);
    change(rules);
    World world{course.limits, policy, rules};
    return result_of(operations_of(run, course), world);
  });
}

/// Leaves out ever smaller parts of what is kept, as long as it fails without them.
template <class Fails>
std::vector<std::size_t> fewest(std::vector<std::size_t> kept, Fails fails) {
  for (std::size_t part = std::max<std::size_t>(kept.size() / 2, 1); part > 0;) {
    std::size_t const before = kept.size();
    for (std::size_t from = 0; from < kept.size();) {
      auto rest = kept;
      rest.erase(rest.begin() + std::ptrdiff_t(from), rest.begin() + std::ptrdiff_t(std::min(from + part, rest.size())));
      if (!rest.empty() && fails(rest))
        kept = rest;
      else
        from += part;
    }
    if (part > 1 || kept.size() == before) part /= 2;
  }
  return kept;
}

/// The run without what it does not need to fail by the same sentence: no operation of it can be left out.
template <class Change = AsTheyAre>
Run reduced(Run run, Change change = {}) {
  Result const result = result_of(run, change);
  if (run.kept.empty()) {
    run.kept.resize(result.operations);
    std::iota(run.kept.begin(), run.kept.end(), std::size_t{0});
  }
  run.kept = fewest(run.kept, [&](std::vector<std::size_t> const& kept) { return result_of(Run{run.seed, kept}, change).broken == result.broken; });
  return run;
}

/// The run as C++: as a value to replay, and as the calls it makes.
template <class Change = AsTheyAre>
std::string text_of(Run const& run, Change change = {}) {
  Result const result = result_of(run, change);
  Course const course = course_of(run.seed, operations_of_a_course);
  std::string text = fmt::format("{} ({})\nRun{{.seed = {}, .kept = {{", result.broken, result.numbers, run.seed);
  for (std::size_t i = 0; i < run.kept.size(); ++i) text += fmt::format("{}{}", i == 0 ? "" : ", ", run.kept[i]);
  text += "}}\n" + text_of(course) + '\n';
  for (auto const& operation : operations_of(run, course)) text += text_of(operation) + '\n';
  return text;
}

}  // namespace properties
