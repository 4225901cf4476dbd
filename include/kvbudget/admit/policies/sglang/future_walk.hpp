// S15: requests that ignore EOS generate all of max_new, so what is free can be followed to the end: whoever has least left completes first,
// and gives back what it holds now. A token for each that still runs must be left over at every completion:
//
//   room + freed so far - left x running > running
// In double, because what a request that heeds EOS has left is max_new x ratio - out. Two that hold 20 tokens each, with 30 and 60 left:
// 63 tokens of room are enough, since 63 - 30 x 2 > 2 and 63 + 20 - 60 x 1 > 1; 62 are not.
#pragma once

#include <kvbudget/admit/policies/sglang/memory.hpp>

#include <algorithm>

namespace kvbudget::inline v1::policies::sglang {

class FutureWalk {
 public:
  struct Course {
    double left{};
    Tokens held{};
  };
  static constexpr Course course(Member const& of, double ratio) {
    return {as_double(of.max_new) * (of.ignore_eos ? 1.0 : ratio) - as_double(of.out), of.prompt + of.out};
  }

  bool empty() const { return !begun_; }

  void begin(std::vector<Course> courses) {
    begun_ = true;
    std::erase_if(courses, [](Course const& one) { return one.left <= 0; });
    std::stable_sort(courses.begin(), courses.end(), [](Course const& a, Course const& b) { return a.left < b.left; });
    courses_ = std::move(courses);
  }

  /// As the runtime has it: one that has more left than all goes before the last of them, and the list is not sorted any more.
  void insert(Course one) {
    if (one.left <= 0) return;
    auto at = std::find_if(courses_.begin(), courses_.end(), [&](Course const& other) { return one.left <= other.left; });
    if (at == courses_.end() && !courses_.empty()) --at;
    courses_.insert(at, one);
  }

  bool fits(Tokens room) const {
    std::size_t running = courses_.size();
    for (Course const& one : courses_) {
      double const each = static_cast<double>(running--);
      if (as_double(room) - one.left * each <= each) return false;
      room += one.held;
    }
    return true;
  }

 private:
  bool begun_{};
  std::vector<Course> courses_;
};

}  // namespace kvbudget::inline v1::policies::sglang
