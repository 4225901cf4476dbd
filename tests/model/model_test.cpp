#include "catch.hpp"

#include <kvbudget/size/estimate.hpp>

#include <numeric>
#include <vector>

using namespace kvbudget;
using namespace kvbudget::literals;

namespace {

constexpr AttentionShape gqa{.kv_heads = 8, .head_dim = 128};
constexpr Layer local = sliding_window({.kv_heads = 16, .head_dim = 128}, 1'024_tokens);
constexpr Layer global = full_attention({.kv_heads = 16, .head_dim = 128});
constexpr CacheSpec gemma3_27b{.layers = cycle(62, {5 * local, global}), .dtype = bf16};
constexpr CacheSpec deepseek_v3{.layers = 61 * latent_attention({.latent = 512, .rope = 64}), .dtype = bf16};

bool complains_about(Complaints const& complaints, std::string const& field) {
  for (auto const& complaint : complaints)
    if (complaint.field == field) return true;
  return false;
}

}  // namespace

// ---- layers, in model order ----
static_assert(check(gemma3_27b).empty() && gemma3_27b.layers.size() == 62 && gemma3_27b.layers.palette.size() == 2);
static_assert(gemma3_27b.layers[4] == local && gemma3_27b.layers[5] == global && gemma3_27b.layers[61] == local, "the last, partial group is local");
static_assert(gemma3_27b.layers.count_of(0) == 52 && gemma3_27b.layers.count_of(1) == 10);
static_assert((LayerList{2 * local, global} + LayerList{global}).size() == 4);

// ---- growth: facts hf_config.md section 3 ----
static_assert(growth(gemma3_27b).growing == 81'920_B && growth(gemma3_27b).windowed == 425'984_B && growth(gemma3_27b).fixed == 0_B);
static_assert(growth(deepseek_v3).growing == 70'272_B);
static_assert(growth(CacheSpec{61 * with_indexer(latent_attention({.latent = 512, .rope = 64}), 128), bf16}).growing == 70'272_B + 8'052_B,
              "DeepSeek-V3.2: latents and indexer");
static_assert(growth(CacheSpec{9 * full_attention({.kv_heads = 4, .head_dim = 192, .value_dim = 128}), bf16}).growing == 23'040_B,
              "MiMo-V2-Flash: K 192, V 128");
static_assert(growth(CacheSpec{36 * chunked_attention(gqa, 8'192_tokens), bf16}).windowed == 147'456_B, "Llama 4");
// Qwen3-Next: 12 full layers of 48; GDN conv 8,192 x 3 in bf16 and 32 x 128 x 128 in fp32: 77.3 MB.
static_assert(
    growth(CacheSpec{cycle(48, {3 * recurrent({.conv = {.heads = 8'192, .width = 3, .dtype = bf16}, .state = {.heads = 32, .width = 128 * 128, .dtype = fp32}}),
                                full_attention({.kv_heads = 2, .head_dim = 256})}),
                     bf16})
        .fixed == 36 * (Bytes{8'192 * 3 * 2} + Bytes{32 * 128 * 128 * 4}));
static_assert(growth(CacheSpec{cycle(48, {3 * no_cache(), full_attention({.kv_heads = 2, .head_dim = 256})}), bf16}).growing == 24'576_B);
static_assert(growth(CacheSpec{4 * cross_attention({.kv_heads = 6, .head_dim = 64}, 1'500_tokens), bf16}).fixed == 6'144_B * 1'500, "whisper-tiny");
static_assert(growth(CacheSpec{{4 * global, 11 * shared_cache()}, bf16}).growing == 4 * 8'192_B, "shared layers store nothing");
static_assert(growth(CacheSpec{
                         44 * parallel(full_attention({.kv_heads = 2, .head_dim = 128}), recurrent({.state = {.heads = 24, .width = 64 * 256, .dtype = fp32}})),
                         bf16})
                      .growing == 45'056_B,
              "Falcon-H1: attention beside Mamba");
static_assert(growth(CacheSpec{{32 * full_attention(gqa), 2 * draft(full_attention({.kv_heads = 4, .head_dim = 64, .key_dtype = fp8, .value_dtype = fp8}))},
                               bf16})
                      .growing == 131'072_B + 2 * 512_B,
              "target and draft together, each with its dtype");
static_assert(growth(CacheSpec{32 * full_attention({.kv_heads = 8, .head_dim = 128, .key_dtype = q8_0, .value_dtype = q4_0}), bf16}).growing ==
                  32 * (8 * 136_B + 8 * 72_B),
              "K and V apart");
static_assert(growth(CacheSpec{1 * latent_attention({.latent = 512, .rope = 64}), fp8_per_token_head}).growing == 584_B, "vllm.md A7: two scales");
static_assert(growth(CacheSpec{32 * full_attention(gqa), nvfp4}).growing == 32 * 16 * 72_B &&
              growth(CacheSpec{32 * full_attention(gqa), fp8_per_token_head}).growing == 32 * 16 * 132_B);

// ---- sharding ----
static_assert(
    [] {
      constexpr Sharding four{.pipeline = 4};
      return layers_on_stage(126, four, 0) == 31 && layers_on_stage(126, four, 1) == 32 && layers_on_stage(126, four, 2) == 32 &&
             layers_on_stage(126, four, 3) == 31;
    }(),
    "vllm.md D2");
static_assert(growth(on_rank(gemma3_27b, {.tensor = 2})).growing == 40'960_B);
static_assert(growth(on_rank(deepseek_v3, {.tensor = 8})).growing == 70'272_B, "a latent is on every rank");
static_assert(growth(on_rank(CacheSpec{32 * full_attention(gqa), bf16}, {.tensor = 16})).growing == 32 * 2 * 256_B, "more ranks than heads: one head each");
static_assert(total_bytes(CacheSpec{32 * full_attention(gqa), bf16}, {.tensor = 16}, 1_tokens) == 2 * 131'072_B, "so the total doubles");
static_assert(total_bytes(deepseek_v3, {.tensor = 8}, 1_tokens) == 8 * 70'272_B);
static_assert(growth(on_rank(CacheSpec{32 * full_attention(gqa), bf16}, {.context = 4})).per == 4_tokens);
// Decode context parallelism shares the tokens out among the tensor ranks: eight latents become one, and no rank is added.
static_assert(growth(on_rank(deepseek_v3, {.tensor = 8, .decode_context = 8})).per == 8_tokens);
static_assert(total_bytes(deepseek_v3, {.tensor = 8, .decode_context = 8}, 8_tokens) == 8 * 70'272_B &&
              Sharding{.tensor = 8, .decode_context = 8}.ranks() == 8);
static_assert(Sharding{.tensor = 2, .pipeline = 3, .context = 2}.ranks() == 12);

TEST_CASE("stages hold all layers, in order, and draft layers on the last") {
  CacheSpec const spec{.layers = cycle(61, {5 * local, global}) + LayerList{2 * draft(global)}, .dtype = bf16};
  for (std::uint32_t stages : {1U, 2U, 3U, 7U, 61U}) {
    LayerList joined;
    for (std::uint32_t stage = 0; stage < stages; ++stage) joined.append(on_rank(spec, {.pipeline = stages}, {stage}).layers);
    REQUIRE(joined.size() == spec.layers.size());
    for (std::size_t i = 0; i < joined.size(); ++i) REQUIRE(joined[i] == spec.layers[i]);
  }
}

TEST_CASE("the default split gives the remainder to the last stages but the very last") {
  for (std::uint32_t layers = 1; layers <= 130; ++layers)
    for (std::uint32_t stages = 1; stages <= std::min(layers, 16U); ++stages) {
      std::vector<std::uint32_t> partitions(stages, layers / stages);  // vLLM: for i in range(2, remainder + 2): partitions[-i] += 1
      for (std::uint32_t i = 2; i < layers % stages + 2; ++i) ++partitions[stages - i];
      for (std::uint32_t stage = 0; stage < stages; ++stage) REQUIRE(layers_on_stage(layers, {.pipeline = stages}, stage) == partitions[stage]);
    }
}

TEST_CASE("an explicit list of stage layers is taken as given, or refused") {
  REQUIRE(on_rank(gemma3_27b, {.pipeline = 2, .stage_layers = {20, 42}}, {1}).layers.size() == 42);
  REQUIRE(complains_about(check(gemma3_27b, {.pipeline = 2, .stage_layers = {20, 41}}), ".stage_layers"));
  REQUIRE(complains_about(check(gemma3_27b, {.pipeline = 3, .stage_layers = {20, 42}}), ".stage_layers"));
  REQUIRE(complains_about(check(gemma3_27b, {.pipeline = 2, .stage_layers = {0, 62}}), ".stage_layers"));
}

TEST_CASE("heads that neither divide the ranks nor are divided by them are refused, never rounded") {
  CacheSpec const six{.layers = 4 * full_attention({.kv_heads = 6, .head_dim = 64}), .dtype = bf16};
  REQUIRE(check(six, {.tensor = 3}).empty());
  REQUIRE(check(six, {.tensor = 12}).empty());
  REQUIRE(complains_about(check(six, {.tensor = 4}), ".tensor"));
  CacheSpec const refused = on_rank(six, {.tensor = 4});
  REQUIRE(kv_bytes(refused, 1_tokens) == Bytes::max());
  REQUIRE(total_bytes(six, {.tensor = 4}, 1_tokens) == Bytes::max());
  CacheSpec const states{.layers = 4 * recurrent({.state = {.heads = 24, .width = 64, .dtype = fp32}}), .dtype = bf16};
  REQUIRE(check(states, {.tensor = 8}).empty());
  REQUIRE(complains_about(check(states, {.tensor = 16}), ".tensor"));
  REQUIRE(complains_about(check(states, {.tensor = 48}), ".tensor"));
}

TEST_CASE("bad sharding is refused by field") {
  REQUIRE(complains_about(check(gemma3_27b, {.tensor = 0}), ".tensor"));
  REQUIRE(complains_about(check(gemma3_27b, {.pipeline = 0}), ".pipeline"));
  REQUIRE(complains_about(check(gemma3_27b, {.pipeline = 63}), ".pipeline"));
  REQUIRE(complains_about(check(gemma3_27b, {.context = 0}), ".context"));
  REQUIRE(complains_about(check(deepseek_v3, {.tensor = 8, .decode_context = 3}), ".decode_context"));
  REQUIRE(complains_about(check(deepseek_v3, {.tensor = 8, .decode_context = 0}), ".decode_context"));
  REQUIRE(complains_about(check(gemma3_27b, {.context = 2}), ".context"));  // windows are not sharded by context
  REQUIRE(check(on_rank(gemma3_27b, {.pipeline = 2}, {2})).size() == 1);    // no such stage
}

TEST_CASE("check lists every complaint, and a bad spec met at run time never fits") {
  REQUIRE(check(ModelSpec{}).size() == 4);
  for (auto const* field : {".layers", ".kv_heads", ".head_dim", ".dtype"}) REQUIRE(complains_about(check(ModelSpec{}), field));
  auto const bad = GENERATE(ModelSpec{0, 8, 128, bf16}, ModelSpec{513, 8, 128, bf16}, ModelSpec{32, 0, 128, bf16}, ModelSpec{32, 8, 0, bf16},
                            ModelSpec{32, 8, 128, DType{}}, ModelSpec{32, 8, 80, q8_0}, ModelSpec{4'294'967'295U, 8, 128, bf16},
                            ModelSpec{32, 4'294'967'295U, 128, bf16}, ModelSpec{32, 8, 4'294'967'295U, bf16});
  REQUIRE_FALSE(check(bad).empty());
  REQUIRE(bytes_per_token(bad) == Bytes::max());
  REQUIRE(kv_bytes(bad, 0_tokens) == Bytes::max());
  REQUIRE(growth(bad).growing == Bytes::max());
  REQUIRE(tokens_that_fit(bad, 80_GiB) == 0_tokens);
  REQUIRE(tokens_that_fit(bad, Bytes::max()) == 0_tokens);
}

TEST_CASE("every part complains of its own") {
  auto const of = [](Layer const& layer) { return check(CacheSpec{.layers = 2 * layer, .dtype = bf16}); };
  REQUIRE(complains_about(of(sliding_window(gqa, 0_tokens)), ".window"));
  REQUIRE(complains_about(of(cross_attention(gqa, 0_tokens)), ".encoder_tokens"));
  REQUIRE(complains_about(of(recurrent({})), ".head_dim"));
  REQUIRE(complains_about(of(recurrent({.state = {.heads = 24, .width = 64}})), ".dtype"));  // a state does not take the cache's
  REQUIRE(complains_about(of(latent_attention({})), ".head_dim"));
  REQUIRE(complains_about(of(with_indexer(global, 100)), ".head_dim"));
  REQUIRE(complains_about(of(parallel(parallel(parallel(global, global), global), global)), ".parts"));
  Layer compressed = global;
  compressed.parts[0].tokens_per_entry = 0;
  REQUIRE(complains_about(of(compressed), ".tokens_per_entry"));
  LayerList many;
  for (std::uint32_t i = 1; i <= 17; ++i) many.append(full_attention({.kv_heads = i, .head_dim = 64}));
  REQUIRE(complains_about(check(CacheSpec{.layers = many, .dtype = bf16}), ".layers"));
  REQUIRE(complains_about(check(CacheSpec{.layers = 513 * global, .dtype = bf16}), ".layers"));
  REQUIRE(complains_about(check(CacheSpec{.layers = cycle(1'000'000'000'000, {global}), .dtype = bf16}), ".layers"));
}

TEST_CASE("bytes of a hybrid are the sum of what its layers keep") {
  for (std::uint64_t tokens : {0ULL, 1ULL, 1'023ULL, 1'024ULL, 1'025ULL, 131'072ULL})
    REQUIRE(kv_bytes(gemma3_27b, Tokens{tokens}).count == 81'920 * tokens + 425'984 * std::min<std::uint64_t>(tokens, 1'024));
}

TEST_CASE("compressed entries are whole entries, never fractions of a byte") {
  Layer compressed = full_attention({.kv_heads = 1, .head_dim = 512});
  compressed.parts = {Part{.kind = PartKind::latent, .split = Split::replicated, .width = 512, .tokens_per_entry = 4}};
  CacheSpec const spec{.layers = 3 * compressed, .dtype = bf16};
  REQUIRE(kv_bytes(spec, 8_tokens) == 3 * 2 * 1'024_B);
  REQUIRE(kv_bytes(spec, 9_tokens) == 3 * 3 * 1'024_B);
  REQUIRE(growth(spec).per == 4_tokens);
  REQUIRE(growth(spec).growing == 3 * 1'024_B);
}

TEST_CASE("the longest sequence that fits is exact, and a cache that stops growing has none") {
  CacheSpec const spec{.layers = 32 * full_attention(gqa), .dtype = bf16};
  REQUIRE(tokens_that_fit(spec, 1'000_MiB) == 8'000_tokens);
  REQUIRE(tokens_that_fit(spec, 1'000_MiB - 1_B) == 7'999_tokens);
  REQUIRE(tokens_that_fit(CacheSpec{.layers = 32 * local, .dtype = bf16}, 80_GiB) == Tokens::max());
  for (std::uint64_t budget = 0; budget < 2'000'000'000; budget += 99'999'989) {
    Tokens const most = tokens_that_fit(gemma3_27b, Bytes{budget});
    REQUIRE(kv_bytes(gemma3_27b, most) <= Bytes{budget});
    REQUIRE(kv_bytes(gemma3_27b, most + 1_tokens) > Bytes{budget});
  }
}
