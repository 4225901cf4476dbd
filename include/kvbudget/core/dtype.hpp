// What a vector of n elements costs in the cache: bytes per group of elements, plus bytes per vector.
//
// bytes = n / elements_per_group x bytes_per_group + bytes_per_vector; n must fill its groups. That covers plain types, llama.cpp's block
// types (q8_0: 34 bytes per 32 elements), nvfp4 (9 per 16: eight bytes of nibbles and one fp8 scale) and vLLM's
// per-token-head types (one fp32 scale per vector), all exactly and in whole bytes.
// vector_bytes(q8_0, 128) is 136 bytes; vector_bytes(nvfp4, 128) is 72.
#pragma once

#include <kvbudget/core/rounding.hpp>

namespace kvbudget::inline v1 {

struct DType {
  std::uint16_t elements_per_group{1};
  std::uint16_t bytes_per_group{};  // 0: not set
  std::uint16_t bytes_per_vector{};

  constexpr bool is_set() const { return bytes_per_group != 0 && elements_per_group != 0; }
  friend constexpr bool operator==(DType, DType) = default;
};

/// A plain type of n bytes an element, 1 to 65'535; anything else is a dtype that is not set, which check() names.
constexpr DType bytes_per_element(Count auto n) { return {.bytes_per_group = as_count(n) <= 65'535 ? static_cast<std::uint16_t>(n) : std::uint16_t{0}}; }

inline constexpr DType fp32 = bytes_per_element(4);
inline constexpr DType fp16 = bytes_per_element(2);
inline constexpr DType bf16 = bytes_per_element(2);
inline constexpr DType fp8 = bytes_per_element(1);
inline constexpr DType int8 = bytes_per_element(1);

// llama.cpp's cache types (ggml block sizes; facts: llama_cpp.md section 1).
inline constexpr DType q8_0{.elements_per_group = 32, .bytes_per_group = 34};
inline constexpr DType q5_1{.elements_per_group = 32, .bytes_per_group = 24};
inline constexpr DType q5_0{.elements_per_group = 32, .bytes_per_group = 22};
inline constexpr DType q4_1{.elements_per_group = 32, .bytes_per_group = 20};
inline constexpr DType q4_0{.elements_per_group = 32, .bytes_per_group = 18};
inline constexpr DType iq4_nl = q4_0;

// vLLM's (facts: vllm.md A4, A5).
inline constexpr DType nvfp4{.elements_per_group = 16, .bytes_per_group = 9};
inline constexpr DType fp8_per_token_head{.bytes_per_group = 1, .bytes_per_vector = 4};
inline constexpr DType int8_per_token_head = fp8_per_token_head;
inline constexpr DType int4_per_token_head{.elements_per_group = 2, .bytes_per_group = 1, .bytes_per_vector = 4};

/// True when vectors of n elements fill whole groups; a dtype whose groups do not divide the vector is refused.
constexpr bool divides(DType dtype, std::uint64_t n) { return dtype.is_set() && n % dtype.elements_per_group == 0; }

/// Bytes of one K or V vector of n elements. The maximum when the dtype is not set or its groups do not divide n.
constexpr Bytes vector_bytes(DType dtype, std::uint64_t n) {
  if (!divides(dtype, n)) return Bytes::max();
  return Bytes{dtype.bytes_per_group} * (n / dtype.elements_per_group) + Bytes{dtype.bytes_per_vector};
}

}  // namespace kvbudget::inline v1
