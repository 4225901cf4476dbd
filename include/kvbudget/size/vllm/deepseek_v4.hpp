// DeepSeek-V4's layers (facts: vllm.md A9): a window of latents, compressed ones behind it, their indexer, the compressors' states.
//
//   window 64-token blocks, 584 bytes a token (fp8_ds_mla), else 512 elements; compressed: a stored entry for 4 or 128 tokens;
//   compressor state fp32: ratio 4: block 4, window 8, 4 x 512 elements a token; ratio 128: block 8, window 128, 2 x 512
// Every page is rounded up to 576 bytes (fp8_ds_mla) or 512.
#pragma once

#include <kvbudget/size/vllm/conversion.hpp>

namespace kvbudget::inline v1::vllm::detail {

constexpr Bytes v4_alignment(CacheDType dtype) { return dtype == CacheDType::fp8_ds_mla ? Bytes{576} : Bytes{512}; }

constexpr LayerSpec v4_aligned(LayerSpec spec, CacheDType dtype) {
  spec.alignment = v4_alignment(dtype);
  spec.padded = aligned_page(spec);
  return spec;
}

/// (i) the window's latents in blocks of 64, (ii) compressed ones in the model's blocks.
constexpr LayerSpec v4_latent_spec(Part const& part, CacheDType dtype, Conversion const& how) {
  bool const window = part.keeps == Keeps::window;
  LayerSpec spec = without_dtype(window ? SpecKind::sliding_window_mla : SpecKind::mla, part, how);
  set_dtype(spec, dtype, how.model_dtype);
  if (dtype == CacheDType::fp8_ds_mla) spec.content = deepseek_v4_bytes;
  if (window) {
    spec.block = Tokens{64};
    spec.window = part.span;
  } else {
    spec.compress_ratio = part.tokens_per_entry;
    if (spec.block.count % part.tokens_per_entry != 0)
      how.complain(".block_size", spec.block.count, "a multiple of the 4 or 128 tokens behind a compressed entry", "leave --block-size out: it is 256");
  }
  return v4_aligned(spec, dtype);
}

/// (iii) the compressor's state: an fp32 window of what it has not yet compressed.
constexpr LayerSpec v4_compressor_spec(std::uint32_t width, std::uint32_t ratio, CacheDType dtype, Conversion const& how) {
  bool const overlaps = ratio == 4;
  if (ratio != 4 && ratio != 128) how.complain(".tokens_per_entry", ratio, "4 or 128 tokens behind a compressed entry", "vLLM has no layout for another ratio");
  LayerSpec spec{.kind = SpecKind::sliding_window_mla, .block = Tokens{overlaps ? 4U : 8U}, .element = Element::float32};
  spec.head_size = width * (overlaps ? 4 : 2);
  spec.window = Tokens{overlaps ? 8U : 128U};
  spec.by_block_stride = how.options.pages_by_block_stride;
  return v4_aligned(spec, dtype);
}

constexpr bool is_v4(Layer const& layer) {
  for (auto const& part : layer.parts)
    if (part.kind == PartKind::latent && part.keeps == Keeps::window) return true;
  return false;
}

/// Compressed latents and their indexer, the window, the compressor: the order in which vLLM makes them.
constexpr void append_v4(std::vector<LayerSpec>& specs, Layer const& layer, CacheDType dtype, Conversion const& how) {
  if (is_plain_fp8(dtype)) dtype = CacheDType::fp8_ds_mla;
  if (is_quantised(dtype) && dtype != CacheDType::fp8_ds_mla)
    how.complain(".kv_cache_dtype", static_cast<std::uint64_t>(dtype), "for compressed latents: auto, bfloat16, float16, fp8*, fp8_ds_mla",
                 "choose fp8_ds_mla");
  Part compressed{}, window{};
  for (auto const& part : layer.parts) {
    if (part.kind == PartKind::latent) (part.keeps == Keeps::window ? window : compressed) = part;
  }
  if (compressed.width != 0) specs.push_back(v4_latent_spec(compressed, dtype, how));
  for (auto part : layer.parts) {
    if (part.kind != PartKind::indexer) continue;
    if (!part.dtype.is_set()) part.dtype = indexer_dtype(part.width);
    specs.push_back(v4_aligned(indexer_spec(part, how), dtype));
    specs.push_back(v4_compressor_spec(part.width, part.tokens_per_entry, dtype, how));
  }
  specs.push_back(v4_latent_spec(window, dtype, how));
  if (compressed.width != 0) specs.push_back(v4_compressor_spec(compressed.width, compressed.tokens_per_entry, dtype, how));
}

}  // namespace kvbudget::inline v1::vllm::detail
