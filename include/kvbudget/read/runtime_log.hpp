// A server's log: which runtime it is of, and every figure about its cache that it printed.
//
//   auto const log = kvbudget::read::runtime_log("server.log");
//   log.runtime();                          Runtime::vllm_v1
//   log.last(Quantity::tokens)->low;        456'816, from "GPU KV cache size: 456,816 tokens"
//   log.least(Quantity::available)->low;    what the rank with least memory had, when the server was started last
// Any text goes: whole logs with noise, several processes and ranks, colours, timestamps, CRLF, lines quoted in an issue. It is read
// line by line, so that its size does not matter. Line forms: read/log_forms.hpp. A line that is known and cannot be read, or whose
// number does not fit, is in `unread` with its number; so is a line of more than 64 KiB, of which the beginning is read.
#pragma once

#include <kvbudget/read/log_matcher.hpp>
#include <kvbudget/read/refusal.hpp>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <istream>
#include <optional>

namespace kvbudget::inline v1::read {

/// What one form read in one line.
struct LogLine {
  std::uint64_t number{};  // of the line, from 1
  Runtime runtime{};
  std::string_view form{};
  std::string process{};  // "Worker_TP0 pid=250", "DP0 TP0 EP0": who printed it, where the line says
  std::uint32_t run{};    // of the server's starts in this log, from 0
  std::vector<Figure> figures{};

  Figure const* find(Quantity quantity) const {
    for (auto const& figure : figures)
      if (figure.quantity == quantity) return &figure;
    return nullptr;
  }
};

/// A line that looks like one that is known, and was not read.
struct UnreadLine {
  std::uint64_t number{};
  std::string text{};  // from where it looks so, at most 200 characters
  std::string why{};

  Refusal refusal(std::string const& input) const {
    return {input, "line " + std::to_string(number), "\"" + text + "\"", why, "look at the line; if it is a new form, add a row to read/log_forms.hpp"};
  }
};

struct RuntimeLog {
  std::vector<LogLine> lines{};
  std::vector<UnreadLine> unread{};
  std::uint64_t line_count{};
  std::uint64_t lost{};  // readings beyond the first 65'536, which are not kept

  /// How often the server was started in this log, as far as its lines tell: anew where a process prints its memory for the cache
  /// after what the cache holds was printed (of SGLang a pool after max_total_num_tokens). Never of llama.cpp and Ollama.
  std::uint32_t runs() const { return lines.empty() ? 0 : lines.back().run + 1; }

  /// The runtime whose log it is: of several, the one that embeds the others; unknown where no line was known.
  Runtime runtime() const {
    Runtime first = Runtime::unknown;
    for (auto const& line : lines) first = std::min(first, line.runtime);
    return first;
  }

  /// Every figure of a kind, in the order of the log.
  std::vector<Figure> all(Quantity quantity) const {
    std::vector<Figure> found;
    for (auto const& line : lines)
      for (auto const& figure : line.figures)
        if (figure.quantity == quantity) found.push_back(figure);
    return found;
  }

  /// The last one printed: what holds, where a server was started again.
  std::optional<Figure> last(Quantity quantity) const {
    auto const found = all(quantity);
    return found.empty() ? std::nullopt : std::optional{found.back()};
  }

  /// The smallest one of the last start that printed any: of ranks, the one that binds.
  std::optional<Figure> least(Quantity quantity) const {
    std::optional<Figure> found;
    std::uint32_t run = 0;
    for (auto const& line : lines)
      for (auto const& figure : line.figures) {
        if (figure.quantity != quantity) continue;
        if (!found || line.run != run || figure.low < found->low) found = figure;
        run = line.run;
      }
    return found;
  }
};

namespace detail {

/// Colours and other escape sequences out: ESC [ ... letter; of a sequence that is cut, the ESC.
inline void strip_escapes(std::string& line) {
  std::size_t kept = 0;
  for (std::size_t i = 0; i < line.size(); ++i) {
    if (line[i] != '\x1b') {
      line[kept++] = line[i];
      continue;
    }
    if (i + 1 >= line.size() || line[i + 1] != '[') continue;
    std::size_t end = i + 2;
    while (end < line.size() && (is_digit(line[end]) || line[end] == ';' || line[end] == '?')) ++end;
    if (end < line.size() && is_letter(line[end])) i = end;
  }
  line.resize(kept);
}

/// "pid=250", "rank=0", "rank0", " TP0": what tells a process or a rank from others.
constexpr std::string_view process_signs[] = {"pid=", " DP", " TP", " PP", "gpu_id=", "gpu=", "rank=", "rank"};

/// Where one stands, with its digit; the end of the text where none does.
inline std::size_t process_sign(std::string_view inside) {
  for (auto const sign : process_signs)
    if (std::size_t const at = inside.find(sign); at != std::string_view::npos && is_digit(Cursor{inside, at + sign.size()}.peek()))
      return sign[0] == ' ' ? at + 1 : 0;
  return inside.size();
}

/// The first "(...)" or "[...]" that names a process or a rank, near the beginning of a line.
inline std::string process_of(std::string_view line) {
  constexpr std::size_t longest = 80;
  line = line.substr(0, 5 * longest);
  for (std::size_t open = line.find_first_of("(["); open < 4 * longest; open = line.find_first_of("([", open + 1)) {
    std::size_t const close = line.find(line[open] == '(' ? ')' : ']', open);
    if (close == std::string_view::npos || close - open > longest) continue;
    std::string_view const inside = line.substr(open + 1, close - open - 1);
    if (std::size_t const at = process_sign(inside); at < inside.size()) return std::string{inside.substr(at)};
  }
  return {};
}

/// The same without its pid, which another start of the server changes.
inline std::string rank_of(std::string process) {
  if (std::size_t const at = process.find("pid="); at != std::string::npos) {
    std::size_t end = at + 4;
    while (end < process.size() && is_digit(process[end])) ++end;
    process.erase(at, end - at);
  }
  return process;
}

/// Whose lines tell when a server starts: a process that prints its memory for the cache, after what the cache holds was printed, has
/// been started again. Of SGLang the pools come first and the sum of their tokens last; llama.cpp's lines do not tell.
constexpr bool tells_starts(Runtime runtime) { return runtime != Runtime::llama_cpp && runtime != Runtime::ik_llama_cpp && runtime != Runtime::ollama; }
inline bool opens_start(LogLine const& line) {
  if (!tells_starts(line.runtime)) return false;
  if (line.runtime != Runtime::sglang) return line.find(Quantity::available) != nullptr;
  return line.find(Quantity::key_bytes) || line.find(Quantity::key_value_bytes) || line.find(Quantity::conv_bytes);
}
inline bool closes_start(LogLine const& line) {
  if (!tells_starts(line.runtime) || opens_start(line)) return false;
  if (line.runtime == Runtime::sglang) return line.find(Quantity::max_length) != nullptr;
  return line.find(Quantity::tokens) || line.find(Quantity::blocks) || line.find(Quantity::concurrency);
}

/// Counts a server's starts, line by line.
class Starts {
 public:
  std::uint32_t run_of(LogLine const& line) {
    ++read_;
    if (opens_start(line)) open(rank_of(line.process));
    if (closes_start(line)) closed_ = read_;
    return run_;
  }

 private:
  struct Opened {
    std::string process;
    std::uint64_t at;
  };

  void open(std::string process) {
    constexpr std::size_t most_processes = 512;  // of one server
    auto const known = std::find_if(opened_.begin(), opened_.end(), [&](auto const& one) { return one.process == process; });
    if (known != opened_.end() && known->at > closed_) return;
    if (known != opened_.end()) {
      ++run_;
      opened_.clear();
      closed_ = 0;
    }
    if (opened_.size() < most_processes) opened_.push_back({std::move(process), read_});
  }

  std::vector<Opened> opened_;  // by whom, in this run
  std::uint64_t read_{}, closed_{};
  std::uint32_t run_{};
};

class LogReader {
 public:
  RuntimeLog finish() { return std::move(log_); }

  void read(std::string& line, bool cut) {
    ++log_.line_count;
    process_.reset();
    strip_escapes(line);
    if (cut) complain(line, "a line of at most 64 KiB; the rest of it is not read");
    for (Cursor at{line}; !at.done();)
      if (!read_here(at)) ++at.at;
  }

 private:
  static constexpr std::size_t most_kept = 65'536;

  /// Tries the forms at one place; true, and behind what it read, where one of them is known here.
  bool read_here(Cursor& line) {
    auto const c = static_cast<unsigned char>(line.peek());
    std::size_t const from = line.at;
    std::string_view complaint{};
    for (std::size_t i = form_index.first[c]; i < form_index.first[c + std::size_t{1}]; ++i) {
      LogForm const& form = log_forms[form_index.forms[i]];
      if (is_digit(line.peek()) && from > 0 && in_number(line.text[from - 1])) continue;  // not in the middle of a number
      switch (match_form(form, line, figures_)) {
        case Outcome::yes:
          keep(form, line.text);
          return true;
        case Outcome::too_large:
          complain(line.text.substr(from), "a number below 2^63");
          return true;
        case Outcome::unreadable:
          if (complaint.empty() && !is_shared(form)) complaint = form.text;
          break;
        case Outcome::no:
          break;
      }
    }
    if (!complaint.empty()) complain(line.text.substr(from), "a line like " + std::string{complaint});
    return false;
  }

  static bool in_number(char c) { return is_digit(c) || c == ',' || c == '.'; }

  void keep(LogForm const& form, std::string_view line) {
    if (log_.lines.size() == most_kept) {
      ++log_.lost;
      return;
    }
    if (!process_) process_ = process_of(line);
    log_.lines.push_back({.number = log_.line_count, .runtime = form.runtime, .form = form.text, .process = *process_, .figures = figures_});
    log_.lines.back().run = starts_.run_of(log_.lines.back());
  }

  void complain(std::string_view text, std::string why) {
    constexpr std::size_t longest = 200;
    if (log_.unread.size() == most_kept) {
      ++log_.lost;
      return;
    }
    log_.unread.push_back({log_.line_count, std::string{text.substr(0, longest)}, std::move(why)});
  }

  RuntimeLog log_;
  Starts starts_;
  std::vector<Figure> figures_;
  std::optional<std::string> process_;  // of the line, once it is asked for
};

/// The next line, of which at most `longest` characters are kept; false at the end of the text.
inline bool next_line(std::istream& in, std::string& line, bool& cut) {
  constexpr std::size_t longest = 65'536;
  line.clear();
  cut = false;
  auto* const buffer = in.rdbuf();
  for (int c = buffer->sbumpc();; c = buffer->sbumpc()) {
    if (c == std::char_traits<char>::eof()) return !line.empty();
    if (c == '\n') return true;
    cut = line.size() == longest;
    if (!cut) line.push_back(static_cast<char>(c));
  }
}

}  // namespace detail

/// Reads a log from a stream, to its end. Nothing is refused: what is not known is left out, what is known and not read is in `unread`.
inline RuntimeLog runtime_log(std::istream& in) {
  detail::LogReader reader;
  std::string line;
  for (bool cut = false; detail::next_line(in, line, cut);) reader.read(line, cut);
  return reader.finish();
}

/// The same, of a text.
inline RuntimeLog runtime_log_text(std::string_view text) {
  detail::LogReader reader;
  for (std::size_t from = 0; from < text.size();) {
    std::size_t const end = std::min(text.find('\n', from), text.size());
    bool const cut = end - from > 65'536;
    std::string line{text.substr(from, cut ? 65'536 : end - from)};
    reader.read(line, cut);
    from = end + 1;
  }
  return reader.finish();
}

/// From a file. Throws Error for one that is not readable, and for one without any line that is known.
inline RuntimeLog runtime_log(std::filesystem::path const& path) {
  std::ifstream in{path, std::ios::binary};
  std::error_code wrong;
  bool const directory = std::filesystem::is_directory(path, wrong);
  if (!in || directory) throw Error{{path.string(), "", directory ? "a directory" : "not readable", "a server's log", "name the file"}};
  RuntimeLog log = runtime_log(in);
  if (log.lines.empty() && !log.unread.empty()) throw Error{log.unread[0].refusal(path.string())};
  if (log.lines.empty())
    throw Error{{path.string(), "", "a text of " + std::to_string(log.line_count) + " lines without a figure of a cache",
                 "a log of vLLM, SGLang, TensorRT-LLM, llama.cpp, Ollama, LMDeploy, MLC-LLM or TGI", "give the log from the server's start, at level INFO"}};
  return log;
}

/// The same, with the refusal as a value.
inline Result<RuntimeLog> try_runtime_log(std::filesystem::path const& path) {
  return attempt([&] { return runtime_log(path); });
}

}  // namespace kvbudget::inline v1::read
