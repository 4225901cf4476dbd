// The gate on instructions: the program's scenarios, and a script that ends with 1 where one takes more than it may.
#include "catch.hpp"
#include "process.hpp"

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>

namespace {

namespace fs = std::filesystem;

std::string const program = KVBUDGET_INSTRUCTIONS;

bool has(Ran const& ran, std::string const& text) {
  UNSCOPED_INFO(ran.output);
  return ran.output.find(text) != std::string::npos;
}

/// A folder with a program of three scenarios and a valgrind in front of it, both of a few lines of bash.
class Stand {
 public:
  explicit Stand(std::string const& counts) {
    fs::create_directories(folder_);
    script("program", "[[ $1 == --list ]] && printf 'bounded 600 -\\nunbounded - -\\nnet 20 unbounded\\n'");
    script("valgrind", "scenario=${*: -2:1} n=${*: -1}; " + counts);
  }
  ~Stand() { fs::remove_all(folder_); }
  Stand(Stand&&) = delete;

  Ran counted() const {
    std::string const folder = folder_.string();
    return run("PATH=" + folder + ":$PATH " KVBUDGET_SOURCE_DIR "/tests/benchmark/instructions.sh " + folder + "/program");
  }

 private:
  void script(std::string const& name, std::string const& text) const {
    std::ofstream{folder_ / name} << "#!/usr/bin/env bash\n" << text << '\n';
    fs::permissions(folder_ / name, fs::perms::owner_all);
  }

  fs::path const folder_ = fs::temp_directory_path() / ("kvbudget_instructions_" + std::to_string(::getpid()));
};

}  // namespace

TEST_CASE("every scenario that is listed runs") {
  std::istringstream list{run(program + " --list").output};
  std::uint32_t scenarios = 0;
  for (std::string line; std::getline(list, line); ++scenarios) {
    std::string const name = line.substr(0, line.find(' '));
    INFO(name);
    REQUIRE(run(program + " " + name + " 1000").code == 0);
  }
  REQUIRE(scenarios >= 8);
}

TEST_CASE("admission, growth and the decisions of a step have the bounds that were asked for") {
  Ran const list = run(program + " --list");
  REQUIRE(has(list, "\nsubmit_admit_release 600 -\n"));
  REQUIRE(has(list, "\ngrow_token 20 look_at_lease\n"));
  REQUIRE(has(list, "\nplan_step 1500 -\n"));
  REQUIRE(has(list, "\nplan_step_bypass 1500 -\n"));
  REQUIRE(has(list, "plain_counter - -\n"));
}

TEST_CASE("the README has a row for every bounded scenario, with its bound and no more instructions than that") {
  auto const number_at = [](std::string const& row, std::size_t column) {
    std::istringstream cells{row};
    std::string cell;
    for (std::size_t i = 0; i <= column; ++i) std::getline(cells, cell, '|');
    std::erase_if(cell, [](char c) { return c == ',' || c == ' '; });
    return std::stoull(cell);
  };
  std::istringstream list{run(program + " --list").output};
  std::string name, most, more_than;
  std::uint32_t bounded = 0;
  while (list >> name >> most >> more_than) {
    if (most == "-") continue;
    ++bounded;
    INFO(name);
    std::ifstream readme{KVBUDGET_SOURCE_DIR "/README.md"};
    std::string row;
    while (std::getline(readme, row) && row.find("| `" + name + "` |") == std::string::npos) {
    }
    REQUIRE(readme);
    REQUIRE(number_at(row, 4) == std::stoull(most));
    REQUIRE(number_at(row, 3) <= number_at(row, 4));
  }
  REQUIRE(bounded == 6);
}

TEST_CASE("a scenario or a number that is none is refused by name") {
  Ran const unknown = run(program + " no_scenario 1000");
  REQUIRE(unknown.code == 2);
  REQUIRE(has(unknown, "SCENARIO is 'no_scenario', which is none; --list names them"));
  Ran const fraction = run(program + " plain_counter 1.5");
  REQUIRE(fraction.code == 2);
  REQUIRE(has(fraction, "N is '1.5', which is no whole number"));
}

TEST_CASE("an operation may take its bound, whatever the set-up takes") {
  Ran const ran = Stand{"echo \"==1== Collected : $((7777777 + n * 600))\""}.counted();
  REQUIRE(has(ran, "\nbounded                                             600.0      600\n"));
  REQUIRE(has(ran, "\nunbounded                                           600.0        -\n"));
  REQUIRE(ran.code == 0);
}

TEST_CASE("an operation that takes more than its bound ends the gate with 1, after the whole table") {
  Ran const ran = Stand{"echo \"==1== Collected : $((7777777 + n * 600 + n / 1024))\""}.counted();
  REQUIRE(has(ran, "\nbounded                                             600.0      600 exceeded\n"));
  REQUIRE(has(ran, "\nunbounded                                           600.0        -\n"));
  REQUIRE(ran.code == 1);
}

TEST_CASE("a bound may be on what an operation takes more than another's, and the table has both") {
  auto const counts = [](char const* net) { return std::string{"[[ $scenario == net ]] && of="} + net + " || of=600; echo \"==1== Collected : $((n * of))\""; };
  Ran const ran = Stand{counts("620")}.counted();
  REQUIRE(has(ran, "\nnet                                                 620.0        -\n"));
  REQUIRE(has(ran, "\nnet less unbounded                                   20.0       20\n"));
  REQUIRE(ran.code == 0);
  Ran const more = Stand{counts("621")}.counted();
  REQUIRE(has(more, "\nnet less unbounded                                   21.0       20 exceeded\n"));
  REQUIRE(more.code == 1);
}

TEST_CASE("a scenario that cannot be counted ends the gate with 1, and is named") {
  for (char const* const broken : {"exit 0", "echo '==1== Collected : 1'; exit 134"}) {
    Ran const ran = Stand{broken}.counted();
    REQUIRE(has(ran, "nothing is counted for"));
    REQUIRE(has(ran, "program bounded 16384'"));
    REQUIRE(ran.code == 1);
  }
}
