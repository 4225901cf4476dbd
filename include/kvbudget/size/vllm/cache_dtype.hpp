// vLLM's --kv-cache-dtype: its names, and what one head's K and V of one token take in each (facts: vllm.md A3-A7).
//
//   bf16                  (K + V) x 2                 head dim 128: 512 bytes
//   fp8                   (K + V) x 1                 the per-tensor scales live outside the cache
//   int8_per_token_head   (K + V) x 1 + 2 x 4         one fp32 scale for K, one for V
//   nvfp4                 K/2 + K/16 + V/2 + V/16     144 bytes
//   turboquant_k8v4       K + 4V/8 + 4, even          196 bytes
//   fp8_ds_mla            656 per latent token (DeepSeek-V3.2), 584 (DeepSeek-V4)
#pragma once

#include <kvbudget/core/dtype.hpp>

#include <optional>
#include <string_view>

namespace kvbudget::inline v1::vllm {

enum class CacheDType : std::uint8_t {
  automatic,  // the model's
  float16,
  bfloat16,
  fp8,
  fp8_e4m3,
  fp8_e5m2,
  fp8_inc,
  fp8_ds_mla,
  int8_per_token_head,
  fp8_per_token_head,
  int4_per_token_head,
  nvfp4,
  nvfp4_4over6,
  turboquant_k8v4,
  turboquant_4bit_nc,
  turboquant_k3v4_nc,
  turboquant_3bit_nc
};

struct NamedCacheDType {
  std::string_view name;
  CacheDType dtype;
};

/// The values --kv-cache-dtype takes (A3).
inline constexpr NamedCacheDType cache_dtypes[] = {
    {"auto", CacheDType::automatic},
    {"float16", CacheDType::float16},
    {"bfloat16", CacheDType::bfloat16},
    {"fp8", CacheDType::fp8},
    {"fp8_e4m3", CacheDType::fp8_e4m3},
    {"fp8_e5m2", CacheDType::fp8_e5m2},
    {"fp8_inc", CacheDType::fp8_inc},
    {"fp8_ds_mla", CacheDType::fp8_ds_mla},
    {"int8_per_token_head", CacheDType::int8_per_token_head},
    {"fp8_per_token_head", CacheDType::fp8_per_token_head},
    {"int4_per_token_head", CacheDType::int4_per_token_head},
    {"nvfp4", CacheDType::nvfp4},
    {"nvfp4_4over6", CacheDType::nvfp4_4over6},
    {"turboquant_k8v4", CacheDType::turboquant_k8v4},
    {"turboquant_4bit_nc", CacheDType::turboquant_4bit_nc},
    {"turboquant_k3v4_nc", CacheDType::turboquant_k3v4_nc},
    {"turboquant_3bit_nc", CacheDType::turboquant_3bit_nc},
};

/// The dtype of a --kv-cache-dtype; none for a name vLLM does not know.
constexpr std::optional<CacheDType> find_cache_dtype(std::string_view name) {
  for (auto const& known : cache_dtypes)
    if (known.name == name) return known.dtype;
  return std::nullopt;
}

/// Torch's type of what is stored.
enum class Element : std::uint8_t { bfloat16, float16, float32, uint8, int8 };

constexpr std::uint64_t bytes_of(Element element) {
  switch (element) {
    case Element::bfloat16:
    case Element::float16:
      return 2;
    case Element::float32:
      return 4;
    case Element::uint8:
    case Element::int8:
      return 1;
  }
  return saturated_count;
}

constexpr bool is_float(Element element) { return element != Element::uint8 && element != Element::int8; }

constexpr bool is_turboquant(CacheDType dtype) { return dtype >= CacheDType::turboquant_k8v4; }
constexpr bool is_nvfp4(CacheDType dtype) { return dtype == CacheDType::nvfp4 || dtype == CacheDType::nvfp4_4over6; }
constexpr bool is_plain_fp8(CacheDType dtype) { return dtype >= CacheDType::fp8 && dtype <= CacheDType::fp8_inc; }
constexpr bool is_quantised(CacheDType dtype) { return dtype > CacheDType::bfloat16; }

/// What is stored under a dtype; the model's own element where it is automatic.
constexpr Element element_of(CacheDType dtype, Element of_model) {
  if (dtype == CacheDType::automatic) return of_model;
  if (dtype == CacheDType::float16) return Element::float16;
  if (dtype == CacheDType::bfloat16) return Element::bfloat16;
  return dtype == CacheDType::int8_per_token_head ? Element::int8 : Element::uint8;
}

namespace detail {

constexpr std::uint64_t packed(std::uint64_t elements, std::uint64_t bits) { return ceil_div(saturating_multiply(elements, bits), std::uint64_t{8}); }

/// Bits and further bytes of turboquant's keys and values.
struct TurboQuant {
  std::uint64_t key_bits, key_extra, value_bits, value_extra;
};
constexpr TurboQuant turboquant(CacheDType dtype) {
  if (dtype == CacheDType::turboquant_k8v4) return {8, 0, 4, 4};
  if (dtype == CacheDType::turboquant_4bit_nc) return {4, 2, 4, 4};
  if (dtype == CacheDType::turboquant_k3v4_nc) return {3, 2, 4, 4};
  return {3, 2, 3, 4};
}

}  // namespace detail

/// A4: a scale for K and one for V beside the elements of each head and token. A key without a value (MLA, A7) has 8 bytes, too.
constexpr Bytes per_token_head_bytes(CacheDType dtype, std::uint64_t key, std::uint64_t value) {
  bool const packed = dtype == CacheDType::int4_per_token_head;
  return Bytes{packed ? key / 2 + value / 2 : key + value} + Bytes{8};
}

/// A5: packed fp4, and one fp8 scale for 16 elements; K or V alone.
constexpr Bytes nvfp4_bytes(std::uint64_t width) { return {width / 2 + width / 16}; }

/// A6: head dim 128 takes 196, 134, 118 or 102 bytes.
constexpr Bytes turboquant_bytes(CacheDType dtype, std::uint64_t width) {
  auto const bits = detail::turboquant(dtype);
  Tokens const odd{detail::packed(width, bits.key_bits) + bits.key_extra + detail::packed(width, bits.value_bits) + bits.value_extra};
  return {round_up(odd, Tokens{2}).count};
}

static_assert(turboquant_bytes(CacheDType::turboquant_k8v4, 128) == Bytes{196} && turboquant_bytes(CacheDType::turboquant_4bit_nc, 128) == Bytes{134});
static_assert(turboquant_bytes(CacheDType::turboquant_k3v4_nc, 128) == Bytes{118} && turboquant_bytes(CacheDType::turboquant_3bit_nc, 128) == Bytes{102});

/// A7: a latent token of FlashMLA's sparse layout.
inline constexpr Bytes fp8_ds_mla_bytes{656};
/// A9: a latent entry of DeepSeek-V4: 448 + 128 + 8.
inline constexpr Bytes deepseek_v4_bytes{584};

}  // namespace kvbudget::inline v1::vllm
