// From free memory to bytes for the cache, and to slots for recurrent states (facts: sglang.md R30-R34).
//
//   rest = free after loading - free before loading x (1 - mem_fraction_static) - states, in GiB as a double; budget = int(rest x 2^30)
// Llama-3.1-8B on an H100, fraction 0.83: 68'866'277'376 - 84'928'364'544 x 0.17 = 54'428'455'403 bytes.
// SGLang believes that this is all it takes. Beside it, it allocates: one page of every pool that is never handed out, the table of
// requests, slot 0 of the states, the map from full to sliding tokens (R32): see Plan::allocated() and Plan::beside_the_budget().
#pragma once

#include <kvbudget/size/sglang/model.hpp>

namespace kvbudget::inline v1::sglang {

/// R30. Free memory in GiB. Ranks agree on it through an all-reduce in float32, which at 80 GiB keeps every 8'192nd byte.
constexpr double free_gib(Bytes free, bool through_float32) {
  double const bytes = as_double(free.count);
  return (through_float32 ? static_cast<double>(static_cast<float>(bytes)) : bytes) / one_gib;
}

/// R31. GiB that the fraction leaves, before states: what is free now, less the share of what was free that is to stay free.
constexpr double rest_gib(Memory const& memory, Options const& o) {
  bool const several = on_several_ranks(o);
  double const kept_free = free_gib(memory.before_loading, several) * (1 - o.mem_fraction_static);
  return free_gib(memory.after_loading, several) - kept_free;
}

/// R31. What the fraction must exceed for anything to be left.
constexpr double least_fraction(Memory const& memory, Options const& o) {
  bool const several = on_several_ranks(o);
  return 1.0 - free_gib(memory.after_loading, several) / free_gib(memory.before_loading, several);
}

/// R34. Slots that SGLang reckons for a running request: its own, and those the radix cache keeps for it.
constexpr std::uint64_t slots_per_request(Options const& o) {
  if (o.disable_radix_cache) return 1;
  if (o.mamba_radix == MambaRadix::no_buffer) return 3;
  bool const two_more = o.mamba_radix == MambaRadix::extra_buffer && !o.disable_overlap_schedule;
  return 3 + (two_more ? 2 : 1);
}

struct SlotBudget {
  std::int64_t slots{};       // may come out negative
  double rest{};              // GiB left when the slots were counted
  double intermediate_gib{};  // of speculative decoding: states of the draft tokens
};

/// R33 (c). Slots from a share of what is left; each draft token of a running request needs a state of its own.
constexpr std::int64_t slots_from_memory(Options const& o, Bytes slot, double rest) {
  double const share = rest * o.mamba_full_memory_ratio / (1 + o.mamba_full_memory_ratio) * one_gib;
  double const bytes = as_double(slot.count);
  if (!speculates(o)) return truncated(floor_quotient(share, bytes));
  double const per_slot = bytes * (1 + as_double(draft_tokens(o)) / as_double(slots_per_request(o)));
  return truncated(floor_quotient(share, per_slot));
}

/// R33 (b). One slot a request, where nothing is kept for others.
constexpr bool one_slot_each(Options const& o) { return !o.max_mamba_cache_size && o.disable_radix_cache && running_wanted(o).has_value(); }

/// R33 (c). Where neither (a) nor (b) says how many: SGLang then divides by the bytes of a slot.
constexpr bool slots_come_from_memory(Options const& o) { return !o.max_mamba_cache_size && !one_slot_each(o); }

/// R33. Slots (a) as asked for, (b) one a request where nothing is kept for others, (c) from memory.
constexpr SlotBudget state_slots(Options const& o, Bytes slot, double rest) {
  SlotBudget budget{.rest = rest};
  auto const running = running_wanted(o);
  bool const one_each = one_slot_each(o);
  budget.slots = o.max_mamba_cache_size ? as_signed(*o.max_mamba_cache_size / attention_dp(o))
                 : one_each             ? as_signed(*running)
                                        : slots_from_memory(o, slot, rest);
  if (speculates(o) && running) {
    std::int64_t const by_slots = floor_quotient(budget.slots, as_signed(slots_per_request(o)));
    std::int64_t const with_drafts = one_each ? budget.slots : by_slots < as_signed(*running) ? by_slots : as_signed(*running);
    budget.intermediate_gib = as_double(slot.count) * static_cast<double>(with_drafts) * as_double(draft_tokens(o)) / one_gib;
  }
  return budget;
}

/// R33. GiB left when the slots are taken.
constexpr double rest_after_slots(SlotBudget const& budget, Bytes slot) {
  return budget.rest - budget.intermediate_gib - static_cast<double>(budget.slots) * as_double(slot.count) / one_gib;
}

/// R31. The budget: whole bytes, cut. Nothing where nothing is left.
constexpr Bytes budget_bytes(double rest) { return {truncated_count(rest * one_gib)}; }

/// R51. As many requests as SGLang expects of so many tokens: 512 at full context, 2'048 to 4'096 in all.
constexpr std::uint64_t expected_requests(Tokens tokens, Tokens context) {
  std::int64_t const at_full_length = truncated(as_double(tokens.count) / as_double(context.count) * 512);
  return at_full_length < 2'048 ? 2'048 : at_full_length > 4'096 ? 4'096 : static_cast<std::uint64_t>(at_full_length);
}

}  // namespace kvbudget::inline v1::sglang
