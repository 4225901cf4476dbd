#include "catch.hpp"

#include <kvbudget/read/hf_config.hpp>
#include <kvbudget/size/estimate.hpp>

#include <filesystem>
#include <fstream>
#include <iostream>

using namespace kvbudget;
using namespace kvbudget::literals;
using read::Json;

namespace {

Json llama() {
  return {{"model_type", "llama"},     {"num_hidden_layers", 32},  {"hidden_size", 4'096},
          {"num_attention_heads", 32}, {"num_key_value_heads", 8}, {"max_position_embeddings", 131'072},
          {"torch_dtype", "bfloat16"}};
}
Json with(Json json, std::string const& key, Json value) {
  json[key] = std::move(value);
  return json;
}
Json without(Json json, std::string const& key) {
  json.erase(key);
  return json;
}
Growth growth_of(Json const& json) { return growth(read::hf_config(json, "config.json").spec); }

read::Refusal refusal_of(Json const& json) {
  auto const result = read::attempt([&] { return read::hf_config(json, "config.json"); });
  REQUIRE_FALSE(result);
  return result.refusal();
}

/// A file that exists as long as this.
struct Scratch {
  std::filesystem::path folder =
      std::filesystem::temp_directory_path() / ("kvbudget_read_" + std::to_string(std::hash<std::string>{}(Catch::getResultCapture().getCurrentTestName())));
  Scratch() { std::filesystem::create_directories(folder); }
  ~Scratch() { std::filesystem::remove_all(folder); }
  std::filesystem::path write(std::string const& name, std::string const& text) const {
    std::ofstream{folder / name, std::ios::binary} << text;
    return folder / name;
  }
};

}  // namespace

TEST_CASE("the six families give their bytes per token") {
  REQUIRE(growth_of(llama()).growing == 131'072_B);
  REQUIRE(growth_of(with(llama(), "model_type", "mistral")).growing == 131'072_B);
  REQUIRE(growth_of(with(with(llama(), "model_type", "mixtral"), "sliding_window", nullptr)).growing == 131'072_B);
  // Qwen3-0.6B: an explicit head_dim of 128 where hidden / heads is 64.
  REQUIRE(growth_of({{"model_type", "qwen3"},
                     {"num_hidden_layers", 28},
                     {"hidden_size", 1'024},
                     {"num_attention_heads", 16},
                     {"num_key_value_heads", 8},
                     {"head_dim", 128},
                     {"use_sliding_window", false},
                     {"max_window_layers", 28},
                     {"torch_dtype", "bfloat16"}})
              .growing == 114'688_B);
  REQUIRE(growth_of({{"model_type", "qwen2"},
                     {"num_hidden_layers", 28},
                     {"hidden_size", 3'584},
                     {"num_attention_heads", 28},
                     {"num_key_value_heads", 4},
                     {"sliding_window", 131'072},
                     {"use_sliding_window", false},
                     {"max_window_layers", 28},
                     {"torch_dtype", "bfloat16"}})
              .growing == 57'344_B);
  REQUIRE(growth_of({{"model_type", "gemma"},
                     {"num_hidden_layers", 28},
                     {"hidden_size", 3'072},
                     {"num_attention_heads", 16},
                     {"num_key_value_heads", 16},
                     {"head_dim", 256},
                     {"torch_dtype", "bfloat16"}})
              .growing == 458'752_B);
}

TEST_CASE("without num_key_value_heads, or with null, every head has its own keys") {
  REQUIRE(growth_of(without(llama(), "num_key_value_heads")).growing == 524'288_B);
  REQUIRE(growth_of(with(llama(), "num_key_value_heads", nullptr)).growing == 524'288_B);
  REQUIRE(growth_of(with(llama(), "head_dim", nullptr)).growing == 131'072_B);
}

TEST_CASE("a text_config is read, with the dtype from above where it has none") {
  Json const config{
      {"model_type", "llava"}, {"text_config", without(llama(), "torch_dtype")}, {"vision_config", {{"num_hidden_layers", 24}}}, {"torch_dtype", "float16"}};
  auto const model = read::hf_config(config, "config.json");
  REQUIRE(growth(model.spec).growing == 131'072_B);
  REQUIRE(model.text_path == "text_config");
  REQUIRE(model.dtype == "float16");
  REQUIRE(refusal_of(with(config, "text_config", without(llama(), "num_hidden_layers"))).field == "text_config.num_hidden_layers");
}

TEST_CASE("a window cuts every layer of a mistral, and none when it is as long as the context") {
  Json const v01 = with(with(with(llama(), "model_type", "mistral"), "sliding_window", 4'096), "max_position_embeddings", 32'768);
  REQUIRE(growth_of(v01).growing == 0_B);
  REQUIRE(growth_of(v01).windowed == 131'072_B);
  REQUIRE(kv_bytes(read::hf_config(v01, "").spec, 100'000_tokens) == 4'096 * 131'072_B);
  REQUIRE(growth_of(with(v01, "sliding_window", 32'768)).growing == 131'072_B);
  REQUIRE(growth_of(with(v01, "sliding_window", 0)).growing == 131'072_B);
}

TEST_CASE("a qwen window is behind its switch, from max_window_layers on") {
  Json const on = with(with(with(with(llama(), "model_type", "qwen2"), "sliding_window", 4'096), "use_sliding_window", true), "max_window_layers", 20);
  REQUIRE(growth_of(on).growing == 20 * 4'096_B);
  REQUIRE(growth_of(on).windowed == 12 * 4'096_B);
  REQUIRE(growth_of(with(on, "use_sliding_window", false)).growing == 131'072_B);
  REQUIRE(growth_of(without(on, "use_sliding_window")).growing == 131'072_B);
}

TEST_CASE("layer_types decide where they are written out") {
  Json types = Json::array();
  for (int i = 0; i < 32; ++i) types.push_back(i % 4 == 3 ? "full_attention" : "sliding_attention");
  Json const mixed = with(with(with(llama(), "model_type", "mistral"), "sliding_window", 1'024), "layer_types", types);
  REQUIRE(growth_of(mixed).growing == 8 * 4'096_B);
  REQUIRE(growth_of(mixed).windowed == 24 * 4'096_B);
  REQUIRE(refusal_of(without(mixed, "sliding_window")).field == "sliding_window");
  REQUIRE(refusal_of(with(mixed, "num_hidden_layers", 31)).field == "layer_types");
  types[5] = "linear_attention";
  REQUIRE(refusal_of(with(mixed, "layer_types", types)).field == "layer_types[5]");
  REQUIRE(refusal_of(with(with(mixed, "model_type", "qwen3"), "use_sliding_window", false)).field == "use_sliding_window");
}

TEST_CASE("the cache's dtype: two bytes for the model's, and what the checkpoint declares beside it") {
  REQUIRE(read::hf_config(llama(), "").notes.empty());
  for (Json const& json : {with(llama(), "torch_dtype", "float32"), without(llama(), "torch_dtype")}) {
    auto const model = read::hf_config(json, "");
    REQUIRE(growth(model.spec).growing == 131'072_B);
    REQUIRE(model.notes.size() == 1);  // it says so
  }
  REQUIRE(refusal_of(with(llama(), "torch_dtype", "int4")).field == "torch_dtype");
  auto const quantised = [](Json scheme) { return with(llama(), "quantization_config", {{"quant_method", "fp8"}, {"kv_cache_scheme", std::move(scheme)}}); };
  for (Json const& scheme : {Json{{"num_bits", 8}, {"type", "float"}, {"dynamic", false}}, Json("FP8")}) {
    auto const model = read::hf_config(quantised(scheme), "");
    REQUIRE(model.declares_cache_dtype);
    REQUIRE(growth(model.spec).growing == 65'536_B);
    REQUIRE(growth(read::hf_config({{"model_type", "llava"}, {"text_config", quantised(scheme)}}, "").spec).growing == 65'536_B);
  }
  REQUIRE(growth_of(quantised(nullptr)).growing == 131'072_B);
  REQUIRE(growth(read::hf_config(with(quantised({{"num_bits", 4}}), "torch_dtype", "int4"), "", {.cache_dtype = q8_0}).spec).growing ==
          32 * 16 * 136_B);  // told, so neither is read
  REQUIRE(refusal_of(quantised({{"num_bits", 4}, {"type", "int"}})).field == "quantization_config.kv_cache_scheme");
}

TEST_CASE("every other model is refused by its model_type and the field that is not understood") {
  auto const unknown = refusal_of(with(with(llama(), "model_type", "deepseek_v3"), "kv_lora_rank", 512));
  REQUIRE(unknown.field == "model_type");
  REQUIRE(unknown.value == "\"deepseek_v3\"");
  REQUIRE(unknown.accepted == "gemma, llama, mistral, mixtral, qwen2, qwen3");
  REQUIRE(unknown.next.find("kv_lora_rank") != std::string::npos);
  auto const field = refusal_of(with(llama(), "kv_lora_rank", 512));
  REQUIRE(field.field == "kv_lora_rank");
  REQUIRE(field.accepted.find("llama") != std::string::npos);
  REQUIRE(refusal_of(without(llama(), "model_type")).field == "model_type");
  REQUIRE(refusal_of(with(llama(), "sliding_window", 4'096)).field == "sliding_window");
}

TEST_CASE("missing, null, text, negative, fractional and absurd numbers are refused by field, value and range") {
  for (std::string const key : {"num_hidden_layers", "num_attention_heads", "hidden_size"}) {
    REQUIRE(refusal_of(without(llama(), key)).value == "missing or null");
    REQUIRE(refusal_of(with(llama(), key, nullptr)).field == key);
    for (Json const& bad : {Json("32"), Json(-1), Json(0), Json(32.5), Json(true), Json(1e30), Json(std::uint64_t{1} << 40), Json::array({32})}) {
      auto const refusal = refusal_of(with(llama(), key, bad));
      REQUIRE(refusal.field == key);
      REQUIRE(refusal.accepted.find("a whole number from 1 to ") == 0);
      REQUIRE_FALSE(refusal.next.empty());
    }
  }
  REQUIRE(refusal_of(with(llama(), "num_key_value_heads", 7)).field == "num_key_value_heads");
  REQUIRE(refusal_of(with(llama(), "hidden_size", 4'097)).field == "hidden_size");
  REQUIRE(refusal_of(with(llama(), "head_dim", -128)).value == "-128");
  REQUIRE(refusal_of(Json::array()).accepted == "a JSON object");
  REQUIRE(refusal_of(with(llama(), "num_hidden_layers", -3)).message() ==
          "config.json: num_hidden_layers is -3; accepted: a whole number from 1 to 512; next: correct the field; text and fractions are not numbers here");
}

TEST_CASE("a directory, an empty file, a missing one and text that is not JSON are refused, each in its own words") {
  Scratch const scratch;
  auto const value = [](std::filesystem::path const& path) { return read::try_hf_config(path).refusal().value; };
  REQUIRE(value(scratch.folder) == "a directory");
  REQUIRE(value(scratch.folder / "absent.json") == "not there");
  REQUIRE(value(scratch.write("empty.json", "")) == "empty");
  REQUIRE(value(scratch.write("blank.json", " \n\t")) == "empty");
  REQUIRE(value(scratch.write("cut.json", "{\"model_type\": ")).find("not JSON (byte ") == 0);
  REQUIRE(value(scratch.write("list.json", "[1, 2]")) == "a list");
  REQUIRE(value(scratch.write("huge.json", "{\"hidden_size\": 1e999}")).find("not usable") == 0);
  REQUIRE_THROWS_AS(read::hf_config(scratch.folder), read::Error);
  REQUIRE(read::try_hf_config(scratch.write("good.json", llama().dump())));
}

TEST_CASE("weights come from the safetensors index beside the config") {
  Scratch const scratch;
  auto const config = scratch.write("config.json", llama().dump());
  REQUIRE_FALSE(read::weights_beside(config));
  scratch.write("model.safetensors.index.json", R"({"metadata": {"total_size": 16060522496}, "weight_map": {}})");
  REQUIRE(read::weights_beside(config) == 16'060'522'496_B);
  scratch.write("model.safetensors.index.json", R"({"metadata": {"total_size": 16060522496.0}})");
  REQUIRE(read::weights_beside(config) == 16'060'522'496_B);
  for (std::string const bad : {R"({"metadata": {}})", R"({})", R"({"metadata": {"total_size": "16 GB"}})", R"({"metadata": {"total_size": -1}})", ""}) {
    scratch.write("model.safetensors.index.json", bad);
    REQUIRE_THROWS_AS(read::weights_beside(config), read::Error);
  }
}

TEST_CASE("the shared configs of these families are exact, and every other one is refused") {
  std::filesystem::path const folder = std::filesystem::path{KVBUDGET_SHARED_DIR} / "hf_configs";
  if (!std::filesystem::exists(folder / "expected.jsonl")) {
    std::cout << "not run: " << folder << " is not here\n";
    return;
  }
  std::ifstream lines{folder / "expected.jsonl"};
  std::size_t exact = 0, refused = 0;
  for (std::string line; std::getline(lines, line);) {
    Json const expected = Json::parse(line);
    auto const model = read::try_hf_config(folder / expected["file"].get<std::string>());
    if (!model) {
      ++refused;
      continue;
    }
    INFO(expected["file"]);
    Growth const got = growth(model->spec);
    REQUIRE(got.growing.count == expected["full_bpt"].get<std::uint64_t>());
    REQUIRE(got.windowed.count == expected.value("sliding_bpt", std::uint64_t{0}));
    REQUIRE(model->spec.layers.size() == expected["layers_total"].get<std::uint64_t>());
    if (!expected["context"].is_null()) REQUIRE(model->context->count == expected["context"].get<std::uint64_t>());
    if (!expected["dtype"].is_null()) REQUIRE(model->dtype == expected["dtype"].get<std::string>());
    ++exact;
  }
  REQUIRE(exact >= 58);
  REQUIRE(refused > 0);
}
