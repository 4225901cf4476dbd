// What every example's main does: parse, run, and turn bad input into one clear line and exit code 2.
#pragma once

#include <kvbudget/core/complaint.hpp>
#include <kvbudget/read/refusal.hpp>
#include <kvbudget/write/format.hpp>

#include <CLI/CLI.hpp>

#include <cstdio>
#include <exception>

namespace example {

/// Stops with what is wrong with `what`, where something is.
inline void require_good(kvbudget::Complaints const& complaints, char const* what) {
  if (!complaints.empty()) throw std::runtime_error{fmt::format("{}: {}", what, complaints)};
}

template <class Run>
int main_of(CLI::App& app, int argc, char** argv, Run run) {
  try {
    app.parse(argc, argv);
    return run();
  } catch (CLI::ParseError const& error) {
    if (error.get_exit_code() == 0) return app.exit(error);
    fmt::print(stderr, "{}: {}; see {} --help\n", app.get_name(), error.what(), app.get_name());
  } catch (std::exception const& error) {
    fmt::print(stderr, "{}: {}\n", app.get_name(), error.what());
  }
  return 2;
}

}  // namespace example
