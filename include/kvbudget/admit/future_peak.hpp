// The most blocks of each pool that a running set will ever hold together, if every request caches a token a step while it has any left,
// then leaves.
//
//   together(t) = sum of most(length + t) over the requests with remaining >= t;   peak = the largest together(t), t >= 0
// Between two completions together(t) never falls, so the peak is at a completion, just before it frees. What is held together at
// each request's completion is kept with it: steps do not change it, and a candidate adds a term to each and one completion of its
// own. So any change and any question is one pass over what runs, in any order.
// Blocks of 16: {100 cached, 60 remaining} and {400, 10} peak at 33 blocks, though they end with 10 and 26.
// Sources: LightLLM's max of left_i x i + cumulated length (router/req_queue/continues_batch/impl.py; Past-Future, arXiv 2507.10150),
// MC-SF (arXiv 2502.07115), SGLang's walk with ignore_eos; facts: admission.md B3, B18. LightLLM counts tokens, which is a block of 1.
#pragma once

#include <kvbudget/admit/ledger.hpp>

#include <utility>

namespace kvbudget::inline v1 {

/// A request that decodes: its sequences as they are, look-ahead included, and how many tokens each will still cache.
struct Decoding {
  Sequences now{};
  Tokens remaining{};
};

/// After construction nothing is allocated.
class FuturePeak {
 public:
  FuturePeak() = default;
  FuturePeak(Footprint const& footprint, std::uint32_t most_requests)
      : footprint_{footprint}, most_requests_{most_requests}, too_many_{saturated_count / (std::uint64_t{most_requests} + 1)} {
    running_.reserve(most_requests);
    places_.resize(std::size_t{most_requests} * 2, nowhere);
  }

  /// Takes a request in under an id of the caller's, below twice the most requests, in place of what the id had. False, and no change,
  /// when the set is full or the request so long that sums could saturate: it never fits.
  bool put(std::uint64_t id, Decoding const& request) {
    Course course = course_of(request, id);
    if (never_fits(course) || id >= places_.size()) return false;
    remove(id);
    if (running_.size() == most_requests_) return false;
    places_[id] = static_cast<std::uint32_t>(running_.size());
    for (auto& other : running_) {
      add(other.together, course, other.end);
      add(course.together, other, course.end);
    }
    running_.push_back(course);
    return true;
  }

  /// False when the id has no request, or it has left.
  bool remove(std::uint64_t id) {
    if (id >= places_.size() || places_[id] == nowhere) return false;
    Course const removed = take_out(places_[id]);
    for (auto& other : running_) subtract(other.together, removed, other.end);
    return true;
  }

  /// A step: every request caches a token; those that had none left leave. One that goes on is put in again, with what it now has left.
  void advance() {
    ++now_;
    for (std::uint32_t place = 0; place < running_.size();)
      if (running_[place].end < now_)
        take_out(place);
      else
        ++place;
  }

  std::size_t size() const { return running_.size(); }

  /// The length that a request is taken to have now; none where the id has no request.
  Tokens length(std::uint64_t id) const {
    if (id >= places_.size() || places_[id] == nowhere) return {};
    Course const& course = running_[places_[id]];
    return course.last.length - Tokens{course.end - now_};
  }

  PoolBlocks peak() const {
    PoolBlocks most{};
    for (auto const& course : running_) raise(most, course.together);
    return most;
  }

  /// The peak if the candidate started now. The maximum for one that put() would call too long.
  PoolBlocks peak_with(Decoding const& candidate) const {
    Course course = course_of(candidate, 0);
    PoolBlocks most{};
    if (never_fits(course)) {
      for (auto& blocks : most.of) blocks = Blocks::max();
      return most;
    }
    for (auto const& other : running_) {
      PoolBlocks together = other.together;
      add(together, course, other.end);
      raise(most, together);
      add(course.together, other, course.end);
    }
    raise(most, course.together);
    return most;
  }

 private:
  /// A request without the steps: its last one, and what is cached then.
  struct Course {
    std::uint64_t id{};
    std::uint64_t end{};
    Sequences last{};
    PoolBlocks together{};  // held by all at that step
  };

  static constexpr std::uint32_t nowhere = 0xffff'ffff;

  Course take_out(std::uint32_t place) {
    Course const removed = std::exchange(running_[place], running_.back());
    running_.pop_back();
    if (place < running_.size()) places_[running_[place].id] = place;
    places_[removed.id] = nowhere;
    return removed;
  }

  Course course_of(Decoding const& of, std::uint64_t id) const {
    Course course{.id = id, .end = saturating_add(now_, of.remaining.count), .last = of.now, .together = {}};
    course.last.length += of.remaining;
    for (std::uint32_t pool = 0; pool < footprint_.pools(); ++pool) course.together[pool] = footprint_.most(pool, course.last);
    return course;
  }
  bool never_fits(Course const& course) const {
    for (auto const& blocks : course.together.of)
      if (blocks.count >= too_many_) return true;
    return course.last.length.saturated();
  }

  Blocks held(Course const& by, std::uint64_t step, std::uint32_t pool) const {
    Sequences then = by.last;
    then.length -= Tokens{by.end - step};
    return footprint_.most(pool, then);
  }
  void add(PoolBlocks& to, Course const& by, std::uint64_t step) const {
    if (step > by.end) return;
    for (std::uint32_t pool = 0; pool < footprint_.pools(); ++pool) to[pool] += held(by, step, pool);
  }
  void subtract(PoolBlocks& from, Course const& by, std::uint64_t step) const {
    if (step > by.end) return;
    for (std::uint32_t pool = 0; pool < footprint_.pools(); ++pool) from[pool] -= held(by, step, pool);
  }
  static void raise(PoolBlocks& most, PoolBlocks const& to) {
    for (std::size_t pool = 0; pool < max_pools; ++pool) most.of[pool] = max(most.of[pool], to.of[pool]);
  }

  Footprint footprint_{.groups = {}};
  std::uint32_t most_requests_{};
  std::uint64_t too_many_{};  // blocks from which on sums could saturate
  std::uint64_t now_{};
  std::vector<Course> running_;
  std::vector<std::uint32_t> places_;  // of each id, in running_
};

}  // namespace kvbudget::inline v1
