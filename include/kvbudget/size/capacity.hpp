// What a number of bytes holds: blocks, tokens, requests of a given length, what rounding loses, and what binds.
//
//   blocks per request = sum over groups of what Footprint says;   requests = floor(blocks / blocks per request)
// Layers that keep the same tokens form a group; a pool block is the largest number of bytes that a block of every group is
// a multiple of, so a model of one group has blocks of all its layers, as vLLM prints them. Llama-3.1-8B, 64 GiB, blocks of
// 16 tokens: 32'768 blocks of 2 MiB, 512 blocks for 8'192 tokens, 64 requests.
// Three numbers that are never one: resident() is what a sequence holds, reserved() what must be free to admit it, and
// tokens a runtime prints are that runtime's own (size/vllm.hpp and its neighbours). All figures are one rank's.
#pragma once

#include <kvbudget/size/device.hpp>
#include <kvbudget/size/estimate.hpp>

namespace kvbudget::inline v1 {

struct PlanOptions {
  Tokens block{1};                              // entries of one block: tokens, unless entries are compressed
  Tokens in_flight{Tokens::max()};              // most tokens of a sequence one step computes: windowed layers keep them, too
  std::uint64_t max_requests{saturated_count};  // the runtime's limit on running sequences, if any
};

/// Layers that keep the same tokens.
struct GroupPlan {
  CacheGroup group{};
  Bytes entry{};  // of all its layers; of a fixed group, all it keeps for a sequence
  std::uint32_t tokens_per_entry{1};

  constexpr Bytes resident(Tokens length) const {
    if (group.keeps == Keeps::fixed) return entry;
    return entry * ceil_div(group.keeps == Keeps::everything ? length : min(length, group.span), Tokens{tokens_per_entry});
  }
};

enum class Binds : std::uint8_t {
  cache_bytes,    // another request does not fit in the blocks
  max_requests,   // the limit on running sequences is reached first
  one_request,    // not even one request of this length fits
  no_cache_bytes  // nothing, or not one block, is left for the cache
};

/// What a plan holds of requests of one length.
struct RequestCapacity {
  Tokens length{};
  std::uint64_t requests{};
  Tokens context_tokens{};  // requests x length: the context served; a window caches fewer
  Blocks blocks_per_request{};
  Bytes resident{};  // a request holds this
  Bytes reserved{};  // this must be free to admit it: whole blocks, and what is in flight in windowed layers
  Blocks unused{};   // blocks beside the last request
  Binds binds{};
  Trail trail{};
};

struct CachePlan {
  Bytes pool{};  // bytes for the cache
  Bytes bytes_per_block{};
  Blocks blocks{};
  PlanOptions options{};
  InplaceVector<GroupPlan, max_groups> groups{};
  Footprint footprint{};  // for admission: gate{{.capacity = plan.blocks, .footprint = plan.footprint}}

  /// What the pool loses because it is cut into whole blocks.
  constexpr Bytes lost_in_pool() const { return pool - bytes_per_block * blocks.count; }

  constexpr Bytes resident(Tokens length) const {
    Bytes sum{};
    for (auto const& group : groups) sum += group.resident(length);
    return sum;
  }
  constexpr Blocks blocks_per_request(Tokens length) const { return footprint.most(0, length); }
  constexpr Bytes reserved(Tokens length) const { return bytes_per_block * blocks_per_request(length).count; }

  /// Requests of `length` tokens that fit side by side, and why not more.
  constexpr RequestCapacity at(Tokens length) const {
    RequestCapacity result{.length = length, .blocks_per_request = blocks_per_request(length), .resident = resident(length), .reserved = reserved(length)};
    Trail& trail = result.trail;
    trail.start("bytes for the cache", pool);
    trail.divide_down("bytes per block", bytes_per_block.count, Unit::bytes, Unit::blocks);
    trail.divide_down("blocks per request", result.blocks_per_request.count, Unit::blocks, Unit::requests);
    std::uint64_t const fit = trail.result();
    trail.at_most("limit on running requests", options.max_requests);
    result.requests = trail.result();
    trail.multiply("tokens of context", length.count, Unit::tokens, Unit::tokens);
    result.context_tokens = {trail.result()};
    result.unused = blocks - result.blocks_per_request * result.requests;
    result.binds = blocks == Blocks{}      ? Binds::no_cache_bytes
                   : fit == 0              ? Binds::one_request
                   : result.requests < fit ? Binds::max_requests
                                           : Binds::cache_bytes;
    return result;
  }

  /// The longest request that fits alone: the maximum where the cache stops growing inside the plan.
  constexpr Tokens longest() const {
    Tokens low{0}, high{std::uint64_t{1} << 48};
    auto const fits = [&](Tokens length) {
      Blocks const need = blocks_per_request(length);
      return need <= blocks && !need.saturated();
    };
    if (!fits(Tokens{1})) return {};
    if (fits(high)) return Tokens::max();
    while (low + Tokens{1} < high) {
      Tokens const middle{(low.count + high.count) / 2};
      (fits(middle) ? low : high) = middle;
    }
    return low;
  }

  /// How one group's blocks per request come about; its result is that group's share of blocks_per_request().
  constexpr Trail explain(GroupPlan const& of, Tokens length) const {
    Trail trail{};
    CacheGroup const& group = of.group;
    if (group.keeps == Keeps::fixed) {
      trail.start("states of a request", group.fixed);
    } else {
      trail.start("tokens of a request", length);
      trail.at_most(group.keeps == Keeps::window ? "the window, in flight, block ends" : "the chunk, in flight, block ends",
                    group.most_tokens(options.in_flight).count);
      trail.divide_up("tokens per block", group.block.count, Unit::tokens, Unit::blocks);
    }
    if (group.blocks_per_entry != 1) trail.multiply("pool blocks behind one", group.blocks_per_entry, Unit::blocks, Unit::blocks);
    return trail;
  }

  /// Bytes that `requests` requests of `length` tokens need: the inverse of at().
  constexpr Bytes bytes_for(std::uint64_t requests, Tokens length) const { return reserved(length) * requests; }
};

/// Every complaint about planning options.
constexpr Complaints check(PlanOptions const& options) {
  Complaints complaints{};
  if (options.block == Tokens{} || options.block > Tokens{1 << 20})
    complaints.push_back({".block", options.block.count, "1 to 1048576 tokens", "give the tokens of one block, for example 16"});
  if (options.in_flight == Tokens{})
    complaints.push_back({".in_flight", 0, "1 token or more", "give the most tokens one step computes (max_num_batched_tokens)"});
  if (options.max_requests == 0) complaints.push_back({".max_requests", 0, "1 request or more", "give the limit on running sequences, or leave it out"});
  return complaints;
}

namespace detail {

constexpr GroupPlan& group_for(CachePlan& plan, Part const& part) {
  for (auto& known : plan.groups)
    if (known.group.keeps == part.keeps && known.group.span == part.span && known.tokens_per_entry == part.tokens_per_entry) return known;
  GroupPlan group{.group = {.keeps = part.keeps, .block = plan.options.block * part.tokens_per_entry, .span = part.span},
                  .tokens_per_entry = part.tokens_per_entry};
  if (part.keeps == Keeps::fixed) group.group.fixed = Blocks{1};
  plan.groups.push_back(group);
  return plan.groups[plan.groups.size() - 1];
}

constexpr Bytes block_bytes(CachePlan const& plan, GroupPlan const& group) {
  return group.group.keeps == Keeps::fixed ? group.entry : group.entry * plan.options.block.count;
}

}  // namespace detail

/// Every complaint about a plan: the spec's, the options', and more than 8 groups of layers.
constexpr Complaints check(CacheSpec const& spec, PlanOptions const& options) {
  Complaints complaints = check(spec);
  for (auto const& complaint : check(options)) complaints.push_back(complaint);
  CachePlan plan{.options = options};
  for (auto const& layer : spec.layers.palette)
    for (auto const& part : layer.parts) detail::group_for(plan, part);
  if (plan.groups.overflowed())
    complaints.push_back({".layers", plan.groups.size() + plan.groups.lost, "at most 8 kinds of what layers keep", "use a runtime profile, or merge windows"});
  if (complaints.empty() && plan.groups.empty()) complaints.push_back({".layers", 0, "a layer that keeps something", "a model without a cache needs no plan"});
  return complaints;
}

/// A plan for `pool` bytes on one rank. Of a bad spec or bad options, a plan that holds nothing: see check(spec, options).
constexpr CachePlan plan(CacheSpec const& spec, Bytes pool, PlanOptions const& options = {}) {
  if (!check(spec, options).empty())
    return {.bytes_per_block = never_fits<Bytes>(),
            .groups = {{.group = fixed_group(Blocks::max()), .entry = Bytes::max()}},
            .footprint = {.groups = {fixed_group(Blocks::max())}}};
  CachePlan plan{.pool = pool, .options = options};
  for (std::size_t i = 0; i < spec.layers.palette.size(); ++i) {
    for (auto const& part : spec.layers.palette[i].parts) {
      Bytes const of_a_layer = part.entry_bytes(spec.dtype) * (part.keeps == Keeps::fixed ? part.entries : 1);
      detail::group_for(plan, part).entry += of_a_layer * spec.layers.count_of(i);
    }
  }
  std::uint64_t unit = 0;
  for (auto const& group : plan.groups) unit = detail::greatest_common_divisor(detail::block_bytes(plan, group).count, unit);
  plan.bytes_per_block = {unit};
  plan.blocks = {floor_div(pool.count, unit)};
  plan.footprint = {.groups = {}, .in_flight = options.in_flight};
  for (auto& group : plan.groups) {
    group.group.blocks_per_entry = floor_div(detail::block_bytes(plan, group).count, unit);
    plan.footprint.groups.push_back(group.group);
  }
  return plan;
}

/// What a pipeline holds when every rank has `pool` bytes: no more than its tightest stage, the one that must have most bytes
/// free for a request of `length` tokens. Tensor and context ranks of a stage are alike; a stage that keeps nothing does not bind.
struct StagePlan {
  Rank rank{};
  CachePlan plan{};
  Tokens longest{};  // that every stage holds
};

constexpr StagePlan plan_tightest(CacheSpec const& spec, Sharding const& sharding, Bytes pool, Tokens length, PlanOptions const& options = {}) {
  if (!check(spec, sharding).empty()) return {.plan = plan({}, pool, options)};
  StagePlan tightest{.longest = Tokens::max()};
  for (std::uint32_t stage = 0; stage < sharding.pipeline; ++stage) {
    CacheSpec const local = on_rank(spec, sharding, {stage});
    if (detail::resident_bytes(local, Tokens{1}) == Bytes{}) continue;
    CachePlan const candidate = plan(local, pool, options);
    Tokens const longest = min(tightest.longest, candidate.longest());
    if (candidate.reserved(length) > tightest.plan.reserved(length)) tightest = {{stage}, candidate, {}};
    tightest.longest = longest;
  }
  return tightest;
}

}  // namespace kvbudget::inline v1
