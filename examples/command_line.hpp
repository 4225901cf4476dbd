// What every example's main does: parse, run, and turn bad input into one clear line and exit code 2.
#pragma once

#include <kvbudget/core/complaint.hpp>
#include <kvbudget/read/amount.hpp>
#include <kvbudget/write/format.hpp>

#include <CLI/CLI.hpp>

#include <cstdio>
#include <exception>
#include <iostream>

namespace example {

/// A field of the library, and the option that sets it.
struct Spelling {
  std::string_view field;
  std::string_view option;
};

/// Stops with the first thing that is wrong, in the words of the command line.
inline void require_good(kvbudget::Complaints const& complaints, std::initializer_list<Spelling> options) {
  if (complaints.empty()) return;
  auto const& complaint = complaints[0];
  std::string_view name = complaint.field;
  for (auto const& spelling : options)
    if (spelling.field == name) name = spelling.option;
  throw kvbudget::read::Error{{"", std::string{name}, std::to_string(complaint.value), complaint.accepted, complaint.next}};
}

/// An option that takes a whole number in a range, digits only: no sign, no octal, no wrap.
template <class Number>
CLI::Option* add_whole(CLI::App& app, std::string const& name, Number& value, std::uint64_t least, std::uint64_t most, std::string const& help) {
  auto* const option = app.add_option_function<std::string>(
      name, [&value, name, least, most](std::string const& text) { value = static_cast<Number>(kvbudget::read::whole(text, name, least, most)); }, help);
  return option->default_str(value == 0 ? "" : std::to_string(value))->type_name("N");
}

inline constexpr std::uint64_t most_tokens = std::uint64_t{1} << 40;

template <class Run>
int main_of(CLI::App& app, int argc, char** argv, Run run) {
  try {
    app.parse(argc, argv);
    int const code = run();
    if (std::cout.flush() && std::fflush(stdout) == 0) return code;
    fmt::print(stderr, "{}: the output could not be written\n", app.get_name());
  } catch (CLI::ParseError const& error) {
    if (error.get_exit_code() == 0) return app.exit(error);
    fmt::print(stderr, "{}: {}; see {} --help\n", app.get_name(), error.what(), app.get_name());
  } catch (std::exception const& error) {
    fmt::print(stderr, "{}: {}\n", app.get_name(), error.what());
  }
  return 2;
}

}  // namespace example
