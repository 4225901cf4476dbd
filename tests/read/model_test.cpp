#include "catch.hpp"

#include <kvbudget/read/model.hpp>
#include <kvbudget/size/estimate.hpp>

#include <unistd.h>

#include <fstream>
#include <iostream>
#include <map>

using namespace kvbudget;
using namespace kvbudget::literals;

static_assert(bytes_per_token(catalog::llama_3_1_8b) == 128_KiB);
static_assert(growth(catalog::gemma_3_27b).growing == 81'920_B && growth(catalog::gemma_3_27b).windowed == 425'984_B);
static_assert(growth(catalog::deepseek_v3).growing == 70'272_B && growth(catalog::deepseek_v3_2).growing == 70'272_B + 8'052_B);
static_assert(catalog::find("qwen3-32b") != nullptr && catalog::find("qwen3-33b") == nullptr);

namespace {

struct Scratch {
  std::filesystem::path folder = std::filesystem::temp_directory_path() / ("kvbudget_model_" + std::to_string(::getpid()));
  Scratch() { std::filesystem::create_directories(folder); }
  ~Scratch() { std::filesystem::remove_all(folder); }
};

std::string const config =
    R"({"model_type": "llama", "num_hidden_layers": 32, "hidden_size": 4096, "num_attention_heads": 32, "num_key_value_heads": 8, "torch_dtype": "bfloat16"})";

std::string refused(std::string const& what, std::string const& dtype = "") {
  auto const result = read::attempt([&] { return read::model(what, dtype); });
  REQUIRE_FALSE(result);
  return result.refusal().message();
}

}  // namespace

TEST_CASE("a model is a file, a folder with one, or a name") {
  Scratch const scratch;
  std::ofstream{scratch.folder / "config.json"} << config;
  for (auto const& what : {scratch.folder / "config.json", scratch.folder}) {
    auto const model = read::model(what.string());
    REQUIRE(growth(model.spec).growing == 131'072_B);
    REQUIRE(model.attention_heads == 32);
    REQUIRE(growth(read::model(what.string(), "q8_0").spec).growing == 32 * 16 * 136_B);
  }
  REQUIRE(growth(read::model("llama-3.1-70b").spec).growing == 327'680_B);
  REQUIRE(growth(read::model("llama-3.1-70b", "fp8").spec).growing == 163'840_B);
  REQUIRE(refused("llama-9").find("llama-3.1-8b") != std::string::npos);
  REQUIRE(refused("/nowhere/config.json").find("is not there") != std::string::npos);
  REQUIRE(refused("llama-3.1-8b", "q9_0").find("--dtype is \"q9_0\"") != std::string::npos);
  std::filesystem::remove(scratch.folder / "config.json");
  REQUIRE(refused(scratch.folder.string()).find("without a model") != std::string::npos);
  std::ofstream{scratch.folder / "a-00001-of-00002.gguf"} << "GGUF";
  std::ofstream{scratch.folder / "a-00002-of-00002.gguf"} << "GGUF";
  REQUIRE(refused(scratch.folder.string()).find("a-00001-of-00002.gguf: version") != std::string::npos);  // the first shard, which is cut off here
  std::ofstream{scratch.folder / "b.gguf"} << "GGUF";
  REQUIRE(refused(scratch.folder.string()).find("several GGUF files") != std::string::npos);
}

TEST_CASE("every name of the catalog is what its published config says") {
  std::filesystem::path const configs = std::filesystem::path{KVBUDGET_SHARED_DIR} / "hf_configs/configs";
  if (!std::filesystem::exists(configs)) {
    std::cout << "not run: " << configs << " is not here\n";
    return;
  }
  std::map<std::string_view, std::string> const files{{"deepseek-v3", "deepseek-ai__DeepSeek-V3"},
                                                      {"deepseek-v3.2", "deepseek-ai__DeepSeek-V3.2"},
                                                      {"gemma-2-27b", "google__gemma-2-27b"},
                                                      {"gemma-3-27b", "google__gemma-3-27b-it"},
                                                      {"gpt-oss-120b", "openai__gpt-oss-120b"},
                                                      {"llama-2-7b", "meta-llama__Llama-2-7b-hf"},
                                                      {"llama-3.1-8b", "meta-llama__Llama-3.1-8B"},
                                                      {"llama-3.1-70b", "meta-llama__Llama-3.1-70B"},
                                                      {"llama-3.1-405b", "meta-llama__Llama-3.1-405B"},
                                                      {"llama-3.2-1b", "meta-llama__Llama-3.2-1B-Instruct"},
                                                      {"llama-3.2-3b", "meta-llama__Llama-3.2-3B-Instruct"},
                                                      {"llama-4-scout", "meta-llama__Llama-4-Scout-17B-16E"},
                                                      {"minimax-m2", "MiniMaxAI__MiniMax-M2"},
                                                      {"mistral-7b-v0.1", "mistralai__Mistral-7B-v0.1"},
                                                      {"mistral-nemo", "mistralai__Mistral-Nemo-Instruct-2407"},
                                                      {"mixtral-8x7b", "mistralai__Mixtral-8x7B-v0.1"},
                                                      {"qwen2.5-7b", "Qwen__Qwen2.5-7B-Instruct"},
                                                      {"qwen3-8b", "Qwen__Qwen3-8B"},
                                                      {"qwen3-14b", "Qwen__Qwen3-14B"},
                                                      {"qwen3-30b-a3b", "Qwen__Qwen3-30B-A3B"},
                                                      {"qwen3-32b", "Qwen__Qwen3-32B"},
                                                      {"qwen3-next-80b", "Qwen__Qwen3-Next-80B-A3B-Instruct"}};
  for (auto const& entry : catalog::entries) {
    INFO(entry.name);
    REQUIRE(files.contains(entry.name));
    auto const published = read::hf_config(configs / (files.at(entry.name) + ".json"));
    REQUIRE(entry.spec.layers.size() == published.spec.layers.size());
    for (std::size_t i = 0; i < entry.spec.layers.size(); ++i) REQUIRE(entry.spec.layers[i] == published.spec.layers[i]);
    if (published.context) REQUIRE(entry.context == *published.context);
  }
}
