// What the README says is so: its program runs, its outputs are real ones, and each number in its answers is computed here.
#include "catch.hpp"
#include "process.hpp"

#include <kvbudget/admit/policies/plain.hpp>
#include <kvbudget/kvbudget.hpp>
#include <kvbudget/model/catalog.hpp>
#include <kvbudget/size/vllm.hpp>
#include <kvbudget/write/format.hpp>

#include <nlohmann/json.hpp>

#include <fstream>
#include <iterator>
#include <vector>

using namespace kvbudget;
using namespace kvbudget::literals;

namespace {

std::string readme() {
  std::ifstream in{KVBUDGET_SOURCE_DIR "/README.md"};
  return {std::istreambuf_iterator<char>{in}, {}};
}

bool says(std::string const& sentence) {
  UNSCOPED_INFO(sentence);
  return readme().find(sentence) != std::string::npos;
}

/// The README's fenced blocks of a language.
std::vector<std::string> blocks(std::string const& language) {
  std::vector<std::string> found;
  std::string const text = readme(), fence = "```" + language + "\n";
  for (std::size_t at = text.find(fence); at != std::string::npos; at = text.find(fence, at)) {
    at += fence.size();
    found.push_back(text.substr(at, text.find("```", at) - at));
  }
  return found;
}

}  // namespace

TEST_CASE("every output in the README is what its command prints today") {
  std::string const build = "build/lab/examples/";
  std::size_t commands = 0;
  for (auto const& block : blocks("console")) {
    REQUIRE(block.rfind("$ " + build, 0) == 0);
    std::size_t const end = block.find('\n');
    std::string const command = block.substr(2 + build.size(), end - 2 - build.size());
    INFO(command);
    Ran const ran = run("cd " KVBUDGET_SOURCE_DIR " && " KVBUDGET_EXAMPLES_DIR "/" + command);
    REQUIRE(ran.code == (command.rfind("kvbudget_reconcile", 0) == 0 ? 1 : 0));  // it shows a difference
    REQUIRE(ran.output == block.substr(end + 1));
    ++commands;
  }
  REQUIRE(commands >= 3);
}

TEST_CASE("the README's program prints what the README says it does") {
  Ran const ran = run(KVBUDGET_README_PROGRAM);
  REQUIRE(ran.code == 0);
  REQUIRE(blocks("text").size() == 1);
  REQUIRE(ran.output == blocks("text")[0]);
}

TEST_CASE("printed tokens are not a capacity, in requests") {
  auto const gemma = vllm::plan(catalog::gemma_3_27b, 30_GiB, {.max_model_len = 131'072_tokens, .tensor_parallel = 2});
  REQUIRE(says(fmt::format("these {} printed tokens hold {} requests of 131,072 tokens and {} of 16,384, not {}", write::grouped(gemma.printed_tokens.count),
                           gemma.at(131'072_tokens).requests, gemma.at(16'384_tokens).requests, gemma.printed_tokens.count / 16'384)));
}

TEST_CASE("why the cache helps, in positions") {
  REQUIRE(says(fmt::format("1,000 tokens passes 1,000 positions through the model with it, {} without", write::grouped(1'000 * 1'001 / 2))));
}

TEST_CASE("what raises its pressure, in bytes") {
  constexpr ModelSpec lesson{.layers = 32, .kv_heads = 8, .head_dim = 128, .dtype = bf16};
  REQUIRE(
      says(fmt::format("one request of 8,000 tokens holds {}, eight of them {:.1GiB}", kv_bytes(lesson, 8'000_tokens), 8 * kv_bytes(lesson, 8'000_tokens))));
}

namespace {

/// 20 requests of 80 + 80 tokens in a budget of 1,000, to the end: the tokens that were computed again.
ClassAccount served(Headroom headroom) {
  AdmissionController gate{{.capacity = 1'000_tokens, .headroom = headroom}, policies::Plain{}};
  for (int i = 0; i < 20; ++i) gate.submit({.prompt = 80_tokens, .max_new = 80_tokens});
  std::vector<decltype(gate)::Lease> batch;
  for (std::uint64_t step = 0; gate.queued() + gate.running() != 0; ++step) {
    gate.begin_step(step);
    std::erase_if(batch, [](auto const& lease) { return lease.tokens() == 160_tokens; });
    for (auto& lease : batch) lease.grow(1_tokens);
    std::erase_if(batch, [](auto const& lease) { return lease.ended(); });
    while (auto lease = gate.admit_next()) batch.push_back(std::move(lease));
  }
  return gate.account(0);
}

}  // namespace

TEST_CASE("why keep headroom, in tokens computed again") {
  auto const without = served(Percent{0}), with = served(Percent{15});
  REQUIRE(without.completed == 20);
  REQUIRE(with.completed == 20);
  REQUIRE(says(fmt::format("compute {} tokens again without headroom and {} with 15%", write::grouped(without.recomputed_tokens.count),
                           write::grouped(with.recomputed_tokens.count))));
}

TEST_CASE("how weights and cache compete, in requests") {
  constexpr ModelSpec llama{.layers = 32, .kv_heads = 8, .head_dim = 128, .dtype = bf16};
  auto const requests = [&](Bytes weights, Tokens length) {
    return plan(llama, cache_bytes({.memory = 80_GiB, .usable = of_total(100_percent), .weights = weights})).at(length).requests;
  };
  auto const of_24 = [&](Bytes weights, Tokens length) { return std::min<std::uint64_t>(24, requests(weights, length)); };
  REQUIRE(says(fmt::format("of 24 requests of 20,000 tokens, 80 GiB admit {} beside 16 GiB of weights and {} beside 40 GiB; at 40,000 tokens {} and {}",
                           of_24(16_GiB, 20'000_tokens), of_24(40_GiB, 20'000_tokens), of_24(16_GiB, 40'000_tokens), of_24(40_GiB, 40'000_tokens))));
}

TEST_CASE("why throughput falls while concurrency rises, in tokens computed again") {
  auto const out = nlohmann::json::parse(run(KVBUDGET_EXAMPLES_DIR "/kvbudget_request_classes --json").output);
  auto const alone = [&](std::size_t point, char const* rate) { return out["concurrency"][point]["limit_alone"][rate].get<std::uint64_t>(); };
  REQUIRE((out["concurrency"][1]["most_requests"] == 8 && out["concurrency"][3]["most_requests"] == 32));
  REQUIRE(alone(3, "useful_tokens_per_second") < alone(1, "useful_tokens_per_second"));
  REQUIRE(says(fmt::format("With a limit of 8 requests {} useful tokens/s, with 32 only {}, and {:.2f} computed again for each",
                           write::grouped(alone(1, "useful_tokens_per_second")), write::grouped(alone(3, "useful_tokens_per_second")),
                           static_cast<double>(alone(3, "recomputed_per_million")) / 1e6)));
}
