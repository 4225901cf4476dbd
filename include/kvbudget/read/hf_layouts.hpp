// How families of models lay out their layers: one function each, from the fields to the layers.
//
// Rules and traps: facts/hf_config.md sections 3, 4 and 7. Families share these; the table of which family uses which is in
// hf_families.hpp. States are as vLLM sizes them by default (vllm.md A10): conv rows = kernel - 1.
#pragma once

#include <kvbudget/read/hf_model.hpp>
#include <kvbudget/read/nemotron_pattern.hpp>

namespace kvbudget::inline v1::read {

// ---- KV heads that do not follow the usual rule ----

inline std::uint32_t hf_one_if_multi_query(HfText& text) { return text.flag_or("multi_query", true) ? 1 : text.heads(); }  // gpt_bigcode, T6

/// The 40b generation counts its KV heads, the 7b one has a single one, whatever else the file says (T5).
inline std::uint32_t hf_falcon_kv_heads(HfText& text) {
  bool const multi_query = text.flag_or("multi_query", false);
  if (text.flag_or("new_decoder_architecture", false)) return hf_kv_heads(text);
  return multi_query ? 1 : text.heads();
}
inline std::uint32_t hf_chatglm_kv_heads(HfText& text) {  // T7
  text.ignore({"multi_query_group_num"});
  return text.flag_or("multi_query_attention", false) ? text.small("multi_query_group_num") : text.heads();
}
inline std::uint32_t hf_attn_config_kv_heads(HfText& text) {  // dbrx, mpt, T8
  if (!text.has("attn_config")) return text.heads();
  return static_cast<std::uint32_t>(text.object("attn_config").count_if("kv_n_heads", 1, text.heads()).value_or(text.heads()));
}
inline std::uint32_t hf_attention_groups(HfText& text) {
  return text.has("num_attention_groups") ? text.small("num_attention_groups") : hf_kv_heads(text);
}  // step

inline std::uint32_t hf_only_attention_groups(HfText& text) { return text.small("num_attention_groups"); }  // step3

/// Refuses a list of layers that names one there is not.
inline void hf_indices(Fields const& fields, std::string_view key, std::uint64_t first, std::uint64_t end) {
  for (auto const& index : fields.list(key))
    if (!index.is_number_unsigned() || index.get<std::uint64_t>() < first || index.get<std::uint64_t>() >= end)
      throw fields.refuse(key, index, "layers from " + std::to_string(first) + " to " + std::to_string(end - 1), "correct the list");
}

// ---- attention: full, sliding, chunked ----

/// Layers of two kinds as layer_types names them, `sliding` where it says so.
inline LayerList hf_by_layer_types(HfText& text, Layer const& full, AttentionShape windowed) {
  std::uint64_t const layers = text.layers();
  auto const& types = text.per_layer("layer_types", layers, true);  // what is longer counts the MTP blocks, too
  text.ignore({"sliding_window", "sliding_window_pattern", "_sliding_window_pattern"});
  return text.each(layers, [&](std::uint64_t i) {
    if (types[i] == "full_attention") return full;
    if (types[i] == "sliding_attention") return sliding_window(windowed, text.window());
    throw text.not_understood("layer_types", i, types[i], "full_attention, sliding_attention");
  });
}

/// True when layer_types is there and names what these layouts understand.
inline bool hf_has_layer_types(HfText& text) { return text.has("layer_types") && !text.list("layer_types").empty(); }

inline bool hf_never_drops(HfText& text, std::uint64_t window) {
  auto const context = text.model().context;
  return window == 0 || (context && window >= context->count);
}

/// The window, where the file has one and has not switched it off; 0 is off (hf_config.md section 6).
inline std::uint64_t hf_window_on(HfText& text) { return text.flag_or("use_sliding_window", true) ? text.count_or("sliding_window", 0) : 0; }

/// Every layer keeps every token, unless layer_types says otherwise. A window without layer_types is refused as not read.
inline LayerList hf_full(HfText& text) {
  AttentionShape const shape = text.attention();
  if (hf_has_layer_types(text)) return hf_by_layer_types(text, full_attention(shape), shape);
  auto const* window = text.fields().find("sliding_window");
  if (window && (*window == 0 || !text.flag_or("use_sliding_window", true))) text.ignore({"sliding_window"});
  return text.layers() * full_attention(shape);
}

/// A window without a switch is every layer's, unless it is as long as the context (T10).
inline LayerList hf_window_everywhere(HfText& text) {
  AttentionShape const shape = text.attention();
  text.ignore({"sliding_window"});
  std::uint64_t const window = hf_window_on(text);
  if (hf_has_layer_types(text)) return hf_by_layer_types(text, full_attention(shape), shape);
  if (hf_never_drops(text, window)) return text.layers() * full_attention(shape);
  return text.layers() * sliding_window(shape, Tokens{window});
}

/// A window behind use_sliding_window, for the layers from max_window_layers on (T9).
inline LayerList hf_window_behind_switch(HfText& text) {
  AttentionShape const shape = text.attention();
  bool const on = text.flag_or("use_sliding_window", false);
  std::uint64_t const window = text.count_or("sliding_window", 0);
  text.ignore({"dual_chunk_attention_config"});  // a way to compute, not to keep (T32)
  if (hf_has_layer_types(text)) return hf_by_layer_types(text, full_attention(shape), shape);
  if (!on || window == 0) return text.layers() * full_attention(shape);
  std::uint64_t const first = std::min(text.count_or("max_window_layers", text.layers()), text.layers());
  return text.each(text.layers(), [&](std::uint64_t i) { return i < first ? full_attention(shape) : sliding_window(shape, Tokens{window}); });
}

/// layer_types, or else every `pattern`-th layer is full, with the family's own pattern or the file's.
template <std::uint64_t Pattern>
LayerList hf_pattern(HfText& text) {
  AttentionShape const shape = text.attention();
  std::uint64_t pattern = Pattern;
  for (std::string_view const key : {"_sliding_window_pattern", "sliding_window_pattern"}) {
    if (!text.has(key)) continue;
    auto const* value = text.find(key);
    pattern = value->is_string() ? value->get<std::string>().size() : text.count(key);  // EXAONE 4 spells 4 as "LLLG"
    if (pattern == 0) throw text.fields().refuse(key, *value, "1 or more", "correct the field");
  }
  if (hf_has_layer_types(text)) return hf_by_layer_types(text, full_attention(shape), shape);
  text.ignore({"sliding_window"});
  if (!text.flag_or("use_sliding_window", true)) return text.layers() * full_attention(shape);
  return text.each(text.layers(), [&](std::uint64_t i) { return (i + 1) % pattern == 0 ? full_attention(shape) : sliding_window(shape, text.window()); });
}

/// attn_type_list, where every layer is softmax attention: MiniMax-M2 carries M1's list, all ones.
inline LayerList hf_softmax_only(HfText& text) {
  text.ignore({"sliding_window"});
  if (text.has("attn_type_list")) {
    auto const& types = text.per_layer("attn_type_list", text.layers());
    for (std::size_t i = 0; i < types.size(); ++i)
      if (types[i] != 1) throw text.not_understood("attn_type_list", i, types[i], "1 (softmax)");
  }
  return hf_full(text);
}

/// layer_types written out, always: laguna, muse_glimmer, EXAONE 4 at top level ...
inline LayerList hf_layer_types(HfText& text) {
  AttentionShape const shape = text.attention();
  return hf_by_layer_types(text, full_attention(shape), shape);
}

/// Step 3.5 and 3.7: the other kind of layer may have its own head counts; layer_types may count the MTP blocks, too.
inline LayerList hf_step(HfText& text) {
  AttentionShape const shape = text.attention();
  AttentionShape windowed = shape;
  if (text.has("attention_other_setting")) {
    auto const other = text.object("attention_other_setting");
    windowed.kv_heads = static_cast<std::uint32_t>(other.count_if("num_attention_groups", 1, 65'536).value_or(shape.kv_heads));
    windowed.head_dim = static_cast<std::uint32_t>(other.count_if("head_dim", 1, 65'536).value_or(shape.head_dim));
  }
  // the entries behind the last layer are the MTP blocks
  LayerList const layers = hf_by_layer_types(text, full_attention(shape), windowed);
  auto const& types = text.list("layer_types");
  for (std::size_t i = layers.size(); i < types.size(); ++i)
    text.model().draft_layers.append(LayerRun{draft(types[i] == "sliding_attention" ? sliding_window(windowed, text.window()) : full_attention(shape))});
  return layers;
}

/// MiMo-V2: 1 slides, with heads and widths of its own, and V narrower than K (T15).
inline LayerList hf_mimo_v2(HfText& text) {
  AttentionShape full = text.attention();
  full.value_dim = text.small_or("v_head_dim", full.head_dim);
  text.model().attention = full;
  AttentionShape const windowed{.kv_heads = text.small("swa_num_key_value_heads"),
                                .head_dim = text.small("swa_head_dim"),
                                .value_dim = text.small_or("swa_v_head_dim", text.small("swa_head_dim"))};
  Tokens const window = text.window(text.has("sliding_window") ? "sliding_window" : "sliding_window_size");
  text.ignore({"attention_chunk_size"});  // a decoy, vLLM strips it (T15b)
  auto const& pattern = text.per_layer("hybrid_layer_pattern", text.layers());
  return text.each(text.layers(), [&](std::uint64_t i) {
    if (pattern[i] == 1) return sliding_window(windowed, window);
    if (pattern[i] == 0) return full_attention(full);
    throw text.not_understood("hybrid_layer_pattern", i, pattern[i], "0 (full), 1 (sliding)");
  });
}

/// Gemma 3n and 4: the tail reads earlier layers' caches (T11); Gemma 4's full layers have widths and heads of their own (T12).
inline LayerList hf_gemma_shared(HfText& text) {
  AttentionShape const windowed = text.attention();
  AttentionShape full = windowed;
  full.head_dim = text.small_or("global_head_dim", full.head_dim);
  std::uint32_t const global_heads = text.small_or("num_global_key_value_heads", full.kv_heads);
  if (text.flag_or("attention_k_eq_v", false)) full.kv_heads = global_heads;
  text.model().attention = full;
  std::uint64_t const layers = text.layers(), shared = text.count_or("num_kv_shared_layers", 0);
  if (shared >= layers) throw text.fields().refuse("num_kv_shared_layers", Json(shared), "fewer than the layers: a cache to read from", "correct the field");
  auto const all = hf_by_layer_types(text, full_attention(full), windowed);
  return text.each(layers, [&](std::uint64_t i) { return i < layers - shared ? all[i] : shared_cache(); });
}

/// Llama 4: layers whose no_rope_layers entry is 0 keep everything, the others a chunk; without the list, every 4th.
inline LayerList hf_llama4(HfText& text) {
  AttentionShape const shape = text.attention();
  std::uint64_t const layers = text.layers();
  Tokens const chunk{text.count_or("attention_chunk_size", 8'192)};
  text.ignore({"layer_types"});
  auto const* given = text.find("no_rope_layers");
  bool const listed = given && given->is_array() && given->size() == layers;
  std::uint64_t const interval = std::max<std::uint64_t>(text.count_or("no_rope_layer_interval", 4), 1);
  return text.each(
      layers, [&](std::uint64_t i) { return (listed ? (*given)[i] == 0 : (i + 1) % interval == 0) ? full_attention(shape) : chunked_attention(shape, chunk); });
}

/// Cross-layer attention: every cla_share_factor-th layer keeps, the others read (T17); off unless use_cla.
inline LayerList hf_hunyuan(HfText& text) {
  AttentionShape const shape = text.attention();
  std::uint64_t const factor = text.flag_or("use_cla", false) ? std::max<std::uint64_t>(text.count_or("cla_share_factor", 1), 1) : 1;
  return text.each(text.layers(), [&](std::uint64_t i) { return i % factor == 0 ? full_attention(shape) : shared_cache(); });
}

/// A looped model keeps a cache for each pass (T18).
inline LayerList hf_looped(HfText& text) {
  AttentionShape const shape = text.attention();
  std::uint64_t const loops = text.first_of({"total_ut_steps", "loop_num"}).value_or(4);
  text.ignore({"sliding_window", "layer_types"});
  return (text.layers() * loops) * full_attention(shape);
}

/// NAS: each block's attention says how many query heads share a KV head, or that there is none (T4).
inline LayerList hf_block_configs(HfText& text) {
  std::uint32_t const heads = text.heads(), head_dim = text.head_dim();
  auto const& blocks = text.list("block_configs");
  text.model().attention.head_dim = head_dim;
  text.count_layers(blocks.size());
  return text.each(blocks.size(), [&](std::uint64_t i) {
    std::string const name = "block_configs[" + std::to_string(i) + "]";
    auto const found = Fields{blocks[i], text.fields().input(), name}.object_if("attention");
    if (!found) throw text.fields().missing(name + ".attention", "an object");
    Fields const& attention = *found;
    if (attention.flag_or("no_op", false) || attention.flag_or("replace_with_linear", false)) return no_cache();
    std::uint64_t const shares = attention.count("n_heads_in_group", 1, heads);
    if (heads % shares != 0)
      throw attention.refuse("n_heads_in_group", Json(shares), "a divisor of the " + std::to_string(heads) + " heads", "correct the field");
    return full_attention({.kv_heads = static_cast<std::uint32_t>(heads / shares), .head_dim = head_dim});
  });
}

/// Sparse attention that keeps all K and V, and index keys of one head on the sparse layers (MiniMax-M3).
inline LayerList hf_sparse_index(HfText& text) {
  AttentionShape const shape = text.attention();
  auto const sparse = text.object("sparse_attention_config");
  std::uint32_t const width = static_cast<std::uint32_t>(sparse.count_if("sparse_index_dim", 1, 65'536).value_or(128));
  Json const* const frequency = sparse.find("sparse_attention_freq");
  std::uint64_t const layers = text.layers();
  if (frequency && (!frequency->is_array() || frequency->size() < layers))
    throw sparse.refuse("sparse_attention_freq", *frequency, "one entry for each layer", "correct the field");
  return text.each(layers, [&](std::uint64_t i) {
    bool const indexed = !frequency || (*frequency)[i] == 1;
    return indexed ? with_indexer(full_attention(shape), width, bf16) : full_attention(shape);
  });
}

// ---- latents ----

inline bool hf_uses_latents(HfText& text) { return text.has("kv_lora_rank") && text.flag_or("use_mla", true); }

inline Layer hf_latent_layer(HfText& text) {
  text.ignore({"v_head_dim"});  // no size of the cache
  return latent_attention({.latent = text.small("kv_lora_rank"), .rope = static_cast<std::uint32_t>(text.count("qk_rope_head_dim", 65'536))});
}

/// MLA, where the file has it on; else ordinary heads (T1, T27). With index_topk: DeepSeek sparse attention, whose indexer keys
/// lie on every layer, or on the "full" ones of indexer_types.
inline LayerList hf_latent(HfText& text) {
  if (!hf_uses_latents(text)) {
    text.ignore({"v_head_dim"});
    return hf_full(text);
  }
  std::uint64_t const layers = text.layers();
  Layer const latent = hf_latent_layer(text);
  text.ignore({"layer_types", "sliding_window"});  // transformers 5 writes deepseek_sparse_attention for every layer
  if (!text.has("index_topk") && !text.has("index_head_dim")) return layers * latent;
  std::uint32_t const index_width = text.small_or("index_head_dim", 128);
  Layer const indexed = with_indexer(latent, index_width, indexer_dtype(index_width));
  if (!text.has("indexer_types")) return layers * indexed;
  auto const& types = text.per_layer("indexer_types", layers, true);
  text.note("only the layers whose indexer_types entry is full compute index keys; vLLM and SGLang keep a cache on every layer");
  return text.each(layers, [&](std::uint64_t i) { return types[i] == "full" ? indexed : latent; });
}

/// Two attention sub-layers in each layer (LongCat).
inline LayerList hf_double_latent(HfText& text) { return (2 * text.layers()) * hf_latent_layer(text); }

/// DeepSeek-V4: compress_ratios, one for each layer and one more for the MTP block; or, in transformers 5, layer_types and compress_rates.
inline LayerList hf_deepseek_v4(HfText& text) {
  std::uint64_t const layers = text.layers();
  std::uint32_t const width = text.head_dim();
  std::uint32_t const index_width = text.small_or("index_head_dim", 128);
  text.ignore({"index_topk"});
  Tokens const window{text.first_of({"sliding_window", "window_size"}).value_or(128)};
  auto const ratio_of = [&](std::uint64_t i) -> std::uint64_t {
    if (text.has("compress_ratios")) {
      auto const& ratio = text.per_layer("compress_ratios", layers, true)[i];
      if (!ratio.is_number_unsigned() || ratio.get<std::uint64_t>() > 65'535)
        throw text.not_understood("compress_ratios", i, ratio, "a whole number up to 65535");
      return ratio.get<std::uint64_t>();
    }
    auto const& type = text.per_layer("layer_types", layers, true)[i];
    if (!type.is_string()) throw text.not_understood("layer_types", i, type, "the name of a kind of layer");
    return text.object("compress_rates").count_if(type.get<std::string>(), 1, 65'535).value_or(0);
  };
  auto const layer_of = [&](std::uint64_t i) {
    std::uint64_t const ratio = ratio_of(i);
    bool const fine = ratio == 4;  // with an indexer, and a compressor that looks two entries back
    std::uint64_t const state = fine ? 8 * (std::uint64_t{4} * width + 4 * index_width) : 128 * std::uint64_t{2} * width;
    return compressed_attention({.width = width,
                                 .window = window,
                                 .ratio = static_cast<std::uint32_t>(ratio),
                                 .index_width = fine ? index_width : 0,
                                 .index_dtype = indexer_dtype(index_width),
                                 .state_elements = static_cast<std::uint32_t>(state)});
  };
  std::uint64_t const listed = text.list(text.has("compress_ratios") ? "compress_ratios" : "layer_types").size();
  for (std::uint64_t i = layers; i < listed; ++i) text.model().draft_layers.append(LayerRun{draft(layer_of(i))});
  return text.each(layers, layer_of);
}

// ---- states ----

/// A convolution that keeps drafted tokens, too (vllm.md A10).
inline StateShape hf_keeps_drafts(StateShape convolution) {
  convolution.keeps_drafts = true;
  return convolution;
}

/// Mamba 2: a convolution over inner + 2 groups x state channels, and heads x head dim x state.
inline Layer hf_mamba2(HfText& text, std::uint64_t inner, std::uint64_t groups, std::uint64_t heads, std::uint64_t head_dim, std::uint64_t state,
                       std::uint64_t kernel, DType dtype) {
  StateShape convolution = text.state("conv", {kernel - 1, inner + 2 * groups * state}, bf16);
  convolution.groups = static_cast<std::uint32_t>(groups);
  convolution.group_heads = static_cast<std::uint32_t>(2 * state);
  return recurrent({.conv = convolution, .state = text.state("ssm", {heads, head_dim, state}, dtype)});
}
/// Mamba 1: a convolution over the inner channels, and inner x state.
inline Layer hf_mamba1(HfText& text, std::uint64_t inner, std::uint64_t state, std::uint64_t kernel) {
  return recurrent({.conv = text.state("conv", {kernel - 1, inner}, bf16), .state = text.state("ssm", {inner, state}, text.state_dtype())});
}

/// A word of a layer list, and the layer it stands for.
struct HfWord {
  std::string_view word;
  Layer layer;
};

inline LayerList hf_words(HfText& text, std::string_view key, std::uint64_t layers, std::vector<HfWord> const& words) {
  auto const& types = text.per_layer(key, layers);
  return text.each(layers, [&](std::uint64_t i) {
    std::string accepted;
    for (auto const& [word, layer] : words) {
      if (types[i] == word) return layer;
      accepted += (accepted.empty() ? "" : ", ") + std::string{word};
    }
    throw text.not_understood(key, i, types[i], accepted);
  });
}

/// Mamba models: no attention at all. intermediate_size wins over expand (T23).
inline LayerList hf_mamba(HfText& text) {
  std::uint64_t const inner = text.count_if("intermediate_size").value_or(text.count_or("expand", 2) * text.hidden());
  text.ignore({"state_size"});
  return text.layers() * hf_mamba1(text, inner, text.count_or("state_size", 16), text.first_of({"conv_kernel", "d_conv"}).value_or(4));
}

/// Qwen3-Next, Qwen3.5: gated delta net, and full attention on every full_attention_interval-th layer.
inline LayerList hf_gated_delta_net(HfText& text) {
  AttentionShape const shape = text.attention();
  std::uint64_t const layers = text.layers();
  std::uint64_t const key_heads = text.small("linear_num_key_heads"), value_heads = text.small("linear_num_value_heads");
  std::uint64_t const key_dim = text.small("linear_key_head_dim"), value_dim = text.small("linear_value_head_dim"),
                      kernel = text.small("linear_conv_kernel_dim");
  DType const dtype = text.state_dtype("mamba_ssm_dtype");
  Layer const linear = recurrent({.conv = hf_keeps_drafts(text.state("conv", {kernel - 1, 2 * key_heads * key_dim + value_heads * value_dim}, bf16)),
                                  .state = text.state("ssm", {value_heads, value_dim, key_dim}, dtype)});
  std::uint64_t const interval = std::max<std::uint64_t>(text.count_or("full_attention_interval", 4), 1);
  if (hf_has_layer_types(text)) return hf_words(text, "layer_types", layers, {{"full_attention", full_attention(shape)}, {"linear_attention", linear}});
  return text.each(layers, [&](std::uint64_t i) { return (i + 1) % interval == 0 ? full_attention(shape) : linear; });
}

/// Kimi Linear: latents on full_attn_layers, KDA on kda_layers; both lists count from 1 (T19).
inline LayerList hf_kimi_linear(HfText& text) {
  std::uint64_t const layers = text.layers();
  Layer const latent = hf_latent_layer(text);
  auto const config = text.object("linear_attn_config");
  std::uint64_t const heads = config.count("num_heads", 1, 65'536), dim = config.count("head_dim", 1, 65'536),
                      rows = config.count("short_conv_kernel_size", 1, 1'024) - 1;
  Layer const kda = parallel(
      parallel(recurrent({.conv = hf_keeps_drafts(text.state("conv_q", {rows, heads * dim}, bf16))}),
               recurrent({.conv = hf_keeps_drafts(text.state("conv_k", {rows, heads * dim}, bf16))})),
      recurrent({.conv = hf_keeps_drafts(text.state("conv_v", {rows, heads * dim}, bf16)), .state = text.state("recurrent_fp32", {heads, dim, dim}, fp32)}));
  for (auto const* key : {"full_attn_layers", "kda_layers"}) hf_indices(config, key, 1, layers + 1);
  auto const listed = [&](char const* key, std::uint64_t i) {
    auto const& list = config.list(key);
    return std::find(list.begin(), list.end(), Json(i + 1)) != list.end();
  };
  return text.each(layers, [&](std::uint64_t i) {
    bool const full = listed("full_attn_layers", i);
    if (full == listed("kda_layers", i))
      throw config.refuse("full_attn_layers", Json(i + 1), "every layer in one of full_attn_layers and kda_layers, counted from 1", "correct the lists");
    return full ? latent : kda;
  });
}

/// Nemotron-H: M mamba 2, * attention, - MLP, E experts; or the same in words.
inline LayerList hf_nemotron_h(HfText& text) {
  AttentionShape const shape = text.attention();
  std::uint64_t const heads = text.small("mamba_num_heads"), dim = text.small("mamba_head_dim");
  Layer mamba = hf_mamba2(text, heads * dim, text.small("n_groups"), heads, dim, text.small("ssm_state_size"), text.small("conv_kernel"),
                          text.state_dtype("mamba_ssm_cache_dtype", fp32));
  for (auto& part : mamba.parts) part.keeps_drafts = part.kind == PartKind::conv_state;
  Layer const attention = full_attention(shape);
  text.ignore({"sliding_window", "hybrid_override_pattern", "layers_block_type", "layer_types"});
  for (std::string_view const key : {"layers_block_type", "layer_types"})
    if (text.has(key))
      return text.count_layers(text.list(key).size()), hf_words(text, key, text.list(key).size(),
                                                                {{"mamba", mamba},
                                                                 {"linear_attention", mamba},
                                                                 {"attention", attention},
                                                                 {"full_attention", attention},
                                                                 {"mlp", no_cache()},
                                                                 {"moe", no_cache()}});
  std::string const pattern = text.text("hybrid_override_pattern");
  text.count_layers(pattern.size());
  return text.each(pattern.size(), [&](std::uint64_t i) {
    auto const word = nemotron_word(pattern[i]);
    if (word.empty()) throw text.not_understood("hybrid_override_pattern", i, Json(std::string{pattern[i]}), "M, *, -, E");
    return word == "mamba" ? mamba : word == "attention" ? attention : no_cache();
  });
}

/// Granite 4 and Bamba: mamba 2 and attention by name, or attn_layer_indices.
inline LayerList hf_mamba2_hybrid(HfText& text) {
  AttentionShape const shape = text.attention();
  std::uint64_t const layers = text.layers();
  text.ignore({"layer_types", "layers_block_type", "attn_layer_indices", "mamba_d_state", "mamba_d_conv"});
  auto const mamba = [&] {
    std::uint64_t const heads = text.small("mamba_n_heads");
    std::uint64_t const inner = text.count_or("mamba_expand", 2) * text.hidden();
    std::uint64_t const dim = text.has("mamba_d_head") && text.find("mamba_d_head")->is_number() ? text.small("mamba_d_head") : inner / heads;
    return hf_mamba2(text, heads * dim, text.small("mamba_n_groups"), heads, dim, text.small("mamba_d_state"), text.small("mamba_d_conv"), text.state_dtype());
  };
  for (std::string_view const key : {"layer_types", "layers_block_type"}) {
    if (!text.has(key)) continue;
    auto const& types = text.list(key);
    bool const any = std::find(types.begin(), types.end(), "mamba") != types.end() || std::find(types.begin(), types.end(), "linear_attention") != types.end();
    std::vector<HfWord> words{{"attention", full_attention(shape)}, {"full_attention", full_attention(shape)}};
    if (any) words.insert(words.end(), {{"mamba", mamba()}, {"linear_attention", mamba()}});
    return hf_words(text, key, layers, words);
  }
  auto const& indices = text.list("attn_layer_indices");
  hf_indices(text.fields(), "attn_layer_indices", 0, layers);
  Layer const other = mamba();
  return text.each(layers,
                   [&](std::uint64_t i) { return std::find(indices.begin(), indices.end(), Json(i)) != indices.end() ? full_attention(shape) : other; });
}

/// Falcon-H1: attention and mamba 2 side by side in every layer; mamba_d_ssm, not mamba_expand (T23).
inline LayerList hf_falcon_h1(HfText& text) {
  AttentionShape const shape = text.attention();
  std::uint64_t const heads = text.small("mamba_n_heads"), dim = text.small("mamba_d_head");
  std::uint64_t const inner = text.count_if("mamba_d_ssm").value_or(heads * dim);
  text.ignore({"layer_types", "layers_block_type"});
  return text.layers() * parallel(full_attention(shape), hf_mamba2(text, inner, text.small("mamba_n_groups"), heads, dim, text.small("mamba_d_state"),
                                                                   text.small("mamba_d_conv"), text.state_dtype()));
}

/// Jamba: attention where i % attn_layer_period == attn_layer_offset, else mamba 1.
inline LayerList hf_jamba(HfText& text) {
  AttentionShape const shape = text.attention();
  std::uint64_t const period = text.small("attn_layer_period"), offset = text.count("attn_layer_offset");
  Layer const mamba = hf_mamba1(text, text.count_or("mamba_expand", 2) * text.hidden(), text.small("mamba_d_state"), text.small("mamba_d_conv"));
  text.ignore({"layers_block_type", "layer_types", "sliding_window"});
  return text.each(text.layers(), [&](std::uint64_t i) { return i % period == offset ? full_attention(shape) : mamba; });
}

/// MiniMax-01 and M1: 1 is softmax attention, 0 lightning, the opposite of MiMo's list.
inline LayerList hf_lightning(HfText& text) {
  AttentionShape const shape = text.attention();
  std::uint64_t const heads = text.heads(), dim = text.head_dim();
  Layer const lightning = recurrent({.state = text.state("lightning", {heads, dim, dim}, text.state_dtype())});
  text.ignore({"attn_type_list"});
  if (text.has("layer_types"))
    return hf_words(text, "layer_types", text.layers(), {{"full_attention", full_attention(shape)}, {"linear_attention", lightning}});
  auto const& types = text.per_layer("attn_type_list", text.layers());
  return text.each(text.layers(), [&](std::uint64_t i) {
    if (types[i] == 1) return full_attention(shape);
    if (types[i] == 0) return lightning;
    throw text.not_understood("attn_type_list", i, types[i], "1 (softmax), 0 (lightning)");
  });
}

/// LFM2: short convolutions and attention.
inline LayerList hf_lfm2(HfText& text) {
  AttentionShape const shape = text.attention();
  Layer const conv =
      recurrent({.conv = text.state("conv", {text.small("conv_L_cache") - std::uint64_t{1}, text.count_if("conv_dim").value_or(text.hidden())}, bf16)});
  return hf_words(text, "layer_types", text.layers(), {{"full_attention", full_attention(shape)}, {"conv", conv}});
}

/// RecurrentGemma: block_types tiled; attention is always windowed.
inline LayerList hf_recurrent_gemma(HfText& text) {
  AttentionShape const shape = text.attention();
  Tokens const window = text.window("attention_window_size");
  std::uint64_t const width = text.small("lru_width"), kernel = text.small("conv1d_width");
  Layer const lru = recurrent({.conv = text.state("conv", {kernel - 1, width}, bf16), .state = text.state("rglru", {width}, fp32)});
  std::string_view const key = text.has("block_types") ? "block_types" : "_block_types";
  auto const& blocks = text.list(key);
  if (blocks.empty()) throw text.fields().refuse(key, blocks, "a list of attention and recurrent", "correct the field");
  return text.each(text.layers(), [&](std::uint64_t i) {
    auto const& type = blocks[i % blocks.size()];
    if (type == "attention") return sliding_window(shape, window);
    if (type == "recurrent") return lru;
    throw text.not_understood(key, i % blocks.size(), type, "attention, recurrent");
  });
}

/// Zamba 2: every layer has a mamba 2 state, hybrid ones attention as well, at twice the usual head dim (T22).
inline LayerList hf_zamba2(HfText& text) {
  AttentionShape shape{.kv_heads = text.kv_heads(),
                       .head_dim = static_cast<std::uint32_t>(text.count_if("attention_head_dim").value_or(2 * text.hidden() / text.heads()))};
  text.model().attention = shape;
  std::uint64_t const inner = text.count_or("mamba_expand", 2) * text.hidden(), heads = text.small("n_mamba_heads");
  Layer const mamba = hf_mamba2(text, inner, text.count_or("mamba_ngroups", 1), heads, text.count_if("mamba_headdim").value_or(inner / heads),
                                text.small("mamba_d_state"), text.small("mamba_d_conv"), text.state_dtype());
  Layer const hybrid = parallel(full_attention(shape), mamba);
  text.ignore({"layer_types"});
  return hf_words(text, "layers_block_type", text.layers(), {{"mamba", mamba}, {"m", mamba}, {"hybrid", hybrid}, {"g", hybrid}});
}

/// PLaMo 2: mamba where i % mamba_step != mamba_step / 2; no groups in its convolution.
inline LayerList hf_plamo2(HfText& text) {
  std::uint64_t const layers = text.layers(), step = text.small("mamba_step"), heads = text.small("mamba_num_heads"), dim = text.small("hidden_size_per_head");
  AttentionShape const shape{.kv_heads = text.kv_heads(), .head_dim = static_cast<std::uint32_t>(dim)};
  text.model().attention = shape;
  Layer const mamba = hf_mamba2(text, heads * dim, 0, heads, dim, text.small("mamba_d_state"), text.small("mamba_d_conv"), text.state_dtype());
  return text.each(layers, [&](std::uint64_t i) {
    bool const is_mamba = layers <= step / 2 ? i != layers - 1 : i % step != step / 2;
    return is_mamba ? mamba : full_attention(shape);
  });
}

/// xLSTM: matrix memory, normaliser and stabiliser, in fp32.
inline LayerList hf_xlstm(HfText& text) {
  std::uint64_t const heads = text.heads(), hidden = text.hidden();
  auto const factor = [&](std::string_view key, double otherwise) {
    auto const* value = text.find(key);
    double const number = !value ? otherwise : value->is_number() ? value->get<double>() : 0;
    if (!(number > 0 && number <= 1'024)) throw text.fields().refuse(key, *value, "a number above 0", "correct the field");
    return static_cast<std::uint64_t>(static_cast<double>(hidden) * number) / heads;
  };
  std::uint64_t const key = factor("qk_dim_factor", 0.5), value = factor("v_dim_factor", 1.0);
  std::uint64_t const layers = text.has("num_blocks") ? text.count("num_blocks", max_layers) : text.layers();
  text.count_layers(layers);
  return layers *
         parallel(parallel(recurrent({.state = text.state("C", {heads, key, value}, fp32)}), recurrent({.state = text.state("n", {heads, key}, fp32)})),
                  recurrent({.state = text.state("m", {heads}, fp32)}));
}

/// RWKV 5: a state of heads x size x size, and two rows of the last token.
inline LayerList hf_rwkv5(HfText& text) {
  std::uint64_t const size = text.count_or("head_size", 64), hidden = text.hidden();
  if (size == 0) throw text.fields().refuse("head_size", Json(0), "1 or more", "correct the field");
  return text.layers() * recurrent({.conv = text.state("shift", {2, hidden}, bf16), .state = text.state("wkv", {hidden / size, size, size}, fp32)});
}

// ---- encoders and decoders ----

/// The decoder's own layers grow, and each keeps the encoder's output as well (T24).
inline LayerList hf_decoder_of_encoder(HfText& text, Tokens encoder_tokens) {
  std::uint64_t const layers = text.count("decoder_layers", max_layers), heads = text.small("decoder_attention_heads");
  if (text.hidden() % heads != 0) throw text.fields().refuse("d_model", Json(text.hidden()), "a multiple of decoder_attention_heads", "correct the field");
  AttentionShape const shape{.kv_heads = static_cast<std::uint32_t>(heads), .head_dim = static_cast<std::uint32_t>(text.hidden() / heads)};
  text.model().attention = shape;
  text.model().encoder_tokens = encoder_tokens;
  text.count_layers(layers);
  return layers * parallel(full_attention(shape), cross_attention(shape, encoder_tokens));
}
inline LayerList hf_whisper(HfText& text) { return hf_decoder_of_encoder(text, {text.count_or("max_source_positions", 1'500)}); }
inline LayerList hf_bart(HfText& text) {
  if (!text.model().context) throw text.fields().missing("max_position_embeddings", "the tokens the encoder gives");
  return hf_decoder_of_encoder(text, *text.model().context);
}

/// T5: d_kv is explicit; num_decoder_layers may be missing. An encoder alone keeps nothing.
inline LayerList hf_t5(HfText& text) {
  AttentionShape const shape{.kv_heads = text.small("num_heads"), .head_dim = text.small("d_kv")};
  text.model().attention = shape;
  auto const* architectures = text.top().find("architectures");
  std::string const architecture =
      architectures && architectures->is_array() && !architectures->empty() && (*architectures)[0].is_string() ? (*architectures)[0].get<std::string>() : "";
  if (architecture.ends_with("EncoderModel")) {
    text.count_layers(0);
    text.note("an encoder alone keeps no cache");
    return 1 * no_cache();
  }
  std::uint64_t const layers = text.has("num_decoder_layers") ? text.small("num_decoder_layers") : text.layers();
  text.count_layers(layers);
  Tokens const encoder = Tokens{text.count_or("n_positions", 512)};
  text.note("cross-attention is counted for an encoder of " + std::to_string(encoder.count) + " tokens");
  return layers * parallel(full_attention(shape), cross_attention(shape, encoder));
}

/// Llama 3.2 Vision: some layers keep the image's keys and values instead of the text's (T14).
inline LayerList hf_mllama(HfText& text) {
  AttentionShape const shape = text.attention();
  auto const& cross = text.list("cross_attention_layers");
  hf_indices(text.fields(), "cross_attention_layers", 0, text.layers());
  auto const vision = text.top().object_if("vision_config");
  auto const of_vision = [&](char const* key, std::uint64_t otherwise) { return vision ? vision->count_if(key, 1, 1U << 20).value_or(otherwise) : otherwise; };
  std::uint64_t const side = of_vision("image_size", 560) / of_vision("patch_size", 14);
  Tokens const image{of_vision("max_num_tiles", 4) * (side * side + 1)};
  text.model().encoder_tokens = image;
  return text.each(text.layers(), [&](std::uint64_t i) {
    return std::find(cross.begin(), cross.end(), Json(i)) != cross.end() ? cross_attention(shape, image) : full_attention(shape);
  });
}

}  // namespace kvbudget::inline v1::read
