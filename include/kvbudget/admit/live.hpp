// The requests that are queued or running, in slots that are given at construction: nothing is allocated afterwards.
#pragma once

#include <kvbudget/admit/ledger.hpp>

namespace kvbudget::inline v1 {

inline constexpr std::uint32_t no_slot = 0xffff'ffff;

enum class LiveState : std::uint8_t { done, queued, running };

struct Live {
  Request request{};
  Tokens grown{};        // tokens generated and held, per branch
  Tokens lost{};         // cached tokens a preemption took: computed again at the next start
  Tokens reserved{};     // length a branch has room for from its start, as the policy's need says
  Tokens room{};         // length a branch may reach, look-ahead included, before it needs another block
  Tokens tokens_held{};  // its part of its class's gauge
  PoolBlocks held{};
  PoolBlocks next_token{};         // blocks its next token takes, where it stands at the end of its room
  std::uint64_t token_steps{};     // tokens held x steps, up to the step it was last counted in
  std::uint64_t counted_at{};      // that step
  std::uint64_t admission{};       // number of its last admission
  std::uint64_t queued_in_pass{};  // the admission pass that was open when it was queued
  std::uint32_t generation{};
  std::uint32_t previous{no_slot};
  std::uint32_t next{no_slot};
  LiveState state{};
  bool has_waited{};
  bool chosen{};  // as a victim, while victims are being chosen

  constexpr Tokens length() const { return request.prompt + grown; }
  /// Cached tokens of all branches, which share the prompt.
  constexpr Tokens cached() const { return request.prompt + grown * request.branches; }
  constexpr Sequences sequences(Tokens length) const { return {length + request.ahead(), request.prompt, request.branches}; }
};

/// Slots, and which of them are free. A slot's generation tells a stale ticket from a valid one.
class LiveTable {
 public:
  explicit LiveTable(std::uint32_t slots) : slots_(slots) {
    free_.reserve(slots);
    for (std::uint32_t i = slots; i-- > 0;) free_.push_back(i);
  }

  bool full() const { return free_.empty(); }
  std::size_t free() const { return free_.size(); }
  Live& operator[](std::uint32_t slot) { return slots_[slot]; }
  Live const& operator[](std::uint32_t slot) const { return slots_[slot]; }

  Ticket ticket(std::uint32_t slot) const { return {slot, slots_[slot].generation}; }
  bool valid(Ticket ticket) const {
    return ticket.slot < slots_.size() && slots_[ticket.slot].generation == ticket.generation && slots_[ticket.slot].state != LiveState::done;
  }

  std::uint32_t acquire(Request const& request) {
    std::uint32_t const slot = free_.back();
    free_.pop_back();
    std::uint32_t const generation = slots_[slot].generation;
    slots_[slot] = Live{.request = request, .generation = generation};
    return slot;
  }
  void release(std::uint32_t slot) {
    slots_[slot].state = LiveState::done;
    ++slots_[slot].generation;
    free_.push_back(slot);
  }

 private:
  std::vector<Live> slots_;
  std::vector<std::uint32_t> free_;
};

/// An order over slots, linked through them.
class LiveList {
 public:
  std::uint32_t front() const { return front_; }
  std::uint32_t size() const { return size_; }
  bool empty() const { return size_ == 0; }

  void push_back(LiveTable& table, std::uint32_t slot) { link(table, back_, slot, no_slot); }
  void push_front(LiveTable& table, std::uint32_t slot) { link(table, no_slot, slot, front_); }

  void remove(LiveTable& table, std::uint32_t slot) {
    auto const& live = table[slot];
    (live.previous == no_slot ? front_ : table[live.previous].next) = live.next;
    (live.next == no_slot ? back_ : table[live.next].previous) = live.previous;
    --size_;
  }

 private:
  void link(LiveTable& table, std::uint32_t previous, std::uint32_t slot, std::uint32_t next) {
    table[slot].previous = previous;
    table[slot].next = next;
    (previous == no_slot ? front_ : table[previous].next) = slot;
    (next == no_slot ? back_ : table[next].previous) = slot;
    ++size_;
  }

  std::uint32_t front_{no_slot};
  std::uint32_t back_{no_slot};
  std::uint32_t size_{};
};

}  // namespace kvbudget::inline v1
