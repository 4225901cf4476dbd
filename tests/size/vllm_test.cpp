// What vLLM says of models, from the model alone: the worked examples of facts/vllm.md G, and what a user does with the plan.
#include "catch.hpp"

#include <kvbudget/kvbudget.hpp>
#include <kvbudget/model/catalog.hpp>
#include <kvbudget/size/vllm.hpp>
#include <kvbudget/write/vllm.hpp>

#include <string>

using namespace kvbudget;
using namespace kvbudget::literals;
using vllm::CacheDType;

namespace {

constexpr AttentionShape gqa8{.kv_heads = 8, .head_dim = 128};
constexpr Layer gpt_oss_window = sliding_window({.kv_heads = 8, .head_dim = 64}, 128_tokens);
constexpr Layer gpt_oss_full = full_attention({.kv_heads = 8, .head_dim = 64});
constexpr CacheSpec gpt_oss_20b{.layers = cycle(24, {gpt_oss_window, gpt_oss_full}), .dtype = bf16};

constexpr Layer gdn(std::uint32_t channels, std::uint32_t heads, DType state) {
  return recurrent(
      {.conv = {.heads = channels, .width = 3, .dtype = bf16, .keeps_drafts = true}, .state = {.heads = heads, .width = 128 * 128, .dtype = state}});
}
constexpr CacheSpec qwen3_next{.layers = cycle(48, {3 * gdn(8'192, 32, bf16), full_attention({.kv_heads = 2, .head_dim = 256})}), .dtype = bf16};
constexpr CacheSpec qwen38_27b{.layers = cycle(64, {3 * gdn(10'240, 48, fp32), full_attention({.kv_heads = 4, .head_dim = 256})}), .dtype = bf16};

constexpr Layer v4(std::uint32_t ratio) {
  return compressed_attention({.width = 512, .window = 128_tokens, .ratio = ratio, .index_width = ratio == 4 ? 128U : 0U});
}
constexpr CacheSpec deepseek_v4_pro{.layers = cycle(61, {v4(128), v4(4)}), .dtype = bf16};
constexpr CacheSpec deepseek_v4_flash{.layers = LayerList{2 * v4(0)} + cycle(41, {v4(4), v4(128)}), .dtype = bf16};

std::string printed(vllm::Plan const& plan) {
  auto const lines = vllm::log_lines(plan);
  return lines.empty() ? vllm::why(plan) : lines.back();
}

std::string size_line(char const* tokens, char const* length, char const* concurrency) {
  return std::string{"GPU KV cache size: "} + tokens + " tokens, Maximum concurrency for " + length + " tokens per request: " + concurrency + "x";
}

}  // namespace

// The door's promise, at compile time.
static_assert(vllm::plan(catalog::llama_3_1_8b, 40_GiB, {.max_model_len = 131'072_tokens}).blocks == 20'480_blocks);
static_assert(vllm::plan(catalog::gemma_3_27b, 30_GiB, {.max_model_len = 131'072_tokens, .tensor_parallel = 2}).printed_tokens == 437'488_tokens);
static_assert(vllm::plan(catalog::llama_3_1_8b, 16_GiB, {.max_model_len = 131'072_tokens}).refusal == vllm::Refusal::not_enough_memory);

TEST_CASE("vLLM's figures follow from the model and the flags: the worked examples of the facts") {
  struct Example {
    char const* name;
    CacheSpec model;
    Bytes available;
    vllm::Options options;
    std::uint64_t bytes_per_block, blocks;
    char const* tokens;
    char const* concurrency;
  };
  CacheSpec const llama = catalog::llama_3_1_8b;
  std::vector<Example> const examples{
      {"1", llama, 40_GiB, {.max_model_len = 131'072_tokens}, 2'097'152, 20'480, "327,680", "2.50"},
      {"4", llama, 40_GiB - 1_B, {.max_model_len = 131'071_tokens, .block_size = 128_tokens}, 16'777'216, 2'559, "327,549", "2.50"},
      {"5", llama, 40_GiB, {.max_model_len = 131'072_tokens, .kv_cache_dtype = CacheDType::fp8}, 1'048'576, 40'960, "655,360", "5.00"},
      {"7", llama, 40_GiB, {.max_model_len = 131'072_tokens, .tensor_parallel = 16}, 262'144, 163'840, "2,621,440", "20.00"},
      {"12", llama, 40_GiB, {.max_model_len = 131'072_tokens, .tensor_parallel = 2, .decode_context_parallel = 2}, 1'048'576, 40'960, "1,310,720", "10.00"},
      {"16", llama, 12_GiB, {.max_model_len = 131'072_tokens, .auto_fit = true}, 2'097'152, 6'144, "98,304", "1.00"},
      {"33", llama, 40_GiB, {.max_model_len = 131'072_tokens, .kv_cache_dtype = CacheDType::nvfp4}, 589'824, 72'817, "1,165,072", "8.89"},
      {"36", llama, 40_GiB, {.max_model_len = 131'072_tokens, .kv_cache_dtype = CacheDType::int4_per_token_head}, 557'056, 77'101, "1,233,616", "9.41"},
      {"38",
       llama,
       40_GiB,
       {.max_model_len = 131'072_tokens, .kv_cache_dtype = CacheDType::turboquant_4bit_nc, .skip_boundary_layers = false},
       548'864,
       78'251,
       "1,252,016",
       "9.55"},
      {"121", llama, 40_GiB, {.max_model_len = 131'072_tokens, .kv_cache_dtype = CacheDType::turboquant_k8v4}, 2'893'824, 14'841, "712,281", "5.43"},
      {"29",
       {.layers = LayerList{92 * full_attention(gqa8)} + LayerList{draft(full_attention(gqa8))}, .dtype = bf16},
       30_GiB,
       {.max_model_len = 131'072_tokens, .tensor_parallel = 8, .num_speculative_tokens = 1},
       761'856,
       42'281,
       "676,496",
       "5.16"},
      {"41", catalog::mistral_7b_v0_1, 20_GiB, {.max_model_len = 32'768_tokens}, 2'097'152, 10'240, "261,939", "7.99"},
      {"47", catalog::gemma_3_27b, 30_GiB, {.max_model_len = 131'072_tokens, .tensor_parallel = 2}, 655'360, 49'152, "437,488", "3.34"},
      {"49",
       catalog::gemma_3_27b,
       30_GiB,
       {.max_model_len = 131'072_tokens, .tensor_parallel = 2, .async_scheduling = false},
       655'360,
       49'152,
       "552,810",
       "4.22"},
      {"50",
       catalog::gemma_3_27b,
       30_GiB,
       {.max_model_len = 131'072_tokens, .tensor_parallel = 2, .max_num_batched_tokens = 2'048_tokens},
       655'360,
       49'152,
       "636,731",
       "4.86"},
      {"54", gpt_oss_20b, 30_GiB, {.max_model_len = 131'072_tokens}, 393'216, 81'920, "1,163,947", "8.88"},
      {"55", gpt_oss_20b, 30_GiB, {.max_model_len = 131'072_tokens, .block_size = 64_tokens}, 1'572'864, 20'480, "1,163,569", "8.88"},
      {"58",
       {.layers = gpt_oss_20b.layers + LayerList{draft(gpt_oss_full)}, .dtype = bf16},
       30_GiB,
       {.max_model_len = 131'072_tokens, .num_speculative_tokens = 3},
       425'984,
       75'618,
       "1,074,406",
       "8.20"},
      {"60",
       {.layers = cycle(20, {4 * sliding_window({.kv_heads = 2, .head_dim = 256}, 512_tokens), full_attention({.kv_heads = 2, .head_dim = 256})}) +
                  LayerList{15 * shared_cache()},
        .dtype = bf16},
       20_GiB,
       {.max_model_len = 32'768_tokens},
       131'072,
       163'840,
       "855,434",
       "26.11"},
      {"62",
       {.layers = cycle(60, {5 * sliding_window({.kv_heads = 16, .head_dim = 256}, 1'024_tokens), full_attention({.kv_heads = 4, .head_dim = 512})}),
        .dtype = bf16},
       40_GiB,
       {.max_model_len = 131'072_tokens},
       2'621'440,
       16'384,
       "225,079",
       "1.72"},
      {"68",
       catalog::llama_4_scout,
       60_GiB,
       {.max_model_len = 1'048'576_tokens, .tensor_parallel = 8, .allow_chunked_local_with_hybrid_manager = true},
       98'304,
       655'360,
       "9,796,914",
       "9.34"},
      {"69", catalog::deepseek_v3, 30_GiB, {.max_model_len = 163'840_tokens, .tensor_parallel = 8}, 4'497'408, 7'162, "458,368", "2.80"},
      {"70",
       catalog::deepseek_v3,
       30_GiB,
       {.max_model_len = 163'840_tokens, .tensor_parallel = 8, .kv_cache_dtype = CacheDType::fp8},
       2'248'704,
       14'324,
       "916,736",
       "5.60"},
      {"73",
       catalog::deepseek_v3,
       30_GiB,
       {.max_model_len = 163'840_tokens, .tensor_parallel = 8, .decode_context_parallel = 8},
       4'497'408,
       7'162,
       "3,666,944",
       "22.38"},
      {"74", catalog::deepseek_v3_2, 30_GiB, {.max_model_len = 163'840_tokens, .tensor_parallel = 8}, 5'012'736, 6'426, "411,264", "2.51"},
      {"75",
       catalog::deepseek_v3_2,
       30_GiB,
       {.max_model_len = 163'840_tokens, .tensor_parallel = 8, .kv_cache_dtype = CacheDType::fp8},
       3'076'352,
       10'470,
       "670,080",
       "4.09"},
      {"80", deepseek_v4_pro, 60_GiB, {.max_model_len = 1'048'576_tokens, .kv_cache_dtype = CacheDType::fp8_ds_mla}, 1'435'968, 44'864, "4,364,753", "4.16"},
      {"115", deepseek_v4_flash, 30_GiB, {.max_model_len = 1'048'576_tokens, .kv_cache_dtype = CacheDType::fp8_ds_mla}, 1'002'240, 32'140, "3,126,854", "2.98"},
      {"83", qwen3_next, 20_GiB, {.max_model_len = 262'144_tokens, .tensor_parallel = 4}, 3'342'336, 6'425, "1,736,366", "6.62"},
      {"86",
       qwen3_next,
       20_GiB,
       {.max_model_len = 262'144_tokens, .tensor_parallel = 4, .kv_cache_dtype = CacheDType::fp8},
       3'342'336,
       6'425,
       "3,451,383",
       "13.17"},
      {"89",
       qwen3_next,
       20_GiB,
       {.max_model_len = 32'768_tokens, .tensor_parallel = 4, .mamba_cache_mode = vllm::MambaMode::all},
       3'932'160,
       5'461,
       "434,335",
       "13.25"},
      {"95",
       {.layers = LayerList{24 * recurrent({.conv = {.heads = 10'240, .width = 3, .dtype = bf16}, .state = {.heads = 128, .width = 64 * 128, .dtype = fp32}})} +
                  LayerList{{4 * full_attention(gqa8), 24 * no_cache()}},
        .dtype = bf16},
       30_GiB,
       {.max_model_len = 8'192_tokens},
       17'039'360,
       1'890,
       "774,144",
       "94.50"},
      {"93",
       {.layers = 44 * parallel(full_attention({.kv_heads = 2, .head_dim = 128}),
                                recurrent({.conv = {.heads = 3'584, .width = 3, .dtype = bf16}, .state = {.heads = 24, .width = 128 * 256, .dtype = bf16}})),
        .dtype = bf16},
       40_GiB,
       {.max_model_len = 262'144_tokens},
       70'647'808,
       607,
       "936,008",
       "3.57"},
      {"100",
       {.layers =
            LayerList{10 * recurrent({.conv = {.heads = 2'048, .width = 2, .dtype = bf16}})} + LayerList{6 * full_attention({.kv_heads = 8, .head_dim = 64})},
        .dtype = bf16},
       10_GiB,
       {.max_model_len = 32'768_tokens},
       196'608,
       54'613,
       "872,104",
       "26.61"},
      {"103",
       {.layers = cycle(64, {full_attention({.kv_heads = 20, .head_dim = 64}), cross_attention({.kv_heads = 20, .head_dim = 64}, 1'500_tokens)}),
        .dtype = bf16},
       10_GiB,
       {.max_model_len = 448_tokens, .enable_prefix_caching = false},
       2'621'440,
       4'096,
       "3,398",
       "7.59"},
      {"108",
       {.layers = LayerList{{20 * full_attention(gqa8), 29 * sliding_window(gqa8, 1'024_tokens)}}, .dtype = bf16},
       20_GiB,
       {.max_model_len = 32'768_tokens},
       1'900'544,
       11'299,
       "118,025",
       "3.60"},
      {"112",
       qwen38_27b,
       10_GiB,
       {.max_model_len = 131'072_tokens, .tensor_parallel = 2, .kv_cache_dtype = CacheDType::fp8, .num_speculative_tokens = 7},
       27'000'832,
       397,
       "486,313",
       "3.71"},
  };
  for (auto const& example : examples) {
    INFO("facts/vllm.md G, case " << example.name);
    auto const plan = vllm::plan(example.model, example.available, example.options);
    CHECK(plan.bytes_per_block == Bytes{example.bytes_per_block});
    CHECK(plan.blocks == Blocks{example.blocks});
    CHECK(printed(plan) == size_line(example.tokens, write::grouped(plan.max_model_len.count).c_str(), example.concurrency));
  }
}

TEST_CASE("ranks with different memory take the least of their blocks") {
  auto const two = vllm::plan(catalog::llama_3_1_70b, std::vector{20_GiB, 18_GiB}, {.max_model_len = 32'768_tokens, .pipeline_parallel = 2});
  REQUIRE(two.blocks == 7'372_blocks);
  REQUIRE(two.tightest_rank == 1);
  REQUIRE(two.pool == 18_GiB);
  REQUIRE(printed(two) == size_line("117,952", "32,768", "3.60"));
  REQUIRE(vllm::plan(catalog::llama_3_1_70b, std::vector{20_GiB}, {.max_model_len = 1_tokens, .pipeline_parallel = 2}).refusal == vllm::Refusal::bad_options);
}

TEST_CASE("what does not fit is refused with vLLM's own figures: needed, available, and the longest that fits") {
  vllm::Options const options{.max_model_len = 131'072_tokens};
  auto const exactly_one = vllm::plan(catalog::llama_3_1_8b, 16_GiB, options);  // the null block is one too many
  REQUIRE(exactly_one.refusal == vllm::Refusal::not_enough_memory);
  REQUIRE(exactly_one.needed == 16_GiB);
  REQUIRE(exactly_one.available == 16_GiB - 2_MiB);
  REQUIRE(exactly_one.longest_that_fits == 131'056_tokens);
  REQUIRE(exactly_one.at(1_tokens).requests == 0);
  REQUIRE(vllm::log_lines(exactly_one).empty());
  REQUIRE(vllm::why(exactly_one).find("needs 16.0 GiB of KV cache, 16.0 GiB are available") != std::string::npos);
  REQUIRE_FALSE(vllm::plan(catalog::llama_3_1_8b, 16_GiB + 2_MiB, options).refused());
  REQUIRE(vllm::plan(catalog::llama_3_1_8b, 12_GiB, options).longest_that_fits == 98'288_tokens);

  auto const flash =
      vllm::plan(deepseek_v4_flash, Bytes{5'842'566'144},
                 {.max_model_len = 30'000_tokens, .kv_cache_dtype = CacheDType::fp8, .max_num_batched_tokens = 16'384_tokens, .async_scheduling = false});
  REQUIRE(vllm::python_gib(flash.needed) == "6.66");
  REQUIRE(flash.longest_that_fits == 13'528_tokens);  // as in vLLM issue 44376

  REQUIRE(vllm::plan(catalog::llama_3_1_8b, 2_MiB, options).refusal == vllm::Refusal::no_memory);
  REQUIRE(vllm::plan(catalog::llama_3_1_8b, 1_MiB, {.max_model_len = 1_tokens, .auto_fit = true}).refused());
}

TEST_CASE("a vLLM plan is a cache plan: what a request holds, what must be free, and how many fit beside the null block") {
  vllm::Options const options{.max_model_len = 131'072_tokens, .tensor_parallel = 2};
  auto const gemma = vllm::plan(catalog::gemma_3_27b, 30_GiB, options);
  REQUIRE(gemma.usable() == 49'151_blocks);
  REQUIRE(gemma.blocks_per_request(131'072_tokens) == Blocks{6 * 1'089 + 8'192});
  REQUIRE(gemma.at(131'072_tokens).requests == 3);
  REQUIRE(gemma.at(131'073_tokens).binds == Binds::max_length);
  REQUIRE(gemma.at(8'192_tokens).requests == 49'151 / (6 * 513 + 512));
  REQUIRE(gemma.trail.result() == 49'152);
  REQUIRE(gemma.resident(8'192_tokens) == kv_bytes(on_rank(catalog::gemma_3_27b, {.tensor = 2}), 8'192_tokens));
  REQUIRE(gemma.groups.size() == 2);
  REQUIRE(gemma.groups[0].layers == 52);
  REQUIRE(gemma.groups[0].page == 65'536_B);
  REQUIRE(gemma.groups[0].padding == 8 * 65'536_B);  // 60 slots for 52 layers
  REQUIRE(gemma.groups[1].padding == 0_B);

  auto const qwen = vllm::plan(qwen3_next, 20_GiB, {.max_model_len = 262'144_tokens, .tensor_parallel = 4});
  REQUIRE(qwen.groups[0].padding == 36 * (278'528_B - 274'432_B));  // states padded to attention's page
  REQUIRE(qwen.needs_zeroing);
  REQUIRE(qwen.resident(1'000_tokens) == kv_bytes(on_rank(qwen3_next, {.tensor = 4}), 1'000_tokens));
  REQUIRE(qwen.reserved(1'000_tokens) == qwen.bytes_per_block * (3 * 2 + 4));

  auto const v4_plan = vllm::plan(deepseek_v4_pro, 60_GiB, {.max_model_len = 1'048'576_tokens, .kv_cache_dtype = CacheDType::fp8});
  REQUIRE(v4_plan.layer_groups.size() == 5);
  REQUIRE(v4_plan.blocks_per_request(1'048'576_tokens) == Blocks{4'096 + 2 * 259 + 2'065 + 4'099});
  REQUIRE(v4_plan.needs_zeroing);
}

TEST_CASE("an admission controller takes a vLLM plan as it stands") {
  auto const gemma = vllm::plan(catalog::gemma_3_27b, 30_GiB, {.max_model_len = 131'072_tokens, .tensor_parallel = 2});
  AdmissionController gate{{.capacity = gemma.usable(), .footprint = gemma.footprint}};
  for (int i = 0; i < 5; ++i) gate.submit({.prompt = 131'000_tokens, .max_new = 72_tokens});
  std::vector<decltype(gate.admit_next())> running;
  while (auto lease = gate.admit_next()) running.push_back(std::move(lease));
  REQUIRE(running.size() == 3);
}

TEST_CASE("a release says how tokens are printed, not how many blocks there are") {
  vllm::Options options{
      .max_model_len = 8'192_tokens, .max_num_batched_tokens = 2'048_tokens, .async_scheduling = false, .release = vllm::Release::v1_until_0_20};
  auto const old = vllm::plan(gpt_oss_20b, 13'890_MiB - 640_MiB, options);
  REQUIRE(vllm::log_lines(old) == std::vector<std::string>{"GPU KV cache size: 282,656 tokens", "Maximum concurrency for 8,192 tokens per request: 54.44x"});
  options.release = vllm::Release::current;
  REQUIRE(vllm::plan(gpt_oss_20b, 13'890_MiB - 640_MiB, options).blocks == old.blocks);
  options = {.max_model_len = 4'096_tokens, .release = vllm::Release::v0};
  REQUIRE(vllm::log_lines(vllm::plan(catalog::llama_3_1_8b, 64_GiB, options))[0] == "# GPU blocks: 32768, # CPU blocks: 2048");
}

TEST_CASE("V0 keeps every token of every layer in one pool, and divides tokens by the length") {
  vllm::Options options{.max_model_len = 8'192_tokens, .tensor_parallel = 2, .release = vllm::Release::v0};
  REQUIRE(vllm::log_lines(vllm::plan(catalog::gemma_3_27b, 30_GiB, options))[0] == "# GPU blocks: 7927, # CPU blocks: 1057");
  REQUIRE(vllm::plan(qwen3_next, 30_GiB, options).refusal == vllm::Refusal::layout_without_rule);
  options = {.max_model_len = 100_tokens, .release = vllm::Release::v0};
  REQUIRE(vllm::log_lines(vllm::plan(catalog::llama_3_1_8b, 16_GiB, options))[1] == "Maximum concurrency for 100 tokens per request: 1310.72x");
}

TEST_CASE("a state that every block keeps is held once for every block") {
  auto const plan = vllm::plan(qwen3_next, 20_GiB, {.max_model_len = 32'768_tokens, .tensor_parallel = 4, .mamba_cache_mode = vllm::MambaMode::all});
  REQUIRE(plan.resident(640_tokens) == 12 * 1'024_B * 640 + 36 * 274'432_B * 2);
  REQUIRE(plan.reserved(640_tokens) == plan.bytes_per_block * (4 * 2));
}

TEST_CASE("a draft layer of its own dtype joins the layers it equals") {
  AttentionShape const gpt_oss{.kv_heads = 8, .head_dim = 64};
  for (DType const dtype : {bf16, fp8}) {
    AttentionShape own = gpt_oss;
    own.key_dtype = own.value_dtype = dtype;
    CacheSpec const model{.layers = gpt_oss_20b.layers + LayerList{draft(full_attention(own))}, .dtype = bf16};
    auto const cache = dtype == fp8 ? CacheDType::fp8 : CacheDType::automatic;
    auto const plan = vllm::plan(model, 30_GiB, {.max_model_len = 131'072_tokens, .kv_cache_dtype = cache, .num_speculative_tokens = 3});
    REQUIRE(plan.layer_groups.size() == 2);
    REQUIRE(plan.blocks == (dtype == fp8 ? 151'236_blocks : 75'618_blocks));
  }
}

TEST_CASE("each rank keeps a group of a Mamba 2 convolution, and only what keeps drafts grows with them") {
  StateShape const convolution{.heads = 4'096 + 2 * 256, .width = 3, .dtype = bf16, .groups = 1, .group_heads = 2 * 256};
  CacheSpec const falcon_h1_3b{.layers = 32 * parallel(full_attention({.kv_heads = 2, .head_dim = 128}),
                                                       recurrent({.conv = convolution, .state = {.heads = 32, .width = 128 * 256, .dtype = bf16}})),
                               .dtype = bf16};
  vllm::Options options{.max_model_len = 4'096_tokens, .tensor_parallel = 2};
  auto const state_of = [&] { return vllm::state_bytes(vllm::layers_of(falcon_h1_3b, options).stages[0][0]); };
  REQUIRE(state_of() == Bytes{(4'096 / 2 + 512) * 3 * 2 + 16 * 128 * 256 * 2});
  options.num_speculative_tokens = 4;
  REQUIRE(state_of() == Bytes{(4'096 / 2 + 512) * 3 * 2 + 16 * 128 * 256 * 2});
  REQUIRE(vllm::state_bytes(vllm::layers_of(qwen3_next, options).stages[0][0]) == Bytes{4'096 * 7 * 2 + 16 * 128 * 128 * 2});
  options.mamba_ssm_cache_dtype = vllm::Element::float32;
  REQUIRE(vllm::state_bytes(vllm::layers_of(qwen3_next, options).stages[0][0]) == Bytes{4'096 * 7 * 2 + 16 * 128 * 128 * 4});
}

TEST_CASE("where one layer of latents has an indexer, vLLM keeps one for every layer") {
  Layer const latent = latent_attention({.latent = 512, .rope = 64});
  CacheSpec const glm{.layers = LayerList{{3 * with_indexer(latent, 128), 75 * latent}}, .dtype = bf16};
  REQUIRE(vllm::plan(glm, 40_GiB, {.max_model_len = 131'072_tokens, .tensor_parallel = 8}).bytes_per_block == 78 * 64 * (1'152_B + 132_B));
  REQUIRE(vllm::plan(glm, 40_GiB, {.max_model_len = 131'072_tokens, .kv_cache_dtype = CacheDType::fp8}).bytes_per_block == 78 * 64 * (656_B + 132_B));
}

TEST_CASE("cross attention holds what the encoder gives, and reserves what a step may give it") {
  CacheSpec const whisper{
      .layers = cycle(64, {full_attention({.kv_heads = 20, .head_dim = 64}), cross_attention({.kv_heads = 20, .head_dim = 64}, 1'500_tokens)}), .dtype = bf16};
  auto const plan = vllm::plan(whisper, 10_GiB, {.max_model_len = 448_tokens, .enable_prefix_caching = false});
  REQUIRE(plan.resident(448_tokens) == kv_bytes(whisper, 448_tokens));
}

TEST_CASE("chunks turn the hybrid manager off, and drafts do so even where they are allowed beside it") {
  vllm::Options options{.max_model_len = 1'048'576_tokens, .tensor_parallel = 8, .allow_chunked_local_with_hybrid_manager = true};
  REQUIRE(vllm::plan(catalog::llama_4_scout, 60_GiB, options).layer_groups.size() == 4);
  options.num_speculative_tokens = 3;
  REQUIRE(vllm::plan(catalog::llama_4_scout, 60_GiB, options).layer_groups.size() == 1);
}

TEST_CASE("auto-fit that fits not one token, and a stage without any cache, are refused on the rank that causes it") {
  auto const no_token = vllm::plan(catalog::llama_3_1_8b, std::vector{10_GiB, 1_MiB}, {.max_model_len = 100_tokens, .auto_fit = true, .pipeline_parallel = 2});
  REQUIRE(no_token.refusal == vllm::Refusal::cannot_auto_fit);
  REQUIRE(no_token.refused_rank == 1);
  REQUIRE(no_token.needed == 1_MiB);
  CacheSpec const half{.layers = LayerList{{10 * full_attention(gqa8), 10 * no_cache()}}, .dtype = bf16};
  REQUIRE(vllm::plan(half, 10_GiB, {.max_model_len = 100_tokens, .pipeline_parallel = 2}).refusal == vllm::Refusal::layout_without_rule);
}

TEST_CASE("a group of several blocks needs as many as the layer that needs most") {
  auto const latent = [](std::uint64_t block) {
    return vllm::LayerSpec{.kind = vllm::SpecKind::mla, .block = Tokens{block}, .head_size = 576, .compress_ratio = 4};
  };
  vllm::LayerSpec const sliding{.kind = vllm::SpecKind::sliding_window_mla, .block = 64_tokens, .head_size = 512, .window = 128_tokens};
  auto const plan = vllm::plan({{.layers = {latent(256), latent(64), sliding, sliding}, .available = 1_GiB}}, {.max_model_len = 32'768_tokens});
  REQUIRE(plan.blocks_per_request(32'768_tokens) == Blocks{512 + 2 * ((127 + 16'384 + 63) / 64 + 1)});  // two sliding groups
  REQUIRE(plan.layers_left_out == 0);
}

TEST_CASE("the bytes for the cache are what profiling leaves, or what kv_cache_memory_bytes says") {
  Trail trail;
  vllm::Memory const memory{.total = 80_GiB, .weights = 16_GiB, .activations = 2_GiB, .cuda_graphs = 1_GiB};
  REQUIRE(vllm::available_bytes(memory, trail) == Bytes{79'027'398'247} - 19_GiB);  // ceil(80 GiB x 0.92)
  REQUIRE(trail.steps.size() == 5);
  REQUIRE(check(memory).empty());
  REQUIRE(std::string{check(vllm::Memory{.total = 80_GiB, .free = 73_GiB})[0].field} == ".free");
  REQUIRE(std::string{check(vllm::Memory{.total = 0_B})[0].field} == ".total");
  REQUIRE(std::string{check(vllm::Memory{.total = 80_GiB, .gpu_memory_utilization = Percent{101}})[0].field} == ".gpu_memory_utilization");
  REQUIRE(vllm::available_bytes({.total = 80_GiB, .free = 73_GiB}, trail) == 0_B);
  Trail given;
  REQUIRE(vllm::available_bytes({.total = 80_GiB, .kv_cache_memory = 10_GiB}, given) == 10_GiB);
}

TEST_CASE("what vLLM has no layout for is refused by name, never sized") {
  auto const complains = [](vllm::Plan const& plan, std::string const& field) {
    for (auto const& complaint : plan.complaints)
      if (complaint.field == field) return plan.refusal == vllm::Refusal::bad_options && plan.at(1_tokens).requests == 0;
    return false;
  };
  vllm::Options const options{.max_model_len = 4'096_tokens};
  auto const with = [&](auto change) {
    vllm::Options changed = options;
    change(changed);
    return changed;
  };
  CacheSpec const llama = catalog::llama_3_1_8b;
  REQUIRE(complains(vllm::plan(llama, 40_GiB, {}), ".max_model_len"));
  REQUIRE(complains(vllm::plan(llama, 40_GiB, with([](auto& o) { o.tensor_parallel = 3; })), ".tensor"));
  REQUIRE(complains(vllm::plan(llama, 40_GiB, with([](auto& o) { o.pipeline_parallel = 0; })), ".pipeline_parallel"));
  REQUIRE(complains(vllm::plan(llama, 40_GiB, with([](auto& o) { o.pipeline_parallel = 65; })), ".pipeline"));
  REQUIRE(complains(vllm::plan(llama, 40_GiB, with([](auto& o) { o.decode_context_parallel = 2; })), ".decode_context_parallel"));
  REQUIRE(complains(vllm::plan(llama, 40_GiB, with([](auto& o) { o.max_num_batched_tokens = Tokens{}; })), ".max_num_batched_tokens"));
  REQUIRE(complains(vllm::plan(llama, 40_GiB, with([](auto& o) { o.kernel_block = Tokens{}; })), ".kernel_block"));
  REQUIRE(complains(vllm::plan(llama, 40_GiB, with([](auto& o) { o.num_gpu_blocks_override = Blocks{}; })), ".num_gpu_blocks_override"));
  REQUIRE(complains(vllm::plan(llama, 40_GiB, with([](auto& o) { o.kv_cache_dtype = CacheDType::fp8_ds_mla; })), ".kv_cache_dtype"));
  REQUIRE(complains(vllm::plan(catalog::deepseek_v3, 40_GiB, with([](auto& o) { o.kv_cache_dtype = CacheDType::nvfp4; })), ".kv_cache_dtype"));
  REQUIRE(complains(vllm::plan(deepseek_v4_pro, 40_GiB, with([](auto& o) { o.kv_cache_dtype = CacheDType::int8_per_token_head; })), ".kv_cache_dtype"));
  CacheSpec const odd_v4{.layers = 4 * compressed_attention({.width = 512, .window = 128_tokens, .ratio = 16}), .dtype = bf16};
  REQUIRE(complains(vllm::plan(odd_v4, 40_GiB, options), ".tokens_per_entry"));
  REQUIRE(complains(vllm::plan(CacheSpec{.layers = 4 * full_attention(gqa8), .dtype = q8_0}, 40_GiB, options), ".dtype"));
  REQUIRE(complains(vllm::plan(catalog::gemma_3_27b, 40_GiB, with([](auto& o) {
                                 o.tensor_parallel = 2;
                                 o.decode_context_parallel = 2;
                               })),
                    ".decode_context_parallel"));
  REQUIRE(vllm::plan(CacheSpec{.layers = 4 * no_cache(), .dtype = bf16}, 40_GiB, options).blocks == 1_blocks);  // D9
}

TEST_CASE("a cache spec that would cost nothing is refused") {
  using vllm::SpecKind;
  vllm::LayerSpec const good{.kv_heads = 8, .head_size = 128, .head_size_v = 128};
  auto const field_of = [&](auto change) {
    vllm::LayerSpec spec = good;
    change(spec);
    auto const plan = vllm::plan({{.layers = {spec, spec}, .available = 1_GiB}}, {.max_model_len = 1'024_tokens});
    return plan.refusal == vllm::Refusal::bad_options ? std::string{plan.complaints[0].field} : "";
  };
  REQUIRE(field_of([](auto&) {}) == "");
  REQUIRE(field_of([](auto& spec) { spec.block = Tokens{}; }) == ".block");
  REQUIRE(field_of([](auto& spec) { spec.compress_ratio = 0; }) == ".compress_ratio");
  REQUIRE(field_of([](auto& spec) { spec.compress_ratio = 32; }) == ".page_size_bytes");
  REQUIRE(field_of([](auto& spec) { spec.kv_heads = 0; }) == ".page_size_bytes");
  REQUIRE(field_of([](auto& spec) { spec.content = Bytes::max(); }) == ".page_size_bytes");
  REQUIRE(field_of([](auto& spec) { spec.kind = SpecKind::mamba; }) == ".page_size_bytes");
  REQUIRE(field_of([](auto& spec) { spec.kind = SpecKind::sliding_window; }) == ".window");
  REQUIRE(field_of([](auto& spec) { spec.kind = SpecKind::chunked_local; }) == ".chunk");
}

TEST_CASE("a plan never fits more of a longer request, and more memory never gives less") {
  for (CacheSpec const& model : {static_cast<CacheSpec>(catalog::llama_3_1_8b), catalog::gemma_3_27b, qwen3_next, deepseek_v4_flash}) {
    std::uint64_t before = saturated_count;
    auto const plan = vllm::plan(model, 40_GiB, {.max_model_len = 65'536_tokens, .kv_cache_dtype = CacheDType::fp8});
    for (std::uint64_t length = 1; length <= 65'536; length = length * 3 + 1) {
      auto const requests = plan.at(Tokens{length}).requests;
      REQUIRE(requests <= before);
      REQUIRE(plan.resident(Tokens{length}) <= plan.reserved(Tokens{length}));
      before = requests;
    }
    REQUIRE(vllm::plan(model, 41_GiB, {.max_model_len = 65'536_tokens, .kv_cache_dtype = CacheDType::fp8}).blocks >= plan.blocks);
  }
}

TEST_CASE("every name of a cache dtype is found again, and no other") {
  for (auto const& known : vllm::cache_dtypes) {
    REQUIRE(vllm::find_cache_dtype(known.name) == known.dtype);
    REQUIRE(vllm::name_of(known.dtype) == known.name);
  }
  REQUIRE_FALSE(vllm::find_cache_dtype("q8_0"));
}
