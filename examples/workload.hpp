// What the admission examples serve: jobs that arrive, generate, and may be given up by their clients. The same for a seed, everywhere.
#pragma once

#include <kvbudget/kvbudget.hpp>

#include <string_view>
#include <vector>

namespace example {

/// SplitMix64. std:: distributions would give other numbers with another standard library.
class Dice {
 public:
  explicit Dice(std::uint64_t seed) : state_{seed} {}

  /// One of least to most, both included.
  std::uint64_t roll(std::uint64_t least, std::uint64_t most) { return least + next() % (most - least + 1); }
  bool one_in(std::uint64_t n) { return next() % n == 0; }

 private:
  std::uint64_t next() {
    std::uint64_t z = state_ += 0x9e37'79b9'7f4a'7c15;
    z = (z ^ z >> 30) * 0xbf58'476d'1ce4'e5b9;
    z = (z ^ z >> 27) * 0x94d0'49bb'1331'11eb;
    return z ^ z >> 31;
  }

  std::uint64_t state_;
};

enum class Kind : std::uint32_t { interactive, document };
inline constexpr Kind kinds[] = {Kind::interactive, Kind::document};
constexpr std::string_view name_of(Kind kind) { return kind == Kind::document ? "document" : "interactive"; }

inline constexpr std::uint64_t never = ~std::uint64_t{0};

/// What a client asks for, and what becomes of it. Times are in whatever begin_step is told.
struct Job {
  kvbudget::Request request{};    // its tag is its place among the jobs
  kvbudget::Tokens output{};      // generated when it is complete: at most max_new, and nobody knows it beforehand
  std::uint64_t arrives{};        // its client asks
  std::uint64_t gives_up{never};  // its client hangs up, complete or not
  kvbudget::Ticket ticket{};      // once it is submitted
  bool submitted{};

  bool abandoned(std::uint64_t now) const { return gives_up <= now; }
};

inline Kind kind_of(Job const& job) { return Kind{job.request.request_class.index}; }

/// In order of arrival.
using Jobs = std::vector<Job>;

/// Queues whoever has arrived. What can never fit is refused, and gets no ticket.
template <class Gate>
void submit_arrivals(Gate& gate, Jobs& jobs, std::uint64_t now) {
  for (auto& job : jobs) {
    if (job.submitted || job.arrives > now) continue;
    job.ticket = gate.submit(job.request).ticket;
    job.submitted = true;
  }
}

/// Tells the gate who has hung up. The tickets of those that are done are stale, and ignored.
template <class Gate>
void cancel_abandoned(Gate& gate, Jobs const& jobs, std::uint64_t now) {
  for (auto const& job : jobs)
    if (job.abandoned(now)) gate.cancel(job.ticket);
}

template <class Gate>
bool all_done(Gate const& gate, Jobs const& jobs) {
  return gate.drained() && (jobs.empty() || jobs.back().submitted);
}

/// The stand-in for an engine that keeps its requests itself: what it has computed and generated of each, and who is complete.
class Engine {
 public:
  explicit Engine(Jobs const& jobs) : jobs_{jobs}, progress_(jobs.size()) {}

  /// Runs a step's plan. A request all of whose known tokens are computed generates another.
  template <class Plan>
  void step(Plan const& plan) {
    complete_.clear();
    for (auto const& one : plan.preempt) progress_[one.tag].computed = {};
    for (auto const* list : {&plan.grow, &plan.admit})
      for (auto const& one : *list) compute(one.tag, one.tokens);
  }

  /// Whose last token the last step has generated, by tag.
  std::vector<std::uint64_t> const& complete() const { return complete_; }

 private:
  struct Progress {
    kvbudget::Tokens computed{};
    kvbudget::Tokens generated{};
  };

  void compute(std::uint64_t tag, kvbudget::Tokens tokens) {
    Progress& of = progress_[tag];
    of.computed += tokens;
    if (of.computed < jobs_[tag].request.prompt + of.generated) return;
    of.generated += kvbudget::Tokens{1};
    if (of.generated == jobs_[tag].output) complete_.push_back(tag);
  }

  Jobs const& jobs_;
  std::vector<Progress> progress_;
  std::vector<std::uint64_t> complete_;
};

/// What a run came to, in all and of each class.
class Served {
 public:
  /// Once a step, when its admission is over.
  template <class Gate>
  void observe(Gate const& gate) {
    ++steps_;
    for (auto const kind : kinds) {
      auto& of = classes_[static_cast<std::size_t>(kind)];
      of.account = gate.account(kind);
      of.requests += of.account.active_requests;
      of.tokens += of.account.active_tokens;
      of.held += of.account.tokens_held;
    }
  }

  std::uint64_t steps() const { return steps_; }
  kvbudget::ClassAccount const& account(Kind kind) const { return of(kind).account; }

  // On average over the steps.
  kvbudget::Tokens active_tokens(Kind kind) const { return {kvbudget::floor_div(of(kind).tokens.count, steps_)}; }
  kvbudget::Tokens tokens_held(Kind kind) const { return {kvbudget::floor_div(of(kind).held.count, steps_)}; }
  kvbudget::Tokens tokens_held() const { return tokens_held(Kind::interactive) + tokens_held(Kind::document); }
  kvbudget::Tokens tokens_per_request(Kind kind) const { return {of(kind).requests == 0 ? 0 : kvbudget::floor_div(of(kind).tokens.count, of(kind).requests)}; }

  /// What the classes together computed, computed again and wasted.
  kvbudget::ClassAccount together() const {
    kvbudget::ClassAccount all{};
    for (auto const kind : kinds) {
      all.useful_tokens += account(kind).useful_tokens;
      all.recomputed_tokens += account(kind).recomputed_tokens;
      all.wasted_token_steps += account(kind).wasted_token_steps;
    }
    return all;
  }

 private:
  struct OfClass {
    kvbudget::ClassAccount account{};
    std::uint64_t requests{};  // this and the next two are gauges, summed over the steps
    kvbudget::Tokens tokens{};
    kvbudget::Tokens held{};
  };
  OfClass const& of(Kind kind) const { return classes_[static_cast<std::size_t>(kind)]; }

  std::uint64_t steps_{};
  OfClass classes_[std::size(kinds)]{};
};

}  // namespace example
