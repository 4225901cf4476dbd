// A JSON file, and its fields, through one accessor that checks null, type, sign and range, and names what it refuses.
//
// nlohmann's own conversions turn -5 into 4294967291 and true into 1; these do not. A null is an absent key, as in every
// Hugging Face file.
#pragma once

#include <kvbudget/read/refusal.hpp>

#include <nlohmann/json.hpp>

#include <cctype>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <string_view>

namespace kvbudget::inline v1::read {

using Json = nlohmann::json;

namespace detail {

/// A value as an error message shows it: short, however long it is.
inline std::string shown(Json const& value) {
  std::string text = value.is_object() ? "an object" : value.is_array() ? "a list" : value.dump(-1, ' ', false, Json::error_handler_t::replace);
  if (text.size() > 60) text = text.substr(0, 57) + "...";
  return text;
}

}  // namespace detail

/// The whole text of a regular, non-empty file. Throws Error.
inline std::string file_text(std::filesystem::path const& path) {
  auto const refuse = [&](std::string value, std::string next) -> void { throw Error{{path.string(), "", std::move(value), "a JSON file", std::move(next)}}; };
  std::error_code ignored;
  auto const status = std::filesystem::status(path, ignored);
  if (std::filesystem::is_directory(status)) refuse("a directory", "name the file in it, for example " + (path / "config.json").string());
  if (!std::filesystem::exists(status)) refuse("not there", "check the path");
  if (!std::filesystem::is_regular_file(status)) refuse("not a regular file", "name a file");
  std::ifstream in{path, std::ios::binary};
  if (!in) refuse("not readable", "check its permissions");
  std::string text{std::istreambuf_iterator<char>{in}, {}};
  if (text.find_first_not_of(" \t\r\n") == std::string::npos) refuse("empty", "download it again, or name another file");
  return text;
}

/// Python writes Infinity, -Infinity and NaN where JSON has no such number (hf_config.md J1). They become null, as do numbers
/// too large for any type; what stands in strings stays.
inline std::string without_non_numbers(std::string_view text) {
  std::string clean;
  clean.reserve(text.size());
  for (std::size_t i = 0; i < text.size();) {
    char const c = text[i];
    if (c == '"') {
      std::size_t end = i + 1;
      while (end < text.size() && text[end] != '"') end += text[end] == '\\' ? 2 : 1;
      end = std::min(end + 1, text.size());
      clean += text.substr(i, end - i);
      i = end;
    } else if (std::isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '+' || c == '.') {
      std::size_t end = i;
      while (end < text.size() && (std::isalnum(static_cast<unsigned char>(text[end])) || text[end] == '-' || text[end] == '+' || text[end] == '.')) ++end;
      std::string const word{text.substr(i, end - i)};
      bool const named = word == "Infinity" || word == "-Infinity" || word == "NaN";
      bool const numeric = std::isdigit(static_cast<unsigned char>(word.back())) && word.find_first_not_of("0123456789+-.eE") == std::string::npos;
      clean += named || (numeric && std::isinf(std::strtod(word.c_str(), nullptr))) ? "null" : word;
      i = end;
    } else {
      clean += c;
      ++i;
    }
  }
  return clean;
}

/// Parses text as JSON, Python's non-numbers included. Throws Error that says where it stops being JSON.
inline Json parse_json(std::string_view text, std::string const& input) {
  auto json = Json::parse(text, nullptr, false);
  if (!json.is_discarded()) return json;
  try {
    return Json::parse(without_non_numbers(text));
  } catch (Json::exception const&) {
  }
  try {
    return Json::parse(text);
  } catch (Json::parse_error const& error) {
    throw Error{{input, "", "not JSON (byte " + std::to_string(error.byte) + ")", "a JSON object", "check the file where it stops being JSON"}};
  } catch (Json::exception const&) {
    throw Error{{input, "", "not JSON", "a JSON object", "check the file"}};
  }
}

/// The fields of one JSON object. The object outlives this.
class Fields {
 public:
  /// Throws Error when it is not an object.
  Fields(Json const& object, std::string input, std::string path = "") : object_{&object}, input_{std::move(input)}, path_{std::move(path)} {
    if (!object.is_object()) throw Error{{input_, path_, detail::shown(object), "a JSON object", "check that this is the right file"}};
  }

  /// The value of a key; null when it is absent or null.
  Json const* find(std::string_view key) const {
    auto const found = object_->find(std::string{key});
    return found == object_->end() || found->is_null() ? nullptr : &*found;
  }
  bool has(std::string_view key) const { return find(key) != nullptr; }

  /// A whole number in [least, most]. Throws Error when the key is absent, or is anything else.
  std::uint64_t count(std::string_view key, std::uint64_t least, std::uint64_t most) const {
    auto const found = count_if(key, least, most);
    if (!found) throw missing(key, whole_number(least, most));
    return *found;
  }
  std::optional<std::uint64_t> count_if(std::string_view key, std::uint64_t least, std::uint64_t most) const {
    auto const* value = find(key);
    if (!value) return std::nullopt;
    bool const whole = value->is_number_unsigned() || (value->is_number_integer() && value->get<std::int64_t>() >= 0);
    if (!whole || value->get<std::uint64_t>() < least || value->get<std::uint64_t>() > most)
      throw refuse(key, *value, whole_number(least, most), "correct the field; text and fractions are not numbers here");
    return value->get<std::uint64_t>();
  }

  std::string text(std::string_view key) const {
    auto found = text_if(key);
    if (!found) throw missing(key, "a text");
    return *std::move(found);
  }
  std::optional<std::string> text_if(std::string_view key) const {
    auto const* value = find(key);
    if (!value) return std::nullopt;
    if (!value->is_string()) throw refuse(key, *value, "a text", "correct the field");
    return value->get<std::string>();
  }

  bool flag_or(std::string_view key, bool otherwise) const {
    auto const* value = find(key);
    if (!value) return otherwise;
    if (!value->is_boolean()) throw refuse(key, *value, "true or false", "correct the field");
    return value->get<bool>();
  }

  std::optional<Fields> object_if(std::string_view key) const {
    auto const* value = find(key);
    if (!value) return std::nullopt;
    return Fields{*value, input_, name(key)};
  }

  Json const& list(std::string_view key) const {
    auto const* value = find(key);
    if (!value) throw missing(key, "a list");
    if (!value->is_array()) throw refuse(key, *value, "a list", "correct the field");
    return *value;
  }

  /// Refuses every key that is not in `known`: a misspelt one is not lost.
  template <class Keys>
  void only(Keys const& known) const {
    std::string accepted;
    for (std::string_view const key : known) accepted += (accepted.empty() ? "" : ", ") + std::string{key};
    for (auto const& item : object_->items()) {
      bool found = false;
      for (std::string_view const key : known) found = found || item.key() == key;
      if (!found) throw refuse(item.key(), item.value(), accepted, "remove or rename the key " + item.key());
    }
  }

  Error refuse(std::string_view key, Json const& value, std::string accepted, std::string next) const {
    return Error{{input_, name(key), detail::shown(value), std::move(accepted), std::move(next)}};
  }
  Error missing(std::string_view key, std::string accepted) const {
    return Error{{input_, name(key), "missing or null", std::move(accepted), "add the field"}};
  }

  std::string const& input() const { return input_; }
  std::string name(std::string_view key) const { return path_.empty() ? std::string{key} : path_ + "." + std::string{key}; }

 private:
  static std::string whole_number(std::uint64_t least, std::uint64_t most) {
    return "a whole number from " + std::to_string(least) + " to " + std::to_string(most);
  }

  Json const* object_;
  std::string input_;
  std::string path_;
};

}  // namespace kvbudget::inline v1::read
