#include "catch.hpp"
#include "sglang_models.hpp"

#include <random>
#include <string>

using namespace kvbudget;
using namespace kvbudget::literals;
using sglang::CacheType;
using sglang::LayerIds;
using sglang::Layout;
using sglang::Memory;
using sglang::Model;
using sglang::Options;
using sglang::Refusal;

namespace {

constexpr LayerIds layers(std::uint32_t end, std::uint32_t every, bool wanted) {
  LayerIds ids;
  for (std::uint32_t i = 0; i < end; ++i)
    if (((i + 1) % every == 0) == wanted) ids.push_back(i);
  return ids;
}

constexpr Model llama_8b() { return attention(32, 8, 128); }

constexpr Model gpt_oss(std::uint32_t count) {
  Model m = attention(count, 8, 64);
  m.hybrid_swa = true;
  m.full_layers = layers(count, 2, true);
  m.swa_layers = layers(count, 2, false);
  m.window = 127_tokens;
  return m;
}

constexpr Model deepseek_v32() {
  Model m = attention(61, 128, 256, 163'840_tokens);
  m.latent = m.indexed = true;
  m.latent_dim = 512;
  m.rope_dim = 64;
  m.index_dim = 128;
  return m;
}

constexpr Model deepseek_v4_flash() {
  Model m = attention(43, 1, 512, 1'048'576_tokens);
  m.hybrid_swa = true;
  m.compressed = sglang::CompressedModel{.nope = 448, .rope = 64, .index_dim = 128, .window = 128_tokens, .ratios = {0, 0}};
  for (std::uint32_t i = 2; i < 43; ++i) m.compressed->ratios.push_back(i % 2 == 0 ? 4 : 128);
  return m;
}

constexpr Model gated_delta(std::uint32_t count, std::uint32_t kv_heads, std::uint32_t keys, std::uint32_t values) {
  Model m = attention(count, kv_heads, 256, 262'144_tokens);
  m.states = sglang::StateModel{.inner = 128 * values,
                                .groups = keys,
                                .heads = values,
                                .head_dim = 128,
                                .state = 128,
                                .kernel = 4,
                                .linear_layers = layers(count, 4, false),
                                .full_layers = layers(count, 4, true)};
  return m;
}
constexpr Model qwen3_next() { return gated_delta(48, 2, 16, 32); }

constexpr Memory h100(std::uint64_t after) { return {{84'928'364'544}, {after}}; }
constexpr Memory h200(std::uint64_t after) { return {{150'162'374'656}, {after}}; }

constexpr Options llama_options{.mem_fraction_static = 0.83, .chunked_prefill_size = 8'192};
constexpr Options gpt_oss_capped{.mem_fraction_static = 0.83, .max_running_requests = 32, .chunked_prefill_size = 8'192, .disable_radix_cache = true};
constexpr Options qwen_options{.mem_fraction_static = 0.819, .tp_size = 4, .chunked_prefill_size = 8'192, .mamba_radix = sglang::MambaRadix::extra_buffer};
constexpr Options v4_options{.mem_fraction_static = 0.9,
                             .page_size = 256_tokens,
                             .kv_cache_dtype = CacheType::fp8_e4m3,
                             .tp_size = 4,
                             .max_running_requests = 256,
                             .chunked_prefill_size = 8'192,
                             .swa_full_tokens_ratio = 0.1};
constexpr Options v32_fp8{.mem_fraction_static = 0.897, .page_size = 64_tokens, .kv_cache_dtype = CacheType::fp8_e4m3, .tp_size = 8};

bool complains_about(Complaints const& complaints, std::string const& field) {
  for (auto const& complaint : complaints)
    if (complaint.field == field) return true;
  return false;
}

}  // namespace

// ---- Python's arithmetic ----
static_assert(sglang::truncated(-2.9) == -2 && sglang::truncated(2.9) == 2 && sglang::truncated(1e300) == INT64_MAX && sglang::truncated(-1e300) == INT64_MIN);
static_assert(sglang::floor_quotient(54'428'455'403.0, 44'236.8) == 1'230'388 && sglang::floor_quotient(56'640'950'763.0, 44'236.8) == 1'280'403);
static_assert(sglang::floor_quotient(-1.0, 3.0) == -1 && sglang::floor_quotient(-3.0, 3.0) == -1 && sglang::floor_quotient(1.0, 0.1) == 9,
              "as Python: 1 // 0.1");
static_assert(sglang::floor_quotient(1.0, 0.0) == 0 && sglang::floor_quotient(std::int64_t{-7}, 2) == -4);

// ---- R3, R4, R11: ranks ----
static_assert(sglang::heads_on_rank(6, 4) == 1 && sglang::heads_on_rank(8, 16) == 1 && sglang::heads_on_rank(8, 2) == 4);
static_assert(sglang::stage_layers(61, 0, 2) == std::pair{0U, 30U} && sglang::stage_layers(61, 1, 2) == std::pair{30U, 61U}, "the last stages take more");
static_assert(sglang::stage_layers(126, 1, 4) == std::pair{31U, 62U} && sglang::stage_layers(126, 2, 4) == std::pair{62U, 94U});
static_assert(sglang::stage_layers(2, 0, 3) == std::pair{0U, 0U}, "more stages than layers");
static_assert([] {
  auto const rank = sglang::on_rank(qwen3_next(), qwen_options, 0);
  return sglang::slot_bytes(*rank.model.states, rank.state) == 19'316'736_B && rank.state.conv[0] == 2'048;
}());
static_assert(sglang::on_rank(gated_delta(64, 4, 16, 24), {.tp_size = 16}, 0).indivisible->number == 24, "24 is not divisible by 16");
static_assert(sglang::attention_tp({.tp_size = 16, .dp_size = 4, .enable_dp_attention = true, .attn_cp_size = 2}) == 2);
static_assert(sglang::attention_tp({.tp_size = 16, .dp_size = 4}) == 16, "dp_size alone splits nothing");

// ---- R30-R34: the budget ----
static_assert(sglang::plan(llama_8b(), h100(68'866'277'376), llama_options).pool == 54'428'455'403_B);
static_assert(sglang::free_gib({85'899'345'921}, true) == 80.0 && sglang::free_gib({85'899'345'921}, false) > 80.0, "an all-reduce in float32");
static_assert(sglang::slots_per_request({.disable_radix_cache = true}) == 1 && sglang::slots_per_request({}) == 3);
static_assert(sglang::slots_per_request({.mamba_radix = sglang::MambaRadix::extra_buffer}) == 5);
static_assert(sglang::slots_per_request({.mamba_radix = sglang::MambaRadix::extra_buffer_lazy}) == 4);
static_assert(sglang::slots_per_request({.disable_overlap_schedule = true, .mamba_radix = sglang::MambaRadix::extra_buffer}) == 4);

// ---- R40-R48: tokens ----
static_assert(sglang::plan(llama_8b(), h100(68'866'277'376), llama_options).tokens == 415'256_tokens);
static_assert([] {
  auto const plan = sglang::plan(gpt_oss(24), h100(71'078'772'736), {.mem_fraction_static = 0.83});
  return plan.cell == 44'236.8 && plan.tokens == 1'280'403_tokens && plan.pools_agreed.swa == 1'024'322_tokens;
}());
static_assert(sglang::swa_tokens_beside(63'987_tokens, {}) == 51'189_tokens, "a public log of gpt-oss");
static_assert(sglang::swa_cap(gpt_oss_capped, 127_tokens) == 24'609_tokens);
static_assert(
    [] {
      Options off = gpt_oss_capped;
      off.chunked_prefill_size = -1;
      return sglang::swa_cap(off, 127_tokens) == 8'223_tokens;
    }(),
    "OBS-9: a chunk of -1 leaves no room for a prefill");
static_assert([] {
  auto const plan = sglang::plan(deepseek_v4_flash(), h200(107'212'701'696), v4_options);
  auto const public_log = sglang::pool_tokens(plan, 852'992_tokens);
  return plan.cell == 7'705.450000000001 && plan.tokens == 11'612'416_tokens && plan.compressor_rows == 32'896 && public_log.swa == 85'248_tokens &&
         public_log.c4 == 213'248 && public_log.c128 == 6'664 && public_log.c4_state == 5'328;
}());
static_assert(sglang::with_draft(10_B, 32, 28) == 18_B && sglang::with_draft(10_B, 0, 28) == 10_B && sglang::with_draft(10_B, 32, 0) == 10_B);
static_assert(sglang::charged_draft_layers({.speculative_algorithm = sglang::Speculation::ngram, .draft_layers = 4}) == 0, "NGRAM charges nothing");

TEST_CASE("SGLang counts one layer too many on every stage of a sliding model but the last") {  // OBS-1
  auto const stages = sglang::plan_stages(gpt_oss(36), {h100(68'285'366'272)}, {.mem_fraction_static = 0.825, .tp_size = 2, .pp_size = 2});
  REQUIRE(stages.size() == 2);
  REQUIRE(stages[0].rank.layers() == 18);
  REQUIRE(stages[0].sliding.full_layers + stages[0].sliding.swa_layers == 19);
  REQUIRE(stages[1].sliding.full_layers + stages[1].sliding.swa_layers == 18);
  REQUIRE(stages[0].local_capacity == 3'068'870_tokens);
  REQUIRE(stages[1].local_capacity == 3'220'419_tokens);
  REQUIRE(stages[1].tokens == 3'068'870_tokens);
  REQUIRE(stages[1].reduced);
  auto const binding = sglang::plan(gpt_oss(36), h100(68'285'366'272), {.mem_fraction_static = 0.825, .tp_size = 2, .pp_size = 2});
  REQUIRE(binding.rank.stage == 0);
}

TEST_CASE("a sparse fp8 backend stores more than SGLang sized, and the plan says both") {  // OBS-3
  auto const plan = sglang::plan(deepseek_v32(), h200(64'263'028'736), v32_fp8);
  REQUIRE(plan.cell == 43'188);
  REQUIRE(plan.pool == 48'796'304'146_B);
  REQUIRE(plan.allocated() == 54'312'994'560_B);
  Options trtllm = v32_fp8;
  trtllm.dsa_trtllm = true;
  REQUIRE(sglang::plan(deepseek_v32(), h200(64'263'028'736), trtllm).allocated() < plan.pool + 100_MiB);
}

TEST_CASE("a pipeline stage reserves the states of all stages") {  // OBS-4
  Options two = qwen_options;
  two.mem_fraction_static = 0.812;
  two.pp_size = 2;
  two.disable_overlap_schedule = true;
  auto const plan = sglang::plan(qwen3_next(), h100(63'990'398'976), two);
  REQUIRE(plan.tokens == 4'115'896_tokens);
  REQUIRE(plan.running == 294);
  REQUIRE(plan.state_bytes_unused() == Bytes{plan.slot.count / 2} * *plan.slots);
  REQUIRE(plan.stores[0].allocated() < plan.slot * *plan.slots - plan.state_bytes_unused() + 100_MiB);
}

TEST_CASE("state slots bound the requests, and are counted as many a request as SGLang reckons") {
  auto const plan = sglang::plan(qwen3_next(), h100(43'589'304'320), qwen_options);
  REQUIRE(*plan.slots == 691);
  REQUIRE(plan.running == 138);
  REQUIRE(plan.tokens == 1'210'075_tokens);
  REQUIRE(plan.pools() == 2);
  REQUIRE(plan.pool_at(1).usable() == 691_blocks);
  REQUIRE(plan.at(1'000_tokens).requests == 138);
  REQUIRE(std::string{plan.at(1'000_tokens).pool} == "states");
  REQUIRE(plan.at(100'000_tokens).requests == 12);
}

TEST_CASE("a slot of Qwen3.8-27B, and its pools at 124 slots and 360, are those of public logs") {
  auto const rank = sglang::on_rank(gated_delta(64, 4, 16, 48), {}, 0);
  REQUIRE(sglang::state_store(rank, 124, 24, {}).buffers[0].bytes() == 368'640'000_B);
  REQUIRE(sglang::state_store(rank, 124, 24, {}).buffers[1].bytes() == 18'874'368'000_B);
  REQUIRE(sglang::state_store(rank, 360, 72, {}).buffers[1].bytes() == 54'509'174'784_B);
}

TEST_CASE("a plan's trail ends at its blocks, in every layout, and under a limit") {
  Options limited = llama_options;
  limited.page_size = 64_tokens;
  limited.max_total_tokens = 100'001_tokens;
  for (auto const& plan : {sglang::plan(llama_8b(), h100(68'866'277'376), llama_options), sglang::plan(llama_8b(), h100(68'866'277'376), limited),
                           sglang::plan(gpt_oss(24), h100(71'078'772'736), llama_options), sglang::plan(gpt_oss(24), h100(71'078'772'736), gpt_oss_capped),
                           sglang::plan(deepseek_v32(), h200(64'263'028'736), v32_fp8), sglang::plan(deepseek_v4_flash(), h200(107'212'701'696), v4_options),
                           sglang::plan(qwen3_next(), h100(43'589'304'320), qwen_options)}) {
    REQUIRE_FALSE(plan.refused());
    REQUIRE(plan.trail.unit() == Unit::blocks);
    REQUIRE(plan.trail.blocks() == plan.blocks);
    REQUIRE(plan.blocks == blocks_in(plan.tokens, plan.arguments.page_size));
    REQUIRE(check(plan.footprint).empty());
    REQUIRE(plan.longest() <= plan.longest_request);
    REQUIRE(plan.at(plan.longest()).requests >= 1);
    REQUIRE(plan.at(plan.longest_request + 1_tokens).requests == 0);
    REQUIRE(plan.options.max_requests == plan.running);
  }
  REQUIRE(sglang::plan(llama_8b(), h100(68'866'277'376), limited).tokens == 99'968_tokens);
}

TEST_CASE("requests of a length side by side are bounded by what each pool of SGLang's leaves") {
  auto const llama = sglang::plan(llama_8b(), h100(68'866'277'376), llama_options);
  REQUIRE(llama.at(8'192_tokens).requests == 50);
  REQUIRE(llama.resident(8'192_tokens) == 1_GiB);
  REQUIRE(llama.at(1_tokens).requests == 2'048);
  REQUIRE(llama.at(1_tokens).binds == Binds::max_requests);
  auto const capped = sglang::plan(gpt_oss(24), h100(71'078'772'736), gpt_oss_capped);
  REQUIRE(capped.layout == Layout::sliding_capped);
  REQUIRE(capped.tokens == 2'280'117_tokens);
  REQUIRE(capped.at(1'000_tokens).requests == 32);
  REQUIRE(capped.blocks_per_request(100'000_tokens, 1) == 257_blocks);
  auto const v4 = sglang::plan(deepseek_v4_flash(), h200(107'212'701'696), v4_options);
  REQUIRE(v4.pools() == 3);
  REQUIRE(v4.at(1'000'000_tokens).requests == 11);
  REQUIRE(v4.at(1_tokens).requests == 256);
}

TEST_CASE("with chunked prefill off, a prompt must fit in the capped sliding pool at once") {  // OBS-9
  Options off = gpt_oss_capped;
  off.chunked_prefill_size = -1;
  auto const plan = sglang::plan(gpt_oss(24), h100(71'078'772'736), off);
  REQUIRE(plan.longest_prompt() == 8'223_tokens);
  REQUIRE(plan.longest_input == 131'066);
  REQUIRE(sglang::plan(gpt_oss(24), h100(71'078'772'736), gpt_oss_capped).longest_prompt() == 131'066_tokens);
}

TEST_CASE("unified pools share one buffer, and each shows all the slots it could have") {
  Options unified = qwen_options;
  unified.unified_memory = true;
  auto const plan = sglang::plan(qwen3_next(), h100(43'589'304'320), unified);
  REQUIRE(plan.allocated() == 28'217'266'176_B);
  REQUIRE(plan.stores[0].size == 1'459_tokens);
  REQUIRE(plan.stores[1].size == 2'296'326_tokens);
  REQUIRE(plan.allocator_size == 2'294'755_tokens);
  REQUIRE(plan.tokens == 1'210'075_tokens);
}

TEST_CASE("what SGLang charges to nobody is counted beside the budget") {
  auto const plan = sglang::plan(llama_8b(), h100(68'866'277'376), llama_options);
  REQUIRE(plan.request_table.bytes() == 1'074'298'896_B);
  REQUIRE(plan.beside_the_budget() == 1'074'298'896_B);
  REQUIRE(plan.allocated() == 131'072_B * 415'257);
}

TEST_CASE("a plan that SGLang refuses holds nothing, and has the figures of its message") {
  Options options = llama_options;
  options.mem_fraction_static = 0.88;
  auto const heavy = sglang::plan(llama_8b(), h100(4'397'727'744), options);
  REQUIRE(heavy.refusal == Refusal::no_memory);
  REQUIRE(heavy.figures.least_fraction > 0.9482);
  REQUIRE(heavy.figures.least_fraction < 0.94825);
  auto const slots =
      sglang::plan(qwen3_next(), h100(8'547'991'552), {.mem_fraction_static = 0.9, .tp_size = 2, .mamba_radix = sglang::MambaRadix::extra_buffer});
  REQUIRE(slots.refusal == Refusal::no_state_slots);
  REQUIRE(slots.figures.slots == 0);
  Options capped = gpt_oss_capped;
  capped.mem_fraction_static = 0.822;
  capped.chunked_prefill_size = 2'048;
  capped.max_running_requests = 3'000;
  auto const cap = sglang::plan(gpt_oss(24), {{23'555'211'264}, {9'705'619'456}}, capped);
  REQUIRE(cap.refusal == Refusal::no_full_tokens);
  REQUIRE(cap.figures.swa_tokens == 775'097_tokens);
  auto const indivisible = sglang::plan(gated_delta(64, 4, 16, 24), h100(80'000'000'000), {.mem_fraction_static = 0.8, .tp_size = 16});
  REQUIRE(indivisible.refusal == Refusal::indivisible);
  Model mtp = deepseek_v32();
  mtp.nextn_layers = 1;
  Options piped{.mem_fraction_static = 0.9,
                .pp_size = 2,
                .max_running_requests = 48,
                .speculative_algorithm = sglang::Speculation::eagle,
                .speculative_num_draft_tokens = 4};
  auto const both = sglang::plan(mtp, h200(107'212'701'696), piped);
  REQUIRE(both.refusal == Refusal::pipeline_with_draft);
  Options page = v4_options;
  page.page_size = 64_tokens;
  auto const bad_page = sglang::plan(deepseek_v4_flash(), h200(107'212'701'696), page);
  REQUIRE(bad_page.refusal == Refusal::bad_page);
  for (auto const& plan : {heavy, slots, cap, indivisible, both, bad_page}) {
    REQUIRE(plan.blocks == 0_blocks);
    REQUIRE(plan.at(1_tokens).requests == 0);
    REQUIRE(plan.longest() == 0_tokens);
  }
}

TEST_CASE("a stage without anything to cache is refused, and the binding plan is the refused one") {
  Model hybrid = qwen3_next();
  hybrid.states->full_layers = {47};
  Options two = qwen_options;
  two.pp_size = 2;
  auto const plan = sglang::plan(hybrid, h100(63'990'398'976), two);
  REQUIRE(plan.refusal == Refusal::nothing_cached);
  REQUIRE(plan.rank.stage == 0);
  REQUIRE(sglang::plan_stages(hybrid, {h100(63'990'398'976)}, two)[1].refusal == Refusal::other_stage);
}

TEST_CASE("arguments and models that SGLang does not take are complained about by name") {
  REQUIRE(complains_about(check(Options{}), ".mem_fraction_static"));
  REQUIRE(complains_about(check(Options{.mem_fraction_static = 1.5}), ".mem_fraction_static"));
  REQUIRE(complains_about(check(Options{.mem_fraction_static = 0.0 / 1e-300 + std::numeric_limits<double>::quiet_NaN()}), ".mem_fraction_static"));
  REQUIRE(complains_about(check(Options{.mem_fraction_static = 0.9, .page_size = 0_tokens}), ".page_size"));
  REQUIRE(complains_about(check(Options{.mem_fraction_static = 0.9, .tp_size = 6, .dp_size = 4, .enable_dp_attention = true}), ".attn_cp_size"));
  REQUIRE(complains_about(check(Options{.mem_fraction_static = 0.9, .pp_size = 0}), ".pp_size"));
  REQUIRE(complains_about(check(Options{.mem_fraction_static = 0.9, .post_capture_sizing = true}), ".post_capture_sizing"));
  REQUIRE(complains_about(check(Options{.mem_fraction_static = 0.9, .speculative_algorithm = sglang::Speculation::eagle}), ".max_running_requests"));
  REQUIRE(complains_about(check(Options{.mem_fraction_static = 0.9, .chunked_prefill_size = -2}), ".chunked_prefill_size"));
  REQUIRE(complains_about(check(Model{}), ".hidden_layers"));
  Model both = qwen3_next();
  both.hybrid_swa = true;
  both.full_layers = {0};
  REQUIRE(complains_about(check(both), ".hybrid_swa"));
  REQUIRE_FALSE(sglang::cache_type_named("fp8"));
  auto const plan = sglang::plan(Model{}, h100(1), llama_options);
  REQUIRE(plan.refusal == Refusal::bad_arguments);
  REQUIRE(plan.at(1_tokens).requests == 0);
}

// ---- from a CacheSpec ----
constexpr AttentionShape small{.kv_heads = 8, .head_dim = 64};

TEST_CASE("a described model is sized as the one that is read") {
  CacheSpec const llama{.layers = 32 * full_attention({.kv_heads = 8, .head_dim = 128}), .dtype = bf16};
  auto const given = sglang::model_of(llama, {.context = 131'072_tokens});
  REQUIRE(given.complaints.empty());
  REQUIRE(sglang::plan(given.model, h100(68'866'277'376), llama_options).tokens == 415'256_tokens);

  CacheSpec const qwen{
      .layers = cycle(48, {3 * recurrent({.conv = {.heads = 8'192, .width = 3, .dtype = bf16}, .state = {.heads = 32, .width = 128 * 128, .dtype = fp32}}),
                           full_attention({.kv_heads = 2, .head_dim = 256})}),
      .dtype = bf16};
  auto const plan = sglang::plan(sglang::model_of(qwen, {.context = 262'144_tokens}).model, h100(43'589'304'320), qwen_options);
  REQUIRE(plan.tokens == 1'210'075_tokens);
  REQUIRE(plan.running == 138);

  CacheSpec const v32{.layers = 61 * with_indexer(latent_attention({.latent = 512, .rope = 64}), 128), .dtype = fp8};
  auto const dsa = sglang::model_of(v32, {.context = 163'840_tokens});
  REQUIRE(dsa.cache == CacheType::fp8_e4m3);
  REQUIRE(sglang::plan(dsa.model, h200(64'263'028'736), v32_fp8).tokens == 1'129'856_tokens);
}

TEST_CASE("a window has a pool of its own only where the architecture has one") {
  CacheSpec const alternating{.layers = cycle(24, {sliding_window(small, 128_tokens), full_attention(small)}), .dtype = bf16};
  auto const separate = sglang::model_of(alternating, {.context = 131'072_tokens, .separate_sliding_pool = true, .window = 127_tokens});
  REQUIRE(sglang::plan(separate.model, h100(71'078'772'736), {.mem_fraction_static = 0.83}).tokens == 1'280'403_tokens);
  auto const as_full = sglang::model_of(alternating, {.context = 131'072_tokens});
  REQUIRE(sglang::plan(as_full.model, h100(71'078'772'736), {.mem_fraction_static = 0.83}).cell == 24 * 2 * 8 * 64 * 2);
}

TEST_CASE("a layer that shares a cache or keeps nothing is charged, in a sliding model to the pool that its pattern goes on with") {  // R5
  auto const model = [](LayerList const& list) { return sglang::model_of({list, bf16}, {.context = 131'072_tokens, .separate_sliding_pool = true}).model; };
  Layer const window = sliding_window(small, 512_tokens);
  auto const gemma = model(cycle(15, {4 * window, full_attention(small)}) + LayerList{20 * shared_cache()});  // Gemma-4-E2B
  REQUIRE(gemma.full_layers == LayerIds{4, 9, 14, 19, 24, 29, 34});
  REQUIRE(gemma.swa_layers.size() == 28);
  REQUIRE(sglang::on_rank(model({3 * full_attention(small), no_cache()}), {}, 0).layers() == 4);
  auto const unclear = sglang::model_of({{window, full_attention(small), shared_cache()}, bf16}, {.context = 131'072_tokens, .separate_sliding_pool = true});
  REQUIRE(complains_about(unclear.complaints, ".layers"));
}

TEST_CASE("KDA's three convolutions are one state to SGLang, as where the model is read") {  // R11
  auto const conv = [] { return recurrent({.conv = {.heads = 32 * 128, .width = 3, .dtype = bf16}}); };
  Layer const kda = parallel(parallel(conv(), conv()),
                             recurrent({.conv = {.heads = 32 * 128, .width = 3, .dtype = bf16}, .state = {.heads = 32, .width = 128 * 128, .dtype = fp32}}));
  LayerList const kimi = cycle(27, {3 * kda, latent_attention({.latent = 512, .rope = 64})});
  auto const given = sglang::model_of({kimi, bf16}, {.context = 131'072_tokens});
  REQUIRE(given.complaints.empty());
  auto const rank = sglang::on_rank(given.model, {.tp_size = 4}, 0);
  REQUIRE(given.model.states->kind == sglang::StateKind::kda);
  REQUIRE(rank.state.conv == std::array<std::uint64_t, 2>{3, 3 * 8 * 128});
  REQUIRE(rank.state.recurrent == std::array<std::uint64_t, 3>{8, 128, 128});
  auto const two = sglang::model_of({LayerList{parallel(conv(), conv()), full_attention(small)}, bf16}, {.context = 131'072_tokens});
  REQUIRE(complains_about(two.complaints, ".state"));
}

TEST_CASE("a described state takes SGLang's types, not the spec's, and its groups are raised to the ranks") {  // R11
  StateShape const convolution{.heads = 4'096 + 2 * 8 * 128, .width = 3, .dtype = fp32, .groups = 8, .group_heads = 256};
  Layer const mamba = recurrent({.conv = convolution, .state = {.heads = 64, .width = 64 * 128, .dtype = bf16}});
  CacheSpec const nano{.layers = cycle(52, {7 * mamba, full_attention({.kv_heads = 2, .head_dim = 128}), no_cache()}), .dtype = bf16};
  auto const m = sglang::model_of(nano, {.context = 262'144_tokens}).model;
  REQUIRE(m.states->state_type == CacheType::fp32);
  REQUIRE(m.states->conv_type == CacheType::bf16);
  REQUIRE(m.states->full_layers.size() == 5);
  REQUIRE(sglang::on_rank(m, {.tp_size = 4}, 0).state.conv[0] == 1'536);
  REQUIRE(sglang::on_rank(m, {.tp_size = 16}, 0).state.conv[0] == (4'096 + 2 * 16 * 128) / 16);
  auto const as_told = sglang::model_of(nano, {.context = 262'144_tokens, .state_type = CacheType::bf16});
  REQUIRE(as_told.model.states->state_type == CacheType::bf16);
  REQUIRE(complains_about(sglang::model_of(nano, {.context = 262'144_tokens, .state_type = CacheType::fp8_e4m3}).complaints, ".state_type"));
}

TEST_CASE("where SGLang does not recognise a model's states, every layer is charged as attention") {  // R10
  Layer const mamba = recurrent({.conv = {.heads = 8'192, .width = 3, .dtype = bf16}, .state = {.heads = 8'192, .width = 16, .dtype = bf16}});
  CacheSpec const jamba{.layers = cycle(32, {7 * mamba, full_attention(small)}), .dtype = bf16};
  auto const m = sglang::model_of(jamba, {.context = 262'144_tokens, .states_recognised = false}).model;
  REQUIRE_FALSE(m.states);
  REQUIRE(sglang::plan(m, h100(68'866'277'376), llama_options).cell == 32 * 2 * 8 * 64 * 2);
}

TEST_CASE("values as wide as keys are allocated in two pools, and with --disable-hybrid-swa-memory their own") {  // R41, R60
  Model m = gpt_oss(24);
  m.head_dim = 192;
  auto const values = [&](Options const& o, sglang::StoreKind kind) { return sglang::plan(m, h100(71'078'772'736), o).store(kind)->buffers[1].shape[2]; };
  REQUIRE(values(llama_options, sglang::StoreKind::full) == 192);
  REQUIRE(values(llama_options, sglang::StoreKind::sliding) == 192);
  Options one = llama_options;
  one.disable_hybrid_swa_memory = true;
  REQUIRE(values(one, sglang::StoreKind::cache) == 64);
}

TEST_CASE("FP4 takes a whole byte for each value in sliding pools, which is an over-count with a name") {  // R41, R44
  Options fp4 = llama_options;
  fp4.kv_cache_dtype = CacheType::fp4_e2m1;
  auto const plan = sglang::plan(gpt_oss(24), h100(71'078'772'736), fp4);
  REQUIRE(plan.sliding.full_per_token == 8 * 128_B);
  auto const& full = *plan.store(sglang::StoreKind::full);
  REQUIRE(full.buffers.size() == 2);
  REQUIRE(full.buffers[0].shape[2] == 64);
  REQUIRE(plan.allocated() <= plan.pool + 1_MiB);
  REQUIRE(plan.fp4_bytes_unused().count == plan.allocated().count / 2);
  REQUIRE(sglang::plan(llama_8b(), h100(68'866'277'376), fp4).fp4_bytes_unused() == 0_B);
}

TEST_CASE("the allocator of two pools shows the smaller") {  // R52
  Options capped = gpt_oss_capped;
  capped.max_running_requests = 2'000;
  auto const plan = sglang::plan(gpt_oss(24), {{84'928'364'544}, {38'000'000'000}}, capped);
  REQUIRE_FALSE(plan.refused());
  REQUIRE(plan.pools_agreed.full < plan.pools_agreed.swa);
  REQUIRE(plan.allocator_size == plan.pools_agreed.full);
}

TEST_CASE("a server that starts and can serve nobody is not refused, and says so") {  // R51, R52
  Options options = llama_options;
  auto const plan = [&](Model const& m) { return sglang::plan(m, h100(71'078'772'736), options); };
  options.max_total_tokens = 4_tokens;
  REQUIRE_FALSE(plan(llama_8b()).refused());
  REQUIRE(plan(llama_8b()).longest_request == 3_tokens);
  REQUIRE(plan(llama_8b()).longest_input == -2);
  REQUIRE(plan(llama_8b()).longest_prompt() == 0_tokens);
  REQUIRE(plan(llama_8b()).serves_nobody() == sglang::ServesNobody::too_short);
  REQUIRE(plan(llama_8b()).at(1_tokens).requests == 0);
  options.max_total_tokens = 1_tokens;
  REQUIRE(plan(llama_8b()).serves_nobody() == sglang::ServesNobody::too_few_tokens);
  options.max_total_tokens = 64_tokens;
  options.page_size = 64_tokens;
  REQUIRE(plan(gpt_oss(24)).pools_agreed.swa == 0_tokens);
  REQUIRE(plan(gpt_oss(24)).serves_nobody() == sglang::ServesNobody::no_sliding_tokens);
  REQUIRE(plan(llama_8b()).serves_nobody() == sglang::ServesNobody::no);
}

TEST_CASE("states of no bytes can't share out memory: SGLang divides by zero") {
  Model m = qwen3_next();
  m.states->linear_layers.clear();
  REQUIRE(sglang::plan(m, h100(63'990'398'976), qwen_options).refusal == Refusal::nothing_cached);
}

TEST_CASE("a described model that SGLang has no layout for is refused by name") {
  auto const complaints = [](LayerList const& list, DType dtype = bf16) { return sglang::model_of({list, dtype}, {.context = 4'096_tokens}).complaints; };
  REQUIRE(complains_about(complaints({full_attention(small), full_attention({.kv_heads = 4, .head_dim = 64})}), ".kv_heads"));
  REQUIRE(complains_about(complaints({full_attention(small), full_attention({.kv_heads = 8, .head_dim = 128})}), ".head_dim"));
  REQUIRE(complains_about(complaints({full_attention(small), latent_attention({.latent = 512, .rope = 64})}), ".layers"));
  REQUIRE(complains_about(complaints({cross_attention(small, 100_tokens)}), ".layers"));
  REQUIRE(complains_about(complaints({compressed_attention({.width = 512, .window = 128_tokens, .ratio = 4})}), ".layers"));
  REQUIRE(complains_about(complaints({full_attention(small)}, q8_0), ".dtype"));
  REQUIRE(complains_about(complaints({full_attention({.kv_heads = 8, .head_dim = 64, .key_dtype = fp8})}), ".dtype"));
  REQUIRE(complains_about(complaints({with_indexer(full_attention(small), 128)}), ".layers"));
  REQUIRE(complains_about(sglang::model_of({LayerList{full_attention(small)}, bf16}, {}).complaints, ".context"));
}

TEST_CASE("hostile numbers are refused or saturate, in every layout") {
  std::mt19937_64 random{20261129};
  auto const pick = [&](std::initializer_list<std::uint64_t> from) { return from.begin()[random() % from.size()]; };
  auto const wild = [&] {
    return pick({0, 1, 2, 3, 7, 16, 128, 4'096, 1'000'000, 0xffff'ffff, std::uint64_t{1} << 40, std::uint64_t{1} << 63, saturated_count});
  };
  auto const narrow = [&] { return static_cast<std::uint32_t>(pick({0, 1, 2, 3, 4, 8, 64, 128, 4'095, 1U << 20, 0xffff'ffff})); };
  auto const share = [&] { return static_cast<double>(pick({0, 1, 5, 8, 8, 8, 9, 9, 9, 10, 11})) / 10; };
  auto const maybe = [&](auto value) { return random() % 3 == 0 ? std::nullopt : std::optional{value}; };
  std::size_t planned = 0;
  for (int i = 0; i < 20'000; ++i) {
    Model m = i % 5 == 0 ? gpt_oss(24) : i % 5 == 1 ? deepseek_v32() : i % 5 == 2 ? deepseek_v4_flash() : i % 5 == 3 ? qwen3_next() : llama_8b();
    if (random() % 2 == 0) m.head_dim = narrow();
    if (random() % 2 == 0) m.total_kv_heads = narrow();
    if (random() % 4 == 0) m.context = {wild()};
    if (random() % 4 == 0) m.latent_dim = narrow();
    if (random() % 4 == 0) m.hidden_layers = narrow();
    if (random() % 8 == 0) m.window = Tokens{wild()};
    if (m.states && random() % 2 == 0) m.states->heads = narrow(), m.states->state = narrow(), m.states->kernel = narrow();
    if (m.compressed && random() % 2 == 0) m.compressed->nope = narrow(), m.compressed->window = {wild()};
    Options o{.mem_fraction_static = share(), .page_size = {random() % 4 != 0 ? 256 : wild()}, .tp_size = random() % 4 != 0 ? 1 : narrow()};
    o.pp_size = random() % 4 != 0 ? 1 : narrow();
    o.dp_size = random() % 4 != 0 ? 1 : narrow();
    o.enable_dp_attention = random() % 4 == 0;
    o.dcp_size = random() % 4 == 0 ? narrow() : 1;
    o.max_running_requests = maybe(wild());
    o.max_total_tokens = maybe(Tokens{wild()});
    o.chunked_prefill_size = maybe(random() % 4 != 0 ? std::int64_t{8'192} : static_cast<std::int64_t>(wild()));
    o.disable_radix_cache = random() % 2 == 0;
    o.swa_full_tokens_ratio = share();
    o.swa_eviction_interval = wild();
    o.max_mamba_cache_size = maybe(wild());
    o.mamba_full_memory_ratio = share();
    o.speculative_algorithm = random() % 2 == 0 ? sglang::Speculation::none : static_cast<sglang::Speculation>(random() % 7);
    o.speculative_num_steps = maybe(wild());
    o.speculative_eagle_topk = maybe(wild());
    o.speculative_num_draft_tokens = maybe(wild());
    o.draft_layers = maybe(narrow());
    o.disaggregation_mode = static_cast<sglang::Disaggregation>(random() % 3);
    o.disaggregation_decode_extra_slots = wild();
    o.page_major = random() % 8 == 0;
    o.unified_memory = random() % 8 == 0;
    o.kv_cache_dtype = static_cast<CacheType>(random() % 7);
    auto const plan = random() % 2 == 0 ? sglang::plan(m, h100(60'000'000'000), o) : sglang::plan(m, {{wild()}, {wild()}}, o);
    Tokens const length{wild()};
    (void)plan.allocated(), (void)plan.beside_the_budget(), (void)plan.state_bytes_unused(), (void)plan.reserved(length);
    if (plan.refused()) {
      REQUIRE(plan.at(length).requests == 0);
      REQUIRE(plan.longest() == 0_tokens);
    } else {
      ++planned;
      REQUIRE(plan.blocks > 0_blocks);
      REQUIRE(plan.trail.blocks() == plan.blocks);
      REQUIRE(plan.at(length).requests <= plan.running);
    }
  }
  REQUIRE(planned > 500);
}
