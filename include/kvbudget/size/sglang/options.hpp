// SGLang's server arguments as they stand after its own resolution (facts: sglang.md R20-R27 is input here, not ours), by the
// names of its flags.
//
//   sglang::Options{.mem_fraction_static = 0.83, .page_size = 64_tokens, .tp_size = 8, .kv_cache_dtype = CacheType::fp8_e4m3}
// check(options) lists what SGLang, or this library, does not take.
#pragma once

#include <kvbudget/core/complaint.hpp>
#include <kvbudget/size/sglang/arithmetic.hpp>

#include <optional>
#include <string_view>

namespace kvbudget::inline v1::sglang {

/// --kv-cache-dtype. Of fp8 and fp4 an element counts one byte; fp4 holds two values in it (R44).
enum class CacheType : std::uint8_t { automatic, bf16, fp16, fp32, fp8_e4m3, fp8_e5m2, fp4_e2m1 };

enum class Speculation : std::uint8_t { none, eagle, eagle3, nextn, frozen_kv_mtp, standalone, ngram };
enum class Disaggregation : std::uint8_t { none, prefill, decode };
enum class MambaRadix : std::uint8_t { no_buffer, extra_buffer, extra_buffer_lazy };

inline constexpr char const* cache_type_names = "auto, bf16, bfloat16, fp8_e4m3, fp8_e5m2, fp4_e2m1";
inline constexpr char const* speculation_names = "EAGLE, EAGLE3, NEXTN, FROZEN_KV_MTP, STANDALONE, NGRAM";
inline constexpr char const* disaggregation_names = "null, prefill, decode";

constexpr std::optional<CacheType> cache_type_named(std::string_view name) {
  if (name == "auto") return CacheType::automatic;
  if (name == "bf16" || name == "bfloat16") return CacheType::bf16;
  if (name == "fp8_e4m3") return CacheType::fp8_e4m3;
  if (name == "fp8_e5m2") return CacheType::fp8_e5m2;
  if (name == "fp4_e2m1") return CacheType::fp4_e2m1;
  return std::nullopt;
}

constexpr std::optional<Speculation> speculation_named(std::string_view name) {
  if (name == "EAGLE") return Speculation::eagle;
  if (name == "EAGLE3") return Speculation::eagle3;
  if (name == "NEXTN") return Speculation::nextn;
  if (name == "FROZEN_KV_MTP") return Speculation::frozen_kv_mtp;
  if (name == "STANDALONE") return Speculation::standalone;
  if (name == "NGRAM") return Speculation::ngram;
  return std::nullopt;
}

constexpr std::optional<Disaggregation> disaggregation_named(std::string_view name) {
  if (name == "null") return Disaggregation::none;
  if (name == "prefill") return Disaggregation::prefill;
  if (name == "decode") return Disaggregation::decode;
  return std::nullopt;
}

constexpr std::uint32_t bytes_of(CacheType type) {
  if (type == CacheType::fp32) return 4;
  return type == CacheType::bf16 || type == CacheType::fp16 ? 2 : 1;
}

struct Options {
  double mem_fraction_static{};  // must be given
  Tokens page_size{1};
  CacheType kv_cache_dtype{CacheType::automatic};
  bool checkpoint_fp8{};  // automatic, and the checkpoint says its cache is quantised to FP8

  std::uint32_t tp_size{1};
  std::uint32_t pp_size{1};
  std::uint32_t dp_size{1};
  bool enable_dp_attention{};  // without it, dp_size divides nothing
  std::uint32_t attn_cp_size{1};
  std::uint32_t dcp_size{1};

  std::optional<std::uint64_t> max_running_requests{};
  std::optional<Tokens> max_total_tokens{};
  std::optional<std::int64_t> chunked_prefill_size{};  // -1: off
  bool disable_radix_cache{};
  bool disable_overlap_schedule{};

  double swa_full_tokens_ratio{0.8};
  bool disable_hybrid_swa_memory{};
  std::uint64_t swa_eviction_interval{128};  // SGLANG_SWA_EVICTION_INTERVAL

  std::optional<std::uint64_t> max_mamba_cache_size{};
  double mamba_full_memory_ratio{0.9};
  MambaRadix mamba_radix{MambaRadix::no_buffer};

  Speculation speculative_algorithm{};
  std::optional<std::uint64_t> speculative_num_steps{};
  std::optional<std::uint64_t> speculative_eagle_topk{};
  std::optional<std::uint64_t> speculative_num_draft_tokens{};
  std::optional<std::uint32_t> draft_layers{};  // layers SGLang counts the draft model as (R47); none: it charges nothing

  Disaggregation disaggregation_mode{};
  std::uint64_t disaggregation_decode_extra_slots{};

  bool dsa_trtllm{};           // one of the DSA backends is trtllm
  bool online_compress{};      // SGLANG_OPT_USE_ONLINE_COMPRESS
  bool compress_state_bf16{};  // SGLANG_DSV4_COMPRESS_STATE_DTYPE
  bool page_major{};           // --enable-page-major-kv-layout
  bool unified_memory{};       // --enable-unified-memory
  bool post_capture_sizing{};  // SGLANG_ENABLE_POST_CAPTURE_KV_SIZING: the pool is sized again after capture; not covered
};

/// Bytes free on a rank's device before and after the weights are loaded.
struct Memory {
  Bytes before_loading{};
  Bytes after_loading{};
};

// ---- what the flags mean together ----

constexpr bool speculates(Options const& o) { return o.speculative_algorithm != Speculation::none; }
constexpr std::uint64_t draft_tokens(Options const& o) { return o.speculative_num_draft_tokens.value_or(1); }
constexpr std::uint64_t topk(Options const& o) { return o.speculative_eagle_topk.value_or(1); }

/// Ranks that split the requests. A plain --dp-size starts servers side by side and divides nothing (R51).
constexpr std::uint32_t attention_dp(Options const& o) { return o.enable_dp_attention && o.dp_size != 0 ? o.dp_size : 1; }

/// Ranks that split the KV heads.
constexpr std::uint32_t attention_tp(Options const& o) {
  std::uint64_t const others = product(attention_dp(o), o.attn_cp_size);
  return others == 0 || others > o.tp_size ? 1 : static_cast<std::uint32_t>(o.tp_size / others);
}

constexpr bool on_several_ranks(Options const& o) { return product(o.tp_size, o.pp_size) > 1; }

/// --max-running-requests of one attention rank.
constexpr std::optional<std::uint64_t> running_wanted(Options const& o) {
  if (!o.max_running_requests) return std::nullopt;
  return *o.max_running_requests / attention_dp(o);
}

constexpr std::uint64_t decode_extra_slots(Options const& o) {
  return o.disaggregation_mode == Disaggregation::decode ? o.disaggregation_decode_extra_slots : 0;
}

inline constexpr std::int64_t most_chunk = std::int64_t{1} << 40;

/// Every complaint about the arguments.
constexpr Complaints check(Options const& o) {
  Complaints complaints{};
  auto const complain = [&](char const* field, std::uint64_t value, char const* accepted, char const* next) {
    complaints.push_back({field, value, accepted, next});
  };
  auto const ratio = [&](char const* field, double value, char const* accepted, bool good, char const* next) {
    if (!good) complain(field, truncated_count(value * 1e6), accepted, next);
  };
  ratio(".mem_fraction_static", o.mem_fraction_static, "more than 0 and at most 1 (in millionths)", o.mem_fraction_static > 0 && o.mem_fraction_static <= 1,
        "give --mem-fraction-static as the server resolved it, for example 0.83");
  ratio(".swa_full_tokens_ratio", o.swa_full_tokens_ratio, "more than 0 and at most 1 (in millionths)",
        o.swa_full_tokens_ratio > 0 && o.swa_full_tokens_ratio <= 1, "give --swa-full-tokens-ratio, for example 0.8");
  ratio(".mamba_full_memory_ratio", o.mamba_full_memory_ratio, "more than 0 and at most 1000000 (in millionths)",
        o.mamba_full_memory_ratio > 0 && o.mamba_full_memory_ratio <= 1e6, "give --mamba-full-memory-ratio, for example 0.9");
  if (o.page_size == Tokens{} || o.page_size > Tokens{1 << 20}) complain(".page_size", o.page_size.count, "1 to 1048576 tokens", "give --page-size");
  if (o.tp_size == 0 || o.tp_size > 65'536) complain(".tp_size", o.tp_size, "1 to 65536 ranks", "give 1 for no tensor parallelism");
  if (o.pp_size == 0 || o.pp_size > 64) complain(".pp_size", o.pp_size, "1 to 64 stages", "give 1 for no pipeline parallelism");
  if (o.dp_size == 0 || o.dp_size > 65'536) complain(".dp_size", o.dp_size, "1 to 65536 ranks", "give 1 for no data parallelism");
  if (o.dcp_size == 0 || o.dcp_size > 65'536) complain(".dcp_size", o.dcp_size, "1 to 65536 ranks", "give 1 for no decode context parallelism");
  std::uint64_t const split = product(attention_dp(o), o.attn_cp_size);
  if (split == 0 || o.tp_size % split != 0)
    complain(".attn_cp_size", o.attn_cp_size, "ranks that, times dp_size under DP attention, divide tp_size", "choose sizes that divide --tp-size");
  if (o.chunked_prefill_size && (*o.chunked_prefill_size < -1 || *o.chunked_prefill_size > most_chunk))
    complain(".chunked_prefill_size", as_count(*o.chunked_prefill_size), "-1 for off, or at most 2^40 tokens", "give --chunked-prefill-size");
  if (o.max_total_tokens && *o.max_total_tokens == Tokens{}) complain(".max_total_tokens", 0, "1 token or more", "leave it out for no limit");
  if (speculates(o) && !o.speculative_num_draft_tokens && o.speculative_algorithm != Speculation::ngram)
    complain(".speculative_num_draft_tokens", 0, "the number the server resolved", "give --speculative-num-draft-tokens");
  if (speculates(o) && !o.max_running_requests) complain(".max_running_requests", 0, "a number", "give it: SGLang sets 48 with speculative decoding (R25)");
  if (o.draft_layers && *o.draft_layers > 65'536) complain(".draft_layers", *o.draft_layers, "at most 65536 layers", "give the draft model's layers");
  if (o.post_capture_sizing)
    complain(".post_capture_sizing", 1, "false", "SGLang sizes the pool again after graph capture, which no rule here covers; switch it off");
  return complaints;
}

}  // namespace kvbudget::inline v1::sglang
