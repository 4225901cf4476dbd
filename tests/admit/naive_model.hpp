// The rules of admission again, without any of the controller's bookkeeping: lists that are searched, sums that are added up
// anew for every question. What the property test compares the controller with.
#pragma once

#include <kvbudget/admit/controller.hpp>
#include <kvbudget/admit/policies/plain.hpp>

#include <algorithm>
#include <deque>
#include <map>
#include <vector>

namespace naive {

using kvbudget::Reason;

struct Item {
  std::uint64_t id, prompt, max_new, lookahead, branches, group;
  std::uint64_t deadline = kvbudget::no_deadline, together = 0;
  std::uint64_t grown = 0, lost = 0, token_steps = 0;
  bool waited = false;

  std::uint64_t ahead() const { return max_new == 0 ? 0 : lookahead; }
  std::uint64_t cached() const { return prompt + grown * branches; }
};

/// Layers that keep every token, a window of `window` tokens, or (block 0) `fixed` blocks a sequence.
struct Group {
  std::uint64_t pool, block, window, fixed, factor;
};

struct Pool {
  std::uint64_t blocks, headroom;
};

struct Limits {
  std::vector<Pool> pools;
  std::vector<Group> groups;
  std::uint64_t in_flight, classes, max_live;
  bool scan_on;
};

struct Account {
  std::uint64_t submitted = 0, rejected = 0, admitted = 0, ever_waited = 0, steps_waited = 0, completed = 0, cancelled = 0, expired = 0, wasted = 0,
                preempted = 0, recomputed = 0, peak_tokens = 0, peak_held = 0, peak_requests = 0;
};

template <class Items>
auto find(Items& items, std::uint64_t id) {
  return std::find_if(items.begin(), items.end(), [&](Item const& item) { return item.id == id; });
}

class Model {
 public:
  explicit Model(Limits limits) : limits_{limits}, accounts_(limits.classes) {}

  /// Counted token by token: the blocks of one sequence of a group that hold a token it may still need on its way.
  std::uint64_t one(Group const& group, std::uint64_t length) const {
    if (group.block == 0) return group.fixed;
    std::uint64_t const kept = group.window == 0 ? length : std::min(length, group.window - 1 + limits_.in_flight + group.block - 1);
    std::uint64_t blocks = 0;
    for (std::uint64_t token = 0; token < kept; token += group.block) ++blocks;
    return blocks;
  }
  std::uint64_t of_group(Group const& group, Item const& item, std::uint64_t grown) const {
    std::uint64_t const each = one(group, item.prompt + grown + item.ahead());
    bool const shares = item.branches > 1 && group.block != 0 && group.window == 0;
    std::uint64_t const shared = shares ? item.prompt / group.block : 0;
    return (shared + (each - shared) * item.branches) * group.factor;
  }
  std::uint64_t blocks(std::uint64_t pool, Item const& item, std::uint64_t grown) const {
    std::uint64_t sum = 0;
    for (auto const& group : limits_.groups) sum += group.pool == pool ? of_group(group, item, grown) : 0;
    return sum;
  }
  std::uint64_t tokens_held(Item const& item) const {
    for (auto const& group : limits_.groups)
      if (group.block != 0) return of_group(group, item, item.grown) / group.factor * group.block;
    return 0;
  }
  std::uint64_t held(std::uint64_t pool) const {
    std::uint64_t sum = 0;
    for (auto const& item : running) sum += blocks(pool, item, item.grown);
    return sum;
  }
  std::uint64_t free(std::uint64_t pool) const { return limits_.pools[pool].blocks - std::min(held(pool), limits_.pools[pool].blocks); }
  std::uint64_t over(std::uint64_t pool) const { return held(pool) - std::min(held(pool), limits_.pools[pool].blocks); }
  bool impossible(Item const& item) const {
    for (std::uint64_t pool = 0; pool < limits_.pools.size(); ++pool)
      if (blocks(pool, item, item.max_new) > limits_.pools[pool].blocks) return true;
    return false;
  }
  void resize(std::uint64_t pool, std::uint64_t blocks) {
    limits_.pools[pool].blocks = blocks;
    resized_ = true;
    reject_impossible();
  }
  void reject_impossible() {
    for (auto it = queue.begin(); it != queue.end();) {
      if (impossible(*it)) {
        ++accounts_[it->group].rejected;
        it = queue.erase(it);
      } else {
        ++it;
      }
    }
  }
  std::uint64_t tokens_held_by(std::uint64_t group) const {
    std::uint64_t sum = 0;
    for (auto const& item : running) sum += item.group == group ? tokens_held(item) : 0;
    return sum;
  }
  std::uint64_t running_of(std::uint64_t group) const {
    return std::uint64_t(std::count_if(running.begin(), running.end(), [&](Item const& item) { return item.group == group; }));
  }
  std::uint64_t active_tokens(std::uint64_t group) const {
    std::uint64_t sum = 0;
    for (auto const& item : running) sum += item.group == group ? item.cached() : 0;
    return sum;
  }
  std::uint64_t queued_tokens(std::uint64_t group) const {
    std::uint64_t sum = 0;
    for (auto const& item : queue) sum += item.group == group ? item.cached() : 0;
    return sum;
  }

  void begin_step(std::uint64_t now) {
    if (begun_ && !passed_) pass();
    for (auto& item : running) item.token_steps += tokens_held(item);
    now_ = now;
    begun_ = true;
    passed_ = false;
    yielding_ = false;
    for (auto const id : ids([&](Item const& item) { return item.deadline < now; })) leave(id, &Account::expired);
  }
  std::size_t cancel_group(std::uint64_t together) {
    auto const all = ids([&](Item const& item) { return together != 0 && item.together == together; });
    for (auto const id : all) leave(id, &Account::cancelled);
    return all.size();
  }

  Reason submit(Item const& item) {
    auto& account = accounts_[item.group];
    ++account.submitted;
    Reason reason = Reason::in_queue;
    if (impossible(item)) reason = Reason::exceeds_capacity;
    if (reason == Reason::in_queue && item.deadline < now_) reason = Reason::expired;
    if (reason == Reason::in_queue && queue.size() + running.size() == limits_.max_live) reason = Reason::queue_full;
    if (reason != Reason::in_queue)
      ++account.rejected;
    else
      queue.push_back(item);
    return reason;
  }

  /// The id of what starts, or 0.
  std::uint64_t admit_next() {
    if (!yielding_) {
      for (auto it = queue.begin(); it != queue.end(); ++it) {
        bool fits = true;
        for (std::uint64_t pool = 0; pool < limits_.pools.size(); ++pool)
          fits = fits && blocks(pool, *it, it->grown) + (running.empty() ? 0 : limits_.pools[pool].headroom) <= free(pool);
        if (fits) {
          auto& account = accounts_[it->group];
          ++account.admitted;
          account.recomputed += it->lost;
          it->lost = 0;
          running.push_back(*it);
          queue.erase(it);
          mark();
          return running.back().id;
        }
        if (!limits_.scan_on) break;
      }
    }
    if (!passed_) pass();
    return 0;
  }

  void grow(std::uint64_t id, std::uint64_t more) {
    auto const asker = find(running, id);
    if (asker == running.end()) return;
    more = std::min(more, asker->max_new - asker->grown);
    // The fewest of the newest that are enough; when all newer ones are not, the asker alone.
    std::size_t const own = std::size_t(asker - running.begin());
    for (std::size_t keep = running.size(); keep > own; --keep) {
      bool enough = true;
      for (std::uint64_t pool = 0; pool < limits_.pools.size(); ++pool) {
        std::uint64_t after = blocks(pool, *asker, asker->grown + more);
        if (after == blocks(pool, *asker, asker->grown)) continue;  // it asks nothing of this pool
        for (std::size_t i = 0; i < keep; ++i) after += i == own ? 0 : blocks(pool, running[i], running[i].grown);
        enough = enough && after <= limits_.pools[pool].blocks;
      }
      if (!enough) continue;
      while (running.size() > keep) preempt(running.end() - 1);
      find(running, id)->grown += more;
      if (resized_) reject_impossible();
      return mark();
    }
    preempt(running.begin() + std::ptrdiff_t(own));
    if (resized_) reject_impossible();
  }

  bool leave(std::uint64_t id, bool completed) { return leave(id, completed ? &Account::completed : &Account::cancelled); }
  bool leave(std::uint64_t id, std::uint64_t Account::*how) {
    auto const in_queue = find(queue, id);
    auto const in_running = find(running, id);
    if (in_queue == queue.end() && in_running == running.end()) return false;
    Item const& item = in_queue != queue.end() ? *in_queue : *in_running;
    auto& account = accounts_[item.group];
    ++(account.*how);
    if (how != &Account::completed) account.wasted += item.token_steps;
    if (in_queue != queue.end())
      queue.erase(in_queue);
    else
      running.erase(in_running);
    return true;
  }

  bool runs(std::uint64_t id) { return find(running, id) != running.end(); }
  Account const& account(std::uint64_t group) const { return accounts_[group]; }

  std::deque<Item> queue;
  std::vector<Item> running;  // by admission

 private:
  void preempt(std::vector<Item>::iterator it) {
    ++accounts_[it->group].preempted;
    it->lost = it->cached();
    auto const before = [&](Item const& other) { return other.lost > 0 && other.id < it->id; };
    queue.insert(std::find_if_not(queue.begin(), queue.end(), before), *it);
    running.erase(it);
    yielding_ = true;
  }
  void pass() {
    passed_ = true;
    for (auto& item : queue) {
      auto& account = accounts_[item.group];
      ++account.steps_waited;
      account.ever_waited += !item.waited;
      item.waited = true;
    }
  }
  void mark() {
    for (std::uint64_t group = 0; group < accounts_.size(); ++group) {
      accounts_[group].peak_tokens = std::max(accounts_[group].peak_tokens, active_tokens(group));
      accounts_[group].peak_held = std::max(accounts_[group].peak_held, tokens_held_by(group));
      accounts_[group].peak_requests = std::max(accounts_[group].peak_requests, running_of(group));
    }
  }

  template <class Which>
  std::vector<std::uint64_t> ids(Which which) const {
    std::vector<std::uint64_t> found;
    for (auto const& item : running)
      if (which(item)) found.push_back(item.id);
    for (auto const& item : queue)
      if (which(item)) found.push_back(item.id);
    return found;
  }

  Limits limits_;
  std::vector<Account> accounts_;
  std::uint64_t now_ = 0;
  bool resized_ = false;
  bool begun_ = false, passed_ = false, yielding_ = false;
};

}  // namespace naive
