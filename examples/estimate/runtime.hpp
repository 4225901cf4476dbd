// kvbudget_estimate --runtime: one command line, one report and one JSON for every runtime's own rules.
//
// A runtime adds its flags, by its own names, and turns a model into a Report; the rest is the same for all of them.
#pragma once

#include "../command_line.hpp"

#include <kvbudget/kvbudget.hpp>
#include <kvbudget/read/model.hpp>
#include <kvbudget/write/json.hpp>

#include <algorithm>
#include <functional>
#include <memory>

namespace example {

using kvbudget::Bytes;
using kvbudget::Tokens;
using Json = nlohmann::ordered_json;

[[noreturn]] inline void missing(char const* field, char const* accepted, char const* next) {
  throw kvbudget::read::Error{{"", field, "missing", accepted, next}};
}

/// What every runtime is asked with.
struct Question {
  std::string model;
  std::string memory, weights, activations = "0B", graphs = "0B", available;
  std::uint64_t context{}, require_requests{};
  std::uint32_t tensor = 1, pipeline = 1;
  bool speculative{};
  bool json{};
};

/// What every runtime answers.
struct Report {
  kvbudget::CachePlan plan{};
  std::vector<kvbudget::Trail> steps{};  // before the plan's own: device memory to bytes for the cache
  Tokens context{};
  std::vector<std::string> log{};  // the lines the runtime would print
  std::string refusal{};           // why it would not start, in one line
  std::vector<std::string> notes{};
  Json figures = Json::object();  // the runtime's own
};

struct Runtime {
  std::string name;
  std::function<void(CLI::App&)> add_flags;
  std::function<Report(kvbudget::read::Model const&, Question const&)> report;
  std::vector<std::string> dtypes{};  // what --compare tries: the default, then what is worth a look
  std::function<Report(kvbudget::read::Model const&, Question const&, std::string const& dtype)> with_dtype{};
};

/// A word of a list, or an error that names the list.
template <class Value>
Value chosen(std::string const& option, std::string const& told, std::vector<std::pair<std::string, Value>> const& values) {
  std::string accepted;
  for (auto const& [name, value] : values) {
    if (name == told) return value;
    accepted += (accepted.empty() ? "" : ", ") + name;
  }
  throw kvbudget::read::Error{{"", option, told, accepted, "choose one of them"}};
}

/// The name behind `--runtime`, or empty: which flags there are depends on it.
inline std::string runtime_named(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    std::string_view const word = argv[i];
    if (word == "--runtime") return i + 1 < argc ? argv[i + 1] : "(nothing)";
    if (word.rfind("--runtime=", 0) == 0) return std::string{word.substr(10)};
  }
  return "";
}

inline bool has_word(int argc, char** argv, std::string_view wanted) {
  return std::any_of(argv, argv + argc, [&](char const* word) { return wanted == word; });
}

/// Weights of one rank: split evenly over tensor and pipeline ranks.
inline Bytes weights_per_rank(Question const& question, kvbudget::read::Model const& model) {
  auto const said = question.weights.empty() ? kvbudget::read::weights_of(model) : kvbudget::read::bytes(question.weights, "--weights");
  if (!said)
    missing("--weights", "the bytes of all weights, where neither the GGUF file nor a model.safetensors.index.json says them",
            "add for example --weights 16GiB");
  return kvbudget::part_up(*said, std::uint64_t{question.tensor} * question.pipeline);
}

inline Bytes memory_of(Question const& question) {
  if (question.memory.empty()) missing("--gpu-memory", "one device's memory, or --available: the bytes for its cache", "add for example --gpu-memory 80GiB");
  return kvbudget::read::bytes(question.memory, "--gpu-memory");
}

inline Tokens context_of(Question const& question, kvbudget::read::Model const& model) {
  if (question.context != 0) return {question.context};
  if (!model.context) missing("--context", "the length of a request in tokens: the model does not say one", "add for example --context 8192");
  return *model.context;
}

inline std::string described(kvbudget::GroupPlan const& group) {
  switch (group.group.keeps) {
    case kvbudget::Keeps::everything:
      return "every token";
    case kvbudget::Keeps::window:
      return fmt::format("a window of {}", group.group.span);
    case kvbudget::Keeps::chunk:
      return fmt::format("a chunk of {}", group.group.span);
    case kvbudget::Keeps::fixed:
      return "the same, whatever the length";
  }
  return "";
}

inline void print(Report const& report) {
  auto const& plan = report.plan;
  for (auto const& note : report.notes) fmt::print("note: {}\n", note);
  for (auto const& steps : report.steps) fmt::print("{}\n", steps);
  if (!report.refusal.empty()) return fmt::print("\nit would not start: {}\n", report.refusal);
  if (plan.groups.empty()) return;  // no cache at all: the notes say so
  auto const capacity = plan.at(report.context);
  fmt::print("{}\n\n{:<7} {:<30} {:>7} {:>12} {:>12}  {}\n", capacity.trail, "layers", "keep", "block", "page", "a request", "padding");
  for (auto const& group : plan.groups)
    fmt::print("{:<7} {:<30} {:>7} {:>12} {:>12}  {}\n", group.layers, described(group), group.group.block.count, fmt::format("{}", group.page),
               kvbudget::write::grouped(group.group.most(report.context, plan.footprint.in_flight).count), group.padding);
  for (std::uint32_t i = 1; i < plan.pools(); ++i)
    fmt::print("pool {:<20} {} of {:B}\n", plan.pool_at(i).name, plan.pool_at(i).blocks, plan.pool_at(i).bytes_per_block);
  fmt::print("\nit would print\n");
  for (auto const& line : report.log) fmt::print("  {}\n", line);
  fmt::print("\n{}\n", capacity);
  fmt::print("longest request that fits alone: {}\n", plan.longest());
}

inline Json to_json(std::string const& runtime, Question const& question, Report const& report) {
  Json json{{"runtime", runtime}, {"model", question.model}, {"context", report.context}, {"starts", report.refusal.empty()}};
  if (!report.refusal.empty()) json["refusal"] = report.refusal;
  auto const capacity = report.plan.at(report.context);
  json["plan"] = report.refusal.empty() ? Json(report.plan) : Json(nullptr);
  json["capacity"] = report.refusal.empty() ? Json(capacity) : Json(nullptr);
  json["requests"] = capacity.requests;
  json["budget_steps"] = Json::array();
  for (auto const& steps : report.steps)
    for (auto const& step : steps.steps) json["budget_steps"].push_back(step);
  json["capacity_steps"] = report.refusal.empty() ? Json(capacity.trail) : Json::array();
  json["printed"] = report.log;
  json["figures"] = report.figures;
  json["notes"] = report.notes;
  return json;
}

inline void add_question(CLI::App& app, Question& question, std::string& runtime) {
  app.add_option("MODEL", question.model, "a config.json, a GGUF file, a folder with one, or a catalog name")->required();
  app.add_option("--runtime", runtime, "whose rules: vllm, sglang, tensorrt-llm or llama.cpp")->required();
  auto* const available = app.add_option("--available", question.available, "bytes for one rank's cache, as a log prints them, instead of --gpu-memory");
  available->excludes(app.add_option("--gpu-memory", question.memory, "of one device, for example 80GiB"));
  available->excludes(app.add_option("--weights", question.weights, "of the whole model; read from the file, or from the index beside it, where it says them"));
  available->excludes(app.add_option("--activations", question.activations, "bytes a rank keeps for them")->capture_default_str());
  available->excludes(app.add_option("--graphs", question.graphs, "bytes a rank keeps for CUDA graphs")->capture_default_str());
  add_whole(app, "--context,--max-model-len,--context-length", question.context, 1, most_tokens, "tokens of one request; the model's context unless told");
  add_whole(app, "--tp,--tensor-parallel-size,--tp-size", question.tensor, 1, 65'535, "tensor-parallel ranks");
  add_whole(app, "--pp,--pipeline-parallel-size,--pp-size", question.pipeline, 1, 64, "pipeline stages");
  add_whole(app, "--require-requests", question.require_requests, 1, most_tokens, "exit 1 when fewer requests fit");
  app.add_flag("--speculative", question.speculative, "count the MTP or NextN blocks, too");
  app.add_flag("--json", question.json);
}

/// "--kv-cache-dtype, --block-size, ...": what a runtime takes.
inline std::string accepted_flags(CLI::App const& app) {
  std::string flags;
  for (auto const* option : app.get_options())
    if (!option->get_lnames().empty()) flags += (flags.empty() ? "--" : ", --") + option->get_lnames()[0];
  return flags;
}

inline kvbudget::read::Model model_of(Question const& question) {
  auto model = kvbudget::read::model(question.model);
  if (question.speculative && model.draft_layers.size() == 0)
    throw kvbudget::read::Error{{question.model, "--speculative", "given", "a model with MTP or NextN blocks", "leave it out"}};
  if (question.speculative) model.spec.layers.append(model.draft_layers);
  return model;
}

inline int runtime_main(std::vector<Runtime> const& runtimes, std::string const& name, int argc, char** argv) {
  CLI::App app{"What a runtime would allocate and print for a model, by its own rules", "kvbudget_estimate"};
  Question question;
  std::string told;
  add_question(app, question, told);
  Runtime const* chosen = nullptr;
  std::string names;
  for (auto const& runtime : runtimes) {
    names += (names.empty() ? "" : ", ") + runtime.name;
    if (runtime.name == name) chosen = &runtime;
  }
  if (chosen != nullptr) chosen->add_flags(app);
  app.allow_extras();  // so that a flag of another runtime is refused with the list of this one's
  return main_of(app, argc, argv, [&] {
    if (chosen == nullptr) throw kvbudget::read::Error{{"", "--runtime", name, names, "choose one of them, or leave it out for the general rules"}};
    if (auto const extras = app.remaining(); !extras.empty())
      throw kvbudget::read::Error{{"", extras[0], "no flag of " + name, accepted_flags(app), "use the runtime's own flags"}};
    auto const model = model_of(question);
    Report report = chosen->report(model, question);
    report.notes.insert(report.notes.begin(), model.notes.begin(), model.notes.end());
    if (question.json) {
      std::cout << to_json(name, question, report).dump(2) << '\n';
    } else {
      fmt::print("{} ({}), by the rules of {}; per rank\n", question.model, model.source, name);
      print(report);
    }
    if (!report.refusal.empty()) return 1;
    auto const requests = report.plan.at(report.context).requests;
    if (requests >= question.require_requests) return 0;
    fmt::print(stderr, "kvbudget_estimate: {} of {} fit, --require-requests {}\n", kvbudget::write::counted(requests, "request", "requests"), report.context,
               question.require_requests);
    return 1;
  });
}

}  // namespace example
