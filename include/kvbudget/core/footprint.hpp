// The one place where a length becomes blocks: what a sequence of L tokens needs of each pool.
//
// A cache group is a set of layers that keep the same tokens in blocks of the same size:
//   full      ceil(L / b)
//   windowed  holds ceil(t / b) - floor(max(0, t - in_flight - W + 1) / b) after a step that took it to t tokens
//             (exact on every step of vLLM's scheduler, facts: vllm.md E7), and never more than
//             most() = ceil(min(L, W - 1 + in_flight + b - 1) / b)
//   chunked   the same, but what it keeps starts at a multiple of the chunk (vllm.md B3, E7)
//   fixed     a number of blocks that does not depend on the length: a recurrent state, a running-sequence slot
// Example: a window of 1'024 tokens, blocks of 16, 512 tokens in flight: at most 97 blocks, however long the sequence.
#pragma once

#include <kvbudget/core/complaint.hpp>
#include <kvbudget/core/rounding.hpp>

namespace kvbudget::inline v1 {

inline constexpr std::size_t max_pools = 8;
inline constexpr std::size_t max_groups = 8;

enum class Keeps : std::uint8_t { everything, window, chunk, fixed };

/// A runtime's own bound on what a sequence of L tokens can hold, where it is not the exact one: ceil((min(L, tokens) + beside) / b) + blocks.
/// vLLM's for a window (vllm.md B2): {.tokens = W - 1 + F, .blocks = 1}.
struct Bound {
  Tokens tokens{};  // 0: the exact bound
  Blocks blocks{};
  Tokens beside{};  // what every sequence keeps beside its own tokens: TensorRT-LLM's sink bubble
};

struct CacheGroup {
  Keeps keeps{Keeps::everything};
  std::uint32_t pool{};               // which pool the blocks come from
  Tokens block{1};                    // tokens per block
  Tokens span{};                      // tokens of the window or of the chunk
  Blocks fixed{};                     // blocks per sequence, whatever its length
  std::uint64_t blocks_per_entry{1};  // pool blocks behind one block of tokens: the layers, where a pool block is a layer's
  Bound bound{};                      // a runtime's own, instead of the exact one

  /// Blocks held by a sequence of t tokens, of which the last step computed `in_flight`. Tokens out of the window are
  /// given back only once no step in flight can still read them.
  constexpr Blocks held(Tokens t, Tokens in_flight) const {
    if (keeps == Keeps::fixed) return fixed * blocks_per_entry;
    if (t.saturated()) return Blocks::max();
    return (blocks_for(t, block) - Blocks{floor_div(dropped(t - in_flight), block)}) * blocks_per_entry;
  }

  /// The most blocks a sequence can hold on its way to L tokens, when a step computes at most `in_flight` of them.
  constexpr Blocks most(Tokens length, Tokens in_flight) const {
    if (keeps == Keeps::fixed) return fixed * blocks_per_entry;
    if (length.saturated()) return Blocks::max();
    if (keeps == Keeps::everything && !bounded()) return blocks_for(length, block) * blocks_per_entry;
    return (blocks_for(min(length, most_tokens(in_flight)) + bound.beside, block) + bound.blocks) * blocks_per_entry;
  }

  /// The most tokens whose blocks are held: what the window or chunk keeps, what is in flight, and the ends of blocks.
  constexpr Tokens most_tokens(Tokens in_flight) const {
    if (bound.tokens != Tokens{}) return bound.tokens;
    if (keeps == Keeps::window) return span - Tokens{1} + in_flight + block - Tokens{1};
    if (keeps == Keeps::chunk) return span - Tokens{1} + in_flight + misalignment();
    return Tokens::max();
  }

  constexpr bool bounded() const { return (bound.tokens.count | bound.blocks.count | bound.beside.count) != 0; }

 private:
  /// How many of the first `computed` tokens no later step reads.
  constexpr Tokens dropped(Tokens computed) const {
    if (keeps == Keeps::window) return computed + Tokens{1} - span;
    if (keeps == Keeps::chunk) return round_down(computed, span);
    return {};
  }
  /// A chunk that does not start on a block boundary keeps up to a block less one token that it does not need.
  constexpr Tokens misalignment() const { return block.count != 0 && span.count % block.count == 0 ? Tokens{} : block - Tokens{1}; }
};

constexpr CacheGroup full_group(Tokens block = Tokens{1}, std::uint32_t pool = 0) { return {.pool = pool, .block = block}; }
constexpr CacheGroup window_group(Tokens window, Tokens block = Tokens{1}, std::uint32_t pool = 0) {
  return {.keeps = Keeps::window, .pool = pool, .block = block, .span = window};
}
constexpr CacheGroup chunk_group(Tokens chunk, Tokens block = Tokens{1}, std::uint32_t pool = 0) {
  return {.keeps = Keeps::chunk, .pool = pool, .block = block, .span = chunk};
}
constexpr CacheGroup fixed_group(Blocks blocks, std::uint32_t pool = 0) { return {.keeps = Keeps::fixed, .pool = pool, .fixed = blocks}; }

/// A request's sequences: `branches` of `length` tokens each, which share the whole blocks of their first `shared` tokens.
struct Sequences {
  Tokens length{};
  Tokens shared{};
  std::uint32_t branches{1};
};

/// What a sequence needs of every pool. The default is a token budget: one pool, one full group, blocks of one token.
struct Footprint {
  InplaceVector<CacheGroup, max_groups> groups{full_group()};
  Tokens in_flight{Tokens::max()};  // the most tokens one step computes for one sequence; the default is safe for any

  /// The most blocks of `pool` a sequence holds on its way to `length` tokens.
  constexpr Blocks most(std::uint32_t pool, Tokens length) const {
    Blocks sum{};
    for (auto const& group : groups)
      if (group.pool == pool) sum += group.most(length, in_flight);
    return sum;
  }

  /// The most blocks of `pool` that all of a request's sequences hold. Branches share what keeps every token; windows and
  /// states they keep each for itself. Not inlined, as reach() is not: who asks often takes the one division of paged_by() first.
  [[gnu::noinline]] constexpr Blocks most(std::uint32_t pool, Sequences const& of) const {
    Blocks sum{};
    for (auto const& group : groups)
      if (group.pool == pool) sum += most(group, of);
    return sum;
  }

  /// How far sequences get before they need more: the nearest end of a block, as a length; and the tokens that there is room for in
  /// the first group that keeps tokens: whole blocks of all sequences. None in a footprint of states alone.
  struct Reach {
    Tokens room{Tokens::max()};
    Tokens tokens_held{};
  };
  [[gnu::noinline]] constexpr Reach reach(Sequences const& of) const {
    Reach reach{};
    for (auto const& group : groups) {
      if (group.keeps == Keeps::fixed) continue;
      if (reach.tokens_held == Tokens{}) reach.tokens_held = group.block * (most(group, of).count / group.blocks_per_entry);
      reach.room = min(reach.room, round_up(of.length, group.block));
    }
    return reach;
  }

  /// The blocks of `pool` held at `t` tokens, after a step that computed `step` of them.
  constexpr Blocks held(std::uint32_t pool, Tokens t, Tokens step) const {
    Blocks sum{};
    for (auto const& group : groups)
      if (group.pool == pool) sum += group.held(t, step);
    return sum;
  }

  /// Whether what a sequence has of `pool` is never out of use.
  constexpr bool keeps_everything(std::uint32_t pool) const {
    for (auto const& group : groups)
      if (group.pool == pool && group.keeps != Keeps::everything) return false;
    return true;
  }

  /// Whether a sequence gives back what it has moved out of.
  constexpr bool moves() const {
    for (auto const& group : groups)
      if (group.keeps == Keeps::window || group.keeps == Keeps::chunk) return true;
    return false;
  }

  /// Whether a longer sequence has more of `pool`.
  constexpr bool grows(std::uint32_t pool) const {
    for (auto const& group : groups)
      if (group.pool == pool && group.keeps != Keeps::fixed) return true;
    return false;
  }

  /// The block of a footprint that is as paged() makes it: a need is then one division. 0 of any other.
  constexpr Tokens paged_by() const {
    CacheGroup const& first = groups.items[0];
    bool const paged = groups.size() == 1 && first.keeps == Keeps::everything && first.pool == 0 && first.blocks_per_entry == 1 && !first.bounded();
    return paged ? first.block : Tokens{};
  }

  /// One more than the highest pool a group names.
  constexpr std::uint32_t pools() const {
    std::uint32_t n = 0;
    for (auto const& group : groups) n = group.pool < n ? n : group.pool + 1;
    return n;
  }

 private:
  constexpr Blocks most(CacheGroup const& group, Sequences const& of) const {
    Blocks const one = group.most(of.length, in_flight);
    if (of.branches == 1) return one;
    Blocks const shared = group.keeps == Keeps::everything ? blocks_in(min(of.shared, of.length), group.block) * group.blocks_per_entry : Blocks{};
    return shared + (one - shared) * of.branches;
  }
};

/// One pool of blocks of `block` tokens that keeps every token.
constexpr Footprint paged(Tokens block) { return {.groups = {full_group(block)}}; }

/// Every complaint about a footprint.
constexpr Complaints check(Footprint const& footprint) {
  Complaints complaints{};
  auto const complain = [&](char const* field, std::uint64_t value, char const* accepted, char const* next, std::uint32_t index) {
    complaints.push_back({field, value, accepted, next, index});
  };
  auto const& groups = footprint.groups;
  if (groups.empty() || groups.overflowed())
    complain(".groups", groups.size() + groups.lost, "1 to 8 cache groups", "merge groups that keep the same tokens in the same pool", 0);
  if (footprint.in_flight == Tokens{}) complain(".in_flight", 0, "1 token or more", "give the most tokens one step computes for a sequence", 0);
  for (std::uint32_t i = 0; i < groups.size(); ++i) {
    bool const spans = groups[i].keeps == Keeps::window || groups[i].keeps == Keeps::chunk;
    if (groups[i].pool >= max_pools) complain(".pool", groups[i].pool, "0 to 7", "number the pools from 0", i);
    if (groups[i].block == Tokens{}) complain(".block", 0, "1 token or more", "give the tokens of one block, for example 16", i);
    if (groups[i].blocks_per_entry == 0) complain(".blocks_per_entry", 0, "1 or more", "give 1 where a pool block holds all of the group's layers", i);
    if (spans && groups[i].span == Tokens{}) complain(".span", 0, "1 token or more", "give the window or the chunk in tokens", i);
    if (groups[i].keeps == Keeps::fixed && groups[i].fixed == Blocks{}) complain(".fixed", 0, "1 block or more", "give the blocks one sequence takes", i);
  }
  return complaints;
}

}  // namespace kvbudget::inline v1
