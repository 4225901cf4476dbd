// kvbudget_estimate --runtime and --compare, run as a user runs them.
#include "examples.hpp"

TEST_CASE("the estimate says what vLLM would print, step by step, and why not more") {
  std::string const gemma = "gemma-3-27b --runtime vllm --tp 2 ";
  Ran const ran = estimate(gemma + "--available 30GiB");
  REQUIRE(ran.code == 0);
  for (auto const* text : {"available for the cache                   30 GiB", "bytes of a pool block                   / 640 KiB          = 49,152 blocks",
                           "never handed out                        - 1 block          = 49,151 blocks",
                           "52      a window of 1,024 tokens            16       64 KiB        6,534  512 KiB",
                           "10      every token                         16       64 KiB        8,192  0 B",
                           "GPU KV cache size: 437,488 tokens, Maximum concurrency for 131,072 tokens per request: 3.34x", "3 requests of 131,072 tokens"})
    REQUIRE(has(ran, text));
  Json const json = json_of(estimate(gemma + "--available 30GiB --json"));
  REQUIRE(json["figures"]["printed_tokens"] == 437'488);
  REQUIRE(json["plan"]["usable_blocks"] == 49'151);
  REQUIRE(json["requests"] == 3);
  REQUIRE(json["capacity_steps"].size() == 5);
  REQUIRE(json_of(estimate(gemma + "--available 30GiB --max-num-batched-tokens 2048 --json"))["figures"]["printed_tokens"] == 636'731);
  REQUIRE(has(estimate("llama-3.1-8b --runtime vllm --available 64GiB --context 4096 --release v0"), "# GPU blocks: 32768, # CPU blocks: 2048"));
}

TEST_CASE("the estimate says that vLLM would not start, with its own figures") {
  Ran const ran = estimate("gemma-3-27b --runtime vllm --tp 2 --available 2GiB");
  REQUIRE(ran.code == 1);
  REQUIRE(has(ran, "one request of 131,072 tokens needs 8.99 GiB of KV cache, 2.0 GiB are available without the null block; the longest that fits is 7,472"));
  Ran const json = estimate("gemma-3-27b --runtime vllm --tp 2 --available 2GiB --json");
  REQUIRE(json.code == 1);
  REQUIRE(Json::parse(json.output)["starts"] == false);
  REQUIRE(Json::parse(json.output)["plan"].is_null());  // nothing reads 0 bytes
  REQUIRE(Json::parse(json.output)["figures"]["longest_that_fits_tokens"] == 7'472);
  REQUIRE(json_of(estimate("gemma-3-27b --runtime vllm --tp 2 --available 2GiB --auto-fit --json"))["context"] == 7'472);
}

TEST_CASE("vLLM's memory is a fraction of the device less what profiling finds, or what it is told") {
  std::string const model = "llama-3.1-8b --runtime vllm --context 8192 --json ";
  REQUIRE(json_of(estimate(model + "--gpu-memory 80GiB --weights 16GiB"))["plan"]["pool_bytes"].get<std::uint64_t>() ==
          79'027'398'247 - (std::uint64_t{16} << 30));
  REQUIRE(json_of(estimate(model + "--kv-cache-memory-bytes 10GiB"))["plan"]["blocks"] == 5'120);
  REQUIRE(json_of(estimate(model + "--num-gpu-blocks-override 1000"))["plan"]["blocks"] == 1'000);
}

TEST_CASE("the estimate says what SGLang would print") {
  Json const json = json_of(estimate("llama-3.1-8b --runtime sglang --available 50GiB --context 8192 --json"));
  REQUIRE(json["figures"]["max_total_num_tokens"] == 409'600);
  REQUIRE(json["figures"]["max_running_requests"] == 2'048);
  REQUIRE(json["printed"][0].get<std::string>().rfind("KV Cache is allocated. dtype: torch.bfloat16, #tokens: 409600, K size: 25.00 GB", 0) == 0);
  REQUIRE(json["requests"] == 50);
  // A window has a pool of its own where SGLang gives the architecture one, and is full attention where it does not (R6).
  REQUIRE(has(estimate("gpt-oss-120b --runtime sglang --available 30GiB"), "Use sliding window memory pool."));
  REQUIRE(json_of(estimate("gemma-3-27b --runtime sglang --available 30GiB --context 8192 --json"))["figures"]["bytes_per_token"] == 62 * 8'192);
  Ran const slots = estimate("qwen3-next-80b --runtime sglang --tp 4 --available 30GiB");
  REQUIRE(has(slots, "Mamba Cache is allocated. max_mamba_cache_size: 789"));
  REQUIRE(has(slots, "pool states"));
}

TEST_CASE("the estimate says what TensorRT-LLM would print") {
  Json const json = json_of(estimate("llama-3.1-8b --runtime tensorrt-llm --available 50GiB --context 8192 --json"));
  REQUIRE(json["plan"]["blocks"] == 12'800);
  REQUIRE(json["figures"]["printed_tokens"] == 409'600);
  REQUIRE(has(estimate("gemma-3-27b --runtime tensorrt-llm --available 20GiB --context 8192"), "[windowSize=1024] {.primaryBlocks="));
  REQUIRE(has(estimate("llama-3.1-8b --runtime tensorrt-llm --available 1GiB --context 16384"),
              "the server would start and lower the longest sequence to 8,192 tokens"));
}

TEST_CASE("the estimate says what llama.cpp would print, of a GGUF file and of any model it has a layout for") {
  std::string const seeds = KVBUDGET_SOURCE_DIR "/tests/data/seeds/gguf/";
  Ran const gguf = estimate(seeds + "llama.gguf --runtime llama.cpp --parallel 1 --context 1024");
  REQUIRE(gguf.code == 0);
  REQUIRE(has(gguf, "llama_kv_cache: size ="));
  Json const json = json_of(estimate("gemma-3-27b --runtime llama.cpp --parallel 2 --context 8192 --json"));
  REQUIRE(json["figures"]["allocated_bytes"] == 2'528ULL << 20);
  REQUIRE(json["requests"] == 2);
  REQUIRE(
      has(estimate("deepseek-v3 --runtime llama.cpp --context 8192 --cache-type-k q8_0"), "model does not support different K (q8_0) and V (f16) cache types"));
  REQUIRE(has(estimate("llama-3.1-8b --runtime llama.cpp --context 8192 --available 1GiB"), "the caches take 4 GiB of a device, 1 GiB are available"));
}

TEST_CASE("without -c the estimate takes llama-server's own context, with it the longest sequence it can hold") {
  std::string const llama = "llama-3.1-8b --runtime llama.cpp --json ";
  auto const asked = [&](std::string const& flags) { return json_of(estimate(llama + flags)); };
  for (std::string const trained : {"", "-c 0"}) {
    REQUIRE(asked(trained)["figures"]["n_ctx"] == 131'072);
    REQUIRE(asked(trained)["figures"]["n_seq"] == 4);
    REQUIRE(asked(trained)["figures"]["streams"] == 1);
    REQUIRE(asked(trained)["context"] == 131'072);
  }
  REQUIRE(asked("-c 8192 --parallel 2")["context"] == 4'096);
  REQUIRE(asked("-c 8192 --parallel 2")["requests"] == 2);
  REQUIRE(asked("--context 2048")["figures"]["n_ctx"] == 8'192);
  REQUIRE(asked("--context 2048 -c 16384")["requests"] == 4);
  REQUIRE(asked("--context 2048 -c 0")["figures"]["n_ctx"] == 131'072);
  REQUIRE(has(estimate("llama-3.1-8b --runtime llama.cpp -c 8192 --devices 2"), "llama_kv_cache:      CUDA1 KV buffer size ="));
}

TEST_CASE("what llama.cpp has no flag for, or no config.json says, is refused by name") {
  std::string const program = examples + "kvbudget_estimate llama-3.1-8b --runtime llama.cpp ";
  refused(program + "--tp 2", {"--tp is 2", "--devices"});
  refused(program + "--pp 2", {"--pp is 2", "--devices"});
  refused(program + "--n-rs-seq 2", {"--n-rs-seq is 2", "a GGUF file"});
}

TEST_CASE("unknown runtimes, flags and dtypes are refused by name, with those that are accepted") {
  std::string const program = examples + "kvbudget_estimate llama-3.1-8b ";
  refused(program + "--runtime tgi --available 1GiB", {"--runtime is tgi", "vllm, sglang, tensorrt-llm, llama.cpp"});
  refused(program + "--runtime vllm --available 1GiB --page-size 64", {"--page-size is no flag of vllm", "--kv-cache-dtype", "--block-size"});
  refused(program + "--runtime vllm --available 1GiB --kv-cache-dtype q8_0", {"--kv-cache-dtype is q8_0", "turboquant_k8v4"});
  refused(program + "--runtime sglang --available 1GiB --kv-cache-dtype q8_0", {"--kv-cache-dtype is q8_0", "fp8_e4m3"});
  refused(program + "--runtime tensorrt-llm --available 1GiB --kv-cache-dtype q8_0", {"--kv-cache-dtype is q8_0", "nvfp4"});
  refused(program + "--runtime llama.cpp --cache-type-k fp8", {"--cache-type-k is \"fp8\"", "iq4_nl"});
  refused(program + "--runtime vllm --context 100", {"--gpu-memory is missing", "--available"});
  refused(program + "--runtime vllm --available 30GiB --gpu-memory-utilization 0.9", {"excludes"});
  refused(program + "--runtime vllm --available 30GiB --tp 3", {"--tp is 3"});
  refused(program + "--runtime vllm --available 30GiB --kv-cache-dtype fp8_ds_mla", {"fp8_ds_mla: the width of a head is 128", "latent attention only"});
  refused(program + "--runtime sglang --gpu-memory 80GiB --weights 16GiB", {"--mem-fraction-static is missing"});
}

TEST_CASE("a comparison says what fp8 buys, what padding wastes and what tensor parallelism replicates") {
  Json const json = json_of(estimate("qwen3-next-80b --compare --available 20GiB --tp 4 --context 32768 --json"));
  auto const row = [&](std::string const& runtime, std::string const& dtype) {
    for (auto const& one : json["rows"])
      if (one["runtime"] == runtime && one["dtype"] == dtype) return one;
    return Json{};
  };
  REQUIRE(row("vllm", "auto")["requests"] == 50);
  REQUIRE(row("vllm", "fp8")["requests"] == 95);  // not twice as many: the states stay as they are
  REQUIRE(row("vllm", "auto")["padding_bytes_per_request"] == 2 * 36 * (278'528 - 274'432));
  REQUIRE(row("tensorrt-llm", "auto").contains("refusal"));  // no rule for states
  REQUIRE(row("llama.cpp", "q8_0")["requests"] > row("llama.cpp", "f16")["requests"]);
  REQUIRE(row("sglang", "auto")["requests"].is_number());
  REQUIRE(json["replication"].size() == 5);
  REQUIRE(json["replication"][1]["copies"] == 1.0);  // 2 KV heads on 2 ranks
  REQUIRE(json["replication"][2]["copies"] > 1.9);   // on 4 ranks each head is there twice
}
