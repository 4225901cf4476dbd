// Where SGLang itself decides by the name of an architecture (facts: sglang.md R2, R4-R6, R9, R10, R26, R47). One row each; an
// architecture without a row is plain attention with one pool, as SGLang takes it.
#pragma once

#include <kvbudget/read/json_fields.hpp>

#include <array>

namespace kvbudget::inline v1::read {

enum class SglangLatent : std::uint8_t { no, yes, with_kv_lora_rank, unless_use_mla_is_false };

/// Which layers slide (R6).
enum class SglangSliding : std::uint8_t {
  no,
  by_layer_types,
  by_layer_types_of_the_layers,  // the list is longer than the model
  three_of_four,                 // all but every fourth, whatever the file says
  by_pattern,                    // hybrid_layer_pattern: 1 slides
  first_layer,
  all_layers
};

/// How the state of linear layers is found (R10).
enum class SglangStates : std::uint8_t { no, gated_delta, falcon_h1, granite, nemotron, kimi, lfm2, jet, no_rule };

struct SglangArchitecture {
  std::string_view name;
  SglangLatent latent{};
  std::uint32_t head_dim{};  // put in place of the file's (R2)
  bool indexed{};            // an indexer, where the file has index_topk (R9)
  SglangSliding sliding{};
  bool needs_window{};  // slides only where the file names a window
  bool own_sliding_shape{};
  bool compressed{};
  bool own_dims_slide{};    // the file's own heads and dims are the sliding layers'; the global_ ones the full layers' (R5)
  bool sparse_index{};      // an index cache beside keys and values (R46)
  bool bf16_when_mxfp4{};   // R8
  bool repeats_loop_num{};  // runs its layers loop_num times (R4)
  SglangStates states{};
  bool ignores_state_dtype{};       // of the file (R11)
  std::uint32_t layers_times{1};    // R4
  std::uint32_t layers_as_draft{};  // R47; 0: num_nextn_predict_layers, else its layers
  bool drafts_itself{};             // R26: the draft path defaults to the model's own
};

inline constexpr SglangArchitecture sglang_architectures[] = {
    // latents
    {.name = "DeepseekV2ForCausalLM", .latent = SglangLatent::yes, .head_dim = 256},
    {.name = "DeepseekV3ForCausalLM", .latent = SglangLatent::yes, .head_dim = 256, .indexed = true, .drafts_itself = true},
    {.name = "DeepseekV32ForCausalLM", .latent = SglangLatent::yes, .head_dim = 256, .indexed = true, .drafts_itself = true},
    {.name = "DeepseekV3ForCausalLMNextN", .latent = SglangLatent::yes, .head_dim = 256, .indexed = true},
    {.name = "Glm4MoeLiteForCausalLM", .latent = SglangLatent::yes, .head_dim = 256, .drafts_itself = true},
    {.name = "Glm4MoeLiteForCausalLMNextN", .latent = SglangLatent::yes, .head_dim = 256},
    {.name = "GlmMoeDsaForCausalLM", .latent = SglangLatent::yes, .head_dim = 256, .indexed = true, .drafts_itself = true},
    {.name = "GlmMoeDsaForCausalLMNextN", .latent = SglangLatent::yes, .head_dim = 256, .indexed = true},
    {.name = "LongcatFlashForCausalLM", .latent = SglangLatent::yes, .head_dim = 256, .indexed = true, .layers_times = 2},
    {.name = "LongcatFlashForCausalLMNextN", .latent = SglangLatent::yes, .head_dim = 256, .indexed = true},
    {.name = "DotsVLMForCausalLM", .latent = SglangLatent::yes, .head_dim = 256},
    {.name = "MistralLarge3ForCausalLM", .latent = SglangLatent::yes, .head_dim = 256, .indexed = true, .drafts_itself = true},
    {.name = "MistralLarge3ForCausalLMEagle", .latent = SglangLatent::yes, .head_dim = 256},
    {.name = "PixtralForConditionalGeneration", .latent = SglangLatent::with_kv_lora_rank, .head_dim = 256, .indexed = true, .drafts_itself = true},
    {.name = "KimiK25ForConditionalGeneration", .latent = SglangLatent::yes, .head_dim = 256},
    {.name = "KimiVLForConditionalGeneration", .latent = SglangLatent::yes, .head_dim = 256},
    {.name = "Eagle3DeepseekV2ForCausalLM", .latent = SglangLatent::yes, .head_dim = 256},
    {.name = "DeepseekVL2ForCausalLM", .latent = SglangLatent::unless_use_mla_is_false, .head_dim = 256},
    {.name = "MiniCPM3ForCausalLM", .latent = SglangLatent::yes, .head_dim = 128},
    {.name = "SarvamMLAForCausalLM", .latent = SglangLatent::yes, .head_dim = 256},
    {.name = "KimiLinearForCausalLM", .latent = SglangLatent::yes, .states = SglangStates::kimi, .ignores_state_dtype = true},
    {.name = "BailingMoeV2_5ForCausalLM", .latent = SglangLatent::yes, .head_dim = 256, .states = SglangStates::no_rule, .drafts_itself = true},
    {.name = "BailingMoeForCausalLMNextN", .latent = SglangLatent::yes, .head_dim = 256},
    // a pool of their own for sliding layers
    {.name = "Llama4ForConditionalGeneration", .sliding = SglangSliding::three_of_four},
    {.name = "GptOssForCausalLM", .sliding = SglangSliding::by_layer_types, .bf16_when_mxfp4 = true},
    {.name = "MiMoV2ForCausalLM", .sliding = SglangSliding::by_pattern, .own_sliding_shape = true},
    {.name = "MiMoV2FlashForCausalLM", .sliding = SglangSliding::by_pattern, .own_sliding_shape = true},
    {.name = "MiMoV2MTP", .sliding = SglangSliding::first_layer, .own_sliding_shape = true},
    {.name = "Step3p5ForCausalLM", .sliding = SglangSliding::by_layer_types_of_the_layers},
    {.name = "Step3p5MTP", .sliding = SglangSliding::first_layer},
    {.name = "Step3p7ForConditionalGeneration", .sliding = SglangSliding::by_layer_types_of_the_layers},
    {.name = "LagunaForCausalLM", .sliding = SglangSliding::by_layer_types, .needs_window = true},
    {.name = "UnlimitedOCRForCausalLM", .sliding = SglangSliding::all_layers},
    {.name = "Gemma4ForCausalLM", .sliding = SglangSliding::by_layer_types, .own_sliding_shape = true, .own_dims_slide = true},
    {.name = "Gemma4ForConditionalGeneration", .sliding = SglangSliding::by_layer_types, .own_sliding_shape = true, .own_dims_slide = true},
    {.name = "Gemma4UnifiedForConditionalGeneration", .sliding = SglangSliding::by_layer_types, .own_sliding_shape = true, .own_dims_slide = true},
    // compressed entries behind a window
    {.name = "DeepseekV4ForCausalLM", .compressed = true, .layers_as_draft = 1, .drafts_itself = true},
    {.name = "DeepseekV4ForCausalLMNextN", .compressed = true},
    {.name = "DeepseekV4ForCausalLMDSpark", .compressed = true},
    // states of linear layers; others that have such layers get no pool for them, and all layers are charged as attention
    {.name = "Qwen3NextForCausalLM", .states = SglangStates::gated_delta, .layers_as_draft = 1},
    {.name = "Qwen3_5ForConditionalGeneration", .states = SglangStates::gated_delta},
    {.name = "Qwen3_5MoeForConditionalGeneration", .states = SglangStates::gated_delta},
    {.name = "InternS2PreviewForConditionalGeneration", .states = SglangStates::gated_delta},
    {.name = "MiniCPMV4_6ForConditionalGeneration", .states = SglangStates::gated_delta},
    {.name = "FalconH1ForCausalLM", .states = SglangStates::falcon_h1},
    {.name = "GraniteMoeHybridForCausalLM", .states = SglangStates::granite, .ignores_state_dtype = true},
    {.name = "NemotronHForCausalLM", .states = SglangStates::nemotron, .layers_as_draft = 1},
    {.name = "NemotronHPuzzleForCausalLM", .states = SglangStates::nemotron, .layers_as_draft = 1},
    {.name = "Lfm2ForCausalLM", .states = SglangStates::lfm2},
    {.name = "Lfm2MoeForCausalLM", .states = SglangStates::lfm2, .ignores_state_dtype = true},
    {.name = "Lfm2VlForConditionalGeneration", .states = SglangStates::lfm2},
    {.name = "JetNemotronForCausalLM", .states = SglangStates::jet},
    {.name = "ZayaForCausalLM", .states = SglangStates::no_rule},
    {.name = "MiniMaxM3SparseForCausalLM", .sparse_index = true},
    {.name = "MiniMaxM3SparseForConditionalGeneration", .sparse_index = true},
    {.name = "IQuestLoopCoderForCausalLM", .repeats_loop_num = true},
    // draft models
    {.name = "Qwen3MoeForCausalLM", .layers_as_draft = 1},
    {.name = "HYV3ForCausalLM", .layers_as_draft = 1, .drafts_itself = true},
    {.name = "ExaoneMoEForCausalLM", .layers_as_draft = 1},
    {.name = "Glm4MoeForCausalLM", .drafts_itself = true},
    {.name = "BailingMoeForCausalLM", .drafts_itself = true},
    {.name = "BailingMoeV2ForCausalLM", .drafts_itself = true},
};

/// Keys that SGLang's configuration classes know by another name (hf_config.md section 2).
struct SglangAlias {
  std::string_view key;
  std::string_view in_file;
  std::array<std::string_view, 10> model_types;
};
inline constexpr SglangAlias sglang_aliases[] = {
    {"num_hidden_layers", "n_layer", {"bloom", "codegen", "gpt2", "gpt_bigcode", "gptj", "phi-msft", "RefinedWeb", "RefinedWebModel"}},
    {"num_hidden_layers", "n_layers", {"dbrx", "hf_olmo", "mpt"}},
    {"num_hidden_layers", "num_layers", {"chatglm", "exaone", "gpt_neo", "longcat_flash"}},
    {"num_attention_heads", "n_head", {"bloom", "codegen", "gpt2", "gpt_bigcode", "gptj", "phi-msft", "RefinedWeb", "RefinedWebModel"}},
    {"num_attention_heads", "n_heads", {"dbrx", "hf_olmo", "mpt"}},
    {"num_attention_heads", "num_heads", {"gpt_neo"}},
    {"hidden_size", "n_embd", {"codegen", "gpt2", "gpt_bigcode", "gptj", "phi-msft"}},
    {"hidden_size", "n_embed", {"bloom"}},
    {"hidden_size", "d_model", {"dbrx", "hf_olmo", "mpt"}},
    {"max_position_embeddings", "n_positions", {"codegen", "gpt2", "gpt_bigcode", "gptj", "phi-msft"}},
    {"max_position_embeddings", "max_seq_len", {"dbrx"}},
};

/// What SGLang's configuration classes put where the file says nothing.
struct SglangDefault {
  std::string_view model_type;
  std::string_view key;
  std::uint64_t value;
  bool only_without_sizes{};  // where a nested config has no sizes at all; a flat file that lacks one is broken
};
inline constexpr SglangDefault sglang_defaults[] = {
    {"step3p5", "max_seq_len", 128'000},
    {"step3p5", "max_position_embeddings", 128'000},
    {"gemma3_text", "num_attention_heads", 8},
    {"gemma3_text", "num_key_value_heads", 4},
    {"gemma3_text", "head_dim", 256},
    {"gemma3_text", "max_position_embeddings", 131'072},
    {"gemma3_text", "num_hidden_layers", 26},
    {"gemma3_text", "hidden_size", 2'304},
    {"llama", "num_hidden_layers", 32, true},
    {"llama", "num_attention_heads", 32, true},
    {"llama", "hidden_size", 4'096, true},
    {"nemotron_h", "num_nextn_predict_layers", 0},
    {"kimi_linear", "num_nextn_predict_layers", 0},
};

/// Step-3.7's class reads a nested text_config only: of a flat file, its own defaults stand.
inline constexpr SglangDefault sglang_step3p7_flat[] = {
    {"step3p7", "num_hidden_layers", 45}, {"step3p7", "num_attention_heads", 64}, {"step3p7", "num_attention_groups", 8},
    {"step3p7", "head_dim", 128},         {"step3p7", "hidden_size", 4'096},      {"step3p7", "max_seq_len", 128'000},
};

}  // namespace kvbudget::inline v1::read
