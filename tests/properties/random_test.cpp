// Random operations, side by side with the naive model: every state compared, and every invariant checked, after every operation.
#include "catch.hpp"
#include "reduce.hpp"

using namespace properties;

TEST_CASE("the controller does what the naive model does, and every invariant holds, whatever the operations") {
  std::size_t operations = 0;
  for (std::uint64_t seed = 1; operations < 1'000'000; ++seed) {
    Run const run{.seed = seed};
    Failure const failure = failure_of(run, AsTheyAre{});
    operations += failure.after;
    if (!failure.sentence.empty()) FAIL(text_of(reduced(run)));
  }
}
