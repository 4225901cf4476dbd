// Small worlds, explored to the end of what fits in seven operations. How many states that is, is said and held.
#include "catch.hpp"
#include "explore.hpp"

#include <iostream>

using namespace properties;
using namespace kvbudget::literals;

namespace {

/// Without a share of the pool that is kept free: of four blocks that is one.
policies::Recommended recommended(Preemption const& preemption = {.regain = 1_tokens}, Bypass const& bypass = {}) {
  return {.headroom = {}, .order = {.bypass = bypass}, .preemption = preemption};
}

AdmissionLimits four_blocks(Tokens of_each) { return {.capacity = 4_blocks, .footprint = paged(of_each), .max_live = 3}; }
AdmissionLimits two_classes(ClassLimit const& of_first, ClassLimit const& of_second) {
  AdmissionLimits limits = four_blocks(1_tokens);
  limits.classes = 2;
  limits.class_limits = {of_first, of_second};
  return limits;
}
AdmissionLimits that_retire(AdmissionLimits limits) {
  limits.retires = true;
  return limits;
}

Request const early{.prompt = 1_tokens, .max_new = 3_tokens, .tag = 1};
Request const large{.prompt = 2_tokens, .max_new = 2_tokens, .tag = 2};
Request const small{.prompt = 1_tokens, .max_new = 1_tokens, .tag = 3};

Request of_second_class(Request request) {
  request.request_class = 1;
  return request;
}

/// Three requests in a pool of four blocks, and how many states there are at least.
struct Case {
  SmallWorld world;
  std::size_t states;
};
Case const cases[] = {
    {{"strict", four_blocks(1_tokens), recommended(), {early, large, small}, {}, true}, 1},
    {{"one may pass", four_blocks(1_tokens), recommended({.regain = 1_tokens}, {.passes = 1}), {early, large, small}, {}, true}, 1},
    {{"two classes, one with a floor", two_classes({.floor = 2_tokens}, {}), recommended(), {early, of_second_class(large), of_second_class(small)}}, 1},
    {{"kept as cache", four_blocks(1_tokens), recommended({.keep = Keep::as_cache, .regain = 1_tokens}), {early, large, small}, {}, true}, 1},
    {{"kept on the host, and nobody is spared", four_blocks(1_tokens), recommended({.keep = Keep::on_host, .enough_or_none = false}), {early, large, small}, {}, true}, 1},
    {{"steps in flight", that_retire(four_blocks(1_tokens)), recommended(), {early, large, small}, {{.call = Call::retire}}, true}, 1},
    {{"a pool that shrinks and grows again", four_blocks(1_tokens), recommended(), {early, large, small}, {{.call = Call::resize, .amount = 3}, {.call = Call::resize, .amount = 4}}}, 1},
    {{"by chunks, with look-ahead and branches",
      four_blocks(2_tokens),
      recommended(),
      {{.prompt = 3_tokens, .max_new = 1_tokens, .lookahead = 1_tokens, .tag = 1}, {.prompt = 2_tokens, .max_new = 1_tokens, .branches = 2, .tag = 2}, small},
      {{.call = Call::commit, .budget = {.chunk = 1_tokens}}}},
     1},
    {{"one that arrives, and one that is found",
      four_blocks(1_tokens),
      recommended(),
      {{.prompt = 2_tokens, .max_new = 1_tokens, .tag = 1, .arrives = true}, large, small},
      {{.call = Call::pin, .amount = 1}, {.call = Call::pin}, {.call = Call::found, .id = 2}}},
     1},
};

}  // namespace

TEST_CASE("in a small world every invariant holds in every state that seven operations reach") {
  for (auto const& [world, states] : cases) {
    auto const explored = Explorer{world}.to_depth(7);
    std::cout << fmt::format("{}: {} states, {} transitions\n", world.name, explored.states, explored.transitions) << std::flush;
    if (!explored.failure.empty()) FAIL(world.name << ": " << explored.failure);
    REQUIRE(explored.states >= states);
  }
}
