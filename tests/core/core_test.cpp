#include "catch.hpp"

#include <kvbudget/core/complaint.hpp>
#include <kvbudget/core/dtype.hpp>
#include <kvbudget/core/footprint.hpp>
#include <kvbudget/core/steps.hpp>
#include <kvbudget/core/supply.hpp>

#include <algorithm>

using namespace kvbudget;
using namespace kvbudget::literals;

// ---- units ----
static_assert(1_KiB == 1'024_B && 1_MiB == 1'024_KiB && 1_GiB == 1'024_MiB);
static_assert(18'446'744'073'709'551'615_GiB == Bytes::max(), "literals saturate");
static_assert(Tokens::max() + 1_tokens == Tokens::max() && 3_tokens - 5_tokens == 0_tokens);
static_assert(Tokens::max() - 5_tokens == Tokens::max(), "the maximum is sticky");
static_assert(Tokens::max() - Tokens::max() == 0_tokens, "and taking it away leaves nothing");
static_assert(Bytes{1ULL << 63} * 2 == Bytes::max() && Bytes{1ULL << 62} * 4U == Bytes::max() && Bytes{1ULL << 62} * 3 == Bytes{3ULL << 62});
static_assert(2_MiB * -1 == Bytes::max(), "a negative count cannot be: it never fits");
static_assert(Percent{92}.millionths == 920'000 && Percent{83.5}.millionths == 835'000 && 2_percent == Percent{2} && 0.5_percent == Percent{0.5});
static_assert(Percent{-1} > Percent{100} && Percent{-0.5} > Percent{100});

// ---- rounding ----
static_assert(blocks_for(100_tokens, 16_tokens) == 7_blocks && blocks_in(100_tokens, 16_tokens) == 6_blocks);
static_assert(blocks_for(96_tokens, 16_tokens) == 6_blocks && blocks_for(97_tokens, 16_tokens) == 7_blocks && blocks_for(0_tokens, 16_tokens) == 0_blocks);
static_assert(blocks_for(1_tokens, 0_tokens) == Blocks::max() && blocks_in(1_tokens, 0_tokens) == 0_blocks, "division fails closed");
static_assert(blocks_for(Tokens::max(), 16_tokens) == Blocks::max());
static_assert(floor_div(saturated_count, saturated_count) == 0 && floor_div(saturated_count, 5) == saturated_count, "a need too large to count never fits");
static_assert(window_group(16_tokens).most(Tokens::max(), 1_tokens) == Blocks::max() && window_group(16_tokens).held(Tokens::max(), 1_tokens) == Blocks::max());
static_assert(share_up(5_percent, 8_blocks) == 1_blocks && share_down(5_percent, 8_blocks) == 0_blocks);
static_assert(share_up(50_percent, 8_blocks) == 4_blocks && share_down(100_percent, 80_GiB) == 80_GiB);
static_assert(share_down(92_percent, 80_GiB) == 79'027'398'246_B);
static_assert(round_up(17_tokens, 16_tokens) == 32_tokens && round_down(31_tokens, 16_tokens) == 16_tokens);
static_assert(part_up(17_B, 4) == 5_B && part_up(17_B, 0) == Bytes::max());

// ---- dtypes: facts vllm.md A3 to A5, llama_cpp.md section 1 ----
static_assert(vector_bytes(bf16, 128) == 256_B && vector_bytes(fp8, 128) == 128_B && vector_bytes(bytes_per_element(2), 128) == 256_B);
static_assert(vector_bytes(q8_0, 128) == 136_B && vector_bytes(q5_1, 128) == 96_B && vector_bytes(q5_0, 128) == 88_B && vector_bytes(q4_1, 128) == 80_B &&
              vector_bytes(q4_0, 128) == 72_B);
static_assert(vector_bytes(nvfp4, 128) == 72_B && vector_bytes(int8_per_token_head, 128) == 132_B && vector_bytes(int4_per_token_head, 128) == 68_B);
static_assert(!divides(q8_0, 80) && vector_bytes(q8_0, 80) == Bytes::max() && vector_bytes(DType{}, 128) == Bytes::max());
static_assert(!bytes_per_element(0).is_set() && !bytes_per_element(-2).is_set() && !bytes_per_element(1 << 20).is_set());

// ---- footprint ----
static_assert(full_group(16_tokens).most(100_tokens, 1_tokens) == 7_blocks);
static_assert(window_group(1'024_tokens, 16_tokens).most(131'072_tokens, 512_tokens) == 97_blocks);
static_assert(window_group(64_tokens, 16_tokens).most(10'000_tokens, 64_tokens) == 9_blocks, "vllm.md E7: cap 9");
static_assert(chunk_group(8'192_tokens, 16_tokens).most(1'000'000_tokens, 8'192_tokens) == 1'024_blocks, "vllm.md B3");
static_assert(
    CacheGroup{.keeps = Keeps::window, .block = 16_tokens, .span = 1'024_tokens, .bound = {.tokens = 1'023_tokens + 16'384_tokens, .blocks = 1_blocks}}.most(
        131'072_tokens, 1_tokens) == 1'089_blocks,
    "a runtime's own bound: vllm.md B2, case 47");
static_assert(CacheGroup{.keeps = Keeps::window, .block = 32_tokens, .span = 1'024_tokens, .bound = {.tokens = 1'024_tokens, .beside = 28_tokens}}.most(
                  5'000_tokens, 1_tokens) == 33_blocks,
              "what a runtime keeps beside a sequence's own tokens");
static_assert(fixed_group(3_blocks).most(1'000'000_tokens, 1_tokens) == 3_blocks);
static_assert(Footprint{}.most(0, 100_tokens) == 100_blocks, "a token budget has blocks of one token");
static_assert(paged(16_tokens).most(0, Tokens::max()) == Blocks::max(), "a need too large to count never fits");
static_assert(check(Footprint{}).empty() && !check(Footprint{.groups = {{.block = 0_tokens}}}).empty() &&
              !check(Footprint{.groups = {window_group(0_tokens)}}).empty());

// ---- complaints and in-place vectors ----
static_assert(
    [] {
      InplaceVector<int, 2> two{1, 2, 3};
      return two.size() == 2 && two.overflowed() && two.lost == 1 && two[1] == 2;
    }(),
    "what does not fit is counted");

// ---- supply ----
static_assert(Supply{.clean = 3_blocks, .cached_idle = 2_blocks, .in_flight = 9_blocks, .reserved = 9_blocks}.available() == 5_blocks);

TEST_CASE("literals work in generic lambdas and as default arguments") {
  auto const larger = [](auto const& tokens, Tokens than = 10_tokens) { return tokens > than && tokens > 5_tokens; };
  REQUIRE(larger(11_tokens));
  REQUIRE_FALSE(larger(10_tokens));
}

TEST_CASE("the most a windowed or chunked group holds is reached and never passed on any way to a length") {
  auto const block = GENERATE(1, 3, 4, 16);
  auto const span = GENERATE(1, 4, 7, 16, 33);
  auto const chunked = GENERATE(false, true);
  CacheGroup const group = chunked ? chunk_group(Tokens{std::uint64_t(span)}, Tokens{std::uint64_t(block)})
                                   : window_group(Tokens{std::uint64_t(span)}, Tokens{std::uint64_t(block)});
  for (std::uint64_t in_flight : {1U, 5U, 16U}) {
    Blocks most_held{};
    for (std::uint64_t length = 1; length <= 400; ++length) {
      for (std::uint64_t step = 1; step <= std::min(in_flight, length); ++step) most_held = max(most_held, group.held(Tokens{length}, Tokens{step}));
      REQUIRE(most_held <= group.most(Tokens{length}, Tokens{in_flight}));
    }
    bool const aligned = !chunked || span % block == 0 || block == 1;  // a chunk across blocks may keep one less than the bound
    if (aligned) REQUIRE(most_held == group.most(Tokens{400}, Tokens{in_flight}));
  }
}

TEST_CASE("a windowed group holds what vLLM's rule says, token by token") {
  // Independent of the header's arithmetic: block i is held while a later step can read one of its tokens.
  for (std::uint64_t block : {1U, 4U, 16U})
    for (std::uint64_t window : {1U, 5U, 16U, 40U})
      for (std::uint64_t step : {1U, 3U, 20U})
        for (std::uint64_t t = step; t < 120; ++t) {
          std::uint64_t held = 0;
          std::uint64_t const computed = t - step;  // before this step; its first token reads window - 1 tokens back
          for (std::uint64_t first = 0; first < t; first += block) held += first + block + window > computed + 1;
          REQUIRE(window_group(Tokens{window}, Tokens{block}).held(Tokens{t}, Tokens{step}).count == held);
        }
}

TEST_CASE("branches share the prompt's whole blocks and nothing else") {
  Footprint const pages = paged(16_tokens);
  REQUIRE(pages.most(0, Sequences{.length = 40_tokens, .shared = 40_tokens, .branches = 1}) == 3_blocks);
  REQUIRE(pages.most(0, Sequences{.length = 40_tokens, .shared = 40_tokens, .branches = 4}) == 6_blocks);    // 2 shared, 4 last ones
  REQUIRE(pages.most(0, Sequences{.length = 100_tokens, .shared = 40_tokens, .branches = 4}) == 22_blocks);  // 2 + 4 x 5
  Footprint const window{.groups = {window_group(16_tokens, 16_tokens)}, .in_flight = 1_tokens};
  REQUIRE(window.most(0, Sequences{.length = 100_tokens, .shared = 40_tokens, .branches = 4}) == 8_blocks);
  REQUIRE(Footprint{.groups = {fixed_group(1_blocks)}}.most(0, Sequences{.length = 9_tokens, .branches = 4}) == 4_blocks);
}

TEST_CASE("several groups add up in their pools") {
  Footprint const hybrid{.groups = {full_group(16_tokens), window_group(32_tokens, 16_tokens), fixed_group(2_blocks, 1)}, .in_flight = 1_tokens};
  REQUIRE(hybrid.pools() == 2);
  REQUIRE(hybrid.most(0, 160_tokens) == 10_blocks + 3_blocks);
  REQUIRE(hybrid.most(1, 160_tokens) == 2_blocks);
  REQUIRE(hybrid.held(0, 160_tokens, 1_tokens) == 10_blocks + 2_blocks);
  REQUIRE(hybrid.reach({.length = 33_tokens}).room == 48_tokens);
  REQUIRE(hybrid.reach({.length = 33_tokens, .branches = 2}).tokens_held == 96_tokens);
}

TEST_CASE("a footprint is paged where one group keeps every token in blocks of its own") {
  REQUIRE(paged(16_tokens).paged_by() == 16_tokens);
  REQUIRE(Footprint{}.paged_by() == 1_tokens);
  REQUIRE(Footprint{.groups = {full_group(16_tokens), fixed_group(2_blocks, 1)}}.paged_by() == 0_tokens);
  REQUIRE(Footprint{.groups = {full_group(16_tokens, 1)}}.paged_by() == 0_tokens);
  REQUIRE(Footprint{.groups = {window_group(32_tokens, 16_tokens)}}.paged_by() == 0_tokens);
  REQUIRE(Footprint{.groups = {{.block = 16_tokens, .blocks_per_entry = 2}}}.paged_by() == 0_tokens);
  REQUIRE(Footprint{.groups = {{.block = 16_tokens, .bound = {.blocks = 1_blocks}}}}.paged_by() == 0_tokens);
}

TEST_CASE("the trail's explanation is its result") {
  Trail trail;
  trail.start("device memory", 80_GiB);
  trail.share_down("usable", 90_percent);
  trail.subtract("weights", 16_GiB);
  REQUIRE(trail.bytes() == 56_GiB);
  trail.add("graphs given back", 2_GiB);
  trail.divide_down("bytes per block", (2_MiB).count, Unit::bytes, Unit::blocks);
  trail.at_most("blocks", 100);
  trail.multiply("tokens per block", 16, Unit::tokens, Unit::tokens);
  REQUIRE(trail.result() == 1'600);
  REQUIRE(trail.unit() == Unit::tokens);
  REQUIRE(trail.steps.size() == 7);
  for (std::size_t i = 1; i < trail.steps.size(); ++i) {  // every step follows from the one before
    auto const& step = trail.steps[i];
    auto const before = trail.steps[i - 1].result;
    switch (step.operation) {
      case Operation::start:
        FAIL("only the first step starts");
        break;
      case Operation::add:
        REQUIRE(step.result == before + step.operand);
        break;
      case Operation::subtract:
        REQUIRE(step.result == before - step.operand);
        break;
      case Operation::share_down:
        REQUIRE(step.result == before / 1'000'000 * step.operand + before % 1'000'000 * step.operand / 1'000'000);
        break;
      case Operation::multiply:
        REQUIRE(step.result == before * step.operand);
        break;
      case Operation::divide_down:
        REQUIRE(step.result == before / step.operand);
        break;
      case Operation::divide_up:
        REQUIRE(step.result == (before + step.operand - 1) / step.operand);
        break;
      case Operation::at_most:
        REQUIRE(step.result == std::min(before, step.operand));
        break;
    }
  }
}
