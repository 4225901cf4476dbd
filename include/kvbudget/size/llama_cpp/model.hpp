// What llama.cpp knows of a model and of a context, as plain data: the input of its sizing rules (facts: llama_cpp.md).
//
// Where llama.cpp decides by architecture (R8 to R11, R14 to R18), a fact stands here instead of a name: read/llama_cpp_model.hpp
// finds the facts of a GGUF file, size/llama_cpp/from_spec.hpp those of a CacheSpec. Cache types are ggml's (section 1):
//   row bytes = elements / elements of a block x bytes of a block;   q8_0 of 128 elements: 128 / 32 x 34 = 136 bytes
#pragma once

#include <kvbudget/core/dtype.hpp>
#include <kvbudget/model/layer.hpp>

#include <optional>
#include <string_view>
#include <vector>

namespace kvbudget::inline v1::llama_cpp {

/// A ggml type, by the name llama.cpp prints. The table is open: a fork's own type is one more of these.
struct CacheType {
  std::string_view name{};
  DType dtype{};

  constexpr bool quantised() const { return dtype.elements_per_group > 1; }
  friend constexpr bool operator==(CacheType, CacheType) = default;
};

namespace types {
inline constexpr CacheType f32{"f32", fp32}, f16{"f16", fp16}, bf16{"bf16", kvbudget::bf16}, q8_0{"q8_0", kvbudget::q8_0}, q5_1{"q5_1", kvbudget::q5_1},
    q5_0{"q5_0", kvbudget::q5_0}, q4_1{"q4_1", kvbudget::q4_1}, q4_0{"q4_0", kvbudget::q4_0}, iq4_nl{"iq4_nl", kvbudget::iq4_nl};
}  // namespace types

/// The nine that --cache-type-k and --cache-type-v take (section 1).
inline constexpr CacheType cache_types[]{types::f32, types::f16, types::bf16, types::q8_0, types::q4_0, types::q4_1, types::iq4_nl, types::q5_0, types::q5_1};

constexpr std::optional<CacheType> cache_type(std::string_view name) {
  for (auto const type : cache_types)
    if (type.name == name) return type;
  return std::nullopt;
}

/// One block of the file.
struct Layer {
  std::uint32_t kv_heads{};  // 0 in a layer that is stored: it counts, and costs nothing (R6)
  std::uint32_t head_k{};    // of the kind of layer it is, sliding or not (R6)
  std::uint32_t head_v{};
  bool attends{true};           // has a row in the attention cache of a main context (R9, R10, R16)
  bool drafts{};                // has one in a draft context of its own (R10)
  bool slides{};                // R14
  bool indexes{};               // has a row in the indexer's cache (R17a, R17b)
  bool recurs{};                // has a row in the recurrent cache (R16)
  std::uint64_t r{}, s{}, p{};  // f32 elements of its states (R15)
  std::uint32_t ratio{};        // tokens behind a compressed entry; 0: none (R17c)
};

/// What a context for drafts stores (R10).
enum class Drafts : std::uint8_t {
  as_main,            // what a main context stores
  nextn,              // the NextN blocks alone, which may slide
  nextn_in_one_cache  // the NextN blocks alone, in one cache, whether they slide or not: beside an indexer
};

struct Model {
  std::vector<Layer> layers{};            // in order, NextN blocks last
  std::uint32_t nextn{};                  // how many of them are NextN blocks (R10)
  Drafts drafts{};                        // R10
  Tokens trained{};                       // the context it was trained for (R1)
  std::optional<std::uint32_t> window{};  // none: no layer slides (R14); 0: those that do keep the tokens of a step
  bool attention{true};                   // has an attention cache
  bool recurrent{};                       // has a recurrent cache
  bool rolls_back{};                      // keeps snapshots of its states for speculative decoding (R15)
  bool latents{};                         // MLA: keys alone (R8)
  std::uint32_t latent{};                 // kv_lora_rank + rope dimensions, where the file has them, even where `latents` is not set (R8)
  std::uint32_t index_width{};            // of an indexer's keys; 0: no indexer (R17)
  bool index_values{};                    // and a V nobody reads beside them: the indexer's model keeps no latents (R17a, R17b)
  bool index_after_dense{};               // MSA: other caches by name, indexers where the model says so in every release (R17b)
  bool compresses{};                      // DeepSeek-V4 (R17c)
  std::uint32_t compressor_width{};       // of its states; 0: as wide as the first layer's keys (R17c)
  bool no_flash_attention{};              // Grok (R12)
  bool no_memory{};                       // encoders and diffusion models (R18)

  constexpr std::uint64_t trunk() const { return layers.size() - (nextn < layers.size() ? nextn : layers.size()); }
};

enum class FlashAttention : std::uint8_t { automatic, on, off };

/// What a context is for: the model itself, or drafts by its NextN blocks.
enum class Context : std::uint8_t { main, mtp };

/// How a release saves room in sliding layers (R13).
enum class Windows : std::uint8_t { padded_last, padded_first, kept_whole };

/// What releases did differently; the default is v0.5.0.
struct Release {
  std::uint32_t padding{256};                          // of n_ctx and of every cache's cells (R3)
  std::uint32_t padding_without_flash_attention{256};  // R3
  bool streams{true};                                  // a stream for each sequence, unless unified (R3)
  Windows windows{Windows::padded_last};               // R13
  bool quantises_windows{true};                        // R13: else sliding caches are f16 where the others are quantised
  bool latents_keep_values{};                          // R8: MLA files stored a V
  bool latents_always{};                               // ik_llama.cpp -mla 1 to 3: latents of files without the *_mla lengths, too
  bool indexes_every_layer{};                          // R17a
  bool index_values{};                                 // R17b: a V beside every indexer's keys that are not of latents
};

inline constexpr Release v0_5_0{};
inline constexpr Release before_pr_28330{.index_values = true};                                                    // 2026-09
inline constexpr Release before_pr_26474{.indexes_every_layer = true, .index_values = true};                       // 2026-08
inline constexpr Release pr_21277{.quantises_windows = false, .indexes_every_layer = true, .index_values = true};  // 2026-04
inline constexpr Release pr_13194{
    .padding_without_flash_attention = 32, .streams = false, .windows = Windows::padded_first, .latents_keep_values = true};  // 2025-05
inline constexpr Release february_2025{.padding_without_flash_attention = 32, .streams = false, .windows = Windows::kept_whole, .latents_keep_values = true};
inline constexpr Release ik_llama_cpp = february_2025;
inline constexpr Release ik_llama_cpp_mla{.padding_without_flash_attention = 32, .streams = false, .windows = Windows::kept_whole, .latents_always = true};

struct Options {
  std::uint32_t n_ctx{512};  // 0: as trained
  std::uint32_t n_seq_max{1};
  std::uint32_t n_batch{2'048};
  std::uint32_t n_ubatch{512};  // 0: as n_batch
  CacheType type_k{types::f16};
  CacheType type_v{types::f16};
  FlashAttention flash_attn{FlashAttention::automatic};
  bool kv_unified{};
  bool swa_full{true};
  std::uint32_t n_rs_seq{};  // snapshots for rollback
  Context context{Context::main};
  Release release{};
};

// R3, the defaults that matter: of the library, of its command-line tools, and of llama-server without -np.
inline constexpr Options library_defaults{};
inline constexpr Options command_line_defaults{.n_ctx = 0, .swa_full = false};
inline constexpr Options server_defaults{.n_ctx = 0, .n_seq_max = 4, .kv_unified = true, .swa_full = false};

/// R3: llama-server -np N; unified only with -kvu.
constexpr Options server_with_slots(std::uint32_t n_parallel, bool kv_unified = false) {
  return {.n_ctx = 0, .n_seq_max = n_parallel, .kv_unified = kv_unified, .swa_full = false};
}

/// R3: llama-server --kv-unified-per-slot N without -c. What 32 bits do not hold is the maximum, which is refused.
constexpr Options server_with_context_per_slot(std::uint32_t n_parallel, std::uint32_t tokens) {
  Options options = server_with_slots(n_parallel, true);
  std::uint64_t const all = std::uint64_t{n_parallel} * tokens;
  options.n_ctx = all > 0xffff'ffff ? 0xffff'ffff : static_cast<std::uint32_t>(all);
  return options;
}

}  // namespace kvbudget::inline v1::llama_cpp
