// The most blocks a running set will ever hold together, if every sequence caches a token a step while it has any left, then leaves.
//
//   together(t) = sum of ceil((cached + t) / block) over the sequences with remaining >= t;   peak = the largest together(t), t >= 0
// Between two completions together(t) never falls, so the peak is at a completion, just before it frees. What is held together at
// each sequence's completion is kept with it: steps do not change it, and a candidate adds a term to each and one completion of its
// own. So any change and any question is one pass over what runs, in any order, and no count per residue of the block is needed.
// Blocks of 16: {100 cached, 60 remaining} and {400, 10} peak at 33 blocks, though they end with 10 and 26.
// Sources: LightLLM's max of left_i x i + cumulated length (router/req_queue/continues_batch/impl.py; Past-Future, arXiv 2507.10150),
// MC-SF (arXiv 2502.07115), SGLang's walk with ignore_eos; facts: admission.md B3, B18. LightLLM counts tokens, which is a block of 1.
#pragma once

#include <kvbudget/core/rounding.hpp>

#include <utility>
#include <vector>

namespace kvbudget::inline v1 {

/// A sequence that decodes. Look-ahead is in `cached` already. Each branch is a sequence; one that shares whole blocks with another
/// that stays as long is given without those tokens.
struct Decoding {
  Tokens cached{};
  Tokens remaining{};  // tokens it will still cache
};

/// A pool that keeps every token. After construction nothing is allocated.
class FuturePeak {
 public:
  constexpr FuturePeak(Tokens block, std::uint32_t most_sequences)
      : block_{block}, most_sequences_{most_sequences}, too_long_{block == Tokens{} ? 0 : saturated_count / (std::uint64_t{most_sequences} + 1)} {
    running_.reserve(most_sequences);
  }

  /// Takes a sequence in under the caller's own id, in place of what the id had. False, and no change, when the set is full or the
  /// sequence so long that sums could saturate: it never fits.
  constexpr bool put(std::uint64_t id, Decoding sequence) {
    if (never_fits(sequence)) return false;
    remove(id);
    if (running_.size() == most_sequences_) return false;
    Course course = course_of(sequence, id);
    for (auto& other : running_) {
      other.together += held(course, other.end);
      course.together += held(other, course.end);
    }
    running_.push_back(course);
    return true;
  }

  /// False when the id has no sequence, or it has left.
  constexpr bool remove(std::uint64_t id) {
    for (auto& course : running_) {
      if (course.id != id) continue;
      Course const removed = std::exchange(course, running_.back());
      running_.pop_back();
      for (auto& other : running_) other.together -= held(removed, other.end);
      return true;
    }
    return false;
  }

  /// A step: every sequence caches a token; those that had none left leave. One that goes on is put in again, with what it now has left.
  constexpr void advance() {
    ++now_;
    std::erase_if(running_, [this](Course const& course) { return course.end < now_; });
  }

  constexpr std::size_t size() const { return running_.size(); }

  constexpr Blocks peak() const {
    Blocks most{};
    for (auto const& course : running_) most = max(most, course.together);
    return most;
  }

  /// The peak if the candidate started now. The maximum for one that put() would call too long.
  constexpr Blocks peak_with(Decoding candidate) const {
    if (never_fits(candidate)) return Blocks::max();
    Course course = course_of(candidate);
    Blocks most{};
    for (auto const& other : running_) {
      most = max(most, other.together + held(course, other.end));
      course.together += held(other, course.end);
    }
    return max(most, course.together);
  }

 private:
  /// A sequence without the steps: its last one, and what is cached then.
  struct Course {
    std::uint64_t id{};
    std::uint64_t end{};
    Tokens length{};
    Blocks together{};  // held by all at that step
  };

  constexpr bool never_fits(Decoding of) const { return (of.cached + of.remaining).count >= too_long_; }
  constexpr Course course_of(Decoding of, std::uint64_t id = 0) const {
    Tokens const length = of.cached + of.remaining;
    return {.id = id, .end = now_ + of.remaining.count, .length = length, .together = blocks_for(length, block_)};
  }
  constexpr Blocks held(Course const& by, std::uint64_t step) const { return step > by.end ? Blocks{} : blocks_for(by.length - Tokens{by.end - step}, block_); }

  Tokens block_;
  std::uint32_t most_sequences_;
  std::uint64_t too_long_;  // lengths from which on sums could saturate; all, where a block holds nothing
  std::uint64_t now_{};
  std::vector<Course> running_;
};

}  // namespace kvbudget::inline v1
