// Runs a program as a user would, and keeps what it printed.
#pragma once

#include <sys/wait.h>

#include <cstdio>
#include <stdexcept>
#include <string>

struct Ran {
  int code;
  std::string output;  // standard output, and standard error where asked for
};

inline Ran run(std::string const& command, bool with_errors = true) {
  std::FILE* const pipe = ::popen((command + (with_errors ? " 2>&1" : "")).c_str(), "r");
  if (!pipe) throw std::runtime_error{"cannot run " + command};
  std::string output;
  char buffer[4096];
  for (std::size_t n; (n = std::fread(buffer, 1, sizeof buffer, pipe)) != 0;) output.append(buffer, n);
  int const status = ::pclose(pipe);
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, std::move(output)};
}
