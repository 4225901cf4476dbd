#include "catch.hpp"

#include <kvbudget/kvbudget.hpp>
#include <kvbudget/write/format.hpp>
#include <kvbudget/write/json.hpp>

#include <set>

using namespace kvbudget;
using namespace kvbudget::literals;

namespace {
constexpr ModelSpec llama_8b{.layers = 32, .kv_heads = 8, .head_dim = 128, .dtype = bf16};
constexpr CachePlan llama_plan = plan(llama_8b, 64_GiB, {.block = 16_tokens});
}  // namespace

TEST_CASE("bytes print in the largest unit, or in the one asked for") {
  REQUIRE(fmt::format("{}", 131'072_B) == "128 KiB");
  REQUIRE(fmt::format("{}", 12'800_KiB) == "12.5 MiB");
  REQUIRE(fmt::format("{}", 1'000_MiB) == "1000 MiB");
  REQUIRE(fmt::format("{:.2GiB}", 1'000_MiB) == "0.98 GiB");
  REQUIRE(fmt::format("{:.1GiB}", 8'000_MiB) == "7.8 GiB");
  REQUIRE(fmt::format("{:MiB}", 1'000_MiB) == "1000 MiB");
  REQUIRE(fmt::format("{:B}", 131'072_B) == "131,072 B");
  REQUIRE(fmt::format("{}", 0_B) == "0 B");
  REQUIRE(fmt::format("{}", 1'023_B) == "1,023 B");
  REQUIRE(fmt::format("{}", Bytes::max()) == "bytes without limit");
  REQUIRE_THROWS_AS(fmt::format(fmt::runtime("{:GB}"), 1_GiB), fmt::format_error);
  REQUIRE_THROWS_AS(fmt::format(fmt::runtime("{:.1}"), 1_GiB), fmt::format_error);
}

TEST_CASE("counts print with their unit and grouped") {
  REQUIRE(fmt::format("{}", 12'000_tokens) == "12,000 tokens");
  REQUIRE(fmt::format("{}", 1_tokens) == "1 token");
  REQUIRE(fmt::format("{}", 1'234'567_blocks) == "1,234,567 blocks");
  REQUIRE(fmt::format("{}", 999_blocks) == "999 blocks");
  REQUIRE(fmt::format("{}", Percent{83.5}) == "83.5%");
  REQUIRE(fmt::format("{}", Tokens::max()) == "tokens without limit");
}

TEST_CASE("a verdict prints as a sentence with its numbers") {
  AdmissionController tokens{{.capacity = 12'000_tokens, .headroom = 500_tokens}};
  REQUIRE(fmt::format("{}", tokens.submit({.prompt = 20'000_tokens})) ==
          "rejected (exceeds_capacity): needs 20,000 tokens of cache, 12,000 free, limit 12,000");
  tokens.submit({.prompt = 3'000_tokens});
  auto const waiting = tokens.submit({.prompt = 9'000_tokens}).ticket;
  auto const lease = tokens.admit_next();
  REQUIRE(fmt::format("{}", tokens.why(waiting)) == "queued (headroom): needs 9,000 tokens of cache, 9,000 free, 500 of them headroom, limit 12,000");
  AdmissionController blocks{{.capacity = 10_blocks, .footprint = paged(16_tokens)}};
  REQUIRE(fmt::format("{}", blocks.submit({.prompt = 161_tokens})) == "rejected (exceeds_capacity): needs 11 blocks of cache, 10 free, limit 10");
  REQUIRE(fmt::format("{}", AdmissionController{AdmissionLimits{}}.submit({.prompt = 1_tokens})) == "rejected (bad_limits): .capacity is 0");
  AdmissionController steps{{.capacity = 12'000_tokens, .tokens_per_step = 10_tokens}};
  steps.submit({.prompt = 10_tokens});
  auto const later = steps.submit({.prompt = 10_tokens}).ticket;
  REQUIRE(steps.commit(steps.plan()));
  REQUIRE(fmt::format("{}", steps.why(later)) == "queued (step_budget): .tokens_per_step is 1, limit 0");
}

TEST_CASE("complaints print the field, the value, what is accepted and what to do") {
  REQUIRE(fmt::format("{}", check(ModelSpec{0, 8, 128, bf16})) ==
          ".layers is 0; accepted: 1 to 512 layers; next: give the model's layers in order (num_hidden_layers)");
  REQUIRE(fmt::format("{}", check(ModelSpec{})).find(" | .kv_heads is 0") != std::string::npos);  // all in one line
  REQUIRE(fmt::format("{}", check(ModelSpec{})).find('\n') == std::string::npos);
}

TEST_CASE("a plan, its capacity and its trail print") {
  REQUIRE(fmt::format("{}", llama_plan) == "32,768 blocks of 2 MiB in 64 GiB");
  REQUIRE(fmt::format("{}", llama_plan.at(8'192_tokens)) ==
          "64 requests of 8,192 tokens: 512 blocks each, 1 GiB resident, 1 GiB reserved; 0 blocks unused; binds: cache_bytes");
  REQUIRE(fmt::format("{}", llama_plan.at(8'192_tokens).trail) ==
          "bytes for the cache                       64 GiB\n"
          "bytes per block                         / 2 MiB            = 32,768 blocks\n"
          "blocks per request                      / 512 blocks       = 64 requests\n"
          "tokens of context                       x 8,192 tokens     = 524,288 tokens");
  Trail trail;
  cache_bytes({.memory = 80_GiB, .usable = of_total(90_percent), .weights = 16_GiB}, trail);
  REQUIRE(fmt::format("{}", trail.steps[1]) == "usable fraction of total                x 90%              = 72 GiB");
  trail.subtract("reserve", 1_MiB);  // what two decimals cannot say is said in bytes
  REQUIRE(fmt::format("{}", trail.steps[trail.steps.size() - 1]) == "reserve                                 - 1 MiB            = 60,128,493,568 B (56 GiB)");
  trail.subtract("too much", 57_GiB);
  REQUIRE(fmt::format("{}", trail.steps[trail.steps.size() - 1]) ==
          "too much                                - 57 GiB           = 0 B, short by 1,074,790,400 B (1 GiB)");
}

TEST_CASE("verdicts, plans and accounts become JSON, with null for no limit") {
  AdmissionController gate{{.capacity = 100_tokens}};
  nlohmann::json const verdict = gate.submit({.prompt = 101_tokens});
  REQUIRE(verdict ==
          nlohmann::json{
              {"outcome", "rejected"}, {"reason", "exceeds_capacity"}, {"pool", "cache"}, {"needed", 101}, {"free", 100}, {"headroom", 0}, {"limit", 100}});
  nlohmann::json const account = gate.account(0);
  REQUIRE(account["submitted"] == 1);
  REQUIRE(account["rejected"] == nlohmann::json{{"exceeds_capacity", 1}});
  ClassAccount thrashing{};
  thrashing.useful_tokens = 1'000_tokens;
  thrashing.recomputed_tokens = 250_tokens;
  REQUIRE(nlohmann::json(thrashing)["useful_tokens"] == 1'000);
  REQUIRE(nlohmann::json(thrashing)["recomputed_per_million"] == 250'000);
  nlohmann::json const plan_json = llama_plan;
  REQUIRE(plan_json["blocks"] == 32'768);
  REQUIRE(plan_json["longest_request_tokens"] == 524'288);
  nlohmann::json const capacity = llama_plan.at(8'192_tokens);
  REQUIRE(capacity["requests"] == 64);
  nlohmann::json const trail = llama_plan.at(8'192_tokens).trail;
  REQUIRE(trail[1] == nlohmann::json{{"label", "bytes per block"},
                                     {"operation", "divide_down"},
                                     {"operand", 2'097'152},
                                     {"operand_unit", "bytes"},
                                     {"result", 32'768},
                                     {"result_unit", "blocks"}});
  constexpr CacheSpec windows{.layers = 4 * sliding_window({.kv_heads = 8, .head_dim = 64}, 128_tokens), .dtype = bf16};
  nlohmann::json const unlimited = plan(windows, 1_GiB, {.in_flight = 64_tokens});
  REQUIRE(unlimited["longest_request_tokens"] == nullptr);
  nlohmann::json const complaint = check(ModelSpec{0, 8, 128, bf16})[0];
  REQUIRE(complaint["field"] == ".layers");
  nlohmann::ordered_json const ordered = llama_plan;
  REQUIRE(ordered.begin().key() == "pool_bytes");
}

TEST_CASE("every reason, outcome, event and binding has a name of its own") {
  std::set<std::string_view> names;
  for (std::size_t i = 0; i < reasons; ++i) names.insert(name_of(static_cast<Reason>(i)));
  REQUIRE(names.size() == reasons);
  REQUIRE_FALSE(names.contains("unknown"));
  REQUIRE(name_of(static_cast<Reason>(200)) == "unknown");
  for (auto const event : {EventKind::step_begun, EventKind::submitted, EventKind::rejected, EventKind::admitted, EventKind::grown, EventKind::preempted,
                           EventKind::completed, EventKind::cancelled, EventKind::expired})
    REQUIRE(name_of(event) != "unknown");
  for (auto const binds : {Binds::cache_bytes, Binds::max_requests, Binds::max_length, Binds::one_request, Binds::no_cache_bytes})
    REQUIRE(name_of(binds) != "unknown");
  for (auto const outcome : {Outcome::rejected, Outcome::queued, Outcome::admitted}) REQUIRE(name_of(outcome) != "unknown");
  for (auto const keeps : {Keeps::everything, Keeps::window, Keeps::chunk, Keeps::fixed}) REQUIRE(name_of(keeps) != "unknown");
}
