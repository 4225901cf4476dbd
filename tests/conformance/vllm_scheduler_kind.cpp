// Kind vllm-scheduler FILE...: every step of vLLM's own scheduler, decided by an AdmissionController with its policy (golden/README.md says
// how a step is to be read). The engine is here: it computes what a plan says, and generates a token once all that is known is computed.
// A run with prefix caching is refused: the library is told of hits, and has no cache to look them up in.
#include "kinds.hpp"

#include <kvbudget/admit/controller.hpp>
#include <kvbudget/admit/policies/vllm_v1.hpp>
#include <kvbudget/size/vllm/layer_spec.hpp>

#include <algorithm>
#include <map>

namespace conformance {

namespace {

using namespace kvbudget;

constexpr Tokens window{64};  // of kind full+swa

std::set<std::string> const config_fields{"num_blocks",
                                          "apc",
                                          "mbt",
                                          "max_seqs",
                                          "policy",
                                          "scheduler_reserve_full_isl",
                                          "watermark",
                                          "block_size",
                                          "kind",
                                          "max_model_len",
                                          "long_prefill_token_threshold"};

std::uint64_t number(Json const& of, char const* key) { return of.at(key).get<std::uint64_t>(); }

Footprint footprint_of(Json const& config) {
  Tokens const block{number(config, "block_size")}, step{number(config, "mbt")};
  vllm::RequestTerms const terms{.in_flight = step};
  Footprint footprint{.groups = {vllm::cache_group({.block = block}, terms)}, .in_flight = step};
  std::string const kind = config.at("kind").get<std::string>();
  if (kind == "full+swa")
    footprint.groups.push_back(vllm::cache_group({.kind = vllm::SpecKind::sliding_window, .block = block, .window = window}, terms));
  else if (kind != "full")
    throw std::runtime_error{"kind is \"" + kind + "\", and has to be full or full+swa"};
  return footprint;
}

AdmissionLimits limits_of(Json const& config, std::size_t requests) {
  for (auto const& item : config.items())
    if (!config_fields.contains(item.key())) throw std::runtime_error{"config." + item.key() + " has no meaning here"};
  std::uint64_t const threshold = number(config, "long_prefill_token_threshold");
  return {.capacity = Blocks{number(config, "num_blocks") - 1},
          .footprint = footprint_of(config),
          .max_live = static_cast<std::uint32_t>(requests),
          .max_running = number(config, "max_seqs"),
          .max_length = Tokens{number(config, "max_model_len")},
          .tokens_per_step = Tokens{number(config, "mbt")},
          .chunk = threshold == 0 ? Tokens::max() : Tokens{threshold}};
}

/// Names whose order says nothing.
Json sorted(Json names) {
  std::sort(names.begin(), names.end());
  return names;
}

/// A request as the engine has it.
struct Sequence {
  std::string name;
  Tokens prompt;
  Tokens most;  // tokens, prompt and outputs, with which it is finished
  Tokens known;
  Tokens computed{};
  bool started{};
  Ticket ticket{};
};

template <class Policy>
class Engine {
 public:
  Engine(Json const& config, std::size_t requests)
      : max_length_{number(config, "max_model_len")},
        gate_{limits_of(config, requests),
              {.need = {config.at("scheduler_reserve_full_isl").get<bool>()}, .headroom = {config.at("watermark").get<double>()}}} {
    if (!gate_.complaints().empty()) throw std::runtime_error{std::string{"bad limits: "} + gate_.complaints()[0].field};
  }

  void arrive(Json const& request) {
    Tokens const max_new{number(request, "max_tokens")};
    Tokens prompt{};
    for (auto const& segment : request.at("segs")) prompt += Tokens{segment.at(1).get<std::uint64_t>()};
    std::uint64_t const id = sequences_.size();
    auto const verdict = gate_.submit(
        {.prompt = prompt, .max_new = max_new, .tag = id, .priority = request.at("priority").get<std::int32_t>(), .arrival_time = number(request, "arrival")});
    if (verdict.rejected()) throw std::runtime_error{"request " + request.at("rid").get<std::string>() + " is rejected"};
    sequences_.push_back({.name = request.at("rid").get<std::string>(),
                          .prompt = prompt,
                          .most = min(prompt + max_new, max_length_),
                          .known = prompt,
                          .ticket = verdict.ticket});
  }

  /// One that is not here any more, or not yet, is passed over.
  void abort(std::string const& name) {
    for (auto const& sequence : sequences_)
      if (sequence.name == name) gate_.cancel(sequence.ticket);
  }

  /// A step, as the file has it.
  Json step(std::uint64_t now) {
    gate_.begin_step(now);
    auto const plan = gate_.plan();
    if (!gate_.commit(plan) || !gate_.balanced()) throw std::runtime_error{"step " + std::to_string(now) + ": the plan could not be committed"};
    Json facts{{"step", now},
               {"scheduled", Json::object()},
               {"new", Json::array()},
               {"resumed", Json::array()},
               {"preempted", Json::array()},
               {"cached_tokens", Json::object()},
               {"skipped_waiting", Json::array()},
               {"running", Json::array()},
               {"waiting", Json::array()},
               {"free_blocks", free_blocks()}};
    for (auto const& one : plan.preempt) preempt(one, facts);
    for (auto const& one : plan.admit) start(one, facts);
    for (auto const& one : plan.grow) facts["scheduled"][of(one).name] = one.tokens.count;
    gate_.each_running([&](Ticket, Request const& request) { facts["running"].push_back(sequences_[request.tag].name); });
    gate_.each_waiting([&](Ticket, Request const& request) { facts["waiting"].push_back(sequences_[request.tag].name); });
    facts["resumed"] = sorted(facts["resumed"]);
    facts["preempted"] = sorted(facts["preempted"]);
    facts["finished"] = compute(plan);
    facts["after_update_free"] = free_blocks();
    return facts;
  }

 private:
  using Gate = AdmissionController<Policy>;

  std::uint64_t free_blocks() const { return gate_.pool().supply.available().count; }
  Sequence& of(Planned const& one) { return sequences_[one.tag]; }

  void preempt(Planned const& one, Json& facts) {
    of(one).computed = {};
    facts["preempted"].push_back(of(one).name);
  }
  void start(Planned const& one, Json& facts) {
    Sequence& sequence = of(one);
    facts[sequence.started ? "resumed" : "new"].push_back(sequence.name);
    facts["scheduled"][sequence.name] = one.tokens.count;
    if (!sequence.started) facts["cached_tokens"][sequence.name] = one.found.count;
    sequence.started = true;
    sequence.computed = one.found;
  }

  /// The model's output: who is finished with it, by name.
  Json compute(typename Gate::StepPlan const& plan) {
    std::set<std::string> finished;
    for (auto const* list : {&plan.grow, &plan.admit})
      for (auto const& one : *list) {
        Sequence& sequence = of(one);
        sequence.computed += one.tokens;
        if (sequence.computed < sequence.known) continue;
        sequence.known += Tokens{1};
        if (sequence.known < sequence.most) continue;
        gate_.finish(sequence.ticket);
        finished.insert(sequence.name);
      }
    return finished;
  }

  Tokens max_length_;
  Gate gate_;
  std::vector<Sequence> sequences_;
};

/// Up to the first step that is not the same: what follows it differs for no reason of its own.
template <class Policy>
void replay(Json const& row, Case& one) {
  Json const& requests = row.at("requests");
  Engine<Policy> engine{row.at("config"), requests.size()};
  for (Json expected : row.at("steps")) {
    std::uint64_t const now = number(expected, "step");
    for (auto const& request : requests)
      if (number(request, "step") == now) engine.arrive(request);
    for (auto const& name : row.at("aborts").value(std::to_string(now), Json::array())) engine.abort(name.get<std::string>());
    Json const facts = engine.step(now);
    expected["preempted"] = sorted(expected.at("preempted"));
    one.compare_all(expected, facts, {});
    if (one.mismatches.empty()) continue;
    for (auto& mismatch : one.mismatches) mismatch.field = "step " + std::to_string(now) + ": " + mismatch.field;
    return;
  }
}

void run(Json& row, Case& one, bool self_test) {
  Json const& config = row.at("config");
  one.name = "run " + row.at("id").dump();
  if (config.at("apc").get<bool>()) {
    one.refusal = "prefix caching (apc): the library is told of hits, and has no cache to look them up in";
    return;
  }
  if (self_test) perturb(row.at("steps").back(), {"step"});
  std::string const policy = config.at("policy").get<std::string>();
  if (policy == "fcfs") return replay<policies::VllmV1>(row, one);
  if (policy == "priority") return replay<policies::VllmV1Priority>(row, one);
  throw std::runtime_error{"policy is \"" + policy + "\", and has to be fcfs or priority"};
}

}  // namespace

Cases vllm_scheduler(Options const& options) {
  return each_file(options, [&](std::string const&, Json& row, Case& one) { run(row, one, options.self_test); });
}

}  // namespace conformance
