// Reads one line of a log by the forms of read/log_forms.hpp: no regular expressions, no recursion on the text, no allocation
// but for the figures that are found.
//
// A figure keeps what was printed and the whole numbers that would print so: "12.20 GiB" is 13'094'281'544 to 13'105'018'961 bytes.
#pragma once

#include <kvbudget/core/units.hpp>
#include <kvbudget/read/log_forms.hpp>

#include <array>
#include <string>
#include <vector>

namespace kvbudget::inline v1::read {

struct Figure {
  Quantity quantity{};
  std::uint64_t low{};  // of a count the count itself; of a number with decimals, in millionths; of a text 0
  std::uint64_t high{};
  std::string printed{};  // "12.20 GiB", "456,816", "q8_0"
};

namespace detail {

constexpr bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r'; }
constexpr bool is_digit(char c) { return c >= '0' && c <= '9'; }
constexpr bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

/// The text that is left to be read.
struct Cursor {
  std::string_view text;
  std::size_t at{};

  constexpr bool done() const { return at >= text.size(); }
  constexpr char peek(std::size_t ahead = 0) const { return at + ahead < text.size() ? text[at + ahead] : '\0'; }
  constexpr void skip_blanks() {
    while (is_blank(peek())) ++at;
  }
  constexpr std::string_view since(std::size_t from) const { return text.substr(from, at - from); }
};

enum class Outcome : std::uint8_t { no, yes, unreadable, too_large };

/// A printed number: 12.20 is whole 12, part 20, of 100.
struct Number {
  std::uint64_t whole{};
  std::uint64_t part{};
  std::uint64_t of{1};  // 10 to the number of decimals, of which six are read
  bool cut{};           // there were more
};

/// "," between groups of three digits.
constexpr bool at_separator(Cursor const& in, std::size_t digits_before) {
  return in.peek() == ',' && digits_before >= 1 && digits_before <= 3 && is_digit(in.peek(1)) && is_digit(in.peek(2)) && is_digit(in.peek(3)) &&
         !is_digit(in.peek(4));
}

constexpr Outcome read_whole(Cursor& in, std::uint64_t& whole) {
  if (!is_digit(in.peek())) return Outcome::unreadable;
  std::size_t digits = 0;
  whole = 0;
  for (; is_digit(in.peek()) || at_separator(in, digits); ++in.at) {
    if (in.peek() == ',') {
      digits = 0;
      continue;
    }
    whole = saturating_add(saturating_multiply(whole, 10), static_cast<std::uint64_t>(in.peek() - '0'));
    ++digits;
  }
  return whole == saturated_count ? Outcome::too_large : Outcome::yes;
}

constexpr Outcome read_number(Cursor& in, Number& number) {
  if (auto const outcome = read_whole(in, number.whole); outcome != Outcome::yes) return outcome;
  if (in.peek() != '.' || !is_digit(in.peek(1))) return Outcome::yes;
  for (++in.at; is_digit(in.peek()); ++in.at) {
    number.cut = number.of == 1'000'000;
    if (number.cut) continue;
    number.part = number.part * 10 + static_cast<std::uint64_t>(in.peek() - '0');
    number.of *= 10;
  }
  return Outcome::yes;
}

/// A number that is rounded to `decimals` and printed without the zeros at its end has those decimals all the same.
constexpr void show_decimals(Number& number, std::uint64_t decimals) {
  for (std::uint64_t of = 10; decimals > 0; --decimals, of *= 10)
    if (number.of < of) number.part *= 10, number.of *= 10;
}

/// The whole numbers of 1/unit that print as `number`: within half of its last decimal. Unreadable where there is none ("0.0001 KiB").
constexpr Outcome interval(Number const& number, std::uint64_t unit, Figure& figure) {
  std::uint64_t const whole = saturating_multiply(number.whole, unit);
  if (number.of == 1) {
    figure.low = figure.high = whole;
  } else {
    std::uint64_t const twice = 2 * number.of;  // at most 2^21, and a unit is at most 2^40
    std::uint64_t const up = (2 * number.part + (number.cut ? 2 : 1)) * unit / twice;
    std::uint64_t const below = number.cut ? 2 * number.part : saturating_subtract(2 * number.part, 1);
    bool const borrows = number.part == 0 && !number.cut && whole != 0;
    figure.low = borrows ? whole - unit / twice : saturating_add(whole, below * unit / twice + (below * unit % twice != 0));
    figure.high = saturating_add(whole, up);
  }
  if (figure.low > figure.high) return Outcome::unreadable;
  return figure.high >= std::uint64_t{1} << 63 ? Outcome::too_large : Outcome::yes;
}

struct LogUnit {
  std::string_view name;
  std::uint64_t bytes;
};
inline constexpr LogUnit log_units[] = {
    {"", 1},
    {"B", 1},
    {"bytes", 1},
    {"KB", std::uint64_t{1} << 10},
    {"KiB", std::uint64_t{1} << 10},
    {"MB", std::uint64_t{1} << 20},
    {"MiB", std::uint64_t{1} << 20},
    {"GB", std::uint64_t{1} << 30},
    {"GiB", std::uint64_t{1} << 30},
    {"TB", std::uint64_t{1} << 40},
    {"TiB", std::uint64_t{1} << 40},
};

/// Where less than nothing is left (vLLM: "-1.26 GiB"), it is nothing.
constexpr Outcome read_bytes(Cursor& in, std::uint64_t decimals, Figure& figure) {
  bool const negative = in.peek() == '-';
  if (negative) ++in.at;
  Number number{};
  if (auto const outcome = read_number(in, number); outcome != Outcome::yes) return outcome;
  Cursor word = in;
  word.skip_blanks();
  std::size_t const from = word.at;
  while (is_letter(word.peek())) ++word.at;
  for (auto const& unit : log_units) {
    if (unit.name != word.since(from)) continue;
    if (unit.bytes == 1 && number.of != 1) return Outcome::unreadable;  // part of a byte
    if (!unit.name.empty()) in = word;
    show_decimals(number, unit.bytes == 1 ? 0 : decimals);
    auto const outcome = interval(number, unit.bytes, figure);
    if (negative) figure.low = figure.high = 0;
    return outcome;
  }
  return Outcome::unreadable;
}

constexpr Outcome read_count(Cursor& in, bool in_units_of_1024, Figure& figure) {
  auto const outcome = read_whole(in, figure.low);
  if (outcome != Outcome::yes) return outcome;
  if (in.peek() == '.' && is_digit(in.peek(1))) return Outcome::unreadable;
  if (in_units_of_1024) {
    if (in.peek() != 'K') return Outcome::unreadable;
    ++in.at;
    figure.low = saturating_multiply(figure.low, 1'024);
  }
  figure.high = figure.low;
  return figure.low >= std::uint64_t{1} << 63 ? Outcome::too_large : Outcome::yes;
}

constexpr Outcome read_decimal(Cursor& in, Figure& figure) {
  Number number{};
  if (auto const outcome = read_number(in, number); outcome != Outcome::yes) return outcome;
  return interval(number, 1'000'000, figure);
}

/// A word: up to a blank or to what the form has next.
constexpr Outcome read_word(Cursor& in, char next) {
  constexpr std::size_t longest = 64;
  std::size_t const from = in.at;
  while (!in.done() && !is_blank(in.peek()) && in.peek() != next && in.at - from < longest) ++in.at;
  return in.at == from ? Outcome::unreadable : Outcome::yes;
}

/// A figure's name and how the form says it is written: "{available:2}".
struct Slot {
  FigureName const* name{};
  std::uint64_t decimals{};
  bool in_units_of_1024{};
};

/// Reads "{name}" of a form, at its brace; `form` moves behind it. No name: a form with a mistake in it.
constexpr Slot slot_at(Cursor& form) {
  std::size_t const end = form.text.find('}', form.at);
  if (end == std::string_view::npos) return {};
  std::string_view inside = form.text.substr(form.at + 1, end - form.at - 1);
  Slot slot{};
  if (std::size_t const colon = inside.find(':'); colon != std::string_view::npos) {
    char const how = inside[colon + 1];
    slot.in_units_of_1024 = how == 'K';
    slot.decimals = is_digit(how) ? static_cast<std::uint64_t>(how - '0') : 0;
    inside = inside.substr(0, colon);
  }
  for (auto const& known : figure_names)
    if (known.name == inside) slot.name = &known;
  form.at = end + 1;
  return slot;
}

constexpr bool begins_slot(Cursor const& form) { return form.peek() == '{' && form.peek(1) >= 'a' && form.peek(1) <= 'z'; }
constexpr bool is_special(Cursor const& form) { return begins_slot(form) || form.peek() == '*' || form.peek() == '<' || form.peek() == '>'; }

/// Reads a form's plain text, up to its next figure, group or "*"; false where the line says something else.
constexpr bool match_literal(Cursor& form, Cursor& line) {
  for (; !form.done() && !is_special(form); ++form.at) {
    if (form.peek() == ' ') {
      line.skip_blanks();
    } else {
      if (line.done() || line.peek() != form.peek()) return false;
      ++line.at;
    }
  }
  return true;
}

/// Whether the form's own beginning stands here: another line's worth of it.
constexpr bool begins_again(Cursor const& form, Cursor line) {
  Cursor beginning{form.text};
  return line.peek() == beginning.peek() && match_literal(beginning, line);
}

/// Moves `line` to the nearest place where the form's text behind its "*" stands, before the form's beginning stands again.
constexpr bool skip_to_literal(Cursor& form, Cursor& line) {
  constexpr std::size_t reach = 512;
  ++form.at;
  bool const any = form.done() || is_special(form) || form.peek() == ' ';
  for (std::size_t skipped = 0; skipped <= reach && line.at <= line.text.size(); ++skipped, ++line.at) {
    if (begins_again(form, line)) return false;
    if (!any && line.peek() != form.peek()) continue;
    Cursor form_there = form, line_there = line;
    if (!match_literal(form_there, line_there)) continue;
    form = form_there;
    line = line_there;
    return true;
  }
  return false;
}

inline Outcome read_figure(Cursor& form, Cursor& line, std::vector<Figure>& figures) {
  Slot const slot = slot_at(form);
  if (slot.name == nullptr) return Outcome::unreadable;
  Figure figure{.quantity = slot.name->quantity};
  line.skip_blanks();
  std::size_t const from = line.at;
  Outcome outcome{};
  switch (slot.name->scale) {
    case Scale::count:
      outcome = read_count(line, slot.in_units_of_1024, figure);
      break;
    case Scale::bytes:
      outcome = read_bytes(line, slot.decimals, figure);
      break;
    case Scale::decimal:
      outcome = read_decimal(line, figure);
      break;
    case Scale::text:
      outcome = read_word(line, form.done() ? ' ' : form.peek());
      break;
  }
  figure.printed = line.since(from);
  if (outcome == Outcome::yes) figures.push_back(std::move(figure));
  return outcome;
}

/// Reads a form up to its end or to the end of a group.
inline Outcome match_run(Cursor& form, Cursor& line, std::vector<Figure>& figures, bool& known);

/// A group is read where its text stands; where its text stands and its figure can't be read, the line can't be.
inline Outcome match_group(Cursor& form, Cursor& line, std::vector<Figure>& figures) {
  ++form.at;
  Cursor line_there = line;
  std::size_t const before = figures.size();
  bool known = false;
  Outcome const outcome = match_run(form, line_there, figures, known);
  form.at = form.text.find('>', form.at) + 1;
  if (outcome == Outcome::yes || outcome == Outcome::too_large) {
    line = line_there;
    return outcome;
  }
  figures.resize(before);
  return outcome == Outcome::unreadable && known ? outcome : Outcome::yes;
}

inline Outcome match_run(Cursor& form, Cursor& line, std::vector<Figure>& figures, bool& known) {
  while (!form.done() && form.peek() != '>') {
    Outcome outcome = Outcome::yes;
    if (begins_slot(form)) {
      outcome = read_figure(form, line, figures);
    } else if (form.peek() == '<') {
      outcome = match_group(form, line, figures);
    } else if (std::size_t const from = line.at; form.peek() == '*' ? skip_to_literal(form, line) : match_literal(form, line)) {
      for (char const c : line.since(from)) known = known || !is_blank(c);
    } else {
      outcome = Outcome::no;
    }
    if (outcome != Outcome::yes) return outcome;
  }
  return Outcome::yes;
}

constexpr bool is_shared(LogForm const& form) { return form.text.front() == '~'; }
constexpr std::string_view body(LogForm const& form) { return is_shared(form) ? form.text.substr(1) : form.text; }

/// Tries a form at a place of a line, which moves behind what was read, or behind a number that does not fit. `no`: the line is not
/// known by this form's text.
inline Outcome match_form(LogForm const& of, Cursor& line, std::vector<Figure>& figures) {
  Cursor form{body(of)}, line_there = line;
  figures.clear();
  if (!match_literal(form, line_there)) return Outcome::no;
  bool known = true;
  Outcome const outcome = match_run(form, line_there, figures, known);
  if (outcome == Outcome::yes || outcome == Outcome::too_large) line = line_there;
  return outcome == Outcome::no ? Outcome::unreadable : outcome;
}

/// True for a form whose figures all have a name, whose groups are closed, and which says something.
constexpr bool is_well_formed(LogForm const& of) {
  if (of.text.empty() || body(of).empty()) return false;
  int open = 0, figures = 0;
  for (Cursor form{body(of)}; !form.done();) {
    if (begins_slot(form)) {
      if (slot_at(form).name == nullptr) return false;
      ++figures;
      continue;
    }
    open += form.peek() == '<' ? 1 : form.peek() == '>' ? -1 : 0;
    if (open < 0 || open > 1) return false;
    ++form.at;
  }
  return open == 0 && figures > 0;
}

constexpr bool all_well_formed() {
  for (auto const& form : log_forms)
    if (!is_well_formed(form)) return false;
  return true;
}
static_assert(all_well_formed(), "a form has a figure without a name, or a group that is not closed");

inline constexpr std::size_t form_count = sizeof(log_forms) / sizeof(log_forms[0]);

/// The forms that may begin with a character, in the order of the table: first[c] to first[c + 1] of `forms`. A form that begins with
/// a figure may begin with any digit.
struct FormIndex {
  std::array<std::uint16_t, 257> first{};
  std::array<std::uint16_t, 10 * form_count> forms{};
};

constexpr char first_of(LogForm const& form) { return begins_slot({body(form)}) ? '0' : body(form).front(); }
constexpr char last_of(LogForm const& form) { return begins_slot({body(form)}) ? '9' : body(form).front(); }

constexpr FormIndex index_forms() {
  FormIndex index{};
  std::array<std::uint16_t, 256> wanted{};
  for (auto const& form : log_forms)
    for (char c = first_of(form); c <= last_of(form); ++c) ++wanted[static_cast<unsigned char>(c)];
  for (std::size_t c = 0; c < 256; ++c) index.first[c + 1] = static_cast<std::uint16_t>(index.first[c] + wanted[c]);
  auto next = index.first;
  for (std::uint16_t i = 0; i < form_count; ++i)
    for (char c = first_of(log_forms[i]); c <= last_of(log_forms[i]); ++c) index.forms[next[static_cast<unsigned char>(c)]++] = i;
  return index;
}
inline constexpr FormIndex form_index = index_forms();

}  // namespace detail
}  // namespace kvbudget::inline v1::read
