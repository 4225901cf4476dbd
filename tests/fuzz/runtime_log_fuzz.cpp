// libFuzzer: any bytes given as a log are read; never a crash, never a figure whose interval is empty or does not hold what it printed.
#include <kvbudget/read/runtime_log.hpp>

#include <cstdlib>
#include <sstream>

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
  std::string const text{reinterpret_cast<char const*>(data), size};
  auto const log = kvbudget::read::runtime_log_text(text);
  for (auto const& line : log.lines) {
    if (line.number == 0 || line.number > log.line_count || line.figures.empty()) std::abort();
    for (auto const& figure : line.figures)
      if (figure.low > figure.high || figure.high >= std::uint64_t{1} << 63 || figure.printed.empty()) std::abort();
  }
  for (auto const& line : log.unread)
    if (line.refusal("fuzz").message().find('\n') != std::string::npos) std::abort();
  std::istringstream in{text};
  auto const again = kvbudget::read::runtime_log(in);
  if (again.lines.size() != log.lines.size() || again.unread.size() != log.unread.size() || again.line_count != log.line_count) std::abort();
  return 0;
}
