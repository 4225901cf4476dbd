// The gate of many threads: what it promises to one, and that it keeps it under many (thread sanitizer: preset tsan).
#include "catch.hpp"

#include <kvbudget/sync/token_gate.hpp>

#include <array>
#include <thread>
#include <type_traits>
#include <vector>

using namespace kvbudget;
using namespace kvbudget::literals;

static_assert(!std::is_copy_constructible_v<TokenRoom> && std::is_nothrow_move_constructible_v<TokenRoom>);
static_assert(!std::is_move_constructible_v<TokenGate>);

TEST_CASE("room is held while it lives, and free when it ends") {
  TokenGate gate{100_tokens};
  {
    TokenRoom const room = gate.reserve(60_tokens);
    REQUIRE(room);
    REQUIRE(gate.held() == 60_tokens);
    REQUIRE(gate.reserve(41_tokens).answer() == GateAnswer::no_room);
    REQUIRE(gate.reserve(40_tokens));
  }
  REQUIRE(gate.held() == 0_tokens);
}

TEST_CASE("admission leaves the headroom alone unless nothing is held, and growth may use it") {
  TokenGate gate{100_tokens, 20_tokens};
  TokenRoom alone = gate.reserve(95_tokens);  // waived: nothing is held
  REQUIRE(alone);
  REQUIRE(gate.reserve(1_tokens).answer() == GateAnswer::headroom);
  REQUIRE(alone.grow(5_tokens));
  REQUIRE_FALSE(alone.grow(1_tokens));
  REQUIRE(alone.tokens() == 100_tokens);
  alone.release();
  alone.release();  // once
  REQUIRE(gate.held() == 0_tokens);
  REQUIRE(gate.available() == 100_tokens);
  TokenRoom const some = gate.reserve(10_tokens);
  REQUIRE(gate.available() == 70_tokens);
  REQUIRE(gate.reserve(71_tokens).answer() == GateAnswer::headroom);
  REQUIRE(gate.reserve(70_tokens));
}

TEST_CASE("what can never fit is told apart from what does not fit now") {
  TokenGate gate{100_tokens};
  REQUIRE(gate.reserve(101_tokens).answer() == GateAnswer::exceeds_capacity);
  REQUIRE(gate.reserve(Tokens::max()).answer() == GateAnswer::exceeds_capacity);
  REQUIRE(gate.reserve(100_tokens));
  TokenGate boundless{Tokens::max()};
  TokenRoom const first = boundless.reserve(Tokens{1ULL << 63});
  REQUIRE(first);
  REQUIRE(boundless.reserve(Tokens{1ULL << 63}).answer() == GateAnswer::no_room);  // the sum would wrap
  REQUIRE(boundless.reserve(Tokens{(1ULL << 63) + 1}).answer() == GateAnswer::exceeds_capacity);
}

TEST_CASE("room moves, and ends with its last owner") {
  TokenGate gate{100_tokens};
  TokenRoom first = gate.reserve(30_tokens), second = gate.reserve(50_tokens);
  first = std::move(second);  // the first 30 are free
  REQUIRE(gate.held() == 50_tokens);
  TokenRoom const third = std::move(first);
  for (auto* const moved : {&first, &second}) {
    REQUIRE_FALSE(*moved);
    REQUIRE_FALSE(moved->grow(1_tokens));
  }
  REQUIRE(gate.held() == 50_tokens);
}

TEST_CASE("many threads never hold more than there is, and give all of it back, wherever their room ends") {
  constexpr std::uint64_t capacity = 1'000;
  TokenGate gate{Tokens{capacity}, 50_tokens};
  std::atomic<std::uint64_t> held{}, over{}, taken{};
  std::array<std::vector<TokenRoom>, 4> handed{};  // room that ends on another thread
  auto const work = [&](std::size_t self) {
    std::uint64_t state = self + 1;
    for (int i = 0; i < 100'000; ++i) {
      state = state * 6'364'136'223'846'793'005U + 1'442'695'040'888'963'407U;
      TokenRoom room = gate.reserve(Tokens{state >> 56});
      if (!room) continue;
      std::uint64_t const now = held.fetch_add(room.tokens().count) + room.tokens().count;
      over += now > capacity;
      ++taken;
      held -= room.tokens().count;
      if (i >= 99'990) handed[self].push_back(std::move(room));
    }
  };
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < handed.size(); ++i) threads.emplace_back(work, i);
  for (auto& thread : threads) thread.join();
  REQUIRE(over == 0);
  REQUIRE(taken > 0);
  std::thread{[&] {
    for (auto& rooms : handed) rooms.clear();
  }}.join();
  REQUIRE(gate.held() == 0_tokens);
}
