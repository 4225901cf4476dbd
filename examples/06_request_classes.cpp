// Two request classes, orders of magnitude apart: what one request-count limit does to them, and what a token budget does.
//
//   kvbudget_request_classes [--capacity 48000 --interactive 160 --documents 32 --seed 1] [--json]
// Questions of 100 to 400 tokens and documents of 8,000 share one cache. The same requests are admitted by a count that is safe for
// documents, by a count that fills the cache with questions, by a token budget, and by a token budget with a floor for the short class and a
// ceiling for the long one. Clients hang up, and their room is free at once.
// The engine is a stand-in with guessed costs: a step takes 30 ms, and 1 ms for each 8 tokens that it computes. What is computed again
// takes time from everybody.
#include "command_line.hpp"
#include "workload.hpp"

#include <kvbudget/write/json.hpp>

#include <map>

namespace {

using namespace kvbudget::literals;
using example::Jobs;
using example::Kind;
using kvbudget::AdmissionLimits;
using kvbudget::Tokens;
using kvbudget::write::grouped;
using Json = nlohmann::ordered_json;

constexpr std::uint64_t ms_of(Tokens computed) { return 30 + kvbudget::floor_div(computed.count, 8); }

constexpr Tokens longest(Kind kind) { return kind == Kind::document ? 8'400_tokens : 600_tokens; }  // prompt and answer

Jobs make_jobs(std::uint64_t interactive, std::uint64_t documents, std::uint64_t seed) {
  example::Dice dice{seed};
  Jobs jobs;
  for (std::uint64_t now = 0; interactive + documents > 0; now += dice.roll(0, 600)) {
    Kind const kind = dice.roll(1, interactive + documents) <= documents ? Kind::document : Kind::interactive;
    --(kind == Kind::document ? documents : interactive);
    Tokens const prompt{kind == Kind::document ? 8'000 : dice.roll(100, 400)}, max_new = kind == Kind::document ? 400_tokens : 200_tokens;
    jobs.push_back({.request = {.prompt = prompt, .max_new = max_new, .request_class = kind, .tag = jobs.size()},
                    .output = Tokens{dice.roll(max_new.count / 4, max_new.count)},
                    .arrives = now,
                    .gives_up = dice.one_in(10) ? now + dice.roll(1'000, 60'000) : example::never});
  }
  return jobs;
}

/// The first of its class that waits: why, and what the class holds meanwhile.
struct Wait {
  std::uint64_t ms;
  kvbudget::Verdict verdict;
  std::uint64_t active_requests;
  Tokens tokens_per_request;
};

struct Run {
  std::string admission;
  std::uint64_t ms{};
  example::Served served{};
  std::map<Kind, Wait> waits{};

  std::uint64_t useful_per_second() const { return kvbudget::floor_div(served.together().useful_tokens.count * 1'000, ms); }
  std::uint64_t recomputed_per_million() const { return served.together().recomputed_per_million(); }

  template <class Gate>
  void explain(Gate const& gate, Jobs const& jobs) {
    if (waits.size() == std::size(example::kinds)) return;
    for (auto const& job : jobs) {
      Kind const kind = kind_of(job);
      auto const& account = gate.account(kind);
      if (waits.contains(kind) || account.queued_requests == 0) continue;
      if (auto const verdict = gate.why(job.ticket); verdict.queued())
        waits.insert({kind, Wait{ms, verdict, account.active_requests, account.tokens_per_request()}});
    }
  }
};

template <class Policy>
Run serve(std::string admission, AdmissionLimits const& limits, Policy policy, Jobs jobs) {
  kvbudget::AdmissionController gate{limits, policy};
  typename decltype(gate)::StepPlan plan;
  example::Engine engine{jobs};
  Run run{std::move(admission)};
  for (; !all_done(gate, jobs); run.ms += ms_of(plan.tokens())) {
    gate.begin_step(run.ms);
    submit_arrivals(gate, jobs, run.ms);
    cancel_abandoned(gate, jobs, run.ms);
    for (auto const tag : engine.complete()) gate.finish(jobs[tag].ticket);
    gate.plan({}, plan);
    if (gate.commit(plan)) engine.step(plan);
    run.served.observe(gate);
    run.explain(gate, jobs);
  }
  return run;
}

// ---- the admissions ----

/// One limit on the number of requests, whatever their length: what has room for its first chunk starts, and the newest gives way.
struct CountLimit {
  kvbudget::need::FirstChunk need{};
  kvbudget::headroom::AsGiven headroom{};
  kvbudget::order::Arrival order{};
  kvbudget::victim::Newest victim{};
};

AdmissionLimits limits_of(Tokens capacity, Jobs const& jobs, std::uint64_t most_requests) {
  return {.capacity = capacity,
          .classes = 2,
          .max_live = static_cast<std::uint32_t>(jobs.size()),
          .max_running = most_requests,
          .tokens_per_step = 2'048_tokens,
          .chunk = 512_tokens};
}

Run by_count(Tokens capacity, Jobs const& jobs, std::uint64_t most_requests) {
  return serve(fmt::format("a limit of {} requests", most_requests), limits_of(capacity, jobs, most_requests), CountLimit{}, jobs);
}

Run by_tokens(Tokens capacity, Jobs const& jobs, std::uint64_t most_requests = kvbudget::saturated_count) {
  return serve("a token budget", limits_of(capacity, jobs, most_requests), kvbudget::policies::Recommended{}, jobs);
}

/// A floor of an eighth that questions are sure of while they wait, and a ceiling for documents at the rest.
Run by_classes(Tokens capacity, Jobs const& jobs) {
  AdmissionLimits limits = limits_of(capacity, jobs, kvbudget::saturated_count);
  Tokens const floor{kvbudget::floor_div(capacity.count, 8)};
  limits.class_limits = {{.floor = floor}, {.tokens = capacity - floor}};
  return serve("a token budget, a floor and a ceiling", limits, kvbudget::policies::Recommended{}, jobs);
}

std::vector<Run> admissions(Tokens capacity, Jobs const& jobs) {
  auto const fill = [&](Kind kind) { return kvbudget::floor_div(capacity.count, longest(kind).count); };
  return {by_count(capacity, jobs, fill(Kind::document)), by_count(capacity, jobs, fill(Kind::interactive)), by_tokens(capacity, jobs),
          by_classes(capacity, jobs)};
}

/// Throughput against concurrency: the same limit on requests, alone and beside a token budget.
struct Point {
  std::uint64_t most_requests;
  Run count;
  Run tokens;
};

std::vector<Point> concurrency(Tokens capacity, Jobs const& jobs) {
  std::vector<Point> points;
  for (std::uint64_t const n : {4U, 8U, 16U, 32U, 64U}) points.push_back({n, by_count(capacity, jobs, n), by_tokens(capacity, jobs, n)});
  return points;
}

// ---- what is printed ----

double thrash(Run const& run) { return static_cast<double>(run.recomputed_per_million()) / 1e6; }

void print(Run const& run) {
  fmt::print("\n{}: all done after {} s, {} tokens held, {} useful tokens/s, {:.2f} computed again for each\n", run.admission, grouped(run.ms / 1'000),
             grouped(run.served.tokens_held().count), grouped(run.useful_per_second()), thrash(run));
  fmt::print("  class        tokens/request  tokens held  completed  cancelled  waited  steps waited  preempted  recomputed\n");
  for (auto const kind : example::kinds) {
    auto const& of = run.served.account(kind);
    fmt::print("  {:<12} {:>14} {:>12} {:>10} {:>10} {:>7} {:>13} {:>10} {:>11}\n", name_of(kind), grouped(run.served.tokens_per_request(kind).count),
               grouped(run.served.tokens_held(kind).count), of.completed, of.cancelled, of.ever_waited, grouped(of.steps_waited), of.preempted,
               grouped(of.recomputed_tokens.count));
  }
  for (auto const& [kind, wait] : run.waits)
    fmt::print("  {:.1f} s: {} of class {} run, of {} each; the first that waits is {}\n", static_cast<double>(wait.ms) / 1e3, wait.active_requests,
               name_of(kind), wait.tokens_per_request, wait.verdict);
}

/// Whether more concurrency has brought more throughput.
std::string_view trend(std::uint64_t before, std::uint64_t now) { return now > before ? "rises" : now < before ? "falls" : "stays"; }

void print(std::vector<Point> const& points) {
  fmt::print(
      "\nuseful tokens/s against concurrency, and tokens computed again for each\n  requests at most           that limit alone      beside a token budget\n");
  std::uint64_t count = 0, tokens = 0;
  for (auto const& point : points) {
    auto const show = [](Run const& run, std::uint64_t& before) {
      std::uint64_t const now = run.useful_per_second();
      return fmt::format("{:>10} {} {:.2f}", grouped(now), trend(std::exchange(before, now), now), thrash(run));
    };
    fmt::print("  {:>16}   {:>24}   {:>24}\n", point.most_requests, show(point.count, count), show(point.tokens, tokens));
  }
}

Json rates_of(Run const& run) { return {{"useful_tokens_per_second", run.useful_per_second()}, {"recomputed_per_million", run.recomputed_per_million()}}; }

Json json_of(Run const& run) {
  Json json{{"admission", run.admission}, {"ms", run.ms}, {"rates", rates_of(run)}};
  for (auto const kind : example::kinds)
    json["classes"][std::string{name_of(kind)}] = {
        {"tokens_per_request", run.served.tokens_per_request(kind)}, {"tokens_held", run.served.tokens_held(kind)}, {"account", run.served.account(kind)}};
  for (auto const& [kind, wait] : run.waits)
    json["classes"][std::string{name_of(kind)}]["first_that_waits"] = {
        {"ms", wait.ms}, {"active_requests", wait.active_requests}, {"tokens_per_request", wait.tokens_per_request}, {"verdict", wait.verdict}};
  return json;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"Two request classes under a count limit and under a token budget", "kvbudget_request_classes"};
  std::uint64_t capacity = 48'000, interactive = 160, documents = 32, seed = 1;
  bool json = false;
  example::add_whole(app, "--capacity", capacity, 10'000, 1'000'000, "tokens that the cache holds");
  example::add_whole(app, "--interactive", interactive, 1, 10'000, "requests of 100 to 400 tokens");
  example::add_whole(app, "--documents", documents, 1, 10'000, "requests of 8,000 tokens");
  example::add_whole(app, "--seed", seed, 0, kvbudget::saturated_count, "of lengths, arrivals and clients");
  app.add_flag("--json", json, "for programs");

  return example::main_of(app, argc, argv, [&] {
    Jobs const jobs = make_jobs(interactive, documents, seed);
    auto const runs = admissions(Tokens{capacity}, jobs);
    auto const points = concurrency(Tokens{capacity}, jobs);
    if (json) {
      Json out{{"capacity_tokens", capacity}, {"admissions", Json::array()}, {"concurrency", Json::array()}};
      for (auto const& run : runs) out["admissions"].push_back(json_of(run));
      for (auto const& point : points)
        out["concurrency"].push_back(
            {{"most_requests", point.most_requests}, {"limit_alone", rates_of(point.count)}, {"token_budget", rates_of(point.tokens)}});
      std::cout << out.dump(2) << '\n';
      return 0;
    }
    fmt::print("a cache of {}; {} requests of class interactive, {} of class document\n", Tokens{capacity}, grouped(interactive), grouped(documents));
    for (auto const& run : runs) print(run);
    print(points);
    return 0;
  });
}
