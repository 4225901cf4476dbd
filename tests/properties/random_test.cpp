// Random operations, side by side with the naive model: every state is compared, and every invariant checked, after every operation.
#include "catch.hpp"
#include "reduce.hpp"
#include "sanitized.hpp"

using namespace properties;

namespace {

constexpr std::size_t enough = sanitized ? 100'000 : 1'000'000;

/// Every other seed from `first` on, until there are operations enough, and every reason was given often enough.
void require_the_models_answers(std::uint64_t first) {
  std::size_t operations = 0;
  ReasonsGiven reasons_given{};
  for (std::uint64_t seed = first; operations < enough; seed += 2) {
    Result const result = result_of(Run{.seed = seed});
    if (result.failed()) FAIL(text_of(reduced(Run{.seed = seed})));
    operations += result.operations;
    for (std::size_t reason = 0; reason < reasons; ++reason) reasons_given[reason] += result.reasons_given[reason];
  }
  for (Reason const reason :
       {Reason::fits,          Reason::fits_alone,       Reason::grown,         Reason::past_max_new, Reason::running,     Reason::arriving,
        Reason::held,          Reason::in_queue,         Reason::no_room,       Reason::headroom,     Reason::class_floor, Reason::class_limit,
        Reason::running_limit, Reason::adapter_limit,    Reason::step_budget,   Reason::behind_head,  Reason::yielding,    Reason::retiring,
        Reason::preempted,     Reason::exceeds_capacity, Reason::exceeds_class, Reason::exceeds_step, Reason::queue_full,  Reason::class_queue_full,
        Reason::draining,      Reason::bad_request,      Reason::expired,       Reason::ended}) {
    INFO("hardly ever given: " << name_of(reason));
    REQUIRE(reasons_given[std::size_t(reason)] >= enough / 2'000);
  }
}

}  // namespace

TEST_CASE("a million operations on recommended: the controller does what the naive model does, and every invariant holds") { require_the_models_answers(2); }

TEST_CASE("a million operations on other orders, needs and victims: the controller does what the naive model does, and every invariant holds") {
  require_the_models_answers(1);
}
