// vLLM's V1 scheduler: VllmV1 for --scheduling-policy fcfs, VllmV1Priority for priority. plan(step) decides as its schedule() does, to the
// request and the token, without prefix caching (facts: vllm.md F; tests/conformance, vllm-scheduler).
//
//   starts iff   blocks of every known token + watermark <= free; a window's blocks no more than it can ever hold        F6, B2, B3
//   watermark    int(w x num_blocks), 0 when nothing runs. Rounded down, in double, and the null block counts: of
//                64 usable blocks 5% is int(0.05 x 65) = 3                                                                F7
//   gives way    fcfs: the last that started; priority: the largest (priority, arrival_time), even if it was scheduled    F2
//   holds        what its last step left of each group: blocks out of a window go back as it moves                       E7
// limits: .capacity = num_blocks - 1, .footprint = vllm::plan(...).footprint (its bounds are B2 and B3), .max_length = max_model_len,
// .max_running = max_num_seqs, .tokens_per_step = max_num_batched_tokens, .chunk = long_prefill_token_threshold where that is not 0.
//
// Of I1 to I24 (facts: admission.md E.3) the original breaks, and so does this:
//   I6   the gate finds room for a whole prompt and takes a chunk: two pass it on the same blocks, and one is preempted later (F6)
//   I8   alone in an empty pool, a prompt too large for it neither starts nor is rejected (F10)
//   I9   nor is it rejected at submit: it waits for ever, and all behind it (F10)
//   I15  victims stay preempted though the asker then gives way itself, which ends the step for those behind it (F2); and a request may be
//        preempted again before it has computed a token more than it had
// The original alone also broke, in some releases: I5, hits on idle blocks were room as well (#11562); I10, a retry looked hits up, and
// counted them, again (#48860); I12, an abort freed blocks that a step was writing (#32255); I19, a LoRA's name could pass for a salt
// (#44701); I21, the hit rate counted what a preemption had taken (#25780).
// Not as the original: of equal priority and arrival_time vLLM goes by the request's id, here by submission; look-ahead is in the gate, too.
#pragma once

#include <kvbudget/admit/policy.hpp>

namespace kvbudget::inline v1::policies {

namespace vllm_v1 {
/// Room for every known token must be free, though a chunk is all that is taken; where the flag is off, room for that chunk.
struct Gate {
  static constexpr bool taken_by_chunks = true;
  static constexpr bool may_be_part = true;
  bool scheduler_reserve_full_isl{true};
  constexpr Tokens operator()(WaitingView const& waiting) const {
    return scheduler_reserve_full_isl ? kvbudget::need::WholePromptFree{}(waiting) : kvbudget::need::FirstChunk{}(waiting);
  }
};

/// --watermark, or what the limits say where that is more. Waived when nothing runs.
struct Watermark {
  double watermark{};
  Complaints check() const {
    Complaints complaints{};
    if (!is_share())
      complaints.push_back({".headroom.watermark", static_cast<std::uint64_t>(watermark >= 1 && watermark < 1e9 ? watermark : 0), "0 or more, and less than 1",
                            "give --watermark, for example 0.01"});
    return complaints;
  }
  constexpr bool is_share() const { return watermark >= 0 && watermark < 1; }
  constexpr Blocks operator()(HeadroomView const& pool) const {
    if (pool.running == 0) return {};
    if (!is_share()) return Blocks::max();
    return max(pool.given, Blocks{static_cast<std::uint64_t>(watermark * static_cast<double>(pool.capacity.count + 1))});
  }
};

/// To start, a sequence must find what one step for all of it would take, and no more than it can ever hold.
struct Held : kvbudget::holds::Exactly {
  constexpr Blocks must_be_free(Footprint const& footprint, std::uint32_t pool, Sequences const& of) const {
    Blocks sum{};
    for (auto const& group : footprint.groups)
      if (group.pool == pool) sum += min(group.held(of.length, of.length), group.most(of.length, footprint.in_flight));
    return sum * of.branches;
  }
};
}  // namespace vllm_v1

/// --scheduling-policy fcfs: a preempted request waits in front.
struct VllmV1 {
  vllm_v1::Gate need{};
  vllm_v1::Watermark headroom{};
  kvbudget::order::Arrival order{};
  kvbudget::victim::Newest victim{};
  kvbudget::Preemption preemption{.enough_or_none = false, .others_go_on = false};
  vllm_v1::Held holds{};
  static constexpr bool waits_for_ever = true;
};
static_assert(AdmissionPolicy<VllmV1>);

/// --scheduling-policy priority: a preempted request returns to its place in the order.
struct VllmV1Priority {
  vllm_v1::Gate need{};
  vllm_v1::Watermark headroom{};
  kvbudget::order::Priority order{};
  kvbudget::victim::LowestPriority victim{};
  kvbudget::Preemption preemption{.enough_or_none = false, .front = false, .others_go_on = false};
  vllm_v1::Held holds{};
  static constexpr bool waits_for_ever = true;
};
static_assert(AdmissionPolicy<VllmV1Priority>);

}  // namespace kvbudget::inline v1::policies
