// From a model's layers and vLLM's flags to the caches vLLM makes of them, stage by stage (facts: vllm.md A, C6, C7, D2).
//
//   KV heads of a rank   max(1, heads / tp)                                                            A2
//   block of a hybrid    align x ceil(state page / (align x attention bytes per token))                 C6
//   layers of a stage    layers / pp; of the remainder, one more to the last stages but the very last   D2
// Qwen3-Next on 4 ranks: states of 274'432 bytes, attention of 1'024 a token: blocks of 272 tokens; with an fp8 cache 544.
#pragma once

#include <kvbudget/model/sharding.hpp>
#include <kvbudget/size/estimate.hpp>
#include <kvbudget/size/vllm/options.hpp>

namespace kvbudget::inline v1::vllm {

struct ModelLayers {
  std::vector<std::vector<LayerSpec>> stages{};
  Options options{};  // what was left open is filled in
  Complaints complaints{};
};

/// C6: the attention block that makes a page of attention at least as large as a state. Raised only, never lowered.
constexpr Tokens hybrid_block(Bytes state_page, Bytes attention_per_token, Tokens align, MambaMode mode, Tokens mamba_chunk) {
  if (mode != MambaMode::all) return align * ceil_div(state_page, attention_per_token * align.count);
  Tokens const chunk{kvbudget::detail::least_common_multiple(mamba_chunk.count, align.count)};
  return round_up(Tokens{ceil_div(state_page, attention_per_token)}, chunk);
}

/// C7: the block at which a quantised page is as large as one kept at the model's dtype.
constexpr Tokens mixed_precision_block(Bytes unquantised_per_token, Bytes quantised_per_token, Tokens kernel_block) {
  return kernel_block * ceil_div(unquantised_per_token, quantised_per_token);
}

namespace detail {

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

constexpr void set_dtype(LayerSpec& spec, CacheDType dtype, DType model_dtype) {
  spec.cache_dtype = dtype;
  spec.element = vllm::element_of(dtype, element_of(model_dtype));
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

/// What a part's own dtype says, whatever the cache's.
constexpr void store_by_own_dtype(LayerSpec& spec, Part const& part, Conversion const& how) {
  DType const dtype = part.dtype.is_set() ? part.dtype : how.model_dtype;
  spec.element = is_torch_type(dtype) ? element_of(dtype) : Element::uint8;
  spec.content = vector_bytes(dtype, part.width);
}

/// A8: the indexer's keys, a cache of their own beside the layer's.
constexpr LayerSpec indexer_spec(Part const& part, Conversion const& how) {
  LayerSpec spec = without_dtype(SpecKind::mla, part, how);
  store_by_own_dtype(spec, part, how);
  spec.compress_ratio = part.tokens_per_entry;
  return spec;
}

/// A10: states; with drafts, the convolution keeps theirs, too.
constexpr LayerSpec state_spec(Layer const& layer, Conversion const& how) {
  LayerSpec spec{.kind = SpecKind::mamba, .block = how.block, .mamba_mode = mamba_mode(how.options)};
  spec.speculative_blocks = how.options.num_speculative_tokens;
  if (spec.mamba_mode == MambaMode::none) spec.block = how.options.max_model_len;
  bool recurs = false;
  for (auto const& part : layer.parts) recurs = recurs || part.kind == PartKind::state;
  for (auto const& part : layer.parts) {
    if (part.kind != PartKind::conv_state && part.kind != PartKind::state) continue;
    bool const drafts = part.kind == PartKind::conv_state && recurs && how.options.speculative_convolution;
    std::uint64_t const width = std::uint64_t{part.width} + (drafts ? how.options.num_speculative_tokens : 0);
    if (!is_torch_type(part.dtype)) how.complain(".dtype", part.dtype.bytes_per_group, "of a state: 1, 2 or 4 bytes an element", "give the state's own dtype");
    spec.states.push_back({saturating_multiply(part.heads, width), element_of(part.dtype)});
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
  }
  if (key.dtype.is_set() || value.dtype.is_set()) {
    store_by_own_dtype(spec, key, how);
    spec.content += vector_bytes(value.dtype.is_set() ? value.dtype : how.model_dtype, value.width);
  } else {
    store_keys_and_values(spec, dtype, how);
  }
  return spec;
}

// ---- A9: DeepSeek-V4 ----

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

// ---- any layer ----

constexpr bool has(Layer const& layer, PartKind kind) {
  for (auto const& part : layer.parts)
    if (part.kind == kind) return true;
  return false;
}

constexpr bool has_state(Layer const& layer) { return has(layer, PartKind::conv_state) || has(layer, PartKind::state); }

/// All the caches of one layer on one rank.
constexpr void append_layer(std::vector<LayerSpec>& specs, Layer const& layer, CacheDType dtype, Conversion const& how) {
  if (has_state(layer)) specs.push_back(state_spec(layer, how));
  if (is_v4(layer)) return append_v4(specs, layer, dtype, how);
  LayerSpec latent{};
  for (std::size_t i = 0; i < layer.parts.size(); ++i) {
    Part const& part = layer.parts[i];
    bool const last_of_latent = i + 1 == layer.parts.size() || layer.parts[i + 1].kind != PartKind::latent_rope;
    switch (part.kind) {
      case PartKind::key:
      case PartKind::cross_key:
        if (i + 1 < layer.parts.size()) specs.push_back(attention_spec(part, layer.parts[i + 1], dtype, how));
        break;
      case PartKind::latent:
      case PartKind::latent_rope:
        if (part.kind == PartKind::latent) latent = without_dtype(SpecKind::mla, part, how);
        if (part.kind == PartKind::latent_rope) latent.head_size += part.width;
        if (!last_of_latent) break;
        store_latent(latent, dtype, has(layer, PartKind::indexer), how);
        specs.push_back(latent);
        break;
      case PartKind::indexer:
        specs.push_back(indexer_spec(part, how));
        break;
      case PartKind::compressor:
        how.complain(".parts", i, "a compressor beside a window of latents", "describe the layer by compressed_attention()");
        break;
      default:
        break;
    }
  }
}

/// Bytes a token takes in the first layer that keeps every token; none where there is no such layer.
constexpr Bytes attention_per_token(std::vector<LayerSpec> const& specs) {
  for (auto const& spec : specs)
    if (base_of(spec.kind) == BaseKind::full) return content_bytes(spec) * (spec.head_slots != 0 ? spec.head_slots : spec.kv_heads);
  return {};
}

constexpr bool has_kind(std::vector<LayerSpec> const& specs, SpecKind kind) {
  return std::any_of(specs.begin(), specs.end(), [&](auto const& spec) { return spec.kind == kind; });
}

constexpr Bytes largest_state(std::vector<LayerSpec> const& specs) {
  Bytes most{};
  for (auto const& spec : specs) most = max(most, state_bytes(spec));
  return most;
}

/// A14: 256 for DeepSeek-V4, 64 for MLA (FlashMLA), else the backend's smallest.
constexpr Tokens default_block(LayerList const& layers, Options const& options) {
  bool latent = false, v4 = false;
  for (auto const& layer : layers.palette) {
    latent = latent || has(layer, PartKind::latent);
    v4 = v4 || is_v4(layer);
  }
  return v4 ? Tokens{256} : latent ? max(Tokens{64}, options.kernel_block) : options.kernel_block;
}

/// A6: turboquant leaves the first and last two layers of a model without states at the model's dtype.
constexpr bool is_skipped(std::size_t layer, std::size_t layers, bool hybrid, CacheDType dtype) {
  return is_turboquant(dtype) && !hybrid && (layer < 2 || layer + 2 >= layers);
}

constexpr bool any_state(LayerList const& layers) {
  for (auto const& layer : layers.palette)
    if (has_state(layer)) return true;
  return false;
}

/// All layers of one rank's cache. `first` is the place of the rank's first layer in the model.
constexpr std::vector<LayerSpec> specs_of(LayerList const& layers, std::size_t first, std::size_t of_model, bool hybrid, Conversion const& how) {
  std::vector<LayerSpec> specs;
  CacheDType const dtype = meant(how.options.kv_cache_dtype, how.model_dtype);
  for (std::size_t i = 0; i < layers.size(); ++i) {
    bool const skipped = how.options.skip_boundary_layers && !layers[i].draft && is_skipped(first + i, of_model, hybrid, dtype);
    append_layer(specs, layers[i], skipped ? CacheDType::automatic : dtype, how);
  }
  return specs;
}

/// C6: attention's block and the page that states are padded to.
constexpr void align_states(std::vector<LayerSpec>& specs, Bytes page) {
  for (auto& spec : specs)
    if (spec.kind == SpecKind::mamba && state_bytes(spec) < page) spec.padded = page;
}

/// C6, C7: the block of full attention, where states or layers of a higher precision raise it.
constexpr Tokens raised_block(std::vector<LayerSpec> const& specs, Options const& options, Tokens block) {
  Bytes const per_token = attention_per_token(specs);
  if (has_kind(specs, SpecKind::mamba) && per_token != Bytes{}) {
    Tokens align = max(options.kernel_block, block);
    if (has_kind(specs, SpecKind::mla)) align = max(align, Tokens{128});
    return max(block, hybrid_block(largest_state(specs), per_token, align, mamba_mode(options), options.mamba_chunk));
  }
  Bytes unquantised{}, quantised{};
  for (auto const& spec : specs)
    if (spec.kind == SpecKind::full_attention) (is_turboquant(spec.cache_dtype) ? quantised : unquantised) = content_bytes(spec);
  if (quantised == Bytes{} || unquantised == Bytes{}) return block;
  return max(block, mixed_precision_block(unquantised, quantised, options.kernel_block));
}

}  // namespace detail

/// The caches of every stage. A bad model or bad flags give complaints and no stages.
constexpr ModelLayers layers_of(CacheSpec const& model, Options const& options) {
  ModelLayers result{.options = options, .complaints = check(options)};
  if (!result.complaints.empty()) return result;
  Sharding const sharding{.tensor = options.tensor_parallel, .pipeline = options.pipeline_parallel};
  result.complaints = check(model, sharding);
  if (!detail::is_torch_type(model.dtype))
    result.complaints.push_back({".dtype", model.dtype.bytes_per_group, "the model's own type, of 1, 2 or 4 bytes an element",
                                 "give the model's dtype, and the cache's as .kv_cache_dtype (--kv-cache-dtype)"});
  bool const chunked = [&] {
    for (auto const& layer : model.layers.palette)
      for (auto const& part : layer.parts)
        if (part.keeps == Keeps::chunk) return true;
    return false;
  }();
  if (options.decode_context_parallel > 1 &&
      !check(model, Sharding{.tensor = options.tensor_parallel, .decode_context = options.decode_context_parallel}).empty())
    result.complaints.push_back({".decode_context_parallel", options.decode_context_parallel, "1 for a model with windows or chunks", "give 1 (vllm.md D11)"});
  if (!result.complaints.empty()) return result;
  if (chunked && !options.allow_chunked_local_with_hybrid_manager) result.options.disable_hybrid_kv_cache_manager = true;

  detail::Conversion how{.options = options, .model_dtype = model.dtype, .complaints = &result.complaints};
  how.block = options.block_size != Tokens{} ? options.block_size : detail::default_block(model.layers, options);
  bool const hybrid = detail::any_state(model.layers);
  CacheSpec const one_rank = on_rank(model, {.tensor = options.tensor_parallel});
  std::size_t const layers = kvbudget::detail::own_layers(model.layers);
  how.block = detail::raised_block(detail::specs_of(one_rank.layers, 0, layers, hybrid, how), options, how.block);

  std::size_t first = 0;
  for (std::uint32_t stage = 0; stage < options.pipeline_parallel; ++stage) {
    CacheSpec const local = on_rank(model, sharding, {stage});
    auto specs = detail::specs_of(local.layers, first, layers, hybrid, how);
    detail::align_states(specs, detail::attention_per_token(specs) * how.block.count);
    result.stages.push_back(std::move(specs));
    first += local.layers.size();
  }
  if (!result.complaints.empty()) result.stages.clear();
  return result;
}

/// Every complaint about a model under vLLM's flags.
constexpr Complaints check(CacheSpec const& model, Options const& options) { return layers_of(model, options).complaints; }

}  // namespace kvbudget::inline v1::vllm
