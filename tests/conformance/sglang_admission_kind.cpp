// Kind sglang-admission FILE...: every pass of SGLang's own scheduler, decided by an AdmissionController with policies::Sglang (golden/README.md
// says how a step is to be read). The engine is here: requests that arrive, outputs, who is finished with them, and the queue as a list.
// Rows with the radix tree on, a sliding-window pool or mixed chunks are refused: what they decide by is not part of the library.
#include "kinds.hpp"

#include <kvbudget/admit/controller.hpp>
#include <kvbudget/admit/policies/sglang.hpp>

#include <algorithm>
#include <cmath>
#include <map>

namespace conformance {

namespace {

using namespace kvbudget;
using policies::sglang::Result;

std::set<std::string> const input_fields{
    "name",      "note",  "total_tokens", "requests",         "aborts",      "max_steps",   "page_size",        "max_running",
    "chunked",   "radix", "ctx",          "conservativeness", "policy",      "priority",    "preempt",          "low_first",
    "threshold", "mixed", "swa_tokens",   "window",           "max_prefill", "prefill_max", "retraction_policy"};
std::set<std::string> const request_fields{"id", "tokens", "max_new", "finish_after", "at", "ignore_eos", "priority", "extra_key"};
std::map<std::string, policies::sglang::Schedule> const schedules{{"fcfs", policies::sglang::Schedule::fcfs},
                                                                  {"lpm", policies::sglang::Schedule::fcfs},  // radix off
                                                                  {"dfs-weight", policies::sglang::Schedule::fcfs},
                                                                  {"lof", policies::sglang::Schedule::lof}};
std::map<std::string, bool> const retraction_by_priority{{"length", false}, {"priority", true}};
std::map<Result, char const*> const result_names{
    {Result::go_on, "CONTINUE"}, {Result::no_token, "NO_TOKEN"}, {Result::other, "OTHER"}, {Result::chunk_goes_on, "CHUNK_CONT"}};

template <class Value>
Value named(std::map<std::string, Value> const& names, char const* field, std::string const& name) {
  auto const found = names.find(name);
  if (found == names.end()) throw std::runtime_error{std::string{field} + " is \"" + name + "\", which has no meaning here"};
  return found->second;
}

void only(Json const& object, std::set<std::string> const& fields) {
  for (auto const& item : object.items())
    if (!fields.contains(item.key())) throw std::runtime_error{"a field without a meaning here: " + item.key()};
}

/// Why the rules do not decide this row; empty where they do.
std::string refusal(Json const& input) {
  if (input.contains("swa_tokens")) return "a sliding-window pool: no rule for it in the facts";
  if (input.value("mixed", false)) return "mixed chunks: no rule for them in the facts";
  if (input.value("radix", true)) return "the radix tree is on: it is not part of this library";
  return "";
}

Tokens tokens_of(Json const& input, char const* key, std::int64_t otherwise) {
  std::int64_t const n = input.value(key, otherwise);
  return n < 0 ? Tokens::max() : Tokens{static_cast<std::uint64_t>(n)};
}

AdmissionLimits limits_of(Json const& input) {
  return {.capacity = Tokens{input.at("total_tokens").get<std::uint64_t>()},
          .footprint = paged(tokens_of(input, "page_size", 1)),
          .max_live = static_cast<std::uint32_t>(input.at("requests").size()),
          .max_running = input.value("max_running", std::uint64_t{64}),
          .max_length = tokens_of(input, "ctx", 4'096)};
}

policies::Sglang policy_of(Json const& input) {
  bool const low_first = input.value("low_first", false);
  return {
      .chunked_prefill = tokens_of(input, "chunked", 8'192),
      .max_prefill = tokens_of(input, "max_prefill", 16'384),
      .conservativeness = input.value("conservativeness", 1.0),
      .prefill_max_requests = input.value("prefill_max", saturated_count),
      .preempts = input.value("preempt", false),
      .preemption_threshold = input.value("threshold", std::int64_t{10}),
      .order = {.schedule = named(schedules, "policy", input.value("policy", "fcfs")), .by_priority = input.value("priority", false), .low_first = low_first},
      .victim = {.by_priority = named(retraction_by_priority, "retraction_policy", input.value("retraction_policy", "length")), .low_first = low_first}};
}

double rounded(double value, double places) { return std::round(value * places) / places; }

/// A request as the engine has it.
struct Sequence {
  std::string name;
  Request request;
  std::uint64_t ends_at;  // outputs
  Ticket ticket{};
  Tokens computed{};
  std::uint64_t out{};
  bool aborted{};

  bool finished() const { return aborted || out >= ends_at || out >= request.max_new.count; }
};

class Engine {
 public:
  explicit Engine(Json const& input)
      : gate_{limits_of(input), policy_of(input)}, max_length_{limits_of(input).max_length}, by_priority_{input.value("priority", false)} {
    if (!gate_.complaints().empty()) throw std::runtime_error{std::string{"bad limits: "} + gate_.complaints()[0].field};
  }

  /// Its name, and max_new as it was cut (S02).
  Json arrive(Json const& request) {
    only(request, request_fields);
    Tokens prompt{};
    for (auto const& group : request.at("tokens")) prompt += Tokens{group.at(1).get<std::uint64_t>()};
    Sequence arrived{.name = request.at("id").get<std::string>(),
                     .request = {.prompt = prompt,
                                 .max_new = tokens_of(request, "max_new", 16),
                                 .tag = sequences_.size(),
                                 .priority = by_priority_ ? request.at("priority").get<std::int32_t>() : 0,
                                 .ignore_eos = request.value("ignore_eos", false)},
                     .ends_at = 0};
    arrived.ends_at = request.value("finish_after", arrived.request.max_new.count);
    auto const verdict = gate_.submit(arrived.request);
    if (verdict.rejected()) throw std::runtime_error{"request " + arrived.name + " is rejected"};
    arrived.ticket = verdict.ticket;
    arrived.request.max_new = gate_.policy().most_new(arrived.request, gate_.pool(), max_length_);
    queue_.push_back(sequences_.size());
    sequences_.push_back(arrived);
    return {arrived.name, arrived.request.max_new.count};
  }

  /// One that waits leaves at once, one that runs with its next output.
  void abort(std::string const& name) {
    for (auto& sequence : sequences_) {
      if (sequence.name != name) continue;
      sequence.aborted = true;
      if (std::erase(queue_, sequence.request.tag) > 0) gate_.cancel(sequence.ticket);
    }
  }

  /// A step, as the file has it, but for `new`.
  Json pass(std::uint64_t now) {
    gate_.begin_step(now);
    auto const plan = gate_.plan();
    if (!gate_.commit(plan) || !gate_.balanced()) throw std::runtime_error{"step " + std::to_string(now) + ": the plan could not be committed"};
    line_up(plan);
    Json facts{{"step", now}, {"decisions", decisions()}, {"evict", Json::array()}};
    if (plan.memory.retraction.happened) facts["retract"] = retraction(plan);
    bool const prefills = !plan.memory.prefilled.empty();
    if (!prefills && plan.grow.empty()) {
      facts["mode"] = "idle";
      facts.update(snapshot());
      return facts;
    }
    facts["mode"] = prefills ? "extend" : "decode";
    facts["batch"] = Json::array();
    if (prefills) facts["extend_lens"] = facts["prefix_lens"] = Json::array();
    for (auto const* list : {&plan.grow, &plan.admit})
      for (auto const& one : *list) compute(one, prefills, facts);
    facts["after_alloc"] = snapshot();
    facts["finished"] = outputs(plan);
    facts["after"] = snapshot();
    return facts;
  }

  Json ratios() const {
    policies::sglang::NewTokenRatio const ratio{gate_.policy().conservativeness};
    return {{"init", ratio.first}, {"min", ratio.least}, {"decay", ratio.decay}};
  }

 private:
  using Gate = AdmissionController<policies::Sglang>;
  using Plan = Gate::StepPlan;

  Sequence const& of(Ticket ticket) const {
    return *std::find_if(sequences_.begin(), sequences_.end(), [&](Sequence const& one) { return one.ticket == ticket; });
  }

  /// The list of those that wait, as SGLang keeps it: sorted when it is looked at, and what is queued later at its end.
  void line_up(Plan const& plan) {
    auto const rank = [&](std::size_t i) { return gate_.policy().order.rank({.request = sequences_[i].request}); };
    if (plan.memory.sorted) std::stable_sort(queue_.begin(), queue_.end(), [&](std::size_t a, std::size_t b) { return rank(a) < rank(b); });
    for (auto const& one : plan.admit) std::erase(queue_, one.tag);
    for (auto const& one : plan.preempt) {
      sequences_[one.tag].computed = {};
      if (!is_refused(plan, one.tag)) queue_.push_back(one.tag);
    }
  }
  static bool is_refused(Plan const& plan, std::uint64_t tag) {
    return std::any_of(plan.refuse.begin(), plan.refuse.end(), [&](Planned const& one) { return one.tag == tag; });
  }

  Json decisions() const {
    Json said = Json::array();
    for (auto const& one : gate_.memory().decisions)
      said.push_back({of(one.ticket).name, result_names.at(one.result), one.added, one.added ? Json(one.extend.count) : Json(), one.chunked,
                      rounded(one.before, 1e6), rounded(one.after, 1e6)});
    return said;
  }

  Json retraction(Plan const& plan) const {
    auto const& said = plan.memory.retraction;
    Json facts{{"need", said.need.count}, {"available", said.available.count}, {"order", Json::array()},
               {"kept", Json::array()},   {"aborted", Json::array()},          {"new_ratio", plan.memory.ratio}};
    for (std::size_t i = said.first; i < plan.preempt.size(); ++i) {
      auto const tag = plan.preempt[i].tag;
      facts[is_refused(plan, tag) ? "aborted" : "order"].push_back(sequences_[tag].name);
    }
    for (auto const& one : plan.memory.running) facts["kept"].push_back(of(one.ticket).name);
    return facts;
  }

  void compute(Planned const& one, bool prefills, Json& facts) {
    Sequence& sequence = sequences_[one.tag];
    facts["batch"].push_back(sequence.name);
    if (prefills) {
      facts["extend_lens"].push_back(one.tokens.count);
      facts["prefix_lens"].push_back(sequence.computed.count);
    }
    sequence.computed += one.tokens;
  }

  /// An output of each whose known tokens are computed; who is finished with it.
  Json outputs(Plan const& plan) {
    Json finished = Json::array();
    for (auto const* list : {&plan.grow, &plan.admit})
      for (auto const& one : *list) {
        Sequence& sequence = sequences_[one.tag];
        if (sequence.ticket == plan.memory.chunked) continue;
        ++sequence.out;
        if (!sequence.finished()) continue;
        gate_.finish(sequence.ticket);
        finished.push_back(sequence.name);
      }
    return finished;
  }

  Json snapshot() const {
    auto const& memory = gate_.memory();
    auto const pool = gate_.pool();
    Json waiting = Json::array(), running = Json::array(), chunked{};
    for (auto const i : queue_) waiting.push_back(sequences_[i].name);
    for (auto const& one : memory.running) running.push_back(of(one.ticket).name);
    if (!(memory.chunked == Ticket{})) chunked = of(memory.chunked).name;
    return {{"available", pool.supply.available().count * pool.block.count},
            {"ratio", rounded(memory.ratio, 1e9)},
            {"waiting", waiting},
            {"running", running},
            {"chunked", chunked},
            {"batch_is_full", memory.batch_is_full}};
  }

  Gate gate_;
  Tokens max_length_;
  bool by_priority_;
  std::vector<Sequence> sequences_;
  std::vector<std::size_t> queue_;
};

/// A step of the file with what is compared of it.
Json expected_of(Json step) {
  Json decisions = Json::array();
  for (auto const& one : step.at("decisions"))
    decisions.push_back({one.at("rid"), one.at("result"), one.value("added", true), one.at("extend"), one.at("chunked"),
                         rounded(one.at("before").at("rem_total").get<double>(), 1e6), rounded(one.at("rem_total_after").get<double>(), 1e6)});
  step["decisions"] = decisions;
  if (!step.contains("evict")) step["evict"] = Json::array();
  return step;
}

/// Up to the first step that is not the same: what follows it differs for no reason of its own.
void replay(Json const& row, Case& one) {
  Json const& input = row.at("input");
  Engine engine{input};
  one.compare("params", row.at("output").at("params"), engine.ratios());
  for (Json const& step : row.at("output").at("steps")) {
    Json const expected = expected_of(step);
    auto const now = expected.at("step").get<std::uint64_t>();
    Json arrived = Json::array();
    for (auto const& request : input.at("requests"))
      if (request.value("at", std::uint64_t{0}) == now) arrived.push_back(engine.arrive(request));
    for (auto const& name : input.value("aborts", Json::object()).value(std::to_string(now), Json::array())) engine.abort(name.get<std::string>());
    Json facts = engine.pass(now);
    facts["new"] = arrived;
    one.compare_all(expected, facts, {});
    for (auto const& item : facts.items())
      if (!expected.contains(item.key())) one.wrong(item.key(), item.value().dump() + ", which is not in the file");
    if (one.mismatches.empty()) continue;
    for (auto& mismatch : one.mismatches) mismatch.field = "step " + std::to_string(now) + ": " + mismatch.field;
    return;
  }
}

void run(Json& row, Case& one, bool self_test) {
  Json const& input = row.at("input");
  Json& output = row.at("output");
  one.name = input.at("name").get<std::string>();
  one.refusal = refusal(input);
  if (!one.refusal.empty()) return;
  only(input, input_fields);
  if (!output.at("error").is_null()) throw std::runtime_error{"no rule for an error: " + output.at("error").dump()};
  if (self_test) {
    Json& middle = output.at("steps").at(output.at("steps").size() / 2);
    perturb(middle.contains("after") ? middle.at("after") : middle, {"step"});
  }
  replay(row, one);
}

}  // namespace

Cases sglang_admission(Options const& options) {
  return each_file(options, [&](std::string const&, Json& row, Case& one) { run(row, one, options.self_test); });
}

}  // namespace conformance
