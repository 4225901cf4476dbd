// kvbudget_estimate --compare: one model under every runtime's rules and its cache dtypes, with the same bytes for the cache.
//
// What fp8 really buys (a hybrid's states stay as they are), what padding wastes, and what tensor parallelism replicates.
#pragma once

#include "runtime.hpp"

namespace example {

struct ComparedRuntime {
  std::string runtime, dtype;
  Bytes holds{}, reserves{}, padding{};  // of one request on one rank
  std::uint64_t requests{};
  double against_own{1};  // requests, beside those of the runtime's first dtype
  std::string refusal{};
};

/// What no layer fills of the blocks that a request of `length` tokens reserves.
inline Bytes padding_of(kvbudget::CachePlan const& plan, Tokens length) {
  Bytes sum{};
  for (auto const& group : plan.groups)
    sum += group.padding * kvbudget::floor_div(group.group.most(length, plan.footprint.in_flight).count, group.group.blocks_per_entry);
  return sum;
}

inline ComparedRuntime compared(Runtime const& runtime, std::string const& dtype, kvbudget::read::Model const& model, Question const& question) {
  ComparedRuntime row{.runtime = runtime.name, .dtype = dtype};
  try {
    Report const report = runtime.with_dtype(model, question, dtype);
    row.refusal = report.refusal;
    if (!row.refusal.empty()) return row;
    auto const capacity = report.plan.at(report.context);
    row.holds = capacity.resident;
    row.reserves = capacity.reserved;
    row.padding = padding_of(report.plan, report.context);
    row.requests = capacity.requests;
  } catch (kvbudget::read::Error const& error) {
    row.refusal = error.what();
  }
  return row;
}

inline std::vector<ComparedRuntime> compare_all(std::vector<Runtime> const& runtimes, kvbudget::read::Model const& model, Question const& question) {
  std::vector<ComparedRuntime> rows;
  for (auto const& runtime : runtimes) {
    std::uint64_t first = 0;
    for (auto const& dtype : runtime.dtypes) {
      rows.push_back(compared(runtime, dtype, model, question));
      if (first == 0) first = rows.back().requests;
      if (first != 0) rows.back().against_own = static_cast<double>(rows.back().requests) / static_cast<double>(first);
    }
  }
  return rows;
}

/// A request's bytes on all tensor ranks together, beside those on one: 1 where nothing is replicated.
struct Replicated {
  std::uint32_t tensor{};
  Bytes on_all{};
  double copies{};
};

inline std::vector<Replicated> replication(kvbudget::read::Model const& model, Tokens context) {
  std::vector<Replicated> rows;
  for (std::uint32_t tensor = 1; tensor <= 16; tensor *= 2) {
    kvbudget::Sharding const sharding{.tensor = tensor};
    if (!check(model.spec, sharding).empty()) continue;
    Bytes const on_all = total_bytes(model.spec, sharding, context);
    rows.push_back({tensor, on_all, static_cast<double>(on_all.count) / static_cast<double>(kv_bytes(model.spec, context).count)});
  }
  return rows;
}

inline Json to_json(ComparedRuntime const& row) {
  if (!row.refusal.empty()) return {{"runtime", row.runtime}, {"dtype", row.dtype}, {"refusal", row.refusal}};
  return {{"runtime", row.runtime},
          {"dtype", row.dtype},
          {"resident_bytes_per_request", row.holds},
          {"reserved_bytes_per_request", row.reserves},
          {"padding_bytes_per_request", row.padding},
          {"requests", row.requests},
          {"requests_beside_first_dtype", row.against_own}};
}

/// One line for a runtime that refuses the model under every dtype.
inline std::vector<ComparedRuntime> without_repetition(std::vector<ComparedRuntime> const& rows) {
  std::vector<ComparedRuntime> shown;
  for (auto const& row : rows) {
    if (!row.refusal.empty() && !shown.empty() && shown.back().runtime == row.runtime && shown.back().refusal == row.refusal)
      shown.back().dtype = "any";
    else
      shown.push_back(row);
  }
  return shown;
}

inline void print(std::vector<ComparedRuntime> const& rows) {
  fmt::print("{:<13} {:<10} {:>12} {:>12} {:>12} {:>9}\n", "runtime", "dtype", "holds", "reserves", "padding", "requests");
  for (auto const& row : rows) {
    fmt::print("{:<13} {:<10} ", row.runtime, row.dtype);
    if (!row.refusal.empty())
      fmt::print("{}\n", row.refusal);
    else
      fmt::print("{:>12} {:>12} {:>12} {:>9}  x{:.2f}\n", fmt::format("{:.1MiB}", row.holds), fmt::format("{:.1MiB}", row.reserves),
                 fmt::format("{:.1MiB}", row.padding), row.requests, row.against_own);
  }
}

inline void add_comparison(CLI::App& app, Question& question, bool& compare) {
  app.add_option("MODEL", question.model, "a config.json, a GGUF file, a folder with one, or a catalog name")->required();
  app.add_flag("--compare", compare)->required();
  app.add_option("--available", question.available, "bytes for one rank's cache, the same for all")->required();
  add_whole(app, "--context", question.context, 1, most_tokens, "tokens of one request; the model's context unless told");
  add_whole(app, "--tp", question.tensor, 1, 65'535, "tensor-parallel ranks");
  app.add_flag("--speculative", question.speculative, "count the MTP or NextN blocks, too");
  app.add_flag("--json", question.json);
}

inline int compare_main(std::vector<Runtime> const& runtimes, int argc, char** argv) {
  CLI::App app{"One model under every runtime's rules, with the same bytes for the cache", "kvbudget_estimate"};
  Question question;
  bool compare{};
  add_comparison(app, question, compare);
  return main_of(app, argc, argv, [&] {
    auto const model = model_of(question);
    Tokens const context = context_of(question, model);
    Bytes const available = kvbudget::read::bytes(question.available, "--available");
    auto const rows = compare_all(runtimes, model, question);
    auto const copies = replication(model, context);
    if (question.json) {
      Json json{{"model", question.model}, {"context", context}, {"available_bytes", available}, {"tensor", question.tensor}, {"rows", Json::array()}};
      for (auto const& row : rows) json["rows"].push_back(to_json(row));
      for (auto const& one : copies) json["replication"].push_back({{"tensor", one.tensor}, {"bytes_on_all_ranks", one.on_all}, {"copies", one.copies}});
      std::cout << json.dump(2) << '\n';
      return 0;
    }
    fmt::print("{} ({}): requests of {}, {} for the cache on each of {}\n\n", question.model, model.source, context, available,
               kvbudget::write::counted(question.tensor, "rank", "ranks"));
    print(without_repetition(rows));
    if (question.tensor > 1) fmt::print("llama.cpp splits whole layers over its devices: its bytes are those of all of them together\n");
    fmt::print("\nwhat tensor parallelism replicates: a request's bytes on all ranks together\n");
    for (auto const& one : copies)
      fmt::print("{:>4} {:<6} {:>12}  x{:.2f}\n", one.tensor, one.tensor == 1 ? "rank" : "ranks", fmt::format("{:.1MiB}", one.on_all), one.copies);
    return 0;
  });
}

}  // namespace example
