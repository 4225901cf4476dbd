// What TensorRT-LLM makes of the free memory of a rank: primary and host blocks per attention window, and what it prints.
//
//   tokens of a window = int(free memory x 0.9 x the window's share / bytes per token), in double;  primary blocks = ceil(tokens / block)
// Rules: facts/other_runtimes.md A18-A23, in that order. The fraction is of FREE memory, after weights and activations, not of the
// whole device as in vLLM. Ceil, so that the last block may pass the budget by less than a block.
// A23: 12.78 GiB free, 192 KiB a token, blocks of 32: 62'816 tokens, 1'963 blocks, "Allocated 11.50 GiB".
//   auto plan = kvbudget::tensorrt_llm::plan(on_rank(spec, {.tensor = 2}), 60_GiB, {.max_sequence_length = 8'192_tokens});
// The spec is one rank's. Pool i is the blocks of window i, pool 0 the largest window; an encoder's blocks are the last pool.
#pragma once

#include <kvbudget/size/capacity.hpp>
#include <kvbudget/size/in_double.hpp>

#include <algorithm>
#include <span>

namespace kvbudget::inline v1::tensorrt_llm {

inline constexpr std::size_t max_windows = max_pools - 1;  // and one pool for the encoder's

struct Options {
  Tokens max_sequence_length{};                           // the window of a layer that has none of its own
  Tokens tokens_per_block{32};                            // a power of two above 1 (A22)
  Percent free_memory_fraction{90};                       // of free memory, below the whole of it (A18)
  Tokens max_tokens{Tokens::max()};                       // beside the fraction: the smaller wins (A18)
  Bytes extra_cost{};                                     // kept back from the fraction: transfer buffers (A18)
  Bytes host_cache{};                                     // of host memory, for secondary blocks (A18)
  InplaceVector<Tokens, max_layers> attention_windows{};  // max_attention_window, layer i takes the (i mod n)th; none: the model's own
  Tokens sink{};                                          // sink tokens (A20)
  Tokens temporary_window{};                              // what a chunk of prefill adds to a window (A20)
  std::uint32_t beam_width{1};                            // A20
  Percent cross_fraction{0};                              // of the cache, for the encoder's keys and values (A21)
  std::uint64_t max_batch{saturated_count};
};

/// The blocks of one window.
struct WindowPlan {
  Tokens window{};
  std::uint32_t layers{};
  Bytes bytes_per_token{};  // of its layers
  double share{};           // of the cache; in double, as in the runtime
  Tokens tokens{};          // that its share holds, before blocks
  Blocks primary{};
  Blocks secondary{};  // in host memory
  Blocks per_sequence{};
};

struct Plan : CachePlan {
  Complaints complaints{};  // why it holds nothing
  InplaceVector<WindowPlan, max_windows> windows{};
  WindowPlan cross{};       // the encoder's; of no layers where there is none
  Tokens printed_tokens{};  // "for max tokens in paged KV cache (62816)": whole blocks of all windows
  Bytes printed_bytes{};    // "Allocated 11.50 GiB"

  constexpr bool refused() const { return !complaints.empty(); }

  /// True where the server starts and lowers its maximal sequence length in silence, to longest() (field_pains.md A34).
  constexpr bool reduces_length() const { return longest() < options.max_length; }
};

// ---- the rules ----

/// A18: the cache's bytes are a fraction of the free memory.
constexpr Bytes cache_bytes(Bytes free, Percent fraction) { return {cut_to_whole(in_double(free.count) * in_double(fraction))}; }

/// A18: tokens of a share of the bytes, in double, cut to a whole number; max_tokens where that is fewer.
constexpr Tokens tokens_of(Bytes bytes, double share, Bytes bytes_per_token, Tokens max_tokens = Tokens::max()) {
  if (bytes_per_token == Bytes{}) return {};
  return min(max_tokens, Tokens{cut_to_whole(in_double(bytes.count) * share / in_double(bytes_per_token.count))});
}

/// A18: a primary block is given for the last tokens, too; a host block is not.
constexpr Blocks primary_blocks(Tokens tokens, Options const& options) { return blocks_for(tokens, options.tokens_per_block); }
constexpr Blocks secondary_blocks(Tokens tokens, Options const& options) { return blocks_in(tokens, options.tokens_per_block); }

/// A19: a window's share goes by what a sequence that fills it would take.
constexpr double weight(WindowPlan const& of) { return in_double(of.window.count) * in_double(of.bytes_per_token.count); }
template <class Windows>
constexpr void share_out(Windows& windows) {
  double whole = 0;
  for (auto const& of : windows) whole += weight(of);
  for (auto& of : windows) of.share = whole > 0 ? weight(of) / whole : 0;
}

/// A20: sink tokens end in a block of their own; what is left of that block is the bubble.
constexpr Tokens sink_bubble(Options const& options) { return round_up(options.sink, options.tokens_per_block) - options.sink; }

/// A20: the tokens of a window that a sequence can have blocks for.
constexpr Tokens kept(Tokens window, Options const& options) { return window + options.temporary_window; }

/// A20: blocks of a window that a sequence of one beam takes.
constexpr Blocks blocks_per_sequence(Tokens length, Tokens window, Options const& options) {
  return blocks_for(min(length, kept(window, options)) + sink_bubble(options), options.tokens_per_block);
}

/// A20: beams share the whole blocks of the context that is still in the window; every other block they have each for themselves.
constexpr Blocks blocks_per_request(Tokens context, Tokens output, Tokens window, Options const& options) {
  Blocks const one = blocks_per_sequence(context + output, window, options);
  if (options.beam_width == 1) return one;
  Blocks const shared = min(one, blocks_in(min(context, window - output), options.tokens_per_block));
  return shared + (one - shared) * options.beam_width;
}

/// A21: primary and host memory are split between the decoder's own cache and the encoder's.
constexpr Bytes cross_part(Bytes bytes, Options const& options) { return {cut_to_whole(in_double(bytes.count) * in_double(options.cross_fraction))}; }
constexpr Bytes self_part(Bytes bytes, Options const& options) { return bytes - cross_part(bytes, options); }

/// A22: what the PyTorch path takes a fraction of, after a profiling run.
constexpr Bytes free_after_profiling(Bytes total, Bytes peak, Bytes allocated) { return total - peak + allocated; }
constexpr bool is_power_of_two_above_one(Tokens block) { return block.count > 1 && (block.count & (block.count - 1)) == 0; }

// ---- what the rules are applied to ----

namespace detail {

constexpr bool is_cross(Part const& part) { return part.kind == PartKind::cross_key || part.kind == PartKind::cross_value; }

/// What the rules say nothing about is refused: states, chunks, compressed entries.
constexpr bool has_a_rule(Part const& part) {
  return is_cross(part) || ((part.keeps == Keeps::everything || part.keeps == Keeps::window) && part.tokens_per_entry == 1);
}

/// A layer's window: the one the server is told, or the model's own, and never more than the longest sequence.
constexpr Tokens window_of(Part const& part, std::size_t layer, Options const& options) {
  auto const& told = options.attention_windows;
  if (!told.empty()) return min(told[layer % told.size()], options.max_sequence_length);
  return part.keeps == Keeps::window ? min(part.span, options.max_sequence_length) : options.max_sequence_length;
}

using Windows = InplaceVector<WindowPlan, max_windows>;

constexpr WindowPlan& find_or_add(Windows& windows, Tokens window) {
  for (auto& known : windows)
    if (known.window == window) return known;
  windows.push_back({.window = window});
  return windows[windows.size() - 1];
}

/// The windows of a model's own layers, the largest first.
constexpr Windows windows_of(CacheSpec const& spec, Options const& options) {
  Windows windows{};
  for (std::size_t i = 0; i < spec.layers.size(); ++i) {
    Tokens counted{};
    for (auto const& part : spec.layers[i].parts) {
      if (is_cross(part)) continue;
      WindowPlan& of = find_or_add(windows, window_of(part, i, options));
      of.bytes_per_token += part.entry_bytes(spec.dtype);
      if (counted != of.window) ++of.layers;
      counted = of.window;
    }
  }
  std::sort(windows.begin(), windows.end(), [](auto const& a, auto const& b) { return a.window > b.window; });
  share_out(windows);
  return windows;
}

/// The encoder's window: as many tokens as the encoder gives.
constexpr WindowPlan cross_window_of(CacheSpec const& spec) {
  WindowPlan cross{.share = 1};
  for (std::size_t i = 0; i < spec.layers.size(); ++i) {
    bool counted = false;
    for (auto const& part : spec.layers[i].parts) {
      if (!is_cross(part)) continue;
      cross.window = max(cross.window, Tokens{part.entries});
      cross.bytes_per_token += part.entry_bytes(spec.dtype);
      if (!counted) ++cross.layers;
      counted = true;
    }
  }
  return cross;
}

constexpr void check_numbers(Options const& options, Complaints& complaints) {
  if (options.max_sequence_length == Tokens{} || options.max_sequence_length.saturated())
    complaints.push_back({".max_sequence_length", options.max_sequence_length.count, "1 token or more", "give max_seq_len of the engine or of the server"});
  if (!is_power_of_two_above_one(options.tokens_per_block) || options.tokens_per_block > Tokens{1 << 20})
    complaints.push_back({".tokens_per_block", options.tokens_per_block.count, "a power of two, 2 to 1048576", "give tokens_per_block, for example 32"});
  if (options.free_memory_fraction.millionths == 0 || options.free_memory_fraction.millionths >= one_whole)
    complaints.push_back({".free_memory_fraction", options.free_memory_fraction.millionths, "1 to 999999 millionths: more than nothing, less than the whole",
                          "give free_gpu_memory_fraction, for example 90_percent"});
  if (options.beam_width == 0) complaints.push_back({".beam_width", 0, "1 beam or more", "give 1 where there is no beam search"});
  if (options.max_batch == 0) complaints.push_back({".max_batch", 0, "1 request or more", "give max_batch_size, or leave it out"});
  for (std::uint32_t i = 0; i < options.attention_windows.size(); ++i)
    if (options.attention_windows[i] == Tokens{})
      complaints.push_back({".attention_windows", 0, "1 token or more", "give max_attention_window in tokens, max_seq_len for a layer without a window", i});
}

constexpr void check_layers(CacheSpec const& spec, Options const& options, Complaints& complaints) {
  for (std::uint32_t i = 0; i < spec.layers.palette.size(); ++i)
    for (auto const& part : spec.layers.palette[i].parts)
      if (!has_a_rule(part)) {
        complaints.push_back(
            {".layers", i, "attention over all tokens, over a window, or over an encoder's", "no rule for this layer is known: measure it", i});
        break;
      }
  auto const windows = windows_of(spec, options);
  if (windows.overflowed())
    complaints.push_back({".attention_windows", windows.size() + windows.lost, "at most 7 different windows", "merge windows that differ little"});
  bool const crosses = cross_window_of(spec).layers != 0;
  if (crosses != (options.cross_fraction.millionths != 0) || options.cross_fraction.millionths >= one_whole)
    complaints.push_back({".cross_fraction", options.cross_fraction.millionths,
                          crosses ? "1 to 999999 millionths, for a model with an encoder" : "0, for a model without an encoder",
                          crosses ? "give cross_kv_cache_fraction, for example 50_percent" : "leave it out"});
  if (complaints.empty() && windows.empty()) complaints.push_back({".layers", 0, "a layer that keeps something", "a model without a cache needs no plan"});
}

}  // namespace detail

/// Every complaint about a rank's spec and the options.
constexpr Complaints check(CacheSpec const& spec, Options const& options) {
  Complaints complaints = check(spec);
  detail::check_numbers(options, complaints);
  if (complaints.empty()) detail::check_layers(spec, options, complaints);
  return complaints;
}

// ---- the plan ----

namespace detail {

/// The window's share in whole bytes, such that dividing them by the bytes of a token gives the tokens that double gave.
constexpr Bytes share_in_bytes(Bytes bytes, WindowPlan const& of, Tokens tokens) {
  Bytes const least = of.bytes_per_token * tokens.count;
  Bytes const most = least + of.bytes_per_token - Bytes{1};
  return max(least, min(most, Bytes{cut_to_whole(in_double(bytes.count) * of.share)}));
}

/// From the bytes of all windows to the primary blocks of one, step by step.
constexpr void size_window(WindowPlan& of, Bytes bytes, Options const& options, Trail& trail) {
  Tokens const hold = tokens_of(bytes, of.share, of.bytes_per_token);
  if (of.share < 1) trail.at_most("the window's share, in double", share_in_bytes(bytes, of, hold).count);
  trail.divide_down("bytes per token", of.bytes_per_token.count, Unit::bytes, Unit::tokens);
  trail.at_most("max_tokens", options.max_tokens.count);
  of.tokens = {trail.result()};
  trail.divide_up("tokens per block", options.tokens_per_block.count, Unit::tokens, Unit::blocks);
  of.primary = primary_blocks(of.tokens, options);  // as the trail says
}

constexpr Trail begin(Bytes free, Options const& options, bool for_encoder) {
  Trail trail{};
  trail.start("free memory of the device", free);
  trail.at_most("the fraction of it, in double", cache_bytes(free, options.free_memory_fraction).count);
  trail.subtract("kept back", options.extra_cost);
  bool const split = options.cross_fraction.millionths != 0;
  if (split && for_encoder) trail.at_most("the encoder's part of it", cross_part(trail.bytes(), options).count);
  if (split && !for_encoder) trail.subtract("the encoder's part of it", cross_part(trail.bytes(), options));
  return trail;
}

constexpr void size_host(WindowPlan& of, Bytes host, Options const& options) {
  of.secondary = secondary_blocks(tokens_of(host, of.share, of.bytes_per_token), options);
}

constexpr GroupPlan group_of(WindowPlan const& of, std::uint32_t pool, Options const& options) {
  bool const slides = of.window < options.max_sequence_length;
  return {.group = {.keeps = slides ? Keeps::window : Keeps::everything,
                    .pool = pool,
                    .block = options.tokens_per_block,
                    .span = slides ? of.window : Tokens{},
                    .bound = {.tokens = kept(of.window, options), .beside = sink_bubble(options)}},
          .entry = of.bytes_per_token,
          .layers = of.layers,
          .page = of.bytes_per_token * options.tokens_per_block.count};
}

constexpr GroupPlan cross_group_of(WindowPlan const& of, std::uint32_t pool, Options const& options) {
  return {.group = fixed_group(of.per_sequence, pool),
          .entry = of.bytes_per_token * of.window.count,
          .layers = of.layers,
          .page = of.bytes_per_token * options.tokens_per_block.count};
}

/// Makes a sized window a pool of the plan.
constexpr void add_pool(Plan& plan, WindowPlan const& of, GroupPlan const& group, char const* name) {
  if (group.group.pool == 0) {
    plan.bytes_per_block = group.page;
    plan.blocks = of.primary;
  } else {
    plan.more_pools.push_back({.name = name, .bytes_per_block = group.page, .blocks = of.primary});
  }
  plan.groups.push_back(group);
  plan.footprint.groups.push_back(group.group);
}

constexpr void count_printed(Plan& plan) {
  plan.printed_tokens = {};
  plan.printed_bytes = {};
  for (auto const& of : plan.windows) {
    plan.printed_tokens += plan.options.block * of.primary.count;
    plan.printed_bytes += of.bytes_per_token * plan.options.block.count * of.primary.count;
  }
}

constexpr Plan refusal(Complaints const& complaints) {
  Plan plan{};
  plan.bytes_per_block = Bytes::max();
  plan.groups = {{.group = fixed_group(Blocks::max()), .entry = Bytes::max()}};
  plan.footprint = {.groups = {fixed_group(Blocks::max())}};
  plan.complaints = complaints;
  return plan;
}

}  // namespace detail

/// A plan for a rank with `free` bytes of device memory left after weights and activations. Of a bad spec or bad options, a plan
/// that holds nothing and says why.
constexpr Plan plan(CacheSpec const& spec, Bytes free, Options const& options) {
  if (Complaints const complaints = check(spec, options); !complaints.empty()) return detail::refusal(complaints);
  Plan plan{};
  plan.pool = self_part(cache_bytes(free, options.free_memory_fraction) - options.extra_cost, options);
  plan.options = {.block = options.tokens_per_block, .max_requests = options.max_batch, .max_length = options.max_sequence_length};
  plan.footprint.groups = {};
  plan.windows = detail::windows_of(spec, options);
  for (std::uint32_t pool = 0; pool < plan.windows.size(); ++pool) {
    WindowPlan& of = plan.windows[pool];
    Trail trail = detail::begin(free, options, false);
    detail::size_window(of, plan.pool, options, trail);
    detail::size_host(of, self_part(options.host_cache, options), options);
    of.per_sequence = blocks_per_sequence(options.max_sequence_length, of.window, options);
    detail::add_pool(plan, of, detail::group_of(of, pool, options), "a smaller window");
    if (pool == 0) plan.trail = trail;
  }
  if (plan.cross = detail::cross_window_of(spec); plan.cross.layers != 0) {
    Trail trail = detail::begin(free, options, true);
    plan.pool += trail.bytes();
    detail::size_window(plan.cross, trail.bytes(), options, trail);
    detail::size_host(plan.cross, cross_part(options.host_cache, options), options);
    plan.cross.per_sequence = blocks_for(plan.cross.window, options.tokens_per_block);
    detail::add_pool(plan, plan.cross, detail::cross_group_of(plan.cross, static_cast<std::uint32_t>(plan.windows.size()), options), "the encoder's");
  }
  detail::count_printed(plan);
  return plan;
}

/// A19: ranks agree on the fewest blocks of each window; ranks with different windows are refused.
constexpr Plan agreed(std::span<Plan const> ranks) {
  if (ranks.empty()) return detail::refusal({{".ranks", 0, "1 rank or more", "give the plan of every rank"}});
  Plan plan = ranks[0];
  for (std::uint32_t rank = 0; rank < ranks.size(); ++rank) {
    Plan const& other = ranks[rank];
    if (other.refused()) return other;
    bool alike = other.windows.size() == plan.windows.size();
    for (std::size_t i = 0; alike && i < plan.windows.size(); ++i) alike = other.windows[i].window == plan.windows[i].window;
    if (!alike)
      return detail::refusal({{".windows", other.windows.size(), "the same windows on every rank", "split the layers so that each rank has them all", rank}});
    for (std::size_t i = 0; i < plan.windows.size(); ++i) {
      plan.windows[i].primary = min(plan.windows[i].primary, other.windows[i].primary);
      plan.windows[i].secondary = min(plan.windows[i].secondary, other.windows[i].secondary);
    }
    plan.cross.primary = min(plan.cross.primary, other.cross.primary);
    plan.cross.secondary = min(plan.cross.secondary, other.cross.secondary);
  }
  plan.blocks = plan.windows.empty() ? Blocks{} : plan.windows[0].primary;
  plan.trail.at_most("of the rank with fewest", plan.blocks.count);
  for (std::size_t i = 0; i < plan.more_pools.size(); ++i)
    plan.more_pools[i].blocks = i + 1 < plan.windows.size() ? plan.windows[i + 1].primary : plan.cross.primary;
  detail::count_printed(plan);
  return plan;
}

}  // namespace kvbudget::inline v1::tensorrt_llm
