// What a conformance kind reports: for each case what was compared, and what did not agree.
#pragma once

#include <nlohmann/json.hpp>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>
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
  std::string name;
  std::size_t compared{};
  std::vector<Mismatch> mismatches{};
  std::string refusal{};  // not empty: refused, and why

  void compare(std::string const& field, Json const& expected, Json const& got) {
    ++compared;
    if (expected != got) mismatches.push_back({field, expected.dump(), got.dump()});
  }
};

using Cases = std::vector<Case>;

struct Options {
  std::vector<std::string> files{};
  bool self_test{};  // one expected number of each case is changed before it is compared
};

/// The rows of a JSON-lines file.
inline std::vector<Json> rows_of(std::string const& path) {
  std::ifstream in{path};
  if (!in) throw std::runtime_error{path + " is not readable"};
  std::vector<Json> rows;
  for (std::string line; std::getline(in, line);)
    if (!line.empty()) rows.push_back(Json::parse(line));
  return rows;
}

/// Changes the first number among the compared fields; false when there is none.
inline bool perturb(Json& expected, std::function<bool(std::string const&)> const& compared) {
  for (auto& item : expected.items()) {
    if (!compared(item.key())) continue;
    auto& value = item.value();
    if (value.is_number_integer()) {
      value = value.get<std::int64_t>() + 1;
      return true;
    }
    if (value.is_number_float()) {
      value = value.get<double>() + 1;
      return true;
    }
  }
  return false;
}

}  // namespace conformance
