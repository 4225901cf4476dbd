// A server's own accounting beside the estimate: equal, within print precision, or different, and then why.
//
//   kvbudget_reconcile server.log                                what the log says, and the budget it gives
//   kvbudget_reconcile server.log llama-3.1-8b --tp 2            each printed figure beside the prediction, by the runtime's own rules
// The runtime is the log's, and so is every parameter that the log prints; the others are the runtime's flags, by its own names.
// Exit code: 0 where everything agrees, 1 where something differs, 2 for bad input.
#include "reconcile/budget.hpp"
#include "reconcile/llama_cpp.hpp"
#include "reconcile/sglang.hpp"
#include "reconcile/tensorrt_llm.hpp"
#include "reconcile/vllm.hpp"

namespace {

using namespace example;
using kvbudget::AdmissionLimits;
using kvbudget::read::Measured;
using kvbudget::read::Runtime;
using kvbudget::write::grouped;

struct Answer {
  std::string log_file{};
  RuntimeLog log{};
  std::string runtime{};
  std::optional<Measured> measured{};
  std::optional<AdmissionLimits> limits{};
  std::optional<kvbudget::read::Model> model{};
  std::optional<Comparison> comparison{};
  Tokens context{};

  bool differs() const { return comparison && comparison->count(Agreement::different) != 0; }
};

std::string_view runtime_name(Runtime runtime) {
  switch (runtime) {
    case Runtime::dynamo:
      return "Dynamo";
    case Runtime::ollama:
      return "Ollama";
    case Runtime::ik_llama_cpp:
      return "ik_llama.cpp";
    case Runtime::llama_cpp:
      return "llama.cpp";
    case Runtime::vllm_v1:
      return "vLLM V1";
    case Runtime::vllm_v0:
      return "vLLM V0";
    case Runtime::vllm:
      return "vLLM";
    case Runtime::sglang:
      return "SGLang";
    case Runtime::tensorrt_llm:
      return "TensorRT-LLM";
    case Runtime::lmdeploy:
      return "LMDeploy";
    case Runtime::mlc_llm:
      return "MLC-LLM";
    case Runtime::tgi:
      return "TGI";
    case Runtime::xllm:
      return "xLLM";
    case Runtime::rtp_llm:
      return "RTP-LLM";
    case Runtime::lightllm:
      return "LightLLM";
    case Runtime::freetoken:
      return "FreeToken";
    case Runtime::unknown:
      break;
  }
  return "unknown";
}

/// Whose rules there are; none of the others.
std::optional<Reconciler> reconciler_for(RuntimeLog const& log) {
  switch (log.runtime()) {
    case Runtime::vllm:
    case Runtime::vllm_v0:
    case Runtime::vllm_v1:
      return vllm_reconciler(log);
    case Runtime::sglang:
      return sglang_reconciler(log);
    case Runtime::tensorrt_llm:
      return tensorrt_llm_reconciler(log);
    case Runtime::llama_cpp:
    case Runtime::ik_llama_cpp:
    case Runtime::ollama:
      return llama_cpp_reconciler(log);
    default:
      return std::nullopt;
  }
}

// ---- what is printed ----

std::string where(Printed const& printed) {
  return printed.process.empty() ? fmt::format("line {}", printed.line) : fmt::format("line {}, {}", printed.line, printed.process);
}

void print_figures(RuntimeLog const& log) {
  fmt::print("\nwhat the log says\n");
  for (auto const& printed : figures_of(log)) fmt::print("  {:<20} {:>16}   {}\n", name_of(printed.figure.quantity), printed.figure.printed, where(printed));
  for (auto const& unread : log.unread) fmt::print("  not read             line {}: {} (expected {})\n", unread.number, unread.text, unread.why);
  if (log.lost != 0) fmt::print("  {} further readings are not kept\n", grouped(log.lost));
}

/// Blocks that one request of the printed length takes, by what is printed: blocks / concurrency.
std::string request_by_the_log(Answer const& answer) {
  auto const times = kvbudget::read::detail::settled(answer.log, Quantity::concurrency),
             length = kvbudget::read::detail::settled(answer.log, Quantity::concurrency_length);
  if (!times || !length || times->low == 0) return "not printed";
  auto const of = [&](std::uint64_t whole, char const* unit) {
    double const in_millionths = static_cast<double>(whole) * 1e6;
    return fmt::format("{:.0f} to {:.0f} {} by the log: those over {}x of {}", in_millionths / static_cast<double>(std::max(times->high, std::uint64_t{1})),
                       in_millionths / static_cast<double>(times->low), unit, times->printed, Tokens{length->low});
  };
  if (!answer.measured->pools.empty()) return of(answer.measured->pools[0].blocks.count, "blocks");
  return answer.measured->tokens ? of(answer.measured->tokens->count, "tokens") : "not printed";
}

std::string request_by_the_estimate(Answer const& answer) {
  auto const& plan = answer.comparison->prediction.plan;
  if (!plan || !answer.comparison->prediction.refusal.empty() || answer.context == Tokens{}) return "";
  return fmt::format("{} of {} to admit, {} held", plan->blocks_per_request(answer.context), kvbudget::write::in_best_unit(plan->bytes_per_block),
                     kvbudget::write::in_best_unit(plan->resident(answer.context)));
}

void print_three_numbers(Answer const& answer) {
  if (!answer.measured) return;
  auto const& measured = *answer.measured;
  fmt::print("\nthree numbers that are never one\n");
  fmt::print("  blocks of the pool   {}\n", measured.pools.empty() ? "not printed" : grouped(measured.pools[0].blocks.count));
  fmt::print("  printed tokens       {}\n", measured.tokens ? grouped(measured.tokens->count) : "not printed");
  fmt::print("  one request          {}\n", request_by_the_log(answer));
  if (!answer.comparison) return;
  if (auto const text = request_by_the_estimate(answer); !text.empty()) fmt::print("    by the estimate    {}\n", text);
}

char const* label_of(Compared const& one) {
  if (one.agreement != Agreement::different) return "because";
  return one.explained ? "likely cause" : "nothing tried explains it";
}

void print_comparison(Answer const& answer) {
  auto const& comparison = *answer.comparison;
  fmt::print("\n{:<20} {:>16} {:>16}   {}\n", "printed", "by the log", "by the estimate", "");
  for (auto const& one : comparison.figures) {
    fmt::print("{:<20} {:>16} {:>16}   {}, {}\n", name_of(one.printed.figure.quantity), one.printed.figure.printed, one.predicted.empty() ? "-" : one.predicted,
               name_of(one.agreement), where(one.printed));
    if (!one.why.empty()) fmt::print("{:<20} {}: {}\n", "", label_of(one), one.why);
    for (auto const& other : one.also) fmt::print("{:<20} or as well: {}\n", "", other);
  }
  if (comparison.figures.empty()) fmt::print("nothing: the log prints no figure that the estimate has\n");
  if (!comparison.prediction.refusal.empty()) fmt::print("by the estimate it would not start: {}\n", comparison.prediction.refusal);
}

/// The blocks and groups of the estimate, where it agrees with the log.
std::optional<AdmissionLimits> estimates_limits(Answer const& answer) {
  if (!answer.comparison || answer.differs() || !answer.comparison->prediction.plan || !answer.comparison->prediction.refusal.empty()) return std::nullopt;
  auto const limits = limits_of(*answer.comparison->prediction.plan);
  return check(limits).empty() ? std::optional{limits} : std::nullopt;
}

void print_budget(Answer const& answer) {
  if (!answer.limits) return fmt::print("\nthe log gives no budget: it prints neither blocks and their size nor tokens\n");
  auto const& limits = *answer.limits;
  fmt::print("\nthe budget that the log gives\n  ");
  if (limits.capacity.in_tokens)
    fmt::print("{{.capacity = {}}}\n", Tokens{limits.capacity.count});
  else
    fmt::print("{{.capacity = {}, .footprint = paged({})}}\n", kvbudget::Blocks{limits.capacity.count}, answer.measured->block);
  for (auto const& pool : limits.more_pools) fmt::print("  and {} more of a smaller window\n", kvbudget::Blocks{pool.capacity.count});
  if (answer.measured->sentinels != kvbudget::Blocks{} && limits.capacity.in_tokens) fmt::print("  vLLM never hands out one of the blocks in it\n");
  if (answer.context == Tokens{}) return;
  fmt::print("  a controller on it runs {} of {}\n", kvbudget::write::counted(admitted(limits, answer.context), "request", "requests"), answer.context);
  if (auto const own = estimates_limits(answer))
    fmt::print("  on the estimate's own blocks and what the layers keep, which agree with the log: {}\n",
               kvbudget::write::counted(admitted(*own, answer.context), "request", "requests"));
}

void print(Answer const& answer) {
  fmt::print("{}: {}, {}\n", answer.log_file, runtime_name(answer.log.runtime()), kvbudget::write::counted(answer.log.line_count, "line", "lines"));
  if (answer.comparison) {
    auto const& range = answer.comparison->range;
    for (auto const& note : answer.model->notes) fmt::print("note: {}\n", note);
    if (range.known && range.low == range.high) fmt::print("memory: {:B} a rank\n", range.low);
    if (range.known && range.low != range.high) fmt::print("memory: the log's figure is {:B} to {:B} a rank\n", range.low, range.high);
    print_comparison(answer);
    for (auto const& unread : answer.log.unread) fmt::print("not read: line {}: {} (expected {})\n", unread.number, unread.text, unread.why);
  } else {
    print_figures(answer.log);
  }
  print_three_numbers(answer);
  print_budget(answer);
}

// ---- the same for programs ----

Json to_json(Printed const& printed) {
  return {{"figure", name_of(printed.figure.quantity)},
          {"printed", printed.figure.printed},
          {"low", printed.figure.low},
          {"high", printed.figure.high},
          {"line", printed.line},
          {"process", printed.process}};
}

Json to_json(Compared const& one) {
  Json json = to_json(one.printed);
  json["predicted"] = one.predicted.empty() ? Json(nullptr) : Json(one.predicted);
  json["agreement"] = name_of(one.agreement);
  if (!one.why.empty()) json[one.explained ? "cause" : "because"] = one.why;
  if (!one.also.empty()) json["or_as_well"] = one.also;
  return json;
}

Json to_json(AdmissionLimits const& limits, Measured const& measured) {
  Json json{{"capacity", limits.capacity.count}, {"capacity_in", limits.capacity.in_tokens ? "tokens" : "blocks"}};
  json["block_tokens"] = limits.capacity.in_tokens ? Json(nullptr) : Json(measured.block);
  json["more_pools"] = Json::array();
  for (auto const& pool : limits.more_pools) json["more_pools"].push_back(pool.capacity.count);
  return json;
}

Json to_json(Answer const& answer) {
  Json json{{"log", answer.log_file}, {"runtime", runtime_name(answer.log.runtime())}, {"lines", answer.log.line_count}};
  json["figures"] = Json::array();
  for (auto const& printed : figures_of(answer.log)) json["figures"].push_back(to_json(printed));
  json["unread"] = Json::array();
  for (auto const& unread : answer.log.unread) json["unread"].push_back({{"line", unread.number}, {"text", unread.text}, {"expected", unread.why}});
  json["blocks"] = answer.measured && !answer.measured->pools.empty() ? Json(answer.measured->pools[0].blocks) : Json(nullptr);
  json["tokens"] = answer.measured && answer.measured->tokens ? Json(*answer.measured->tokens) : Json(nullptr);
  json["limits"] = answer.limits ? to_json(*answer.limits, *answer.measured) : Json(nullptr);
  json["context"] = answer.context == Tokens{} ? Json(nullptr) : Json(answer.context);
  json["admitted"] = answer.limits && answer.context != Tokens{} ? Json(admitted(*answer.limits, answer.context)) : Json(nullptr);
  if (!answer.comparison) return json;
  auto const& comparison = *answer.comparison;
  json["memory_bytes"] = comparison.range.known ? Json{{"low", comparison.range.low}, {"high", comparison.range.high}} : Json(nullptr);
  json["starts"] = comparison.prediction.refusal.empty();
  json["comparison"] = Json::array();
  for (auto const& one : comparison.figures) json["comparison"].push_back(to_json(one));
  auto const own = estimates_limits(answer);
  json["admitted_by_estimate"] = own && answer.context != Tokens{} ? Json(admitted(*own, answer.context)) : Json(nullptr);
  json["agrees"] = !answer.differs();
  return json;
}

// ---- the command line ----

struct Arguments {
  std::string log, model;
  Question question{};
};

void add_arguments(CLI::App& app, Arguments& arguments) {
  auto& question = arguments.question;
  app.add_option("LOG", arguments.log, "a server's log; it comes first")->required();
  app.add_option("MODEL", question.model, "a config.json, a GGUF file, a folder with one, or a catalog name; none: what the log says");
  app.add_option("--available", question.available, "the memory the cache was made of, where the log does not print it; TensorRT-LLM: what was free");
  add_whole(app, "--context,--max-model-len,--context-length", question.context, 1, most_tokens, "tokens of one request; the log's unless told");
  add_whole(app, "--tp,--tensor-parallel-size,--tp-size", question.tensor, 1, 65'535, "tensor-parallel ranks");
  add_whole(app, "--pp,--pipeline-parallel-size,--pp-size", question.pipeline, 1, 64, "pipeline stages");
  app.add_flag("--speculative", question.speculative, "count the MTP or NextN blocks, too");
  app.add_flag("--json", question.json);
}

Answer answer_of(Arguments const& arguments, RuntimeLog log, std::optional<Reconciler> const& reconciler) {
  Answer answer{.log_file = arguments.log, .log = std::move(log)};
  answer.measured = kvbudget::read::measured(answer.log);
  if (answer.measured) answer.limits = limits_of(*answer.measured);
  Question question = arguments.question;
  if (question.context == 0) question.context = length_in(answer.log);
  answer.context = {question.context};
  if (answer.limits && !check(*answer.limits).empty()) answer.limits.reset();
  if (question.model.empty()) return answer;
  if (!reconciler)
    throw kvbudget::read::Error{{arguments.log, "the runtime", std::string{runtime_name(answer.log.runtime())},
                                 "vLLM, SGLang, TensorRT-LLM or llama.cpp, beside a model", "leave MODEL out to see what the log says"}};
  answer.model = model_of(question);
  auto const subject = reconciler->subject(*answer.model, question);
  LogFacts const facts = facts_of(answer.log);
  answer.comparison = compare(facts, subject.predict, memory_in(answer.log, question));
  explain(facts, *answer.comparison, subject.trials);
  if (answer.context == Tokens{} && answer.model->context) answer.context = *answer.model->context;
  return answer;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"A server's own accounting beside the estimate", "kvbudget_reconcile"};
  Arguments arguments;
  add_arguments(app, arguments);
  bool const names_log = argc > 1 && argv[1][0] != '-';
  RuntimeLog log;
  std::optional<kvbudget::read::Refusal> unreadable;
  if (names_log) {
    auto found = kvbudget::read::try_runtime_log(argv[1]);
    if (found)
      log = std::move(*found);
    else
      unreadable = found.refusal();
  }
  auto const reconciler = reconciler_for(log);
  if (reconciler) reconciler->add_flags(app);
  app.allow_extras();  // so that a flag of another runtime is refused with the list of this one's
  return main_of(app, argc, argv, [&] {
    if (unreadable) throw kvbudget::read::Error{*unreadable};
    if (!names_log) throw kvbudget::read::Error{{"", "LOG", argv[1], "the log before all flags", "put the log's path first"}};
    if (auto const extras = app.remaining(); !extras.empty())
      throw kvbudget::read::Error{
          {"", extras[0], fmt::format("no flag for a log of {}", runtime_name(log.runtime())), accepted_flags(app), "use the runtime's own flags"}};
    Answer const answer = answer_of(arguments, std::move(log), reconciler);
    if (arguments.question.json)
      std::cout << to_json(answer).dump(2, ' ', false, Json::error_handler_t::replace) << '\n';
    else
      print(answer);
    return answer.differs() ? 1 : 0;
  });
}
