// What is held and what is free, per pool and per class. The invariant of admission lives here and only here:
//   held by all classes + clean + cached idle + in flight + reserved = the pool's capacity.
// In flight are the source's own blocks that a step or a transfer may still write, and, where the limits say so, what requests gave back
// since the last retire(). Cached idle are the source's own, and what preempted requests left for as long as nobody takes it.
//
// A pool's blocks come from a Source, so that an engine's own block manager can be the count there is: there is no second
// count of the same blocks. The plain source is a counter.
#pragma once

#include <kvbudget/admit/limits.hpp>
#include <kvbudget/admit/request.hpp>
#include <kvbudget/core/supply.hpp>

#include <vector>

namespace kvbudget::inline v1 {

/// Where a pool's blocks come from. take() gives all of them or none, and may be asked in vain: then nothing changes. What give() returns can
/// be taken again at once. A source that counts who uses a block, so that one that two requests share is free only when both have left, says
/// static constexpr bool shares_blocks = true.
template <class S>
concept BlockSource = requires(S source, S const& seen, Blocks blocks) {
  { seen.supply() } -> std::same_as<Supply>;
  { source.take(blocks) } -> std::same_as<bool>;
  source.give(blocks);
};

template <class S>
inline constexpr bool shares_blocks = false;
template <class S>
requires requires { requires S::shares_blocks; }
inline constexpr bool shares_blocks<S> = true;

/// A source whose pool can grow and shrink. Below what is taken nothing is clean until enough is given back.
template <class S>
concept ResizableSource = BlockSource<S> && requires(S source, Blocks capacity) {
  source.resize(capacity);
};

/// A pool that is nothing but a number of blocks.
class Counter {
 public:
  constexpr explicit Counter(Blocks capacity) : capacity_{capacity} {}
  constexpr Supply supply() const { return {.clean = {taken_ < capacity_ ? capacity_.count - taken_.count : 0}}; }
  constexpr bool take(Blocks blocks) {
    Blocks const taken = taken_ + blocks;
    if (taken > capacity_) return blocks == Blocks{};
    taken_ = taken;
    return true;
  }
  constexpr void give(Blocks blocks) { taken_.count -= min(taken_, blocks).count; }
  constexpr void resize(Blocks capacity) { capacity_ = capacity; }

 private:
  Blocks capacity_;
  Blocks taken_{};
};

/// Blocks of every pool.
struct PoolBlocks {
  Blocks of[max_pools]{};

  constexpr Blocks& operator[](std::uint32_t pool) { return of[pool]; }
  constexpr Blocks operator[](std::uint32_t pool) const { return of[pool]; }
  friend constexpr bool operator==(PoolBlocks const&, PoolBlocks const&) = default;
};

/// A pool as anybody may see it.
struct PoolView {
  char const* name{""};
  Tokens block{};  // tokens per block; 0 where several groups share the pool
  Blocks capacity{};
  Blocks headroom{};
  Blocks held{};
  Blocks overcommitted{};  // held beyond the capacity, after it shrank
  Supply supply{};
};

template <BlockSource Source>
class Ledger {
 public:
  /// `make(pool)` gives the source of each pool.
  template <class Make>
  Ledger(AdmissionLimits const& limits, Make make)
      : count_{limits.pools()}, classes_{limits.classes}, held_(std::size_t{count_} * classes_), retires_{limits.retires} {
    pools_.reserve(count_);
    for (std::uint32_t i = 0; i < count_; ++i)
      pools_.push_back(Pool{make(i), limits.capacity_of(i), limits.headroom_of(i), {}, limits.block(i), limits.pool(i)});
  }
  Ledger() = default;

  std::uint32_t pools() const { return count_; }
  /// Calls `each(pool)` for every pool; of one pool, which most have, without a loop.
  template <class Each>
  void each_pool(Each each) const {
    if (count_ == 1) return each(std::uint32_t{0});
    for (std::uint32_t pool = 0; pool < count_; ++pool) each(pool);
  }
  Blocks capacity(std::uint32_t pool) const { return pools_[pool].capacity; }
  Blocks headroom(std::uint32_t pool) const { return pools_[pool].headroom; }
  Blocks available(std::uint32_t pool) const { return pools_[pool].source.supply().available(); }
  Blocks held(std::uint32_t pool, RequestClass request_class) const { return held_[cell(pool, request_class)]; }
  Blocks overcommitted(std::uint32_t pool) const { return pools_[pool].held + retiring_[pool] - pools_[pool].capacity; }
  /// Given back, and free when the steps in flight retire.
  Blocks retiring(std::uint32_t pool) const { return retiring_[pool]; }
  bool retires() const { return retires_; }
  char const* name(std::uint32_t pool) const { return pools_[pool].limits.name; }
  PoolLimits const& limits(std::uint32_t pool) const { return pools_[pool].limits; }
  Tokens block(std::uint32_t pool) const { return pools_[pool].block; }
  PoolView view(std::uint32_t pool) const {
    auto const& of = pools_[pool];
    Supply supply = of.source.supply();
    Blocks const kept = min(kept_[pool], supply.clean);
    supply.clean -= kept;
    supply.cached_idle += kept;
    supply.in_flight += retiring_[pool];
    return {of.limits.name, of.block, of.capacity, of.headroom, of.held, overcommitted(pool), supply};
  }

  /// Another capacity, and the headroom that the limits give it.
  void resize(std::uint32_t pool, Blocks capacity) requires ResizableSource<Source> {
    auto& of = pools_[pool];
    of.capacity = capacity;
    of.headroom = of.limits.headroom.blocks(of.block, capacity);
    of.source.resize(capacity);
  }

  /// Takes the blocks of every pool, or of none: what one pool gave and gets back would have evicted something there.
  bool take(PoolBlocks const& blocks, RequestClass request_class) {
    if (count_ == 1) return take(blocks[0], request_class, 0);
    for (std::uint32_t pool = 0; pool < pools(); ++pool)
      if (blocks[pool] > available(pool)) return false;
    for (std::uint32_t pool = 0; pool < pools(); ++pool)
      if (!take(blocks[pool], request_class, pool)) return take_back(blocks, request_class, pool), false;
    return true;
  }
  /// The same of one pool.
  [[gnu::always_inline]] bool take(Blocks blocks, RequestClass request_class, std::uint32_t pool) {
    if (!pools_[pool].source.take(blocks)) return false;
    pools_[pool].held.count += blocks.count;  // no more than the source has
    held_[cell(pool, request_class)].count += blocks.count;
    return true;
  }

  /// Gives blocks back: free at once, or once retire() says that what ran at `now` is over.
  void give(PoolBlocks const& blocks, RequestClass request_class, std::uint64_t now) {
    if (retires_) return give_later(blocks, request_class, now);
    take_back(blocks, request_class, pools());
  }
  /// The same of the only pool.
  [[gnu::always_inline]] void give(Blocks blocks, RequestClass request_class, std::uint64_t now) {
    if (retires_) return give_later({{blocks}}, request_class, now);
    take_back(blocks, request_class, 0);
  }

  /// What was given back up to `step` is free.
  void retire(std::uint64_t step) {
    std::uint32_t gone = 0;
    while (gone < stages_used_ && stages_[gone].now <= step) {
      for (std::uint32_t pool = 0; pool < pools(); ++pool) {
        pools_[pool].source.give(stages_[gone].blocks[pool]);
        retiring_[pool] -= stages_[gone].blocks[pool];
      }
      ++gone;
    }
    for (std::uint32_t i = gone; gone > 0 && i < stages_used_; ++i) stages_[i - gone] = stages_[i];
    stages_used_ -= gone;
  }

  /// Free blocks that still hold what a preempted request had computed. They are anybody's; evict() says that they were taken.
  void keep(PoolBlocks const& blocks) {
    for (std::uint32_t pool = 0; pool < pools(); ++pool) kept_[pool] += blocks[pool];
  }
  void evict(PoolBlocks const& blocks) {
    for (std::uint32_t pool = 0; pool < pools(); ++pool) kept_[pool] -= blocks[pool];
  }
  /// Blocks that were kept and have been taken: more is kept than is free.
  Blocks taken_of_kept(std::uint32_t pool) const { return kept_[pool] - available(pool); }

  /// The invariant. A Source that serves others as well breaks it by what they hold.
  bool balanced() const {
    for (std::uint32_t pool = 0; pool < pools(); ++pool) {
      Supply const supply = pools_[pool].source.supply();
      Blocks const supplied = supply.clean + supply.cached_idle + supply.in_flight + supply.reserved;
      if (pools_[pool].held + retiring_[pool] + supplied != pools_[pool].capacity + overcommitted(pool)) return false;
      if (kept_[pool] > supply.available()) return false;
      Blocks by_class{};
      for (std::size_t i = 0; i < classes_; ++i) by_class += held_[pool * classes_ + i];
      if (by_class != pools_[pool].held) return false;
    }
    return true;
  }

 private:
  struct Pool {
    Source source;
    Blocks capacity;
    Blocks headroom;
    Blocks held;
    Tokens block;
    PoolLimits limits;
  };

  /// Blocks given back at `now`. More than 64 steps in flight share a stage, and retire together.
  struct Stage {
    std::uint64_t now{};
    PoolBlocks blocks{};
  };

  void release(Blocks blocks, RequestClass request_class, std::uint32_t pool) {
    pools_[pool].held.count -= blocks.count;
    held_[cell(pool, request_class)].count -= blocks.count;
  }
  /// Of the first `pools` pools.
  void take_back(PoolBlocks const& blocks, RequestClass request_class, std::uint32_t pools) {
    for (std::uint32_t pool = 0; pool < pools; ++pool) take_back(blocks[pool], request_class, pool);
  }
  [[gnu::always_inline]] void take_back(Blocks blocks, RequestClass request_class, std::uint32_t pool) {
    release(blocks, request_class, pool);
    pools_[pool].source.give(blocks);
  }

  [[gnu::noinline]] void give_later(PoolBlocks const& blocks, RequestClass request_class, std::uint64_t now) {
    bool const opens = stages_used_ == 0 || (stages_[stages_used_ - 1].now != now && stages_used_ < std::size(stages_));
    if (opens) stages_[stages_used_++] = Stage{};
    Stage& stage = stages_[stages_used_ - 1];
    stage.now = now;
    for (std::uint32_t pool = 0; pool < pools(); ++pool) {
      release(blocks[pool], request_class, pool);
      stage.blocks[pool] += blocks[pool];
      retiring_[pool] += blocks[pool];
    }
  }

  std::size_t cell(std::uint32_t pool, RequestClass request_class) const { return std::size_t{pool} * classes_ + request_class.index; }

  std::uint32_t count_{};
  std::uint32_t classes_{};
  std::vector<Pool> pools_;
  std::vector<Blocks> held_;  // of each pool, class by class
  PoolBlocks kept_{};
  PoolBlocks retiring_{};
  bool retires_{};
  std::uint32_t stages_used_{};
  Stage stages_[64]{};
};

}  // namespace kvbudget::inline v1
