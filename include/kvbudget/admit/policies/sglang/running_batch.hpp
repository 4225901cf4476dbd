// Who joins the running batch, at the start of a pass, and who leaves it (S10, S13).
#pragma once

#include <kvbudget/admit/planner.hpp>
#include <kvbudget/admit/policies/sglang/memory.hpp>

namespace kvbudget::inline v1::policies::sglang {

/// The last pass's prefill joins, but for a prompt that is still cut. Where it shrank, or found the batch empty, there may be room again: the
/// latch is open (S13).
template <class Planner>
void join(Planner& planner) {
  auto const& table = planner.state().table;
  Memory& memory = planner.plan().memory;
  auto const in_flight = [&](Ticket ticket) { return table.valid(ticket) && table[ticket.slot].in_flight(); };
  if (!in_flight(memory.chunked)) memory.chunked = {};
  std::erase_if(memory.running, [&](Member const& one) { return !one.left && !in_flight(one.ticket); });
  for (Member& one : memory.running)
    if (!one.left) one = member_of(one.ticket, table[one.ticket.slot]);

  std::size_t const before = memory.running.size();
  for (Ticket const ticket : memory.prefilled)
    if (in_flight(ticket) && !(ticket == memory.chunked)) memory.running.push_back(member_of(ticket, table[ticket.slot]));
  std::size_t const joined = memory.running.size() - before;
  if (joined < memory.prefilled.size() || (before == 0 && joined > 0)) memory.batch_is_full = false;
  memory.prefilled.clear();
}

/// S10: a request that has decoded sits in the batch, and is charged, until the next decode drops it. Its blocks are free at once.
inline void leave(Memory& memory, Ticket ticket, Live const& live) {
  for (Member& one : memory.running) {
    if (!(one.ticket == ticket)) continue;
    one = member_of(ticket, live);
    one.left = true;
  }
}

}  // namespace kvbudget::inline v1::policies::sglang
