// GGUF metadata, read as a stream: keys, values and tensor descriptions, without the weights and without the vocabulary.
//
// Layout and hazards: facts/llama_cpp.md section 10. Every length is held against the bytes that are left before anything is
// read or allocated, so a hostile file is refused at the cost of what it really contains. Verdicts are llama.cpp's own, and
// stricter in one place: a tensor whose element count overflows 64 bits is refused, where llama.cpp accepts it by wrapping.
#pragma once

#include <kvbudget/core/rounding.hpp>
#include <kvbudget/read/refusal.hpp>

#include <array>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <istream>
#include <map>
#include <optional>
#include <unordered_set>
#include <vector>

namespace kvbudget::inline v1::read {

enum class GgufType : std::uint8_t { u8, i8, u16, i16, u32, i32, f32, boolean, string, array, u64, i64, f64 };

/// Bytes of a value; 0 for strings and arrays.
inline constexpr std::array<std::uint8_t, 13> gguf_type_bytes{1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};

struct GgufValue {
  GgufType type{};
  GgufType element{};     // of an array
  std::uint64_t count{};  // elements of an array
  std::int64_t number{};  // whole numbers and booleans
  std::string text{};
  std::vector<std::int64_t> numbers{};  // of an array of whole numbers or booleans, where it is kept
};

struct GgufFile {
  std::uint32_t version{};
  std::uint64_t keys{};
  std::uint64_t tensors{};
  std::uint64_t alignment{32};
  std::uint64_t data_offset{};
  std::uint64_t tensor_bytes{};                            // what the described tensors take, of this file
  std::map<std::string, GgufValue, std::less<>> values{};  // but the tokenizer's
  std::unordered_set<std::string> tensor_names{};
};

namespace detail {

struct GgmlType {
  std::uint16_t elements;  // of a block; 0: a type that was removed
  std::uint16_t bytes;
};
/// ggml's tensor types, by number.
inline constexpr std::array<GgmlType, 43> ggml_types{{
    {1, 4},     {1, 2},     {32, 18},   {32, 20},   {0, 0},     {0, 0},    {32, 22},  {32, 24},  {32, 34},  {32, 36},  {256, 84},
    {256, 110}, {256, 144}, {256, 176}, {256, 210}, {256, 292}, {256, 66}, {256, 74}, {256, 98}, {256, 50}, {32, 18},  {256, 110},
    {256, 82},  {256, 136}, {1, 1},     {1, 2},     {1, 4},     {1, 8},    {1, 8},    {256, 56}, {1, 2},    {0, 0},    {0, 0},
    {0, 0},     {256, 54},  {256, 66},  {0, 0},     {0, 0},     {0, 0},    {32, 17},  {64, 36},  {128, 18}, {128, 34},
}};

class GgufParser {
 public:
  GgufParser(std::istream& in, std::uint64_t bytes, std::string input) : in_{in}, left_{bytes}, size_{bytes}, input_{std::move(input)} {}

  GgufFile parse() {
    header();
    for (std::uint64_t i = 0; i < file_.keys; ++i) pair();
    align();
    for (std::uint64_t i = 0; i < file_.tensors; ++i) tensor();
    std::uint64_t const at = size_ - left_;
    file_.data_offset = file_.tensors == 0 ? at : saturating_multiply(ceil_div(at, file_.alignment), file_.alignment);
    return std::move(file_);
  }

 private:
  static constexpr std::uint64_t longest = std::uint64_t{1} << 30;  // llama.cpp's bound on strings and arrays
  static constexpr std::uint64_t most_kept = 4'096;                 // numbers of an array that are kept: one a layer, and room to spare
  static constexpr std::uint64_t longest_kept = 4'096;              // characters of a text that are kept

  [[noreturn]] void refuse(std::string field, std::string value, std::string accepted) const {
    throw Error{{input_, std::move(field), std::move(value), std::move(accepted), "check the file, or convert the model again"}};
  }
  [[noreturn]] void cut_off(std::string const& where) const {
    refuse(where, "longer than the file", "at most the bytes that are left (" + std::to_string(left_) + ")");
  }

  void bytes(void* to, std::uint64_t n, std::string const& where) {
    if (n > left_) cut_off(where);
    in_.read(static_cast<char*>(to), static_cast<std::streamsize>(n));
    if (static_cast<std::uint64_t>(in_.gcount()) != n) cut_off(where);
    left_ -= n;
  }
  void skip(std::uint64_t n, std::string const& where) {
    if (n > left_) cut_off(where);
    if (n < 4'096)
      in_.ignore(static_cast<std::streamsize>(n));  // inside the stream's buffer: a vocabulary is many short strings
    else
      in_.seekg(static_cast<std::streamoff>(n), std::ios::cur);
    left_ -= n;
  }
  template <class Number>
  Number number(std::string const& where) {
    std::array<unsigned char, sizeof(Number)> raw;
    bytes(raw.data(), raw.size(), where);
    std::uint64_t value = 0;
    for (std::size_t i = raw.size(); i-- > 0;) value = value << 8 | raw[i];  // little-endian, whatever the machine
    return static_cast<Number>(value);
  }
  std::uint64_t length(std::string const& where, std::uint64_t most = longest) {
    auto const n = number<std::uint64_t>(where);
    if (n > most) refuse(where, "of length " + std::to_string(n), "a length of at most " + std::to_string(most));
    if (n > left_) cut_off(where);
    return n;
  }
  std::string string(std::string const& where, std::uint64_t most = longest) {
    std::string text(length(where, most), '\0');
    bytes(text.data(), text.size(), where);
    return text;
  }

  void header() {
    std::array<char, 4> magic{};
    bytes(magic.data(), magic.size(), "magic");
    if (std::memcmp(magic.data(), "GGUF", 4) != 0) refuse("magic", "not GGUF", "a GGUF file");
    file_.version = number<std::uint32_t>("version");
    if ((file_.version & 0xffff) == 0) refuse("version", "big-endian (or 0)", "a little-endian file of version 2 or 3");
    if (file_.version != 2 && file_.version != 3) refuse("version", std::to_string(file_.version), "2, 3");
    file_.tensors = counted("n_tensors");
    file_.keys = counted("n_kv");
  }
  /// A count cannot be negative, nor more than the bytes that are left: each takes some.
  std::uint64_t counted(char const* where) {
    auto const n = number<std::int64_t>(where);
    if (n < 0) refuse(where, std::to_string(n), "0 or more");
    if (static_cast<std::uint64_t>(n) > left_) cut_off(where);
    return static_cast<std::uint64_t>(n);
  }

  GgufType type(std::string const& where) {
    auto const raw = number<std::int32_t>(where);
    if (raw < 0 || raw >= static_cast<std::int32_t>(gguf_type_bytes.size())) refuse(where, "of type " + std::to_string(raw), "types 0 to 12");
    return static_cast<GgufType>(raw);
  }
  std::int64_t whole(GgufType of, std::string const& where) {
    switch (of) {
      case GgufType::u8:
        return number<std::uint8_t>(where);
      case GgufType::i8:
        return number<std::int8_t>(where);
      case GgufType::u16:
        return number<std::uint16_t>(where);
      case GgufType::i16:
        return number<std::int16_t>(where);
      case GgufType::u32:
        return number<std::uint32_t>(where);
      case GgufType::i32:
        return number<std::int32_t>(where);
      case GgufType::boolean:
        return number<std::uint8_t>(where) != 0;
      case GgufType::u64:
      case GgufType::i64:
        return number<std::int64_t>(where);
      default:
        skip(gguf_type_bytes[static_cast<std::size_t>(of)], where);
        return 0;
    }
  }

  void pair() {
    std::string key = string("key");
    if (key.empty()) refuse("key", "empty", "a name");
    if (!seen_.insert(key).second) refuse(shown(key), "there twice", "each key once");
    GgufValue value{.type = type(shown(key))};
    bool const keep = key.rfind("tokenizer.", 0) != 0;
    if (value.type == GgufType::array)
      array(value, shown(key), keep);
    else if (value.type == GgufType::string)
      text(value, shown(key), keep);
    else
      value.number = whole(value.type, shown(key));
    if (keep) file_.values.emplace(std::move(key), std::move(value));
  }
  void text(GgufValue& value, std::string const& where, bool keep) {
    std::uint64_t const n = length(where);
    if (!keep || n > longest_kept) return skip(n, where);
    value.text.resize(n);
    bytes(value.text.data(), n, where);
  }
  void array(GgufValue& value, std::string const& where, bool keep) {
    value.element = type(where);
    if (value.element == GgufType::array) refuse(where, "an array of arrays", "an array of numbers, booleans or strings");
    value.count = length(where);
    std::uint64_t const each = gguf_type_bytes[static_cast<std::size_t>(value.element)];
    if (each == 0) {
      if (saturating_multiply(value.count, 8) > left_) cut_off(where);
      for (std::uint64_t i = 0; i < value.count; ++i) skip(length(where), where);
      return;
    }
    if (saturating_multiply(value.count, each) > left_) cut_off(where);
    bool const numbers = value.element != GgufType::f32 && value.element != GgufType::f64;
    if (!keep || !numbers || value.count > most_kept) return skip(value.count * each, where);
    value.numbers.reserve(value.count);
    for (std::uint64_t i = 0; i < value.count; ++i) value.numbers.push_back(whole(value.element, where));
  }

  void align() {
    auto const found = file_.values.find("general.alignment");
    if (found == file_.values.end()) return;
    if (found->second.type != GgufType::u32) refuse("general.alignment", "not a u32", "a u32");
    auto const alignment = static_cast<std::uint64_t>(found->second.number);
    if (alignment == 0 || (alignment & (alignment - 1)) != 0) refuse("general.alignment", std::to_string(alignment), "a power of two");
    file_.alignment = alignment;
  }

  void tensor() {
    std::string name = string("tensor name", 63);
    std::string const where = "tensor " + shown(name);

    auto const dims = number<std::uint32_t>(where);
    if (dims > 4) refuse(where, "of " + std::to_string(dims) + " dimensions", "0 to 4 dimensions");
    std::uint64_t elements = 1, row = 1;
    for (std::uint32_t i = 0; i < dims; ++i) {
      auto const dim = number<std::int64_t>(where);
      if (dim < 0) refuse(where, "of a negative dimension", "dimensions of 0 or more");
      if (i == 0) row = static_cast<std::uint64_t>(dim);
      elements = saturating_multiply(elements, static_cast<std::uint64_t>(dim));
    }
    if (elements > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()))
      refuse(where, "of more than 2^63 elements", "a count of elements that 63 bits hold");
    auto const type = number<std::int32_t>(where);
    if (type < 0 || type >= static_cast<std::int32_t>(ggml_types.size()) || ggml_types[static_cast<std::size_t>(type)].elements == 0)
      refuse(where, "of type " + std::to_string(type), "a ggml type in use");
    auto const& of = ggml_types[static_cast<std::size_t>(type)];
    if (row % of.elements != 0) refuse(where, "of rows of " + std::to_string(row), "rows of whole blocks of " + std::to_string(of.elements));
    auto const offset = number<std::uint64_t>(where);
    if (offset != next_offset_)
      refuse(where, "at offset " + std::to_string(offset), "offset " + std::to_string(next_offset_) + ", behind the tensor before it");
    std::uint64_t const size = saturating_multiply(elements / of.elements, of.bytes);
    file_.tensor_bytes = saturating_add(file_.tensor_bytes, size);
    next_offset_ = saturating_add(next_offset_, saturating_multiply(ceil_div(size, file_.alignment), file_.alignment));
    if (!file_.tensor_names.insert(std::move(name)).second) refuse(where, "there twice", "each tensor once");
  }

  /// A name as an error shows it: short.
  static std::string shown(std::string const& name) { return name.size() <= 80 ? name : name.substr(0, 77) + "..."; }

  std::istream& in_;
  std::uint64_t left_;
  std::uint64_t size_;
  std::string input_;
  GgufFile file_{};
  std::unordered_set<std::string> seen_{};
  std::uint64_t next_offset_{};
};

}  // namespace detail

/// From a stream of `bytes` bytes; `input` names it in errors. Throws Error.
inline GgufFile gguf(std::istream& in, std::uint64_t bytes, std::string const& input) { return detail::GgufParser{in, bytes, input}.parse(); }

/// From a file. Throws Error.
inline GgufFile gguf(std::filesystem::path const& path) {
  std::ifstream in{path, std::ios::binary};
  std::error_code wrong;
  bool const regular = std::filesystem::is_regular_file(path, wrong);
  std::uint64_t const bytes = regular ? static_cast<std::uint64_t>(std::filesystem::file_size(path, wrong)) : 0;
  if (!regular || wrong || !in)
    throw Error{{path.string(), "", std::filesystem::is_directory(path) ? "a directory" : "not readable", "a GGUF file",
                 "name the file, of a split model the first shard"}};
  return gguf(in, bytes, path.string());
}

/// The same, with the refusal as a value.
inline Result<GgufFile> try_gguf(std::filesystem::path const& path) {
  return attempt([&] { return gguf(path); });
}

}  // namespace kvbudget::inline v1::read
