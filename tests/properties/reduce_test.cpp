// That a failure is found, is cut down to the few operations that it takes, and is said so that it can be done again.
#include "catch.hpp"
#include "reduce.hpp"

using namespace properties;

namespace {

/// A model that is wrong on purpose: it knows no headroom.
struct WithoutHeadroom {
  void operator()(naive::Rules& rules) const {
    rules.least = {};
    rules.keeps_next_step_free = false;
  }
};

/// And one in which the newest gives way.
struct NewestYields {
  void operator()(naive::Rules& rules) const { rules.newest_yields = true; }
};

template <class Change>
Run first_failure(Change change) {
  for (std::uint64_t seed = 1;; ++seed)
    if (result_of(Run{.seed = seed}, change).failed()) return {.seed = seed};
}

template <class Change>
void require_reduced(Change change) {
  Run const whole = first_failure(change);
  Run const few = reduced(whole, change);
  auto const broken = result_of(whole, change).broken;
  INFO(text_of(few, change));
  REQUIRE(few.kept.size() <= 12);
  REQUIRE(result_of(few, change).broken == broken);
  for (std::size_t i = 0; i < few.kept.size(); ++i) {
    Run without = few;
    without.kept.erase(without.kept.begin() + std::ptrdiff_t(i));
    REQUIRE(result_of(without, change).broken != broken);
  }
  REQUIRE_FALSE(result_of(few).failed());  // it is the model that is wrong
}

}  // namespace

TEST_CASE("a failure is reduced to operations of which none can be left out") {
  require_reduced(WithoutHeadroom{});
  require_reduced(NewestYields{});
}

TEST_CASE("a reduced failure is printed as a run to replay and as the calls it makes") {
  Run const few = reduced(first_failure(WithoutHeadroom{}), WithoutHeadroom{});
  auto const text = text_of(few, WithoutHeadroom{});
  INFO(text);
  REQUIRE(text.find(fmt::format("Run{{.seed = {}, .kept = {{{}, ", few.seed, few.kept[0])) != std::string::npos);
  REQUIRE(text.find("AdmissionLimits{.capacity = ") != std::string::npos);
  REQUIRE(text.find("] = gate.submit({.prompt = ") != std::string::npos);
  std::size_t const calls = std::size_t(std::count(text.begin(), text.end(), ';'));
  REQUIRE(calls == few.kept.size());
}

TEST_CASE("what does not matter is left out, whatever the size of its parts") {
  auto const needs = [](std::initializer_list<std::size_t> all) {
    return [all = std::vector<std::size_t>(all)](std::vector<std::size_t> const& kept) {
      return std::all_of(all.begin(), all.end(), [&](std::size_t one) { return std::find(kept.begin(), kept.end(), one) != kept.end(); });
    };
  };
  std::vector<std::size_t> places(37);
  std::iota(places.begin(), places.end(), std::size_t{0});
  REQUIRE(fewest(places, needs({0, 17, 36})) == std::vector<std::size_t>{0, 17, 36});
  REQUIRE(fewest(places, needs({5})) == std::vector<std::size_t>{5});
  REQUIRE(fewest({4}, needs({4})) == std::vector<std::size_t>{4});
}
