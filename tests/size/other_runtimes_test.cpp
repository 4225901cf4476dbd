#include "catch.hpp"

#include <kvbudget/size/other_runtimes.hpp>

using namespace kvbudget;
using namespace kvbudget::literals;

// A25: "Object cache budget: x MB from free y MB and ratio 0.800"; golden l222: "block_size = 64 MB".
static_assert(lmdeploy::cache_bytes(10_GiB) == 8_GiB);
static_assert(lmdeploy::block_bytes(512_KiB, 128_tokens) == 64_MiB);

TEST_CASE("LMDeploy's PyTorch engine halves a prefill until sixteen blocks fit, and refuses two") {
  lmdeploy::PytorchOptions const options{.max_prefill_tokens = 4'096, .max_batches = 128, .vocabulary = 150'000};
  REQUIRE(lmdeploy::runtime_bytes(options) == Bytes{(4'096 + 256) * std::uint64_t{150'000} * 2});
  auto const roomy = lmdeploy::pytorch_blocks(20_GiB, 8_MiB, options);
  REQUIRE(roomy.max_prefill_tokens == 4'096);
  REQUIRE(roomy.blocks == 1'923_blocks);
  auto const tight = lmdeploy::pytorch_blocks(1_GiB, 8_MiB, options);
  REQUIRE(tight.max_prefill_tokens == 2'048);
  REQUIRE(tight.blocks == 36_blocks);
  REQUIRE(lmdeploy::pytorch_blocks(100_MiB, 64_MiB, options).blocks == 0_blocks);
  REQUIRE(lmdeploy::pytorch_blocks(100_MiB, 0_B, options).blocks == 0_blocks);
}

TEST_CASE("MLC-LLM takes 85% of the device beside its buffers, and a mode takes its part") {
  mlc_llm::Sizes const llama{
      .parameters = 4_GiB, .max_sequences = 4, .prefill_chunk = 2'048, .heads = 32, .kv_heads = 8, .head_dim = 128, .hidden = 4'096, .vocabulary = 128'256};
  auto const tokens = mlc_llm::max_total_tokens(24_GiB, 128_KiB, llama);
  double const left = 24 * 0x1p30 * 0.85 - 4 * 0x1p30 - mlc_llm::auxiliary_bytes(llama) - mlc_llm::workspace_bytes(llama) - mlc_llm::logits_bytes(llama);
  REQUIRE(static_cast<double>(tokens.count) <= left / (131'072 + 1.25));
  REQUIRE(static_cast<double>(tokens.count) > left / (131'072 + 1.25) - 1);
  REQUIRE(mlc_llm::max_total_tokens(24_GiB, 128_KiB, llama, true) == 32'768_tokens);
  REQUIRE(mlc_llm::max_total_tokens(1_GiB, 128_KiB, llama) == 0_tokens);
  REQUIRE(mlc_llm::total_tokens(mlc_llm::Mode::local, 50'000_tokens, 131'072_tokens, 80) == 8'192_tokens);
  REQUIRE(mlc_llm::total_tokens(mlc_llm::Mode::interactive, 50'000_tokens, 40'000_tokens, 80) == 40'000_tokens);
  REQUIRE(mlc_llm::total_tokens(mlc_llm::Mode::server, 50'000_tokens, 40'000_tokens, 80) == 50'000_tokens);
}

TEST_CASE("the others count as their rules say") {
  REQUIRE(tgi::blocks(10_GiB, 1_MiB, 3_blocks) == 9'219_blocks);
  REQUIRE(tgi::max_total_tokens(100_blocks, 16_tokens, 100'000_tokens, 8'192_tokens) == 1'600_tokens);
  REQUIRE(xllm::cache_bytes(50_GiB, 80_GiB) == 34_GiB);
  REQUIRE(xllm::cache_bytes(50_GiB, 80_GiB, 80_percent, 10_GiB) == 10_GiB);
  REQUIRE(xllm::cache_bytes(10_GiB, 80_GiB) == 0_B);
  REQUIRE(rtp_llm::reserve(80_GiB, 0_B, 3_GiB, 0, 0) == 4_GiB);
  REQUIRE(rtp_llm::reserve(24_GiB, 0_B, 0_B, 8, 1'000) == 2_GiB + 256'000_B);
  REQUIRE(rtp_llm::blocks(1'000_B, 100_B, 10_B, 4, 20_B) == 60_blocks);  // 100 + 600 + 15 x 20
  REQUIRE(rtp_llm::blocks(99_B, 100_B, 10_B, 4, 20_B) == 0_blocks);
  REQUIRE(rtp_llm::blocks(1'000_B, 0_B, 0_B, 0, 0_B) == 0_blocks);
  REQUIRE(lightllm::max_total_tokens(50_GiB, 80_GiB, 1_MiB) == 43'008_tokens);
  REQUIRE(mini_sglang::pages(80_GiB, 16_GiB, 1_GiB, 90_percent) == 56_blocks);
}
