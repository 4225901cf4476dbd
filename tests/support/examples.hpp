// What tests of the examples share: where they are, how they are run, and what of their output is looked at.
#pragma once

#include "catch.hpp"
#include "process.hpp"

#include <nlohmann/json.hpp>

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <vector>

using Json = nlohmann::json;

inline std::string const examples = KVBUDGET_EXAMPLES_DIR "/";
inline std::string const data = KVBUDGET_SOURCE_DIR "/examples/data/";

inline Ran lab(std::string const& arguments) { return run(examples + "kvbudget_lab " + arguments); }
inline Ran estimate(std::string const& arguments) { return run(examples + "kvbudget_estimate " + arguments); }
inline Ran lesson(std::string const& arguments) { return run(examples + "kvbudget_lesson " + arguments); }

inline Json json_of(Ran const& ran) {
  INFO(ran.output);
  REQUIRE(ran.code == 0);
  return Json::parse(ran.output);
}
inline bool has(Ran const& ran, std::string const& text) {
  UNSCOPED_INFO(ran.output);
  return ran.output.find(text) != std::string::npos;
}

/// Refused: exit code 2, one line on standard error, nothing on standard output, and every one of the texts in it.
inline void refused(std::string const& command, std::vector<std::string> const& texts) {
  INFO(command);
  Ran const ran = run(command);
  REQUIRE(ran.code == 2);
  REQUIRE(std::count(ran.output.begin(), ran.output.end(), '\n') == 1);
  for (auto const& text : texts) REQUIRE(has(ran, text));
  REQUIRE(run(command + " 2>/dev/null", false).output.empty());
}

inline std::string scratch(std::string const& name, std::string const& text) {
  auto const folder = std::filesystem::temp_directory_path() / ("kvbudget_examples_" + std::to_string(::getpid()));
  std::filesystem::create_directories(folder);
  std::ofstream{folder / name} << text;
  return (folder / name).string();
}
