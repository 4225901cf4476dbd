// The plan of one pipeline stage, and how far it comes by itself: budget, slots, tokens (facts: sglang.md R31-R48).
//
//   profiled = floor_page(budget // bytes of a token);   the stages then agree on the least of min(profiled, --max-total-tokens)
// DeepSeek-V4-Flash on four H200: 92'196'464'230 bytes at 7'705.45 a token, less the compressors' states, are 11'612'416 tokens.
#pragma once

#include <kvbudget/size/capacity.hpp>
#include <kvbudget/size/sglang/buffers.hpp>

namespace kvbudget::inline v1::sglang {

enum class Refusal : std::uint8_t {
  none,
  bad_arguments,        // the complaints say which
  indivisible,          // AssertionError: ranks that do not divide a state (R11)
  pipeline_with_draft,  // AssertionError: PP is not compatible with MTP models
  bad_page,             // AssertionError: DeepSeek-V4's pages have 256 tokens (R45)
  no_state_slots,       // RuntimeError: not enough memory for the states (R33)
  no_memory,            // ValueError: the loaded weights leave nothing under the fraction (R31)
  no_full_tokens,       // RuntimeError: the cap on sliding tokens takes it all (R43)
  nothing_cached,       // a stage none of whose layers caches anything: SGLang divides by zero
  no_tokens,            // RuntimeError: not one page fits (R50)
  no_running_requests,  // RuntimeError: too few state slots for a request (R51)
  other_stage           // another pipeline stage is refused
};

/// The figures that SGLang's message states; which, depends on the refusal.
struct RefusalFigures {
  std::int64_t slots{};
  double rest_gib{};
  Bytes slot{};
  double fraction{};
  double least_fraction{};  // the fraction must exceed it
  Tokens swa_tokens{};
  Bytes swa_bytes{};
  Bytes budget{};
  std::uint64_t slots_per_request{};
  Indivisible indivisible{};
};

/// Tokens of every pool, as one decision makes them (R41, R43, R45, R50).
struct PoolTokens {
  Tokens total{};
  Tokens full{};
  Tokens swa{};
  std::uint64_t c4{};
  std::uint64_t c128{};
  std::uint64_t c4_state{};
};

/// Why a server that SGLang starts serves no request at all: no refusal of its own, but nothing is ever admitted (R51, R52, S01).
enum class ServesNobody : std::uint8_t {
  no,
  too_few_tokens,    // half the tokens are no request (R51)
  too_short,         // a prompt must be shorter than longest_input (S01), which leaves none
  no_sliding_tokens  // the sliding pool has no whole page
};

struct TableShape {
  std::uint64_t rows{};
  std::uint64_t columns{};
  constexpr Bytes bytes() const { return {product(rows, columns, 4)}; }
};

/// One pipeline stage's plan; all its tensor ranks are alike. `pool` is the budget.
struct Plan : CachePlan {
  Refusal refusal{};
  RefusalFigures figures{};
  Complaints complaints{};

  RankModel rank{};
  Options arguments{};
  Layout layout{};
  CacheType type{};                      // of the cache, resolved
  bool budgeted{};                       // a budget came out, also where the plan is refused later
  double cell{};                         // what SGLang believes a token costs; R45: bytes_per_full_token
  SlidingCell sliding{};                 // R41
  CompressedCell compressed{};           // R45
  Bytes fixed{};                         // R45: compressor states that the context's length does not change
  std::optional<Tokens> cap{};           // R43
  std::optional<std::uint64_t> slots{};  // R33: max_mamba_cache_size
  std::uint64_t slots_per_request{};     // R34: mamba_ratio
  Bytes slot{};                          // bytes that SGLang charges for one

  PoolTokens profiled{};    // what the stage could hold by itself
  Tokens local_capacity{};  // that, under --max-total-tokens: what the stages compare
  Tokens tokens{};          // max_total_num_tokens
  PoolTokens pools_agreed{};
  bool reduced{};  // by --max-total-tokens or another stage

  std::uint64_t running{};       // max_running_requests
  Tokens scheduler_tokens{};     // max_token_pool_size
  Tokens longest_request{};      // max_req_len
  std::int64_t longest_input{};  // max_req_input_len: below 0 where the pool is smaller than what SGLang keeps back (R52)
  Tokens allocator_size{};
  Tokens allocator_page{};
  std::uint64_t compressor_rows{};  // R45: c128_state_pool_size
  std::vector<Store> stores{};
  Bytes shared_buffer{};       // of unified memory: all pools are in it
  TableShape request_table{};  // req_to_token, int32

  constexpr bool refused() const { return refusal != Refusal::none; }

  constexpr Store const* store(StoreKind kind) const {
    for (auto const& one : stores)
      if (one.kind == kind) return &one;
    return nullptr;
  }

  /// What the pools really take of the device: more or less than the budget, R32, R44, R45, R48, R49.
  constexpr Bytes allocated() const {
    if (shared_buffer != Bytes{}) return shared_buffer;
    Bytes sum{};
    for (auto const& store : stores) sum += store.allocated();
    return sum;
  }

  /// R32. What is allocated and charged to nobody: the table of requests, and the map from full to sliding tokens.
  constexpr Bytes beside_the_budget() const {
    return request_table.bytes() + (has_sliding_pool() ? Bytes{product(rows_of(pools_agreed.full, arguments.page_size), 8)} : Bytes{});
  }

  /// R43, OBS-9. The longest prompt that can start. With chunked prefill off it is computed in one piece, which the sliding pool must
  /// hold; SGLang itself checks longest_input only, and a longer prompt waits for ever.
  constexpr Tokens longest_prompt() const {
    bool const in_one_piece = arguments.chunked_prefill_size && *arguments.chunked_prefill_size <= 0;
    bool const slides = layout == Layout::sliding || layout == Layout::sliding_capped;
    Tokens const accepted{longest_input > 0 ? static_cast<std::uint64_t>(longest_input) : 0};
    return in_one_piece && slides ? min(accepted, pools_agreed.swa) : accepted;
  }

  constexpr bool has_sliding_pool() const { return layout == Layout::sliding || layout == Layout::sliding_capped || layout == Layout::compressed; }

  /// R51, R52. SGLang refuses none of these: the server starts, and every request is rejected or waits for ever.
  constexpr ServesNobody serves_nobody() const {
    if (refused()) return ServesNobody::no;
    if (running == 0) return ServesNobody::too_few_tokens;
    if (longest_input <= 1) return ServesNobody::too_short;
    return has_sliding_pool() && pools_agreed.swa == Tokens{} ? ServesNobody::no_sliding_tokens : ServesNobody::no;
  }

  /// R41, R44, R46. Over-count of FP4 in sliding and sparse pools: a byte for each value, of which half stays empty.
  constexpr Bytes fp4_bytes_unused() const {
    if (type != CacheType::fp4_e2m1 || packs_fp4(layout) || layout == Layout::compressed) return {};
    Bytes values{};
    for (auto const& store : stores)
      if (store.kind != StoreKind::sparse_index) values += store.key_bytes + store.value_bytes;
    return {values.count / 2};
  }

  /// R49. Bytes of states that a stage is charged for and does not hold: of the linear layers of other stages.
  constexpr Bytes state_bytes_unused() const {
    if (!rank.model.states || !slots) return {};
    return layer_state_bytes(*rank.model.states, rank.state) * (rank.model.states->linear_layers.size() - linear_layers(rank)) * *slots;
  }
};

/// The kind of cache, R6, R41-R46.
constexpr Layout layout_of(RankModel const& rank, Options const& o) {
  Model const& m = rank.model;
  if (m.hybrid_swa && !o.disable_hybrid_swa_memory) return m.compressed ? Layout::compressed : Layout::sliding;
  return m.latent ? Layout::latent : m.sparse ? Layout::sparse : Layout::plain;
}

/// R50, R41, R43, R45. What every pool holds when the full pool holds `total`.
constexpr PoolTokens pool_tokens(Plan const& plan, Tokens total) {
  Options const& o = plan.arguments;
  PoolTokens pools{.total = total, .full = total};
  if (plan.layout == Layout::sliding) {
    pools.swa = plan.sliding.full_layers == 0 ? total : swa_tokens_beside(total, o);
    if (plan.sliding.full_layers == 0) pools.full = {};
  } else if (plan.layout == Layout::sliding_capped) {
    pools.swa = round_up(*plan.cap, o.page_size);
  } else if (plan.layout == Layout::compressed) {
    pools.swa = round_down(Tokens{truncated_count(as_double(total.count) * o.swa_full_tokens_ratio)}, o.page_size);
    pools.c4 = total.count / 4;
    pools.c128 = total.count / 128;
    pools.c4_state = compressor_4_rows(pools.swa, *plan.rank.model.compressed, plan.compressed);
  }
  return pools;
}

namespace detail {

constexpr Plan refuse(Plan plan, Refusal why) {
  plan.refusal = why;
  return plan;
}

// ---- R31, R33: the budget ----

constexpr void take_budget(Plan& plan, Memory const& memory) {
  Options const& o = plan.arguments;
  double rest = rest_gib(memory, o);
  plan.figures = {.fraction = o.mem_fraction_static, .least_fraction = least_fraction(memory, o)};
  if (plan.rank.model.states) {
    plan.slot = slot_bytes(*plan.rank.model.states, plan.rank.state);
    plan.slots_per_request = plan.figures.slots_per_request = slots_per_request(o);
    if (plan.slot == Bytes{} && slots_come_from_memory(o)) return void(plan.refusal = Refusal::nothing_cached);
    SlotBudget const slots = state_slots(o, plan.slot, rest);
    plan.figures.slots = slots.slots;
    plan.figures.slot = plan.slot;
    plan.figures.rest_gib = slots.rest - slots.intermediate_gib;
    if (slots.slots <= 0) return void(plan.refusal = Refusal::no_state_slots);
    plan.slots = static_cast<std::uint64_t>(slots.slots);
    rest = rest_after_slots(slots, plan.slot);
  }
  if (!(rest > 0)) return void(plan.refusal = Refusal::no_memory);
  plan.pool = budget_bytes(rest);
  plan.budgeted = true;
  plan.trail.start("free after loading", memory.after_loading);
  Bytes const states = plan.slots ? plan.slot * *plan.slots : Bytes{};
  plan.trail.subtract("kept free by the fraction, and rounding", memory.after_loading - plan.pool - states);
  if (plan.slots) plan.trail.subtract("slots for states", states);
}

// ---- R40-R48: tokens ----

constexpr void divide(Plan& plan, Bytes cell) {
  Options const& o = plan.arguments;
  plan.cell = as_double(cell.count);
  if (cell == Bytes{}) return void(plan.refusal = Refusal::nothing_cached);
  plan.profiled.total = tokens_for(plan.pool, cell, o.page_size);
  plan.trail.divide_down("bytes per token", cell.count, Unit::bytes, Unit::tokens);
}

constexpr void divide_sliding(Plan& plan) {
  Options const& o = plan.arguments;
  plan.sliding = sliding_cell(plan.rank, o, plan.type);
  plan.cell = plan.sliding.cell;
  if (!(plan.cell > 0)) return void(plan.refusal = Refusal::nothing_cached);
  if (!sliding_is_capped(o, plan.rank.model, plan.sliding)) {
    plan.profiled.total = tokens_for(plan.pool, plan.cell, o.page_size);
    return;
  }
  plan.layout = Layout::sliding_capped;
  plan.cap = swa_cap(o, *plan.rank.model.window);
  Tokens const swa = round_up(*plan.cap, o.page_size);
  Bytes const bytes{product(swa.count, plan.sliding.swa_per_token.count, plan.sliding.swa_layers)};
  std::int64_t const full = full_tokens_beside_cap(plan.pool, bytes, plan.sliding, o.page_size);
  plan.figures.swa_tokens = swa;
  plan.figures.swa_bytes = bytes;
  plan.figures.budget = plan.pool;
  if (full <= 0) return void(plan.refusal = Refusal::no_full_tokens);
  plan.profiled.total = {static_cast<std::uint64_t>(full)};
  plan.trail.subtract("the sliding pool", bytes);
}

constexpr void divide_compressed(Plan& plan) {
  Options const& o = plan.arguments;
  plan.compressed = compressed_cell(plan.rank, o);
  plan.cell = plan.compressed.bytes_per_full_token;
  if (o.page_size != compressed_page) return void(plan.refusal = Refusal::bad_page);
  if (!(plan.cell > 0)) return void(plan.refusal = Refusal::nothing_cached);
  plan.fixed = compressor_bytes(plan.rank, plan.compressed, o, plan.pool);
  plan.profiled.total = compressed_tokens(plan.pool - plan.fixed, plan.compressed, o.page_size);
  plan.trail.subtract("compressor states", plan.fixed);
}

constexpr void divide(Plan& plan) {
  std::uint32_t const layers = cached_layers(plan.rank), draft = charged_draft_layers(plan.arguments);
  switch (plan.layout) {
    case Layout::plain:
      return divide(plan, with_draft(plain_cell(plan.rank, plan.type), layers, draft));
    case Layout::latent:
      return divide(plan, with_draft(latent_cell(plan.rank, plan.type), layers, draft));
    case Layout::sparse:
      return divide(plan, with_draft(sparse_cell(plan.rank, plan.type), layers, draft));
    case Layout::sliding:
    case Layout::sliding_capped:
      return divide_sliding(plan);
    case Layout::compressed:
      return divide_compressed(plan);
  }
}

/// Everything up to what the stage could hold by itself.
constexpr Plan profile(RankModel const& rank, Memory const& memory, Options const& o) {
  Plan plan{};
  plan.rank = rank;
  plan.arguments = o;
  plan.layout = layout_of(rank, o);
  plan.type = cache_type(o, rank.model);
  plan.complaints = check(o);
  for (auto const& complaint : check(rank.model)) plan.complaints.push_back(complaint);
  if (!plan.complaints.empty()) return refuse(plan, Refusal::bad_arguments);
  if (o.pp_size > 1 && speculates(o) && rank.model.nextn_layers.value_or(0) > 0) return refuse(plan, Refusal::pipeline_with_draft);
  if (rank.indivisible) {
    plan.figures.indivisible = *rank.indivisible;
    return refuse(plan, Refusal::indivisible);
  }
  take_budget(plan, memory);
  if (!plan.refused()) divide(plan);
  if (!plan.refused() && plan.profiled.total == Tokens{}) plan.refusal = Refusal::no_tokens;
  if (plan.refused()) return plan;
  plan.profiled = pool_tokens(plan, plan.profiled.total);
  plan.local_capacity = min(plan.profiled.total, o.max_total_tokens.value_or(Tokens::max()));
  return plan;
}

}  // namespace detail
}  // namespace kvbudget::inline v1::sglang
