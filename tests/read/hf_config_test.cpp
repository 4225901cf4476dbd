#include "catch.hpp"

#include <kvbudget/read/hf_config.hpp>
#include <kvbudget/size/estimate.hpp>

#include <unistd.h>

#include <filesystem>
#include <fstream>

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

/// A folder that exists as long as this; ctest runs several of these at once.
struct Scratch {
  std::filesystem::path folder = std::filesystem::temp_directory_path() / ("kvbudget_read_" + std::to_string(::getpid()));
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
  REQUIRE(refusal_of(with(config, "text_config", without(with(llama(), "model_type", "mistral"), "num_hidden_layers"))).field ==
          "text_config.num_hidden_layers");
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
  REQUIRE(refusal_of(with(mixed, "num_hidden_layers", 33)).field == "layer_types");
  types[5] = "linear_attention";
  REQUIRE(refusal_of(with(mixed, "layer_types", types)).field == "layer_types[5]");
  REQUIRE(growth_of(with(with(mixed, "model_type", "qwen3"), "use_sliding_window", false)).windowed == 24 * 4'096_B);    // they win over the switch
  REQUIRE(growth_of(with(with(mixed, "num_hidden_layers", 16), "use_sliding_window", false)).windowed == 12 * 4'096_B);  // more entries are MTP blocks
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
  auto const unknown = refusal_of(with(with(llama(), "model_type", "unheard_of"), "kv_lora_rank", 512));
  REQUIRE(unknown.field == "model_type");
  REQUIRE(unknown.value == "\"unheard_of\"");
  REQUIRE(unknown.accepted.find("llama, ") != std::string::npos);
  REQUIRE(unknown.next.find("kv_lora_rank") != std::string::npos);
  auto const field = refusal_of(with(llama(), "kv_lora_rank", 512));
  REQUIRE(field.field == "kv_lora_rank");
  REQUIRE(field.accepted.find("llama") != std::string::npos);
  REQUIRE(refusal_of(without(llama(), "model_type")).field == "model_type");
  REQUIRE(refusal_of(with(llama(), "sliding_window", 4'096)).field == "sliding_window");
  for (std::string const key : {"layers_block_type", "num_kv_shared_layers", "attention_chunk_size", "cross_attention_layers", "block_configs",
                                "total_ut_steps", "use_cla", "multi_query"})
    REQUIRE(refusal_of(with(llama(), key, 4)).field == key);
}

TEST_CASE("a user registers a family of models with a row and a layout") {
  // Two of every three layers slide, with half the KV heads.
  auto const layout = [](read::HfText& text) {
    AttentionShape const full = text.attention();
    AttentionShape const half{.kv_heads = full.kv_heads / 2, .head_dim = full.head_dim};
    return text.each(text.layers(), [&](std::uint64_t i) { return i % 3 == 2 ? full_attention(full) : sliding_window(half, text.window("house_window")); });
  };
  read::HfFamily const rows[]{{.model_type = "house_model", .layout = layout}};
  Json const config = with(with(with(llama(), "model_type", "house_model"), "house_window", 512), "num_hidden_layers", 30);
  REQUIRE_THROWS_AS(read::hf_config(config, ""), read::Error);
  auto const model = read::hf_config(config, "", {.families = rows});
  REQUIRE(model.model_type == "house_model");
  REQUIRE(growth(model.spec).growing == 10 * 4'096_B);
  REQUIRE(growth(model.spec).windowed == 20 * 2'048_B);
  auto const refused = read::attempt([&] { return read::hf_config(with(config, "kv_lora_rank", 512), "", {.families = rows}); });
  REQUIRE(refused.refusal().field == "kv_lora_rank");  // what its layout has not read is refused, too
}

TEST_CASE("class defaults apply where the class has them, and nowhere else") {
  Json const nested{
      {"model_type", "wrapper"},
      {"text_config", {{"model_type", "llama"}, {"num_hidden_layers", 22}, {"num_attention_heads", 32}, {"hidden_size", 2'048}, {"torch_dtype", "bfloat16"}}}};
  REQUIRE(growth_of(nested).growing == 22 * 2 * 2'048 * 2_B);  // hidden / heads and a KV head each, not LlamaConfig's 128 and 32
  Json const gemma{{"model_type", "gemma3_text"}, {"num_hidden_layers", 26}, {"hidden_size", 1'152},
                   {"num_key_value_heads", 1},    {"sliding_window", 512},   {"torch_dtype", "bfloat16"}};
  REQUIRE(growth_of(gemma).growing == 4 * 2 * 256 * 2_B);  // Gemma3TextConfig's head_dim of 256, flat as well
  Json const untyped{{"model_type", "llama4"},
                     {"text_config", {{"num_hidden_layers", 4}, {"num_attention_heads", 8}, {"hidden_size", 512}, {"attention_chunk_size", 128}}}};
  REQUIRE(growth_of(untyped).windowed == 3 * 2 * 512 * 2_B);  // the wrapper tells the type
}

TEST_CASE("a window that is switched off or 0 is none, and one beside full layers is no contradiction") {
  Json const window = with(with(llama(), "sliding_window", 4'096), "max_position_embeddings", 32'768);
  for (std::string const type : {"mistral", "mixtral", "phi3", "starcoder2", "exaone4"}) {
    REQUIRE(growth_of(with(with(window, "model_type", type), "use_sliding_window", false)).growing == 131'072_B);
    REQUIRE(growth_of(with(window, "model_type", type)).windowed > 0_B);
  }
  REQUIRE(growth_of(with(llama(), "sliding_window", 0)).growing == 131'072_B);
  Json const full = with(with(window, "model_type", "gemma2"), "layer_types", Json(std::vector<std::string>(32, "full_attention")));
  REQUIRE(growth_of(full).growing == 131'072_B);
}

TEST_CASE("what a list or a size leaves out, contradicts or overflows is refused by field") {
  auto const mla = with(with(with(llama(), "model_type", "deepseek_v3"), "kv_lora_rank", 512), "qk_rope_head_dim", 64);
  REQUIRE(growth_of(mla).growing == 32 * 1'152_B);
  REQUIRE(refusal_of(without(mla, "qk_rope_head_dim")).field == "qk_rope_head_dim");
  REQUIRE(growth_of(with(with(mla, "index_topk", 8), "index_head_dim", 64)).growing == 32 * (1'152_B + 64_B));  // no scale below 128
  REQUIRE(refusal_of(with(with(llama(), "model_type", "ouro"), "total_ut_steps", 20)).field == ".layers");
  Json const shared =
      with(with(with(llama(), "model_type", "gemma3n_text"), "layer_types", Json(std::vector<std::string>(32, "full_attention"))), "num_kv_shared_layers", 31);
  REQUIRE(growth_of(shared).growing == 4'096_B);
  REQUIRE(refusal_of(with(shared, "num_kv_shared_layers", 32)).field == "num_kv_shared_layers");  // nobody's cache to read: never 0 bytes
  Json const idle{{"model_type", "nemotron-nas"}, {"num_attention_heads", 4}, {"hidden_size", 64}, {"block_configs", {{{"attention", {{"no_op", true}}}}}}};
  REQUIRE(refusal_of(idle).field == "model_type");
  REQUIRE(refusal_of({{"model_type", "t5"}, {"num_heads", 8}, {"d_kv", 64}}).field == "num_hidden_layers");
  REQUIRE(refusal_of(with(with(llama(), "model_type", "chatglm"), "multi_query_attention", true)).field == "multi_query_group_num");
  REQUIRE(refusal_of(with(with(llama(), "model_type", "step3_text"), "head_dim", 256)).field == "num_attention_groups");
  REQUIRE(refusal_of(with(with(llama(), "model_type", "mllama_text_model"), "cross_attention_layers", {3, 40})).field == "cross_attention_layers");
  REQUIRE(refusal_of({{"model_type", "whisper"}, {"decoder_layers", 4}, {"decoder_attention_heads", 7}, {"d_model", 384}}).field == "d_model");
  REQUIRE(refusal_of({{"model_type", "falcon_mamba"}, {"num_hidden_layers", 4}, {"hidden_size", 64}, {"intermediate_size", 0}}).field == ".head_dim");
  REQUIRE(
      read::hf_config({{"model_type", "whisper"}, {"decoder_layers", 4}, {"decoder_attention_heads", 6}, {"d_model", 384}, {"max_target_positions", 448}}, "")
          .encoder_tokens == 1'500_tokens);
}

TEST_CASE("Python's Infinity and NaN are read as null, also beside strings that spell them") {
  Scratch const scratch;
  auto const path = scratch.write(
      "config.json",
      R"({"model_type": "llama", "time_step_limit": [0.0, Infinity, -Infinity, NaN, 1e999], "note": "a \"NaN\" and Infinity", "num_hidden_layers": 2,
    "hidden_size": 64, "num_attention_heads": 1, "head_dim": NaN, "torch_dtype": "bfloat16"})");
  REQUIRE(growth(read::hf_config(path).spec).growing == 512_B);
  REQUIRE(read::without_non_numbers(R"(["NaN", NaN, -Infinity, 1e400, 1e4, "\\", Infinity])") == R"(["NaN", null, null, null, 1e4, "\\", null])");
}

TEST_CASE("nested text models are found where each kind of file nests them, and never in the vision tower") {
  for (std::string const path : {"text_config", "llm_config", "language_config", "llm_cfg"}) {
    auto const model = read::hf_config({{"model_type", "wrapper"}, {path, llama()}, {"vision_config", {{"num_hidden_layers", 99}, {"model_type", "vit"}}}}, "");
    REQUIRE(model.text_path == path);
    REQUIRE(growth(model.spec).growing == 131'072_B);
  }
  auto const thinker = read::hf_config({{"model_type", "wrapper"}, {"thinker_config", {{"text_config", llama()}}}}, "");
  REQUIRE(thinker.text_path == "thinker_config.text_config");
  // A nested config is written as its differences from the class's defaults: llava-1.5 has no sizes at all.
  REQUIRE(growth(read::hf_config({{"model_type", "llava"}, {"text_config", {{"model_type", "llama"}, {"torch_dtype", "float16"}}}}, "").spec).growing ==
          524'288_B);
  REQUIRE(refusal_of({{"model_type", "llama"}}).field == "num_attention_heads");  // at the top nothing is filled in
}

TEST_CASE("MTP blocks are kept apart, and a quantised cache may be declared beside the config") {
  auto const model = read::hf_config(with(with(llama(), "model_type", "minimax_m2"), "num_mtp_modules", 3), "");
  REQUIRE(model.spec.layers.size() == 32);
  REQUIRE(model.draft_layers.size() == 3);
  REQUIRE(model.draft_layers[0].draft);
  Scratch const scratch;
  auto const path = scratch.write("config.json", llama().dump());
  scratch.write("hf_quant_config.json", R"({"quantization": {"quant_algo": "NVFP4", "kv_cache_quant_algo": "FP8"}})");
  REQUIRE(growth(read::hf_config(path).spec).growing == 65'536_B);
  scratch.write("hf_quant_config.json", R"({"quantization": {"quant_algo": "NVFP4", "kv_cache_quant_algo": null}})");
  REQUIRE(growth(read::hf_config(path).spec).growing == 131'072_B);
  scratch.write("hf_quant_config.json", R"({"quantization": {"kv_cache_quant_algo": "FP3"}})");
  REQUIRE(read::try_hf_config(path).refusal().value == "\"FP3\"");
}

TEST_CASE("state dtypes are the file's, or the caller's, or the runtime's default") {
  Json const next{{"model_type", "qwen3_next"},   {"num_hidden_layers", 4},       {"hidden_size", 2'048},
                  {"num_attention_heads", 16},    {"num_key_value_heads", 2},     {"head_dim", 256},
                  {"linear_num_key_heads", 16},   {"linear_num_value_heads", 32}, {"linear_key_head_dim", 128},
                  {"linear_value_head_dim", 128}, {"linear_conv_kernel_dim", 4},  {"torch_dtype", "bfloat16"}};
  Bytes const conv{3 * 3 * 8'192 * 2}, state{3 * 32 * 128 * 128};
  REQUIRE(growth_of(next).fixed == conv + state * 2);
  REQUIRE(growth(read::hf_config(next, "", {.state_dtype = fp32}).spec).fixed == conv + state * 4);
  REQUIRE(growth_of(with(next, "mamba_ssm_dtype", "float32")).fixed == conv + state * 4);
  REQUIRE(growth(read::hf_config(next, "", {.cache_dtype = fp8}).spec).fixed == conv + state * 2);  // quantising the cache leaves states alone
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
