// The architectures of GGUF files the reader knows: a row each. A new one is a new row.
//
// Rules: facts/llama_cpp.md R8 (latents), R9 (shared tails), R14 (windows), R16 (recurrence), R17 (indexers), R18 (no memory),
// R10 (NextN), R12 (flash attention), R15 (rollback).
#pragma once

#include <cstdint>
#include <string_view>

namespace kvbudget::inline v1::read {

/// When layers slide.
enum class GgufSlides : std::uint8_t { never, always, if_given, unless_zero, of_64_layers };

/// Which layers are recurrent.
enum class GgufRecurs : std::uint8_t { never, always, beside_attention, where_no_heads, where_no_heads_and_no_ff, by_interval };

/// Which layers keep indexer keys.
enum class GgufIndexer : std::uint8_t { none, every_layer, attention_layers, after_dense, full_types };

/// What a context for NextN drafts stores (R10): the NextN blocks alone, the same in one cache whether they slide or not, or what a
/// main context stores.
enum class GgufDrafts : std::uint8_t { nextn, nextn_in_one_cache, as_main };

inline constexpr std::uint32_t gguf_pattern_in_file = 0xffff;    // no default: the file must have it
inline constexpr std::uint32_t gguf_pattern_attention = 0xfffe;  // every block that has attention, whatever the file has
inline constexpr std::uint32_t gguf_pattern_all = 0xfffd;        // every block, whatever the file has

struct GgufArchitecture {
  std::string_view name{};
  GgufSlides slides{};
  std::uint32_t pattern{};         // every pattern-th layer is full; 0: all slide
  bool dense_first{};              // the first of the pattern is full, not the last
  std::uint32_t default_window{};  // where the file has none
  std::uint32_t forced_window{};   // whatever the file has
  bool chunked{};                  // the window is a chunk
  GgufRecurs recurs{};
  std::uint32_t interval{};  // by_interval: every interval-th layer is full
  bool lightning{};          // the state is the key head's width squared for each head
  bool may_keep_latents{};   // MLA, where the file has the *_mla lengths
  GgufIndexer indexer{};
  bool fewer_indexers_when_long{};  // GLM 5.2 and later, known by a context of 2^20: without the key, not every layer's
  bool compresses{};                // DeepSeek-V4
  std::uint32_t from_start{};       // only so many layers keep a cache; the others read theirs
  bool shares_tail{};               // attention.shared_kv_layers of the last ones read an earlier cache
  bool loops{};                     // num_loops
  bool adds_router{};               // one more layer, of one head, that the file does not count (R11)
  bool keeps_nothing{};             // encoders and diffusion models
  GgufDrafts drafts{};              // R10
  bool rolls_back{};                // keeps snapshots of its states for speculative decoding (R15)
  bool no_flash_attention{};        // R12
  bool latent_wide_values{};        // a value is as wide as the latent, whatever value_length says
};

inline constexpr GgufArchitecture gguf_architectures[] = {
    // full attention
    {.name = "apertus"},
    {.name = "arcee"},
    {.name = "arctic"},
    {.name = "baichuan"},
    {.name = "bailingmoe"},
    {.name = "bailingmoe2"},
    {.name = "bitnet"},
    {.name = "bloom"},
    {.name = "chameleon"},
    {.name = "chatglm"},
    {.name = "codeshell"},
    {.name = "cogvlm"},
    {.name = "command-r"},
    {.name = "dbrx"},
    {.name = "deci"},
    {.name = "deepseek"},
    {.name = "dots1"},
    {.name = "ernie4_5"},
    {.name = "ernie4_5-moe"},
    {.name = "exaone"},
    {.name = "falcon"},
    {.name = "gemma"},
    {.name = "glm4"},
    {.name = "glm4moe"},
    {.name = "gpt2"},
    {.name = "gptj"},
    {.name = "gptneox"},
    {.name = "granite"},
    {.name = "granitemoe"},
    {.name = "graniteswitch", .adds_router = true},
    {.name = "grok", .no_flash_attention = true},
    {.name = "grovemoe"},
    {.name = "hrm_text"},
    {.name = "hunyuan-dense"},
    {.name = "hunyuan-moe"},
    {.name = "internlm2"},
    {.name = "jais"},
    {.name = "jais2"},
    {.name = "llama"},
    {.name = "maincoder"},
    {.name = "minicpm"},
    {.name = "minicpm3"},
    {.name = "minimax-m2"},
    {.name = "mistral3"},
    {.name = "mpt"},
    {.name = "nanbeige", .loops = true},
    {.name = "nemotron"},
    {.name = "olmo"},
    {.name = "olmoe"},
    {.name = "openelm"},
    {.name = "orion"},
    {.name = "pangu-embedded"},
    {.name = "persimmon"},
    {.name = "phi2"},
    {.name = "phi3"},
    {.name = "phimoe"},
    {.name = "plamo"},
    {.name = "plm"},
    {.name = "qwen"},
    {.name = "qwen2"},
    {.name = "qwen2moe"},
    {.name = "qwen2vl"},
    {.name = "qwen3"},
    {.name = "qwen3moe"},
    {.name = "qwen3vl"},
    {.name = "qwen3vlmoe"},
    {.name = "refact"},
    {.name = "rnd1", .keeps_nothing = true},
    {.name = "seed_oss"},
    {.name = "smollm3"},
    {.name = "stablelm"},
    {.name = "starcoder"},
    {.name = "starcoder2"},
    {.name = "t5"},
    {.name = "xverse"},
    // windows
    {.name = "afmoe", .slides = GgufSlides::if_given, .pattern = 4},
    {.name = "cohere2", .slides = GgufSlides::always, .pattern = 4},
    {.name = "exaone4", .slides = GgufSlides::of_64_layers, .pattern = 4, .default_window = 4'096},
    {.name = "gemma2", .slides = GgufSlides::always, .pattern = 2, .default_window = 4'096},
    {.name = "gemma3", .slides = GgufSlides::if_given, .pattern = 6},
    {.name = "gemma3n", .slides = GgufSlides::always, .pattern = 5, .from_start = 20},
    {.name = "gemma4", .slides = GgufSlides::always, .pattern = gguf_pattern_in_file, .shares_tail = true},
    {.name = "gpt-oss", .slides = GgufSlides::always, .pattern = 2},
    {.name = "granite_swa", .slides = GgufSlides::always, .pattern = gguf_pattern_in_file},
    {.name = "laguna", .slides = GgufSlides::if_given, .pattern = 4, .dense_first = true},
    {.name = "llama4", .slides = GgufSlides::unless_zero, .pattern = 4, .forced_window = 8'192, .chunked = true},
    {.name = "maple", .slides = GgufSlides::always, .pattern = gguf_pattern_in_file},
    {.name = "mellum", .slides = GgufSlides::if_given, .pattern = 4},
    {.name = "mimo2", .slides = GgufSlides::always, .pattern = gguf_pattern_in_file},
    {.name = "olmo2", .slides = GgufSlides::if_given, .pattern = 4},
    {.name = "olmo3", .slides = GgufSlides::if_given, .pattern = 4},
    {.name = "smallthinker", .slides = GgufSlides::if_given, .pattern = 4, .dense_first = true, .forced_window = 4'096},
    {.name = "step35", .slides = GgufSlides::always, .pattern = gguf_pattern_in_file},
    // latents and indexers
    {.name = "deepseek2", .may_keep_latents = true},
    {.name = "deepseek32", .may_keep_latents = true, .indexer = GgufIndexer::every_layer, .drafts = GgufDrafts::nextn_in_one_cache},
    {.name = "deepseek4", .slides = GgufSlides::always, .pattern = gguf_pattern_all, .compresses = true, .drafts = GgufDrafts::as_main, .rolls_back = true},
    {.name = "dots3note",
     .slides = GgufSlides::always,
     .pattern = gguf_pattern_in_file,
     .may_keep_latents = true,
     .indexer = GgufIndexer::full_types,
     .drafts = GgufDrafts::nextn_in_one_cache},
    {.name = "glm-dsa",
     .may_keep_latents = true,
     .indexer = GgufIndexer::full_types,
     .fewer_indexers_when_long = true,
     .drafts = GgufDrafts::nextn_in_one_cache},
    {.name = "hy_v4", .may_keep_latents = true, .indexer = GgufIndexer::full_types, .drafts = GgufDrafts::as_main},
    {.name = "minimax-m3", .indexer = GgufIndexer::after_dense, .drafts = GgufDrafts::as_main},
    {.name = "mistral4", .may_keep_latents = true},
    // states
    {.name = "arwkv7", .recurs = GgufRecurs::always, .drafts = GgufDrafts::as_main},
    {.name = "bailingmoe3", .recurs = GgufRecurs::where_no_heads, .may_keep_latents = true, .rolls_back = true},
    {.name = "falcon-h1", .recurs = GgufRecurs::beside_attention, .drafts = GgufDrafts::as_main},
    {.name = "granitehybrid", .recurs = GgufRecurs::where_no_heads, .drafts = GgufDrafts::as_main},
    {.name = "jamba", .recurs = GgufRecurs::where_no_heads, .drafts = GgufDrafts::as_main},
    {.name = "kimi-k3",
     .recurs = GgufRecurs::where_no_heads,
     .may_keep_latents = true,
     .drafts = GgufDrafts::as_main,
     .rolls_back = true,
     .latent_wide_values = true},
    {.name = "kimi-linear", .recurs = GgufRecurs::where_no_heads, .may_keep_latents = true, .drafts = GgufDrafts::as_main},
    {.name = "lfm2",
     .slides = GgufSlides::if_given,
     .pattern = gguf_pattern_attention,
     .recurs = GgufRecurs::where_no_heads,
     .drafts = GgufDrafts::as_main,
     .rolls_back = true},
    {.name = "lfm2moe",
     .slides = GgufSlides::if_given,
     .pattern = gguf_pattern_attention,
     .recurs = GgufRecurs::where_no_heads,
     .drafts = GgufDrafts::as_main,
     .rolls_back = true},
    {.name = "mamba", .recurs = GgufRecurs::always, .drafts = GgufDrafts::as_main},
    {.name = "mamba2", .recurs = GgufRecurs::always, .drafts = GgufDrafts::as_main},
    {.name = "minimax-01", .recurs = GgufRecurs::by_interval, .interval = 8, .lightning = true, .drafts = GgufDrafts::as_main},
    {.name = "nemotron_h", .recurs = GgufRecurs::where_no_heads_and_no_ff, .drafts = GgufDrafts::as_main, .rolls_back = true},
    {.name = "nemotron_h_moe", .recurs = GgufRecurs::where_no_heads_and_no_ff, .rolls_back = true},
    {.name = "plamo2", .recurs = GgufRecurs::where_no_heads, .drafts = GgufDrafts::as_main},
    {.name = "qwen35", .recurs = GgufRecurs::by_interval, .interval = 4, .rolls_back = true},
    {.name = "qwen35moe", .recurs = GgufRecurs::by_interval, .interval = 4, .rolls_back = true},
    {.name = "qwen3next", .recurs = GgufRecurs::by_interval, .interval = 4},
    {.name = "qwen4exp",
     .recurs = GgufRecurs::by_interval,
     .interval = 4,
     .indexer = GgufIndexer::attention_layers,
     .drafts = GgufDrafts::as_main,
     .rolls_back = true},
    {.name = "rwkv6", .recurs = GgufRecurs::always, .drafts = GgufDrafts::as_main},
    {.name = "rwkv6qwen2", .recurs = GgufRecurs::always, .drafts = GgufDrafts::as_main},
    {.name = "rwkv7", .recurs = GgufRecurs::always, .drafts = GgufDrafts::as_main},
    // no cache (R18)
    {.name = "bert", .keeps_nothing = true},
    {.name = "dream", .keeps_nothing = true},
    {.name = "gemma-embedding", .keeps_nothing = true},
    {.name = "jina-bert-v2", .keeps_nothing = true},
    {.name = "llada", .keeps_nothing = true},
    {.name = "llada-moe", .keeps_nothing = true},
    {.name = "modern-bert", .keeps_nothing = true},
    {.name = "neo-bert", .keeps_nothing = true},
    {.name = "nomic-bert", .keeps_nothing = true},
    {.name = "nomic-bert-moe", .keeps_nothing = true},
};

}  // namespace kvbudget::inline v1::read
