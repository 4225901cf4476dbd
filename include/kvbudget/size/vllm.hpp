// What vLLM allocates, accepts and prints for a model, before it is started (facts: vllm.md; commit 7cfb97e337, 2026-08-20).
//
//   bytes of a pool block = page x layers of the largest group          D1
//   blocks                = available / bytes of a pool block           D2, the minimum over ranks
//   printed concurrency   = blocks / blocks of one request of max_model_len
//   printed tokens        = int(concurrency x max_model_len)            D5: not blocks x block size
// plan(gemma3_27b, 30_GiB, {.max_model_len = 131'072_tokens, .tensor_parallel = 2}): 49'152 blocks, 437'488 printed tokens,
// 3.34x. Rules A and B are in vllm/layer_spec.hpp, C in vllm/groups.hpp, from a CacheSpec to layers in vllm/model.hpp.
#pragma once

#include <kvbudget/size/capacity.hpp>
#include <kvbudget/size/vllm/model.hpp>

namespace kvbudget::inline v1::vllm {

// ---- D12: what profiling leaves ----

struct Memory {
  Bytes total{};
  Bytes free{};  // at start; 0: not looked at
  Percent gpu_memory_utilization{92};
  Bytes weights{};      // consumed when the model is loaded, all of it
  Bytes activations{};  // torch's peak beyond that
  Bytes cuda_graphs{};  // the estimate, counted since 0.21
  Bytes multimodal_reserve{};
  Bytes kv_cache_memory{};  // --kv-cache-memory-bytes: what it is, without profiling; 0: not given
};

/// ceil(total x utilization) as Python computes it, in double.
constexpr Bytes requested_memory(Bytes total, Percent utilization) {
  double const exact = static_cast<double>(total.count) * (static_cast<double>(utilization.millionths) / 1'000'000.0);
  if (!(exact < 9.0e18)) return Bytes::max();
  auto const whole = static_cast<std::uint64_t>(exact);
  return {whole + (static_cast<double>(whole) < exact)};
}

/// D12: vLLM does not start where less is free than it may use.
constexpr Complaints check(Memory const& memory) {
  Complaints complaints{};
  auto const complain = [&](char const* field, std::uint64_t value, char const* accepted, char const* next) {
    complaints.push_back({field, value, accepted, next});
  };
  if (memory.kv_cache_memory != Bytes{}) return complaints;
  if (memory.total == Bytes{} || memory.total.saturated())
    complain(".total", memory.total.count, "1 byte or more", "give one device's memory, for example 80_GiB");
  if (memory.gpu_memory_utilization == Percent{} || memory.gpu_memory_utilization > Percent{100})
    complain(".gpu_memory_utilization", memory.gpu_memory_utilization.millionths, "more than 0% and at most 100% (in millionths)",
             "give for example Percent{92}");
  if (complaints.empty() && memory.free != Bytes{} && memory.free < requested_memory(memory.total, memory.gpu_memory_utilization))
    complain(".free", memory.free.count, "at least memory x gpu_memory_utilization", "free the device, or lower gpu_memory_utilization");
  return complaints;
}

/// D12: bytes for the cache on one rank, each step in the trail. Nothing where check(memory) complains.
constexpr Bytes available_bytes(Memory const& memory, Trail& trail) {
  if (!check(memory).empty()) return nothing_fits<Bytes>();
  if (memory.kv_cache_memory != Bytes{}) {
    trail.start("kv_cache_memory_bytes", memory.kv_cache_memory);
    return trail.bytes();
  }
  trail.start("memory x gpu_memory_utilization (up)", requested_memory(memory.total, memory.gpu_memory_utilization));
  trail.subtract("weights", memory.weights);
  trail.subtract("activations", memory.activations);
  trail.subtract("CUDA graphs", memory.cuda_graphs);
  trail.subtract("multimodal reserve", memory.multimodal_reserve);
  return trail.bytes();
}

// ---- the answer ----

/// One pipeline stage; its tensor ranks are alike.
struct RankPlan {
  std::vector<Group> groups{};  // this rank's layers of each group; one may be left without any (D2)
  Bytes available{};
  Bytes bytes_per_block{};  // D1
  Blocks blocks{};          // D2, before the minimum over ranks
  Bytes needed{};           // D6: what one request of max_model_len takes
};

struct Plan : CachePlan {
  std::vector<Group> layer_groups{};  // of all ranks (C)
  std::vector<RankPlan> ranks{};
  std::uint32_t tightest_rank{};  // the one this plan's bytes are of
  Tokens max_model_len{};         // after auto-fit
  double max_concurrency{};       // blocks / blocks of one request, as vLLM computes it: the null block counts
  Tokens printed_tokens{};        // "GPU KV cache size"
  Blocks printed_cpu_blocks{};    // V0 only
  Tokens scheduler_block{};       // D10: prefix hits end on its multiples
  Tokens hash_block{};            // D10
  bool needs_zeroing{};           // C7
  Release release{Release::current};

  Refusal refusal{};
  Complaints complaints{};  // of bad_options
  std::uint32_t refused_rank{};
  Bytes needed{};              // D6, of the rank that refuses
  Bytes available{};           // D6: without the null block
  Tokens longest_that_fits{};  // D7

  constexpr bool refused() const { return refusal != Refusal::none; }
};

/// The layers of one pipeline stage and the bytes for their cache.
struct RankLayers {
  std::vector<LayerSpec> layers{};
  Bytes available{};
};

namespace detail {

/// A group as one rank has it (D2). A rank without layers of the group keeps its specs, but none of its layers.
constexpr Group on_rank(Group const& group, std::uint32_t first, std::uint32_t end) {
  Group local{.uniform_type = group.uniform_type};
  for (std::size_t i = 0; i < group.layers.size(); ++i) {
    if (group.layers[i] < first || group.layers[i] >= end) continue;
    local.layers.push_back(group.layers[i]);
    if (group.uniform_type) local.members.push_back(group.members[i]);
  }
  if (local.members.empty()) local.members = group.members;
  return local;
}

constexpr std::vector<Group> on_rank(std::vector<Group> const& groups, std::uint32_t first, std::uint32_t end) {
  std::vector<Group> local;
  for (auto const& group : groups) local.push_back(on_rank(group, first, end));
  return local;
}

constexpr bool one_uniform(std::vector<Group> const& groups) { return groups.size() == 1 && groups[0].uniform_type; }
constexpr bool all_uniform(std::vector<Group> const& groups) {
  return std::all_of(groups.begin(), groups.end(), [](auto const& group) { return group.uniform_type; });
}
constexpr std::uint64_t largest_group(std::vector<Group> const& groups) {
  std::uint64_t most = 0;
  for (auto const& group : groups) most = std::max<std::uint64_t>(most, group.layers.size());
  return most;
}

constexpr Bytes pages_of_layers(Group const& group) {
  return group.uniform_type && !group.layers.empty() ? page_bytes(group) : page_bytes(group.members[0]) * group.layers.size();
}

/// D1: bytes of one pool block.
constexpr Bytes bytes_per_block(std::vector<Group> const& groups, bool cross_layers_blocks) {
  if (one_uniform(groups)) return page_bytes(groups[0]);
  if (!all_uniform(groups) && !(cross_layers_blocks && groups.size() > 1)) return page_bytes(groups[0].members[0]) * largest_group(groups);
  Bytes most{};
  for (auto const& group : groups) most = max(most, pages_of_layers(group));
  return most;
}

constexpr Blocks blocks_per_request(std::vector<Group> const& groups, RequestTerms const& terms, Tokens length) {
  Blocks sum{};
  for (auto const& group : groups) sum += vllm::blocks_per_request(group, terms, length);
  return sum;
}

/// D6, C3: the sum of group 0's different page sizes, which is more than the packed stride.
constexpr Bytes tuple_bytes(Group const& group) {
  Layers layers;
  for (auto const& member : group.members) layers.push_back(0, member);
  Bytes sum{};
  for (auto const& size : by_page_size(layers)) sum += page_bytes(size.specs[0]);
  return sum;
}

/// D6: bytes that one request of `length` tokens needs.
constexpr Bytes needed_bytes(std::vector<Group> const& groups, RequestTerms const& terms, Tokens length) {
  if (one_uniform(groups)) {
    Bytes sum{};
    for (auto const& member : groups[0].members) sum += page_bytes(member) * vllm::blocks_per_request(member, terms, length).count;
    return sum;
  }
  Blocks const blocks = blocks_per_request(groups, terms, length);
  if (!all_uniform(groups)) return page_bytes(groups[0].members[0]) * largest_group(groups) * blocks.count;
  std::uint64_t tuples = 0;
  for (auto const& group : groups) tuples = std::max(tuples, tuples_in(group.members));
  return tuple_bytes(groups[0]) * tuples * blocks.count;
}

/// D7: the longest request that fits, by bisection, not rounded to a block; none where not one token fits.
constexpr Tokens longest_that_fits(std::vector<Group> const& groups, RequestTerms const& terms, Tokens at_most, Bytes available) {
  auto const fits = [&](Tokens length) { return needed_bytes(groups, terms, length) <= available; };
  if (!fits(Tokens{1})) return {};
  Tokens low{1}, high = at_most;
  while (low < high) {
    Tokens const middle{low.count + (high.count - low.count + 1) / 2};
    (fits(middle) ? low : high) = fits(middle) ? middle : middle - Tokens{1};
  }
  return low;
}

constexpr Tokens manager_block(LayerSpec const& spec, RequestTerms const& terms) {
  return spec.kind == SpecKind::mamba ? spec.block : spec.block * terms.decode_context;  // D11
}

/// D10: what chunks and prefix hits are multiples of.
constexpr Tokens scheduler_block(std::vector<Group> const& groups, RequestTerms const& terms) {
  if (groups.size() == 1) return groups[0].members[0].block * terms.decode_context;
  std::uint64_t common = 1;
  for (auto const& group : groups) common = kvbudget::detail::least_common_multiple(common, manager_block(group.members[0], terms).count);
  return {common};
}

/// D10: tokens behind one block hash.
constexpr Tokens hash_block(std::vector<Group> const& groups, RequestTerms const& terms, Options const& options) {
  Tokens const whole = scheduler_block(groups, terms);
  bool const cached = options.enable_prefix_caching || options.cross_layers_blocks;
  bool const unaligned = std::any_of(groups.begin(), groups.end(), [](auto const& group) {
    return group.members[0].kind == SpecKind::mamba && group.members[0].mamba_mode != MambaMode::align;
  });
  if (groups.size() == 1 || !cached || unaligned) return whole;
  if (options.prefix_match_unit != Tokens{}) return options.prefix_match_unit;
  std::uint64_t common = 0;
  for (auto const& group : groups) common = kvbudget::detail::greatest_common_divisor(manager_block(group.members[0], terms).count, common);
  return {common};
}

/// C7: blocks that hold states, or what was quantised after what was not, are zeroed when they are given out.
constexpr bool needs_zeroing(std::vector<Group> const& groups) {
  bool state = false, quantised = false, in_float = false;
  for (auto const& group : groups)
    for (auto const& member : group.members) {
      state = state || member.kind == SpecKind::mamba;
      quantised = quantised || is_quantised(member.cache_dtype);
      in_float = in_float || (!is_quantised(member.cache_dtype) && is_float(member.element));
    }
  return state || (groups.size() > 1 && quantised && in_float);
}

/// D9: what cache_config.block_size becomes.
constexpr Tokens smallest_block(std::vector<Group> const& groups) {
  Tokens smallest = Tokens::max();
  for (auto const& group : groups) smallest = min(smallest, group.members[0].block);
  return smallest;
}

/// B2: what windows keep for drafts of several modules.
constexpr void retain_for_drafts(std::vector<LayerSpec>& specs, Options const& options) {
  for (auto& spec : specs)
    if (spec.window != Tokens{} && is_local(spec)) spec.extra_retained = extra_retained(options);
}

/// J1 to J3, D5: tokens as a release prints them.
constexpr Tokens printed_tokens(Plan const& plan, RequestTerms const& terms) {
  if (plan.release == Release::current) {
    double const tokens = plan.max_concurrency * static_cast<double>(plan.max_model_len.count);
    return tokens < 1.8e19 ? Tokens{static_cast<std::uint64_t>(tokens)} : Tokens::max();
  }
  return smallest_block(plan.layer_groups) * floor_div(plan.blocks.count, plan.layer_groups.size()) * terms.decode_context;
}

// ---- the same in the general shape ----

/// What a sequence's stored tokens take in one layer, without padding.
constexpr Bytes entry_bytes(LayerSpec const& spec) {
  if (spec.kind == SpecKind::mamba) return state_bytes(spec);
  Bytes const token{floor_div(unpadded_page(spec).count, stored_tokens(spec))};
  return spec.kind == SpecKind::cross_attention ? token * spec.block.count : token;
}

constexpr bool same_group(CacheGroup const& a, CacheGroup const& b) {
  return a.keeps == b.keeps && a.block == b.block && a.span == b.span && a.fixed == b.fixed && a.bound.tokens == b.bound.tokens &&
         a.bound.blocks == b.bound.blocks;
}

/// The group of the plan that layers of this spec belong to; one more where there is none yet.
constexpr GroupPlan& group_for(CachePlan& plan, CacheGroup const& group, std::uint32_t tokens_per_entry) {
  for (auto& known : plan.groups)
    if (same_group(known.group, group) && known.tokens_per_entry == tokens_per_entry) return known;
  GroupPlan one{.group = group, .tokens_per_entry = tokens_per_entry};
  one.group.blocks_per_entry = 0;
  plan.groups.push_back(one);
  return plan.groups[plan.groups.size() - 1];
}

constexpr std::uint32_t tokens_per_entry(LayerSpec const& spec, RequestTerms const& terms) {
  bool const grows = base_of(spec.kind) == BaseKind::full;
  return spec.compress_ratio * (grows ? terms.decode_context : 1);
}

/// Groups of one kind are one entry of the plan, which has a pool block for each behind every block of tokens. In a group of
/// several kinds the first carries the blocks.
constexpr void describe(CachePlan& plan, std::vector<Group> const& local, RequestTerms const& terms) {
  for (auto const& group : local) {
    Bytes filled{};
    CacheGroup const first = cache_group(group.members[0], terms);
    for (std::size_t i = 0; i < group.layers.size(); ++i) {
      LayerSpec const& spec = group.members[group.uniform_type ? i : 0];
      GroupPlan& one = group_for(plan, cache_group(spec, terms), tokens_per_entry(spec, terms));
      one.entry += entry_bytes(spec);
      ++one.layers;
      one.page = page_bytes(spec);
      filled += unpadded_page(spec);
    }
    GroupPlan& carrier = group_for(plan, first, tokens_per_entry(group.members[0], terms));
    ++carrier.group.blocks_per_entry;
    carrier.padding += plan.bytes_per_block - filled;
  }
  for (auto const& one : plan.groups)
    if (one.group.blocks_per_entry != 0) plan.footprint.groups.push_back(one.group);
  if (plan.groups.overflowed() || plan.footprint.groups.overflowed()) plan.footprint.groups = {fixed_group(Blocks::max())};  // too many kinds to tell what fits
}

}  // namespace detail

/// D, over the layers of every pipeline stage.
constexpr Plan plan(std::vector<RankLayers> const& ranks, Options const& options) {
  Plan plan{};
  plan.options = {
      .block = options.block_size, .in_flight = in_flight_tokens(options), .max_requests = options.max_num_seqs, .max_length = options.max_model_len};
  plan.max_model_len = options.max_model_len;
  plan.release = options.release;
  plan.footprint = {.groups = {}, .in_flight = min(options.max_num_batched_tokens, options.max_model_len)};
  auto const refuse = [&](Refusal why) {
    plan.refusal = why;
    plan.blocks = {};
    plan.footprint = {.groups = {fixed_group(Blocks::max())}};
    return plan;
  };
  plan.complaints = check(options);
  if (ranks.empty()) plan.complaints.push_back({".ranks", 0, "the layers of one rank or more", "give each pipeline stage's layers"});
  std::vector<LayerSpec> all;
  for (auto const& rank : ranks) all.insert(all.end(), rank.layers.begin(), rank.layers.end());
  for (std::size_t i = 0; i < all.size() && plan.complaints.empty(); ++i) plan.complaints = check(all[i]);
  if (!plan.complaints.empty()) return refuse(Refusal::bad_options);
  detail::retain_for_drafts(all, options);
  Grouping grouping = group_layers(all, options.disable_hybrid_kv_cache_manager);
  if (grouping.refusal != Refusal::none) return refuse(grouping.refusal);
  plan.layer_groups = std::move(grouping.groups);
  if (plan.layer_groups.empty()) {  // D9: nothing to keep
    plan.blocks = Blocks{1};
    return plan;
  }

  RequestTerms const terms = request_terms(options);
  std::uint32_t first = 0;
  for (auto const& rank : ranks) {
    auto const end = first + static_cast<std::uint32_t>(rank.layers.size());
    auto const local = detail::on_rank(plan.layer_groups, first, end);
    Bytes const block = detail::bytes_per_block(local, options.cross_layers_blocks);
    Bytes const available = options.num_gpu_blocks_override ? block * options.num_gpu_blocks_override->count : rank.available;
    Blocks const blocks = options.num_gpu_blocks_override ? *options.num_gpu_blocks_override : Blocks{floor_div(available.count, block.count)};
    plan.ranks.push_back({local, available, block, blocks, {}});
    first = end;
  }
  auto const without_null_block = [&](std::size_t rank) { return plan.ranks[rank].available - plan.ranks[rank].bytes_per_block; };

  if (options.auto_fit) {  // D8
    for (std::size_t i = 0; i < ranks.size(); ++i)
      plan.max_model_len = min(plan.max_model_len, detail::longest_that_fits(plan.ranks[i].groups, terms, options.max_model_len, without_null_block(i)));
    plan.options.max_length = plan.max_model_len;
  }
  for (std::size_t i = 0; i < ranks.size(); ++i) {  // D6
    plan.ranks[i].needed = detail::needed_bytes(plan.ranks[i].groups, terms, plan.max_model_len);
    bool const none = without_null_block(i) == Bytes{};
    if (!none && plan.ranks[i].needed <= without_null_block(i) && plan.max_model_len != Tokens{}) continue;
    plan.refused_rank = static_cast<std::uint32_t>(i);
    plan.available = without_null_block(i);
    plan.needed = plan.ranks[i].needed;
    plan.longest_that_fits = detail::longest_that_fits(plan.ranks[i].groups, terms, plan.max_model_len, plan.available);
    return refuse(none ? Refusal::no_memory : Refusal::not_enough_memory);
  }

  for (std::uint32_t i = 1; i < ranks.size(); ++i)  // D2
    if (plan.ranks[i].blocks < plan.ranks[plan.tightest_rank].blocks) plan.tightest_rank = i;
  RankPlan const& tightest = plan.ranks[plan.tightest_rank];
  plan.pool = tightest.available;
  plan.bytes_per_block = tightest.bytes_per_block;
  plan.blocks = tightest.blocks;
  plan.sentinels = Blocks{1};  // D3
  if (options.num_gpu_blocks_override) {
    plan.trail.start("num_gpu_blocks_override", plan.blocks);
  } else {
    plan.trail.start("available for the cache", plan.pool);
    plan.trail.divide_down("bytes of a pool block", plan.bytes_per_block.count, Unit::bytes, Unit::blocks);
  }
  plan.options.block = detail::smallest_block(plan.layer_groups);  // D9
  detail::describe(plan, tightest.groups, terms);

  Blocks const of_a_request = detail::blocks_per_request(plan.ranks[0].groups, terms, plan.max_model_len);  // D4
  plan.max_concurrency = static_cast<double>(plan.blocks.count) / static_cast<double>(of_a_request.count);
  plan.printed_tokens = detail::printed_tokens(plan, terms);
  if (plan.release == Release::v0) plan.printed_cpu_blocks = {floor_div(options.swap_space.count, plan.bytes_per_block.count)};
  plan.scheduler_block = detail::scheduler_block(plan.layer_groups, terms);
  plan.hash_block = detail::hash_block(plan.layer_groups, terms, options);
  plan.needs_zeroing = detail::needs_zeroing(plan.layer_groups);
  return plan;
}

/// The same for a model: bytes for the cache on the ranks of each stage.
constexpr Plan plan(CacheSpec const& model, std::vector<Bytes> const& available, Options const& options) {
  ModelLayers stages = layers_of(model, options);
  if (stages.complaints.empty() && available.size() != stages.stages.size())
    stages.complaints.push_back({".available", available.size(), "one amount of bytes for each pipeline stage", "give every stage's bytes"});
  std::vector<RankLayers> ranks;
  for (std::size_t i = 0; i < available.size() && stages.complaints.empty(); ++i) ranks.push_back({std::move(stages.stages[i]), available[i]});
  Plan result = plan(ranks, stages.options);
  if (!stages.complaints.empty()) result.complaints = stages.complaints;
  return result;
}

/// The same with `available` bytes on every rank.
constexpr Plan plan(CacheSpec const& model, Bytes available, Options const& options) {
  return plan(model, std::vector<Bytes>(options.pipeline_parallel < max_stages ? options.pipeline_parallel : max_stages, available), options);
}

}  // namespace kvbudget::inline v1::vllm
