// One cache of one layer on one rank, as vLLM sees it (its KVCacheSpec): the bytes of a page, which is one block of one layer,
// and the blocks a request of L tokens can need (facts: vllm.md A and B).
//
//   attention page  head slots x stored tokens of a block x content;  content = (K + V) x element      A1
//   mamba page      sum of the state tensors, whatever the block                                      A10
//   full            ceil(ceil(L / dcp) / block)                                                        B1
//   sliding window  ceil(min(W - 1 + extra + F, L) / block) + 1                                        B2
// Llama-3.1-8B: 8 heads x 16 tokens x (128 + 128) x 2 = 65'536 bytes a page; 8'192 blocks for 131'072 tokens.
#pragma once

#include <kvbudget/core/complaint.hpp>
#include <kvbudget/core/footprint.hpp>
#include <kvbudget/size/vllm/cache_dtype.hpp>

namespace kvbudget::inline v1::vllm {

enum class SpecKind : std::uint8_t {
  full_attention,
  mla,
  rswa,
  sink_full_attention,
  hidden_state,
  sliding_window,
  sliding_window_mla,
  chunked_local,
  mamba,
  cross_attention
};

/// What managers treat alike (C1, C2).
enum class BaseKind : std::uint8_t { full, sliding_window, sliding_window_mla, chunked_local, mamba, cross_attention };

constexpr BaseKind base_of(SpecKind kind) {
  switch (kind) {
    case SpecKind::sliding_window:
      return BaseKind::sliding_window;
    case SpecKind::sliding_window_mla:
      return BaseKind::sliding_window_mla;
    case SpecKind::chunked_local:
      return BaseKind::chunked_local;
    case SpecKind::mamba:
      return BaseKind::mamba;
    case SpecKind::cross_attention:
      return BaseKind::cross_attention;
    default:
      return BaseKind::full;
  }
}

/// How states are kept for prefix caching (B5).
enum class MambaMode : std::uint8_t {
  none,   // one state
  align,  // one more, at a block's end
  all     // one for every block
};

struct StateTensor {
  std::uint64_t elements{};
  Element element{};
  std::uint64_t rows{};  // its first dimension: states of one size and different shapes do not merge

  friend constexpr bool operator==(StateTensor const&, StateTensor const&) = default;
};

struct LayerSpec {
  SpecKind kind{};
  Tokens block{16};
  std::uint32_t kv_heads{1};    // local ones (A2)
  std::uint32_t head_slots{};   // 0: as many as KV heads; nvfp4 has two for each (A5)
  std::uint32_t head_size{};    // of K
  std::uint32_t head_size_v{};  // 0 for MLA: V is a view of K
  Element element{};
  CacheDType cache_dtype{};         // automatic: kept as the model has it
  Bytes content{};                  // of a head slot and a stored token; 0: (K + V) x element
  std::uint32_t compress_ratio{1};  // tokens behind a stored one (A9)
  Bytes alignment{};                // the page is rounded up to (A9)
  Bytes padded{};                   // the page as padded; 0: as it comes
  bool by_block_stride{};           // the backend indexes by block stride, so its pages can be padded (C5)
  Tokens window{};
  Tokens extra_retained{};  // B2, multi-module MTP
  Tokens chunk{};
  Tokens rswa_window{};  // sized like full attention all the same (B1)
  Tokens encoder{};      // tokens of the encoder that cross attention holds; 0: as many as it reserves (B6)
  InplaceVector<StateTensor, 4> states{};
  std::uint32_t speculative_blocks{};
  MambaMode mamba_mode{};

  friend constexpr bool operator==(LayerSpec const&, LayerSpec const&) = default;
};

// ---- A: bytes of a page ----

/// A1: bytes of one token in one head slot.
constexpr Bytes content_bytes(LayerSpec const& spec) {
  if (spec.content != Bytes{}) return spec.content;
  return Bytes{bytes_of(spec.element)} * (std::uint64_t{spec.head_size} + spec.head_size_v);
}

/// A9: a block holds a stored token for every `compress_ratio` tokens.
constexpr std::uint64_t stored_tokens(LayerSpec const& spec) { return floor_div(spec.block.count, spec.compress_ratio); }

/// A10: a state's page is all its tensors.
constexpr Bytes state_bytes(LayerSpec const& spec) {
  Bytes sum{};
  for (auto const& tensor : spec.states) sum += Bytes{bytes_of(tensor.element)} * tensor.elements;
  return sum;
}

/// A1, A5: a token in all its head slots.
constexpr Bytes token_bytes(LayerSpec const& spec) { return content_bytes(spec) * (spec.head_slots != 0 ? spec.head_slots : spec.kv_heads); }

/// A1, A9, A10: a page as it comes.
constexpr Bytes unpadded_page(LayerSpec const& spec) {
  if (spec.kind == SpecKind::mamba) return state_bytes(spec);
  return token_bytes(spec) * stored_tokens(spec);
}

/// A9: rounded up to the layer's alignment.
constexpr Bytes aligned_page(LayerSpec const& spec) {
  if (spec.alignment == Bytes{}) return unpadded_page(spec);
  return spec.alignment * ceil_div(unpadded_page(spec), spec.alignment);
}

constexpr Bytes page_bytes(LayerSpec const& spec) { return spec.padded != Bytes{} ? spec.padded : unpadded_page(spec); }

/// Every complaint about a spec: nothing may cost 0 bytes.
constexpr Complaints check(LayerSpec const& spec) {
  Complaints complaints{};
  auto const complain = [&](char const* field, std::uint64_t value, char const* accepted, char const* next) {
    complaints.push_back({field, value, accepted, next});
  };
  bool const windowed = base_of(spec.kind) == BaseKind::sliding_window || base_of(spec.kind) == BaseKind::sliding_window_mla;
  if (spec.block == Tokens{} || spec.block.saturated()) complain(".block", spec.block.count, "1 token or more", "give block_size, for example 16");
  if (spec.compress_ratio == 0) complain(".compress_ratio", 0, "1 token or more behind a stored one", "give 1 where nothing is compressed");
  if (windowed && spec.window == Tokens{}) complain(".window", 0, "1 token or more", "give sliding_window");
  if (spec.kind == SpecKind::chunked_local && spec.chunk == Tokens{}) complain(".chunk", 0, "1 token or more", "give attention_chunk_size");
  if (complaints.empty() && (page_bytes(spec) == Bytes{} || page_bytes(spec).saturated()))
    complain(".page_size_bytes", page_bytes(spec).count, "1 byte or more", "give heads, head sizes and element, or the state's tensors");
  return complaints;
}

// ---- B: the most blocks a request can need ----

/// What the rules of B depend on beside the layer.
struct RequestTerms {
  Tokens in_flight{};  // F, B4
  std::uint32_t decode_context{1};
  Tokens encoder{};  // B6: max_num_encoder_input_tokens
};

/// B1 to B6 as a cache group: most(L) is the rule's number of blocks, and what a request holds on the way there is the group's.
constexpr CacheGroup cache_group(LayerSpec const& spec, RequestTerms const& terms) {
  switch (base_of(spec.kind)) {
    case BaseKind::full:  // B1; every rank keeps its share of each block's tokens (D11)
      return full_group(spec.block * terms.decode_context);
    case BaseKind::sliding_window:
    case BaseKind::sliding_window_mla: {  // B2
      CacheGroup group = window_group(spec.window + spec.extra_retained, spec.block);
      group.bound = {.tokens = spec.window + spec.extra_retained + terms.in_flight - Tokens{1}, .blocks = Blocks{1}};
      return group;
    }
    case BaseKind::chunked_local: {  // B3
      CacheGroup group = chunk_group(spec.chunk, spec.block);
      group.bound = {.tokens = spec.chunk + terms.in_flight};
      return group;
    }
    case BaseKind::mamba: {  // B5
      if (spec.mamba_mode != MambaMode::all) return fixed_group(Blocks{(spec.mamba_mode == MambaMode::none ? 1 : 2) + std::uint64_t{spec.speculative_blocks}});
      CacheGroup group = full_group(spec.block);
      group.bound = {.tokens = Tokens::max(), .blocks = Blocks{spec.speculative_blocks}};
      return group;
    }
    case BaseKind::cross_attention:  // B6
      return fixed_group(blocks_for(terms.encoder, spec.block));
  }
  return fixed_group(Blocks::max());
}

/// B: the most blocks of this layer that a request of `length` tokens can need.
constexpr Blocks blocks_per_request(LayerSpec const& spec, RequestTerms const& terms, Tokens length) { return cache_group(spec, terms).most(length, Tokens{}); }

/// B4: steps that can be in flight at once.
constexpr std::uint64_t concurrent_batches(bool async_scheduling, bool v2_runner, std::uint32_t pipeline) {
  if (!async_scheduling) return pipeline;
  if (v2_runner) return std::uint64_t{pipeline} + 1;
  return pipeline == 1 ? 2 : pipeline;
}

/// B4: --max-num-batched-tokens where it is not given.
constexpr Tokens default_max_num_batched_tokens(Bytes device_memory, bool a100, bool api_server) {
  if (device_memory >= Bytes{std::uint64_t{160} << 30}) return Tokens{16'384};
  if (device_memory >= Bytes{std::uint64_t{70} << 30} && !a100) return Tokens{api_server ? 8'192U : 16'384U};
  return Tokens{api_server ? 2'048U : 8'192U};
}

}  // namespace kvbudget::inline v1::vllm
