// From a model's layers and vLLM's flags to the caches vLLM makes of them, stage by stage (facts: vllm.md A, C6, C7, D2).
//
//   KV heads of a rank   max(1, heads / tp)                                                            A2
//   block of a hybrid    align x ceil(state page / (align x attention bytes per token))                 C6
//   layers of a stage    layers / pp; of the remainder, one more to the last stages but the very last   D2
// Qwen3-Next on 4 ranks: states of 274'432 bytes, attention of 1'024 a token: blocks of 272 tokens; with an fp8 cache 544.
#pragma once

#include <kvbudget/model/sharding.hpp>
#include <kvbudget/size/vllm/deepseek_v4.hpp>

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

/// A8: where one layer has an indexer, vLLM keeps a cache for one in every layer of latents.
constexpr LayerList with_indexers_everywhere(LayerList const& layers) {
  Part indexer{};
  for (auto const& layer : layers.palette)
    for (auto const& part : layer.parts)
      if (part.kind == PartKind::indexer && has(layer, PartKind::latent) && !is_v4(layer)) indexer = part;
  if (indexer.width == 0) return layers;
  LayerList all{};
  for (std::size_t i = 0; i < layers.size(); ++i) {
    Layer layer = layers[i];
    if (has(layer, PartKind::latent) && !has(layer, PartKind::indexer)) layer.parts.push_back(indexer);
    all.append(layer);
  }
  return all;
}

/// Bytes a token takes in the first layer that keeps every token; none where there is no such layer.
constexpr Bytes attention_per_token(std::vector<LayerSpec> const& specs) {
  for (auto const& spec : specs)
    if (base_of(spec.kind) == BaseKind::full) return token_bytes(spec);
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
  Bytes unquantised{}, quantised = Bytes::max();
  for (auto const& spec : specs) {
    if (is_turboquant(spec.cache_dtype))
      quantised = min(quantised, content_bytes(spec) * spec.kv_heads);
    else
      unquantised = max(unquantised, content_bytes(spec) * spec.kv_heads);
  }
  if (quantised.saturated() || unquantised == Bytes{}) return block;
  return max(block, mixed_precision_block(unquantised, quantised, options.kernel_block));
}

/// C0: chunks turn the hybrid manager off, unless they are allowed beside it, and always with drafts.
constexpr bool chunks_disable_hybrid_manager(LayerList const& layers, Options const& options) {
  if (options.allow_chunked_local_with_hybrid_manager && options.num_speculative_tokens == 0) return false;
  for (auto const& layer : layers.palette)
    for (auto const& part : layer.parts)
      if (part.keeps == Keeps::chunk) return true;
  return false;
}

}  // namespace detail

/// The caches of every stage. A bad model or bad flags give complaints and no stages.
constexpr ModelLayers layers_of(CacheSpec const& of, Options const& options) {
  ModelLayers result{.options = options, .complaints = check(options)};
  if (!result.complaints.empty()) return result;
  CacheSpec const model{.layers = detail::with_indexers_everywhere(of.layers), .dtype = of.dtype};
  Sharding const sharding{.tensor = options.tensor_parallel, .pipeline = options.pipeline_parallel};
  result.complaints = check(model, sharding);
  if (!detail::is_torch_type(model.dtype))
    result.complaints.push_back({".dtype", model.dtype.bytes_per_group, "the model's own type, of 1, 2 or 4 bytes an element",
                                 "give the model's dtype, and the cache's as .kv_cache_dtype (--kv-cache-dtype)"});
  if (options.decode_context_parallel > 1 &&
      !check(model, Sharding{.tensor = options.tensor_parallel, .decode_context = options.decode_context_parallel}).empty())
    result.complaints.push_back({".decode_context_parallel", options.decode_context_parallel, "1 for a model with windows or chunks", "give 1 (vllm.md D11)"});
  if (!result.complaints.empty()) return result;
  if (detail::chunks_disable_hybrid_manager(model.layers, options)) result.options.disable_hybrid_kv_cache_manager = true;

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
