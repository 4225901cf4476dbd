// What a conformance kind reports: for each case what was compared, and what did not agree.
#pragma once

#include <nlohmann/json.hpp>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

namespace conformance {

using Json = nlohmann::json;

struct Mismatch {
  std::string field;
  std::string expected;
  std::string got;
};

struct Case {
  std::string name{};
  std::size_t compared{};
  std::size_t taken_as_given{};  // figures that no rule predicts
  std::vector<Mismatch> mismatches{};
  std::string refusal{};  // not empty: refused, and why

  void compare(std::string const& field, Json const& expected, Json const& got) {
    ++compared;
    if (expected != got) mismatches.push_back({field, expected.dump(), got.dump()});
  }
  void wrong(std::string const& field, std::string const& why) { mismatches.push_back({field, "", why}); }

  /// Every field of `expected` but those of `not_facts`: one that `facts` does not have is wrong, not passed over.
  void compare_all(Json const& expected, Json const& facts, std::set<std::string> const& not_facts) {
    for (auto const& item : expected.items()) {
      if (not_facts.contains(item.key())) continue;
      if (facts.contains(item.key()))
        compare(item.key(), item.value(), facts[item.key()]);
      else
        wrong(item.key(), "a field that is not compared");
    }
  }
};

using Cases = std::vector<Case>;

struct Options {
  std::vector<std::string> files{};
  std::string configs{};  // a folder of config.json files, for kinds that can start from those
  bool self_test{};       // one expected number of each case is changed before it is compared
};

/// Runs a kind's case for each row of a JSON-lines file. A row that can't be read or compared is a wrong case, and a case that
/// compares nothing is, too. In a self-test a refusal is wrong as well: nothing was found.
inline Cases each_row(std::string const& path, Options const& options, std::function<void(Json& row, Case& one)> const& run) {
  std::ifstream in{path};
  if (!in) throw std::runtime_error{path + " is not readable"};
  Cases cases;
  std::size_t number = 0;
  for (std::string line; std::getline(in, line);) {
    ++number;
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    Case one{.name = "line " + std::to_string(number)};
    try {
      Json row = Json::parse(line);
      run(row, one);
      if (one.refusal.empty() && one.compared == 0) one.wrong("", "nothing to compare");
    } catch (std::exception const& error) {
      one.wrong("", error.what());
    }
    if (options.self_test && !one.refusal.empty()) one.wrong("", "refused: " + std::exchange(one.refusal, ""));
    cases.push_back(std::move(one));
  }
  return cases;
}

/// The same for each of the files a kind was given; `run` is told which.
inline Cases each_file(Options const& options, std::function<void(std::string const& file, Json& row, Case& one)> const& run) {
  Cases cases;
  for (auto const& file : options.files) {
    auto const of_file = each_row(file, options, [&](Json& row, Case& one) { run(file, row, one); });
    cases.insert(cases.end(), of_file.begin(), of_file.end());
  }
  return cases;
}

/// Changes the first number among the compared fields; false when there is none.
inline bool perturb(Json& expected, std::set<std::string> const& not_facts) {
  for (auto& item : expected.items()) {
    auto& value = item.value();
    if (not_facts.contains(item.key()) || !value.is_number()) continue;
    if (value.is_number_float())
      value = value.get<double>() + 1;
    else
      value = value.get<std::int64_t>() + 1;
    return true;
  }
  return false;
}

}  // namespace conformance
