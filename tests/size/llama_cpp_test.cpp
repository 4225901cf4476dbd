#include "catch.hpp"

#include <kvbudget/size/llama_cpp.hpp>

#include <random>

using namespace kvbudget;
using namespace kvbudget::literals;
namespace types = llama_cpp::types;
using llama_cpp::Refusal;
using llama_cpp::TensorKind;

namespace {

using Layers = std::vector<llama_cpp::Layer>;

constexpr llama_cpp::Model uniform(std::uint32_t layers, std::uint32_t kv_heads, std::uint32_t head, std::uint32_t trained = 131'072) {
  return {.layers = Layers(layers, {.kv_heads = kv_heads, .head_k = head, .head_v = head}), .trained = {trained}};
}
constexpr llama_cpp::Model llama_8b() { return uniform(32, 8, 128); }
constexpr llama_cpp::Model pythia() { return uniform(32, 32, 80, 2'048); }

/// Gemma-4-12B as the public log lc055 describes it: 48 layers, every sixth full with one head of 512, the others sliding.
constexpr llama_cpp::Model gemma4_12b() {
  llama_cpp::Model model{.trained = {131'072}, .window = 1'024};
  for (int i = 0; i < 48; ++i)
    model.layers.push_back(i % 6 == 5 ? llama_cpp::Layer{.kv_heads = 1, .head_k = 512, .head_v = 512}
                                      : llama_cpp::Layer{.kv_heads = 8, .head_k = 256, .head_v = 256, .slides = true});
  return model;
}
/// Gemma-4-E4B without its shared tail: 4 full layers of 512-wide heads, 20 sliding ones of 256.
constexpr llama_cpp::Model gemma4_e4b() {
  llama_cpp::Model model{.trained = {131'072}, .window = 512};
  for (int i = 0; i < 24; ++i)
    model.layers.push_back(i % 6 == 5 ? llama_cpp::Layer{.kv_heads = 2, .head_k = 512, .head_v = 512}
                                      : llama_cpp::Layer{.kv_heads = 2, .head_k = 256, .head_v = 256, .slides = true});
  return model;
}
constexpr llama_cpp::Model deepseek_v3() {
  return {.layers = Layers(61, {.kv_heads = 1, .head_k = 576, .head_v = 512}), .trained = {163'840}, .latents = true};
}
/// Qwen3.5-27B: 64 layers, every fourth attends; the others keep states of 3 x 10'240 and 128 x 6'144 elements.
constexpr llama_cpp::Model qwen35_27b() {
  llama_cpp::Model model{.trained = {262'144}, .recurrent = true, .rolls_back = true};
  for (int i = 0; i < 64; ++i) {
    bool const attends = i % 4 == 3;
    model.layers.push_back({.kv_heads = 4, .head_k = 256, .head_v = 256, .attends = attends, .recurs = !attends, .r = 3 * 10'240, .s = 128 * 6'144});
  }
  return model;
}
/// DeepSeek-V4 in small: a window of 128, four layers of ratio 4 and of 128 in turn.
constexpr llama_cpp::Model deepseek_v4() {
  llama_cpp::Model model{.trained = {1'048'576}, .window = 128, .rolls_back = true, .index_width = 128, .compresses = true};
  for (std::uint32_t i = 0; i < 4; ++i) model.layers.push_back({.kv_heads = 1, .head_k = 512, .head_v = 512, .slides = true, .ratio = i % 2 == 0 ? 4U : 128U});
  return model;
}

constexpr llama_cpp::Options with(std::uint32_t n_ctx, std::uint32_t n_seq, bool unified = false) {
  return {.n_ctx = n_ctx, .n_seq_max = n_seq, .kv_unified = unified, .swa_full = false};
}
constexpr Bytes allocated(llama_cpp::Model const& model, llama_cpp::Options const& options) { return llama_cpp::plan(model, options).pool; }
constexpr Bytes of(llama_cpp::Model const& model, llama_cpp::Options const& options, std::size_t cache, TensorKind kind) {
  return llama_cpp::plan(model, options).caches[cache].bytes(kind);
}
constexpr Refusal why(llama_cpp::Model const& model, llama_cpp::Options const& options) { return llama_cpp::plan(model, options).refused.why; }
constexpr std::uint64_t requests(llama_cpp::Model const& model, llama_cpp::Options const& options, Tokens length) {
  return llama_cpp::plan(model, options).at(length).requests;
}

}  // namespace

// ---- types (facts/llama_cpp.md section 1) ----
static_assert(std::size(llama_cpp::cache_types) == 9);
static_assert(vector_bytes(llama_cpp::cache_type("q8_0")->dtype, 128) == 136_B && vector_bytes(llama_cpp::cache_type("q5_1")->dtype, 32) == 24_B);
static_assert(!llama_cpp::cache_type("q6_0") && !llama_cpp::cache_type("Q8_0") && !llama_cpp::cache_type(""));

// ---- R1 to R3: the context ----
static_assert(llama_cpp::resolve(llama_8b(), with(8'000, 3)).n_ctx == 8'448_tokens, "pad to 8192, 2816 each: the total went up");
static_assert(llama_cpp::resolve(llama_8b(), with(1'024, 3)).n_ctx == 1'536_tokens);
static_assert(llama_cpp::resolve(llama_8b(), with(65'536, 256)).n_ctx_seq == 256_tokens);
static_assert(llama_cpp::resolve(llama_8b(), with(0, 1)).n_ctx == 131'072_tokens, "as trained");
static_assert(llama_cpp::resolve(llama_8b(), with(100, 1)).n_batch == 100_tokens, "before the padding");
static_assert(llama_cpp::resolve(llama_8b(), {.n_ctx = 4'096, .n_batch = 1'024, .n_ubatch = 0}).n_ubatch == 1'024_tokens);
static_assert(llama_cpp::resolve(llama_8b(), with(8'192, 4, true)).streams == 1 && llama_cpp::resolve(llama_8b(), with(8'192, 4)).streams == 4);
static_assert(llama_cpp::library_defaults.swa_full && !llama_cpp::command_line_defaults.swa_full);
static_assert(llama_cpp::server_defaults.n_seq_max == 4 && llama_cpp::server_defaults.kv_unified && !llama_cpp::server_with_slots(4).kv_unified);
static_assert(llama_cpp::server_with_context_per_slot(4, 8'192).n_ctx == 32'768);
constexpr llama_cpp::Options mid_2025{.n_ctx = 240'000, .flash_attn = llama_cpp::FlashAttention::off, .release = llama_cpp::pr_13194};
static_assert(llama_cpp::resolve(llama_8b(), mid_2025).n_ctx == 240'000_tokens, "padded to 32 without flash attention then; to 240'128 today");
static_assert(llama_cpp::resolve(llama_8b(), with(240'000, 1)).n_ctx == 240'128_tokens);

// ---- R5 to R12: one attention cache ----
static_assert(of(llama_8b(), with(4'096, 1), 0, TensorKind::k) == 256_MiB && allocated(llama_8b(), with(4'096, 1)) == 512_MiB);
static_assert(allocated(llama_8b(), with(8'000, 3)) == 1'056_MiB);
static_assert(allocated(llama_8b(), {.n_ctx = 32'768, .type_k = types::q8_0, .type_v = types::q8_0}) == 2'176_MiB);
constexpr llama_cpp::Options no_fa{.n_ctx = 4'096, .flash_attn = llama_cpp::FlashAttention::off};
static_assert(of(gemma4_e4b(), no_fa, 1, TensorKind::k) == 80_MiB && of(gemma4_e4b(), no_fa, 1, TensorKind::v) == 160_MiB, "padded to the widest V");
static_assert(of(deepseek_v3(), with(4'096, 1), 0, TensorKind::v) == 0_B && allocated(deepseek_v3(), with(4'096, 1)) == 61 * 576 * 4'096 * 2_B);
constexpr llama_cpp::Options kept_v{.n_ctx = 16'384, .release = llama_cpp::pr_13194};
static_assert(of(deepseek_v3(), kept_v, 0, TensorKind::k) == 1'098_MiB && of(deepseek_v3(), kept_v, 0, TensorKind::v) == 976_MiB, "ik_llama.cpp #394");

static_assert(why(llama_8b(), {.type_v = types::q8_0, .flash_attn = llama_cpp::FlashAttention::off}) == Refusal::v_needs_flash_attention);
static_assert(why(llama_8b(), {.type_v = types::q8_0}) == Refusal::none, "auto counts as on");
static_assert(why(deepseek_v3(), {.type_k = types::q8_0}) == Refusal::types_differ);
static_assert(why(deepseek_v4(), {.type_k = types::q8_0}) == Refusal::types_differ);
static_assert(why(pythia(), {.type_k = types::q8_0}) == Refusal::k_blocks_do_not_divide);
static_assert(why(pythia(), {.type_v = types::q4_0}) == Refusal::v_blocks_do_not_divide);
static_assert(why(pythia(), {.type_k = types::q8_0, .flash_attn = llama_cpp::FlashAttention::off}) == Refusal::none, "2'560 elements a row");
static_assert(why(uniform(4, 1, 80), {.type_k = types::q8_0, .flash_attn = llama_cpp::FlashAttention::off}) == Refusal::row_is_not_whole_blocks);
static_assert(why(llama_8b(), with(4'096, 257)) == Refusal::too_many_sequences && why(llama_8b(), with(4'096, 256)) == Refusal::none);
static_assert(why(uniform(4, 1, 64, 0), with(0, 1)) == Refusal::no_context);
static_assert(why(llama_8b(), {.n_batch = 0}) == Refusal::no_batch);
static_assert(why({}, {}) == Refusal::no_layers);
static_assert(why(llama_8b(), {.type_k = {}}) == Refusal::unknown_type);
static_assert(why(llama_8b(), {.context = llama_cpp::Context::mtp}) == Refusal::none, "drafts by the layers there are");
static_assert(why(llama_8b(), with(0xffff'ffff, 1)) == Refusal::context_too_long);

// ---- R13, R14: sliding windows ----
constexpr llama_cpp::Cache sliding(llama_cpp::Model const& model, llama_cpp::Options const& options) { return llama_cpp::plan(model, options).caches[1]; }
static_assert(sliding(gemma4_12b(), with(8'192, 4, true)).cells == 4'608_tokens, "4 x 1'024 + 512: 92% of its cache");
static_assert(sliding(gemma4_12b(), with(8'192, 4)).cells == 1'536_tokens && sliding(gemma4_12b(), with(8'192, 4)).streams == 4);
static_assert(sliding(gemma4_12b(), with(512, 1)).cells == 512_tokens, "no more than the context");
static_assert(sliding(gemma4_12b(), {.n_ctx = 8'192, .swa_full = true}).cells == 8'192_tokens);
static_assert(llama_cpp::plan(gemma4_12b(), {.n_ctx = 8'192, .release = llama_cpp::february_2025}).caches.size() == 1, "one cache for all, before PR #13194");
constexpr llama_cpp::Options quantised(llama_cpp::Release release) {
  return {.n_ctx = 8'192, .type_k = types::q8_0, .type_v = types::q8_0, .swa_full = false, .release = release};
}
static_assert(sliding(gemma4_12b(), quantised(llama_cpp::v0_5_0)).type_k == types::q8_0);
static_assert(sliding(gemma4_12b(), quantised(llama_cpp::pr_21277)).type_k == types::f16, "PR #21277 kept sliding layers f16");

// ---- R15, R16: recurrent states ----
static_assert(of(qwen35_27b(), with(24'576, 1), 1, TensorKind::r) == 5'760_KiB && of(qwen35_27b(), with(24'576, 1), 1, TensorKind::s) == 144_MiB);
constexpr llama_cpp::Options drafting{.n_ctx = 8'192, .n_seq_max = 4, .n_rs_seq = 2};
static_assert(llama_cpp::plan(qwen35_27b(), drafting).caches[1].bytes() == 12 * 153'216_KiB, "with MTP n_max = 2 the states triple");

// ---- R17: further caches ----
constexpr llama_cpp::Model glm() {
  llama_cpp::Model model{.layers = Layers(8, {.kv_heads = 1, .head_k = 576, .head_v = 512}), .trained = {131'072}, .latents = true, .index_width = 128};
  model.layers[0].indexes = model.layers[4].indexes = true;
  return model;
}
static_assert(of(glm(), with(4'096, 1), 1, TensorKind::k) == 2_MiB && of(glm(), with(4'096, 1), 1, TensorKind::v) == 0_B);
static_assert(of(glm(), {.n_ctx = 4'096, .release = llama_cpp::before_pr_26474}, 1, TensorKind::k) == 8_MiB, "in all layers, before PR #26474");
constexpr Tokens cells_of_v4(std::size_t cache, std::uint32_t n_ctx) { return llama_cpp::plan(deepseek_v4(), with(n_ctx, 1)).caches[cache].cells; }
static_assert(cells_of_v4(0, 4'096) == 4'096_tokens && cells_of_v4(1, 4'096) == 768_tokens, "an empty cache, and the window");
static_assert(cells_of_v4(2, 4'096) == 1'024_tokens && cells_of_v4(3, 4'096) == 256_tokens && cells_of_v4(4, 4'096) == 1'024_tokens,
              "32 entries, padded to 256");
static_assert(llama_cpp::plan(deepseek_v4(), with(4'096, 4, true)).caches[1].streams == 4, "a stream each, unified or not");
static_assert(of(deepseek_v4(), with(4'096, 1), 5, TensorKind::compressor) == 2 * 2 * 4 * 8 * 1'024_B);

// ---- R19, R20: devices ----
constexpr llama_cpp::Devices two_alike{.splits = {24_GiB, 24_GiB}};
constexpr std::uint64_t layers_on(std::uint32_t device, std::uint32_t layers, llama_cpp::Devices const& devices) {
  std::uint64_t n = 0;
  for (std::uint32_t il = 0; il < layers; ++il) n += llama_cpp::device_of(il, layers, devices) == device;
  return n;
}
static_assert(layers_on(0, 80, two_alike) == 41 && layers_on(1, 80, two_alike) == 39, "the output layer takes a slot on the last one");
static_assert(layers_on(llama_cpp::on_cpu, 80, {.splits = {24_GiB}, .gpu_layers = 20}) == 61, "20 with the output layer");
static_assert(layers_on(0, 80, {.splits = {24_GiB, 24_GiB}, .gpu_layers = 20}) == 10 && layers_on(1, 80, {.splits = {24_GiB, 24_GiB}, .gpu_layers = 20}) == 9);
static_assert(layers_on(llama_cpp::on_cpu, 80, {}) == 80);
static_assert(layers_on(0, 80, {.splits = {0_B, 0_B}}) + layers_on(1, 80, {.splits = {0_B, 0_B}}) == 80);
constexpr llama_cpp::Tensor mla_q8{TensorKind::k, 0, types::q8_0, 576, 32'768};
static_assert(llama_cpp::allocated(mla_q8, llama_cpp::cuda) - mla_q8.bytes() == 512_B, "476 bytes more, and aligned to 128");
static_assert(llama_cpp::allocated(mla_q8, llama_cpp::cpu) == mla_q8.bytes());

// ---- requests ----
static_assert(requests(llama_8b(), with(8'000, 3), 2'816_tokens) == 3 && requests(llama_8b(), with(8'000, 3), 2'817_tokens) == 0, "a stream each");
static_assert(requests(llama_8b(), with(8'192, 4, true), 2'048_tokens) == 4 && requests(llama_8b(), with(8'192, 4, true), 2'049_tokens) == 3, "one pool");
static_assert(requests(llama_8b(), with(8'192, 4, true), 1_tokens) == 4 && requests(llama_8b(), with(8'192, 4, true), 8'193_tokens) == 0);
static_assert(requests(gemma4_12b(), with(8'192, 4, true), 2'048_tokens) == 4 && requests(qwen35_27b(), with(8'192, 4), 2'048_tokens) == 4);
static_assert(requests(deepseek_v4(), with(8'192, 4, true), 8'192_tokens) == 4 && requests(deepseek_v4(), with(8'192, 4), 8'192_tokens) == 0);
static_assert(requests(llama_8b(), with(8'192, 257), 1_tokens) == 0, "what is refused holds nothing");
static_assert(requests({.layers = Layers(4), .trained = {512}, .no_memory = true}, with(0, 1), 1_tokens) == 0, "encoders cache nothing (R18)");

TEST_CASE("what a llama.cpp sequence holds, what is set aside for it and what is allocated are three numbers") {
  auto const apart = llama_cpp::plan(llama_8b(), with(8'000, 3));
  REQUIRE(apart.resident(1'000_tokens) == 1'000 * 128_KiB);
  REQUIRE(apart.reserved(1'000_tokens) == 2'816 * 128_KiB);
  REQUIRE(apart.pool == 3 * 2'816 * 128_KiB);
  REQUIRE(apart.lost_in_pool() == 0_B);
  REQUIRE(apart.longest() == 2'816_tokens);
  REQUIRE(apart.at(2'816_tokens).requests == 3);
  REQUIRE(apart.at(2'817_tokens).binds == Binds::max_length);
  auto const unified = llama_cpp::plan(gemma4_12b(), with(8'192, 4, true));
  Bytes const of_full = 8 * 2 * 512 * 2_B, of_sliding = 40 * 2 * 8 * 256 * 2_B;
  REQUIRE(unified.resident(4'096_tokens) == 4'096 * of_full + 1'024 * of_sliding);
  REQUIRE(unified.pool == 8'192 * of_full + 4'608 * of_sliding);
  REQUIRE(unified.pools() == 2);
}

TEST_CASE("a llama.cpp plan's trail ends in the blocks of its first pool") {
  auto const model = GENERATE(llama_8b(), gemma4_12b(), deepseek_v3(), qwen35_27b(), deepseek_v4());
  auto const options = GENERATE(with(8'000, 3), with(100, 1), with(8'192, 4, true), with(0, 256));
  auto const plan = llama_cpp::plan(model, options);
  REQUIRE_FALSE(plan.refused);
  REQUIRE(plan.trail.blocks() == plan.blocks);
  REQUIRE_FALSE(plan.trail.steps.overflowed());
  REQUIRE(check(plan.footprint).empty());
  REQUIRE(plan.lost_in_pool() == 0_B);
}

TEST_CASE("more context never takes fewer bytes, nor do more sequences or a longer step") {
  std::mt19937 random{4};
  auto const below = [&](std::uint32_t n) { return std::uniform_int_distribution<std::uint32_t>{1, n}(random); };
  for (auto const& model : {llama_8b(), gemma4_12b(), deepseek_v3(), qwen35_27b(), deepseek_v4()}) {
    for (int i = 0; i < 300; ++i) {
      bool const unified = i % 2 == 0;
      std::uint32_t const n_ctx = below(200'000), n_seq = below(16);
      REQUIRE(allocated(model, with(n_ctx, n_seq, unified)) <= allocated(model, with(n_ctx + below(5'000), n_seq, unified)));
      if (unified) REQUIRE(allocated(model, with(n_ctx, n_seq, true)) <= allocated(model, with(n_ctx, n_seq + 1, true)));
      llama_cpp::Options longer = with(n_ctx, n_seq, unified);
      longer.n_ubatch = 1'024;
      REQUIRE(allocated(model, with(n_ctx, n_seq, unified)) <= allocated(model, longer));
    }
  }
}

TEST_CASE("n_seq requests of every length that a stream of llama.cpp has cells for run side by side, and none of a longer one") {
  for (auto const& model : {llama_8b(), gemma4_12b(), deepseek_v3(), qwen35_27b(), deepseek_v4()})
    for (std::uint32_t const n_seq : {2U, 3U, 7U}) {
      auto const plan = llama_cpp::plan(model, with(10'000, n_seq));
      for (std::uint64_t length = 1; length < 8'000; length += 97)
        REQUIRE(plan.at({length}).requests == (Tokens{length} <= plan.resolved.n_ctx_seq ? n_seq : 0));
    }
}

TEST_CASE("hostile dimensions of a llama.cpp model saturate") {
  constexpr std::uint32_t most = 0xffff'ffff;
  Layers const huge(512, {.kv_heads = most, .head_k = most, .head_v = most, .recurs = true, .r = ~std::uint64_t{0}, .s = ~std::uint64_t{0}, .ratio = 4});
  llama_cpp::Model model{.layers = huge, .nextn = most, .trained = Tokens::max(), .window = most, .recurrent = true, .index_width = most, .index_values = true};
  llama_cpp::Options options{.n_ctx = most - 255, .n_seq_max = 256, .n_batch = most, .n_ubatch = most, .kv_unified = true, .swa_full = false, .n_rs_seq = most};
  auto const plan = llama_cpp::plan(model, options);
  REQUIRE_FALSE(plan.refused);
  REQUIRE(plan.pool.saturated());
  REQUIRE(plan.resident(1_tokens).saturated());
  model.compresses = true;
  REQUIRE(llama_cpp::plan(model, options).pool.saturated());
  options.n_ctx = 0;
  REQUIRE(llama_cpp::plan(model, options).refused.why == Refusal::context_too_long);
  REQUIRE(llama_cpp::plan(model, {.context = llama_cpp::Context::mtp}).caches.size() == 8);
}

TEST_CASE("every device's buffers of a llama.cpp plan add up to its caches, but for alignment") {
  for (auto const& model : {llama_8b(), gemma4_12b(), qwen35_27b()}) {
    auto const plan = llama_cpp::plan(model, with(8'192, 2));
    Bytes sum{};
    std::uint32_t layers = 0;
    for (auto const& share : plan.on({.splits = {16_GiB, 24_GiB, 8_GiB}, .gpu_layers = 30})) sum += share.kv + share.rs, layers += share.layers;
    REQUIRE(sum == plan.pool);
    REQUIRE(layers == plan.model_layers);
    auto const host = plan.on({.splits = {16_GiB}, .offload_kqv = false});
    REQUIRE((host.back().kv + host.back().rs == plan.pool && host.front().kv == 0_B));
  }
}

TEST_CASE("more devices than there is room for, and a backend without alignment, are complaints") {
  llama_cpp::Devices devices{.splits = {24_GiB}};
  REQUIRE(check(devices).empty());
  for (int i = 0; i < 16; ++i) devices.splits.push_back(24_GiB);
  devices.backend.alignment = 0;
  REQUIRE(check(devices).size() == 2);
}

// ---- from a CacheSpec ----
namespace {
llama_cpp::Model from(CacheSpec const& spec, Tokens trained = 131'072_tokens) {
  auto const read = llama_cpp::from_spec(spec, trained);
  for (auto const& complaint : read.complaints) FAIL(complaint.field);
  return read.model;
}
std::string complaint(Layer const& layer, DType dtype = bf16) {
  auto const read = llama_cpp::from_spec({.layers = 2 * layer, .dtype = dtype});
  return read.complaints.empty() ? "" : read.complaints[0].field;
}
}  // namespace

TEST_CASE("layers in general are cached by llama.cpp's rules") {
  CacheSpec const llama{.layers = 32 * full_attention({.kv_heads = 8, .head_dim = 128}), .dtype = bf16};
  REQUIRE(allocated(from(llama), with(4'096, 1)) == 512_MiB);
  CacheSpec const gemma{
      .layers = cycle(48, {5 * sliding_window({.kv_heads = 8, .head_dim = 256}, 1'024_tokens), full_attention({.kv_heads = 1, .head_dim = 512})}),
      .dtype = bf16};
  REQUIRE(allocated(from(gemma), with(8'192, 4, true)) == allocated(gemma4_12b(), with(8'192, 4, true)));
  CacheSpec const deepseek{.layers = 61 * latent_attention({.latent = 512, .rope = 64}), .dtype = bf16};
  REQUIRE(allocated(from(deepseek), with(4'096, 1)) == allocated(deepseek_v3(), with(4'096, 1)));
  CacheSpec const qwen{
      .layers = cycle(64, {3 * recurrent({.conv = {.heads = 10'240, .width = 3, .dtype = bf16}, .state = {.heads = 48, .width = 128 * 128, .dtype = fp32}}),
                           full_attention({.kv_heads = 4, .head_dim = 256})}),
      .dtype = bf16};
  REQUIRE(allocated(from(qwen), with(8'192, 4)) == allocated(qwen35_27b(), with(8'192, 4)));
  CacheSpec const indexed{.layers = 4 * with_indexer(latent_attention({.latent = 512, .rope = 64}), 128), .dtype = bf16};
  REQUIRE(allocated(from(indexed), with(4'096, 1)) == 4 * (576 + 128) * 2 * 4'096_B);
  CacheSpec const compressed{
      .layers = cycle(4, {compressed_attention({.width = 512, .window = 128_tokens, .ratio = 4, .index_width = 128, .state_elements = 20'480}),
                          compressed_attention({.width = 512, .window = 128_tokens, .ratio = 128, .state_elements = 131'072})}),
      .dtype = bf16};
  REQUIRE(allocated(from(compressed), with(8'192, 2)) == allocated(deepseek_v4(), with(8'192, 2)));
}

TEST_CASE("a draft context of a CacheSpec keeps its draft layers alone, and a shared layer nothing") {
  auto const full = full_attention({.kv_heads = 8, .head_dim = 128});
  auto const model = from({.layers = {30 * full, 2 * shared_cache(), 1 * draft(full)}, .dtype = bf16});
  REQUIRE(llama_cpp::plan(model, with(4'096, 1)).caches[0].layer_ids.size() == 30);
  REQUIRE(llama_cpp::plan(model, {.n_ctx = 4'096, .context = llama_cpp::Context::mtp}).caches[0].layer_ids == std::vector<std::uint32_t>{32});
}

TEST_CASE("a layout that llama.cpp does not have is refused by name") {
  AttentionShape const shape{.kv_heads = 8, .head_dim = 128};
  REQUIRE(complaint(full_attention(shape)).empty());
  REQUIRE(complaint(cross_attention(shape, 1'500_tokens)) == ".cross_attention");
  REQUIRE(complaint(full_attention({.kv_heads = 8, .head_dim = 128, .key_dtype = fp8})) == ".dtype");
  REQUIRE(complaint(full_attention({.kv_heads = 0, .head_dim = 128})) == ".kv_heads");
  auto const first = [](LayerList const& layers) {
    auto const read = llama_cpp::from_spec({.layers = layers, .dtype = bf16});
    REQUIRE_FALSE(read.complaints.empty());
    return std::string{read.complaints[0].field};
  };
  REQUIRE(first({sliding_window(shape, 1'024_tokens), sliding_window(shape, 2'048_tokens)}) == ".window");
  REQUIRE(first({full_attention(shape), latent_attention({.latent = 512, .rope = 64})}) == ".layers");
  REQUIRE(first({draft(full_attention(shape)), full_attention(shape)}) == ".layers");
  REQUIRE(first({compressed_attention({.width = 512, .window = 128_tokens, .ratio = 16})}) == ".ratio");
  REQUIRE(from({.layers = 4 * no_cache(), .dtype = bf16}).no_memory);
  REQUIRE(first({with_indexer(full_attention(shape), 128), with_indexer(full_attention(shape), 64, bf16)}) == ".index_width");
}
