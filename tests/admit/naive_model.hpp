// The rules of admission again, without any of the controller's bookkeeping: lists that are searched, sums that are added up
// anew for every question. What the property test compares the controller with.
#pragma once

#include <kvbudget/admit/controller.hpp>

#include <algorithm>
#include <deque>
#include <map>
#include <vector>

namespace naive {

using kvbudget::Reason;

struct Item {
  std::uint64_t id, prompt, max_new, lookahead, branches, group;
  std::uint64_t grown = 0, lost = 0;
  bool waited = false;

  std::uint64_t ahead() const { return max_new == 0 ? 0 : lookahead; }
  std::uint64_t cached() const { return prompt + grown * branches; }
};

struct Limits {
  std::uint64_t blocks, headroom, block, classes, max_live;
  bool scan_on;
};

struct Account {
  std::uint64_t submitted = 0, rejected = 0, admitted = 0, ever_waited = 0, steps_waited = 0, completed = 0, cancelled = 0, preempted = 0, recomputed = 0, peak_tokens = 0;
};

template <class Items>
auto find(Items& items, std::uint64_t id) {
  return std::find_if(items.begin(), items.end(), [&](Item const& item) { return item.id == id; });
}

class Model {
 public:
  explicit Model(Limits limits) : limits_{limits}, accounts_(limits.classes) {}

  std::uint64_t blocks(Item const& item, std::uint64_t grown) const {
    std::uint64_t const length = item.prompt + grown + item.ahead();
    std::uint64_t const whole = (length + limits_.block - 1) / limits_.block;
    std::uint64_t const shared = item.branches == 1 ? 0 : item.prompt / limits_.block;
    return shared + (whole - shared) * item.branches;
  }
  std::uint64_t held() const {
    std::uint64_t sum = 0;
    for (auto const& item : running) sum += blocks(item, item.grown);
    return sum;
  }
  std::uint64_t free() const { return limits_.blocks - held(); }
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

  void begin_step() {
    if (begun_ && !passed_) pass();
    begun_ = true;
    passed_ = false;
    yielding_ = false;
  }

  Reason submit(Item const& item) {
    auto& account = accounts_[item.group];
    ++account.submitted;
    Reason reason = Reason::in_queue;
    if (blocks(item, item.max_new) > limits_.blocks)
      reason = Reason::exceeds_capacity;
    else if (queue.size() + running.size() == limits_.max_live)
      reason = Reason::queue_full;
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
        std::uint64_t const needed = blocks(*it, it->grown) + (running.empty() ? 0 : limits_.headroom);
        if (needed <= free()) {
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
    std::uint64_t const extra = blocks(*asker, asker->grown + more) - blocks(*asker, asker->grown);
    std::uint64_t newer = 0;
    for (auto it = asker + 1; it != running.end(); ++it) newer += blocks(*it, it->grown);
    if (extra > free() + newer) return preempt(asker);
    while (extra > free()) preempt(running.end() - 1);
    find(running, id)->grown += more;
    mark();
  }

  bool leave(std::uint64_t id, bool completed) {
    auto const in_queue = find(queue, id);
    auto const in_running = find(running, id);
    if (in_queue == queue.end() && in_running == running.end()) return false;
    auto& account = accounts_[in_queue != queue.end() ? in_queue->group : in_running->group];
    ++(completed ? account.completed : account.cancelled);
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
    queue.push_front(*it);
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
    for (std::uint64_t group = 0; group < accounts_.size(); ++group) accounts_[group].peak_tokens = std::max(accounts_[group].peak_tokens, active_tokens(group));
  }

  Limits limits_;
  std::vector<Account> accounts_;
  bool begun_ = false, passed_ = false, yielding_ = false;
};

}  // namespace naive
