#include "catch.hpp"

#include <kvbudget/size/capacity.hpp>

#include <string>

using namespace kvbudget;
using namespace kvbudget::literals;

namespace {

constexpr ModelSpec llama_8b{.layers = 32, .kv_heads = 8, .head_dim = 128, .dtype = bf16};
constexpr CacheSpec gemma3_27b{
    .layers = cycle(62, {5 * sliding_window({.kv_heads = 16, .head_dim = 128}, 1'024_tokens), full_attention({.kv_heads = 16, .head_dim = 128})}),
    .dtype = bf16};
constexpr CacheSpec qwen3_next{
    .layers = cycle(48, {3 * recurrent({.conv = {.heads = 8'192, .width = 3, .dtype = bf16}, .state = {.heads = 32, .width = 128 * 128, .dtype = fp32}}),
                         full_attention({.kv_heads = 2, .head_dim = 256})}),
    .dtype = bf16};

bool complains_about(Complaints const& complaints, std::string const& field) {
  for (auto const& complaint : complaints)
    if (complaint.field == field) return true;
  return false;
}

}  // namespace

// ---- device budgets ----
constexpr DeviceBudget device{
    .memory = 80_GiB, .usable = of_total(90_percent), .weights = 16_GiB, .activations = 2_GiB, .graphs = 1_GiB, .adapters = 512_MiB, .reserve = 512_MiB};
static_assert(cache_bytes(device) == 52_GiB, "80 x 90% - 16 - 2 - 1 - 0.5 - 0.5");
static_assert(cache_bytes({.memory = 80_GiB, .usable = of_free_after_weights(90_percent), .weights = 20_GiB}) == 54_GiB, "(80 - 20) x 90%");
static_assert(cache_bytes({.memory = 80_GiB, .usable = of_total(100_percent), .weights = 90_GiB}) == 0_B, "weights that do not fit leave nothing");

// ---- plans ----
constexpr CachePlan llama_plan = plan(llama_8b, 64_GiB, {.block = 16_tokens});
static_assert(llama_plan.blocks == 32'768_blocks && llama_plan.bytes_per_block == 2_MiB);
static_assert(llama_plan.at(8'192_tokens).requests == 64 && llama_plan.at(8'193_tokens).requests == 63);
static_assert(llama_plan.longest() == 524'288_tokens && llama_plan.bytes_for(64, 8'192_tokens) == 64_GiB);
// vllm.md D, case 1 and 5: 40 GiB of Llama-3.1-8B are 20,480 blocks, in fp8 40,960.
static_assert(plan(llama_8b, 40_GiB, {.block = 16_tokens}).blocks == 20'480_blocks);
static_assert(plan(ModelSpec{32, 8, 128, fp8}, 40_GiB, {.block = 16_tokens}).blocks == 40'960_blocks);
static_assert(plan(on_rank(llama_8b, {.tensor = 16}), 40_GiB, {.block = 16_tokens}).blocks == 163'840_blocks, "case 7");
static_assert(plan(ModelSpec{32, 8, 128, nvfp4}, 40_GiB, {.block = 16_tokens}).blocks == 72'817_blocks, "case 33");
static_assert(plan(ModelSpec{32, 8, 128, int4_per_token_head}, 40_GiB, {.block = 16_tokens}).blocks == 77'101_blocks, "case 36");
static_assert(plan(CacheSpec{61 * latent_attention({.latent = 512, .rope = 64}), bf16}, 30_GiB, {.block = 64_tokens}).blocks == 7'162_blocks, "case 69");
static_assert(plan(on_rank(llama_8b, {.tensor = 2, .context = 2}), 40_GiB, {.block = 16_tokens}).blocks == 40'960_blocks, "case 12");

TEST_CASE("a budget says each of its steps") {
  Trail trail;
  REQUIRE(cache_bytes(device, trail) == 52_GiB);
  REQUIRE(trail.bytes() == 52_GiB);
  std::vector<std::string> labels;
  for (auto const& step : trail.steps) labels.emplace_back(step.label);
  REQUIRE(labels == std::vector<std::string>{"device memory", "usable fraction of total", "weights", "activations", "graphs", "adapters", "reserve"});
}

TEST_CASE("a budget without memory, without a fraction or above 100% is refused and holds nothing") {
  auto const bad =
      GENERATE(DeviceBudget{.usable = of_total(90_percent)}, DeviceBudget{.memory = 80_GiB}, DeviceBudget{.memory = 80_GiB, .usable = of_total(Percent{0})},
               DeviceBudget{.memory = 80_GiB, .usable = of_total(Percent{101})}, DeviceBudget{.memory = 80_GiB, .usable = of_free_after_weights(Percent{-5})},
               DeviceBudget{.memory = Bytes::max(), .usable = of_total(90_percent)});
  REQUIRE_FALSE(check(bad).empty());
  REQUIRE(cache_bytes(bad) == 0_B);
}

TEST_CASE("a plan's three numbers are three: resident, reserved, and what rounding loses") {
  auto const capacity = llama_plan.at(8'001_tokens);
  REQUIRE(capacity.resident == kv_bytes(llama_8b, 8'001_tokens));
  REQUIRE(capacity.blocks_per_request == 501_blocks);
  REQUIRE(capacity.reserved == 501 * 2_MiB);
  REQUIRE(capacity.requests == 65);
  REQUIRE(capacity.unused == 32'768_blocks - 65 * 501_blocks);
  REQUIRE(capacity.context_tokens == 65 * 8'001_tokens);
  REQUIRE(capacity.binds == Binds::cache_bytes);
  REQUIRE(plan(llama_8b, 64_GiB - 1_B, {.block = 16_tokens}).lost_in_pool() == 2_MiB - 1_B);
}

TEST_CASE("a plan says what binds") {
  REQUIRE(plan(llama_8b, 64_GiB, {.block = 16_tokens, .max_requests = 10}).at(8'192_tokens).binds == Binds::max_requests);
  REQUIRE(plan(llama_8b, 64_GiB, {.block = 16_tokens, .max_requests = 10}).at(8'192_tokens).requests == 10);
  REQUIRE(plan(llama_8b, 64_GiB, {.block = 16_tokens, .max_requests = 64}).at(8'192_tokens).binds == Binds::cache_bytes);
  REQUIRE(plan(llama_8b, 1_GiB, {.block = 16_tokens}).at(8'193_tokens).binds == Binds::one_request);
  REQUIRE(plan(llama_8b, 1_MiB, {.block = 16_tokens}).at(1_tokens).binds == Binds::no_cache_bytes);
  REQUIRE(plan(llama_8b, 0_B, {.block = 16_tokens}).longest() == 0_tokens);
}

TEST_CASE("a plan of several pools is as full as its tightest pool, and takes no request longer than it may") {
  CachePlan several{.pool = 1'000_B,
                    .bytes_per_block = 4_B,
                    .blocks = 101_blocks,
                    .sentinels = 1_blocks,
                    .options = {.block = 2_tokens, .max_length = 60_tokens},
                    .groups = {},
                    .footprint = {.groups = {full_group(2_tokens, 0), fixed_group(1_blocks, 1)}},
                    .more_pools = {{.name = "states", .bytes_per_block = 100_B, .blocks = 5_blocks}}};
  REQUIRE(several.usable() == 100_blocks);
  REQUIRE(several.lost_in_pool() == 1'000_B - 404_B - 500_B);
  REQUIRE(several.reserved(20_tokens) == 140_B);
  REQUIRE(several.at(20_tokens).requests == 5);
  REQUIRE(std::string{several.at(20_tokens).pool} == "states");
  REQUIRE(several.at(50_tokens).requests == 4);
  REQUIRE(several.at(50_tokens).trail.result() == 200);
  REQUIRE(std::string{several.at(50_tokens).pool} == "cache");
  REQUIRE(several.at(61_tokens).requests == 0);
  REQUIRE(several.at(61_tokens).binds == Binds::max_length);
  REQUIRE(several.longest() == 60_tokens);
  several.options.max_length = Tokens::max();
  REQUIRE(several.longest() == 200_tokens);
}

TEST_CASE("the inverses invert: bytes for n requests hold exactly n, and the longest is the longest") {
  for (CacheSpec const& spec : {static_cast<CacheSpec>(llama_8b), gemma3_27b, qwen3_next})
    for (std::uint64_t block : {1U, 16U, 64U})
      for (std::uint64_t length : {1U, 1'000U, 8'192U}) {
        PlanOptions const options{.block = Tokens{block}, .in_flight = 2'048_tokens};
        Bytes const bytes = plan(spec, 1_GiB, options).bytes_for(7, Tokens{length});
        REQUIRE(plan(spec, bytes, options).at(Tokens{length}).requests == 7);
        REQUIRE(plan(spec, bytes - 1_B, options).at(Tokens{length}).requests == 6);
        CachePlan const some = plan(spec, 3_GiB, options);
        REQUIRE(some.at(some.longest()).requests >= 1);
        REQUIRE(some.at(some.longest() + 1_tokens).requests == 0);
      }
}

TEST_CASE("a hybrid's blocks are common to its groups, and nothing is lost between them") {
  CachePlan const gemma = plan(gemma3_27b, 30_GiB, {.block = 16_tokens, .in_flight = 8'192_tokens});
  REQUIRE(gemma.groups.size() == 2);
  REQUIRE(gemma.groups[0].layers == 52);
  REQUIRE(gemma.groups[1].layers == 10);
  REQUIRE(gemma.bytes_per_block == Bytes{2 * 16 * 128 * 2 * 16} * 2);  // of two layers: 62 = 2 x (26 + 5)
  REQUIRE(gemma.resident(5'000_tokens) == kv_bytes(gemma3_27b, 5'000_tokens));
  REQUIRE(gemma.reserved(131'072_tokens) == Bytes{16 * 8'192} * (10 * 8'192) + Bytes{16 * 8'192} * 52 * ((1'023 + 8'192 + 15 + 15) / 16));

  CachePlan const qwen = plan(qwen3_next, 30_GiB, {.block = 16_tokens});
  REQUIRE(qwen.resident(1'000_tokens) == kv_bytes(qwen3_next, 1'000_tokens));
  REQUIRE(qwen.reserved(1'600_tokens) == kv_bytes(qwen3_next, 1'600_tokens));
}

TEST_CASE("the blocks of a request are explained, group by group, to their sum") {
  for (CacheSpec const& spec : {static_cast<CacheSpec>(llama_8b), gemma3_27b, qwen3_next})
    for (std::uint64_t length : {1U, 17U, 5'000U, 131'072U}) {
      CachePlan const any = plan(spec, 30_GiB, {.block = 16_tokens, .in_flight = 2'048_tokens});
      Blocks sum{};
      for (auto const& group : any.groups) {
        REQUIRE(any.explain(group, Tokens{length}).unit() == Unit::blocks);
        sum += any.explain(group, Tokens{length}).blocks();
      }
      REQUIRE(sum == any.blocks_per_request(Tokens{length}));
    }
}

TEST_CASE("a plan hands its footprint and blocks to admission") {
  REQUIRE(llama_plan.footprint.most(0, 100_tokens) == 7_blocks);
  REQUIRE(llama_plan.footprint.pools() == 1);
}

TEST_CASE("the tightest stage binds, and a stage that keeps nothing does not") {
  ModelSpec const llama_70b{.layers = 80, .kv_heads = 8, .head_dim = 128, .dtype = bf16};
  StagePlan const uneven = plan_tightest(llama_70b, {.pipeline = 2, .stage_layers = {30, 50}}, 20_GiB, 32'768_tokens, {.block = 16_tokens});
  REQUIRE(uneven.rank.stage == 1);
  REQUIRE(uneven.plan.bytes_per_block == 50 * 65'536_B);
  // 126 layers on 4 stages: the second has 32, one more than the first, also where both hold as many requests.
  ModelSpec const llama_405b{.layers = 126, .kv_heads = 8, .head_dim = 128, .dtype = bf16};
  StagePlan const even = plan_tightest(llama_405b, {.pipeline = 4}, 1_GiB, 131'072_tokens, {.block = 16_tokens});
  REQUIRE(even.rank.stage == 1);
  REQUIRE(even.longest == 8'192_tokens);
  REQUIRE(plan_tightest(llama_405b, {.pipeline = 4}, Bytes::max(), 1_tokens).plan.at(1_tokens).requests == saturated_count);
  CacheSpec const half{.layers = {2 * no_cache(), 2 * full_attention({.kv_heads = 8, .head_dim = 128})}, .dtype = bf16};
  REQUIRE(plan_tightest(half, {.pipeline = 2}, 1_GiB, 1'000_tokens).rank.stage == 1);
}

TEST_CASE("a bad plan is refused and holds nothing") {
  ModelSpec const bad{32, 8, 80, q8_0};
  REQUIRE(plan(bad, 64_GiB).at(1_tokens).requests == 0);
  REQUIRE(plan(bad, 64_GiB).blocks_per_request(1_tokens) == Blocks::max());
  REQUIRE(plan(bad, 64_GiB).longest() == 0_tokens);
  REQUIRE(plan(bad, 64_GiB).resident(1_tokens) == Bytes::max());  // never 0 bytes
  REQUIRE(plan(bad, Bytes::max()).at(1_tokens).requests == 0);
  REQUIRE(complains_about(check(llama_8b, PlanOptions{.block = 0_tokens}), ".block"));
  REQUIRE(complains_about(check(llama_8b, PlanOptions{.in_flight = 0_tokens}), ".in_flight"));
  REQUIRE(complains_about(check(llama_8b, PlanOptions{.max_requests = 0}), ".max_requests"));
  REQUIRE(complains_about(check(llama_8b, PlanOptions{.max_length = 0_tokens}), ".max_length"));
  REQUIRE(complains_about(check(CacheSpec{.layers = 4 * no_cache(), .dtype = bf16}, PlanOptions{}), ".layers"));
  LayerList windows;
  for (std::uint64_t i = 1; i <= 9; ++i) windows.append(sliding_window({.kv_heads = 8, .head_dim = 64}, Tokens{i * 100}));
  REQUIRE(complains_about(check(CacheSpec{.layers = windows, .dtype = bf16}, PlanOptions{}), ".layers"));
  ModelSpec const uneven{.layers = 4, .kv_heads = 6, .head_dim = 64, .dtype = bf16};
  REQUIRE(plan_tightest(uneven, {.tensor = 4}, 64_GiB, 1_tokens).plan.at(1_tokens).requests == 0);
}
