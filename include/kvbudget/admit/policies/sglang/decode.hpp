// A pass that decodes: a token for each of the running batch. Where their next tokens do not fit, some are retracted first (S20, S21).
//
//   next tokens need     page x how many stand at the end of a page
//   retracted            fewest outputs first, then the longest prompt, until the others fit
// The last one is not retracted: where it does not fit alone, it is aborted.
#pragma once

#include <kvbudget/admit/planner.hpp>
#include <kvbudget/admit/policies/sglang/new_token_ratio.hpp>

namespace kvbudget::inline v1::policies::sglang {

template <class Planner, class Policy>
class Decode {
 public:
  Decode(Planner& planner, Policy const& policy) : planner_{planner}, policy_{policy}, memory_{planner.plan().memory} {}

  void run() {
    std::size_t const before = batch().size();
    std::erase_if(batch(), [](Member const& one) { return one.left; });
    if (!batch().empty()) make_room();
    if (batch().size() < before) memory_.batch_is_full = false;  // S13
    for (Member const& one : batch())
      if (Tokens const step = next_tokens(one); step != Tokens{}) planner_.extend(one.ticket.slot, live(one).length() + step, step, step);
  }

 private:
  std::vector<Member>& batch() { return memory_.running; }
  Live const& live(Member const& of) const { return planner_.state().table[of.ticket.slot]; }

  Tokens next_tokens(Member const& of) const { return planner_.runs(of.ticket.slot) ? live(of).pending : Tokens{}; }
  Blocks next_blocks(Member const& of) const {
    Tokens const step = next_tokens(of);
    return step == Tokens{} ? Blocks{} : planner_.state().held_at(live(of), live(of).length() + step, step)[0] - live(of).held[0];
  }

  void make_room() {
    for (Member const& one : batch()) needed_ += next_blocks(one);
    if (needed_ > planner_.available()) return retract();
    memory_.ratio = NewTokenRatio{policy_.conservativeness}.after_decode(memory_.ratio);
  }

  /// S21.
  void retract() {
    Tokens const page = planner_.state().ledger.block(0);
    memory_.retraction = {true, planner_.plan().preempt.size(), page * needed_.count, page * planner_.available().count};
    std::stable_sort(batch().begin(), batch().end(), [&](Member const& a, Member const& b) {
      return policy_.victim.yields_before(planner_.running_view(b.ticket.slot), planner_.running_view(a.ticket.slot));
    });
    while (batch().size() > 1 && needed_ > planner_.available()) give_way(batch().front());
    if (needed_ > planner_.available()) abort_last();
    memory_.ratio = ratio_after_retraction(batch());
  }

  void give_way(Member const& beneficiary) {
    std::uint32_t const slot = batch().back().ticket.slot;
    needed_ -= next_blocks(batch().back());
    planner_.preempt(slot, beneficiary.ticket.slot, 0);
    batch().pop_back();
  }

  void abort_last() {
    std::uint32_t const slot = batch().front().ticket.slot;
    Verdict const verdict = planner_.at_pool(Outcome::rejected, Reason::no_room, slot, 0, needed_);
    give_way(batch().front());
    planner_.refuse(slot, verdict);
  }

  Planner& planner_;
  Policy const& policy_;
  Memory& memory_;
  Blocks needed_{};  // by the next tokens of the batch
};

}  // namespace kvbudget::inline v1::policies::sglang
