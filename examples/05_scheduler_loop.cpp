// The scheduler's loop, to copy into an engine, twice: by leases, and by plans that are committed.
//
//   kvbudget_scheduler_loop [--capacity 12000 --headroom 500 --requests 60 --seed 1] [--json]
// A lease is the room of one running request: keep it with the request, and the room is free when it goes. A plan says what a whole step
// does before anything is done: for an engine that schedules steps, or on several ranks. The same requests are served four times: by each
// loop, with cancellations honoured at once, and ignored until the request is complete.
#include "command_line.hpp"
#include "workload.hpp"

#include <kvbudget/write/json.hpp>

namespace {

using namespace kvbudget::literals;
using example::Job;
using example::Jobs;
using example::Kind;
using kvbudget::AdmissionLimits;
using kvbudget::Tokens;
using kvbudget::write::grouped;
using Json = nlohmann::ordered_json;

enum class Cancellation { honoured, ignored };
constexpr std::string_view name_of(Cancellation how) { return how == Cancellation::honoured ? "honoured" : "ignored"; }

struct Run {
  char const* loop;
  Cancellation cancellation;
  example::Served served{};
};

// ---- by leases ----

/// A step generates a token of every request in the batch, the first from its prompt; growth holds all but the last.
bool complete(Job const& job, Tokens held) { return held + 1_tokens == job.request.prompt + job.output; }

Run by_leases(AdmissionLimits const& limits, Jobs jobs, Cancellation cancellation) {
  kvbudget::AdmissionController gate{limits};
  std::vector<decltype(gate)::Lease> batch;
  Run run{"leases", cancellation};
  for (std::uint64_t step = 0; !all_done(gate, jobs); ++step) {
    gate.begin_step(step);  // the only clock there is
    submit_arrivals(gate, jobs, step);
    if (cancellation == Cancellation::honoured) cancel_abandoned(gate, jobs, step);  // queued or running: its lease ends
    for (auto& lease : batch) {                                                      // completion gives room back before anyone asks for more
      Job const& job = jobs[lease.tag()];
      if (complete(job, lease.tokens())) job.abandoned(step) ? lease.cancel() : lease.finish();
    }
    for (auto& lease : batch) lease.grow(1_tokens);                            // holds the token, or has ended
    std::erase_if(batch, [](auto const& lease) { return lease.ended(); });     // done, or preempted and queued again at the front
    while (auto lease = gate.admit_next()) batch.push_back(std::move(lease));  // the only way in
    run.served.observe(gate);                                                  // here the engine runs the batch
  }
  return run;
}

// ---- by plans ----

Run by_plans(AdmissionLimits const& limits, Jobs jobs, Cancellation cancellation) {
  kvbudget::AdmissionController gate{limits};
  decltype(gate)::StepPlan plan;  // its memory is used again in every step
  example::Engine engine{jobs};
  Run run{"plans", cancellation};
  for (std::uint64_t step = 0; !all_done(gate, jobs); ++step) {
    gate.begin_step(step);
    submit_arrivals(gate, jobs, step);
    if (cancellation == Cancellation::honoured) cancel_abandoned(gate, jobs, step);
    for (auto const tag : engine.complete()) jobs[tag].abandoned(step) ? gate.cancel(jobs[tag].ticket) : gate.finish(jobs[tag].ticket);
    gate.plan({}, plan);                       // who gives way, who grows, who starts: nothing is done yet
    if (gate.commit(plan)) engine.step(plan);  // now it is
    run.served.observe(gate);
  }
  return run;
}

// ---- what is served ----

constexpr std::uint64_t longest = 4'400;  // tokens of a request, prompt and answer

/// Questions and longer documents. One client in three, by the dice, hangs up long before its answer is complete.
Jobs make_jobs(std::uint64_t requests, std::uint64_t seed) {
  example::Dice dice{seed};
  Jobs jobs;
  for (std::uint64_t tag = 0, step = 0; tag < requests; ++tag, step += dice.roll(0, 6)) {
    Kind const kind = dice.one_in(4) ? Kind::document : Kind::interactive;
    Tokens const prompt{kind == Kind::document ? dice.roll(2'000, 4'000) : dice.roll(100, 400)};
    Tokens const output{dice.roll(100, 400)};
    std::uint64_t const gives_up = dice.one_in(3) ? step + dice.roll(5, 50) : example::never;
    jobs.push_back(
        {.request = {.prompt = prompt, .max_new = 400_tokens, .request_class = kind, .tag = tag}, .output = output, .arrives = step, .gives_up = gives_up});
  }
  return jobs;
}

/// Free tokens while a request holds a quarter of the capacity, and once it has ended, one way and the other, in the same step.
Json release_at_once(AdmissionLimits const& limits) {
  kvbudget::AdmissionController gate{limits};
  auto const start = [&] {
    gate.submit({.prompt = Tokens{kvbudget::ceil_div(limits.capacity.count, 4)}});
    return gate.admit_next();
  };
  auto const free = [&] { return gate.pool().supply.available(); };
  Json shown;
  auto lease = start();
  shown["while_it_runs"] = free();
  gate.cancel(lease.ticket());
  shown["cancelled"] = free();
  lease = start();
  lease.finish();
  shown["completed"] = free();
  return shown;
}

// ---- what is printed ----

void print(Run const& run) {
  fmt::print("\n{}, cancellations {}: all done after {} steps, {} token-steps held for nobody\n", run.loop, name_of(run.cancellation),
             grouped(run.served.steps()), grouped(run.served.together().wasted_token_steps));
  fmt::print("  class        active tokens    peak  completed  cancelled  waited  steps waited  preempted  useful/step  wasted token-steps\n");
  for (auto const kind : example::kinds) {
    auto const& of = run.served.account(kind);
    fmt::print("  {:<12} {:>13} {:>7} {:>10} {:>10} {:>7} {:>13} {:>10} {:>12.1f} {:>19}\n", name_of(kind), grouped(run.served.active_tokens(kind).count),
               grouped(of.peak_active_tokens().count), of.completed, of.cancelled, of.ever_waited, grouped(of.steps_waited), of.preempted,
               static_cast<double>(of.useful_tokens.count) / static_cast<double>(run.served.steps()), grouped(of.wasted_token_steps));
  }
}

Json json_of(Run const& run) {
  Json json{{"loop", run.loop},
            {"cancellations", name_of(run.cancellation)},
            {"steps", run.served.steps()},
            {"wasted_token_steps", run.served.together().wasted_token_steps}};
  for (auto const kind : example::kinds)
    json["classes"][std::string{name_of(kind)}] = {{"active_tokens", run.served.active_tokens(kind)}, {"account", run.served.account(kind)}};
  return json;
}

void print(AdmissionLimits const& limits, Json const& released, std::vector<Run> const& runs) {
  fmt::print("capacity {}, headroom {}\n", Tokens{limits.capacity.count}, grouped(limits.headroom.count));
  fmt::print("a request that holds a quarter leaves {} free; {} once it is cancelled, {} once it is complete, in the same step\n",
             grouped(released["while_it_runs"]), grouped(released["cancelled"]), grouped(released["completed"]));
  for (auto const& run : runs) print(run);
}

Json json_of(AdmissionLimits const& limits, Json const& released, std::vector<Run> const& runs) {
  Json json{{"capacity_tokens", limits.capacity.count}, {"headroom_tokens", limits.headroom.count}, {"free_tokens", released}, {"runs", Json::array()}};
  for (auto const& run : runs) json["runs"].push_back(json_of(run));
  return json;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"The scheduler's loop by leases and by plans, and what ignored cancellations cost", "kvbudget_scheduler_loop"};
  std::uint64_t capacity = 12'000, headroom = 500, seed = 1;
  std::uint32_t requests = 60;
  bool json = false;
  example::add_whole(app, "--capacity", capacity, longest, 1'000'000, "tokens that the cache holds");
  example::add_whole(app, "--headroom", headroom, 0, 1'000'000, "tokens of it that admission leaves unused");
  example::add_whole(app, "--requests", requests, 1, 10'000, "");
  example::add_whole(app, "--seed", seed, 0, kvbudget::saturated_count, "of their lengths and clients");
  app.add_flag("--json", json, "for programs");

  return example::main_of(app, argc, argv, [&] {
    AdmissionLimits const limits{.capacity = Tokens{capacity}, .headroom = Tokens{headroom}, .classes = 2, .max_live = requests};
    example::require_good(check(limits), {{".headroom", "--headroom"}});
    Jobs const jobs = make_jobs(requests, seed);
    std::vector<Run> runs;
    for (auto const how : {Cancellation::honoured, Cancellation::ignored})
      for (auto const serve : {by_leases, by_plans}) runs.push_back(serve(limits, jobs, how));
    Json const released = release_at_once(limits);
    if (json)
      std::cout << json_of(limits, released, runs).dump(2) << '\n';
    else
      print(limits, released, runs);
    return 0;
  });
}
