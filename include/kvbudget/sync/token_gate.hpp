// A token budget for many threads, without a lock: what a gateway asks before it forwards a request.
//
//   TokenGate gate{12'000_tokens, 500_tokens};
//   if (auto room = gate.reserve(3'000_tokens)) forward(request, std::move(room));     // the room is free when it dies, on any thread
// Admission leaves the headroom alone unless nothing is held; growth may use it. There is no queue, no class and no order: a thread
// that is refused decides itself what to do. A reservation larger than the capacity is refused for ever, and says so.
// One atomic counter: reserve is a compare-and-swap loop, release a subtraction. Held tokens never exceed the capacity.
#pragma once

#include <kvbudget/core/units.hpp>

#include <atomic>
#include <utility>

namespace kvbudget::inline v1 {

class TokenGate;

enum class GateAnswer : std::uint8_t { reserved, no_room, headroom, exceeds_capacity };

/// Room in a TokenGate. Move-only; released when it ends, on whatever thread. The gate outlives it.
class [[nodiscard]] TokenRoom {
 public:
  TokenRoom() = default;
  TokenRoom(TokenRoom&& other) noexcept : gate_{std::exchange(other.gate_, nullptr)}, tokens_{std::exchange(other.tokens_, {})}, answer_{other.answer_} {}
  TokenRoom& operator=(TokenRoom&& other) noexcept {
    if (this == &other) return *this;
    release();
    gate_ = std::exchange(other.gate_, nullptr);
    tokens_ = std::exchange(other.tokens_, {});
    answer_ = other.answer_;
    return *this;
  }
  ~TokenRoom() { release(); }

  explicit operator bool() const { return gate_ != nullptr; }
  Tokens tokens() const { return tokens_; }
  /// Why there is room, or why there was none.
  GateAnswer answer() const { return answer_; }

  /// Room for `more` tokens, out of the headroom where it must be; all of them or none.
  bool grow(Tokens more);
  void release();

 private:
  friend TokenGate;
  TokenRoom(TokenGate* gate, Tokens tokens, GateAnswer answer) : gate_{gate}, tokens_{tokens}, answer_{answer} {}

  TokenGate* gate_{};
  Tokens tokens_{};
  GateAnswer answer_{GateAnswer::no_room};
};

class TokenGate {
 public:
  /// A headroom of the capacity or more is the whole of it: one reservation at a time. More than 2^63 tokens are 2^63.
  explicit TokenGate(Tokens capacity, Tokens headroom = {}) : capacity_{min(capacity, Tokens{most})}, headroom_{min(headroom, capacity_)} {}
  TokenGate(TokenGate&&) = delete;

  TokenRoom reserve(Tokens tokens) {
    GateAnswer const answer = take(tokens, true);
    return {answer == GateAnswer::reserved ? this : nullptr, answer == GateAnswer::reserved ? tokens : Tokens{}, answer};
  }

  Tokens capacity() const { return capacity_; }
  Tokens headroom() const { return headroom_; }
  Tokens held() const { return {held_.load(std::memory_order_relaxed)}; }
  /// What a reservation could have now, if nobody else came first.
  Tokens available() const {
    Tokens const now = held();
    return now == Tokens{} ? capacity_ : capacity_ - headroom_ - now;
  }

 private:
  friend TokenRoom;
  static constexpr std::uint64_t most = std::uint64_t{1} << 63;

  GateAnswer take(Tokens tokens, bool admission) {
    if (tokens > capacity_) return GateAnswer::exceeds_capacity;
    std::uint64_t now = held_.load(std::memory_order_relaxed);
    do {
      if (tokens > capacity_ - Tokens{now}) return GateAnswer::no_room;
      if (admission && now != 0 && tokens > capacity_ - headroom_ - Tokens{now}) return GateAnswer::headroom;
    } while (!held_.compare_exchange_weak(now, now + tokens.count, std::memory_order_acquire, std::memory_order_relaxed));
    return GateAnswer::reserved;
  }
  void give(Tokens tokens) { held_.fetch_sub(tokens.count, std::memory_order_release); }

  Tokens const capacity_;
  Tokens const headroom_;
  std::atomic<std::uint64_t> held_{};
};

inline bool TokenRoom::grow(Tokens more) {
  if (gate_ == nullptr || gate_->take(more, false) != GateAnswer::reserved) return false;
  tokens_ += more;
  return true;
}

inline void TokenRoom::release() {
  if (auto* const gate = std::exchange(gate_, nullptr)) gate->give(std::exchange(tokens_, {}));
}

}  // namespace kvbudget::inline v1
