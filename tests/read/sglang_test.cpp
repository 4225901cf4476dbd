#include "catch.hpp"

#include <kvbudget/read/sglang_model.hpp>

using namespace kvbudget;
using namespace kvbudget::literals;
using read::Json;

namespace {

Json llama() {
  return {{"architectures", {"LlamaForCausalLM"}},
          {"model_type", "llama"},
          {"num_hidden_layers", 32},
          {"hidden_size", 4'096},
          {"num_attention_heads", 32},
          {"num_key_value_heads", 8},
          {"max_position_embeddings", 131'072},
          {"torch_dtype", "bfloat16"}};
}

Json with(Json json, Json const& more) {
  for (auto const& item : more.items()) json[item.key()] = Json(item.value());
  return json;
}

sglang::Model model(Json const& config, read::SglangReadOptions const& options = {}) { return read::sglang_model(config, "config.json", options).model; }

read::Refusal refusal(Json const& config) {
  auto const found = read::attempt([&] { return read::sglang_model(config, "config.json"); });
  REQUIRE_FALSE(found);
  return found.refusal();
}

}  // namespace

TEST_CASE("a plain model is heads, a head's dim, layers and a context") {
  auto const m = model(llama());
  REQUIRE(m.total_kv_heads == 8);
  REQUIRE(m.head_dim == 128);
  REQUIRE(m.value_dim == 128);
  REQUIRE(m.layers() == 32);
  REQUIRE(m.context == 131'072_tokens);
  REQUIRE(m.dtype == sglang::CacheType::bf16);
  REQUIRE_FALSE(m.hybrid_swa);
}

TEST_CASE("a text model is found where SGLang looks for it, and inherits the dtype around it") {
  Json const nested{{"architectures", {"Qwen3VLForConditionalGeneration"}}, {"text_config", llama()}, {"dtype", "float16"}};
  Json inner = nested;
  inner["text_config"].erase("torch_dtype");
  REQUIRE(model(nested).dtype == sglang::CacheType::bf16);
  REQUIRE(model(inner).dtype == sglang::CacheType::fp16);
  Json const thinker{{"architectures", {"Qwen2_5OmniForConditionalGeneration"}}, {"thinker_config", {{"text_config", llama()}}}};
  REQUIRE(model(thinker).layers() == 32);
}

TEST_CASE("KV heads come from the first key that SGLang asks for") {
  REQUIRE(model(with(llama(), {{"multi_query", true}})).total_kv_heads == 1);
  REQUIRE(model(with(llama(), {{"n_head_kv", 4}})).total_kv_heads == 4);
  REQUIRE(model(with(llama(), {{"num_key_value_heads", nullptr}})).total_kv_heads == 32);
  REQUIRE(model(with(llama(), {{"num_key_value_heads", nullptr}, {"multi_query_group_num", 2}})).total_kv_heads == 2);
  REQUIRE(model(with(llama(), {{"model_type", "falcon"}, {"multi_query", true}, {"new_decoder_architecture", true}})).total_kv_heads == 8);
}

TEST_CASE("a context is stretched by the rope's factor unless the file's length has it already") {
  REQUIRE(model(with(llama(), {{"rope_scaling", {{"factor", 2.5}, {"rope_type", "linear"}}}})).context == 327'680_tokens);
  REQUIRE(model(with(llama(), {{"rope_scaling", {{"factor", 8.0}, {"rope_type", "llama3"}}}})).context == 131'072_tokens);
  REQUIRE(model(with(llama(), {{"rope_scaling", {{"factor", 4}, {"original_max_position_embeddings", 4'096}}}})).context == 131'072_tokens);
  REQUIRE(model(with(llama(), {{"max_position_embeddings", nullptr}})).context == 2'048_tokens);
  REQUIRE(model(llama(), {.context_length = 1'000_tokens}).context == 1'000_tokens);
}

TEST_CASE("weights run in float16 where the file names no dtype, and on old devices") {
  REQUIRE(model(with(llama(), {{"torch_dtype", "float32"}})).dtype == sglang::CacheType::fp16);
  REQUIRE(model(with(llama(), {{"torch_dtype", "float32"}, {"model_type", "gemma"}})).dtype == sglang::CacheType::bf16);
  REQUIRE(model(llama(), {.compute_capability = 75}).dtype == sglang::CacheType::fp16);
}

TEST_CASE("a window is credited only to the architectures with a pool for it") {
  Json const types = {"sliding_attention", "full_attention", "sliding_attention", "full_attention"};
  Json const windowed = with(llama(), {{"num_hidden_layers", 4}, {"sliding_window", 128}, {"layer_types", types}});
  REQUIRE_FALSE(model(with(windowed, {{"architectures", {"Gemma3ForCausalLM"}}})).hybrid_swa);
  auto const oss = model(with(windowed, {{"architectures", {"GptOssForCausalLM"}}}), {.window = 127_tokens});
  REQUIRE(oss.hybrid_swa);
  REQUIRE(oss.swa_layers == sglang::LayerIds{0, 2});
  REQUIRE(oss.full_layers == sglang::LayerIds{1, 3});
  REQUIRE(oss.window == 127_tokens);
  REQUIRE(model(with(windowed, {{"architectures", {"GptOssForCausalLM"}}})).window == 128_tokens);
  REQUIRE_FALSE(model(with(windowed, {{"architectures", {"LagunaForCausalLM"}}, {"sliding_window", nullptr}})).hybrid_swa);
  REQUIRE(model(with(windowed, {{"architectures", {"Llama4ForConditionalGeneration"}}})).full_layers == sglang::LayerIds{3});
  REQUIRE(model(with(windowed, {{"is_hybrid_swa", true}, {"hybrid_layer_pattern", {1, 1, 0, 1}}})).full_layers == sglang::LayerIds{2});
}

TEST_CASE("Gemma-4's own numbers are its sliding layers'") {
  Json const gemma = with(llama(), {{"architectures", {"Gemma4ForCausalLM"}},
                                    {"num_hidden_layers", 2},
                                    {"head_dim", 256},
                                    {"global_head_dim", 512},
                                    {"num_global_key_value_heads", 2},
                                    {"sliding_window", 1'024},
                                    {"layer_types", {"sliding_attention", "full_attention"}}});
  auto const m = model(gemma);
  REQUIRE(m.head_dim == 512);
  REQUIRE(m.swa_head_dim == 256);
  REQUIRE(m.total_kv_heads == 2);
  REQUIRE(m.swa_total_kv_heads == 8);
}

TEST_CASE("a hybrid has a pool for states only where SGLang's own classes recognise it") {
  Json const jamba = with(llama(), {{"architectures", {"JambaForCausalLM"}}, {"mamba_d_state", 16}});
  REQUIRE_FALSE(model(jamba).states);
  Json const qwen = with(llama(), {{"architectures", {"Qwen3NextForCausalLM"}},
                                   {"num_hidden_layers", 8},
                                   {"linear_num_value_heads", 32},
                                   {"linear_num_key_heads", 16},
                                   {"linear_value_head_dim", 128},
                                   {"linear_key_head_dim", 128},
                                   {"mamba_ssm_dtype", "bfloat16"}});
  auto const m = model(qwen);
  REQUIRE(m.states->full_layers == sglang::LayerIds{3, 7});
  REQUIRE(m.states->state_type == sglang::CacheType::bf16);
  REQUIRE(model(qwen, {.ssm_dtype = sglang::CacheType::fp32}).states->state_type == sglang::CacheType::fp32);
  Json const nemotron = with(llama(), {{"architectures", {"NemotronHForCausalLM"}},
                                       {"model_type", "nemotron_h"},
                                       {"hybrid_override_pattern", "M-M*E"},
                                       {"mamba_num_heads", 8},
                                       {"mamba_head_dim", 64},
                                       {"n_groups", 8},
                                       {"ssm_state_size", 128},
                                       {"conv_kernel", 4}});
  REQUIRE(model(nemotron).layers() == 5);
  REQUIRE(model(nemotron).states->linear_layers == sglang::LayerIds{0, 2});
}

TEST_CASE("a draft model counts the layers that SGLang charges for it, and some models are their own") {
  sglang::Options const eagle{.speculative_algorithm = sglang::Speculation::eagle};
  auto const target = read::sglang_model(llama(), "config.json");
  REQUIRE_FALSE(read::sglang_draft_layers(target, eagle, nullptr));
  REQUIRE(read::sglang_draft_layers(target, eagle, &target) == 32U);
  REQUIRE_FALSE(read::sglang_draft_layers(target, {}, &target));
  auto const glm = read::sglang_model(with(llama(), {{"architectures", {"Glm4MoeForCausalLM"}}, {"num_nextn_predict_layers", 1}}), "config.json");
  REQUIRE(read::sglang_draft_layers(glm, eagle, nullptr) == 1U);
}

TEST_CASE("older families spell their sizes otherwise, and a nested Llama may leave them to its class") {
  Json const mpt{{"architectures", {"MptForCausalLM"}}, {"model_type", "mpt"}, {"n_layers", 32}, {"n_heads", 32}, {"d_model", 4'096}, {"max_seq_len", 2'048}};
  REQUIRE(model(mpt).layers() == 32);
  REQUIRE(model(mpt).head_dim == 128);
  REQUIRE(model(mpt).total_kv_heads == 32);
  REQUIRE(model(with(mpt, {{"attn_config", {{"kv_n_heads", 8}}}})).total_kv_heads == 8);
  Json const bloom{{"architectures", {"BloomForCausalLM"}}, {"model_type", "bloom"}, {"n_layer", 70}, {"n_head", 112}, {"hidden_size", 14'336}};
  REQUIRE(model(bloom).layers() == 70);
  REQUIRE(model(bloom).total_kv_heads == 112);
  Json const codegen{
      {"architectures", {"CodeGenForCausalLM"}}, {"model_type", "codegen"}, {"n_layer", 32}, {"n_head", 32}, {"n_embd", 2'560}, {"n_positions", 2'048}};
  REQUIRE(model(codegen).head_dim == 80);
  REQUIRE(model(codegen).context == 2'048_tokens);
  Json const llava{{"architectures", {"LlavaForConditionalGeneration"}}, {"text_config", {{"model_type", "llama"}, {"max_position_embeddings", 4'096}}}};
  REQUIRE(model(llava).layers() == 32);
  REQUIRE(model(llava).head_dim == 128);
  REQUIRE(refusal(with(llama(), {{"num_hidden_layers", nullptr}})).field == "num_hidden_layers");
}

TEST_CASE("a kind of layer that SGLang does not know is refused by its place, its name and the names there are") {
  Json const nemotron = with(llama(), {{"architectures", {"NemotronHForCausalLM"}},
                                       {"model_type", "nemotron_h"},
                                       {"layers_block_type", {"mamba", "linear_attention", "full_attention"}},
                                       {"mamba_num_heads", 8},
                                       {"mamba_head_dim", 64},
                                       {"n_groups", 8},
                                       {"ssm_state_size", 128},
                                       {"conv_kernel", 4}});
  REQUIRE(refusal(nemotron).field == "layers_block_type[1]");
  REQUIRE(refusal(nemotron).value == "\"linear_attention\"");
  REQUIRE(refusal(nemotron).accepted == "mamba, attention, mlp, moe");
  Json const oss = with(llama(), {{"architectures", {"GptOssForCausalLM"}}, {"layer_types", {"full_attention", "chunked_attention"}}});
  REQUIRE(refusal(oss).field == "layer_types[1]");
  REQUIRE(refusal(with(oss, {{"architectures", {"Lfm2ForCausalLM"}}, {"conv_L_cache", 3}})).field == "layer_types[1]");
}

TEST_CASE("a context that is told needs no rope to be understood") {
  REQUIRE(model(with(llama(), {{"rope_scaling", {{"factor", "two"}}}}), {.context_length = 1'000_tokens}).context == 1'000_tokens);
}

TEST_CASE("what is not understood is refused with its field") {
  Json nameless = llama();
  nameless.erase("architectures");
  REQUIRE(refusal(nameless).field == "architectures");
  REQUIRE(refusal(with(llama(), {{"num_hidden_layers", -1}})).field == "num_hidden_layers");
  REQUIRE(refusal(with(llama(), {{"num_hidden_layers", 100'000}})).field == "num_hidden_layers");
  REQUIRE(refusal(with(llama(), {{"torch_dtype", "int8"}})).field == "torch_dtype");
  REQUIRE(refusal(with(llama(), {{"num_attention_heads", 0}, {"num_key_value_heads", 8}})).field == "num_attention_heads");
  REQUIRE(refusal(with(llama(), {{"architectures", {"ZayaForCausalLM"}}})).field == "architectures");
  REQUIRE(refusal(with(llama(), {{"architectures", {"DeepseekV3ForCausalLM"}}})).field == "kv_lora_rank");
  REQUIRE(refusal(with(llama(), {{"architectures", {"GptOssForCausalLM"}}})).field == "layer_types");
  REQUIRE(refusal(with(llama(), {{"architectures", {"MiniMaxM3SparseForCausalLM"}}})).field == "sparse_attention_config");
  REQUIRE(refusal(with(llama(), {{"rope_scaling", {{"factor", "two"}}}})).field == "rope_scaling.factor");
  REQUIRE(refusal(Json::array()).accepted == "a JSON object");
}

TEST_CASE("whatever a field holds, a config is read and planned, or refused") {
  Json const types = {"sliding_attention", "full_attention"};
  Json const nemotron{{"hybrid_override_pattern", "M*"}, {"mamba_num_heads", 8}, {"mamba_head_dim", 64}, {"n_groups", 8},
                      {"ssm_state_size", 128},           {"conv_kernel", 4}};
  Json const kimi{{"kv_lora_rank", 512},
                  {"qk_rope_head_dim", 64},
                  {"linear_attn_config", {{"kda_layers", {1}}, {"num_heads", 32}, {"head_dim", 128}, {"short_conv_kernel_size", 4}}}};
  Json const v4{{"head_dim", 512}, {"qk_rope_head_dim", 64}, {"index_head_dim", 128}, {"sliding_window", 128}, {"compress_ratios", {0, 4, 128, 4}}};
  std::vector<Json> const configs{
      llama(),
      with(llama(), {{"architectures", {"GptOssForCausalLM"}}, {"num_hidden_layers", 2}, {"sliding_window", 128}, {"layer_types", types}}),
      with(with(llama(), nemotron), {{"architectures", {"NemotronHForCausalLM"}}, {"model_type", "nemotron_h"}}),
      with(with(llama(), kimi), {{"architectures", {"KimiLinearForCausalLM"}}, {"num_hidden_layers", 2}}),
      with(with(llama(), v4), {{"architectures", {"DeepseekV4ForCausalLM"}}, {"num_hidden_layers", 4}}),
  };
  Json const values{nullptr,        -1,  0, 1, 4'294'967'295U, 18'446'744'073'709'551'615U, 1e300, 0.5, "x", Json::array(), {-1, "y", 5'000'000'000},
                    Json::object(), true};
  std::size_t planned = 0, refused = 0;
  for (auto const& config : configs)
    for (auto const& item : config.items())
      for (auto const& value : values) {
        Json const changed = with(config, {{item.key(), value}});
        auto const found = read::attempt([&] { return read::sglang_model(changed, "config.json"); });
        if (!found) {
          ++refused;
          REQUIRE_FALSE(found.refusal().accepted.empty());
          continue;
        }
        sglang::Options const options{
            .mem_fraction_static = 0.9, .page_size = found->model.compressed ? 256_tokens : 16_tokens, .tp_size = 2, .max_running_requests = 8};
        auto const plan = sglang::plan(found->model, {80_GiB, 70_GiB}, options);
        REQUIRE(plan.refused() == (plan.blocks == 0_blocks));
        ++planned;
      }
  REQUIRE(planned > 100);
  REQUIRE(refused > 200);
}
