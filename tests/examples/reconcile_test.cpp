// A server's own accounting beside the estimate: the parts, then the program as a user runs it.
#include "catch.hpp"
#include "process.hpp"

#include "reconcile/budget.hpp"
#include "reconcile/search.hpp"

#include <nlohmann/json.hpp>

#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace {

using namespace example;
using Json = nlohmann::json;
using kvbudget::Blocks;

std::string const program = KVBUDGET_EXAMPLES_DIR "/kvbudget_reconcile ";
std::string const logs = KVBUDGET_SOURCE_DIR "/tests/data/logs/";

/// The program's JSON, and the exit code that it must have.
Json reconciled(std::string const& arguments, int code) {
  Ran const ran = run(program + arguments + " --json", false);
  INFO(arguments << '\n' << ran.output);
  REQUIRE(ran.code == code);
  return Json::parse(ran.output);
}

/// The first figure of a name in the comparison.
Json figure(Json const& answer, std::string const& name) {
  for (auto const& one : answer.at("comparison"))
    if (one.at("figure") == name) return one;
  FAIL("no figure " << name << " in " << answer.dump(1));
  return {};
}

void agreement(Json const& answer, std::string const& name, std::string const& wanted) {
  INFO(figure(answer, name).dump(1));
  REQUIRE(figure(answer, name).at("agreement") == wanted);
}
void cause(Json const& answer, std::string const& name, std::string const& wanted) {
  INFO(figure(answer, name).dump(1));
  REQUIRE(figure(answer, name).at("agreement") == "different");
  REQUIRE(figure(answer, name).value("cause", "").rfind(wanted, 0) == 0);
}

void refused(std::string const& arguments, std::vector<std::string> const& texts) {
  Ran const ran = run(program + arguments);
  INFO(arguments << '\n' << ran.output);
  REQUIRE(ran.code == 2);
  for (auto const& text : texts) REQUIRE(ran.output.find(text) != std::string::npos);
  REQUIRE(run(program + arguments + " 2>/dev/null", false).output.empty());
}

bool shows(std::string const& arguments, std::vector<std::string> const& texts) {
  Ran const ran = run(program + arguments);
  UNSCOPED_INFO(ran.output);
  return std::all_of(texts.begin(), texts.end(), [&](auto const& text) { return ran.output.find(text) != std::string::npos; });
}

/// A server whose blocks are of so many bytes, and hold 16 tokens.
Predict blocks_of(std::uint64_t bytes) {
  return [bytes](Bytes memory) {
    return Prediction{.lines = {"GPU KV cache size: " + std::to_string(memory.count / bytes * 16) + " tokens"}, .refusal = {}, .plan = {}};
  };
}

RuntimeLog const sixteen_hundred = kvbudget::read::runtime_log_text("GPU KV cache size: 1,600 tokens\n");

}  // namespace

// ---- the parts ----

TEST_CASE("the memory is the least in its range that reaches the printed figure") {
  Primary const primary{Quantity::tokens, 1'600};
  REQUIRE(memory_for(primary, blocks_of(1'000), {.low = {1}, .high = {1'000'000}, .known = true}) == Bytes{100'000});
  REQUIRE(memory_for(primary, blocks_of(1'000), {.low = {100'500}, .high = {1'000'000}, .known = true}) == Bytes{100'500});
  REQUIRE(memory_for(primary, blocks_of(1'000), {.low = {1}, .high = {99'999}, .known = true}) == Bytes{99'999});
}

TEST_CASE("a figure is equal where all of the range prints it, and within print precision where some of it does") {
  auto const facts = facts_of(sixteen_hundred);
  auto const in = [&](std::uint64_t low, std::uint64_t high) {
    return compare(facts, blocks_of(1'000), {.low = {low}, .high = {high}, .known = true}).figures.at(0).agreement;
  };
  REQUIRE(in(100'000, 100'999) == Agreement::equal);
  REQUIRE(in(99'000, 100'500) == Agreement::within_print_precision);
  REQUIRE(in(100'500, 105'000) == Agreement::within_print_precision);
  REQUIRE(in(90'000, 99'999) == Agreement::different);
  REQUIRE(in(101'000, 105'000) == Agreement::different);
}

TEST_CASE("without a memory the printed figure says it, and is not compared") {
  auto const comparison = compare(facts_of(sixteen_hundred), blocks_of(1'000), {});
  REQUIRE(comparison.memory == Bytes{100'000});
  REQUIRE(comparison.figures.at(0).agreement == Agreement::not_compared);
}

TEST_CASE("the cause of a difference is the first trial that explains it, with the others that do") {
  auto const facts = facts_of(sixteen_hundred);
  MemoryRange const range{.low = {50'000}, .high = {50'999}, .known = true};
  auto comparison = compare(facts, blocks_of(1'000), range);
  explain(facts, comparison, {{"too small", blocks_of(400), {}}, {"half", blocks_of(500), {}}, {"and again", blocks_of(502), {}}});
  REQUIRE(comparison.figures.at(0).explained);
  REQUIRE(comparison.figures.at(0).why == "half");
  REQUIRE(comparison.figures.at(0).also == std::vector<std::string>{"and again"});
}

TEST_CASE("a difference that nothing explains says what a token costs by both") {
  auto const facts = facts_of(sixteen_hundred);
  auto comparison = compare(facts, blocks_of(1'600), {.low = {80'000}, .high = {80'000}, .known = true});
  explain(facts, comparison, {{"too small", blocks_of(400), {}}});
  REQUIRE(!comparison.figures.at(0).explained);
  REQUIRE(comparison.figures.at(0).why == "50 B a token by the log, 100 B by the estimate, x0.500");
}

TEST_CASE("figures of two precisions agree where one amount prints as both") {
  auto const figure_in = [](std::string const& text) { return kvbudget::read::runtime_log_text("KV self size = " + text + "\n").lines.at(0).figures.at(0); };
  REQUIRE(agree(figure_in("512.00 MiB"), figure_in("512.00 MiB")));
  REQUIRE(agree(figure_in("512.0 MiB"), figure_in("512.04 MiB")));
  REQUIRE(!agree(figure_in("512.00 MiB"), figure_in("512.01 MiB")));
  REQUIRE(!agree(figure_in("0.12 MiB"), figure_in("0.13 MiB")));
}

TEST_CASE("measured pools become a controller's limits") {
  kvbudget::read::Measured const blocks{.pools = {{.blocks = Blocks{1'478}}}, .block = Tokens{16}};
  auto const limits = limits_of(blocks);
  REQUIRE(check(*limits).empty());
  REQUIRE(admitted(*limits, Tokens{8'000}) == 2);
  REQUIRE(admitted(*limits, Tokens{29'000}) == 0);
  REQUIRE(!limits_of(kvbudget::read::Measured{.pools = {{.blocks = Blocks{1'478}}}}));
  kvbudget::read::Measured const windows{.pools = {{Blocks{1'000}, Tokens{8'192}}, {Blocks{64}, Tokens{1'024}}}, .block = Tokens{32}};
  REQUIRE(check(*limits_of(windows)).empty());
  REQUIRE(admitted(*limits_of(windows), Tokens{8'192}) == 2);  // the smaller pool binds: 32 blocks each
}

// ---- the program ----

TEST_CASE("a log alone shows its figures, the three numbers and the budget") {
  REQUIRE(shows(logs + "vllm_v0.log",
                {"vLLM V0", "blocks                           2560   line 3", "blocks of the pool   2,560", "printed tokens       not printed",
                 "511 to 513 blocks", ".capacity = 2,560 blocks, .footprint = paged(16 tokens)", "runs 5 requests of 8,192 tokens"}));
  Json const answer = reconciled(logs + "vllm_v0.log --context 1000", 0);
  REQUIRE(answer.at("limits") == Json{{"capacity", 2'560}, {"capacity_in", "blocks"}, {"block_tokens", 16}, {"more_pools", Json::array()}});
  REQUIRE(answer.at("admitted") == 40);
  REQUIRE(answer.at("figures").at(2) ==
          Json{{"figure", "available"}, {"printed", "5.00GiB"}, {"low", 5'363'340'411}, {"high", 5'374'077'829}, {"line", 2}, {"process", ""}});
  REQUIRE(!answer.contains("comparison"));
}

TEST_CASE("vLLM's tokens are within what its memory prints as, and equal where the bytes are told") {
  Json const printed = reconciled(logs + "vllm_within.log llama-3.1-8b", 0);
  agreement(printed, "tokens", "within print precision");
  agreement(printed, "concurrency", "equal");
  REQUIRE(printed.at("agrees") == true);
  Json const told = reconciled(logs + "vllm_within.log llama-3.1-8b --available 26200000000B", 0);
  agreement(told, "tokens", "equal");
  REQUIRE(told.at("admitted_by_estimate") == 6);
}

TEST_CASE("an older print form is found, and taken with --release") {
  Json const answer = reconciled(logs + "vllm_older.log gemma-3-27b --tp 2", 1);
  cause(answer, "tokens", "an older print form (--release v1");
  agreement(answer, "concurrency", "equal");
  agreement(answer, "padding_layers", "equal");
  Json const older = reconciled(logs + "vllm_older.log gemma-3-27b --tp 2 --release v1", 0);
  REQUIRE(older.at("admitted") == 0);              // of a hybrid, printed tokens are no capacity
  REQUIRE(older.at("admitted_by_estimate") == 3);  // as its concurrency says
}

TEST_CASE("a figure of another rank's memory is found") {
  cause(reconciled(logs + "vllm_other_rank.log llama-3.1-8b", 1), "tokens",
        "another rank's memory, or an earlier start's: 24.4 GiB of line 2, Worker_PP1 pid=12");
}

TEST_CASE("another flag is found, and those that would explain as much are named") {
  std::string const log = KVBUDGET_SOURCE_DIR "/examples/data/vllm-fp8.log llama-3.1-8b";
  Json const answer = reconciled(log, 1);
  cause(answer, "tokens", "--kv-cache-dtype fp8");
  REQUIRE(figure(answer, "tokens").at("or_as_well").at(0) == "--tensor-parallel-size 2");
  reconciled(log + " --kv-cache-dtype fp8", 0);
  cause(reconciled(logs + "sglang_other_flag.log gpt-oss-120b", 1), "key_bytes", "--kv-cache-dtype fp8_e4m3");
  cause(reconciled(logs + "tensorrt_llm_other_flag.log llama-3.1-8b", 1), "blocks", "--free-gpu-memory-fraction 0.8");
  Json const windows = reconciled(logs + "llama_cpp_other_flag.log gemma-3-27b", 1);
  agreement(windows, "key_bytes", "equal");
  REQUIRE(shows(logs + "llama_cpp_other_flag.log gemma-3-27b", {"likely cause: --swa-full"}));
}

TEST_CASE("what nothing explains shows the bytes of a token by both") {
  Json const answer = reconciled(logs + "vllm_unexplained.log llama-3.1-8b", 1);
  REQUIRE(!figure(answer, "tokens").contains("cause"));
  REQUIRE(figure(answer, "tokens").at("because") == "174626 B a token by the log, 131075 B by the estimate, x1.332");
}

TEST_CASE("the error of too little memory is predicted to its figures") {
  Json const answer = reconciled(logs + "vllm_not_enough.log llama-3.1-8b", 0);
  agreement(answer, "needed", "equal");
  agreement(answer, "estimated_length", "within print precision");
  REQUIRE(answer.at("starts") == false);
  REQUIRE(answer.at("limits") == nullptr);
  Json const smaller = reconciled(logs + "vllm_not_enough.log llama-3.1-8b --kv-cache-dtype fp8", 1);
  REQUIRE(figure(smaller, "needed").at("predicted") == "it starts");
  cause(smaller, "needed", "--kv-cache-dtype auto");
}

TEST_CASE("vLLM V0's blocks of the device and the host") {
  Json const answer = reconciled(logs + "vllm_v0.log llama-3.1-8b", 0);
  agreement(answer, "blocks", "within print precision");
  agreement(answer, "cpu_blocks", "equal");
}

TEST_CASE("SGLang's pools follow from its tokens") {
  Json const answer = reconciled(logs + "sglang.log llama-3.1-8b", 0);
  agreement(answer, "tokens", "not compared");
  agreement(answer, "key_bytes", "equal");
  agreement(answer, "dtype", "equal");
  agreement(reconciled(logs + "sglang.log llama-3.1-8b --available 54428455403B", 0), "tokens", "equal");
}

TEST_CASE("TensorRT-LLM's blocks of each window") {
  Json const answer = reconciled(logs + "tensorrt_llm.log gemma-3-27b", 0);
  agreement(answer, "blocks", "equal");
  agreement(answer, "tokens", "within print precision");
  REQUIRE(answer.at("limits").at("more_pools") == Json{1'573});
}

TEST_CASE("llama.cpp's caches and buffers, one by one") {
  Json const answer = reconciled(logs + "llama_cpp.log gemma-3-27b", 0);
  for (auto const& one : answer.at("comparison")) REQUIRE(one.at("agreement") == "equal");
  REQUIRE(answer.at("comparison").size() >= 20);
  REQUIRE(answer.at("limits").at("block_tokens") == 8'192);
}

TEST_CASE("the reconciliation refuses bad input") {
  refused("", {"LOG is required"});
  refused("--json " + logs + "sglang.log", {"LOG is --json", "put the log's path first"});
  refused("absent.log", {"absent.log is not readable"});
  refused(KVBUDGET_SOURCE_DIR "/LICENSE", {"without a figure of a cache"});
  refused(logs + "sglang.log llama-3.1-8b --release v1", {"--release is no flag for a log of SGLang", "--page-size"});
  refused(logs + "vllm_v0.log llama-3.1-8b --kv-cache-dtype q8_0", {"--kv-cache-dtype is q8_0", "fp8"});
  refused(logs + "vllm_v0.log no-such-model", {"the model is \"no-such-model\""});
  refused(logs + "vllm_v0.log llama-3.1-8b --available some", {"--available is \"some\""});
  refused(logs + "tensorrt_llm.log llama-3.1-8b --free-gpu-memory-fraction 2", {"--free-gpu-memory-fraction"});
}

TEST_CASE("hostile figures are compared, and nothing more") {
  auto const path = std::filesystem::temp_directory_path() / ("kvbudget_reconcile_" + std::to_string(::getpid()) + ".log");
  std::string const most = "9223372036854775807";
  for (std::string const& text :
       {"GPU KV cache size: " + most + " tokens\nMaximum concurrency for " + most + " tokens per request: 0.00x\n",
        "# GPU blocks: 0, # CPU blocks: " + most + "\nMaximum concurrency for 0 tokens per request: 0.00x\n",
        "max_total_num_tokens=" + most + ", max_running_requests=0, context_len=" + most + "\n",
        "total: 1 GiB, available: 0 GiB\nNumber of tokens per block: " + most + "\n[windowSize=0] {.primaryBlocks=0, .secondayBlocks=0}\n",
        "llama_context: n_ctx = " + most + "\nllama_kv_cache: size = 0.00 MiB (" + most + " cells, 0 layers, " + most + "/" + most + " seqs)\n"}) {
    std::ofstream{path} << text;
    for (auto const* model : {"", " llama-3.1-8b", " gemma-3-27b"}) {
      Ran const ran = run(program + path.string() + model);
      INFO(text << '\n' << ran.output);
      REQUIRE((ran.code == 0 || ran.code == 1 || ran.code == 2));
    }
  }
  std::filesystem::remove(path);
}
