// What a number of bytes holds: blocks, tokens, requests of a given length, what rounding loses, and what binds.
//
//   blocks per request = sum over groups of what Footprint says;   requests = floor(blocks / blocks per request)
// Layers that keep the same tokens form a group; a pool block is the largest number of bytes that a block of every group is
// a multiple of, so a model of one group has blocks of all its layers, as vLLM prints them. Llama-3.1-8B, 64 GiB, blocks of
// 16 tokens: 32'768 blocks of 2 MiB, 512 blocks for 8'192 tokens, 64 requests.
// Three numbers that are never one: resident() is what a sequence holds, reserved() what must be free to admit it, and
// tokens a runtime prints are that runtime's own. All figures are one rank's.
// CachePlan is the one shape of answer: plan() fills it by the general rules, size/vllm.hpp and its neighbours by a runtime's.
#pragma once

#include <kvbudget/size/device.hpp>
#include <kvbudget/size/estimate.hpp>

namespace kvbudget::inline v1 {

struct PlanOptions {
  Tokens block{1};                              // entries of one block: tokens, unless entries are compressed
  Tokens in_flight{Tokens::max()};              // most tokens of a sequence one step computes: windowed layers keep them, too
  std::uint64_t max_requests{saturated_count};  // the runtime's limit on running sequences, if any
  Tokens max_length{Tokens::max()};             // the longest request the runtime takes, if it has a limit
};

/// Layers that keep the same tokens.
struct GroupPlan {
  CacheGroup group{};
  Bytes entry{};  // of all its layers; of a fixed group, all it keeps for a sequence
  std::uint32_t tokens_per_entry{1};
  std::uint32_t layers{};
  Bytes page{};     // one block as it is laid out: of all the layers here, of one layer where a runtime's pages are
  Bytes padding{};  // what no layer fills, of the pool blocks behind one block of tokens

  constexpr Bytes resident(Tokens length) const {
    if (group.keeps == Keeps::fixed) return entry;
    return entry * ceil_div(group.keeps == Keeps::everything ? length : min(length, group.span), Tokens{tokens_per_entry});
  }
};

enum class Binds : std::uint8_t {
  cache_bytes,    // another request does not fit in the blocks
  max_requests,   // the limit on running sequences is reached first
  max_length,     // the runtime takes no request of this length
  one_request,    // not even one request of this length fits
  no_cache_bytes  // nothing, or not one block, is left for the cache
};

/// What a plan holds of requests of one length.
struct RequestCapacity {
  Tokens length{};
  std::uint64_t requests{};
  Tokens context_tokens{};      // requests x length: the context served; a window caches fewer
  char const* pool{""};         // the pool that leaves room for fewest
  Blocks blocks_per_request{};  // of that pool
  Bytes resident{};             // a request holds this
  Bytes reserved{};             // this must be free to admit it: whole blocks, and what is in flight in windowed layers
  Blocks unused{};              // blocks of that pool beside the last request
  Binds binds{};
  Trail trail{};
};

/// Blocks of one size.
struct PoolPlan {
  char const* name{"cache"};
  Bytes bytes_per_block{};
  Blocks blocks{};
  Blocks sentinels{};  // blocks of these that are never handed out: vLLM's null block

  constexpr Blocks usable() const { return blocks - sentinels; }
  constexpr Bytes bytes() const { return bytes_per_block * blocks.count; }
};

/// What fits, and why. Pool 0 is spelled out, as in AdmissionLimits; a runtime that cuts its memory into several has more.
struct CachePlan {
  Bytes pool{};  // bytes for the cache
  Bytes bytes_per_block{};
  Blocks blocks{};
  Blocks sentinels{};
  PlanOptions options{};
  InplaceVector<GroupPlan, max_groups> groups{};
  Footprint footprint{};                                // for admission: gate{{.capacity = plan.usable(), .footprint = plan.footprint}}
  InplaceVector<PoolPlan, max_pools - 1> more_pools{};  // pools 1, 2, ... of the footprint
  Trail trail{};                                        // how the blocks of pool 0 come about

  constexpr std::uint32_t pools() const { return 1 + static_cast<std::uint32_t>(more_pools.size()); }
  constexpr PoolPlan pool_at(std::uint32_t i) const {
    return i == 0 ? PoolPlan{.bytes_per_block = bytes_per_block, .blocks = blocks, .sentinels = sentinels} : more_pools[i - 1];
  }

  /// Blocks of pool 0 that requests can have.
  constexpr Blocks usable() const { return pool_at(0).usable(); }

  /// What of the bytes for the cache no block of any pool takes.
  constexpr Bytes lost_in_pool() const {
    Bytes left = pool;
    for (std::uint32_t i = 0; i < pools(); ++i) left -= pool_at(i).bytes();
    return left;
  }

  constexpr Bytes resident(Tokens length) const {
    Bytes sum{};
    for (auto const& group : groups) sum += group.resident(length);
    return sum;
  }
  constexpr Blocks blocks_per_request(Tokens length, std::uint32_t of_pool = 0) const { return footprint.most(of_pool, length); }
  constexpr Bytes reserved(Tokens length) const {
    Bytes sum{};
    for (std::uint32_t i = 0; i < pools(); ++i) sum += pool_at(i).bytes_per_block * blocks_per_request(length, i).count;
    return sum;
  }

  /// Requests of `length` tokens that fit side by side, and why not more.
  constexpr RequestCapacity at(Tokens length) const {
    std::uint32_t const tightest = tightest_pool(length);
    PoolPlan const of = pool_at(tightest);
    RequestCapacity result{.length = length,
                           .pool = of.name,
                           .blocks_per_request = blocks_per_request(length, tightest),
                           .resident = resident(length),
                           .reserved = reserved(length)};
    Trail& steps = result.trail = tightest == 0 ? trail : Trail{};
    if (steps.steps.empty()) steps.start(of.name, of.blocks);
    if (of.sentinels != Blocks{}) steps.subtract("never handed out", of.sentinels);
    steps.divide_down("blocks per request", result.blocks_per_request.count, Unit::blocks, Unit::requests);
    std::uint64_t const fit = steps.result();
    steps.at_most("limit on running requests", options.max_requests);
    std::uint64_t const run = steps.result();
    if (length > options.max_length) steps.at_most("limit on a request's length", 0);
    result.requests = steps.result();
    steps.multiply("tokens of context", length.count, Unit::tokens, Unit::tokens);
    result.context_tokens = {steps.result()};
    result.unused = of.usable() - result.blocks_per_request * result.requests;
    result.binds = of.usable() == Blocks{}       ? Binds::no_cache_bytes
                   : length > options.max_length ? Binds::max_length
                   : fit == 0                    ? Binds::one_request
                   : run < fit                   ? Binds::max_requests
                                                 : Binds::cache_bytes;
    return result;
  }

  /// The longest request that fits alone: the maximum where the cache stops growing inside the plan.
  constexpr Tokens longest() const {
    Tokens low{0}, high{std::uint64_t{1} << 48};
    auto const fits = [&](Tokens length) {
      for (std::uint32_t i = 0; i < pools(); ++i) {
        Blocks const need = blocks_per_request(length, i);
        if (need > pool_at(i).usable() || need.saturated()) return false;
      }
      return length <= options.max_length;
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
    Trail steps{};
    CacheGroup const& group = of.group;
    if (group.keeps == Keeps::fixed) {
      steps.start("states of a request", group.fixed);
    } else {
      steps.start("tokens of a request", length);
      steps.at_most(group.bound.tokens != Tokens{} ? "what the runtime keeps room for"
                    : group.keeps == Keeps::window ? "the window, in flight, block ends"
                                                   : "the chunk, in flight, block ends",
                    group.most_tokens(options.in_flight).count);
      if (group.bound.beside != Tokens{}) steps.add("beside its own tokens", group.bound.beside);
      steps.divide_up("tokens per block", group.block.count, Unit::tokens, Unit::blocks);
      if (group.bound.blocks != Blocks{}) steps.add("and, by the runtime's rule", group.bound.blocks);
    }
    if (group.blocks_per_entry != 1) steps.multiply("pool blocks behind one", group.blocks_per_entry, Unit::blocks, Unit::blocks);
    return steps;
  }

  /// Bytes that `requests` requests of `length` tokens need: the inverse of at().
  constexpr Bytes bytes_for(std::uint64_t requests, Tokens length) const { return reserved(length) * requests; }

 private:
  /// The pool that leaves room for fewest requests.
  constexpr std::uint32_t tightest_pool(Tokens length) const {
    std::uint32_t tightest = 0;
    auto const room_in = [&](std::uint32_t i) {
      Blocks const need = blocks_per_request(length, i);
      return need == Blocks{} ? saturated_count : floor_div(pool_at(i).usable().count, need.count);
    };
    for (std::uint32_t i = 1; i < pools(); ++i)
      if (room_in(i) < room_in(tightest)) tightest = i;
    return tightest;
  }
};

/// Every complaint about planning options.
constexpr Complaints check(PlanOptions const& options) {
  Complaints complaints{};
  if (options.block == Tokens{} || options.block > Tokens{1 << 20})
    complaints.push_back({".block", options.block.count, "1 to 1048576 tokens", "give the tokens of one block, for example 16"});
  if (options.in_flight == Tokens{})
    complaints.push_back({".in_flight", 0, "1 token or more", "give the most tokens one step computes (max_num_batched_tokens)"});
  if (options.max_length == Tokens{})
    complaints.push_back({".max_length", 0, "1 token or more", "give the longest request the runtime takes, or leave it out"});
  if (options.max_requests == 0) complaints.push_back({".max_requests", 0, "1 request or more", "give the limit on running sequences, or leave it out"});
  return complaints;
}

namespace detail {

constexpr bool keep_alike(Part const& a, Part const& b) { return a.keeps == b.keeps && a.span == b.span && a.tokens_per_entry == b.tokens_per_entry; }

constexpr bool first_of_its_group(Layer const& layer, Part const& part) {
  for (auto const& earlier : layer.parts)
    if (keep_alike(earlier, part)) return &earlier == &part;
  return true;
}

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
      GroupPlan& group = detail::group_for(plan, part);
      group.entry += of_a_layer * spec.layers.count_of(i);
      if (detail::first_of_its_group(spec.layers.palette[i], part)) group.layers += static_cast<std::uint32_t>(spec.layers.count_of(i));
    }
  }
  std::uint64_t unit = 0;
  for (auto& group : plan.groups) {
    group.page = detail::block_bytes(plan, group);
    unit = detail::greatest_common_divisor(group.page.count, unit);
  }
  plan.bytes_per_block = {unit};
  plan.trail.start("bytes for the cache", pool);
  plan.trail.divide_down("bytes per block", unit, Unit::bytes, Unit::blocks);
  plan.blocks = plan.trail.blocks();
  plan.footprint = {.groups = {}, .in_flight = options.in_flight};
  for (auto& group : plan.groups) {
    group.group.blocks_per_entry = floor_div(group.page.count, unit);
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
