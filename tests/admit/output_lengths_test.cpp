#include "catch.hpp"

#include <kvbudget/admit/output_lengths.hpp>

#include <algorithm>
#include <random>
#include <vector>

using namespace kvbudget;
using namespace kvbudget::literals;

namespace {

constexpr ObservationLimits from_the_first{.enough = 1};

constexpr OutputLengths observed(std::uint64_t first, std::uint64_t last, ObservationLimits limits = from_the_first) {
  OutputLengths lengths{limits};
  for (std::uint64_t length = first; length <= last; ++length) lengths.observe({length});
  return lengths;
}

static_assert(observed(1, 100).quantile(90_percent) == 91_tokens, "90 lies in the bucket 88 to 91");
static_assert(observed(1, 20).quantile(90_percent) == 18_tokens, "below 32 a quantile is exact");
static_assert(observed(1, 20).quantile(90.1_percent) == 19_tokens, "a share of the observations rounds up");
static_assert(observed(5, 20).quantile(0_percent) == 5_tokens && observed(5, 20).quantile(100_percent) == 20_tokens);
static_assert(observed(1, 20).quantile(100.1_percent) == Tokens::max(), "no length covers more than all");
static_assert(observed(1, 31, {}).quantile(0_percent) == Tokens::max() && observed(1, 32, {}).quantile(0_percent) == 1_tokens, "32 are enough");
static_assert(observed(1, 20).quantile_beyond(50_percent, 11_tokens) == 15_tokens, "the fifth of 11 to 20");
static_assert(observed(1, 20).quantile_beyond(0_percent, 21_tokens) == Tokens::max(), "nothing got so far");
static_assert(observed(1, 20, {.enough = 10}).quantile_beyond(0_percent, 11_tokens) == 11_tokens);
static_assert(observed(1, 20, {.enough = 10}).quantile_beyond(0_percent, 12_tokens) == Tokens::max(), "too few got so far");
static_assert(observed(Tokens::max().count - 1, Tokens::max().count - 1).quantile(50_percent) == Tokens::max());
static_assert(OutputLengths{{.enough = 0}}.quantile(50_percent) == Tokens::max(), "of nothing nothing is known");
static_assert(sizeof(OutputLengths) <= 3'920);

static_assert(check(ObservationLimits{}).empty() && check(ObservationLimits{.enough = 1, .kept = 1}).empty());
static_assert(check(ObservationLimits{.enough = 0}).size() == 1 && check(ObservationLimits{.enough = 33, .kept = 32}).size() == 1);

/// The last length that is kept with `length`: from 32 on in steps of a sixteenth of the power of two below it.
std::uint64_t rounded(std::uint64_t length) {
  std::uint64_t step = 1;
  while (length / step >= 32) step *= 2;
  return length - length % step + (step - 1);
}

/// Every observation, sorted; of twice as many as are kept, every second one from the longest down.
struct Naive {
  ObservationLimits limits;
  std::vector<std::uint64_t> lengths{};

  void observe(std::uint64_t length) {
    lengths.insert(std::upper_bound(lengths.begin(), lengths.end(), length), length);
    if (lengths.size() < 2U * limits.kept) return;
    std::vector<std::uint64_t> stay;
    for (std::size_t i = 1; i < lengths.size(); i += 2) stay.push_back(lengths[i]);
    lengths = stay;
  }

  Tokens exact(std::uint64_t millionths, std::uint64_t already) const {
    auto const first = std::lower_bound(lengths.begin(), lengths.end(), already);
    auto const beyond = static_cast<std::uint64_t>(lengths.end() - first);
    if (beyond < limits.enough) return Tokens::max();
    std::uint64_t const rank = std::max<std::uint64_t>(1, (beyond * millionths + 999'999) / 1'000'000);
    return {first[static_cast<std::ptrdiff_t>(rank - 1)]};
  }
};

Percent share(std::uint64_t millionths) {
  Percent percent{};
  percent.millionths = millionths;
  return percent;
}

}  // namespace

TEST_CASE("quantiles are those of the sorted observations, rounded up by less than a sixteenth") {
  std::mt19937_64 random{20'261'130};
  auto const upto = [&](std::uint64_t most) { return random() % (most + 1); };
  for (int world = 0; world < 200; ++world) {
    std::uint64_t const enough = 1 + upto(20), longest = std::uint64_t{1} << (1 + upto(40));
    ObservationLimits const limits{.enough = static_cast<std::uint16_t>(enough), .kept = static_cast<std::uint16_t>(enough + upto(200))};
    OutputLengths lengths{limits};
    Naive naive{limits};
    for (int operation = 0; operation < 1'000; ++operation) {
      std::uint64_t const length = upto(upto(3) ? longest : 40);
      lengths.observe({length});
      naive.observe(length);
      REQUIRE(lengths.count() == naive.lengths.size());
      std::uint64_t const millionths = upto(1'000'000), already = upto(longest);
      Tokens const known = lengths.quantile(share(millionths)), exact = naive.exact(millionths, 0);
      REQUIRE(known == (exact.saturated() ? exact : Tokens{rounded(exact.count)}));
      if (!exact.saturated()) REQUIRE((known.count == exact.count || (known.count - exact.count) * 16 < exact.count));
      std::uint64_t const whole_buckets = already == 0 ? 0 : rounded(already - 1) + 1;  // from the first that holds nothing shorter
      Tokens const later = naive.exact(millionths, whole_buckets);
      REQUIRE(lengths.quantile_beyond(share(millionths), {already}) == (later.saturated() ? later : Tokens{rounded(later.count)}));
    }
  }
}

TEST_CASE("a quantile of the outputs that got so far is never under-stated, and grows with what is there already") {
  std::mt19937_64 random{20'261'201};
  for (int world = 0; world < 50; ++world) {
    OutputLengths lengths{from_the_first};
    Naive naive{from_the_first};
    for (int i = 0; i < 300; ++i) {
      std::uint64_t const length = random() % (1 + random() % 5'000);
      lengths.observe({length});
      naive.observe(length);
    }
    for (std::uint64_t const millionths : {0U, 500'000U, 900'000U, 999'000U, 1'000'000U}) {
      Tokens before{};
      for (std::uint64_t already = 0; already < 5'500; already += 1 + random() % 20) {
        Tokens const beyond = lengths.quantile_beyond(share(millionths), {already});
        REQUIRE(beyond >= max(before, Tokens{already}));
        REQUIRE(beyond >= naive.exact(millionths, already));
        before = beyond;
      }
    }
  }
}

TEST_CASE("forgetting lowers no quantile") {
  std::mt19937_64 random{20'261'202};
  for (int world = 0; world < 200; ++world) {
    std::uint16_t const kept = static_cast<std::uint16_t>(1 + random() % 300);
    OutputLengths forgetful{{.enough = 1, .kept = kept}}, patient{{.enough = 1, .kept = 1'000}};
    for (int i = 0; i < 2 * kept; ++i) {
      Tokens const length{random() % (1 + random() % 100'000)};
      forgetful.observe(length);
      patient.observe(length);
    }
    REQUIRE(forgetful.count() == kept);
    REQUIRE(patient.count() == 2U * kept);
    for (std::uint64_t millionths = 0; millionths <= 1'000'000; millionths += 7'919)
      REQUIRE(forgetful.quantile(share(millionths)) >= patient.quantile(share(millionths)));
  }
}

TEST_CASE("quantiles follow a workload that changes") {
  OutputLengths lengths;
  auto const observe = [&](Tokens length, int times) {
    for (int i = 0; i < times; ++i) lengths.observe(length);
  };
  observe(1'000_tokens, 100'000);
  REQUIRE(lengths.quantile(90_percent) == 1'023_tokens);
  observe(20_tokens, 4 * 2'048);
  REQUIRE(lengths.quantile(90_percent) == 20_tokens);
  REQUIRE(lengths.quantile(100_percent) == 1'023_tokens);
  observe(1'000_tokens, 2'048);
  REQUIRE(lengths.quantile(90_percent) == 1'023_tokens);
}

TEST_CASE("limits that make no sense are complained of, and leave quantiles unknown") {
  ObservationLimits const forgets_at_once{.enough = 32, .kept = 0};
  auto const complaints = check(forgets_at_once);
  REQUIRE(complaints.size() == 1);
  REQUIRE(std::string{complaints[0].field} == ".kept");
  OutputLengths lengths{forgets_at_once};
  for (int i = 0; i < 1'000; ++i) {
    lengths.observe(10_tokens);
    REQUIRE(lengths.quantile(90_percent) == Tokens::max());
  }
}
