// One layer of a model as the caches vLLM makes of it, by the cache's dtype (facts: vllm.md A1-A8, A10-A13).
#pragma once

#include <kvbudget/model/model_spec.hpp>
#include <kvbudget/size/vllm/options.hpp>

namespace kvbudget::inline v1::vllm::detail {

/// What the conversion of one layer depends on.
struct Conversion {
  Options const& options;
  DType model_dtype;
  Tokens block{};  // of full attention
  Complaints* complaints;

  constexpr void complain(char const* field, std::uint64_t value, char const* accepted, char const* next) const {
    for (auto const& known : *complaints)
      if (std::string_view{known.field} == field && known.value == value) return;
    complaints->push_back({field, value, accepted, next});
  }
};

/// The torch type of a plain dtype.
constexpr Element element_of(DType dtype) {
  if (dtype.bytes_per_group == 4) return Element::float32;
  return dtype.bytes_per_group == 2 ? Element::bfloat16 : Element::uint8;
}
constexpr bool is_torch_type(DType dtype) {
  bool const plain = dtype.elements_per_group == 1 && dtype.bytes_per_vector == 0;
  return plain && (dtype.bytes_per_group == 1 || dtype.bytes_per_group == 2 || dtype.bytes_per_group == 4);
}

/// A3: the dtype that is meant: an fp8 model keeps an fp8 cache.
constexpr CacheDType meant(CacheDType flag, DType model_dtype) {
  return flag == CacheDType::automatic && model_dtype.bytes_per_group == 1 ? CacheDType::fp8 : flag;
}

/// What is stored, and how it is quantised: the names of fp8 mean one thing, those of plain types are none.
constexpr void set_dtype(LayerSpec& spec, CacheDType dtype, DType model_dtype) {
  spec.element = vllm::element_of(dtype, element_of(model_dtype));
  spec.cache_dtype = is_plain_fp8(dtype) ? CacheDType::fp8 : is_quantised(dtype) ? dtype : CacheDType::automatic;
}

constexpr LayerSpec without_dtype(SpecKind kind, Part const& part, Conversion const& how) {
  return {.kind = kind, .block = how.block, .kv_heads = part.heads, .head_size = part.width, .by_block_stride = how.options.pages_by_block_stride};
}

/// A3 to A6: keys and values under the cache's dtype.
constexpr void store_keys_and_values(LayerSpec& spec, CacheDType dtype, Conversion const& how) {
  set_dtype(spec, dtype, how.model_dtype);
  bool const alike = spec.head_size == spec.head_size_v;
  if (is_turboquant(dtype) || is_nvfp4(dtype)) {
    if (!alike || spec.head_size % 16 != 0)
      how.complain(".kv_cache_dtype", spec.head_size, "nvfp4 and turboquant: keys and values of one width, a multiple of 16", "choose fp8, or leave it out");
    if (is_nvfp4(dtype)) spec.head_slots = 2 * spec.kv_heads;
    spec.content = is_nvfp4(dtype) ? nvfp4_bytes(spec.head_size) : turboquant_bytes(dtype, spec.head_size);
  } else if (dtype == CacheDType::int8_per_token_head || dtype == CacheDType::fp8_per_token_head || dtype == CacheDType::int4_per_token_head) {
    spec.content = per_token_head_bytes(dtype, spec.head_size, spec.head_size_v);
  } else if (dtype == CacheDType::fp8_ds_mla) {
    how.complain(".kv_cache_dtype", spec.head_size, "fp8_ds_mla: latent attention only", "choose fp8");
  }
}

/// A7: a latent and its rotary key, one vector, on every rank.
constexpr void store_latent(LayerSpec& spec, CacheDType dtype, bool sparse, Conversion const& how) {
  if (sparse && is_plain_fp8(dtype)) dtype = CacheDType::fp8_ds_mla;
  set_dtype(spec, dtype, how.model_dtype);
  if (dtype == CacheDType::fp8_ds_mla)
    spec.content = fp8_ds_mla_bytes;
  else if (dtype == CacheDType::int8_per_token_head || dtype == CacheDType::fp8_per_token_head || dtype == CacheDType::int4_per_token_head)
    spec.content = per_token_head_bytes(dtype, spec.head_size, 0);
  else if (is_nvfp4(dtype) || is_turboquant(dtype))
    how.complain(".kv_cache_dtype", spec.head_size, "for latent attention: auto, bfloat16, float16, fp8*, fp8_ds_mla, *_per_token_head",
                 "choose fp8: nvfp4 and turboquant have no latent layout");
}

/// A part's own dtype, whatever the cache's: torch's types as such, so that equal layers merge, others by their bytes.
constexpr void store_by_own_dtype(LayerSpec& spec, Part const& part, Conversion const& how) {
  DType const dtype = part.dtype.is_set() ? part.dtype : how.model_dtype;
  if (is_torch_type(dtype)) return set_dtype(spec, meant(CacheDType::automatic, dtype), dtype);
  spec.element = Element::uint8;
  spec.content = vector_bytes(dtype, part.width);
}

/// K and V of their own dtypes, a draft model's for example.
constexpr void store_by_own_dtypes(LayerSpec& spec, Part const& key, Part const& value, Conversion const& how) {
  store_by_own_dtype(spec, key, how);
  if (key.dtype == value.dtype && spec.content == Bytes{}) return;
  spec.content = vector_bytes(key.dtype_in(how.model_dtype), key.width) + vector_bytes(value.dtype_in(how.model_dtype), value.width);
}

/// A8: the indexer's keys, a cache of their own beside the layer's.
constexpr LayerSpec indexer_spec(Part const& part, Conversion const& how) {
  LayerSpec spec = without_dtype(SpecKind::mla, part, how);
  store_by_own_dtype(spec, part, how);
  spec.compress_ratio = part.tokens_per_entry;
  return spec;
}

/// A10: the convolution has the cache's dtype for states, the recurrent state its own.
constexpr Element state_element(Part const& part, Conversion const& how) {
  auto const& flag = part.kind == PartKind::conv_state ? how.options.mamba_cache_dtype : how.options.mamba_ssm_cache_dtype;
  if (flag) return *flag;
  if (!is_torch_type(part.dtype)) how.complain(".dtype", part.dtype.bytes_per_group, "of a state: 1, 2 or 4 bytes an element", "give the state's own dtype");
  return element_of(part.dtype);
}

/// A10: states; a convolution that keeps drafted tokens is longer by them.
constexpr LayerSpec state_spec(Layer const& layer, Conversion const& how) {
  LayerSpec spec{.kind = SpecKind::mamba, .block = how.block, .mamba_mode = mamba_mode(how.options)};
  spec.speculative_blocks = how.options.num_speculative_tokens;
  if (spec.mamba_mode == MambaMode::none) spec.block = how.options.max_model_len;
  for (auto const& part : layer.parts) {
    if (part.kind != PartKind::conv_state && part.kind != PartKind::state) continue;
    std::uint64_t const width = std::uint64_t{part.width} + (part.keeps_drafts ? how.options.num_speculative_tokens : 0);
    spec.states.push_back({saturating_multiply(part.heads, width), state_element(part, how), part.heads});
  }
  return spec;
}

/// A1, A13: keys and values that every token, a window or a chunk keeps.
constexpr LayerSpec attention_spec(Part const& key, Part const& value, CacheDType dtype, Conversion const& how) {
  LayerSpec spec = without_dtype(SpecKind::full_attention, key, how);
  spec.head_size_v = value.width;
  if (key.keeps == Keeps::window) {
    spec.kind = SpecKind::sliding_window;
    spec.window = key.span;
    spec.block = how.options.kernel_block;
  } else if (key.keeps == Keeps::chunk) {
    spec.kind = SpecKind::chunked_local;
    spec.chunk = key.span;
  } else if (key.kind == PartKind::cross_key) {
    spec.kind = SpecKind::cross_attention;
    spec.encoder = Tokens{key.entries};
  }
  if (key.dtype.is_set() || value.dtype.is_set()) {
    store_by_own_dtypes(spec, key, value, how);
  } else {
    store_keys_and_values(spec, dtype, how);
  }
  return spec;
}

}  // namespace kvbudget::inline v1::vllm::detail
