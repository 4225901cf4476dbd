// Kind logs-lines LOGS.jsonl: every figure printed in public logs, read from their lines.
#include "kinds.hpp"

#include <kvbudget/read/runtime_log.hpp>

#include <algorithm>
#include <cmath>
#include <map>

namespace conformance {

namespace {

using namespace kvbudget::read;

std::set<std::string> const not_facts{"id", "version", "model", "log_lines"};

/// Names of the golden file's runtimes begin with these.
std::map<Runtime, std::string> const runtime_names{{Runtime::vllm, "vLLM"},
                                                   {Runtime::vllm_v0, "vLLM"},
                                                   {Runtime::vllm_v1, "vLLM"},
                                                   {Runtime::sglang, "SGLang"},
                                                   {Runtime::tensorrt_llm, "TensorRT-LLM"},
                                                   {Runtime::lmdeploy, "LMDeploy"},
                                                   {Runtime::mlc_llm, "MLC-LLM"},
                                                   {Runtime::tgi, "TGI"},
                                                   {Runtime::xllm, "xLLM"},
                                                   {Runtime::rtp_llm, "RTP-LLM"},
                                                   {Runtime::lightllm, "LightLLM"},
                                                   {Runtime::dynamo, "NVIDIA Dynamo"},
                                                   {Runtime::freetoken, "FreeToken"},
                                                   {Runtime::llama_cpp, "llama.cpp"},
                                                   {Runtime::ik_llama_cpp, "ik_llama.cpp"},
                                                   {Runtime::ollama, "Ollama"}};

/// What the golden file calls the figures of a pool.
std::map<std::string, Quantity> const pool_figures{{"tokens", Quantity::tokens},
                                                   {"K_gb", Quantity::key_bytes},
                                                   {"V_gb", Quantity::value_bytes},
                                                   {"KV_gb", Quantity::key_value_bytes},
                                                   {"alloc_gib", Quantity::total_bytes},
                                                   {"alloc_mb", Quantity::total_bytes},
                                                   {"block_mb", Quantity::block_bytes},
                                                   {"host_blocks", Quantity::cpu_blocks},
                                                   {"bytes_per_block", Quantity::block_bytes},
                                                   {"needed_gib", Quantity::needed},
                                                   {"available_gib", Quantity::available},
                                                   {"estimated_max_len", Quantity::estimated_length},
                                                   {"for_len", Quantity::needed_length},
                                                   {"full", Quantity::tokens},
                                                   {"swa", Quantity::swa_tokens},
                                                   {"c4", Quantity::c4_tokens},
                                                   {"c128", Quantity::c128_tokens},
                                                   {"bytes_per_full_token", Quantity::token_bytes},
                                                   {"c128_state_fixed_gb", Quantity::fixed_bytes},
                                                   {"full_tokens", Quantity::full_tokens},
                                                   {"swa_tokens", Quantity::swa_tokens},
                                                   {"mem_gb", Quantity::total_bytes},
                                                   {"max_mamba_cache_size", Quantity::slots},
                                                   {"conv_gb", Quantity::conv_bytes},
                                                   {"ssm_gb", Quantity::state_bytes}};

/// A figure without its unit and its separators: "12.20 GiB" is "12.20", "456,816" is "456816", "4K" is "4096".
std::string bare(Figure const& figure) {
  if (figure.low == figure.high && figure.printed.find('.') == std::string::npos && figure.printed.find_first_of("BG") == std::string::npos)
    return std::to_string(figure.low);
  std::string text = figure.printed.substr(0, figure.printed.find_first_not_of("-0123456789.,"));
  std::erase(text, ',');
  return text;
}

std::string bare(Json const& expected) {
  std::string text = expected.is_string() ? expected.get<std::string>() : expected.dump();
  return text.substr(0, text.find_first_not_of("-0123456789."));
}

/// True where the digits of a figure stand in the lines at all.
bool is_printed(std::string const& digits, std::string lines) {
  std::erase(lines, ',');
  return lines.find(digits) != std::string::npos;
}

/// One row of the file, and what was read from its lines.
struct Row {
  RuntimeLog log;
  std::string lines;
  std::string id;
  Case& one;

  /// A figure that the lines do not hold, and of whose kind nothing was read, is listed and not compared: the excerpt is cut, or the
  /// figure was worked out from others.
  void absent(std::string const& field, std::string const& expected) const {
    std::printf("not in its lines: %s: %s, %s\n", id.c_str(), field.c_str(), expected.c_str());
  }

  /// `expected` must be the figure read at `place`, or one of those read where no place is given.
  void expect(std::string const& field, Json const& expected, std::vector<Figure> const& found, std::size_t place = std::string::npos) {
    std::string const wanted = bare(expected);
    std::string got;
    for (std::size_t i = 0; i < found.size(); ++i)
      if (place == std::string::npos ? got.empty() || bare(found[i]) == wanted : i == place) got = bare(found[i]);
    if (got.empty() && !is_printed(wanted, lines)) return absent(field, wanted);
    one.compare(field, wanted, got);
  }
};

void expect_available(Row& row, Json const& expected) {
  auto const found = row.log.all(Quantity::available);
  if (!expected.is_array()) return row.expect("available_as_printed", expected, found);
  for (std::size_t rank = 0; rank < expected.size(); ++rank) {
    std::string const field = "available_as_printed of rank line " + std::to_string(rank);
    if (rank < found.size())
      row.expect(field, expected[rank], found, rank);
    else
      row.absent(field, bare(expected[rank]));
  }
}

void expect_concurrency(Row& row, Json const& expected) {
  for (auto const& item : expected.items())
    if (item.key() == "tokens_per_request")
      row.expect("printed_concurrency.tokens_per_request", item.value(), row.log.all(Quantity::concurrency_length));
    else if (item.key() == "x")
      row.expect("printed_concurrency.x", item.value(), row.log.all(Quantity::concurrency));
    else
      row.one.wrong("printed_concurrency." + item.key(), "a field that is not compared");
}

std::vector<Figure> everything(RuntimeLog const& log) {
  std::vector<Figure> all;
  for (auto const& line : log.lines) all.insert(all.end(), line.figures.begin(), line.figures.end());
  return all;
}

/// The older MLC prints what there is with and without a cache: the cache is between them.
std::string between(RuntimeLog const& log) {
  auto const with = log.last(Quantity::bytes_with_cache), without = log.last(Quantity::bytes_without_cache);
  if (!with || !without) return {};
  auto const hundredths = [](Figure const& figure) { return static_cast<std::int64_t>(std::stod(bare(figure)) * 100 + 0.5); };
  std::int64_t const difference = hundredths(*with) - hundredths(*without);
  std::string const part = std::to_string(difference % 100);
  return std::to_string(difference / 100) + "." + (part.size() < 2 ? "0" : "") + part;
}

/// The share of the full tokens that a windowed pool has, to two decimals as the flag is given: it is worked out, not printed.
std::string swa_ratio(RuntimeLog const& log) {
  auto const swa = log.last(Quantity::swa_tokens), full = log.last(Quantity::tokens);
  if (!swa || !full || full->low == 0) return {};
  std::string text = std::to_string(std::round(100.0 * static_cast<double>(swa->low) / static_cast<double>(full->low)) / 100);
  while (text.back() == '0') text.pop_back();
  return text;
}

void expect_pool(Row& row, Json const& pool, std::string const& name, std::size_t place) {
  for (auto const& item : pool.items()) {
    std::string const field = name + "." + item.key();
    auto const known = pool_figures.find(item.key());
    if (item.value().is_null()) continue;
    if (item.key() == "swa_ratio")
      row.one.compare(field, bare(item.value()), swa_ratio(row.log));
    else if (known == pool_figures.end())
      row.expect(field, item.value(), everything(row.log));
    else if (known->second == Quantity::tokens)
      row.expect(field, item.value(), row.log.all(Quantity::tokens));
    else if (item.key() == "alloc_mb" && row.log.all(Quantity::total_bytes).empty() && !between(row.log).empty())
      row.one.compare(field, bare(item.value()), between(row.log));
    else
      row.expect(field, item.value(), row.log.all(known->second), place);
  }
}

void expect_pools(Row& row, Json const& pools) {
  if (!pools.is_array()) return expect_pool(row, pools, "printed_pools", 0);
  for (std::size_t i = 0; i < pools.size(); ++i) expect_pool(row, pools[i], "printed_pools[" + std::to_string(i) + "]", i);
}

void expect_runtime(Row& row, std::string const& expected) {
  auto const known = runtime_names.find(row.log.runtime());
  std::string const name = known == runtime_names.end() ? "unknown" : known->second;
  bool const agrees = expected.compare(0, name.size(), name) == 0;
  row.one.compare("runtime", expected, agrees ? expected : name);
}

/// Changes every expected figure, or the runtime of a row that has none.
bool change_figures(Json& value) {
  if (value.is_object() || value.is_array()) {
    bool changed = false;
    for (auto& inner : value) changed = change_figures(inner) || changed;
    return changed;
  }
  if (value.is_string()) value = "7" + value.get<std::string>();
  if (value.is_number_integer()) value = value.get<std::int64_t>() + 1;
  return !value.is_null();
}

void change(Json& row) {
  bool changed = false;
  for (auto& item : row.items())
    if (!not_facts.contains(item.key()) && item.key() != "runtime") changed = change_figures(item.value()) || changed;
  if (!changed) row["runtime"] = "another";
}

std::string joined(Json const& lines) {
  std::string text;
  for (auto const& line : lines) text += line.get<std::string>() + "\n";
  return text;
}

}  // namespace

Cases logs_lines(Options const& options) {
  return each_file(options, [&](std::string const&, Json& expected, Case& one) {
    one.name = expected.at("id").get<std::string>();
    std::string const text = joined(expected.at("log_lines"));
    if (options.self_test) change(expected);
    Row row{runtime_log_text(text), text, one.name, one};
    for (auto const& line : row.log.unread) one.wrong("line " + std::to_string(line.number), "not read: " + line.text);
    for (auto const& item : expected.items()) {
      if (not_facts.contains(item.key()) || item.value().is_null()) continue;
      if (item.key() == "runtime")
        expect_runtime(row, item.value().get<std::string>());
      else if (item.key() == "printed_tokens")
        row.expect(item.key(), item.value(), row.log.all(Quantity::tokens));
      else if (item.key() == "printed_blocks")
        row.expect(item.key(), item.value(), row.log.all(Quantity::blocks));
      else if (item.key() == "printed_cpu_blocks")
        row.expect(item.key(), item.value(), row.log.all(Quantity::cpu_blocks));
      else if (item.key() == "printed_concurrency")
        expect_concurrency(row, item.value());
      else if (item.key() == "available_as_printed")
        expect_available(row, item.value());
      else if (item.key() == "printed_pools")
        expect_pools(row, item.value());
      else
        one.wrong(item.key(), "a field that is not compared");
    }
  });
}

}  // namespace conformance
