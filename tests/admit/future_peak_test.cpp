#include "catch.hpp"

#include <kvbudget/admit/future_peak.hpp>

#include <algorithm>
#include <map>
#include <random>
#include <vector>

using namespace kvbudget;
using namespace kvbudget::literals;

namespace {

struct Sequence {
  Tokens cached{};
  Tokens remaining{};
  operator Decoding() const { return {{.length = cached}, remaining}; }
};

Blocks peak_of(Tokens block, std::initializer_list<Sequence> sequences) {
  FuturePeak future{paged(block), static_cast<std::uint32_t>(sequences.size())};
  std::uint64_t id = 0;
  for (auto const& sequence : sequences) future.put(id++, sequence);
  return future.peak()[0];
}

using Set = std::map<std::uint64_t, Sequence>;

/// Step by step, token by token.
Blocks simulated(Set const& set, std::uint64_t block) {
  std::uint64_t peak = 0, last = 0;
  for (auto const& [id, sequence] : set) last = std::max(last, sequence.remaining.count);
  for (std::uint64_t step = 0; step <= last; ++step) {
    std::uint64_t held = 0;
    for (auto const& [id, sequence] : set) {
      if (step > sequence.remaining.count) continue;
      for (std::uint64_t first = 0; first < sequence.cached.count + step; first += block) ++held;
    }
    peak = std::max(peak, held);
  }
  return {peak};
}

void step(Set& set) {
  std::erase_if(set, [](auto const& entry) { return entry.second.remaining == 0_tokens; });
  for (auto& [id, sequence] : set) sequence = {sequence.cached + 1_tokens, sequence.remaining - 1_tokens};
}

/// LightLLM's _can_add_new_req: sorted by what is left, the longest first.
Blocks lightllm(Set const& set) {
  std::vector<Sequence> sorted;
  for (auto const& [id, sequence] : set) sorted.push_back(sequence);
  std::sort(sorted.begin(), sorted.end(), [](auto const& a, auto const& b) { return a.remaining > b.remaining; });
  std::uint64_t need = 0, cumulated = 0;
  for (std::size_t i = 0; i < sorted.size(); ++i) {
    cumulated += sorted[i].cached.count;
    need = std::max(need, sorted[i].remaining.count * (i + 1) + cumulated);
  }
  return {need};
}

Set with(Set set, std::uint64_t id, Sequence sequence) {
  set[id] = sequence;
  return set;
}

}  // namespace

TEST_CASE("the peak is that of the simulated future, whoever comes, changes, leaves and steps") {
  std::mt19937_64 random{20'261'203};
  auto const upto = [&](std::uint64_t most) { return random() % (most + 1); };
  for (int world = 0; world < 150; ++world) {
    std::uint64_t const block = upto(2) ? 1 + upto(20) : 1;
    std::uint32_t const most = static_cast<std::uint32_t>(1 + upto(9));
    FuturePeak future{paged(Tokens{block}), most};
    Set set;
    for (int operation = 0; operation < 200; ++operation) {
      std::uint64_t const id = upto(2 * most - 1);
      Sequence const sequence{{upto(60)}, {upto(upto(1) ? 40 : 3)}};
      switch (upto(3)) {
        case 0:
        case 1: {
          bool const room = set.contains(id) || set.size() < most;
          REQUIRE(future.put(id, sequence) == room);
          if (room) set[id] = sequence;
          break;
        }
        case 2:
          REQUIRE(future.remove(id) == (set.erase(id) == 1));
          break;
        case 3:
          future.advance();
          step(set);
      }
      REQUIRE(future.size() == set.size());
      REQUIRE(future.peak()[0] == simulated(set, block));
      Sequence const candidate{{upto(60)}, {upto(60)}};
      REQUIRE(future.peak_with(candidate)[0] == simulated(with(set, 99, candidate), block));
      if (block == 1) REQUIRE(future.peak()[0] == lightllm(set));
    }
  }
}

TEST_CASE("steps that go as foreseen never hold more than the peak, and reach it") {
  std::mt19937_64 random{20'261'204};
  for (int world = 0; world < 100; ++world) {
    FuturePeak future{paged(16_tokens), 20};
    Set set;
    for (std::uint64_t id = 0; id < 20; ++id) {
      set[id] = {{1 + random() % 300}, {random() % 200}};
      REQUIRE(future.put(id, set[id]));
    }
    Blocks const foreseen = future.peak()[0];
    Blocks most{};
    for (; !set.empty(); step(set), future.advance()) {
      Blocks held{};
      for (auto const& [id, sequence] : set) held += blocks_for(sequence.cached, 16_tokens);
      most = max(most, held);
      REQUIRE(future.peak()[0] <= foreseen);
    }
    REQUIRE(most == foreseen);
    REQUIRE(future.size() == 0);
  }
}

TEST_CASE("a sequence too long to add up never fits, and changes nothing") {
  FuturePeak future{paged(1_tokens), 2};
  Tokens const longest{saturated_count / 3 - 1};
  REQUIRE(future.put(1, Sequence{longest, 0_tokens}));
  REQUIRE(future.put(2, Sequence{0_tokens, 5_tokens}));
  for (auto const& too_long : {Sequence{longest, 1_tokens}, Sequence{Tokens::max(), 0_tokens}, Sequence{1_tokens, Tokens::max()}}) {
    REQUIRE(future.peak_with(too_long)[0] == Blocks::max());
    REQUIRE_FALSE(future.put(2, too_long));
    REQUIRE(future.size() == 2);
    REQUIRE(future.peak()[0] == Blocks{longest.count});
  }
  REQUIRE(future.peak_with(Sequence{longest, 0_tokens})[0] == Blocks{longest.count * 2});
  REQUIRE(future.remove(1));
  REQUIRE(future.peak()[0] == 5_blocks);
}

TEST_CASE("branches share their prompt's whole blocks, a window keeps what it keeps, and every pool has a peak of its own") {
  FuturePeak future{{.groups = {full_group(16_tokens), window_group(32_tokens, 16_tokens, 1), fixed_group(1_blocks, 1)}, .in_flight = 1_tokens}, 4};
  Decoding const beam{{.length = 40_tokens, .shared = 40_tokens, .branches = 2}, 60_tokens};
  REQUIRE(future.peak_with(beam)[0] == 12_blocks);  // 2 shared + 2 x 5
  REQUIRE(future.peak_with(beam)[1] == 8_blocks);   // 2 x 3 of the window, and 2 states
  REQUIRE(future.put(0, beam));
  REQUIRE(future.peak_with(Sequence{16_tokens, 0_tokens})[0] == 12_blocks);  // it leaves long before the beam's end
  REQUIRE(future.length(0) == 40_tokens);
  future.advance();
  REQUIRE(future.length(0) == 41_tokens);
  REQUIRE(future.length(1) == 0_tokens);
  REQUIRE_FALSE(future.put(8, beam));  // ids are below twice the most requests
}

TEST_CASE("the worked example: who has nothing left still holds its blocks now, and who completes together is held together") {
  REQUIRE(peak_of(16_tokens, {}) == 0_blocks);
  REQUIRE(peak_of(16_tokens, {{100_tokens, 60_tokens}, {400_tokens, 10_tokens}}) == 33_blocks);  // and not the 36 they end with
  REQUIRE(peak_of(16_tokens, {{100_tokens, 60_tokens}, {80_tokens, 0_tokens}}) == 12_blocks);
  REQUIRE(peak_of(1_tokens, {{5_tokens, 4_tokens}, {7_tokens, 4_tokens}}) == 20_blocks);
  REQUIRE(peak_of(16_tokens, {{31_tokens, 1_tokens}}) == 2_blocks);
  REQUIRE(peak_of(16_tokens, {{31_tokens, 2_tokens}}) == 3_blocks);
}
