#include "catch.hpp"
#include "sglang_models.hpp"

#include <kvbudget/write/sglang.hpp>

using namespace kvbudget;
using namespace kvbudget::literals;

namespace {

sglang::Model qwen38_27b() {
  sglang::Model m = attention(64, 4, 256);
  m.states = sglang::StateModel{.inner = 6'144, .groups = 16, .heads = 48, .head_dim = 128, .state = 128, .kernel = 4};
  for (std::uint32_t i = 0; i < 64; ++i) (i % 4 == 3 ? m.states->full_layers : m.states->linear_layers).push_back(i);
  return m;
}

}  // namespace

TEST_CASE("a plain pool's line is SGLang's own") {
  auto const plan = sglang::plan(attention(32, 8, 128), {{84'928'364'544}, {68'866'277'376}}, {.mem_fraction_static = 0.83});
  REQUIRE(write::log_lines(plan) ==
          std::vector<std::string>{"KV Cache is allocated. dtype: torch.bfloat16, #tokens: 415256, K size: 25.35 GB, V size: 25.35 GB"});
}

TEST_CASE("the pools of Qwen3.8-27B print as in public logs") {
  auto const rank = sglang::on_rank(qwen38_27b(), {}, 0);
  REQUIRE(write::detail::states_line(sglang::state_store(rank, 124, 24, {})) ==
          "Mamba Cache is allocated. max_mamba_cache_size: 124, conv_state size: 0.34GB, ssm_state size: 17.58GB ");
  REQUIRE(write::detail::states_line(sglang::state_store(rank, 360, 72, {})) ==
          "Mamba Cache is allocated. max_mamba_cache_size: 360, conv_state size: 0.99GB, ssm_state size: 50.77GB ");
  REQUIRE(write::log_line(sglang::key_value_store(sglang::StoreKind::cache, sglang::Layout::plain, rank, {330'323}, 16, {}, sglang::CacheType::bf16)) ==
          "KV Cache is allocated. dtype: torch.bfloat16, #tokens: 330323, K size: 10.08 GB, V size: 10.08 GB");
}

TEST_CASE("a sliding model prints what it profiled, what was agreed, and each pool") {
  sglang::Model m = attention(24, 8, 64);
  m.hybrid_swa = true;
  m.window = 127_tokens;
  for (std::uint32_t i = 0; i < 24; ++i) (i % 2 == 0 ? m.swa_layers : m.full_layers).push_back(i);
  sglang::Options const options{.mem_fraction_static = 0.83, .page_size = 16_tokens, .max_total_tokens = 123'457_tokens};
  REQUIRE(write::log_lines(sglang::plan(m, {{84'928'364'544}, {71'078'772'736}}, options)) ==
          std::vector<std::string>{"Use sliding window memory pool. full_layer_tokens=1280400, swa_layer_tokens=1024320",
                                   "Use sliding window memory pool. full_layer_tokens=123456, swa_layer_tokens=98752",
                                   "KV Cache is allocated. dtype: torch.bfloat16, #tokens: 98752, K size: 1.13 GB, V size: 1.13 GB",
                                   "KV Cache is allocated. dtype: torch.bfloat16, #tokens: 123456, K size: 1.41 GB, V size: 1.41 GB",
                                   "SWAKVPool mem usage: 5.09 GB, swa size: 98752, full size: 123456"});
}

TEST_CASE("a refusal says its figures and the next step, and logs nothing") {
  auto const plan = sglang::plan(attention(32, 8, 128), {{84'928'364'544}, {4'397'727'744}}, {.mem_fraction_static = 0.88});
  REQUIRE(write::log_lines(plan).empty());
  REQUIRE(write::refusal_text(plan) == "the weights leave nothing under --mem-fraction-static=0.88; next: raise it above 0.949 (it must exceed 0.9482)");
  REQUIRE(name_of(plan.refusal) == "no_memory");
  auto const unset = sglang::plan(attention(32, 8, 128), {{84'928'364'544}, {4'397'727'744}}, {});
  REQUIRE(write::refusal_text(unset).find(".mem_fraction_static is 0") == 0);
  REQUIRE(write::refusal_text(sglang::Plan{}).empty());
}

TEST_CASE("a server that starts and serves nobody says why") {
  sglang::Options options{.mem_fraction_static = 0.83, .max_total_tokens = 4_tokens};
  auto const text = [&] { return write::serves_nobody_text(sglang::plan(attention(32, 8, 128), {{84'928'364'544}, {68'866'277'376}}, options)); };
  REQUIRE(text() == "every prompt is rejected: it must be shorter than -2 tokens; next: raise --max-total-tokens or --context-length");
  options.max_total_tokens = 1_tokens;
  REQUIRE(text().find("no request runs") == 0);
  options.max_total_tokens = {};
  REQUIRE(text().empty());
}
