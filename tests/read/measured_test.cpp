// What a log gives as a budget.
#include "catch.hpp"

#include <kvbudget/read/measured.hpp>

using namespace kvbudget;
using kvbudget::read::measured;
using kvbudget::read::runtime_log_text;

TEST_CASE("the block of an old vLLM's log is the one power of two that its concurrency agrees with") {
  auto const found = measured(runtime_log_text("# GPU blocks: 1478, # CPU blocks: 2048\nMaximum concurrency for 29000 tokens per request: 0.82x\n"));
  REQUIRE(found);
  REQUIRE(found->block == Tokens{16});
  REQUIRE(found->usable() == Blocks{1'478});
  REQUIRE(found->in_blocks());
  REQUIRE(found->length == Tokens{29'000});
  auto const odd = measured(runtime_log_text("# GPU blocks: 1478, # CPU blocks: 2048\nMaximum concurrency for 29000 tokens per request: 1.10x\n"));
  REQUIRE(odd->block == Tokens{});
  REQUIRE(!odd->in_blocks());
}

TEST_CASE("vLLM V1 never hands out one of the blocks it prints") {
  auto const found = measured(runtime_log_text("num_gpu_blocks is: 89994\nSetting attention block size to 528 tokens\nGPU KV cache size: 100,000 tokens\n"));
  REQUIRE(found->usable() == Blocks{89'993});
  REQUIRE(found->block == Tokens{528});
  REQUIRE(found->tokens == Tokens{100'000});
}

TEST_CASE("of several ranks the least counts, and of two starts the last") {
  std::string const first = "(Worker_TP0 pid=1) GPU KV cache size: 100 tokens\n(Worker_TP1 pid=2) GPU KV cache size: 90 tokens\n";
  REQUIRE(measured(runtime_log_text(first))->tokens == Tokens{90});
  REQUIRE(measured(runtime_log_text(first + "(Worker_TP0 pid=8) GPU KV cache size: 300 tokens\n(Worker_TP1 pid=9) GPU KV cache size: 200 tokens\n"))->tokens ==
          Tokens{200});
}

TEST_CASE("TensorRT-LLM has a pool for each window") {
  auto const found =
      measured(runtime_log_text("[windowSize=1024] {.primaryBlocks=34, .secondayBlocks=0}\n[windowSize=8192] {.primaryBlocks=400, .secondayBlocks=0}\n"
                                "Max KV cache blocks per sequence: 256 [window size=8192], tokens per block=32, primary blocks=400\n"));
  REQUIRE(found->pools.size() == 2);
  REQUIRE(found->pools[0].window == Tokens{8'192});
  REQUIRE(found->pools[1].blocks == Blocks{34});
  REQUIRE(found->block == Tokens{32});
}

TEST_CASE("llama.cpp's cells are one pool of tokens, or a stream for each sequence") {
  auto const unified =
      measured(runtime_log_text("llama_kv_cache: size = 512.00 MiB (  4096 cells,  32 layers,  4/1 seqs), K (f16): 256.00 MiB, V (f16): 256.00 MiB\n"));
  REQUIRE(unified->tokens == Tokens{4'096});
  REQUIRE(!unified->in_blocks());
  auto const streams =
      measured(runtime_log_text("llama_kv_cache: size = 512.00 MiB (  4096 cells,  32 layers,  4/4 seqs), K (f16): 256.00 MiB, V (f16): 256.00 MiB\n"));
  REQUIRE(streams->usable() == Blocks{4});
  REQUIRE(streams->block == Tokens{4'096});
}

TEST_CASE("SGLang's tokens are those of its scheduler, whatever pools it prints") {
  REQUIRE(
      measured(runtime_log_text("KV Cache is allocated. #tokens: 388360, K size: 6.67 GB, V size: 6.67 GB\n"
                                "max_total_num_tokens=485451, max_running_requests=16\nKV Cache is allocated. #tokens: 7, K size: 6.67 GB, V size: 6.67 GB\n"))
          ->tokens == Tokens{485'451});
}

TEST_CASE("a log without blocks or tokens gives no budget") { REQUIRE(!measured(runtime_log_text("Available KV cache memory: 24.4 GiB\n"))); }
