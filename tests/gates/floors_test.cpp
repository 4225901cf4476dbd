// The house's floors: who may include whom, and which standard headers.
#include "catch.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <vector>

namespace {

namespace fs = std::filesystem;
using Names = std::set<std::string>;

fs::path const include_dir = fs::path{KVBUDGET_SOURCE_DIR} / "include" / "kvbudget";

struct Header {
  std::string name;    // "core/units.hpp"
  std::string folder;  // "core"; empty for the door
  Names ours;          // headers of ours that it includes
  Names others;
};

std::vector<Header> headers() {
  std::vector<Header> all;
  for (auto const& entry : fs::recursive_directory_iterator{include_dir}) {
    if (!entry.is_regular_file()) continue;
    Header header{.name = fs::relative(entry.path(), include_dir).generic_string(), .folder = {}, .ours = {}, .others = {}};
    if (auto const slash = header.name.find('/'); slash != std::string::npos) header.folder = header.name.substr(0, slash);
    std::ifstream in{entry.path()};
    for (std::string line; std::getline(in, line);) {
      if (line.rfind("#include", 0) != 0) continue;
      auto const from = line.find_first_of("<\"") + 1;
      auto const target = line.substr(from, line.find_first_of(">\"", from) - from);
      if (target.rfind("kvbudget/", 0) == 0)
        header.ours.insert(target.substr(9));
      else
        header.others.insert(target);
    }
    all.push_back(std::move(header));
  }
  return all;
}

std::string folder_of(std::string const& name) { return name.substr(0, name.find('/')); }

std::map<std::string, Names> const sees{
    {"core", {"core"}},
    {"model", {"core", "model"}},
    {"size", {"core", "model", "size"}},
    {"admit", {"core", "admit"}},
    {"share", {"core", "share"}},
    {"simulate", {"core", "model", "size", "admit", "share", "simulate"}},
    {"sync", {"core", "model", "size", "admit", "share", "simulate", "sync"}},
    {"read", {"core", "model", "size", "admit", "share", "simulate", "sync", "read"}},
    {"write", {"core", "model", "size", "admit", "share", "simulate", "sync", "write"}},
    {"", {"core", "model", "size", "admit"}},
};

Names const core_standard{"cassert", "compare", "concepts", "cstddef", "cstdint", "initializer_list", "limits", "type_traits", "utility"};

Names with(Names names, Names const& more) {
  names.insert(more.begin(), more.end());
  return names;
}

std::map<std::string, Names> const standard{
    {"core", core_standard},
    {"model", with(core_standard, {"array", "span", "string_view"})},
    {"size", with(core_standard, {"array", "span", "string_view"})},
    {"admit", with(core_standard, {"array", "span", "string_view", "vector", "queue"})},
    {"share", with(core_standard, {"array", "span", "string_view", "vector", "queue"})},
    {"", {}},
};

/// Not behind the door, so it may include more.
bool is_runtime_profile(std::string const& name) {
  if (name.rfind("admit/policies/", 0) == 0) return name != "admit/policies/recommended.hpp";
  for (std::string const runtime : {"vllm", "sglang", "tensorrt_llm", "llama_cpp"})
    if (name == "size/" + runtime + ".hpp" || name.rfind("size/" + runtime + "/", 0) == 0) return true;
  return false;
}

}  // namespace

TEST_CASE("a header includes only headers of the floors its folder may see") {
  REQUIRE(headers().size() > 20);
  for (auto const& header : headers()) {
    INFO(header.name);
    REQUIRE(sees.contains(header.folder));
    for (auto const& target : header.ours) {
      INFO(target);
      REQUIRE(sees.at(header.folder).contains(folder_of(target)));
      REQUIRE(fs::exists(include_dir / target));
    }
  }
}

TEST_CASE("no header includes itself, however far around") {
  std::map<std::string, Names> reached;
  for (auto const& header : headers()) reached[header.name] = header.ours;
  for (bool grew = true; grew;) {
    grew = false;
    for (auto& [name, targets] : reached)
      for (auto const& target : Names{targets})
        for (auto const& further : reached[target]) grew = targets.insert(further).second || grew;
  }
  for (auto const& [name, targets] : reached) {
    INFO(name);
    REQUIRE_FALSE(targets.contains(name));
  }
}

TEST_CASE("the floors behind the door include the standard headers the design allows, and no others") {
  for (auto const& header : headers()) {
    if (!standard.contains(header.folder) || is_runtime_profile(header.name)) continue;
    for (auto const& target : header.others) {
      INFO(header.name << " includes " << target);
      REQUIRE(standard.at(header.folder).contains(target));
    }
  }
}

TEST_CASE("no test's name holds a semicolon, at which ctest would split it into names that run nothing") {
  for (auto const& entry : fs::recursive_directory_iterator{fs::path{KVBUDGET_SOURCE_DIR} / "tests"}) {
    if (entry.path().extension() != ".cpp") continue;
    std::ifstream in{entry.path()};
    for (std::string line; std::getline(in, line);) {
      INFO(line);
      if (line.rfind("TEST_CASE(", 0) == 0) REQUIRE(line.substr(0, line.rfind('"')).find(';') == std::string::npos);
    }
  }
}

TEST_CASE("the top level holds what the design allows, and dot-files") {
  Names const allowed{"include", "tests", "examples", "cmake", "CMakeLists.txt", "CMakePresets.json", "README.md", "LICENSE", "build"};
  for (auto const& entry : fs::directory_iterator{KVBUDGET_SOURCE_DIR}) {
    auto const name = entry.path().filename().string();
    INFO(name);
    REQUIRE((name[0] == '.' || allowed.contains(name)));
  }
}
