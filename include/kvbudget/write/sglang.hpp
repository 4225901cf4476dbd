// What SGLang logs of its memory pools, word for word, and why it refuses, in our words with its figures (facts: sglang.md R45, R61).
//
//   for (auto const& line : write::log_lines(plan)) fmt::print("{}\n", line);
//   KV Cache is allocated. dtype: torch.bfloat16, #tokens: 415256, K size: 25.35 GB, V size: 25.35 GB
// GB are 2^30 bytes, and count the page that is never handed out.
#pragma once

#include <kvbudget/size/sglang.hpp>
#include <kvbudget/write/format.hpp>

#include <cmath>
#include <string>
#include <vector>

namespace kvbudget::inline v1::sglang {

/// As PyTorch prints it.
constexpr std::string_view name_of(CacheType type) {
  switch (type) {
    case CacheType::automatic:
      return "auto";
    case CacheType::bf16:
      return "torch.bfloat16";
    case CacheType::fp16:
      return "torch.float16";
    case CacheType::fp32:
      return "torch.float32";
    case CacheType::fp8_e4m3:
      return "torch.float8_e4m3fn";
    case CacheType::fp8_e5m2:
      return "torch.float8_e5m2";
    case CacheType::fp4_e2m1:
      return "torch.float4_e2m1fn_x2";
  }
  return "unknown";
}

constexpr std::string_view name_of(Layout layout) {
  switch (layout) {
    case Layout::plain:
      return "plain";
    case Layout::latent:
      return "latent";
    case Layout::sparse:
      return "sparse";
    case Layout::sliding:
      return "sliding";
    case Layout::sliding_capped:
      return "sliding_capped";
    case Layout::compressed:
      return "compressed";
  }
  return "unknown";
}

constexpr std::string_view name_of(Refusal refusal) {
  switch (refusal) {
    case Refusal::none:
      return "none";
    case Refusal::bad_arguments:
      return "bad_arguments";
    case Refusal::indivisible:
      return "indivisible";
    case Refusal::pipeline_with_draft:
      return "pipeline_with_draft";
    case Refusal::bad_page:
      return "bad_page";
    case Refusal::no_state_slots:
      return "no_state_slots";
    case Refusal::no_memory:
      return "no_memory";
    case Refusal::no_full_tokens:
      return "no_full_tokens";
    case Refusal::nothing_cached:
      return "nothing_cached";
    case Refusal::no_tokens:
      return "no_tokens";
    case Refusal::no_running_requests:
      return "no_running_requests";
    case Refusal::other_stage:
      return "other_stage";
  }
  return "unknown";
}

constexpr std::string_view name_of(ServesNobody why) {
  switch (why) {
    case ServesNobody::no:
      return "no";
    case ServesNobody::too_few_tokens:
      return "too_few_tokens";
    case ServesNobody::too_short:
      return "too_short";
    case ServesNobody::no_sliding_tokens:
      return "no_sliding_tokens";
  }
  return "unknown";
}

}  // namespace kvbudget::inline v1::sglang

namespace kvbudget::inline v1::write {

namespace detail {

inline std::string gb(Bytes bytes) { return fmt::format("{:.2f}", static_cast<double>(bytes.count) / sglang::one_gib); }

/// R61. The decision on a sliding pool; none where a cap decided.
inline std::string sliding_line(sglang::PoolTokens const& pools) {
  return fmt::format("Use sliding window memory pool. full_layer_tokens={}, swa_layer_tokens={}", pools.full.count, pools.swa.count);
}

/// R45. The same of DeepSeek-V4; the 128-fold states are not known yet, and printed as 0.
inline std::string compressed_line(sglang::PoolTokens const& pools) {
  return fmt::format("DSV4 pool sizes: full={}, swa={}, c4={}, c128={}, c4_state={}, c128_state=0", pools.full.count, pools.swa.count, pools.c4, pools.c128,
                     pools.c4_state);
}

inline std::string stage_line(sglang::Plan const& plan) {
  return fmt::format("DSV4 pool PP slice: rank={} layers=[{},{}) local={}/{}", plan.rank.stage, plan.rank.first_layer, plan.rank.end_layer, plan.rank.layers(),
                     plan.rank.model.compressed->ratios.size());
}

inline std::vector<std::string> decision_lines(sglang::Plan const& plan) {
  std::vector<std::string> lines;
  if (plan.layout == sglang::Layout::sliding) {
    lines.push_back(sliding_line(plan.profiled));
    if (plan.reduced) lines.push_back(sliding_line(plan.pools_agreed));
  }
  if (plan.layout != sglang::Layout::compressed) return lines;
  bool const staged = plan.arguments.pp_size > 1;
  if (staged) lines.push_back(stage_line(plan));
  lines.push_back(fmt::format("DSV4 memory calculation: bytes_per_full_token={:.2f}, available_bytes={} GB, c128_state_fixed={} GB, full_token={}", plan.cell,
                              gb(plan.pool), gb(plan.fixed), plan.profiled.full.count));
  lines.push_back(compressed_line(plan.profiled));
  if (plan.reduced) lines.push_back(compressed_line(plan.pools_agreed));
  if (staged) lines.push_back(stage_line(plan));
  auto const& pools = plan.pools_agreed;
  lines.push_back(
      fmt::format("Initialize DeepSeekV4TokenToKVPool with max_num_reqs={} swa_size={} c4_size={} c4_logical_size={} c128_size={} "
                  "c4_state_pool_size={} c128_state_pool_size={}",
                  plan.running, pools.swa.count, pools.c4, pools.c4, pools.c128, pools.c4_state, plan.compressor_rows));
  return lines;
}

/// R61. The states' pool, slot 0 and the whole of every stage's own layers counted.
inline std::string states_line(sglang::Store const& store) {
  auto const size = [&](std::size_t i) { return gb(store.buffers[i].bytes()); };
  std::string line =
      fmt::format("Mamba Cache is allocated. max_mamba_cache_size: {}, conv_state size: {}GB, ssm_state size: {}GB ", store.size.count, size(0), size(1));
  if (store.buffers.size() == 4) line += fmt::format("intermediate_ssm_state_cache size: {}GB intermediate_conv_window_cache size: {}GB ", size(2), size(3));
  return line;
}

}  // namespace detail

/// R61. A pool of keys and values, or of latents.
inline std::string log_line(sglang::Store const& store) {
  if (store.latent)
    return fmt::format("KV Cache is allocated. dtype: {}, #tokens: {}, KV size: {} GB", name_of(store.type), store.size.count, detail::gb(store.key_bytes));
  return fmt::format("KV Cache is allocated. dtype: {}, #tokens: {}, K size: {} GB, V size: {} GB", name_of(store.type), store.size.count,
                     detail::gb(store.key_bytes), detail::gb(store.value_bytes));
}

/// R45, R61. What SGLang logs of this stage's pools. A plan that is refused logs nothing.
inline std::vector<std::string> log_lines(sglang::Plan const& plan) {
  if (plan.refused()) return {};
  std::vector<std::string> lines = detail::decision_lines(plan);
  if (plan.layout == sglang::Layout::compressed) return lines;
  Bytes keys_and_values{};
  for (auto const& store : plan.stores) {
    bool const states = store.kind == sglang::StoreKind::states;
    if (states && !plan.arguments.unified_memory) lines.push_back(detail::states_line(store));
    if (!states) lines.push_back(log_line(store));
    keys_and_values += store.key_bytes + store.value_bytes;
  }
  bool const sliding = plan.layout == sglang::Layout::sliding || plan.layout == sglang::Layout::sliding_capped;
  if (sliding && !plan.arguments.unified_memory)
    lines.push_back(fmt::format("SWAKVPool mem usage: {} GB, swa size: {}, full size: {}", detail::gb(keys_and_values), plan.pools_agreed.swa.count,
                                plan.pools_agreed.full.count));
  return lines;
}

/// Why SGLang, or this library, refuses, with the figures that SGLang's own message has; empty where it does not.
inline std::string refusal_text(sglang::Plan const& plan) {
  auto const& f = plan.figures;
  auto const gib = [](double value) { return fmt::format("{:.2f} GB", value); };
  switch (plan.refusal) {
    case sglang::Refusal::none:
      return "";
    case sglang::Refusal::bad_arguments:
      return fmt::format("{}", plan.complaints);
    case sglang::Refusal::indivisible:
      return fmt::format("{} is not divisible by {}; next: choose a tensor-parallel size that divides the states", f.indivisible.number, f.indivisible.by);
    case sglang::Refusal::pipeline_with_draft:
      return "pipeline parallelism does not go with speculative decoding in a model that has MTP layers; next: leave one of them out";
    case sglang::Refusal::bad_page:
      return fmt::format("--page-size is {}; accepted: 256, for compressed caches; next: leave it out, SGLang sets it", plan.arguments.page_size.count);
    case sglang::Refusal::no_state_slots:
      return fmt::format("no memory for states: {} slots from {} at {:.2f} MB each; next: raise --mem-fraction-static, or lower --max-running-requests",
                         f.slots, gib(f.rest_gib), static_cast<double>(f.slot.count) / 1'048'576);
    case sglang::Refusal::no_memory:
      return fmt::format("the weights leave nothing under --mem-fraction-static={}; next: raise it above {:.3f} (it must exceed {:.4f})", f.fraction,
                         std::ceil(f.least_fraction * 1000) / 1000, f.least_fraction);
    case sglang::Refusal::no_full_tokens:
      return fmt::format("the cap of {} sliding tokens takes {} of {}; next: lower --max-running-requests, or raise --mem-fraction-static", f.swa_tokens.count,
                         gib(static_cast<double>(f.swa_bytes.count) / sglang::one_gib), gib(static_cast<double>(f.budget.count) / sglang::one_gib));
    case sglang::Refusal::nothing_cached:
      return fmt::format("no layer of stage {} caches anything; next: use fewer pipeline stages", plan.rank.stage);
    case sglang::Refusal::no_tokens:
      return "not one page of tokens fits; next: raise --mem-fraction-static";
    case sglang::Refusal::no_running_requests:
      return fmt::format("{} state slots at {} a request serve {} requests; next: raise --mem-fraction-static, or lower --max-running-requests", f.slots,
                         f.slots_per_request, plan.running);
    case sglang::Refusal::other_stage:
      return "another pipeline stage is refused";
  }
  return "unknown";
}

/// Why no request is ever admitted by a server that SGLang does start; empty where some are.
inline std::string serves_nobody_text(sglang::Plan const& plan) {
  switch (plan.serves_nobody()) {
    case sglang::ServesNobody::no:
      return "";
    case sglang::ServesNobody::too_few_tokens:
      return fmt::format("no request runs: half of {} is none; next: raise --max-total-tokens or --mem-fraction-static", plan.tokens);
    case sglang::ServesNobody::too_short:
      return fmt::format("every prompt is rejected: it must be shorter than {} tokens; next: raise --max-total-tokens or --context-length", plan.longest_input);
    case sglang::ServesNobody::no_sliding_tokens:
      return fmt::format(
          "every request waits for ever: beside {} the sliding pool has no whole page; next: raise --max-total-tokens or --swa-full-tokens-ratio", plan.tokens);
  }
  return "unknown";
}

}  // namespace kvbudget::inline v1::write
