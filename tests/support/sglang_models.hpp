// Models as SGLang's arithmetic takes them.
#pragma once

#include <kvbudget/size/sglang.hpp>

/// Attention alike in every layer; a test makes the rest of it.
constexpr kvbudget::sglang::Model attention(std::uint32_t count, std::uint32_t heads, std::uint32_t dim, kvbudget::Tokens context = {131'072}) {
  return {.hidden_layers = count,
          .attention_layers = count,
          .total_kv_heads = heads,
          .swa_total_kv_heads = heads,
          .head_dim = dim,
          .value_dim = dim,
          .swa_head_dim = dim,
          .swa_value_dim = dim,
          .context = context};
}
