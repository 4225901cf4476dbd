// How vLLM puts layers into groups that share one pool of blocks (facts: vllm.md C); the first rule that matches wins.
//
//   C0  hybrid manager off: windows and chunks are kept like full attention
//   C1  all specs merge: one group of all layers
//   C2  one kind in several sizes: one group, whose block is a page of every layer (MLA and its indexer)
//   C3  sliding-window MLA in several page sizes: DeepSeek-V4's packed layout
//   C4  in general: pages made equal (C5), layers of a kind cut into groups of equal size; what is short of that size is padding
// Gemma-3-27B: 52 sliding and 10 full layers become groups of 9, 9, 9, 9, 8, 8 and 10 layers.
#pragma once

#include <kvbudget/size/estimate.hpp>
#include <kvbudget/size/vllm/packed_groups.hpp>

namespace kvbudget::inline v1::vllm {

namespace detail {

constexpr bool clash(Tokens a, Tokens b) { return a != Tokens{} && b != Tokens{} && a != b; }

/// C1: two specs that one manager can serve: equal ones, or full attention with at most one recorded window or chunk.
constexpr bool mergeable(LayerSpec const& a, LayerSpec b) {
  if (a.kind != SpecKind::full_attention || b.kind != SpecKind::full_attention) return a == b;
  if (clash(a.window, b.window) || clash(a.chunk, b.chunk)) return false;
  bool const windowed = a.window != Tokens{} || b.window != Tokens{};
  bool const chunked = a.chunk != Tokens{} || b.chunk != Tokens{};
  b.window = a.window;
  b.chunk = a.chunk;
  return a == b && !(windowed && chunked);
}

constexpr bool all_mergeable(Specs const& specs) {
  return std::all_of(specs.begin(), specs.end(), [&](auto const& spec) { return mergeable(specs[0], spec); });
}

/// C0: full attention that remembers two different windows is not merely unmergeable, it stops vLLM.
constexpr bool windows_differ(Specs const& specs) {
  bool const all_full = std::all_of(specs.begin(), specs.end(), [](auto const& spec) { return base_of(spec.kind) == BaseKind::full; });
  if (specs[0].kind != SpecKind::full_attention || !all_full) return false;
  Tokens window{}, chunk{};
  for (auto const& spec : specs) {
    if (clash(window, spec.window) || clash(chunk, spec.chunk)) return true;
    window = max(window, spec.window);
    chunk = max(chunk, spec.chunk);
  }
  return false;
}

/// C2: one kind, one block size, and one of what the kind depends on.
constexpr bool uniform_type(Specs const& specs) {
  auto const& first = specs[0];
  return std::all_of(specs.begin(), specs.end(), [&](auto const& spec) {
    if (spec.block != first.block || base_of(spec.kind) != base_of(first.kind)) return false;
    switch (base_of(first.kind)) {
      case BaseKind::sliding_window:
      case BaseKind::sliding_window_mla:
        return spec.window == first.window;
      case BaseKind::chunked_local:
        return spec.chunk == first.chunk;
      case BaseKind::mamba:
        return spec.speculative_blocks == first.speculative_blocks;
      default:
        return true;
    }
  });
}

constexpr bool is_local(LayerSpec const& spec) {
  auto const base = base_of(spec.kind);
  return base == BaseKind::sliding_window || base == BaseKind::sliding_window_mla || base == BaseKind::chunked_local;
}

/// C0: the full layers' block where it is unique; none otherwise.
constexpr Tokens block_of_full_layers(Specs const& specs) {
  Tokens block{};
  for (auto const& spec : specs) {
    if (base_of(spec.kind) != BaseKind::full) continue;
    if (clash(block, spec.block)) return {};
    block = spec.block;
  }
  return block;
}

/// C0: a window or chunk kept like full attention; a padded page grows in proportion to the block.
constexpr LayerSpec promoted(LayerSpec const& local, Tokens block) {
  LayerSpec full = local;
  full.kind = local.kind == SpecKind::sliding_window_mla ? SpecKind::mla : SpecKind::full_attention;
  full.extra_retained = {};
  if (block != Tokens{}) full.block = block;
  if (local.padded != Bytes{})
    full.padded = max(local.padded, Bytes{floor_div(saturating_multiply(unpadded_page(local).count, full.block.count), local.block.count)});
  else if (local.alignment != Bytes{})
    full.padded = aligned_page(full);
  return full;
}

/// C0, in place: what stops vLLM, or nothing.
constexpr Refusal disable_hybrid_manager(Specs& specs) {
  if (windows_differ(specs)) return Refusal::windows_differ;
  if (all_mergeable(specs) || uniform_type(specs)) return Refusal::none;
  if (std::any_of(specs.begin(), specs.end(), [](auto const& spec) { return base_of(spec.kind) == BaseKind::full; })) {
    Tokens const block = block_of_full_layers(specs);
    for (auto& spec : specs)
      if (is_local(spec)) spec = promoted(spec, block);
  }
  if (windows_differ(specs)) return Refusal::windows_differ;
  return all_mergeable(specs) || uniform_type(specs) ? Refusal::none : Refusal::cannot_promote;
}

/// C5: every page as large as the largest: a state's padded, attention's block multiplied, else padded where the backend allows it.
constexpr Refusal unify_pages(Specs& specs) {
  Bytes target{};
  for (auto const& spec : specs) target = max(target, page_bytes(spec));
  for (auto& spec : specs) {
    Bytes const page = page_bytes(spec);
    if (page == target) continue;
    if (spec.kind == SpecKind::mamba)
      spec.padded = target;
    else if (page != Bytes{} && target.count % page.count == 0)
      spec.block = spec.block * (target.count / page.count);
    else if (spec.by_block_stride)
      spec.padded = target;
    else
      return Refusal::pages_do_not_unify;
  }
  return Refusal::none;
}

/// Layers that one manager serves, kinds of equal specs one after another.
struct Bucket {
  Specs kinds{};
  std::vector<std::uint32_t> places{};
};

/// C4: equal specs together, in first-seen order; then those together that merge.
constexpr std::vector<Bucket> buckets_of(Layers const& layers) {
  std::vector<Bucket> equal;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    auto known = std::find_if(equal.begin(), equal.end(), [&](auto const& bucket) { return bucket.kinds[0] == layers.specs[i]; });
    if (known == equal.end()) known = equal.insert(known, Bucket{.kinds = {layers.specs[i]}});
    known->places.push_back(layers.places[i]);
  }
  std::vector<Bucket> merged;
  for (auto const& one : equal) {
    auto const serves = [&](Bucket const& bucket) {
      return std::all_of(bucket.kinds.begin(), bucket.kinds.end(), [&](auto const& kind) { return mergeable(kind, one.kinds[0]); });
    };
    auto const known = std::find_if(merged.begin(), merged.end(), serves);
    if (known == merged.end()) {
      merged.push_back(one);
    } else {
      known->kinds.push_back(one.kinds[0]);
      known->places.insert(known->places.end(), one.places.begin(), one.places.end());
    }
  }
  return merged;
}

/// C4: the smallest bucket's layers; the largest's where it is less than half as many again.
constexpr std::uint64_t layers_per_group(std::vector<Bucket> const& buckets) {
  std::uint64_t smallest = saturated_count, largest = 0;
  for (auto const& bucket : buckets) {
    smallest = std::min<std::uint64_t>(smallest, bucket.places.size());
    largest = std::max<std::uint64_t>(largest, bucket.places.size());
  }
  return largest * 2 < smallest * 3 ? largest : smallest;
}

/// C4: every n-th layer of a bucket, so that pipeline stages stay even.
constexpr Group strided_layers(Bucket const& bucket, std::size_t first, std::size_t n) {
  Group group{.members = {bucket.kinds[0]}};
  for (std::size_t i = first; i < bucket.places.size(); i += n) group.layers.push_back(bucket.places[i]);
  return group;
}

/// B7, C4: a cache of hidden states is a group of its own. Its block is the largest that divides every group's block and fits a page.
constexpr Group hidden_state_group(std::uint32_t place, LayerSpec spec, std::vector<Group> const& groups, Bytes page) {
  std::uint64_t common = 0;
  for (auto const& group : groups) common = kvbudget::detail::greatest_common_divisor(group.members[0].block.count, common);
  Bytes const token = Bytes{bytes_of(spec.element)} * spec.head_size * spec.kv_heads;
  std::uint64_t const fit = std::max<std::uint64_t>(floor_div(page, token), 1);
  std::uint64_t block = std::min(common, fit);
  while (block > 1 && common % block != 0) --block;
  spec.block = Tokens{block};
  spec.padded = page;
  return {.layers = {place}, .members = {spec}};
}

constexpr Grouping general_groups(Layers const& all) {
  Layers layers, hidden;
  for (std::size_t i = 0; i < all.size(); ++i) (all.specs[i].kind == SpecKind::hidden_state ? hidden : layers).push_back(all.places[i], all.specs[i]);
  Grouping grouping{.refusal = layers.size() == 0 ? Refusal::layout_without_rule : unify_pages(layers.specs)};
  if (grouping.refusal != Refusal::none) return grouping;
  auto const buckets = buckets_of(layers);
  std::uint64_t const size = layers_per_group(buckets);
  for (auto const& bucket : buckets) {
    std::uint64_t const n = ceil_div(bucket.places.size(), size);
    for (std::uint64_t i = 0; i < n; ++i) grouping.groups.push_back(strided_layers(bucket, i, n));
  }
  Bytes const page = page_bytes(layers.specs[0]);
  std::vector<Group> const attention = grouping.groups;
  for (std::size_t i = 0; i < hidden.size(); ++i) grouping.groups.push_back(hidden_state_group(hidden.places[i], hidden.specs[i], attention, page));
  return grouping;
}

}  // namespace detail

/// C0 to C5, over the layers of all pipeline ranks in a row (D2). No layers: no groups.
constexpr Grouping group_layers(std::vector<LayerSpec> const& specs, bool disable_hybrid_manager = false) {
  detail::Layers layers;
  for (std::uint32_t i = 0; i < specs.size(); ++i) layers.push_back(i, specs[i]);
  if (specs.empty()) return {};
  if (disable_hybrid_manager) {
    if (auto const refusal = detail::disable_hybrid_manager(layers.specs); refusal != Refusal::none) return {.refusal = refusal};
  } else if (detail::windows_differ(layers.specs)) {
    return {.refusal = Refusal::windows_differ};
  }
  if (detail::all_mergeable(layers.specs)) return {.groups = {{.layers = layers.places, .members = {layers.specs[0]}}}};                  // C1
  if (detail::uniform_type(layers.specs)) return {.groups = {{.layers = layers.places, .members = layers.specs, .uniform_type = true}}};  // C2
  if (detail::is_packed_layout(layers.specs)) return detail::packed_groups(layers);                                                       // C3
  return detail::general_groups(layers);                                                                                                  // C4
}

}  // namespace kvbudget::inline v1::vllm
