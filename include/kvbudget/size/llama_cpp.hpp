// What llama.cpp allocates for a context: its caches, the sequences and lengths they hold, and what it refuses.
//
// Rules: facts/llama_cpp.md R1 to R20 (v0.5.0, executed); each is a function in size/llama_cpp/: context.hpp, caches.hpp, devices.hpp.
//   cells = pad256(n_ctx), unified: one pool of cells for all sequences; else pad256(n_ctx / n_seq) for each, a stream of its own
// All cells are allocated up front, whatever is in them: plan.pool is the allocation, resident(L) what L tokens occupy of it.
// Llama-3.1-8B, n_ctx 8'000 for 3 sequences: 3 x 2'816 = 8'448 cells of 128 KiB in f16, 1'056 MiB.
#pragma once

#include <kvbudget/size/capacity.hpp>
#include <kvbudget/size/llama_cpp/caches.hpp>
#include <kvbudget/size/llama_cpp/devices.hpp>
#include <kvbudget/size/llama_cpp/from_spec.hpp>

namespace kvbudget::inline v1::llama_cpp {

struct Plan : CachePlan {
  Refused refused{};  // why there is no context; such a plan holds nothing
  Options asked{};
  Tokens padded{};  // the context asked for, before it is divided among streams
  Resolved resolved{};
  Layout layout{};
  std::uint32_t model_layers{};  // NextN blocks included
  std::vector<Cache> caches{};   // in the order they are created and printed

  /// R3: whether the streams' padding made another context of the one asked for.
  constexpr bool n_ctx_changed() const { return padded != resolved.n_ctx; }

  /// R19, R20: what each device holds, and last the host.
  constexpr std::vector<DeviceShare> on(Devices const& devices) const { return per_device(caches, model_layers, devices); }

  /// R19: what each device holds of cache i.
  constexpr std::vector<Buffer> buffers(std::size_t i, Devices const& devices) const { return buffers_of(caches, i, model_layers, devices); }
};

namespace detail {

constexpr char const* pool_name(Role role) {
  switch (role) {
    case Role::main:
      return "cells";
    case Role::sliding:
      return "sliding cells";
    case Role::indexer:
      return "indexer cells";
    case Role::recurrent:
      return "recurrent states";
    case Role::csa:
      return "compressed entries";
    case Role::hca:
      return "heavily compressed entries";
    case Role::lid:
      return "indexer entries";
    case Role::csa_state:
    case Role::hca_state:
    case Role::lid_state:
      return "compressor states";
  }
  return "cache";
}

/// What a cache is to a sequence: states are there once, a whole stream is there for it alone, cells of one pool are shared.
enum class Held : std::uint8_t { state, stream, cells };

constexpr Held held(Cache const& cache) {
  if (cache.kind != CacheKind::attention) return Held::state;
  return cache.streams == cache.n_seq && cache.n_seq > 1 ? Held::stream : Held::cells;
}

constexpr std::uint32_t tokens_per_entry(Role role) { return role == Role::csa || role == Role::lid ? 4 : role == Role::hca ? 128 : 1; }

/// Blocks of a cache's pool: sequences' states, streams, or cells.
constexpr Blocks pool_blocks(Cache const& cache) { return {held(cache) == Held::cells ? cache.cells.count : cache.n_seq}; }

/// Bytes of one such block. Exact: every tensor has the same number of rows for each.
constexpr Bytes pool_block(Cache const& cache) {
  Bytes sum{};
  for (auto const& tensor : cache.tensors) sum += tensor.row() * floor_div(tensor.rows, pool_blocks(cache).count);
  return sum;
}

/// Bytes of one cell of one sequence.
constexpr Bytes cell_bytes(Cache const& cache) {
  Bytes sum{};
  for (auto const& tensor : cache.tensors) sum += tensor.row();
  return sum;
}

constexpr GroupPlan group_of(Cache const& cache, Plan const& plan, Model const& model, std::uint32_t pool) {
  std::uint32_t const each = tokens_per_entry(cache.role);
  bool const keeps_window = cache.role == Role::sliding && !plan.asked.swa_full;
  GroupPlan group{.group = {.pool = pool}, .tokens_per_entry = each, .layers = static_cast<std::uint32_t>(cache.layer_ids.size()), .page = pool_block(cache)};
  if (held(cache) == Held::state) {
    group.group = fixed_group(Blocks{1}, pool);
    group.entry = group.page;
    return group;
  }
  group.entry = cell_bytes(cache);
  group.group.block = Tokens{held(cache) == Held::stream ? plan.resolved.n_ctx_seq.count : each};
  if (keeps_window) {
    group.group.keeps = Keeps::window;
    group.group.span = {std::max(model.window.value_or(0), 1U)};
    group.group.bound.tokens = min(group.group.span, plan.resolved.n_ctx_seq);
  }
  return group;
}

/// R3: how the cells of pool 0 come about.
constexpr Trail cells_trail(Model const& model, Plan const& plan, Cache const& first) {
  Trail trail{};
  std::uint64_t const pad = padding(plan.asked.release, plan.resolved.flash_attention).count;
  auto const pad_up = [&] {
    trail.divide_up("padded to", pad, Unit::tokens, Unit::number);
    trail.multiply("cells", pad, Unit::tokens, Unit::tokens);
  };
  if (held(first) == Held::state) {
    trail.start("sequences", Blocks{first.n_seq});
    return trail;
  }
  trail.start("context asked for", asked_context(model, plan.asked));
  pad_up();
  if (plan.resolved.streams > 1) {
    trail.divide_down("sequences", plan.resolved.n_seq, Unit::number, Unit::tokens);
    pad_up();
  }
  if (held(first) == Held::stream) {
    trail.multiply("streams", first.n_seq, Unit::number, Unit::tokens);
    trail.divide_down("cells of a stream", plan.resolved.n_ctx_seq.count, Unit::tokens, Unit::blocks);
  } else {
    trail.at_most("cells of the cache", first.cells.count);
    trail.divide_down("tokens per cell", tokens_per_entry(first.role), Unit::tokens, Unit::blocks);
  }
  return trail;
}

/// Every cache that stores something is a pool, the first one pool 0.
constexpr void fill_pools(Plan& plan, Model const& model) {
  plan.footprint = {.groups = {}, .in_flight = plan.resolved.n_ubatch};
  Cache const* first = nullptr;
  for (auto const& cache : plan.caches) {
    plan.pool += cache.bytes();
    if (cache.bytes() == Bytes{}) continue;
    std::uint32_t const pool = first ? plan.pools() : 0;
    if (!first) {
      first = &cache;
      plan.bytes_per_block = pool_block(cache);
      plan.blocks = pool_blocks(cache);
    } else {
      plan.more_pools.push_back({.name = pool_name(cache.role), .bytes_per_block = pool_block(cache), .blocks = pool_blocks(cache)});
    }
    plan.groups.push_back(group_of(cache, plan, model, pool));
    plan.footprint.groups.push_back(plan.groups[plan.groups.size() - 1].group);
  }
  if (!first) return;
  plan.trail = cells_trail(model, plan, *first);
  plan.options.block = plan.groups[0].group.keeps == Keeps::fixed ? Tokens{1} : plan.groups[0].group.block;
}

constexpr Plan holds_nothing(Plan plan, Refused why) {
  plan.refused = why;
  plan.caches.clear();
  plan.groups = {{.group = fixed_group(Blocks::max()), .entry = Bytes::max()}};
  plan.footprint = {.groups = {fixed_group(Blocks::max())}};
  return plan;
}

}  // namespace detail

/// The context llama.cpp creates, or why it creates none.
constexpr Plan plan(Model const& of, Options const& options) {
  Model const model = as_release_sees(of, options.release);
  Plan plan{};
  plan.asked = options;
  plan.layout = layout_of(model, options);
  plan.model_layers = static_cast<std::uint32_t>(std::min<std::size_t>(model.layers.size(), 0xffff'ffff));
  if (auto const why = refused(model, options)) return detail::holds_nothing(plan, why);
  plan.resolved = resolve(model, options);
  plan.padded = round_up(asked_context(model, options), padding(options.release, plan.resolved.flash_attention));
  plan.caches = caches(model, plan.resolved, options);
  if (auto const why = refused_rows(plan.caches)) return detail::holds_nothing(plan, why);
  plan.options = {.in_flight = plan.resolved.n_ubatch, .max_requests = plan.resolved.n_seq, .max_length = plan.resolved.n_ctx_seq};
  detail::fill_pools(plan, model);
  return plan;
}

}  // namespace kvbudget::inline v1::llama_cpp
