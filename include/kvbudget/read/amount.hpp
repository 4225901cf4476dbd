// Amounts and dtypes as people write them: "80GiB", "16 GB", "8192", "fp8".
#pragma once

#include <kvbudget/core/dtype.hpp>
#include <kvbudget/read/refusal.hpp>

#include <charconv>
#include <cmath>
#include <string_view>

namespace kvbudget::inline v1::read {

struct ByteUnit {
  std::string_view suffix;
  std::uint64_t bytes;
};

inline constexpr ByteUnit byte_units[] = {
    {"B", 1},
    {"KiB", std::uint64_t{1} << 10},
    {"MiB", std::uint64_t{1} << 20},
    {"GiB", std::uint64_t{1} << 30},
    {"TiB", std::uint64_t{1} << 40},
    {"kB", 1'000},
    {"MB", 1'000'000},
    {"GB", 1'000'000'000},
    {"TB", 1'000'000'000'000},
};

/// "80GiB", "12.5 MiB", "80GB" (decimal), "1024B". A unit is required: 80 of what? Throws Error, which names `field`.
inline Bytes bytes(std::string_view text, std::string const& field) {
  auto const refuse = [&] {
    return Error{{"", field, "\"" + std::string{text} + "\"", "a number and a unit: B, KiB, MiB, GiB, TiB (binary) or kB, MB, GB, TB (decimal)",
                  "write for example 80GiB"}};
  };
  double number{};
  auto const [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || !(number >= 0) || !std::isfinite(number)) throw refuse();
  std::string_view suffix = text.substr(static_cast<std::size_t>(end - text.data()));
  while (!suffix.empty() && suffix.front() == ' ') suffix.remove_prefix(1);
  for (auto const& unit : byte_units) {
    if (suffix != unit.suffix) continue;
    double const product = number * static_cast<double>(unit.bytes);
    if (product >= 0x1p63) throw refuse();
    if (number == std::floor(number)) return Bytes{unit.bytes} * static_cast<std::uint64_t>(number);
    return {static_cast<std::uint64_t>(std::floor(product))};
  }
  throw refuse();
}

/// A share of a whole: "0.92" or "92%". Throws Error, which names `field`.
inline Percent share(std::string_view text, std::string const& field) {
  bool const percent = !text.empty() && text.back() == '%';
  std::string_view const digits = percent ? text.substr(0, text.size() - 1) : text;
  double number{};
  auto const [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  double const hundredths = percent ? number : number * 100;
  if (error != std::errc{} || end != digits.data() + digits.size() || !(hundredths >= 0 && hundredths <= 100))
    throw Error{{"", field, "\"" + std::string{text} + "\"", "a fraction from 0 to 1, or a percentage from 0% to 100%", "write for example 0.92 or 92%"}};
  return Percent{hundredths};
}

/// A whole number, as of tokens: "8192". Throws Error, which names `field`.
inline std::uint64_t whole(std::string_view text, std::string const& field, std::uint64_t least = 0, std::uint64_t most = std::uint64_t{1} << 40) {
  std::uint64_t number{};
  auto const [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || end != text.data() + text.size() || number < least || number > most)
    throw Error{{"", field, "\"" + std::string{text} + "\"", "a whole number from " + std::to_string(least) + " to " + std::to_string(most),
                 "write digits only, for example " + std::to_string(least < 8192 && most >= 8192 ? 8192 : least)}};
  return number;
}

struct NamedDType {
  std::string_view name;
  DType dtype;
};

/// Names of cache dtypes as Hugging Face, vLLM and llama.cpp write them.
inline constexpr NamedDType dtype_names[] = {
    {"bf16", bf16},
    {"bfloat16", bf16},
    {"fp16", fp16},
    {"f16", fp16},
    {"float16", fp16},
    {"half", fp16},
    {"fp32", fp32},
    {"f32", fp32},
    {"float32", fp32},
    {"fp8", fp8},
    {"fp8_e4m3", fp8},
    {"fp8_e5m2", fp8},
    {"int8", int8},
    {"q8_0", q8_0},
    {"q5_1", q5_1},
    {"q5_0", q5_0},
    {"q4_1", q4_1},
    {"q4_0", q4_0},
    {"iq4_nl", iq4_nl},
    {"nvfp4", nvfp4},
    {"fp8_per_token_head", fp8_per_token_head},
    {"int8_per_token_head", int8_per_token_head},
    {"int4_per_token_head", int4_per_token_head},
};

/// The dtype of a name. Throws Error with every accepted name, which names `field`.
inline DType dtype(std::string_view name, std::string const& field, std::string const& input = "") {
  std::string accepted;
  for (auto const& known : dtype_names) {
    if (known.name == name) return known.dtype;
    accepted += (accepted.empty() ? "" : ", ") + std::string{known.name};
  }
  throw Error{{input, field, "\"" + std::string{name} + "\"", accepted, "choose one of these"}};
}

}  // namespace kvbudget::inline v1::read
