#include "catch.hpp"

#include <kvbudget/write/tensorrt_llm.hpp>

using namespace kvbudget;
using namespace kvbudget::literals;

namespace {

constexpr ModelSpec llama_8b{.layers = 32, .kv_heads = 8, .head_dim = 128, .dtype = bf16};
constexpr ModelSpec llama_8b_fp8{.layers = 32, .kv_heads = 8, .head_dim = 128, .dtype = fp8};
constexpr ModelSpec of_192_KiB{.layers = 48, .kv_heads = 8, .head_dim = 128, .dtype = bf16};
constexpr CacheSpec gemma3_27b{
    .layers = cycle(62, {5 * sliding_window({.kv_heads = 16, .head_dim = 128}, 1'024_tokens), full_attention({.kv_heads = 16, .head_dim = 128})}),
    .dtype = bf16};
constexpr Bytes gib(double n) { return {static_cast<std::uint64_t>(n * 0x1p30)}; }
constexpr tensorrt_llm::Options short_of(Tokens length) { return {.max_sequence_length = length}; }

bool complains_about(Complaints const& complaints, std::string const& field) {
  for (auto const& complaint : complaints)
    if (complaint.field == field) return true;
  return false;
}

}  // namespace

// A23: TensorRT-LLM issue #10810.
static_assert(tensorrt_llm::plan(of_192_KiB, gib(12.78), short_of(8'192_tokens)).windows[0].tokens == 62'816_tokens);
static_assert(tensorrt_llm::plan(of_192_KiB, gib(12.78), short_of(8'192_tokens)).blocks == 1'963_blocks);
// field_pains.md A24: "21 GB gives only 631 blocks?" 0.9 x 21.89 GiB / 524,288 B / 64, up.
static_assert(tensorrt_llm::plan(ModelSpec{32, 32, 128, bf16}, gib(21.89), {.max_sequence_length = 4'096_tokens, .tokens_per_block = 64_tokens}).blocks ==
              631_blocks);
// golden/logs_uniform.jsonl u142: "17.83 GiB" for Llama-3.1-8B in fp8; 8'219 blocks are reached inside what prints so.
static_assert(tensorrt_llm::plan(llama_8b_fp8, Bytes{19'150'185'431}, short_of(131'072_tokens)).blocks == 8'219_blocks);
// l217: 1,088 tokens asked for are 34 blocks, and a sequence of 1,025 takes 33 of them.
constexpr auto of_1088 = tensorrt_llm::plan(llama_8b, 60_GiB, {.max_sequence_length = 1'025_tokens, .max_tokens = 1'088_tokens});
static_assert(of_1088.blocks == 34_blocks && of_1088.windows[0].per_sequence == 33_blocks && of_1088.printed_tokens == 1'088_tokens);
// A22
static_assert(tensorrt_llm::free_after_profiling(80_GiB, 30_GiB, 20_GiB) == 70_GiB);

TEST_CASE("TensorRT-LLM's lines come out of a plan's numbers, letter by letter") {
  auto const plan = tensorrt_llm::plan(of_192_KiB, gib(12.78), short_of(8'192_tokens));
  REQUIRE(tensorrt_llm::log_lines(plan) ==
          std::vector<std::string>{"Blocks per window size:", "[windowSize=8192] {.primaryBlocks=1963, .secondayBlocks=0}",
                                   "Max KV cache blocks per sequence: 256 [window size=8192], tokens per block=32, primary blocks=1963",
                                   "Allocated 11.50 GiB for max tokens in paged KV cache (62816)."});
  REQUIRE(tensorrt_llm::log_lines(of_1088).back() == "Allocated 0.13 GiB for max tokens in paged KV cache (1088).");
}

TEST_CASE("the fraction is of free memory, and a limit in tokens stands beside it") {
  auto const by_memory = tensorrt_llm::plan(llama_8b, 10_GiB, short_of(4'096_tokens));
  REQUIRE(by_memory.windows[0].tokens == 73'728_tokens);  // 9 GiB / 128 KiB
  REQUIRE(by_memory.blocks == 2'304_blocks);
  REQUIRE(tensorrt_llm::plan(llama_8b, 10_GiB, {.max_sequence_length = 4'096_tokens, .max_tokens = 1'000_tokens}).blocks == 32_blocks);
  REQUIRE(tensorrt_llm::plan(llama_8b, 10_GiB, {.max_sequence_length = 4'096_tokens, .max_tokens = 100'000_tokens}).blocks == 2'304_blocks);
  REQUIRE(tensorrt_llm::plan(llama_8b, 10_GiB, {.max_sequence_length = 4'096_tokens, .extra_cost = 1_GiB}).blocks == 2'048_blocks);
}

TEST_CASE("device blocks are rounded up and host blocks down") {
  auto const plan = tensorrt_llm::plan(llama_8b, gib(1.0), {.max_sequence_length = 4'096_tokens, .host_cache = 4_MiB * 2 - 1_B});
  REQUIRE(plan.windows[0].tokens == 7'372_tokens);
  REQUIRE(plan.blocks == 231_blocks);              // 230.4
  REQUIRE(plan.windows[0].secondary == 1_blocks);  // 1.99
}

TEST_CASE("a plan's steps end in its blocks, whatever the share of a window") {
  for (std::uint64_t megabytes = 1; megabytes < 100'000; megabytes = megabytes * 3 + 1)
    for (std::uint64_t length : {1'000U, 8'191U, 131'072U}) {
      auto const plan = tensorrt_llm::plan(gemma3_27b, Bytes{megabytes * 1'000'003}, short_of(Tokens{length}));
      REQUIRE(plan.trail.blocks() == plan.blocks);
      for (auto const& of : plan.windows) REQUIRE(of.tokens == tensorrt_llm::tokens_of(plan.pool, of.share, of.bytes_per_token));
    }
}

TEST_CASE("windows share the memory by what a sequence that fills them takes, and the largest is pool 0") {
  auto const plan = tensorrt_llm::plan(gemma3_27b, 30_GiB, short_of(8'192_tokens));
  REQUIRE(plan.windows.size() == 2);
  REQUIRE(plan.windows[0].window == 8'192_tokens);
  REQUIRE(plan.windows[0].layers == 10);
  REQUIRE(plan.windows[1].window == 1'024_tokens);
  REQUIRE(plan.windows[1].layers == 52);
  double const full = 8'192.0 * 10, local = 1'024.0 * 52;
  REQUIRE(plan.windows[0].share == full / (full + local));
  REQUIRE(plan.pools() == 2);
  REQUIRE(plan.pool_at(1).blocks == plan.windows[1].primary);
  REQUIRE(plan.pool_at(1).bytes_per_block == plan.windows[1].bytes_per_token * 32);
  REQUIRE(plan.blocks_per_request(8'192_tokens, 0) == 256_blocks);
  REQUIRE(plan.blocks_per_request(8'192_tokens, 1) == 32_blocks);
  REQUIRE(plan.blocks_per_request(100_tokens, 1) == 4_blocks);
  REQUIRE(plan.resident(8'192_tokens) == kv_bytes(gemma3_27b, 8'192_tokens));
}

TEST_CASE("the windows the server is told replace the model's, layer after layer") {
  tensorrt_llm::Options const told{.max_sequence_length = 4'096_tokens, .attention_windows = {512_tokens, 100'000_tokens}};
  auto const plan = tensorrt_llm::plan(llama_8b, 10_GiB, told);
  REQUIRE(plan.windows.size() == 2);
  REQUIRE(plan.windows[0].window == 4'096_tokens);  // never more than a sequence
  REQUIRE(plan.windows[0].layers == 16);
  REQUIRE(plan.windows[1].window == 512_tokens);
}

TEST_CASE("a sequence takes whole blocks of what it keeps, and the bubble behind the sinks") {
  tensorrt_llm::Options options = short_of(4'096_tokens);
  REQUIRE(tensorrt_llm::blocks_per_sequence(4'096_tokens, 1'024_tokens, options) == 32_blocks);
  options.sink = 4_tokens;  // 28 tokens of its block stay empty
  REQUIRE(tensorrt_llm::sink_bubble(options) == 28_tokens);
  REQUIRE(tensorrt_llm::blocks_per_sequence(4'096_tokens, 1'024_tokens, options) == 33_blocks);
  REQUIRE(tensorrt_llm::blocks_per_sequence(4_tokens, 1'024_tokens, options) == 1_blocks);
  auto const plan = tensorrt_llm::plan(gemma3_27b, 30_GiB, options);
  for (std::uint64_t length : {1U, 4U, 5U, 1'000U, 1'024U, 4'096U})
    for (std::uint32_t pool : {0U, 1U})
      REQUIRE(plan.blocks_per_request(Tokens{length}, pool) == tensorrt_llm::blocks_per_sequence(Tokens{length}, plan.windows[pool].window, options));
  options.temporary_window = 512_tokens;
  REQUIRE(tensorrt_llm::blocks_per_sequence(4'096_tokens, 1'024_tokens, options) == 49_blocks);
}

TEST_CASE("beams share the whole blocks of the context and have their output each") {
  tensorrt_llm::Options const beams{.max_sequence_length = 4'096_tokens, .beam_width = 4};
  REQUIRE(tensorrt_llm::blocks_per_request(100_tokens, 60_tokens, 4'096_tokens, beams) == 3_blocks + 2_blocks * 4);
  REQUIRE(tensorrt_llm::blocks_per_request(100_tokens, 60_tokens, 4'096_tokens, short_of(4'096_tokens)) == 5_blocks);
  REQUIRE(tensorrt_llm::blocks_per_request(1'000_tokens, 600_tokens, 512_tokens, beams) == 16_blocks * 4);
}

TEST_CASE("an encoder's keys and values have a part of the memory, and a pool") {
  CacheSpec const whisper{
      .layers = 32 * parallel(full_attention({.kv_heads = 20, .head_dim = 64}), cross_attention({.kv_heads = 20, .head_dim = 64}, 1'500_tokens)),
      .dtype = fp16};
  REQUIRE(complains_about(tensorrt_llm::plan(whisper, 10_GiB, short_of(448_tokens)).complaints, ".cross_fraction"));
  auto const plan = tensorrt_llm::plan(whisper, 10_GiB, {.max_sequence_length = 448_tokens, .cross_fraction = 50_percent});
  REQUIRE(plan.pools() == 2);
  REQUIRE(plan.pool == 9_GiB);
  REQUIRE(plan.blocks == plan.cross.primary);
  REQUIRE(plan.cross.per_sequence == 47_blocks);
  REQUIRE(plan.at(448_tokens).requests == plan.cross.primary.count / 47);
  tensorrt_llm::Options const hosted{.max_sequence_length = 448_tokens, .host_cache = 4_GiB, .cross_fraction = 50_percent};
  tensorrt_llm::Options less = hosted;
  less.host_cache = 1_GiB;
  std::vector const ranks{tensorrt_llm::plan(whisper, 10_GiB, hosted), tensorrt_llm::plan(whisper, 10_GiB, less)};
  REQUIRE(ranks[1].cross.secondary < ranks[0].cross.secondary);
  REQUIRE(tensorrt_llm::agreed(ranks).cross.secondary == ranks[1].cross.secondary);
  REQUIRE(plan.trail.blocks() == plan.blocks);
  REQUIRE(complains_about(check(llama_8b, tensorrt_llm::Options{.max_sequence_length = 448_tokens, .cross_fraction = 50_percent}), ".cross_fraction"));
}

TEST_CASE("ranks agree on the fewest blocks, and ranks with other windows are refused") {
  auto const of = [](Bytes free, Bytes host) { return tensorrt_llm::plan(gemma3_27b, free, {.max_sequence_length = 8'192_tokens, .host_cache = host}); };
  tensorrt_llm::Plan const ranks[]{of(30_GiB, 4_GiB), of(20_GiB, 2_GiB)};
  auto const both = tensorrt_llm::agreed(ranks);
  REQUIRE(both.blocks == ranks[1].blocks);
  REQUIRE(both.trail.blocks() == both.blocks);
  REQUIRE(both.pool_at(1).blocks == ranks[1].pool_at(1).blocks);
  REQUIRE(both.printed_tokens == ranks[1].printed_tokens);
  REQUIRE(ranks[1].windows[0].secondary < ranks[0].windows[0].secondary);
  REQUIRE(both.windows[0].secondary == ranks[1].windows[0].secondary);
  tensorrt_llm::Plan const uneven[]{ranks[0], tensorrt_llm::plan(llama_8b, 20_GiB, short_of(8'192_tokens))};
  REQUIRE(complains_about(tensorrt_llm::agreed(uneven).complaints, ".windows"));
  REQUIRE(tensorrt_llm::agreed({}).refused());
}

TEST_CASE("a server that starts and cannot serve its longest sequence is found out before") {
  auto const starved = tensorrt_llm::plan(llama_8b, 31_MiB, short_of(4'096_tokens));
  REQUIRE(starved.blocks == 7_blocks);
  REQUIRE(starved.longest() == 224_tokens);
  REQUIRE(starved.reduces_length());
  REQUIRE_FALSE(tensorrt_llm::plan(llama_8b, 10_GiB, short_of(4'096_tokens)).reduces_length());
}

TEST_CASE("what TensorRT-LLM would not take, or no rule is known for, is refused by name") {
  auto const refuses = [](char const* field, CacheSpec const& spec, tensorrt_llm::Options const& options) {
    auto const plan = tensorrt_llm::plan(spec, 60_GiB, options);
    INFO(field);
    REQUIRE(complains_about(plan.complaints, field));
    REQUIRE(plan.refused());
    REQUIRE(plan.usable() == 0_blocks);
    REQUIRE(plan.at(1_tokens).requests == 0);
    REQUIRE(plan.resident(1_tokens) == Bytes::max());
    REQUIRE(tensorrt_llm::log_lines(plan).empty());
    REQUIRE_FALSE(fmt::format("{}", plan.complaints).empty());
  };
  refuses(".max_sequence_length", llama_8b, {});
  for (std::uint64_t block : {0U, 1U, 24U}) refuses(".tokens_per_block", llama_8b, {.max_sequence_length = 1_tokens, .tokens_per_block = Tokens{block}});
  for (auto const fraction : {Percent{0}, Percent{100}, Percent{-1}})
    refuses(".free_memory_fraction", llama_8b, {.max_sequence_length = 1_tokens, .free_memory_fraction = fraction});
  refuses(".beam_width", llama_8b, {.max_sequence_length = 1_tokens, .beam_width = 0});
  refuses(".max_batch", llama_8b, {.max_sequence_length = 1_tokens, .max_batch = 0});
  refuses(".attention_windows", llama_8b, {.max_sequence_length = 1_tokens, .attention_windows = {0_tokens}});
  refuses(".dtype", ModelSpec{32, 8, 128, {}}, short_of(1_tokens));
  refuses(".layers", CacheSpec{.layers = 4 * no_cache(), .dtype = bf16}, short_of(1_tokens));
  refuses(".layers", CacheSpec{.layers = 4 * chunked_attention({.kv_heads = 8, .head_dim = 64}, 8'192_tokens), .dtype = bf16}, short_of(1_tokens));
  tensorrt_llm::Options many = short_of(4'096_tokens);
  for (std::uint64_t i = 1; i <= 8; ++i) many.attention_windows.push_back(Tokens{i * 100});
  refuses(".attention_windows", llama_8b, many);
}

TEST_CASE("memory and lengths too large to count do not overflow") {
  auto const plan = tensorrt_llm::plan(ModelSpec{512, 1U << 20, 1U << 26, fp32}, Bytes::max() - 1_B,
                                       {.max_sequence_length = Tokens::max() - 1_tokens, .sink = Tokens::max(), .temporary_window = Tokens::max()});
  REQUIRE(plan.at(1_tokens).requests <= plan.blocks.count);
  REQUIRE(tensorrt_llm::plan(llama_8b, 0_B, short_of(1_tokens)).blocks == 0_blocks);
}
