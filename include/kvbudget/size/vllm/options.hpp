// vLLM's flags, by their names, and what follows from them alone (facts: vllm.md B4, B6).
#pragma once

#include <kvbudget/core/complaint.hpp>
#include <kvbudget/size/vllm/groups.hpp>

namespace kvbudget::inline v1::vllm {

/// Whose form a printed figure has (J1-J3). What is allocated does not depend on it.
enum class Release : std::uint8_t {
  v0,             // up to 0.9: "# GPU blocks: N, # CPU blocks: M"
  v1_until_0_20,  // V1 up to 0.20.0: tokens = blocks / groups x smallest block
  current         // from 0.20.1 on: tokens = int(concurrency x max_model_len)
};

struct Options {
  Tokens max_model_len{};  // must be given; with auto_fit, the most that is tried
  bool auto_fit{};         // --max-model-len auto (D8)
  std::uint32_t tensor_parallel{1};
  std::uint32_t pipeline_parallel{1};
  std::uint32_t decode_context_parallel{1};
  CacheDType kv_cache_dtype{};
  bool skip_boundary_layers{true};        // A6: turboquant leaves the first and last two layers as they are
  Tokens block_size{};                    // 0: as the attention backend has it (A14)
  Tokens kernel_block{16};                // the backend's smallest block (A13, A14)
  Tokens max_num_batched_tokens{8'192};   // default_max_num_batched_tokens() says vLLM's default for a device
  Tokens max_in_flight_tokens{};          // F; 0: by B4
  Tokens max_num_encoder_input_tokens{};  // 0: max_num_batched_tokens (B6)
  std::uint64_t max_num_seqs{saturated_count};
  bool async_scheduling{true};
  bool v2_model_runner{};  // matters to B4 where pipeline_parallel > 1
  bool enable_prefix_caching{true};
  std::optional<MambaMode> mamba_cache_mode{};     // none given: align with prefix caching, none without (B5)
  std::optional<Element> mamba_cache_dtype{};      // of the convolutions' states; none given: the model's (A10)
  std::optional<Element> mamba_ssm_cache_dtype{};  // of the recurrent ones
  Tokens mamba_chunk{64};                          // of the model's kernels; matters where every block keeps a state (C6)
  std::uint32_t num_speculative_tokens{};
  bool multi_module_mtp{};                         // B2: windows keep num_speculative_tokens - 1 more
  bool disable_hybrid_kv_cache_manager{};          // C0
  bool allow_chunked_local_with_hybrid_manager{};  // VLLM_ALLOW_CHUNKED_LOCAL_ATTN_WITH_HYBRID_KV_CACHE (C0)
  std::optional<Blocks> num_gpu_blocks_override{};
  Tokens prefix_match_unit{};
  bool cross_layers_blocks{};                // D1
  bool pages_by_block_stride{true};          // the backend can pad its pages (C5)
  Bytes swap_space{std::uint64_t{4} << 30};  // J1
  Release release{Release::current};
};

/// Every complaint about flags.
constexpr Complaints check(Options const& options) {
  Complaints complaints{};
  auto const complain = [&](char const* field, std::uint64_t value, char const* accepted, char const* next) {
    complaints.push_back({field, value, accepted, next});
  };
  if (options.max_model_len == Tokens{} || options.max_model_len >= Tokens{std::uint64_t{1} << 40})
    complain(".max_model_len", options.max_model_len.count, "1 token or more", "give --max-model-len, for example the model's context");
  if (options.tensor_parallel == 0 || options.tensor_parallel > 65'535)
    complain(".tensor_parallel", options.tensor_parallel, "1 to 65535 ranks", "give 1 for no tensor parallelism");
  if (options.pipeline_parallel == 0 || options.pipeline_parallel > 65'535)
    complain(".pipeline_parallel", options.pipeline_parallel, "1 stage or more", "give 1 for no pipeline parallelism");
  if (options.decode_context_parallel == 0 || options.decode_context_parallel > 65'535 ||
      (options.tensor_parallel != 0 && options.tensor_parallel % options.decode_context_parallel != 0))
    complain(".decode_context_parallel", options.decode_context_parallel, "a divisor of the tensor-parallel ranks", "give 1 for none");
  if (options.block_size > Tokens{1 << 20}) complain(".block_size", options.block_size.count, "at most 1048576 tokens", "leave it out, or give 16");
  if (options.kernel_block == Tokens{} || options.kernel_block > Tokens{1 << 20})
    complain(".kernel_block", options.kernel_block.count, "1 to 1048576 tokens", "give the attention backend's smallest block: 16, or 64 for FlashMLA");
  if (options.mamba_chunk == Tokens{} || options.mamba_chunk > Tokens{1 << 20})
    complain(".mamba_chunk", options.mamba_chunk.count, "1 to 1048576 tokens", "give the model's chunk_size, for example 256");
  if (options.max_num_batched_tokens == Tokens{})
    complain(".max_num_batched_tokens", 0, "1 token or more", "give --max-num-batched-tokens: a window's size depends on it");
  if (options.num_speculative_tokens > 1'024) complain(".num_speculative_tokens", options.num_speculative_tokens, "at most 1024", "lower it");
  if (options.num_gpu_blocks_override && (*options.num_gpu_blocks_override == Blocks{} || options.num_gpu_blocks_override->count >> 40 != 0))
    complain(".num_gpu_blocks_override", options.num_gpu_blocks_override->count, "1 to 2^40 blocks", "leave it out to size the cache by memory");
  if (options.max_num_seqs == 0) complain(".max_num_seqs", 0, "1 request or more", "give --max-num-seqs, or leave it out");
  return complaints;
}

/// B4: F, the tokens that can be in flight.
constexpr Tokens in_flight_tokens(Options const& options) {
  if (options.max_in_flight_tokens != Tokens{}) return options.max_in_flight_tokens;
  return options.max_num_batched_tokens * concurrent_batches(options.async_scheduling, options.v2_model_runner, options.pipeline_parallel);
}

constexpr RequestTerms request_terms(Options const& options) {
  return {.in_flight = in_flight_tokens(options),
          .decode_context = options.decode_context_parallel,
          .encoder = options.max_num_encoder_input_tokens != Tokens{} ? options.max_num_encoder_input_tokens : options.max_num_batched_tokens};
}

/// B5: how states are kept.
constexpr MambaMode mamba_mode(Options const& options) {
  if (options.mamba_cache_mode) return *options.mamba_cache_mode;
  return options.enable_prefix_caching ? MambaMode::align : MambaMode::none;
}

/// B2: with MTP of several modules, a window keeps the tokens drafted but one.
constexpr Tokens extra_retained(Options const& options) {
  if (!options.multi_module_mtp || options.num_speculative_tokens == 0) return {};
  return {options.num_speculative_tokens - 1};
}

}  // namespace kvbudget::inline v1::vllm
