#include "catch.hpp"

#include <kvbudget/write/llama_cpp.hpp>

#include <set>

using namespace kvbudget;
using namespace kvbudget::literals;
using llama_cpp::Refusal;

namespace {

using Lines = std::vector<std::string>;

llama_cpp::Model uniform(std::uint32_t layers, std::uint32_t heads, std::uint32_t head) {
  return {.layers = std::vector<llama_cpp::Layer>(layers, {.kv_heads = heads, .head_k = head, .head_v = head}), .trained = {131'072}};
}
std::string why_not(llama_cpp::Model const& model, llama_cpp::Options const& options) { return llama_cpp::message(llama_cpp::plan(model, options)); }

}  // namespace

TEST_CASE("MiB are printed as float32, halves to even") {
  REQUIRE(llama_cpp::printed_mib(512_MiB) == "512.00");
  REQUIRE(llama_cpp::printed_mib(Bytes{79'036'416}) == "75.38");
  REQUIRE(llama_cpp::printed_mib(Bytes{1'179'648}) == "1.12");
  REQUIRE(llama_cpp::printed_mib(Bytes{(std::uint64_t{1} << 44) + 40'000}) == "16777216.00");
  REQUIRE(llama_cpp::printed_mib(0_B) == "0.00");
}

TEST_CASE("llama.cpp's line of a cache is printed as it prints it") {
  REQUIRE(log_lines(llama_cpp::plan(uniform(32, 8, 128), {.n_ctx = 4'096})) ==
          Lines{"llama_kv_cache: size =  512.00 MiB (  4096 cells,  32 layers,  1/1 seqs), K (f16):  256.00 MiB, V (f16):  256.00 MiB"});
  REQUIRE(log_lines(llama_cpp::plan(uniform(32, 8, 128), {.n_ctx = 10'000, .n_seq_max = 3}))[0] ==
          "llama_context: n_ctx is not divisible by n_seq_max - rounding down to 10752");
}

TEST_CASE("a cache of recurrent states is printed with its sequences and snapshots") {
  llama_cpp::Model const model{.layers = std::vector<llama_cpp::Layer>(2, {.attends = false, .recurs = true, .r = 65'536, .s = 262'144}),
                               .attention = false,
                               .recurrent = true,
                               .rolls_back = true};
  REQUIRE(log_lines(llama_cpp::plan(model, {.n_ctx = 1'024, .n_seq_max = 4, .n_rs_seq = 1})) ==
          Lines{"llama_memory_recurrent: size =   20.00 MiB (     4 cells,   2 layers,  4 seqs  1 rs_seq), R (f32):    4.00 MiB, S (f32):   16.00 MiB, P "
                "(f32):    0.00 MiB"});
}

TEST_CASE("rows of V that flash attention does not even out are said to be padded") {
  auto model = uniform(2, 2, 256);
  model.layers[1].head_v = 512;
  auto const lines = log_lines(llama_cpp::plan(model, {.n_ctx = 256, .flash_attn = llama_cpp::FlashAttention::off}));
  REQUIRE(lines.size() == 2);
  REQUIRE(lines[0] == "llama_kv_cache: the V embeddings have different sizes across layers and FA is not enabled - padding V cache to 1024");
}

TEST_CASE("each cache's buffers are printed before it, a line for each device that has some of it") {
  llama_cpp::Devices const two{.splits = {24_GiB, 24_GiB}};
  REQUIRE(log_lines(llama_cpp::plan(uniform(80, 8, 128), {.n_ctx = 4'096}), two) ==
          Lines{"llama_kv_cache:      CUDA0 KV buffer size =   656.00 MiB", "llama_kv_cache:      CUDA1 KV buffer size =   624.00 MiB",
                "llama_kv_cache: size = 1280.00 MiB (  4096 cells,  80 layers,  1/1 seqs), K (f16):  640.00 MiB, V (f16):  640.00 MiB"});
  auto gemma = uniform(4, 8, 128);
  gemma.window = 256;
  gemma.layers[1].slides = gemma.layers[2].slides = true;
  auto const lines = log_lines(llama_cpp::plan(gemma, {.n_ctx = 4'096, .swa_full = false}), {.splits = {24_GiB}, .gpu_layers = 2}, {"Vulkan1"});
  REQUIRE(lines.size() == 7);
  REQUIRE(lines[1] == "llama_kv_cache:        CPU KV buffer size =    16.00 MiB");
  REQUIRE(lines[2] == "llama_kv_cache:    Vulkan1 KV buffer size =    16.00 MiB");
  REQUIRE(lines[5] == "llama_kv_cache:        CPU KV buffer size =     6.00 MiB");
  llama_cpp::Model const mamba{
      .layers = std::vector<llama_cpp::Layer>(2, {.attends = false, .recurs = true, .r = 65'536, .s = 262'144}), .attention = false, .recurrent = true};
  REQUIRE(log_lines(llama_cpp::plan(mamba, {}), {.splits = {24_GiB}})[0] == "llama_memory_recurrent:      CUDA0 RS buffer size =     2.50 MiB");
}

TEST_CASE("llama.cpp's refusals are said in its own words") {
  using llama_cpp::types::q8_0;
  REQUIRE(why_not(uniform(4, 4, 80), {.type_k = q8_0, .type_v = q8_0}) == "K cache type q8_0 with block size 32 does not divide n_embd_head_k=80");
  REQUIRE(why_not(uniform(4, 4, 80), {.type_v = q8_0}) == "V cache type q8_0 with block size 32 does not divide n_embd_head_v=80");
  REQUIRE(why_not(uniform(4, 4, 64), {.type_v = q8_0, .flash_attn = llama_cpp::FlashAttention::off}) == "quantized V cache requires flash_attn to be enabled");
  auto latents = uniform(4, 1, 64);
  latents.latents = true;
  REQUIRE(why_not(latents, {.type_k = q8_0}) == "model does not support different K (q8_0) and V (f16) cache types");
  REQUIRE(log_lines(llama_cpp::plan(latents, {.type_k = q8_0})).size() == 1);
}

TEST_CASE("what llama.cpp has no words for says the value, what is accepted and what to do") {
  for (auto const& message : {why_not({}, {}), why_not(uniform(4, 4, 64), {.n_seq_max = 300}), why_not(uniform(4, 4, 64), {.n_batch = 0}),
                              why_not({.layers = std::vector<llama_cpp::Layer>(1)}, {.n_ctx = 0}), why_not(uniform(4, 4, 64), {.n_ctx = 0xffff'ffff}),
                              why_not(uniform(4, 4, 64), {.type_k = {.name = "q6_0"}}),
                              why_not(uniform(4, 1, 80), {.type_k = llama_cpp::types::q8_0, .flash_attn = llama_cpp::FlashAttention::off})}) {
    INFO(message);
    REQUIRE(message.find("; accepted: ") != std::string::npos);
    REQUIRE(message.find("; next: ") != std::string::npos);
  }
}

TEST_CASE("every enumerator of the llama.cpp profile has a name of its own") {
  std::set<std::string_view> refusals, kinds;
  for (int i = 0; i <= static_cast<int>(Refusal::row_is_not_whole_blocks); ++i) refusals.insert(name_of(static_cast<Refusal>(i)));
  for (int i = 0; i <= static_cast<int>(llama_cpp::CacheKind::compressor_state); ++i) kinds.insert(name_of(static_cast<llama_cpp::CacheKind>(i)));
  REQUIRE(refusals.size() == static_cast<std::size_t>(Refusal::row_is_not_whole_blocks) + 1);
  REQUIRE(kinds.size() == 3);
  REQUIRE_FALSE(refusals.contains("unknown"));
  std::set<std::string_view> others;
  for (int i = 0; i <= static_cast<int>(llama_cpp::TensorKind::compressor); ++i) others.insert(name_of(static_cast<llama_cpp::TensorKind>(i)));
  for (int i = 0; i <= static_cast<int>(llama_cpp::Layout::compressed); ++i) others.insert(name_of(static_cast<llama_cpp::Layout>(i)));
  for (int i = 0; i <= static_cast<int>(llama_cpp::FlashAttention::off); ++i) others.insert(name_of(static_cast<llama_cpp::FlashAttention>(i)));
  REQUIRE((others.size() == 6 + 6 + 3 && !others.contains("unknown")));
  REQUIRE((name_of(llama_cpp::Context::mtp) == "mtp" && name_of(llama_cpp::Context::main) == "default"));
  for (int i = 0; i <= static_cast<int>(llama_cpp::Role::lid_state); ++i) REQUIRE(name_of(static_cast<llama_cpp::Role>(i)) != "unknown");
}
