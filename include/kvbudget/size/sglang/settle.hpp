// What a stage allows and allocates once all stages agree on the tokens (facts: sglang.md R50-R52, R60), and the same as a CachePlan.
//
//   max_running_requests = min(--max-running-requests // dp, tokens // 2, slots // slots a request)
//   max_req_len = min(context, tokens) - 1
// Qwen3-Next on four ranks: 691 slots are 138 requests.
#pragma once

#include <kvbudget/size/sglang/plan.hpp>

namespace kvbudget::inline v1::sglang::detail {

// ---- R50-R52: limits ----

/// R50. The tokens all stages agree on, in whole pages of this one.
constexpr void agree(Plan& plan, Tokens capacity) {
  plan.reduced = capacity != plan.profiled.total;
  plan.tokens = plan.reduced ? round_down(capacity, plan.arguments.page_size) : plan.profiled.total;
  plan.pools_agreed = plan.reduced ? pool_tokens(plan, plan.tokens) : plan.profiled;
  if (plan.reduced && plan.layout == Layout::sliding_capped) plan.pools_agreed.swa = min(plan.pools_agreed.swa, capacity);
  if (plan.tokens == Tokens{}) plan.refusal = Refusal::no_tokens;
}

/// R51. Requests that may run: as asked for or as expected, half the tokens, and the state slots.
constexpr std::uint64_t running_requests(Plan const& plan) {
  std::uint64_t const wanted = running_wanted(plan.arguments).value_or(expected_requests(plan.tokens, plan.rank.model.context));
  std::uint64_t const by_tokens = std::min(wanted, plan.tokens.count / 2);
  return plan.slots ? std::min(by_tokens, *plan.slots / plan.slots_per_request) : by_tokens;
}

/// R52. The longest request: the context and the pool, less one; and its longest prompt.
constexpr void limit_length(Plan& plan) {
  plan.scheduler_tokens = plan.pools_agreed.full != Tokens{} ? plan.pools_agreed.full : plan.pools_agreed.swa;
  plan.longest_request = min(plan.rank.model.context, plan.scheduler_tokens) - Tokens{1};
  plan.longest_input = as_signed(plan.longest_request.count) - 5;
}

/// R32. A row a request, one for none, and those in transfer; a column a token, and what speculation writes ahead.
constexpr TableShape table_shape(Plan const& plan) {
  Options const& o = plan.arguments;
  std::uint64_t ahead = saturating_add(4, o.speculative_num_draft_tokens.value_or(0));
  if (speculates(o) && o.page_size > Tokens{1} && topk(o) > 1) ahead = std::max(ahead, product(2, lookahead(o)));
  return {saturating_add(saturating_add(plan.running, decode_extra_slots(o)), 1), saturating_add(plan.rank.model.context.count, ahead)};
}

/// R52. What the allocator hands out: of two pools the smaller, none where all layers slide; context-parallel ranks count as one.
constexpr void set_allocator(Plan& plan) {
  Options const& o = plan.arguments;
  Tokens const of_two = min(plan.pools_agreed.full, plan.pools_agreed.swa);
  plan.allocator_size = (plan.has_sliding_pool() ? of_two : plan.tokens) * o.dcp_size;
  plan.allocator_page = o.page_size * o.dcp_size;
}

// ---- R60: buffers ----

constexpr void store_compressed(Plan& plan) {
  Options const& o = plan.arguments;
  CompressedModel const& c = *plan.rank.model.compressed;
  CompressedCell const& cell = plan.compressed;
  PoolTokens const& of = plan.pools_agreed;
  std::uint64_t const entry = compressed_entry_bytes(c), page = o.page_size.count;
  plan.compressor_rows = product(compressor_slots(o, plan.running), cell.ring_128);
  plan.stores.push_back(paged_store(StoreKind::windows, of.swa.count, page, cell.layers, entry, true));
  plan.stores.push_back(paged_store(StoreKind::compressed_4, of.c4, page / 4, cell.layers_4, entry, true));
  plan.stores.push_back(paged_store(StoreKind::compressed_128, of.c128, page / 128, cell.layers_128, entry, true));
  plan.stores.push_back(paged_store(StoreKind::indexer_4, of.c4, page / 4, cell.layers_4, index_key_bytes(c.index_dim), false));
  std::uint64_t const rows_4 = saturating_add(of.c4_state, cell.ring_4 + 1), rows_128 = saturating_add(plan.compressor_rows, cell.ring_128 + 1);
  Store states{.kind = StoreKind::compressors};
  states.buffers.push_back(compressor_buffer(cell.layers_4, rows_4, 4, product(4, compressed_width(c)), cell.state_bytes));
  states.buffers.push_back(compressor_buffer(cell.layers_128, rows_128, o.online_compress ? 1 : 128, compressor_width(c, o), cell.state_bytes));
  states.buffers.push_back(compressor_buffer(cell.layers_4, rows_4, 4, product(4, c.index_dim), cell.state_bytes));
  plan.stores.push_back(states);
}

constexpr void allocate(Plan& plan) {
  Options const& o = plan.arguments;
  std::uint64_t const layers = cached_layers(plan.rank);
  PoolTokens const& of = plan.pools_agreed;
  auto const key_value = [&](StoreKind kind, Tokens tokens, std::uint64_t of_layers) {
    return key_value_store(kind, plan.layout, plan.rank, tokens, of_layers, o, plan.type);
  };
  if (plan.rank.model.states) plan.stores.push_back(state_store(plan.rank, *plan.slots, plan.running, o));
  switch (plan.layout) {
    case Layout::plain:
      return plan.stores.push_back(key_value(StoreKind::cache, of.full, layers));
    case Layout::latent:
      return plan.stores.push_back(latent_store(StoreKind::cache, of.full, layers, plan.rank.model, o, plan.type));
    case Layout::sparse: {
      SparseLayers const sparse = sparse_layers(plan.rank);
      plan.stores.push_back(key_value(StoreKind::cache, of.full, sparse.all));
      return plan.stores.push_back(sparse_index_store(of.full, sparse, plan.rank.model, o));
    }
    case Layout::sliding:
    case Layout::sliding_capped:
      plan.stores.push_back(key_value(StoreKind::sliding, of.swa, plan.sliding.swa_layers));
      return plan.stores.push_back(key_value(StoreKind::full, of.full, plan.sliding.full_layers));
    case Layout::compressed:
      return store_compressed(plan);
  }
}

constexpr bool is_paged(Buffer const& buffer) { return buffer.kind == BufferKind::keys || buffer.kind == BufferKind::values; }

/// Bytes of one slot of a pool in a shared buffer: a token's keys and values, or a request's states.
constexpr std::uint64_t slot_bytes(Store const& store) {
  std::uint64_t bytes = 0;
  for (auto buffer : store.buffers) {
    buffer.shape[0] = 1;
    if (is_paged(buffer)) buffer.shape[1] = 1;
    bytes = saturating_add(bytes, buffer.bytes().count);
  }
  return bytes;
}

/// A pool then shows all slots that the shared buffer could give it.
constexpr void stretch(Store& store, Bytes shared) {
  std::uint64_t const slots = floor_div(shared.count, slot_bytes(store)), slots_per_row = store.kind == StoreKind::states ? 1 : store.page.count;
  for (auto& buffer : store.buffers) buffer.shape[0] = floor_div(slots, slots_per_row);
  store.size = Tokens{saturating_subtract(slots, 1)};
  store.key_bytes = store.value_bytes = {};
}

/// Not on the facts page, but in its golden data: with --enable-unified-memory the pools of a hybrid lie in one buffer of all their
/// bytes, each from its own end, and slot 0 of each is never handed out.
constexpr void unify(Plan& plan) {
  bool const with_states = plan.rank.model.states && plan.layout == Layout::plain;
  if (!plan.arguments.unified_memory || (!with_states && plan.layout != Layout::sliding)) return;
  plan.shared_buffer = {};
  for (auto const& store : plan.stores) plan.shared_buffer += Bytes{product(store.size.count, slot_bytes(store))};
  for (auto& store : plan.stores) stretch(store, plan.shared_buffer);
  if (!with_states) return;
  Store const &states = *plan.store(StoreKind::states), &cache = *plan.store(StoreKind::cache);
  plan.allocator_size = cache.size + Tokens{1} - Tokens{ceil_div(slot_bytes(states), slot_bytes(cache))};
}

// ---- the same as a CachePlan ----

constexpr void add_group(Plan& plan, CacheGroup group, Bytes entry, std::uint32_t tokens_per_entry, std::uint64_t layers, Bytes block) {
  plan.groups.push_back({.group = group, .entry = entry, .tokens_per_entry = tokens_per_entry, .layers = static_cast<std::uint32_t>(layers), .page = block});
  plan.footprint.groups.push_back(group);
}

/// Sliding layers, with SGLang's own reckoning of what a decoding request holds of them (R43).
constexpr CacheGroup sliding_group(Plan const& plan, std::optional<Tokens> window, std::uint32_t pool) {
  Tokens const block = plan.arguments.page_size;
  if (!window || *window == Tokens{}) return full_group(block, pool);
  CacheGroup group = window_group(*window, block, pool);
  group.bound = {.tokens = swa_tokens_per_request(plan.arguments, *window)};
  return group;
}

constexpr void shape_one_pool(Plan& plan, Tokens block) {
  Bytes const token{truncated_count(plan.cell)};
  plan.bytes_per_block = token * plan.arguments.page_size.count;
  // With decode context parallelism a rank keeps one token of dcp_size: a block holds the tokens of as many ranks.
  add_group(plan, full_group(block), plan.arguments.dcp_size == 1 ? token : Bytes{ceil_div(token.count, plan.arguments.dcp_size)}, 1, cached_layers(plan.rank),
            plan.bytes_per_block);
}

constexpr void shape_sliding(Plan& plan, Tokens block) {
  SlidingCell const& s = plan.sliding;
  std::uint64_t const page = plan.arguments.page_size.count;
  Bytes const full{product(s.full_per_token.count, std::uint64_t{s.full_layers} + s.draft_layers)}, swa{product(s.swa_per_token.count, s.swa_layers)};
  auto const& window = plan.rank.model.window;
  if (s.full_layers == 0) {
    plan.bytes_per_block = (full + swa) * page;
    return add_group(plan, sliding_group(plan, window, 0), full + swa, 1, s.swa_layers, plan.bytes_per_block);
  }
  plan.bytes_per_block = full * page;
  add_group(plan, full_group(block), full, 1, s.full_layers, plan.bytes_per_block);
  std::uint32_t const pool = plan.pools();
  plan.more_pools.push_back({.name = "sliding", .bytes_per_block = swa * page, .blocks = blocks_in(plan.pools_agreed.swa, plan.arguments.page_size)});
  add_group(plan, sliding_group(plan, window, pool), swa, 1, s.swa_layers, swa * page);
}

/// DeepSeek-V4: a page of full tokens has its entries in three buffers, which fill up together; then the windows, with the 4-fold
/// compressors' states; then a state a request.
constexpr void shape_compressed(Plan& plan, Tokens block) {
  CompressedModel const& c = *plan.rank.model.compressed;
  CompressedCell const& cell = plan.compressed;
  std::uint64_t const entry = compressed_entry_bytes(c), pages_of_128 = plan.arguments.page_size.count / 128;
  Bytes const of_128_tokens = Bytes{product(32, entry + index_key_bytes(c.index_dim), cell.layers_4)} + Bytes{product(entry, cell.layers_128)};
  plan.bytes_per_block = of_128_tokens * pages_of_128;
  add_group(plan, full_group(block), of_128_tokens, 128, cell.layers_4 + cell.layers_128, plan.bytes_per_block);

  Bytes const token{product(entry, cell.layers)};
  std::uint64_t const state_row = product(4, compressed_width(c) + c.index_dim, cell.state_bytes, cell.layers_4);
  Bytes const window_block =
      token * plan.arguments.page_size.count + Bytes{product(floor_div(plan.arguments.page_size.count, c.window.count), cell.ring_4, state_row)};
  std::uint32_t pool = plan.pools();
  plan.more_pools.push_back({.name = "windows", .bytes_per_block = window_block, .blocks = blocks_in(plan.pools_agreed.swa, plan.arguments.page_size)});
  add_group(plan, sliding_group(plan, c.window, pool), token, 1, cell.layers, window_block);
  if (cell.layers_128 == 0) return;
  Bytes const state{product(cell.ring_128, compressor_width(c, plan.arguments), cell.state_bytes, cell.layers_128)};
  pool = plan.pools();
  plan.more_pools.push_back(
      {.name = "compressor states", .bytes_per_block = state, .blocks = {compressor_slots(plan.arguments, plan.running)}, .sentinels = Blocks{1}});
  add_group(plan, fixed_group(Blocks{1}, pool), state, 1, cell.layers_128, state);
}

/// Slots for states, as many a request as SGLang reckons (R34); slot 0 is never handed out.
constexpr void shape_states(Plan& plan) {
  std::uint32_t const pool = plan.pools();
  plan.more_pools.push_back({.name = "states", .bytes_per_block = plan.slot, .blocks = {saturating_add(*plan.slots, 1)}, .sentinels = Blocks{1}});
  add_group(plan, fixed_group(Blocks{plan.slots_per_request}, pool), plan.slot, 1, plan.rank.model.states->linear_layers.size(), plan.slot);
}

/// The rest of the trail, from bytes to blocks. A double's cell is written in millionths of a byte.
constexpr void finish_trail(Plan& plan) {
  Trail& steps = plan.trail;
  if (steps.unit() == Unit::bytes) {
    double const cell = plan.layout == Layout::sliding_capped ? plan.sliding.of_full_layers() : plan.cell;
    steps.multiply("in millionths of a byte", 1'000'000, Unit::number, Unit::number);
    steps.divide_down("millionths of a byte per token", truncated_count(cell * 1e6 + 0.5), Unit::number, Unit::tokens);
  }
  steps.at_most("the limit on all tokens", plan.arguments.max_total_tokens.value_or(Tokens::max()).count);
  if (plan.reduced && plan.tokens < plan.local_capacity) steps.at_most("what every stage holds", plan.tokens.count);
  steps.divide_down("tokens per page", plan.arguments.page_size.count, Unit::tokens, Unit::blocks);
  if (steps.blocks() > plan.blocks) steps.at_most("as SGLang's floating point has it", plan.blocks.count);
  if (steps.blocks() < plan.blocks) steps.add("as SGLang's floating point has it", plan.blocks - steps.blocks());
}

constexpr void shape(Plan& plan) {
  Options const& o = plan.arguments;
  Tokens const block = o.page_size * o.dcp_size;
  Tokens const in_flight = o.chunked_prefill_size && *o.chunked_prefill_size > 0 ? Tokens{static_cast<std::uint64_t>(*o.chunked_prefill_size)} : Tokens::max();
  bool const serves = plan.serves_nobody() == ServesNobody::no;
  plan.options = {.block = block, .in_flight = in_flight, .max_requests = serves ? plan.running : 0, .max_length = plan.longest_request};
  plan.footprint = {.groups = {}, .in_flight = in_flight};
  plan.blocks = blocks_in(plan.tokens, o.page_size);
  if (plan.layout == Layout::sliding || plan.layout == Layout::sliding_capped)
    shape_sliding(plan, block);
  else if (plan.layout == Layout::compressed)
    shape_compressed(plan, block);
  else
    shape_one_pool(plan, block);
  if (plan.slots) shape_states(plan);
  finish_trail(plan);
}

/// A stage that has been profiled, when all stages have agreed on `capacity` tokens.
constexpr void settle(Plan& plan, Tokens capacity) {
  agree(plan, capacity);
  if (plan.refused()) return;
  plan.running = running_requests(plan);
  if (plan.slots && plan.running == 0) return void(plan.refusal = Refusal::no_running_requests);
  limit_length(plan);
  plan.request_table = table_shape(plan);
  set_allocator(plan);
  allocate(plan);
  unify(plan);
  shape(plan);
}

/// A refused plan holds nothing, and has no way from bytes to blocks.
constexpr void empty(Plan& plan) {
  plan.trail = {};
  plan.blocks = {};
  plan.stores.clear();
}

}  // namespace kvbudget::inline v1::sglang::detail
