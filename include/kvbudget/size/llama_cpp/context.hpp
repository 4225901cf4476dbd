// The context llama.cpp creates of what is asked for, or why it creates none: R1 to R3 and R12 (facts: llama_cpp.md section 2).
//
//   n_ctx = pad256(n_ctx); unified: all of it for all sequences; else pad256(floor(n_ctx / n_seq)) for each, and n_ctx is their sum
// 8'000 tokens for 3 sequences: 8'192, then 2'816 each, 8'448 in all. The log says "rounding down" although the total went up.
#pragma once

#include <kvbudget/size/llama_cpp/model.hpp>

#include <algorithm>

namespace kvbudget::inline v1::llama_cpp {

inline constexpr std::uint32_t most_sequences = 256;  // LLAMA_MAX_SEQ (R1)

// ---- what is refused (R1, R12) ----

enum class Refusal : std::uint8_t {
  none,
  no_layers,               // value: layers
  no_batch,                // n_batch is 0
  too_many_sequences,      // value: n_seq_max
  no_context,              // neither n_ctx nor the model's own
  context_too_long,        // value: tokens; padded, 32 bits do not hold it
  unknown_type,            // a type without a size
  types_differ,            // MLA and DeepSeek-V4 keep K and V in one type
  k_blocks_do_not_divide,  // value: head_k
  v_blocks_do_not_divide,  // value: head_v
  v_needs_flash_attention,
  row_is_not_whole_blocks  // value: elements of the row
};

struct Refused {
  Refusal why{};
  std::uint64_t value{};
  explicit constexpr operator bool() const { return why != Refusal::none; }
};

// ---- the context (section 2) ----

struct Resolved {
  Tokens n_ctx{};
  Tokens n_ctx_seq{};  // cells of a stream, and the longest sequence
  Tokens n_batch{};
  Tokens n_ubatch{};
  std::uint32_t n_seq{1};
  std::uint32_t streams{1};
  std::uint32_t n_rs_seq{};
  bool flash_attention{};
};

/// R12: auto counts as on; Grok forces it off.
constexpr bool flash_attention(Model const& model, Options const& options) { return options.flash_attn != FlashAttention::off && !model.no_flash_attention; }

/// R3, and R13's n_pad; a release that pads to nothing pads to 1.
constexpr Tokens padding(Release const& release, bool flash_attention) {
  return {std::max(flash_attention ? release.padding : release.padding_without_flash_attention, 1U)};
}

/// R1: as asked for, or as trained.
constexpr Tokens asked_context(Model const& model, Options const& options) { return options.n_ctx != 0 ? Tokens{options.n_ctx} : model.trained; }

/// R1 to R3, and the clamp of R15.
constexpr Resolved resolve(Model const& model, Options const& options) {
  Resolved context{.n_seq = std::max(options.n_seq_max, 1U), .flash_attention = flash_attention(model, options)};
  context.n_ctx = asked_context(model, options);                                                                // R1
  context.n_batch = min(context.n_ctx, Tokens{options.n_batch});                                                // R2, before the padding
  context.n_ubatch = min(context.n_batch, Tokens{options.n_ubatch != 0 ? options.n_ubatch : options.n_batch});  // R2
  Tokens const pad = padding(options.release, context.flash_attention);
  context.n_ctx = context.n_ctx_seq = round_up(context.n_ctx, pad);  // R3
  if (!options.kv_unified && options.release.streams) {
    context.n_ctx_seq = round_up(Tokens{floor_div(context.n_ctx.count, context.n_seq)}, pad);
    context.n_ctx = context.n_ctx_seq * context.n_seq;
    context.streams = context.n_seq;
  }
  context.n_rs_seq = model.rolls_back ? options.n_rs_seq : 0;  // R15
  return context;
}

/// R12: what llama.cpp refuses, in its order.
constexpr Refused refused_types(Model const& model, Options const& options) {
  if (!options.type_k.dtype.is_set() || !options.type_v.dtype.is_set()) return {Refusal::unknown_type};
  if ((model.latents || model.compresses) && options.type_k != options.type_v) return {Refusal::types_differ};
  if (!flash_attention(model, options)) return options.type_v.quantised() ? Refused{Refusal::v_needs_flash_attention} : Refused{};
  for (auto const& layer : model.layers)
    if (!divides(options.type_k.dtype, layer.head_k)) return {Refusal::k_blocks_do_not_divide, layer.head_k};
  for (auto const& layer : model.layers)
    if (!divides(options.type_v.dtype, layer.head_v)) return {Refusal::v_blocks_do_not_divide, layer.head_v};
  return {};
}

/// R1, R12 and what no context can be created from.
constexpr Refused refused(Model const& model, Options const& options) {
  if (model.layers.empty() || model.layers.size() > max_layers) return {Refusal::no_layers, model.layers.size()};
  if (options.n_batch == 0) return {Refusal::no_batch};
  if (options.n_seq_max > most_sequences) return {Refusal::too_many_sequences, options.n_seq_max};
  if (asked_context(model, options) == Tokens{}) return {Refusal::no_context};
  if (Tokens const n_ctx = resolve(model, options).n_ctx; n_ctx > Tokens{0xffff'ffff}) return {Refusal::context_too_long, n_ctx.count};
  return refused_types(model, options);
}

}  // namespace kvbudget::inline v1::llama_cpp
