// What llama.cpp prints of its caches, line by line, and why it creates no context.
//
//   llama_kv_cache: size =  512.00 MiB (  4096 cells,  32 layers,  1/1 seqs), K (f16):  256.00 MiB, V (f16):  256.00 MiB
// MiB are bytes as float32, divided by 2^20, in "%7.2f" (facts: llama_cpp.md R4): floating point because llama.cpp uses it.
#pragma once

#include <kvbudget/size/llama_cpp.hpp>
#include <kvbudget/write/format.hpp>

namespace kvbudget::inline v1::llama_cpp {

constexpr std::string_view name_of(CacheKind kind) {
  switch (kind) {
    case CacheKind::attention:
      return "attn";
    case CacheKind::recurrent:
      return "recurrent";
    case CacheKind::compressor_state:
      return "dsv4_state";
  }
  return "unknown";
}

constexpr std::string_view name_of(Role role) {
  switch (role) {
    case Role::main:
      return "main";
    case Role::sliding:
      return "sliding";
    case Role::indexer:
      return "indexer";
    case Role::recurrent:
      return "recurrent";
    case Role::csa:
    case Role::csa_state:
      return "csa";
    case Role::hca:
    case Role::hca_state:
      return "hca";
    case Role::lid:
    case Role::lid_state:
      return "lid";
  }
  return "unknown";
}

constexpr std::string_view name_of(TensorKind kind) {
  switch (kind) {
    case TensorKind::k:
      return "K";
    case TensorKind::v:
      return "V";
    case TensorKind::r:
      return "R";
    case TensorKind::s:
      return "S";
    case TensorKind::p:
      return "P";
    case TensorKind::compressor:
      return "compressor";
  }
  return "unknown";
}

constexpr std::string_view name_of(Layout layout) {
  switch (layout) {
    case Layout::plain:
      return "plain";
    case Layout::windows:
      return "windows";
    case Layout::indexed:
      return "indexed";
    case Layout::indexed_windows:
      return "indexed_windows";
    case Layout::indexed_with_values:
      return "indexed_with_values";
    case Layout::compressed:
      return "compressed";
  }
  return "unknown";
}

/// As -fa takes them.
constexpr std::string_view name_of(FlashAttention flash_attention) {
  switch (flash_attention) {
    case FlashAttention::automatic:
      return "auto";
    case FlashAttention::on:
      return "on";
    case FlashAttention::off:
      return "off";
  }
  return "unknown";
}

constexpr std::string_view name_of(Context context) { return context == Context::mtp ? "mtp" : "default"; }

constexpr std::string_view name_of(Refusal refusal) {
  switch (refusal) {
    case Refusal::none:
      return "none";
    case Refusal::no_layers:
      return "no_layers";
    case Refusal::no_batch:
      return "no_batch";
    case Refusal::too_many_sequences:
      return "too_many_sequences";
    case Refusal::no_context:
      return "no_context";
    case Refusal::context_too_long:
      return "context_too_long";
    case Refusal::unknown_type:
      return "unknown_type";
    case Refusal::types_differ:
      return "types_differ";
    case Refusal::k_blocks_do_not_divide:
      return "k_blocks_do_not_divide";
    case Refusal::v_blocks_do_not_divide:
      return "v_blocks_do_not_divide";
    case Refusal::v_needs_flash_attention:
      return "v_needs_flash_attention";
    case Refusal::row_is_not_whole_blocks:
      return "row_is_not_whole_blocks";
  }
  return "unknown";
}

namespace detail {
inline std::string listed_types() {
  std::string names;
  for (auto const& type : cache_types) names += (names.empty() ? "" : ", ") + std::string{type.name};
  return names;
}
}  // namespace detail

/// R4, without what fills it up to seven characters.
inline std::string printed_mib(Bytes bytes) { return fmt::format("{:.2f}", static_cast<double>(static_cast<float>(bytes.count) / 1'048'576.0F)); }

/// Why there is no context: in llama.cpp's own words where it has some, and in ours what to do.
inline std::string message(Plan const& plan) {
  auto const& [why, value] = plan.refused;
  auto const& type_k = plan.asked.type_k;
  auto const& type_v = plan.asked.type_v;
  switch (why) {
    case Refusal::none:
      return {};
    case Refusal::types_differ:
      return fmt::format("model does not support different K ({}) and V ({}) cache types", type_k.name, type_v.name);
    case Refusal::k_blocks_do_not_divide:
      return fmt::format("K cache type {} with block size {} does not divide n_embd_head_k={}", type_k.name, type_k.dtype.elements_per_group, value);
    case Refusal::v_blocks_do_not_divide:
      return fmt::format("V cache type {} with block size {} does not divide n_embd_head_v={}", type_v.name, type_v.dtype.elements_per_group, value);
    case Refusal::v_needs_flash_attention:
      return "quantized V cache requires flash_attn to be enabled";
    case Refusal::too_many_sequences:
      return fmt::format("n_seq_max is {}; accepted: at most {}; next: ask for fewer slots (-np)", value, most_sequences);
    case Refusal::no_batch:
      return "n_batch is 0; accepted: 1 token or more; next: leave it out, or give the tokens of one step (-b)";
    case Refusal::no_context:
      return "n_ctx is 0 and the model does not say its context; accepted: 1 token or more; next: give it (-c)";
    case Refusal::context_too_long:
      return fmt::format("n_ctx is {}; accepted: at most 2^32 - 1 tokens, padded, in all streams; next: ask for a shorter context (-c)", value);
    case Refusal::unknown_type:
      return fmt::format("the cache types are \"{}\" and \"{}\"; accepted: types with a size: {}; next: choose with -ctk and -ctv", type_k.name, type_v.name,
                         detail::listed_types());
    case Refusal::row_is_not_whole_blocks:
      return fmt::format("a row of the cache is {} elements; accepted: whole blocks of {}; next: choose f16 or bf16", value, type_k.dtype.elements_per_group);
    case Refusal::no_layers:
      return fmt::format("the model's layers are {}; accepted: 1 to {}; next: check the model", value, max_layers);
  }
  return {};
}

/// What a backend calls its devices: "CUDA0", "Vulkan1", "MTL0".
using DeviceNames = std::vector<std::string>;

namespace detail {

/// What is said before a cache of some role, where the caches hang together in some way; in order.
struct Heading {
  Layout layout;
  Role role;
  char const* text;
  bool full_windows_only{};
};

inline constexpr Heading headings[]{
    {Layout::compressed, Role::main, "llama_kv_cache_dsv4: creating DSV4 raw KV cache"},
    {Layout::compressed, Role::main,
     "llama_kv_cache_iswa: using full-size SWA cache (ref: https://github.com/ggml-org/llama.cpp/pull/13194#issuecomment-2868343055)", true},
    {Layout::compressed, Role::main, "llama_kv_cache_iswa: creating non-SWA KV cache, size = {} cells"},
    {Layout::compressed, Role::sliding, "llama_kv_cache_iswa: creating     SWA KV cache, size = {} cells"},
    {Layout::compressed, Role::csa, "llama_kv_cache_dsv4: creating DSV4 CSA compressed KV cache, size = {} cells"},
    {Layout::compressed, Role::hca, "llama_kv_cache_dsv4: creating DSV4 HCA compressed KV cache, size = {} cells"},
    {Layout::compressed, Role::lid, "llama_kv_cache_dsv4: creating DSV4 lightning-indexer KV cache, size = {} cells"},
    {Layout::compressed, Role::csa_state, "llama_kv_cache_dsv4: creating DSV4 CSA compressor state"},
    {Layout::compressed, Role::hca_state, "llama_kv_cache_dsv4: creating DSV4 HCA compressor state"},
    {Layout::compressed, Role::lid_state, "llama_kv_cache_dsv4: creating DSV4 lightning-indexer compressor state"},
    {Layout::windows, Role::main,
     "llama_kv_cache_iswa: using full-size SWA cache (ref: https://github.com/ggml-org/llama.cpp/pull/13194#issuecomment-2868343055)", true},
    {Layout::windows, Role::main, "llama_kv_cache_iswa: creating non-SWA KV cache, size = {} cells"},
    {Layout::windows, Role::sliding, "llama_kv_cache_iswa: creating     SWA KV cache, size = {} cells"},
    {Layout::indexed, Role::main, "llama_kv_cache_dsa: creating main KV cache, size = {} cells"},
    {Layout::indexed, Role::indexer, "llama_kv_cache_dsa: creating indexer KV cache, size = {} cells"},
    {Layout::indexed_with_values, Role::main, "llama_kv_cache_msa: creating main KV cache, size = {} cells"},
    {Layout::indexed_with_values, Role::indexer, "llama_kv_cache_msa: creating indexer KV cache, size = {} cells"},
    {Layout::indexed_windows, Role::main,
     "llama_kv_cache_dsa_iswa: using full-size SWA cache (ref: https://github.com/ggml-org/llama.cpp/pull/13194#issuecomment-2868343055)", true},
    {Layout::indexed_windows, Role::main, "llama_kv_cache_dsa_iswa: creating DSA KV cache, size = {} cells"},
    {Layout::indexed_windows, Role::main, "llama_kv_cache_dsa: creating main KV cache, size = {} cells"},
    {Layout::indexed_windows, Role::indexer, "llama_kv_cache_dsa: creating indexer KV cache, size = {} cells"},
    {Layout::indexed_windows, Role::sliding, "llama_kv_cache_dsa_iswa: creating SWA KV cache, size = {} cells"},
};

inline std::string attention_line(Cache const& cache) {
  return fmt::format("llama_kv_cache: size = {:>7} MiB ({:6} cells, {:3} layers, {:2}/{} seqs), K ({}): {:>7} MiB, V ({}): {:>7} MiB",
                     printed_mib(cache.bytes()), cache.cells.count, cache.layers_printed, cache.n_seq, cache.streams, cache.type_k.name,
                     printed_mib(cache.bytes(TensorKind::k)), cache.type_v.name, printed_mib(cache.bytes(TensorKind::v)));
}

inline std::string recurrent_line(Cache const& cache) {
  return fmt::format(
      "llama_memory_recurrent: size = {:>7} MiB ({:6} cells, {:3} layers, {:2} seqs {:2} rs_seq), R (f32): {:>7} MiB, S (f32): {:>7} MiB, P (f32): {:>7} MiB",
      printed_mib(cache.bytes()), cache.cells.count, cache.layers_printed, cache.n_seq, cache.n_rs_seq, printed_mib(cache.bytes(TensorKind::r)),
      printed_mib(cache.bytes(TensorKind::s)), printed_mib(cache.bytes(TensorKind::p)));
}

inline std::string compressor_line(Cache const& cache) {
  return fmt::format("llama_dsv4_comp_state: {} ratio = {}, state = {} x {}, streams = {}, rs_seq = {}, layers = {}, size = {:>7} MiB", name_of(cache.role),
                     cache.ratio, cache.rows, cache.width, cache.streams, cache.n_rs_seq, cache.layers_printed, printed_mib(cache.bytes()));
}

inline std::string line(Cache const& cache) {
  switch (cache.kind) {
    case CacheKind::attention:
      return attention_line(cache);
    case CacheKind::recurrent:
      return recurrent_line(cache);
    case CacheKind::compressor_state:
      return compressor_line(cache);
  }
  return {};
}

inline std::string name_of_device(std::uint32_t device, DeviceNames const& names) {
  if (device == on_cpu) return "CPU";
  return device < names.size() ? names[device] : fmt::format("CUDA{}", device);
}

/// The lines before a cache's own: what is created, and what its rows are padded to.
inline void add_headings(std::vector<std::string>& lines, Plan const& plan, Cache const& cache) {
  for (auto const& heading : headings)
    if (heading.layout == plan.layout && heading.role == cache.role && (!heading.full_windows_only || plan.asked.swa_full))
      lines.push_back(fmt::format(fmt::runtime(heading.text), cache.wanted.count));
  if (cache.v_padding != 0)
    lines.push_back(
        fmt::format("llama_kv_cache: the V embeddings have different sizes across layers and FA is not enabled - padding V cache to {}", cache.v_padding));
}

/// R19: a line for each device. Compressors' states have none of theirs.
inline void add_buffers(std::vector<std::string>& lines, Plan const& plan, std::size_t cache, Devices const& devices, DeviceNames const& names) {
  bool const recurrent = plan.caches[cache].kind == CacheKind::recurrent;
  if (plan.caches[cache].kind == CacheKind::compressor_state) return;
  for (auto const& buffer : plan.buffers(cache, devices))
    lines.push_back(fmt::format("{}: {:>10} {} buffer size = {:>8} MiB", recurrent ? "llama_memory_recurrent" : "llama_kv_cache",
                                name_of_device(buffer.device, names), recurrent ? "RS" : "KV", printed_mib(buffer.bytes)));
}

inline std::vector<std::string> log_lines(Plan const& plan, Devices const* devices, DeviceNames const& names) {
  if (plan.refused) return {message(plan)};
  std::vector<std::string> lines;
  if (plan.n_ctx_changed()) lines.push_back(fmt::format("llama_context: n_ctx is not divisible by n_seq_max - rounding down to {}", plan.resolved.n_ctx.count));
  for (std::size_t i = 0; i < plan.caches.size(); ++i) {
    add_headings(lines, plan, plan.caches[i]);
    if (devices != nullptr) add_buffers(lines, plan, i, *devices, names);
    lines.push_back(line(plan.caches[i]));
  }
  return lines;
}

}  // namespace detail

/// What v0.5.0 logs of the context and its caches; of a refused plan, why there is none.
inline std::vector<std::string> log_lines(Plan const& plan) { return detail::log_lines(plan, nullptr, {}); }

/// The same, and before each cache its buffers: "llama_kv_cache:      CUDA0 KV buffer size =   256.00 MiB"; where a device has
/// none of it, nothing is said. Devices without a name are CUDA0, CUDA1, ...
inline std::vector<std::string> log_lines(Plan const& plan, Devices const& devices, DeviceNames const& names = {}) {
  return detail::log_lines(plan, &devices, names);
}

}  // namespace kvbudget::inline v1::llama_cpp
