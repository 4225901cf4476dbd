// The sizing rules of LMDeploy, MLC-LLM, TGI, xLLM, RTP-LLM, LightLLM and mini-sglang: facts/other_runtimes.md A25-A36, in that order.
//
// Each is a function from bytes to bytes, blocks or tokens. They differ in what is subtracted, where a number is cut to an integer, and
// which blocks are never handed out; the cost of a token is the model's own everywhere (bytes_per_token, or a token of a rank's spec).
// lmdeploy::block_bytes(512 KiB a token, 128_tokens) is 64 MiB, as TurboMind prints it for a 7B model without grouped heads.
// Shares are exact here; where a runtime multiplies in floating point, and rounding could show, the function says so and does, too.
#pragma once

#include <kvbudget/size/capacity.hpp>
#include <kvbudget/size/in_double.hpp>

namespace kvbudget::inline v1 {

namespace lmdeploy {

/// A25, TurboMind: a share of what is free when the engine is made, of the rank with least. `free` is that rank's.
constexpr Bytes cache_bytes(Bytes free, Percent max_entry_count = Percent{80}) { return share_down(max_entry_count, free); }

/// A25: the bytes of a block; under context parallelism a block is as many tokens for each rank.
constexpr Bytes block_bytes(Bytes token, Tokens block = Tokens{64}) { return token * block.count; }

struct PytorchOptions {
  std::uint64_t max_prefill_tokens{4'096};
  std::uint64_t max_batches{128};
  std::uint64_t vocabulary{};
  Percent max_entry_count{80};
};

/// A26: what a step takes, two bytes an element: all logits of a prefill, and of two tokens of every sequence.
constexpr Bytes runtime_bytes(PytorchOptions const& options) {
  return Bytes{options.max_prefill_tokens} * options.vocabulary * 2 + Bytes{options.max_batches} * 2 * options.vocabulary * 2;
}

struct PytorchBlocks {
  Blocks blocks{};
  std::uint64_t max_prefill_tokens{};  // as it was halved to make room
};

/// A26, PyTorch engine: the prefill is halved until 16 blocks fit. 2 blocks or fewer are refused by the engine: none here.
constexpr PytorchBlocks pytorch_blocks(Bytes free, Bytes block, PytorchOptions options) {
  auto const fit = [&] { return floor_div(share_down(options.max_entry_count, free - runtime_bytes(options)), block); };
  while (options.max_prefill_tokens > 1 && fit() < 16) options.max_prefill_tokens /= 2;
  Blocks const blocks{fit()};
  return {blocks > Blocks{2} ? blocks : Blocks{}, options.max_prefill_tokens};
}

}  // namespace lmdeploy

namespace mlc_llm {

/// A27: keys and values in fp16, and 1.25 bytes of page table a token. In double, as in the runtime.
constexpr double token_bytes(double key_value_bytes) { return key_value_bytes + 1.25; }

struct Sizes {
  Bytes parameters{};  // of a rank
  Bytes temporary{};
  std::uint64_t max_sequences{};
  std::uint64_t prefill_chunk{};
  std::uint64_t heads{};     // query heads
  std::uint64_t kv_heads{};  // of a rank
  std::uint64_t head_dim{};
  std::uint64_t hidden{};
  std::uint64_t vocabulary{};
};

/// A27: auxiliary buffers of the cache, the workspace of a prefill, the logits.
constexpr double auxiliary_bytes(Sizes const& of) {
  double const sequences = in_double(of.max_sequences), chunk = in_double(of.prefill_chunk);
  double const queries = in_double(of.heads), keys = in_double(of.kv_heads);
  return (sequences + 1) * 88 + chunk * (queries + 1) * 8 + chunk * in_double(of.head_dim) * (queries + keys) * 4 + 48 * 0x1p20;
}
constexpr double workspace_bytes(Sizes const& of) {
  double const sequences = in_double(of.max_sequences), chunk = in_double(of.prefill_chunk);
  return chunk * 4 + sequences * 4 + (2 * chunk + sequences) * in_double(of.hidden) * 2;
}
constexpr double logits_bytes(Sizes const& of) { return in_double(of.max_sequences) * 20 + in_double(of.max_sequences) * in_double(of.vocabulary) * 16.125; }

/// A28: tokens in 85% of the device, beside all that; on Metal at most 32'768.
constexpr Tokens max_total_tokens(Bytes device, Bytes key_value_bytes, Sizes const& of, bool metal = false) {
  double const left = in_double(device.count) * 0.85 - in_double(of.parameters.count) - in_double(of.temporary.count) * 2 - auxiliary_bytes(of) -
                      workspace_bytes(of) - logits_bytes(of);
  Tokens const tokens{cut_to_whole(left / token_bytes(in_double(key_value_bytes.count)))};
  return metal ? min(tokens, Tokens{32'768}) : tokens;
}

enum class Mode : std::uint8_t { local, interactive, server };

/// A29: the sequences and the tokens a mode takes of that.
constexpr std::uint64_t sequences(Mode mode, std::uint64_t of_server) { return mode == Mode::local ? 4 : mode == Mode::interactive ? 1 : of_server; }
constexpr Tokens total_tokens(Mode mode, Tokens max_total, Tokens longest, std::uint64_t of_server) {
  if (mode == Mode::local) return min(max_total, min(longest, Tokens{8'192}));
  return min(max_total, longest * sequences(mode, of_server));
}

}  // namespace mlc_llm

namespace tgi {

/// A30: after a warm-up prefill, whole blocks in 90% of the free memory's fraction, and the warm-up's own.
constexpr Blocks blocks(Bytes free, Bytes block, Blocks of_warmup = {}, Percent memory_fraction = Percent{100}) {
  return Blocks{floor_div(share_down(Percent{90}, share_down(memory_fraction, free)), block)} + of_warmup;
}

/// A31: what a request may have, prompt and output. The block kept for health checks is not taken off here, though it is never given.
constexpr Tokens max_total_tokens(Blocks blocks, Tokens block, Tokens tokenizer_limit, Tokens max_position) {
  return min(block * blocks.count, min(tokenizer_limit, max_position));
}
inline constexpr Blocks sentinels{1};

}  // namespace tgi

namespace xllm {

/// A33: what is available beside the part of the whole device that stays free, at most the limit; of the worker with least.
constexpr Bytes cache_bytes(Bytes available, Bytes total, Percent max_memory_utilization = Percent{80}, Bytes max_cache = Bytes::max()) {
  return min(available - (total - share_down(max_memory_utilization, total)), max_cache);
}
inline constexpr Blocks sentinels{1};

}  // namespace xllm

namespace rtp_llm {

/// A34: the largest of 2 GiB, 5% of the device, what is asked for and the warm-up's peak stays free, and the sampler's room.
constexpr Bytes reserve(Bytes device, Bytes asked, Bytes warmup_peak, std::uint64_t max_batch, std::uint64_t vocabulary) {
  Bytes const floor = max(Bytes{std::uint64_t{2} << 30}, share_down(Percent{5}, device));
  return max(floor, max(asked, warmup_peak)) + Bytes{32} * max_batch * vocabulary;
}

/// A34: the most blocks n with explicit + n x paged + ceil(n / step) x window <= budget.
constexpr Blocks blocks(Bytes budget, Bytes of_explicit, Bytes paged, std::uint64_t step, Bytes window) {
  auto const need = [&](std::uint64_t n) { return of_explicit + paged * n + (window == Bytes{} ? Bytes{} : window * ceil_div(n, step)); };
  std::uint64_t low = 0, high = floor_div(budget, paged);
  while (low < high) {
    std::uint64_t const middle = low + (high - low + 1) / 2;
    if (need(middle) <= budget)
      low = middle;
    else
      high = middle - 1;
  }
  return {low};
}

}  // namespace rtp_llm

namespace lightllm {

/// A35: whole tokens in what is free beside the part of the device that stays so; of the rank with fewest. One slot more is held.
constexpr Tokens max_total_tokens(Bytes free, Bytes total, Bytes token, Percent mem_fraction = Percent{90}) {
  return {floor_div(free - (total - share_down(mem_fraction, total)), token)};
}
inline constexpr Blocks held_slots{1};

}  // namespace lightllm

namespace mini_sglang {

/// A36: whole pages in a share of what was free before the weights, less the weights; one dummy page more is allocated.
constexpr Blocks pages(Bytes free_before, Bytes weights, Bytes page, Percent memory_ratio) {
  return {floor_div(share_down(memory_ratio, free_before) - weights, page)};
}
inline constexpr Blocks dummy_pages{1};

}  // namespace mini_sglang

}  // namespace kvbudget::inline v1
