// kvbudget_conformance [--max-refused N] [--self-test] [--configs DIR] KIND FILE...
//
// Compares what the library says with files of expected values, case by case and field by field. Prints every mismatch, then
// the figures that no rule predicts, where there are some, the number of fields compared, and last "N cases: E exact, R refused, W wrong". Exit 1 when a case
// is wrong or more than N are refused, 2 for a call that can't be run. --self-test changes one expected number in every case: none may then be exact.
#include "kinds.hpp"

#include <charconv>
#include <cstring>
#include <map>

namespace {

using namespace conformance;

std::map<std::string, std::function<Cases(Options const&)>> const kinds{
    {"hf-config", hf_config},
    {"gguf-models", gguf_models},
    {"gguf-parse", gguf_parse},
    {"vllm-scheduler", vllm_scheduler},
    {"vllm-sizing", vllm_sizing},
    {"logs-hybrid", logs_hybrid},
    {"llama-cpp-gguf", llama_cpp_gguf},
    {"llama-cpp-log-lines", llama_cpp_log_lines},
    {"llama-cpp-logs", llama_cpp_logs},
    {"llama-cpp-sizing", llama_cpp_sizing},
    {"logs-lines", logs_lines},
    {"logs-uniform", logs_uniform},
    {"sglang-admission", sglang_admission},
    {"sglang-sizing", sglang_sizing},
};

int usage(std::string const& wrong) {
  std::fprintf(stderr,
               "kvbudget_conformance: %s\nusage: kvbudget_conformance [--max-refused N] [--self-test] [--configs DIR] KIND FILE...\nkinds:", wrong.c_str());
  for (auto const& [name, run] : kinds) std::fprintf(stderr, " %s", name.c_str());
  std::fprintf(stderr, "\n");
  return 2;
}

int report(Cases const& cases, std::size_t max_refused) {
  std::size_t fields = 0, as_given = 0, exact = 0, refused = 0, wrong = 0;
  for (auto const& one : cases) {
    fields += one.compared;
    as_given += one.taken_as_given;
    if (!one.refusal.empty()) {
      ++refused;
      std::printf("refused: %s: %s\n", one.name.c_str(), one.refusal.c_str());
    } else {
      ++(one.mismatches.empty() ? exact : wrong);
    }
    for (auto const& mismatch : one.mismatches)
      std::printf("wrong: %s: %s: expected %s, got %s\n", one.name.c_str(), mismatch.field.c_str(), mismatch.expected.c_str(), mismatch.got.c_str());
  }
  if (as_given != 0) std::printf("%zu figures taken as they are: no rule predicts them\n", as_given);
  std::printf("%zu fields compared\n%zu cases: %zu exact, %zu refused, %zu wrong\n", fields, cases.size(), exact, refused, wrong);
  return wrong > 0 || refused > max_refused || cases.empty() ? 1 : 0;
}

}  // namespace

int main(int argc, char** argv) {
  std::size_t max_refused = 0;
  Options options;
  std::string kind;
  for (int i = 1; i < argc; ++i) {
    std::string const word = argv[i];
    if (word == "--self-test") {
      options.self_test = true;
    } else if (word == "--max-refused") {
      char const* const number = i + 1 < argc ? argv[++i] : "";
      auto const [end, error] = std::from_chars(number, number + std::strlen(number), max_refused);
      if (error != std::errc{} || *end != '\0') return usage("--max-refused takes a whole number");
    } else if (word == "--configs") {
      options.configs = i + 1 < argc ? argv[++i] : "";
      if (options.configs.empty()) return usage("--configs takes a folder");
    } else if (kind.empty()) {
      kind = word;
    } else {
      options.files.push_back(word);
    }
  }
  auto const found = kinds.find(kind);
  if (found == kinds.end()) return usage(kind.empty() ? "no kind given" : "no such kind: " + kind);
  if (options.files.empty()) return usage("no file given");
  try {
    return report(found->second(options), max_refused);
  } catch (std::exception const& error) {
    std::fprintf(stderr, "kvbudget_conformance: %s\n", error.what());
    return 2;
  }
}
