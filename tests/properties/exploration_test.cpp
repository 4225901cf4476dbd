// Small worlds, explored to the end of what fits in seven operations. How many states that is, is said and held.
#include "catch.hpp"
#include "explore.hpp"
#include "sanitized.hpp"

using namespace properties;
using namespace kvbudget::literals;

namespace {

policies::Recommended recommended(Preemption const& preemption, Bypass const& bypass = {}) {
  return {.headroom = {}, .order = {.bypass = bypass}, .preemption = preemption};
}

AdmissionLimits four_blocks(Tokens of_each = 1_tokens) { return {.capacity = 4_blocks, .footprint = paged(of_each), .max_live = 3}; }
AdmissionLimits two_classes(ClassLimit const& of_first, ClassLimit const& of_second) {
  AdmissionLimits limits = four_blocks();
  limits.classes = 2;
  limits.class_limits = {of_first, of_second};
  return limits;
}
Request const early{.prompt = 1_tokens, .max_new = 3_tokens, .tag = 1};
Request const large{.prompt = 2_tokens, .max_new = 2_tokens, .tag = 2};
Request const small{.prompt = 1_tokens, .max_new = 1_tokens, .tag = 3};

Request of_second_class(Request request) {
  request.request_class = 1;
  return request;
}
Request with_adapter(Request request, std::uint64_t adapter) {
  request.adapter = adapter;
  return request;
}

AdmissionLimits that_retire(AdmissionLimits limits) {
  limits.retires = true;
  return limits;
}
AdmissionLimits with_two_state_slots() {
  AdmissionLimits limits = four_blocks();
  limits.more_pools = {{.capacity = 2_blocks}};
  limits.footprint.groups.push_back(fixed_group(1_blocks, 1));
  return limits;
}
AdmissionLimits with_one_adapter() {
  AdmissionLimits limits = four_blocks();
  limits.adapters = 1;
  return limits;
}
AdmissionLimits with_two_tokens_a_step() {
  AdmissionLimits limits = four_blocks();
  limits.tokens_per_step = 2_tokens;
  return limits;
}

/// Every state, and not one more or less than there were. Under the sanitizers those of an operation less, uncounted.
void require_that_all_holds(SmallWorld const& world) {
  auto const explored = Explorer{world}.to_depth(sanitized ? 6 : 7);
  if (!explored.failure.empty()) FAIL(world.name << ": " << explored.failure);
  INFO(world.name);
  if (!sanitized) CHECK(explored.states == world.states);
}

}  // namespace

TEST_CASE("whatever becomes of who gives way, every invariant holds in every state that seven operations reach") {
  require_that_all_holds({.name = "strict", .limits = four_blocks(), .requests = {early, large, small}, .all_submitted = true, .states = 20'413});
  require_that_all_holds({.name = "kept as cache",
                          .limits = four_blocks(),
                          .policy = recommended({.keep = Keep::as_cache, .regain = 1_tokens}),
                          .requests = {early, large, small},
                          .all_submitted = true,
                          .states = 20'538});
  require_that_all_holds({.name = "kept on the host, and nobody is spared",
                          .limits = four_blocks(),
                          .policy = recommended({.keep = Keep::on_host, .enough_or_none = false}),
                          .requests = {early, large, small},
                          .all_submitted = true,
                          .states = 19'402});
  require_that_all_holds({.name = "steps in flight",
                          .limits = that_retire(four_blocks()),
                          .requests = {early, large, small},
                          .others = {{.call = Call::retire}},
                          .all_submitted = true,
                          .states = 24'849});
}

TEST_CASE("whatever limits there are, every invariant holds in every state that seven operations reach") {
  require_that_all_holds(
      {.name = "a share is kept free", .limits = four_blocks(), .policy = {}, .requests = {early, large, small}, .all_submitted = true, .states = 9'690});
  require_that_all_holds({.name = "one may pass",
                          .limits = four_blocks(),
                          .policy = recommended({.regain = 1_tokens}, {.passes = 1}),
                          .requests = {early, large, small},
                          .all_submitted = true,
                          .states = 23'060});
  require_that_all_holds(
      {.name = "two tokens a step", .limits = with_two_tokens_a_step(), .requests = {early, large, small}, .all_submitted = true, .states = 13'458});
  require_that_all_holds({.name = "one adapter at a time",
                          .limits = with_one_adapter(),
                          .requests = {with_adapter(early, 1), with_adapter(large, 2), small},
                          .all_submitted = true,
                          .states = 14'286});
  require_that_all_holds({.name = "two that hold a state, and a queue that is closed and opened",
                          .limits = with_two_state_slots(),
                          .requests = {early, large, small},
                          .others = {{.call = Call::drain}, {.call = Call::reopen}},
                          .states = 40'789});
}

TEST_CASE("whatever a class is sure of and may have, every invariant holds in every state that seven operations reach") {
  auto const second_large = of_second_class(large), second_small = of_second_class(small);
  require_that_all_holds(
      {.name = "a floor", .limits = two_classes({.floor = 2_tokens}, {}), .requests = {early, second_large, second_small}, .states = 31'222});
  require_that_all_holds(
      {.name = "ceilings", .limits = two_classes({.tokens = 4_tokens}, {.running = 1}), .requests = {early, second_large, second_small}, .states = 27'222});
  AdmissionLimits one_of_two = two_classes({}, {.floor_running = 1});
  one_of_two.max_running = 2;
  require_that_all_holds({.name = "one of two that may run", .limits = one_of_two, .requests = {early, large, second_small}, .states = 30'808});
}

TEST_CASE("whatever a request holds and finds, every invariant holds in every state that seven operations reach") {
  require_that_all_holds({.name = "a pool that shrinks and grows again",
                          .limits = four_blocks(),
                          .requests = {early, large, small},
                          .others = {{.call = Call::resize, .amount = 3}, {.call = Call::resize, .amount = 4}},
                          .states = 46'356});
  require_that_all_holds({.name = "by chunks, with look-ahead and branches",
                          .limits = four_blocks(2_tokens),
                          .requests = {{.prompt = 3_tokens, .max_new = 1_tokens, .lookahead = 1_tokens, .tag = 1},
                                       {.prompt = 2_tokens, .max_new = 1_tokens, .branches = 2, .tag = 2},
                                       small},
                          .others = {{.call = Call::commit, .budget = {.chunk = 1_tokens}}},
                          .states = 40'197});
  require_that_all_holds({.name = "one that arrives, and one that is found",
                          .limits = four_blocks(),
                          .requests = {{.prompt = 2_tokens, .max_new = 1_tokens, .tag = 1, .arrives = true}, large, small},
                          .others = {{.call = Call::pin, .amount = 1}, {.call = Call::pin}, {.call = Call::found, .id = 2}},
                          .states = 35'596});
}
