// Every line form a server's log is read by: one row each, as the server prints it, with the figures named in braces.
//
//   {Runtime::vllm_v1, "GPU KV cache size: {tokens} tokens"}
// In a form, a blank stands for any run of blanks, none included, and so does the place before a figure; "*" for any text, as little as possible, and not past
// the form's own beginning; <...> is read where it is there; {figure} is a figure of the table below. {figure:2} is one the server rounds to two decimals and
// prints without the zeros at the end (vLLM: "7.0 GiB"); {figure:K} is in units of 1,024 ("4K"). A form that begins with "~" is known by a text that stands in
// other lines as well: where the rest of it does not follow, that is no complaint. The text before the first figure is what a line is known by: a line that
// has it and cannot be read is reported, never skipped. Where several rows begin alike, the first one that reads the line counts. A new form is one more row.
// GB and MB are binary in all of these logs (GB = 2^30: sglang.md R61; llama_cpp.md R4).
#pragma once

#include <cstdint>
#include <string_view>

namespace kvbudget::inline v1::read {

/// Whose line it is. A program that embeds another stands before it, a runtime's generations before what they share.
enum class Runtime : std::uint8_t {
  dynamo,
  ollama,
  ik_llama_cpp,
  llama_cpp,
  vllm_v1,
  vllm_v0,
  vllm,  // either of the two
  sglang,
  tensorrt_llm,
  lmdeploy,
  mlc_llm,
  tgi,
  xllm,
  rtp_llm,
  lightllm,
  freetoken,
  unknown
};

/// What a figure is of.
enum class Quantity : std::uint8_t {
  tokens,      // the cache holds
  blocks,      // on the device
  cpu_blocks,  // or in host memory
  disk_blocks,
  block,               // tokens of a block
  concurrency,         // requests of concurrency_length
  concurrency_length,  // tokens
  available,           // memory for the cache
  needed,              // memory that one request of needed_length would take
  needed_length,
  estimated_length,  // the longest that would fit, the error says
  max_length,        // the longest request taken
  asked_length,      // the one asked for, before the server lowered it
  max_requests,
  device_total,
  device_free,
  total_bytes,  // of one cache
  key_bytes,
  value_bytes,
  latent_bytes,
  key_value_bytes,
  conv_bytes,
  state_bytes,
  draft_state_bytes,
  draft_conv_bytes,
  ple_bytes,
  block_bytes,
  token_bytes,
  bytes_without_cache,
  bytes_with_cache,
  fixed_bytes,
  slots,  // of recurrent states
  window,
  blocks_per_sequence,
  full_tokens,
  swa_tokens,
  c4_tokens,
  c128_tokens,
  c4_states,
  c128_states,
  cells,
  layers,
  sequences,
  streams,
  n_rs_seq,
  ratio,
  state_rows,
  state_width,
  n_ctx,
  n_ctx_seq,
  n_seq_max,
  n_batch,
  n_ubatch,
  device_bytes,  // the buffer of `device`
  device,
  tag,
  dtype,
  key_type,
  value_type,
  kv_unified,
  flash_attn,
  mla_attn,
  padding_layers,
  waste,  // percent
  fraction
};

/// How a figure is written.
enum class Scale : std::uint8_t {
  count,    // a whole number
  bytes,    // a number and a unit, or plain bytes
  decimal,  // a number with decimals, in millionths
  text      // a word
};

struct FigureName {
  std::string_view name;
  Quantity quantity;
  Scale scale;
};

inline constexpr FigureName figure_names[] = {
    {"tokens", Quantity::tokens, Scale::count},
    {"blocks", Quantity::blocks, Scale::count},
    {"cpu_blocks", Quantity::cpu_blocks, Scale::count},
    {"disk_blocks", Quantity::disk_blocks, Scale::count},
    {"block", Quantity::block, Scale::count},
    {"concurrency", Quantity::concurrency, Scale::decimal},
    {"concurrency_length", Quantity::concurrency_length, Scale::count},
    {"available", Quantity::available, Scale::bytes},
    {"needed", Quantity::needed, Scale::bytes},
    {"needed_length", Quantity::needed_length, Scale::count},
    {"estimated_length", Quantity::estimated_length, Scale::count},
    {"max_length", Quantity::max_length, Scale::count},
    {"asked_length", Quantity::asked_length, Scale::count},
    {"max_requests", Quantity::max_requests, Scale::count},
    {"device_total", Quantity::device_total, Scale::bytes},
    {"device_free", Quantity::device_free, Scale::bytes},
    {"total_bytes", Quantity::total_bytes, Scale::bytes},
    {"key_bytes", Quantity::key_bytes, Scale::bytes},
    {"value_bytes", Quantity::value_bytes, Scale::bytes},
    {"latent_bytes", Quantity::latent_bytes, Scale::bytes},
    {"key_value_bytes", Quantity::key_value_bytes, Scale::bytes},
    {"conv_bytes", Quantity::conv_bytes, Scale::bytes},
    {"state_bytes", Quantity::state_bytes, Scale::bytes},
    {"draft_state_bytes", Quantity::draft_state_bytes, Scale::bytes},
    {"draft_conv_bytes", Quantity::draft_conv_bytes, Scale::bytes},
    {"ple_bytes", Quantity::ple_bytes, Scale::bytes},
    {"block_bytes", Quantity::block_bytes, Scale::bytes},
    {"token_bytes", Quantity::token_bytes, Scale::bytes},
    {"token_bytes_decimal", Quantity::token_bytes, Scale::decimal},
    {"bytes_without_cache", Quantity::bytes_without_cache, Scale::bytes},
    {"bytes_with_cache", Quantity::bytes_with_cache, Scale::bytes},
    {"fixed_bytes", Quantity::fixed_bytes, Scale::bytes},
    {"slots", Quantity::slots, Scale::count},
    {"window", Quantity::window, Scale::count},
    {"blocks_per_sequence", Quantity::blocks_per_sequence, Scale::count},
    {"full_tokens", Quantity::full_tokens, Scale::count},
    {"swa_tokens", Quantity::swa_tokens, Scale::count},
    {"c4_tokens", Quantity::c4_tokens, Scale::count},
    {"c128_tokens", Quantity::c128_tokens, Scale::count},
    {"c4_states", Quantity::c4_states, Scale::count},
    {"c128_states", Quantity::c128_states, Scale::count},
    {"cells", Quantity::cells, Scale::count},
    {"layers", Quantity::layers, Scale::count},
    {"sequences", Quantity::sequences, Scale::count},
    {"streams", Quantity::streams, Scale::count},
    {"n_rs_seq", Quantity::n_rs_seq, Scale::count},
    {"ratio", Quantity::ratio, Scale::count},
    {"state_rows", Quantity::state_rows, Scale::count},
    {"state_width", Quantity::state_width, Scale::count},
    {"n_ctx", Quantity::n_ctx, Scale::count},
    {"n_ctx_seq", Quantity::n_ctx_seq, Scale::count},
    {"n_seq_max", Quantity::n_seq_max, Scale::count},
    {"n_batch", Quantity::n_batch, Scale::count},
    {"n_ubatch", Quantity::n_ubatch, Scale::count},
    {"device_bytes", Quantity::device_bytes, Scale::bytes},
    {"device", Quantity::device, Scale::text},
    {"tag", Quantity::tag, Scale::text},
    {"dtype", Quantity::dtype, Scale::text},
    {"key_type", Quantity::key_type, Scale::text},
    {"value_type", Quantity::value_type, Scale::text},
    {"kv_unified", Quantity::kv_unified, Scale::text},
    {"flash_attn", Quantity::flash_attn, Scale::text},
    {"mla_attn", Quantity::mla_attn, Scale::count},
    {"padding_layers", Quantity::padding_layers, Scale::count},
    {"waste", Quantity::waste, Scale::decimal},
    {"fraction", Quantity::fraction, Scale::decimal},
};

struct LogForm {
  Runtime runtime;
  std::string_view text;
};

inline constexpr LogForm log_forms[] = {
    // vLLM V0 (vllm.md J1). The first word is the platform's device.
    {Runtime::vllm_v0, "~# {device} blocks: {blocks}, # CPU blocks: {cpu_blocks}"},
    {Runtime::vllm_v0, "GPU blocks: {blocks}<, # CPU blocks: {cpu_blocks}>"},
    {Runtime::vllm_v0, "~CPU blocks: {cpu_blocks}"},
    {Runtime::vllm_v0, "total_gpu_memory={device_total}"},
    {Runtime::vllm_v0, "kv_cache_size={available}"},
    {Runtime::vllm_v0, "can use total_gpu_memory ({device_total}) x gpu_memory_utilization ({fraction})"},
    {Runtime::vllm_v0, "the rest of the memory reserved for KV Cache is {available}"},
    {Runtime::vllm, "max seq len ({needed_length}) is larger than the maximum number of tokens that can be stored in KV cache ({tokens})"},
    {Runtime::vllm, "~maximum number of tokens that can be stored in KV cache ({tokens})"},
    {Runtime::vllm, "Maximum concurrency for {concurrency_length} tokens per request: {concurrency}x"},

    // vLLM V1 (vllm.md D5, J2, J3): two lines until one line says both.
    {Runtime::vllm_v1, "Available KV cache memory: {available:2}"},
    {Runtime::vllm_v1, "GPU KV cache size: {tokens} tokens"},
    {Runtime::vllm_v1, "~reserved {available:2} memory for KV Cache as specified by kv_cache_memory_bytes"},
    {Runtime::vllm_v1, "~Available memory: {available}, total memory: {device_total}"},  // on Ascend, in bytes
    {Runtime::vllm_v1, "num_gpu_blocks is: {blocks}"},
    {Runtime::vllm, "Overriding num_gpu_blocks=*with num_gpu_blocks_override={blocks}"},
    {Runtime::vllm_v1, "Setting attention block size to {block} tokens"},
    {Runtime::vllm_v1, "~kv cache block size to {block}"},
    {Runtime::vllm_v1, "Padding mamba page size by {waste}%"},
    {Runtime::vllm_v1, "Add {padding_layers} padding layers, may waste at most {waste}%"},
    {Runtime::vllm_v1, "Auto-fit max_model_len: reduced from {asked_length} to {max_length}"},
    // Its errors (vllm.md D6, D7).
    {Runtime::vllm_v1,
     "max seq len ({needed_length}), <(>{needed:2} KV cache is needed, which is larger than the available KV cache memory ({available:2})"
     "<*the estimated maximum model length is {estimated_length}>"},
    {Runtime::vllm_v1, "KV cache is needed*available KV cache memory ({available:2})<*the estimated maximum model length is {estimated_length}>"},

    // SGLang (sglang.md R45, R61): of a hybrid the windows' pool first, then the full one.
    {Runtime::sglang, "KV Cache is allocated.< dtype: {dtype},>< #tokens: {tokens},> K size: {key_bytes}, V size: {value_bytes}"},
    {Runtime::sglang, "KV Cache is allocated.< dtype: {dtype},>< #tokens: {tokens},> KV size: {key_value_bytes}"},
    {Runtime::sglang, "max_total_num_tokens={tokens}<*max_running_requests={max_requests}><*context_len={max_length}><*available_gpu_mem={device_free}>"},
    {Runtime::sglang, "max_total_num_token={tokens}<*context_len={max_length}>"},
    {Runtime::sglang, "liding window memory pool. full_layer_tokens={full_tokens}, swa_layer_tokens={swa_tokens}"},
    {Runtime::sglang, "SWAKVPool mem usage: {total_bytes}, swa size: {swa_tokens}, full size: {full_tokens}"},
    {Runtime::sglang,
     "Mamba Cache is allocated.<*max_mamba_cache_size: {slots},>*conv_state size: {conv_bytes}, ssm_state size: {state_bytes}"
     "< intermediate_ssm_state_cache size: {draft_state_bytes}>< intermediate_conv_window_cache size: {draft_conv_bytes}>"},
    {Runtime::sglang,
     "DSV4 memory calculation: bytes_per_full_token={token_bytes_decimal}, available_bytes={available}, c128_state_fixed={fixed_bytes}<, full_token={tokens}>"},
    {Runtime::sglang,
     "DSV4 pool sizes: full={tokens}, swa={swa_tokens}, c4={c4_tokens}, c128={c128_tokens}<, c4_state={c4_states}><, c128_state={c128_states}>"},
    {Runtime::sglang, "is larger than the profiled value {tokens}"},
    {Runtime::sglang, "Setting max_running_requests to {max_requests}"},
    {Runtime::sglang, "max_running_requests was reduced from*to {max_requests}"},
    {Runtime::sglang, "Memory pool end. avail mem={device_free}"},

    // TensorRT-LLM (other_runtimes.md A18-A22).
    {Runtime::tensorrt_llm, "~total: {device_total}, available: {available}"},
    {Runtime::tensorrt_llm, "Number of blocks in KV cache primary pool: {blocks}"},
    {Runtime::tensorrt_llm, "Number of blocks in KV cache secondary pool: {cpu_blocks}"},
    {Runtime::tensorrt_llm, "Number of tokens per block: {block}"},
    {Runtime::tensorrt_llm,
     "Max KV cache blocks per sequence: {blocks_per_sequence}< [window size={window}]><, tokens per block={block}><, primary blocks={blocks}>"
     "<, secondary blocks={cpu_blocks}>"},
    {Runtime::tensorrt_llm, "Max KV cache pages per sequence: {blocks_per_sequence}"},
    {Runtime::tensorrt_llm, "[windowSize={window}] {.primaryBlocks={blocks}, .secondayBlocks={cpu_blocks}"},
    {Runtime::tensorrt_llm, "[windowSize={window}] {.primaryBlocks={blocks}, .secondaryBlocks={cpu_blocks}"},
    {Runtime::tensorrt_llm, "~Allocated {total_bytes} for max tokens in paged KV cache ({tokens})"},
    {Runtime::tensorrt_llm, "Max tokens in paged KV cache: {tokens}"},
    {Runtime::tensorrt_llm, "~Using {tokens} tokens in paged KV cache"},
    {Runtime::tensorrt_llm, "Using fake cache manager with head_dim=*and num pages: {blocks}"},
    {Runtime::tensorrt_llm, "available KV cache memory when calculating max tokens: {available}<*fraction is set {fraction}><*kv size is {token_bytes}>"},
    {Runtime::tensorrt_llm, "Estimated max tokens in KV cache : {tokens}"},
    {Runtime::tensorrt_llm, "Estimated max memory in KV cache : {total_bytes}"},
    {Runtime::tensorrt_llm, "maxSequenceLen are too large*reduced to {max_length}"},

    // LMDeploy (A25, A26).
    {Runtime::lmdeploy, "[BlockManager] block_size = {block_bytes}"},
    {Runtime::lmdeploy, "[BlockManager] max_block_count = {blocks}"},
    {Runtime::lmdeploy, "Object cache budget: {available} from free {device_free} and ratio {fraction}"},
    {Runtime::lmdeploy, "CacheConfig(max_batches={max_requests}, block_size={block}, num_cpu_blocks={cpu_blocks}, num_gpu_blocks={blocks}"},

    // MLC-LLM (A27-A29), the older compiler's three lines last.
    {Runtime::mlc_llm, "Estimated KVCacheConfig \"max_total_sequence_length\": {tokens}"},
    {Runtime::mlc_llm, "Estimated total single GPU memory usage: {device_total} (Parameters: {bytes_without_cache}. KVCache: {total_bytes}. Temporary buffer:"},
    {Runtime::mlc_llm, "max KV cache token capacity will be set to {tokens}"},
    {Runtime::mlc_llm, "\"max_total_sequence_length\" (max KV cache token capacity) will be set to {tokens}"},
    {Runtime::mlc_llm, "Total memory usage without KV cache: {bytes_without_cache}"},
    {Runtime::mlc_llm, "~KV cache size: {token_bytes} per token in the context window"},
    {Runtime::mlc_llm, "Total memory usage with a {tokens:K} KV cache: {bytes_with_cache}"},

    // TGI (A30).
    {Runtime::tgi, "KV-cache blocks: {blocks}<, size: {block}>"},
    {Runtime::tgi, "Setting max batch total tokens to {tokens}"},

    // xLLM, RTP-LLM, LightLLM (A33-A35), Dynamo's block manager, FreeToken.
    {Runtime::xllm, "kv cache capacity: {total_bytes}, blocks: {blocks}<, slot_size: {token_bytes}>"},
    {Runtime::rtp_llm, "kv cache block nums is {blocks}, allows storing {tokens} tokens"},
    {Runtime::lightllm, "~{tokens} is the profiled max_total_token_num with the mem_fraction {fraction}"},
    {Runtime::dynamo,
     "KVBM Leader block allocation: G1 (GPU)={blocks} blocks, G2 (Host)={cpu_blocks} blocks<, G3 (Disk)={disk_blocks} blocks><, "
     "bytes_per_block={block_bytes}>"},
    {Runtime::freetoken, "KV budget (same {available}): {dtype} {tokens} tok<, {dtype} {tokens} tok>"},

    // llama.cpp (llama_cpp.md R3, R4, R19): caches, then their buffers, then what the context was resolved to.
    {Runtime::llama_cpp,
     "llama_kv_cache: size = {total_bytes} ({cells} cells, {layers} layers, {sequences}</{streams}> seqs)<, K ({key_type}): {key_bytes}>"
     "<, V ({value_type}): {value_bytes}>"},
    {Runtime::llama_cpp,
     "llama_kv_cache_unified: size = {total_bytes} ({cells} cells, {layers} layers, {sequences}</{streams}> seqs)<, K ({key_type}): {key_bytes}>"
     "<, V ({value_type}): {value_bytes}>"},
    {Runtime::llama_cpp,
     "llama_memory_recurrent: size = {total_bytes} ({cells} cells, {layers} layers, {sequences} seqs< {n_rs_seq} rs_seq>)<, R ({key_type}): {conv_bytes}>"
     "<, S ({value_type}): {state_bytes}><, P ({dtype}): {ple_bytes}>"},
    {Runtime::llama_cpp,
     "llama_kv_cache_recurrent: size = {total_bytes} ({cells} cells, {layers} layers, {sequences} seqs)<, R ({key_type}): {conv_bytes}>"
     "<, S ({value_type}): {state_bytes}>"},
    {Runtime::llama_cpp,
     "llama_dsv4_comp_state: {tag} ratio = {ratio}, state = {state_rows} x {state_width}, streams = {streams}, rs_seq = {n_rs_seq}, layers = {layers}, "
     "size = {total_bytes}"},
    {Runtime::llama_cpp, "KV cache, size = {cells} cells"},
    {Runtime::ik_llama_cpp, "KV self size = {total_bytes}, c^KV ({key_type}): {latent_bytes}, kv^T: not used"},
    {Runtime::ik_llama_cpp, "KV self size = {total_bytes}, c^KV ({key_type}): {latent_bytes}, kv^T ({value_type}): {value_bytes}"},
    {Runtime::llama_cpp, "KV self size = {total_bytes}, K ({key_type}): {key_bytes}, V ({value_type}): {value_bytes}"},
    {Runtime::llama_cpp, "KV self size = {total_bytes}"},
    {Runtime::llama_cpp, "kv self size = {total_bytes}"},
    {Runtime::llama_cpp, "kv_size = {cells}, offload = *type_k = '{key_type}', type_v = '{value_type}', n_layer = {layers}"},
    {Runtime::llama_cpp, "~: {device} KV buffer size = {device_bytes}"},
    {Runtime::llama_cpp, "~: {device} RS buffer size = {device_bytes}"},
    {Runtime::llama_cpp, ": n_ctx = {n_ctx}"},
    {Runtime::llama_cpp, ": n_ctx_seq = {n_ctx_seq}"},
    {Runtime::llama_cpp, ": n_ctx_per_seq = {n_ctx_seq}"},
    {Runtime::llama_cpp, ": n_seq_max = {n_seq_max}"},
    {Runtime::llama_cpp, ": n_batch = {n_batch}"},
    {Runtime::llama_cpp, ": n_ubatch = {n_ubatch}"},
    {Runtime::llama_cpp, ": kv_unified = {kv_unified}"},
    {Runtime::llama_cpp, ": flash_attn = {flash_attn}"},
    {Runtime::ik_llama_cpp, ": mla_attn = {mla_attn}"},
    {Runtime::llama_cpp, "n_ctx is not divisible by n_seq_max - rounding down to {n_ctx}"},

    // Ollama: its old estimate and its own engine's caches; its runner prints llama.cpp's lines.
    {Runtime::ollama, "memory.required.kv=\"{total_bytes}\""},
    {Runtime::ollama, "layers.model={layers}"},
    {Runtime::ollama, "msg=\"kv cache\" device={device} size=\"{device_bytes}\""},
    {Runtime::ollama, "KvSize:{n_ctx}"},
};

}  // namespace kvbudget::inline v1::read
