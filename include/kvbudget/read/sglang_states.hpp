// The states of linear layers, for the architectures that SGLang has a pool for (facts: sglang.md R10, R11).
//
// Qwen3-Next: 36 of 48 layers, 8'192 channels of convolution and 32 x 128 x 128 of recurrent state, whatever layer_types says.
#pragma once

#include <kvbudget/read/nemotron_pattern.hpp>
#include <kvbudget/read/sglang_text.hpp>

namespace kvbudget::inline v1::read::detail {

class SglangStateReader : public SglangText {
 public:
  using SglangText::SglangText;

 protected:
  /// Nemotron-H's layers, as words or letters. transformers 5 writes linear_attention and full_attention, which SGLang's class refuses.
  std::vector<std::string> nemotron_layers() const {
    if (auto const* list = text_.find("layers_block_type"); list && list->is_array() && !list->empty())
      return names("layers_block_type", {"mamba", "attention", "mlp", "moe"});
    std::vector<std::string> found;
    for (char const letter : text_.text("hybrid_override_pattern")) {
      found.emplace_back(nemotron_word(letter));
      if (found.back().empty()) throw text_.refuse("hybrid_override_pattern", Json(std::string{letter}), "M, *, - and E", "correct the pattern");
    }
    return found;
  }

  sglang::CacheType state_type() const {
    if (options_.ssm_dtype) return *options_.ssm_dtype;
    if (row_->ignores_state_dtype) return sglang::CacheType::fp32;
    std::optional<std::string> named;
    if (auto const nested = top_.find("text_config"); nested && nested->is_object())
      named = Fields{*nested, top_.input(), "text_config"}.text_if("mamba_ssm_dtype");
    if (!named) named = top_.text_if("mamba_ssm_dtype");
    if (!named || *named == "float32") return sglang::CacheType::fp32;
    if (*named == "bfloat16") return sglang::CacheType::bf16;
    if (*named == "float16") return sglang::CacheType::fp16;
    throw top_.refuse("mamba_ssm_dtype", Json(*named), "float32, bfloat16, float16", "correct the field");
  }

  std::uint32_t expanded() const {
    auto const* expand = text_.find("mamba_expand");
    if (!expand || !expand->is_number() || !(expand->get<double>() > 0 && expand->get<double>() < 1e6)) throw text_.missing("mamba_expand", "a number above 0");
    return static_cast<std::uint32_t>(std::min<double>(expand->get<double>() * must("hidden_size"), 4e9));
  }

  sglang::StateModel mamba_state(std::uint32_t inner) const {
    return {.inner = inner,
            .groups = must("mamba_n_groups"),
            .heads = must("mamba_n_heads"),
            .head_dim = must("mamba_d_head"),
            .state = must("mamba_d_state"),
            .kernel = must("mamba_d_conv")};
  }

  static std::uint32_t times(std::uint64_t a, std::uint64_t b) { return static_cast<std::uint32_t>(std::min<std::uint64_t>(a * b, 0xffff'ffff)); }

  /// Qwen3-Next, Qwen3.5: each n-th layer is full attention, whatever layer_types says.
  sglang::StateModel gated_delta(std::uint32_t layers) const {
    auto const interval = static_cast<std::uint32_t>(text_.count_if("full_attention_interval", 1, most_).value_or(4));
    auto const is_full = [&](std::uint32_t i) { return (i + 1) % interval == 0; };
    return {.inner = times(must("linear_value_head_dim"), must("linear_num_value_heads")),
            .groups = must("linear_num_key_heads"),
            .heads = must("linear_num_value_heads"),
            .head_dim = must("linear_value_head_dim"),
            .state = must("linear_key_head_dim"),
            .kernel = static_cast<std::uint32_t>(text_.count_if("linear_conv_kernel_dim", 1, most_).value_or(4)),
            .linear_layers = layers_where(layers, [&](std::uint32_t i) { return !is_full(i); }),
            .full_layers = layers_where(layers, is_full)};
  }

  /// Falcon-H1: every layer has both.
  sglang::StateModel falcon_h1(std::uint32_t layers) const {
    auto const given = small("mamba_d_ssm");
    sglang::StateModel s = mamba_state(given ? static_cast<std::uint32_t>(*given) : expanded());
    s.linear_layers = s.full_layers = layers_where(layers, [](std::uint32_t) { return true; });
    return s;
  }

  sglang::StateModel granite() const {
    sglang::StateModel s = mamba_state(expanded());
    auto const kinds = names("layer_types", {"mamba", "attention"});
    s.linear_layers = where(kinds, {"mamba"});
    s.full_layers = where(kinds, {"attention"});
    return s;
  }

  sglang::StateModel nemotron() const {
    auto const kinds = nemotron_layers();
    return {.inner = times(must("mamba_num_heads"), must("mamba_head_dim")),
            .groups = must("n_groups"),
            .heads = must("mamba_num_heads"),
            .head_dim = must("mamba_head_dim"),
            .state = must("ssm_state_size"),
            .kernel = must("conv_kernel"),
            .linear_layers = where(kinds, {"mamba"}),
            .full_layers = where(kinds, {"attention"})};
  }

  /// Kimi-Linear counts its layers from 1.
  sglang::StateModel kimi(std::uint32_t layers) const {
    auto const linear = text_.object_if("linear_attn_config");
    if (!linear) throw text_.missing("linear_attn_config", "an object with kda_layers, num_heads, head_dim and short_conv_kernel_size");
    auto const is_linear = listed(*linear, "kda_layers", layers, 1);
    return {.kind = sglang::StateKind::kda,
            .heads = must(*linear, "num_heads"),
            .head_dim = must(*linear, "head_dim"),
            .kernel = must(*linear, "short_conv_kernel_size"),
            .linear_layers = layers_where(layers, [&](std::uint32_t i) { return bool{is_linear[i]}; }),
            .full_layers = layers_where(layers, [&](std::uint32_t i) { return !is_linear[i]; })};
  }

  sglang::StateModel lfm2(std::uint32_t layers) const {
    sglang::StateModel s{.kind = sglang::StateKind::short_conv, .inner = must("hidden_size"), .kernel = must("conv_L_cache")};
    if (auto const* kinds = text_.find("layer_types"); kinds && kinds->is_array() && !kinds->empty()) {
      auto const words = names("layer_types", {"conv", "short_conv", "full_attention"});
      s.linear_layers = where(words, {"conv", "short_conv"});
      s.full_layers = where(words, {"full_attention"});
      return s;
    }
    auto const is_full = listed(text_, "full_attn_idxs", layers, 0);
    s.full_layers = layers_where(layers, [&](std::uint32_t i) { return bool{is_full[i]}; });
    s.linear_layers = layers_where(layers, [&](std::uint32_t i) { return !is_full[i]; });
    return s;
  }

  sglang::StateModel jet() const {
    auto const efficient = text_.object_if("efficient_attention_config");
    auto const config = efficient ? efficient->object_if("jet") : std::nullopt;
    if (!config) throw text_.missing("efficient_attention_config", "an object with jet");
    auto const* expand = config->find("expand_v");
    if (!expand || !expand->is_number() || !(expand->get<double>() > 0 && expand->get<double>() < 1e3)) throw config->missing("expand_v", "a number above 0");
    std::uint32_t const heads = must(*config, "num_heads"), keys = must(*config, "head_dim");
    auto const values = static_cast<std::uint32_t>(keys * expand->get<double>());
    auto const kinds = names("layer_types", {"jet", "attn", "swa"});
    return {.inner = times(heads, values),
            .groups = heads,
            .heads = heads,
            .head_dim = values,
            .state = keys,
            .kernel = must(*config, "conv_size"),
            .linear_layers = where(kinds, {"jet"}),
            .full_layers = where(kinds, {"attn", "swa"})};
  }

  /// R10. The configurations that SGLang recognises; the rest has no state pool.
  SglangStates state_rule() const {
    if (type_ == "nemotron_h") return SglangStates::nemotron;
    if (row_->states != SglangStates::granite) return row_->states;
    auto const* kinds = text_.find("layer_types");
    if (!kinds || !kinds->is_array()) return SglangStates::no;
    return std::find(kinds->begin(), kinds->end(), "mamba") == kinds->end() ? SglangStates::no : SglangStates::granite;
  }

  void read_states(sglang::Model& m) const {
    std::uint32_t const layers = m.hidden_layers;
    switch (state_rule()) {
      case SglangStates::no:
        return;
      case SglangStates::gated_delta:
        m.states = gated_delta(layers);
        break;
      case SglangStates::falcon_h1:
        m.states = falcon_h1(layers);
        break;
      case SglangStates::granite:
        m.states = granite();
        break;
      case SglangStates::nemotron:
        m.states = nemotron();
        break;
      case SglangStates::kimi:
        m.states = kimi(layers);
        break;
      case SglangStates::lfm2:
        m.states = lfm2(layers);
        break;
      case SglangStates::jet:
        m.states = jet();
        break;
      case SglangStates::no_rule:
        throw top_.refuse("architectures", Json(architecture_), "an architecture whose states SGLang's rules are known for",
                          "give its states as a sglang::StateModel yourself");
    }
    m.states->state_type = state_type();
  }
};

}  // namespace kvbudget::inline v1::read::detail
