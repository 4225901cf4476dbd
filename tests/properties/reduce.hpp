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

struct Failure {
  std::string sentence{};  // empty: nothing failed
  std::string numbers{};
  std::size_t after{};     // operations
};

/// Does the operations one by one. In the end everybody is given up: then nothing is held.
template <class Policy>
Failure failure_of(std::vector<Operation> const& operations, World<Policy>& world) {
  Failure failure;
  try {
    for (auto const& operation : operations) {
      ++failure.after;
      world.perform(operation);
      invariants_hold(world);
    }
    for (Count id = 1; id < world.submissions(); ++id) world.gate.cancel(world.ticket(id));
    world.gate.retire(saturated_count);
    for (std::uint32_t pool = 0; pool < world.gate.pools(); ++pool) same(world.pools[pool].taken, 0, "i11_in_the_end_nothing_is_held");
  } catch (Broken const& broken) {
    failure.sentence = broken.sentence;
    failure.numbers = broken.numbers;
  }
  return failure;
}

/// With the rules of the model as `change` leaves them.
template <class Change>
Failure failure_of(Run const& run, Change change) {
  Course const course = course_of(run.seed, operations_of_a_course);
  return with_policy(course, [&](auto const& policy) {
    naive::Rules rules = naive::rules_of(policy);
    change(rules);
    World world{course.limits, policy, rules};
    return failure_of(operations_of(run, course), world);
  });
}

struct AsTheyAre {
  void operator()(naive::Rules&) const {}
};

/// Leaves out ever smaller parts of what is kept, as long as it fails by the same sentence without them.
template <class Fails>
std::vector<std::size_t> reduced(std::vector<std::size_t> kept, Fails fails) {
  for (std::size_t part = std::max<std::size_t>(kept.size() / 2, 1); part > 0;) {
    bool smaller = false;
    for (std::size_t from = 0; from < kept.size();) {
      auto rest = kept;
      rest.erase(rest.begin() + std::ptrdiff_t(from), rest.begin() + std::ptrdiff_t(std::min(from + part, rest.size())));
      if (!rest.empty() && fails(rest))
        kept = rest, smaller = true;
      else
        from += part;
    }
    if (!smaller || part > 1) part /= 2;
  }
  return kept;
}

template <class Change = AsTheyAre>
Run reduced(Run run, Change change = {}) {
  Failure const failure = failure_of(run, change);
  run.kept.resize(failure.after);
  std::iota(run.kept.begin(), run.kept.end(), std::size_t{0});
  run.kept = reduced(run.kept, [&](std::vector<std::size_t> const& kept) { return failure_of(Run{run.seed, kept}, change).sentence == failure.sentence; });
  return run;
}

/// The run as C++: as a line to replay, and as the calls it makes.
template <class Change = AsTheyAre>
std::string text_of(Run const& run, Change change = {}) {
  Failure const failure = failure_of(run, change);
  Course const course = course_of(run.seed, operations_of_a_course);
  std::string text = fmt::format("{} ({})\nproperties::Run{{.seed = {}, .kept = {{", failure.sentence, failure.numbers, run.seed);
  for (std::size_t i = 0; i < run.kept.size(); ++i) text += fmt::format("{}{}", i == 0 ? "" : ", ", run.kept[i]);
  text += "}}\n" + text_of(course) + '\n';
  for (auto const& operation : operations_of(run, course)) text += text_of(operation) + '\n';
  return text;
}

}  // namespace properties
