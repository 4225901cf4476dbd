// kvbudget_instructions SCENARIO N runs a scenario's operation N times and does nothing else, for instructions.sh to count.
// kvbudget_instructions --list names the scenarios, each with the instructions that an operation may take, or -, and the scenario than whose
// it may take so many more, or -.
#include "scenarios.hpp"

#include <charconv>
#include <cstdio>
#include <optional>
#include <string_view>

using namespace kvbudget::scenarios;

namespace {

void list() {
  for_each_scenario([](auto const& scenario) {
    if (scenario.most_instructions == no_bound)
      std::printf("%s - -\n", scenario.name);
    else
      std::printf("%s %ju %s\n", scenario.name, std::uintmax_t{scenario.most_instructions}, scenario.more_than);
  });
}

/// False where no scenario has the name.
bool run(std::string_view name, std::uint64_t times) {
  bool found = false;
  for_each_scenario([&]<class Work>(Scenario<Work> const& scenario) {
    if (scenario.name != name) return;
    found = true;
    Work work;
    for (std::uint64_t i = 0; i < times; ++i) work(i);
  });
  return found;
}

std::optional<std::uint64_t> whole_number(std::string_view text) {
  std::uint64_t number{};
  auto const [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || end != text.data() + text.size()) return {};
  return number;
}

}  // namespace

int main(int argc, char** argv) {
  using namespace std::literals;
  if (argc == 2 && argv[1] == "--list"sv) {
    list();
    return 0;
  }
  if (argc != 3) {
    std::fprintf(stderr, "usage: kvbudget_instructions SCENARIO N | --list\n");
    return 2;
  }
  auto const times = whole_number(argv[2]);
  if (!times) {
    std::fprintf(stderr, "kvbudget_instructions: N is '%s', which is no whole number; say how often to run the scenario\n", argv[2]);
    return 2;
  }
  if (!run(argv[1], *times)) {
    std::fprintf(stderr, "kvbudget_instructions: SCENARIO is '%s', which is none; --list names them\n", argv[1]);
    return 2;
  }
}
