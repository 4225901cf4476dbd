// What vLLM's log says of a plan, in its own words (facts: vllm.md D5, D6, J1-J3), and why it would not start.
//
//   log_lines(plan)   "GPU KV cache size: 327,680 tokens, Maximum concurrency for 131,072 tokens per request: 2.50x"
//   why(plan)         "not_enough_memory: one request of 131,072 tokens needs 16 GiB, ..."
#pragma once

#include <kvbudget/size/vllm.hpp>
#include <kvbudget/write/format.hpp>

#include <vector>

namespace kvbudget::inline v1::vllm {

constexpr std::string_view name_of(Refusal refusal) {
  switch (refusal) {
    case Refusal::none:
      return "none";
    case Refusal::bad_options:
      return "bad_options";
    case Refusal::cannot_promote:
      return "cannot_promote";
    case Refusal::windows_differ:
      return "windows_differ";
    case Refusal::pages_do_not_unify:
      return "pages_do_not_unify";
    case Refusal::layout_without_rule:
      return "layout_without_rule";
    case Refusal::cannot_auto_fit:
      return "cannot_auto_fit";
    case Refusal::no_memory:
      return "no_memory";
    case Refusal::not_enough_memory:
      return "not_enough_memory";
  }
  return "unknown";
}

constexpr std::string_view name_of(SpecKind kind) {
  switch (kind) {
    case SpecKind::full_attention:
      return "full attention";
    case SpecKind::mla:
      return "latent attention";
    case SpecKind::rswa:
      return "R-SWA";
    case SpecKind::sink_full_attention:
      return "full attention with sinks";
    case SpecKind::hidden_state:
      return "hidden states";
    case SpecKind::sliding_window:
      return "sliding window";
    case SpecKind::sliding_window_mla:
      return "sliding-window latents";
    case SpecKind::chunked_local:
      return "chunked local attention";
    case SpecKind::mamba:
      return "state";
    case SpecKind::cross_attention:
      return "cross attention";
  }
  return "unknown";
}

constexpr std::string_view name_of(CacheDType dtype) {
  for (auto const& known : cache_dtypes)
    if (known.dtype == dtype) return known.name;
  return "unknown";
}

/// GiB as Python prints round(bytes / 2**30, 2): "16.0", "8.99".
inline std::string python_gib(Bytes amount) {
  std::string text = fmt::format("{:.2f}", static_cast<double>(amount.count) / static_cast<double>(std::uint64_t{1} << 30));
  if (text.back() == '0') text.pop_back();
  return text;
}

/// The lines by which vLLM says what it has, in the form of the plan's release. None of a plan that is refused.
inline std::vector<std::string> log_lines(Plan const& plan) {
  using write::grouped;
  if (plan.refused() || plan.layer_groups.empty()) return {};
  std::string const concurrency =
      fmt::format("Maximum concurrency for {} tokens per request: {:.2f}x",
                  plan.release == Release::v0 ? std::to_string(plan.max_model_len.count) : grouped(plan.max_model_len.count), plan.max_concurrency);
  std::string const size = fmt::format("GPU KV cache size: {} tokens", grouped(plan.printed_tokens.count));
  if (plan.release == Release::v0) return {fmt::format("# GPU blocks: {}, # CPU blocks: {}", plan.blocks.count, plan.printed_cpu_blocks.count), concurrency};
  if (plan.release == Release::v1_until_0_20) return {size, concurrency};
  return {size + ", " + concurrency};
}

/// Why vLLM would not start, with the figures of its own message, in one line; empty for a plan that it would serve.
inline std::string why(Plan const& plan) {
  std::string const reason{name_of(plan.refusal)};
  switch (plan.refusal) {
    case Refusal::none:
      return "";
    case Refusal::bad_options:
      return fmt::format("{}: {}", reason, plan.complaints);
    case Refusal::not_enough_memory:
      return fmt::format(
          "{}: one request of {} needs {} GiB of KV cache, {} GiB are available without the null block; the longest that fits is {}; give the "
          "cache more memory, or lower max_model_len",
          reason, plan.max_model_len, python_gib(plan.needed), python_gib(plan.available), plan.longest_that_fits);
    case Refusal::no_memory:
      return fmt::format("{}: nothing is left for the cache beside its null block; give it more memory", reason);
    case Refusal::cannot_auto_fit:
      return fmt::format("{}: one token needs {} GiB of KV cache, {} GiB are available without the null block; give the cache more memory", reason,
                         python_gib(plan.needed), python_gib(plan.available));
    case Refusal::cannot_promote:
      return fmt::format("{}: without the hybrid manager all layers must keep alike, and states or cross attention can't; leave it on", reason);
    case Refusal::windows_differ:
      return fmt::format("{}: full attention layers that remember different windows; leave the hybrid manager on", reason);
    case Refusal::pages_do_not_unify:
      return fmt::format("{}: a layer's page does not divide the largest, and its backend can't pad it; choose another block size or backend", reason);
    case Refusal::layout_without_rule:
      return fmt::format(
          "{}: no rule says how vLLM groups these layers (sliding-window latents without latents, hidden states alone, a pipeline stage without any cache, "
          "or states in V0)",
          reason);
  }
  return reason;
}

}  // namespace kvbudget::inline v1::vllm
