// A pass that prefills: the rest of a prompt that was cut, then whoever waits, in order, until one does not fit (S10 to S15, S31).
//
//   rem_total = free - sum over running min(max_new - out, 4096) x ratio - what this batch has been charged
//   a request starts iff  known + min(max_new - out, 4096) + page < rem_total
//   and is charged        ceil_page(extend) + min(max_new, 4096) + page; while its prompt is cut, without max_new
// Free is what was free before the pass: what the batch takes of it is in the charge.
#pragma once

#include <kvbudget/admit/planner.hpp>
#include <kvbudget/admit/policies/sglang/future_walk.hpp>

namespace kvbudget::inline v1::policies::sglang {

template <class Planner, class Policy>
class Prefill {
 public:
  Prefill(Planner& planner, Policy const& policy)
      : planner_{planner},
        policy_{policy},
        memory_{planner.plan().memory},
        page_{planner.state().ledger.block(0)},
        free_{page_ * planner.available().count},
        input_left_{policy.max_prefill},
        chunk_left_{min(policy.chunked_prefill, min(planner.tokens(), planner.chunk()))} {
    for (Member const& member : memory_.running) promised_ += charge(member);
  }

  /// False when nothing is prefilled, so that the pass may decode.
  bool run() {
    if (policy_.preempts) memory_.batch_is_full = false;
    bool const goes_on = chunk_goes_on();
    if (!goes_on && !looks_at_queue()) return false;
    memory_.sorted = true;
    if (goes_on) continue_chunk();
    std::size_t const preempted = planner_.plan().preempt.size();
    while (look_at_next()) {}
    if (memory_.prefilled.empty()) lose_preempted(preempted);
    return !memory_.prefilled.empty();
  }

 private:
  auto const& live(std::uint32_t slot) const { return planner_.state().table[slot]; }

  // ---- whether, and how many ----

  bool chunk_goes_on() const { return !(memory_.chunked == Ticket{}) && planner_.runs(memory_.chunked.slot); }

  /// S13: not while the latch is set. S14: without a seat it is set, unless somebody may be preempted.
  bool looks_at_queue() {
    if (memory_.batch_is_full || planner_.state().lanes.empty()) return false;
    if (seats() > 0 || policy_.preempts) return true;
    memory_.batch_is_full = true;
    return false;
  }

  /// S14: of the running batch, which those that have left still sit in, and of request slots, which a cut prompt has, too.
  std::uint64_t seats() const {
    std::uint64_t const in_flight = planner_.running() - planner_.plan().admit.size();
    return saturating_subtract(planner_.state().limits.max_running, std::max<std::uint64_t>(memory_.running.size(), in_flight));
  }

  // ---- budgets ----

  /// S10: what admission counts on of a request that runs.
  double charge(Member const& member) const { return as_double(member.to_come()) * memory_.ratio; }

  double rem_total() const { return as_double(free_) - promised_; }
  /// Without what is only promised.
  Tokens rem_now() const { return free_ - taken_; }

  /// S12.
  void charge(Tokens extend, Tokens to_come) {
    Tokens const paged = round_up(extend, page_);
    promised_ += as_double(paged + to_come + page_);
    taken_ += paged + page_;
    input_left_ -= paged;
    chunk_left_ -= paged;
  }

  Result standing() const {
    if (rem_total() <= 0 || rem_now() == Tokens{}) return Result::no_token;
    return input_left_ == Tokens{} || chunk_left_ == Tokens{} ? Result::other : Result::go_on;
  }

  // ---- a prompt that was cut (S14) ----

  /// As much as fits in rem_total; where nothing does, a whole chunk.
  void continue_chunk() {
    Ticket const ticket = std::exchange(memory_.chunked, {});
    Live const& of = live(ticket.slot);
    double const before = rem_total();
    Tokens const left = of.length() - of.computed(), fits = before >= 1 ? min(chunk_left_, Tokens{static_cast<std::uint64_t>(before)}) : chunk_left_;
    Tokens const step = min(left, fits);
    if (!planner_.extend(ticket.slot, of.computed() + step, step, {})) return;
    if (step < left) memory_.chunked = ticket;
    memory_.prefilled.push_back(ticket);
    charge(step, step < left ? Tokens{} : min(of.request.max_new, most_counted));
    note(ticket, Result::chunk_goes_on, step, before);
  }

  // ---- whoever waits ----

  bool look_at_next() {
    std::uint32_t const slot = planner_.next_in_order();
    if (slot == no_slot) return false;
    if (memory_.prefilled.size() >= seats()) memory_.batch_is_full = true;
    if (memory_.batch_is_full && !(policy_.preempts && preempt_for(slot))) return false;
    double const before = rem_total();
    std::size_t const starts = planner_.plan().admit.size();
    Result const result = add(slot);
    bool const added = planner_.plan().admit.size() > starts;
    note(planner_.state().table.ticket(slot), result, added ? planner_.plan().admit.back().tokens : Tokens{}, before);
    if (result == Result::no_token) memory_.batch_is_full = true;
    if (!added) planner_.let_wait(slot, refusal(slot, result));
    return result == Result::go_on;
  }

  Result add(std::uint32_t slot) {
    if (memory_.prefilled.size() >= policy_.prefill_max_requests) return Result::other;
    Member const asker = member_of(planner_.state().table.ticket(slot), live(slot));
    return asker.ignore_eos ? add_known_length(asker) : add_by_ratio(asker);
  }

  /// S11.
  Result add_by_ratio(Member const& asker) {
    Tokens const known = live(asker.ticket.slot).length(), paged = round_up(known, page_);
    if (as_double(known + asker.to_come() + page_) >= rem_total()) return Result::no_token;
    if (chunk_left_.saturated() && !memory_.prefilled.empty() && paged >= input_left_) return Result::other;
    return start(asker, paged <= chunk_left_ ? known : round_down(chunk_left_, page_));
  }

  /// S15.
  Result add_known_length(Member const& asker) {
    Tokens const known = live(asker.ticket.slot).length(), paged = round_up(known, page_);
    if (paged > rem_now() || as_double(paged) > rem_total()) return Result::no_token;
    walk_with(asker);
    if (!walk_.fits(rem_now() - paged)) return Result::no_token;
    return start(asker, min(known, chunk_left_));
  }

  /// The first that asks brings all that run, and the batch so far, with it. Those that start by ratio later on are left out.
  void walk_with(Member const& asker) {
    auto const course = [&](Member const& of) { return FutureWalk::course(of, memory_.ratio); };
    if (!walk_.empty()) return walk_.insert(course(asker));
    std::vector<FutureWalk::Course> all{course(asker)};
    for (Member const& of : memory_.running) all.push_back(course(of));
    for (Ticket const ticket : memory_.prefilled) all.push_back(course(member_of(ticket, live(ticket.slot))));
    walk_.begin(std::move(all));
  }

  /// The first `step` tokens of what is known, which may be all of it. One prompt at most is cut: where chunked_prefill is not a multiple of the
  /// page, which SGLang's arguments refuse, it would lose the first of two.
  Result start(Member const& asker, Tokens step) {
    std::uint32_t const slot = asker.ticket.slot;
    bool const cut = step < live(slot).length();
    if (step == Tokens{} || (cut && !(memory_.chunked == Ticket{}))) return Result::other;
    Work const work{
        .tokens = step, .blocks = planner_.state().held_at(live(slot), step, step), .reserved = step, .reach = planner_.state().reach(live(slot), step)};
    Reason const why = planner_.running() == 0 ? Reason::fits_alone : Reason::fits;
    planner_.admit(slot, {work, planner_.at_pool(Outcome::admitted, why, slot, 0, work.blocks[0]), {}});
    memory_.prefilled.push_back(asker.ticket);
    if (cut) memory_.chunked = asker.ticket;
    charge(step, cut ? Tokens{} : min(asker.max_new, most_counted));
    return standing();
  }

  // ---- priority preemption ----

  /// S31. True when whoever is less urgent by more than the threshold, the least urgent and latest first, is promised enough for it. Of its
  /// own prompt only what was seen when it was looked at before counts [OBS-8].
  bool preempt_for(std::uint32_t slot) {
    double missing = as_double(live(slot).looked_at + min(live(slot).request.max_new, most_counted)) - rem_total();
    std::vector<Member> victims;
    for (Member const& one : by_urgency()) {
      if (urgency(slot) - urgency(one.ticket.slot) <= policy_.preemption_threshold) break;
      victims.push_back(one);
      missing -= charge(one);
      if (missing <= 0) break;
    }
    if (victims.empty() || missing > 0) return false;
    for (Member const& one : victims) preempt(one, slot);
    return true;
  }

  std::vector<Member> by_urgency() const {
    std::vector<Member> all;
    for (Member const& one : memory_.running)
      if (!one.left && planner_.runs(one.ticket.slot)) all.push_back(one);
    std::stable_sort(all.begin(), all.end(), [&](Member const& a, Member const& b) {
      std::int64_t const of_a = urgency(a.ticket.slot), of_b = urgency(b.ticket.slot);
      return of_a != of_b ? of_a < of_b : live(a.ticket.slot).arrival > live(b.ticket.slot).arrival;
    });
    return all;
  }
  std::int64_t urgency(std::uint32_t slot) const { return policy_.order.urgency(live(slot).request.priority); }

  void preempt(Member const& victim, std::uint32_t beneficiary) {
    Blocks const before = planner_.available();
    planner_.preempt(victim.ticket.slot, beneficiary, 0);
    free_ += page_ * (planner_.available() - before).count;
    promised_ -= charge(victim);
    std::erase_if(memory_.running, [&](Member const& one) { return one.ticket == victim.ticket; });
  }

  /// Who was preempted is queued again only by a pass that prefills: here the original forgets it, and its client waits for ever.
  void lose_preempted(std::size_t first) {
    for (std::size_t i = first; i < planner_.plan().preempt.size(); ++i) {
      std::uint32_t const slot = planner_.plan().preempt[i].ticket().slot;
      planner_.refuse(slot, planner_.at_pool(Outcome::rejected, Reason::preempted, slot, 0, live(slot).held[0]));
    }
  }

  // ---- saying so ----

  /// The free blocks that are promised stand as headroom.
  Verdict refusal(std::uint32_t slot, Result result) const {
    Member const of = member_of(planner_.state().table.ticket(slot), live(slot));
    Blocks const needed = blocks_for(live(slot).length() + of.to_come() + page_, page_);
    Verdict verdict = planner_.at_pool(Outcome::queued, result == Result::other ? Reason::step_budget : Reason::no_room, slot, 0, needed);
    verdict.headroom = verdict.free - blocks_in(Tokens{rem_total() > 0 ? static_cast<std::uint64_t>(rem_total()) : 0}, page_);
    return verdict;
  }

  void note(Ticket ticket, Result result, Tokens extend, double before) {
    bool const added = extend != Tokens{};
    memory_.decisions.push_back({ticket, result, added, added && memory_.chunked == ticket, extend, before, rem_total()});
  }

  Planner& planner_;
  Policy const& policy_;
  Memory& memory_;
  Tokens page_;
  Tokens free_;
  double promised_{};  // in double, as the ratio is
  Tokens taken_{};
  Tokens input_left_;
  Tokens chunk_left_;
  FutureWalk walk_{};
};

}  // namespace kvbudget::inline v1::policies::sglang
