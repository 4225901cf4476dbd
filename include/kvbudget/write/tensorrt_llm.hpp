// TensorRT-LLM's own lines, from a plan's numbers (facts/other_runtimes.md A19; golden/logs_lines.jsonl).
//
//   Blocks per window size:
//   [windowSize=8192] {.primaryBlocks=1963, .secondayBlocks=0}           (sic)
//   Max KV cache blocks per sequence: 256 [window size=8192], tokens per block=32, primary blocks=1963
//   Allocated 11.50 GiB for max tokens in paged KV cache (62816).
#pragma once

#include <kvbudget/size/tensorrt_llm.hpp>
#include <kvbudget/write/format.hpp>

#include <string>
#include <vector>

namespace kvbudget::inline v1::tensorrt_llm {

namespace detail {
inline void add_window_lines(std::vector<std::string>& lines, WindowPlan const& of) {
  lines.push_back(fmt::format("[windowSize={}] {{.primaryBlocks={}, .secondayBlocks={}}}", of.window.count, of.primary.count, of.secondary.count));
}
inline void add_sequence_lines(std::vector<std::string>& lines, WindowPlan const& of, Tokens block) {
  lines.push_back(fmt::format("Max KV cache blocks per sequence: {} [window size={}], tokens per block={}, primary blocks={}", of.per_sequence.count,
                              of.window.count, block.count, of.primary.count));
}
inline std::string allocated(Bytes bytes, Tokens tokens) {
  return fmt::format("Allocated {:.2GiB} for max tokens in paged KV cache ({}).", bytes, tokens.count);
}
}  // namespace detail

/// The lines a rank prints; none where the plan is refused. The smallest window comes first; an encoder's cache is a second manager.
inline std::vector<std::string> log_lines(Plan const& plan) {
  std::vector<std::string> lines;
  if (plan.refused()) return lines;
  lines.push_back("Blocks per window size:");
  for (std::size_t i = plan.windows.size(); i-- > 0;) detail::add_window_lines(lines, plan.windows[i]);
  for (std::size_t i = plan.windows.size(); i-- > 0;) detail::add_sequence_lines(lines, plan.windows[i], plan.options.block);
  lines.push_back(detail::allocated(plan.printed_bytes, plan.printed_tokens));
  if (plan.cross.layers == 0) return lines;
  Tokens const cross_tokens = plan.options.block * plan.cross.primary.count;
  detail::add_window_lines(lines, plan.cross);
  detail::add_sequence_lines(lines, plan.cross, plan.options.block);
  lines.push_back(detail::allocated(plan.cross.bytes_per_token * cross_tokens.count, cross_tokens));
  return lines;
}

}  // namespace kvbudget::inline v1::tensorrt_llm
