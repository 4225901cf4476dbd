// From a seed: the limits, the policy and the operations of a world; by an even seed the policy is the recommended one. All of it is known before anything is
// done, so that an operation can be left out and the others are what they were.
#pragma once

#include "operation.hpp"

#include <kvbudget/admit/policies/guaranteed_no_evict.hpp>
#include <kvbudget/admit/policies/plain.hpp>

#include <random>
#include <vector>

namespace properties {

/// Recommended in another order.
template <class Order>
struct RecommendedIn {
  kvbudget::need::WholePrompt need{};
  kvbudget::headroom::NextStep headroom{.least = Percent{2}};
  Order order{};
  kvbudget::victim::LeastComputed victim{};
  kvbudget::Preemption preemption{.regain = Tokens{1}};
};

enum class Kind : std::uint8_t { recommended, by_priority, fair, plain, reserving };

struct Course {
  AdmissionLimits limits{};
  Kind kind{};
  Bypass bypass{};
  Preemption preemption{};
  Count age{};
  std::vector<Operation> operations{};
};

/// The policy of a course, whatever its type.
template <class Visit>
auto with_policy(Course const& course, Visit visit) {
  switch (course.kind) {
    case Kind::by_priority:
      return visit(RecommendedIn<order::Priority>{.order = {course.age, course.bypass}, .preemption = course.preemption});
    case Kind::fair:
      return visit(RecommendedIn<order::FairShare>{.order = {.bypass = course.bypass}, .preemption = course.preemption});
    case Kind::plain:
      return visit(policies::Plain{.order = {.bypass = course.bypass}});
    case Kind::reserving:
      return visit(policies::GuaranteedNoEvict{.order = {.bypass = course.bypass}});
    case Kind::recommended:
      break;
  }
  return visit(policies::Recommended{.order = {.bypass = course.bypass}, .preemption = course.preemption});
}

/// The policy, and the limits it is given.
inline std::string text_of(Course const& course) {
  static constexpr char const* kinds[] = {"Recommended", "RecommendedIn<order::Priority>", "RecommendedIn<order::FairShare>", "Plain", "GuaranteedNoEvict"};
  static constexpr char const* keeps[] = {"nothing", "as_cache", "on_host"};
  Preemption const& how = course.preemption;
  std::string text = fmt::format("{}: age {}, passes {}, steps {}, scan {}", kinds[std::size_t(course.kind)], course.age, course.bypass.passes,
                                 course.bypass.steps, course.bypass.scan);
  text += fmt::format(", keep {}, regain {}{}{}{}", keeps[std::size_t(how.keep)], how.regain.count, how.enough_or_none ? "" : ", not enough_or_none",
                      how.front ? "" : ", not front", how.others_go_on ? "" : ", others stop");
  return text + "\nAdmissionLimits" + text_of(course.limits);
}

class CourseOf {
 public:
  CourseOf(Count seed, std::size_t length) : random_{seed} {
    block_ = one_of<Count>({1, 1, 2, 4});
    blocks_ = 3 + upto(15);
    do limits();
    while (!check(course_.limits).empty());
    policy(seed % 2 == 0);
    small_ = once_in(2);
    style_ = one_of<Style>({Style::leases, Style::plans, Style::plans, Style::both});
    while (course_.operations.size() < length) operation();
  }

  Course const& operator()() const { return course_; }

 private:
  enum class Style { leases, plans, both };

  Count upto(Count most) { return random_() % (most + 1); }
  bool once_in(Count n) { return upto(n - 1) == 0; }
  template <class T>
  T one_of(std::initializer_list<T> all) {
    return all.begin()[upto(all.size() - 1)];
  }
  Count tokens() const { return blocks_ * block_; }

  // ---- limits ----

  void limits() {
    AdmissionLimits& of = course_.limits;
    of = {.capacity = Blocks{blocks_}, .footprint = {.groups = {full_group({block_})}, .in_flight = {1 + upto(8)}}};
    of.headroom = one_of<Headroom>({Blocks{0}, Blocks{1}, Percent{20}});
    if (once_in(5)) of.footprint.groups.push_back(window_group({1 + upto(12)}, {one_of<Count>({1, 2})}));
    if (once_in(4)) another_pool(1);
    if (of.pools() == 2 && once_in(3)) another_pool(2);
    of.max_live = static_cast<std::uint32_t>(2 + upto(5));
    of.retires = once_in(4);
    if (once_in(4)) of.max_running = 1 + upto(4);
    if (once_in(4)) of.adapters = static_cast<std::uint32_t>(1 + upto(1));
    if (once_in(6)) of.max_length = {1 + upto(tokens())};
    if (once_in(4)) of.tokens_per_step = {1 + upto(tokens())};
    if (once_in(4)) of.chunk = {1 + upto(tokens() / 3)};
    of.whole_prompts = once_in(8);
    of.tenants = static_cast<std::uint32_t>(1 + upto(1));
    of.classes = static_cast<std::uint32_t>(1 + upto(2));
    if (once_in(2))
      for (Count i = 0, limited = 1 + upto(of.classes - 1); i < limited; ++i) of.class_limits.push_back(class_limit());
  }
  void another_pool(std::uint32_t pool) {
    AdmissionLimits& of = course_.limits;
    of.more_pools.push_back({.capacity = Blocks{2 + upto(2 * blocks_)}, .headroom = Blocks{upto(1)}});
    of.footprint.groups.push_back(once_in(2) ? fixed_group({1}, pool) : once_in(2) ? full_group({2 * block_}, pool) : window_group({1 + upto(9)}, {2}, pool));
    if (once_in(3)) of.footprint.groups.push_back({.pool = pool, .block = {block_}, .blocks_per_entry = 2});
  }
  ClassLimit class_limit() {
    ClassLimit of{};
    if (once_in(3)) of.floor = {upto(tokens() / 2)};
    if (once_in(5)) of.share = Percent{upto(50)};
    if (once_in(4)) of.floor_running = 1 + upto(1);
    if (once_in(4)) of.running = 1 + upto(2);
    if (once_in(4)) of.tokens = {1 + upto(tokens())};
    if (once_in(4)) of.to_compute = {1 + upto(tokens() / 2)};
    if (once_in(6)) of.queued = 1 + upto(2);
    if (once_in(6)) of.queued_tokens = {1 + upto(tokens())};
    return of;
  }

  void policy(bool recommended) {
    course_.kind = recommended ? Kind::recommended : one_of({Kind::by_priority, Kind::fair, Kind::plain, Kind::reserving});
    if (once_in(2)) course_.bypass = {.passes = one_of<std::uint32_t>({0, 1, 1, 2, 0xffff'ffff}), .scan = one_of<std::uint32_t>({16, 16, 1, 2, 3})};
    if (once_in(4)) course_.bypass.steps = upto(6);
    course_.age = upto(2);
    course_.preemption = {.keep = one_of({Keep::nothing, Keep::nothing, Keep::as_cache, Keep::on_host}), .regain = {one_of<Count>({1, 1, 1, 0, 2})}};
    course_.preemption.enough_or_none = !once_in(6);
    course_.preemption.front = !once_in(6);
    course_.preemption.others_go_on = !once_in(4);
    shares_ = course_.preemption.keep != Keep::as_cache && once_in(3);
  }

  // ---- operations ----

  void operation() {
    bool const leases = style_ != Style::plans, plans = style_ != Style::leases;
    switch (upto(19)) {
      case 0:
      case 1:
      case 2:
        return submit();
      case 3:
      case 4:
        return begin_step();
      case 5:
        return leases ? add({.call = Call::admit_next}) : commit();
      case 6:
      case 7:
        return plans ? commit() : add({.call = Call::admit_next});
      case 8:
      case 9:
      case 10:
      case 11:
        return leases ? add({.call = Call::grow, .id = anybody(), .amount = once_in(4) ? upto(6) : 1}) : commit();
      case 12:
        return add({.call = one_of({Call::finish, Call::finish, Call::cancel}), .id = anybody()});
      case 13:
        return leases ? add({.call = one_of({Call::drop, Call::drop, Call::move}), .id = anybody()}) : add({.call = Call::finish, .id = anybody()});
      case 14:
        return plans ? of_plans() : begin_step();
      case 15:
        return of_hits();
      case 16:
        return add({.call = one_of({Call::arrived, Call::arrived, Call::hold}), .id = anybody()});
      case 17:
        return course_.limits.retires ? retire() : submit();
      case 18:
        return seldom();
      default:
        return add({.call = Call::more_of, .request = request()});
    }
  }
  void add(Operation const& of) { course_.operations.push_back(of); }
  /// One of the last few that were submitted, done or not.
  Count anybody() { return submitted_ - std::min(submitted_, upto(course_.limits.max_live)); }

  Request request() {
    Request of{.prompt = {1 + upto(small_ ? tokens() / 6 : tokens() * 2 / 3)}, .max_new = {upto(tokens() / 2)}};
    of.request_class = upto(course_.limits.classes - 1);
    of.branches = once_in(5) ? 2 : 1;
    if (once_in(4)) of.lookahead = {upto(3)};
    of.tenant = static_cast<std::uint32_t>(upto(course_.limits.tenants - 1));
    of.priority = static_cast<std::int32_t>(upto(4)) - 2;
    if (once_in(4)) of.arrival_time = upto(3);
    if (once_in(5)) of.deadline = now_ + upto(8) - std::min<Count>(now_, 1);
    if (once_in(5)) of.group = upto(2);
    if (once_in(2)) of.adapter = upto(3);
    of.arrives = once_in(8);
    return of;
  }
  void submit() {
    Operation of{.call = Call::submit, .id = ++submitted_, .request = request()};
    of.request.tag = submitted_;
    add(of);
  }
  void begin_step() { add({.call = Call::begin_step, .amount = now_ += 1 + upto(10) / 10}); }
  void retire() { add({.call = Call::retire, .amount = now_ - std::min(now_, upto(2))}); }
  StepBudget budget() {
    StepBudget of{};
    if (once_in(4)) of.tokens = {upto(tokens() / 2)};
    if (once_in(4)) of.chunk = {1 + upto(tokens() / 3)};
    return of;
  }
  void commit() {
    if (once_in(2)) begin_step();
    add({.call = Call::commit, .budget = budget()});
  }
  void of_plans() {
    if (once_in(2)) return add({.call = one_of({Call::lease, Call::generated}), .id = anybody(), .amount = 1 + upto(3)});
    add({.call = Call::plan, .budget = budget()});
    if (once_in(2)) operation();
    add({.call = Call::commit_old});
  }
  void of_hits() {
    if (!shares_) return add({.call = Call::found, .id = anybody(), .amount = upto(2)});
    add({.call = one_of({Call::found, Call::found, Call::pin, Call::idle}), .id = anybody(), .amount = upto(3)});
  }
  void seldom() {
    if (once_in(3)) return add({.call = Call::cancel_group, .amount = upto(2)});
    if (once_in(2)) return add({.call = once_in(3) ? Call::drain : Call::reopen});
    if (shares_) return submit();
    add({.call = Call::resize, .amount = 1 + upto(blocks_ * 5 / 4), .pool = static_cast<std::uint32_t>(upto(course_.limits.pools() - 1))});
  }

  std::mt19937_64 random_;
  Course course_{};
  Count block_{}, blocks_{}, submitted_{}, now_{};
  Style style_{};
  bool small_{};  // requests: many run, and many give way
  bool shares_{};
};

inline Course course_of(Count seed, std::size_t length) { return CourseOf{seed, length}(); }

}  // namespace properties
