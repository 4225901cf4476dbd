// What vLLM allocates, accepts and prints for a model, before it is started (facts: vllm.md; commit 7cfb97e337, 2026-08-20).
//
//   bytes of a pool block = page x layers of the largest group          D1
//   blocks                = available / bytes of a pool block           D2, the minimum over ranks
//   printed concurrency   = blocks / blocks of one request of max_model_len
//   printed tokens        = int(concurrency x max_model_len)            D5: not blocks x block size
// plan(gemma3_27b, 30_GiB, {.max_model_len = 131'072_tokens, .tensor_parallel = 2}): 49'152 blocks, 437'488 printed tokens,
// 3.34x. In vllm/: A and B in layer_spec.hpp, C in groups.hpp, from a CacheSpec to layers in model.hpp, D12 in memory.hpp.
#pragma once

#include <kvbudget/size/vllm/memory.hpp>
#include <kvbudget/size/vllm/model.hpp>
#include <kvbudget/size/vllm/shape.hpp>

#include <utility>

namespace kvbudget::inline v1::vllm {

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
  std::uint32_t layers_left_out{};    // that C3 puts in no group
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
  Complaints complaints{};  // why, of bad_options; of a plan that stands, what it can't tell
  std::uint32_t refused_rank{};
  Trail needed_steps{};        // D6, of the rank that refuses
  Bytes needed{};              // its result
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

/// D4: blocks of a request, of all groups.
constexpr Blocks blocks_per_request(std::vector<Group> const& groups, RequestTerms const& terms, Tokens length) {
  Blocks sum{};
  for (auto const& group : groups) sum += vllm::blocks_per_request(group, terms, length);
  return sum;
}

/// D6: what vLLM takes a block for when it asks whether a request fits: `copies` x `page`.
struct CountedBlock {
  Bytes page{};
  std::uint64_t copies{1};

  constexpr Bytes bytes() const { return page * copies; }
};

/// D6: the page and the layers of the largest group; of C2 all pages; of C3 the sum of group 0's different page sizes, times the
/// tuples of the largest group, which is more than the packed stride.
constexpr CountedBlock counted_block(std::vector<Group> const& groups) {
  if (one_uniform(groups)) return {.page = page_bytes(groups[0])};
  if (!all_uniform(groups)) return {.page = page_bytes(groups[0].members[0]), .copies = largest_group(groups)};
  CountedBlock block{.copies = 0};
  for (auto const& group : groups) block.copies = std::max(block.copies, tuples_in(group.members));
  Layers first;
  for (auto const& member : groups[0].members) first.push_back(0, member);
  for (auto const& size : by_page_size(first)) block.page += page_bytes(size.specs[0]);
  return block;
}

/// D6: bytes that one request of `length` tokens needs.
constexpr Bytes needed_bytes(std::vector<Group> const& groups, RequestTerms const& terms, Tokens length) {
  return counted_block(groups).bytes() * blocks_per_request(groups, terms, length).count;
}

constexpr Trail needed_steps(std::vector<Group> const& groups, RequestTerms const& terms, Tokens length) {
  CountedBlock const block = counted_block(groups);
  Trail steps{};
  steps.start("page", block.page);
  if (block.copies != 1) steps.multiply("layers of the largest group", block.copies, Unit::number, Unit::bytes);
  steps.multiply("blocks of a request", blocks_per_request(groups, terms, length).count, Unit::blocks, Unit::bytes);
  return steps;
}

/// D7: the longest request that fits, by bisection, not rounded to a block; none where not one token fits.
constexpr Tokens longest_that_fits(std::vector<Group> const& groups, RequestTerms const& terms, Tokens at_most, Bytes available) {
  Bytes const block = counted_block(groups).bytes();
  auto const fits = [&](std::uint64_t length) { return block * blocks_per_request(groups, terms, Tokens{length}).count <= available; };
  if (!fits(1)) return {};
  std::uint64_t low = 1, high = at_most.count;
  while (low < high) {
    std::uint64_t const middle = low + (high - low + 1) / 2;
    if (fits(middle))
      low = middle;
    else
      high = middle - 1;
  }
  return {low};
}

constexpr Tokens manager_block(LayerSpec const& spec, RequestTerms const& terms) {
  return spec.kind == SpecKind::mamba ? spec.block : spec.block * terms.decode_context;  // D11
}

/// D9: what cache_config.block_size becomes.
constexpr Tokens smallest_block(std::vector<Group> const& groups) {
  Tokens smallest = Tokens::max();
  for (auto const& group : groups) smallest = min(smallest, group.members[0].block);
  return smallest;
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

/// B2: what windows keep for drafts of several modules.
constexpr void retain_for_drafts(std::vector<LayerSpec>& specs, Options const& options) {
  for (auto& spec : specs)
    if (spec.window != Tokens{} && is_local(spec)) spec.extra_retained = extra_retained(options);
}

/// J1: V0 keeps every token of every layer in one pool, whatever its window; it has no layout for states.
constexpr Grouping v0_group(std::vector<LayerSpec> specs) {
  Group all{.uniform_type = true};
  Tokens const block = specs.empty() ? Tokens{} : block_of_full_layers(specs);
  for (auto& spec : specs) {
    if (spec.kind == SpecKind::mamba || spec.kind == SpecKind::cross_attention) return {.refusal = Refusal::layout_without_rule};
    all.layers.push_back(static_cast<std::uint32_t>(all.layers.size()));
    all.members.push_back(is_local(spec) ? promoted(spec, block) : spec);
  }
  return specs.empty() ? Grouping{} : Grouping{.groups = {all}};
}

constexpr Grouping grouped(std::vector<LayerSpec> const& specs, Options const& options) {
  if (options.release == Release::v0) return v0_group(specs);
  return group_layers(specs, options.disable_hybrid_kv_cache_manager);
}

/// J1 to J3, D5: tokens as a release prints them.
constexpr Tokens printed_tokens(Plan const& plan, RequestTerms const& terms) {
  if (plan.release == Release::current) return {cut_to_whole(plan.max_concurrency * in_double(plan.max_model_len.count))};
  return smallest_block(plan.layer_groups) * floor_div(plan.blocks.count, plan.layer_groups.size()) * terms.decode_context;
}

/// D4, D5; J2: V0 divides tokens by the length.
constexpr double max_concurrency(Plan const& plan, RequestTerms const& terms) {
  if (plan.release == Release::v0) return in_double(printed_tokens(plan, terms).count) / in_double(plan.max_model_len.count);
  return in_double(plan.blocks.count) / in_double(blocks_per_request(plan.ranks[0].groups, terms, plan.max_model_len).count);
}

/// Holds nothing, and says why.
constexpr Plan refused(Plan plan, Refusal why) {
  plan.refusal = why;
  plan.blocks = {};
  plan.footprint = {.groups = {fixed_group(Blocks::max())}};
  return plan;
}

constexpr Plan refused_on(Plan plan, Refusal why, std::uint32_t rank, RequestTerms const& terms, Tokens length) {
  auto const& of = plan.ranks[rank];
  plan.refused_rank = rank;
  plan.available = of.available - of.bytes_per_block * plan.sentinels.count;
  plan.needed_steps = needed_steps(of.groups, terms, length);
  plan.needed = plan.needed_steps.bytes();
  plan.longest_that_fits = longest_that_fits(of.groups, terms, length, plan.available);
  return refused(std::move(plan), why);
}

/// What is asked for, before any layer is looked at.
constexpr Plan asked(Options const& options) {
  Plan plan{};
  plan.options = {
      .block = options.block_size, .in_flight = in_flight_tokens(options), .max_requests = options.max_num_seqs, .max_length = options.max_model_len};
  plan.max_model_len = options.max_model_len;
  plan.release = options.release;
  plan.sentinels = Blocks{options.release == Release::v0 ? 0U : 1U};  // D3
  plan.footprint = {.groups = {}, .in_flight = min(options.max_num_batched_tokens, options.max_model_len)};
  plan.complaints = check(options);
  return plan;
}

/// D1, D2: each rank's blocks.
constexpr void divide(Plan& plan, std::vector<RankLayers> const& ranks, Options const& options) {
  std::uint32_t first = 0;
  for (auto const& rank : ranks) {
    auto const end = first + static_cast<std::uint32_t>(rank.layers.size());
    RankPlan local{.groups = on_rank(plan.layer_groups, first, end), .available = rank.available};
    local.bytes_per_block = bytes_per_block(local.groups, options.cross_layers_blocks);
    local.blocks = {floor_div(rank.available.count, local.bytes_per_block.count)};
    if (options.num_gpu_blocks_override) {
      local.blocks = *options.num_gpu_blocks_override;
      local.available = local.bytes_per_block * local.blocks.count;
    }
    plan.ranks.push_back(std::move(local));
    first = end;
  }
}

/// D2: the rank with fewest blocks decides for all.
constexpr void take_least(Plan& plan, Options const& options) {
  for (std::uint32_t i = 1; i < plan.ranks.size(); ++i)
    if (plan.ranks[i].blocks < plan.ranks[plan.tightest_rank].blocks) plan.tightest_rank = i;
  RankPlan const& tightest = plan.ranks[plan.tightest_rank];
  plan.pool = tightest.available;
  plan.bytes_per_block = tightest.bytes_per_block;
  plan.blocks = tightest.blocks;
  if (options.num_gpu_blocks_override) return plan.trail.start("num_gpu_blocks_override", plan.blocks);
  plan.trail.start("available for the cache", plan.pool);
  plan.trail.divide_down("bytes of a pool block", plan.bytes_per_block.count, Unit::bytes, Unit::blocks);
}

/// What the log says, and what the scheduler works with.
constexpr void print(Plan& plan, RequestTerms const& terms, Options const& options) {
  plan.max_concurrency = max_concurrency(plan, terms);
  plan.printed_tokens = printed_tokens(plan, terms);
  if (plan.release == Release::v0) plan.printed_cpu_blocks = {floor_div(options.swap_space.count, plan.bytes_per_block.count)};
  plan.scheduler_block = scheduler_block(plan.layer_groups, terms);
  plan.hash_block = hash_block(plan.layer_groups, terms, options);
  plan.needs_zeroing = needs_zeroing(plan.layer_groups);
}

/// Every layer in a row, or why they are no layers.
constexpr std::vector<LayerSpec> all_layers(std::vector<RankLayers> const& ranks, Complaints& complaints) {
  if (ranks.empty()) complaints.push_back({".ranks", 0, "the layers of one rank or more", "give each pipeline stage's layers"});
  std::vector<LayerSpec> all;
  for (auto const& rank : ranks) all.insert(all.end(), rank.layers.begin(), rank.layers.end());
  for (std::size_t i = 0; i < all.size() && complaints.empty(); ++i) complaints = check(all[i]);
  return all;
}

constexpr bool any_without_layers(std::vector<RankLayers> const& ranks) {
  return std::any_of(ranks.begin(), ranks.end(), [](auto const& rank) { return rank.layers.empty(); });
}

}  // namespace detail

/// D, over the layers of every pipeline stage.
constexpr Plan plan(std::vector<RankLayers> const& ranks, Options const& options) {
  Plan plan = detail::asked(options);
  auto all = detail::all_layers(ranks, plan.complaints);
  if (!plan.complaints.empty()) return detail::refused(std::move(plan), Refusal::bad_options);
  detail::retain_for_drafts(all, options);
  Grouping grouping = detail::grouped(all, options);
  if (grouping.refusal != Refusal::none) return detail::refused(std::move(plan), grouping.refusal);
  plan.layer_groups = std::move(grouping.groups);
  if (plan.layer_groups.empty()) {  // D9: nothing to keep
    plan.blocks = Blocks{1};
    return plan;
  }
  if (detail::any_without_layers(ranks)) return detail::refused(std::move(plan), Refusal::layout_without_rule);
  plan.layers_left_out = static_cast<std::uint32_t>(all.size());
  for (auto const& group : plan.layer_groups) plan.layers_left_out -= static_cast<std::uint32_t>(group.layers.size());

  RequestTerms const terms = request_terms(options);
  detail::divide(plan, ranks, options);
  for (std::uint32_t i = 0; i < ranks.size() && options.auto_fit; ++i) {  // D8
    Bytes const available = plan.ranks[i].available - plan.ranks[i].bytes_per_block * plan.sentinels.count;
    Tokens const longest = detail::longest_that_fits(plan.ranks[i].groups, terms, options.max_model_len, available);
    if (longest == Tokens{}) return detail::refused_on(std::move(plan), Refusal::cannot_auto_fit, i, terms, Tokens{1});
    plan.options.max_length = plan.max_model_len = min(plan.max_model_len, longest);
  }
  for (std::uint32_t i = 0; i < ranks.size(); ++i) {  // D6
    RankPlan& rank = plan.ranks[i];
    Bytes const available = rank.available - rank.bytes_per_block * plan.sentinels.count;
    rank.needed = detail::needed_bytes(rank.groups, terms, plan.max_model_len);
    if (available == Bytes{}) return detail::refused_on(std::move(plan), Refusal::no_memory, i, terms, plan.max_model_len);
    if (rank.needed > available) return detail::refused_on(std::move(plan), Refusal::not_enough_memory, i, terms, plan.max_model_len);
  }
  detail::take_least(plan, options);
  plan.options.block = detail::smallest_block(plan.layer_groups);  // D9
  detail::describe(plan, plan.ranks[plan.tightest_rank].groups, plan.layer_groups, terms, plan.max_model_len, plan.complaints);
  detail::print(plan, terms, options);
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
