// How long a request class's outputs have turned out to be: quantiles of the lengths observed, in fixed memory.
//
//   quantile(p) = the end of the bucket in which the ceil(p x count)-th shortest observation lies
// Buckets are log-linear, as HdrHistogram's: a length below 32 has one of its own, and every doubling from there on is cut into 16.
// So a quantile never under-states what was observed, and over-states it by less than 1/16. 976 counters (3.9 KB) hold any length.
// What is not known yet is Tokens::max(): of prompt + min(max_new, quantile), prompt + max_new remains, room for all that may come.
// Of the lengths 1 to 100 the 90% quantile is 91: 90 lies in the bucket 88 to 91.
// Source: the past of LightLLM's Past-Future scheduler (arXiv 2507.10150); facts: admission.md D.1, prompt + quantile.
#pragma once

#include <kvbudget/core/complaint.hpp>
#include <kvbudget/core/rounding.hpp>

#include <array>

namespace kvbudget::inline v1 {

struct ObservationLimits {
  std::uint16_t enough{32};   // observations that make a quantile known
  std::uint16_t kept{2'048};  // at twice as many, every second one is forgotten: the newer an observation, the more it counts
};

/// Every complaint about the limits. Where fewer are kept than are enough, quantiles stay unknown or become so again and again.
constexpr Complaints check(ObservationLimits const& limits) {
  Complaints complaints{};
  if (limits.enough == 0) complaints.push_back({".enough", 0, "1 observation or more", "say how many outputs make a quantile trustworthy, for example 32"});
  if (limits.kept < limits.enough) complaints.push_back({".kept", limits.kept, ".enough or more", "keep as many observations as make a quantile known"});
  return complaints;
}

/// The outputs of one class. Observe those that came to their end, at max_new too; a cancelled one says nothing. After a start the short
/// ones end first, so a small `enough` is an optimist.
class OutputLengths {
 public:
  constexpr explicit OutputLengths(ObservationLimits limits = {}) : limits_{limits} {}

  constexpr void observe(Tokens length) {
    ++counts_[bucket_of(length.count)];
    ++count_;
    if (count_ >= std::uint32_t{2} * limits_.kept) forget_every_second();
  }

  /// Observations that count.
  constexpr std::uint32_t count() const { return count_; }

  /// The length that `share` of the outputs do not exceed; 100% is the longest. Tokens::max() while unknown, and for more than 100%.
  constexpr Tokens quantile(Percent share) const { return quantile_beyond(share, {}); }

  /// The same, of the outputs of `already` tokens or more: the whole length of one that has got so far. The bucket that `already` lies
  /// within is left out, as it may hold shorter ones. Unknown where too few outputs got so far.
  constexpr Tokens quantile_beyond(Percent share, Tokens already) const {
    std::size_t const first = already == Tokens{} ? 0 : bucket_of(already.count - 1) + 1;
    std::uint32_t beyond = count_;
    for (std::size_t i = 0; i < first; ++i) beyond -= counts_[i];
    return beyond < limits_.enough ? Tokens::max() : ranked(ceil_div(saturating_multiply(beyond, share.millionths), one_whole), first);
  }

 private:
  static constexpr std::size_t parts = 16;  // of a doubling
  static constexpr std::size_t buckets = (64 - 4 + 1) * parts;

  /// A length is at most 31 units of 1, 2, 4, ... tokens, and from 32 tokens on at least 16.
  static constexpr std::size_t bucket_of(std::uint64_t length) {
    std::size_t doublings = 0;
    for (; length >= 2 * parts; length /= 2) ++doublings;
    return doublings * parts + static_cast<std::size_t>(length);
  }
  static constexpr Tokens end_of(std::size_t bucket) {
    std::size_t const doublings = bucket < 2 * parts ? 0 : bucket / parts - 1;
    std::uint64_t const units = bucket - doublings * parts;
    return {((units + 1) << doublings) - 1};  // of the last bucket the maximum
  }

  /// The end of the bucket with the rank-th shortest observation, counted from bucket `first`; of rank 0 that with the first.
  constexpr Tokens ranked(std::uint64_t rank, std::size_t first) const {
    std::uint32_t seen = 0;
    for (std::size_t i = first; i < buckets; ++i) {
      seen += counts_[i];
      if (seen != 0 && seen >= rank) return end_of(i);
    }
    return Tokens::max();
  }

  /// From the longest down, which stays: what lies beyond any length is halved and rounded up, so that no quantile falls.
  constexpr void forget_every_second() {
    std::uint32_t beyond = 0;
    count_ = 0;
    for (std::size_t i = buckets; i-- > 0;) {
      beyond += counts_[i];
      std::uint32_t const stay = (beyond + 1) / 2;
      counts_[i] = stay - count_;
      count_ = stay;
    }
  }

  ObservationLimits limits_{};
  std::uint32_t count_{};
  std::array<std::uint32_t, buckets> counts_{};
};

}  // namespace kvbudget::inline v1
