// Well-known models by name, at two bytes an element; each is held against its published config.json by a test.
//
//   kvbudget::kv_bytes(kvbudget::catalog::llama_3_1_8b, 8'000_tokens)     1'000 MiB
//   auto const* entry = kvbudget::catalog::find("gemma-3-27b");
// Not in the door: include it by name. A model that is not here is a config.json away (read/hf_config.hpp).
#pragma once

#include <kvbudget/model/model_spec.hpp>

#include <string_view>

namespace kvbudget::inline v1::catalog {

inline constexpr ModelSpec llama_2_7b{.layers = 32, .kv_heads = 32, .head_dim = 128, .dtype = bf16};
inline constexpr ModelSpec llama_3_1_8b{.layers = 32, .kv_heads = 8, .head_dim = 128, .dtype = bf16};
inline constexpr ModelSpec llama_3_1_70b{.layers = 80, .kv_heads = 8, .head_dim = 128, .dtype = bf16};
inline constexpr ModelSpec llama_3_1_405b{.layers = 126, .kv_heads = 8, .head_dim = 128, .dtype = bf16};
inline constexpr ModelSpec llama_3_2_1b{.layers = 16, .kv_heads = 8, .head_dim = 64, .dtype = bf16};
inline constexpr ModelSpec llama_3_2_3b{.layers = 28, .kv_heads = 8, .head_dim = 128, .dtype = bf16};
inline constexpr ModelSpec mistral_nemo{.layers = 40, .kv_heads = 8, .head_dim = 128, .dtype = bf16};
inline constexpr ModelSpec mixtral_8x7b{.layers = 32, .kv_heads = 8, .head_dim = 128, .dtype = bf16};
inline constexpr ModelSpec qwen2_5_7b{.layers = 28, .kv_heads = 4, .head_dim = 128, .dtype = bf16};
inline constexpr ModelSpec qwen3_8b{.layers = 36, .kv_heads = 8, .head_dim = 128, .dtype = bf16};
inline constexpr ModelSpec qwen3_14b{.layers = 40, .kv_heads = 8, .head_dim = 128, .dtype = bf16};
inline constexpr ModelSpec qwen3_32b{.layers = 64, .kv_heads = 8, .head_dim = 128, .dtype = bf16};
inline constexpr ModelSpec qwen3_30b_a3b{.layers = 48, .kv_heads = 4, .head_dim = 128, .dtype = bf16};
inline constexpr ModelSpec minimax_m2{.layers = 62, .kv_heads = 8, .head_dim = 128, .dtype = bf16};

inline constexpr CacheSpec mistral_7b_v0_1{.layers = 32 * sliding_window({.kv_heads = 8, .head_dim = 128}, Tokens{4'096}), .dtype = bf16};
inline constexpr CacheSpec gemma_2_27b{
    .layers = cycle(46, {sliding_window({.kv_heads = 16, .head_dim = 128}, Tokens{4'096}), full_attention({.kv_heads = 16, .head_dim = 128})}), .dtype = bf16};
inline constexpr CacheSpec gemma_3_27b{
    .layers = cycle(62, {5 * sliding_window({.kv_heads = 16, .head_dim = 128}, Tokens{1'024}), full_attention({.kv_heads = 16, .head_dim = 128})}),
    .dtype = bf16};
inline constexpr CacheSpec gpt_oss_120b{
    .layers = cycle(36, {sliding_window({.kv_heads = 8, .head_dim = 64}, Tokens{128}), full_attention({.kv_heads = 8, .head_dim = 64})}), .dtype = bf16};
inline constexpr CacheSpec llama_4_scout{
    .layers = cycle(48, {3 * chunked_attention({.kv_heads = 8, .head_dim = 128}, Tokens{8'192}), full_attention({.kv_heads = 8, .head_dim = 128})}),
    .dtype = bf16};
inline constexpr CacheSpec deepseek_v3{.layers = 61 * latent_attention({.latent = 512, .rope = 64}), .dtype = bf16};
inline constexpr CacheSpec deepseek_v3_2{.layers = 61 * with_indexer(latent_attention({.latent = 512, .rope = 64}), 128), .dtype = bf16};
inline constexpr CacheSpec qwen3_next_80b{.layers = cycle(48, {3 * recurrent({.conv = {.heads = 8'192, .width = 3, .dtype = bf16, .keeps_drafts = true},
                                                                              .state = {.heads = 32, .width = 128 * 128, .dtype = bf16}}),
                                                               full_attention({.kv_heads = 2, .head_dim = 256})}),
                                          .dtype = bf16};

struct Entry {
  std::string_view name{};
  CacheSpec spec{};
  Tokens context{};
  std::string_view architecture{};  // its class, by which a runtime may decide
};

inline constexpr Entry entries[] = {
    {"deepseek-v3", deepseek_v3, Tokens{163'840}, "DeepseekV3ForCausalLM"},
    {"deepseek-v3.2", deepseek_v3_2, Tokens{163'840}, "DeepseekV32ForCausalLM"},
    {"gemma-2-27b", gemma_2_27b, Tokens{8'192}, "Gemma2ForCausalLM"},
    {"gemma-3-27b", gemma_3_27b, Tokens{131'072}, "Gemma3ForConditionalGeneration"},
    {"gpt-oss-120b", gpt_oss_120b, Tokens{131'072}, "GptOssForCausalLM"},
    {"llama-2-7b", llama_2_7b, Tokens{4'096}, "LlamaForCausalLM"},
    {"llama-3.1-8b", llama_3_1_8b, Tokens{131'072}, "LlamaForCausalLM"},
    {"llama-3.1-70b", llama_3_1_70b, Tokens{131'072}, "LlamaForCausalLM"},
    {"llama-3.1-405b", llama_3_1_405b, Tokens{131'072}, "LlamaForCausalLM"},
    {"llama-3.2-1b", llama_3_2_1b, Tokens{131'072}, "LlamaForCausalLM"},
    {"llama-3.2-3b", llama_3_2_3b, Tokens{131'072}, "LlamaForCausalLM"},
    {"llama-4-scout", llama_4_scout, Tokens{10'485'760}, "Llama4ForConditionalGeneration"},
    {"minimax-m2", minimax_m2, Tokens{196'608}, "MiniMaxM2ForCausalLM"},
    {"mistral-7b-v0.1", mistral_7b_v0_1, Tokens{32'768}, "MistralForCausalLM"},
    {"mistral-nemo", mistral_nemo, Tokens{131'072}, "MistralForCausalLM"},
    {"mixtral-8x7b", mixtral_8x7b, Tokens{32'768}, "MixtralForCausalLM"},
    {"qwen2.5-7b", qwen2_5_7b, Tokens{32'768}, "Qwen2ForCausalLM"},
    {"qwen3-8b", qwen3_8b, Tokens{40'960}, "Qwen3ForCausalLM"},
    {"qwen3-14b", qwen3_14b, Tokens{40'960}, "Qwen3ForCausalLM"},
    {"qwen3-30b-a3b", qwen3_30b_a3b, Tokens{40'960}, "Qwen3MoeForCausalLM"},
    {"qwen3-32b", qwen3_32b, Tokens{40'960}, "Qwen3ForCausalLM"},
    {"qwen3-next-80b", qwen3_next_80b, Tokens{262'144}, "Qwen3NextForCausalLM"},
};

/// The entry of a name; null where there is none.
constexpr Entry const* find(std::string_view name) {
  for (auto const& entry : entries)
    if (entry.name == name) return &entry;
  return nullptr;
}

}  // namespace kvbudget::inline v1::catalog
