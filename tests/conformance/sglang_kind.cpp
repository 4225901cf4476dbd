// Kind sglang-sizing FILE...: what SGLang sized, allocated and printed, from the model facts of each row; with --configs DIR, from
// the row's config.json, and then the facts are compared, too. Figures of an error's message are compared, its prose is not.
// A few rows lack facts (no rank came up, or MiniMax-M3's index): those are read from ../hf_configs/configs beside FILE.
#include "kinds.hpp"

#include <kvbudget/read/sglang_model.hpp>
#include <kvbudget/write/sglang.hpp>

#include <algorithm>
#include <cmath>
#include <regex>
#include <set>

namespace conformance {

namespace {

using namespace kvbudget;
using sglang::BufferKind;
using sglang::Layout;
using sglang::StoreKind;

// Names of classes and what the runner does not size by; memory the oracle never allocated.
std::set<std::string> const not_facts{"class",          "pool_class", "configurator", "device_bytes", "device_bytes_by_attr",
                                      "available_size", "model",      "pools",        "draft"};
// Of a model: names, what enters only as something else that is compared, and what sizes nothing.
std::set<std::string> const not_model_facts{"arch", "attention_arch", "qk_nope_head_dim", "sliding_window_size", "attention_chunk_size", "loop_num", "mamba"};

// ---- input ----

std::string text_of(Json const& from, char const* key) { return from.contains(key) && from.at(key).is_string() ? from.at(key).get<std::string>() : ""; }

template <class T>
std::optional<T> some(Json const& from, char const* key) {
  if (!from.contains(key) || from.at(key).is_null()) return std::nullopt;
  return from.at(key).get<T>();
}

sglang::Options options_of(Json const& input, Json const& resolved) {
  Json const flags = input.value("flags", Json::object()), env = input.value("env", Json::object());
  sglang::Options o{.mem_fraction_static = resolved.at("mem_fraction_static").get<double>(),
                    .page_size = {resolved.at("page_size").get<std::uint64_t>()},
                    .tp_size = resolved.at("tp_size").get<std::uint32_t>(),
                    .pp_size = resolved.at("pp_size").get<std::uint32_t>(),
                    .dp_size = resolved.at("dp_size").get<std::uint32_t>(),
                    .enable_dp_attention = resolved.at("enable_dp_attention").get<bool>(),
                    .attn_cp_size = flags.value("attn_cp_size", 1U),
                    .dcp_size = flags.value("dcp_size", 1U)};
  auto const cache = sglang::cache_type_named(resolved.at("kv_cache_dtype").get<std::string>());
  if (!cache) throw std::runtime_error{"kv_cache_dtype is not one of " + std::string{sglang::cache_type_names}};
  o.kv_cache_dtype = *cache;
  o.checkpoint_fp8 = text_of(input, "kv_quant_algo") == "FP8";
  o.max_running_requests = some<std::uint64_t>(resolved, "max_running_requests");
  if (auto const total = some<std::uint64_t>(resolved, "max_total_tokens")) o.max_total_tokens = Tokens{*total};
  o.chunked_prefill_size = some<std::int64_t>(resolved, "chunked_prefill_size");
  o.disable_radix_cache = resolved.at("disable_radix_cache").get<bool>();
  o.disable_overlap_schedule = resolved.at("disable_overlap_schedule").get<bool>();
  o.swa_full_tokens_ratio = resolved.at("swa_full_tokens_ratio").get<double>();
  o.disable_hybrid_swa_memory = flags.value("disable_hybrid_swa_memory", false);
  if (env.contains("SGLANG_SWA_EVICTION_INTERVAL")) o.swa_eviction_interval = std::stoull(env.at("SGLANG_SWA_EVICTION_INTERVAL").get<std::string>());
  o.max_mamba_cache_size = some<std::uint64_t>(resolved, "max_mamba_cache_size");
  o.mamba_full_memory_ratio = resolved.at("mamba_full_memory_ratio").get<double>();
  bool const lazy = text_of(resolved, "mamba_radix_cache_strategy") == "extra_buffer_lazy";
  if (resolved.at("mamba_extra_buffer").get<bool>()) o.mamba_radix = lazy ? sglang::MambaRadix::extra_buffer_lazy : sglang::MambaRadix::extra_buffer;
  if (auto const algorithm = some<std::string>(resolved, "speculative_algorithm")) {
    auto const known = sglang::speculation_named(*algorithm);
    if (!known) throw std::runtime_error{"speculative_algorithm is not one of " + std::string{sglang::speculation_names}};
    o.speculative_algorithm = *known;
  }
  o.speculative_num_steps = some<std::uint64_t>(resolved, "speculative_num_steps");
  o.speculative_eagle_topk = some<std::uint64_t>(resolved, "speculative_eagle_topk");
  o.speculative_num_draft_tokens = some<std::uint64_t>(resolved, "speculative_num_draft_tokens");
  auto const mode = sglang::disaggregation_named(resolved.at("disaggregation_mode").get<std::string>());
  if (!mode) throw std::runtime_error{"disaggregation_mode is not one of " + std::string{sglang::disaggregation_names}};
  o.disaggregation_mode = *mode;
  o.disaggregation_decode_extra_slots = some<std::uint64_t>(resolved, "disaggregation_decode_extra_slots").value_or(0);
  o.dsa_trtllm = text_of(resolved, "dsa_prefill_backend") == "trtllm" || text_of(resolved, "dsa_decode_backend") == "trtllm";
  o.online_compress = text_of(env, "SGLANG_OPT_USE_ONLINE_COMPRESS") == "1";
  std::string const states = text_of(env, "SGLANG_DSV4_COMPRESS_STATE_DTYPE");
  o.compress_state_bf16 = states == "bf16" || states == "bfloat16";
  o.page_major = flags.value("enable_page_major_kv_layout", false);
  o.unified_memory = flags.value("enable_unified_memory", false);
  o.post_capture_sizing = text_of(env, "SGLANG_ENABLE_POST_CAPTURE_KV_SIZING") == "1";
  return o;
}

sglang::CacheType torch_type(std::string const& name) {
  for (auto const type : {sglang::CacheType::bf16, sglang::CacheType::fp16, sglang::CacheType::fp32})
    if (name == name_of(type)) return type;
  throw std::runtime_error{"no dtype of a model: " + name};
}

/// The config.json of a row, with its overrides.
read::SglangModel from_config(Json const& input, std::filesystem::path const& configs) {
  auto const path = configs / input.at("config").get<std::string>();
  Json config = read::parse_json(read::file_text(path), path.string());
  Json const overrides = input.value("overrides", Json::object());
  for (auto const& item : overrides.items()) {
    Json* target = &config;
    std::string key = item.key();
    for (auto dot = key.find('.'); dot != std::string::npos; dot = key.find('.')) {
      target = &(*target)[key.substr(0, dot)];
      key = key.substr(dot + 1);
    }
    if (item.value() == "__del__")
      target->erase(key);
    else
      (*target)[key] = Json(item.value());
  }
  Json const flags = input.value("flags", Json::object());
  read::SglangReadOptions options{.compute_capability = input.value("sm", 90U)};
  if (auto const context = some<std::uint64_t>(flags, "context_length")) options.context_length = Tokens{*context};
  if (auto const window = some<std::uint64_t>(input, "window")) options.window = Tokens{*window};
  std::string const ssm = text_of(flags, "mamba_ssm_dtype");
  if (!ssm.empty()) options.ssm_dtype = torch_type("torch." + ssm);
  return read::sglang_model(config, path.string(), options);
}

std::optional<read::SglangModel> draft_of(Json const& input, std::filesystem::path const& configs) {
  auto const name = some<std::string>(input, "draft_config");
  if (!name || !std::filesystem::exists(configs / *name)) return std::nullopt;
  return read::sglang_model(configs / *name);
}

/// One rank, by the facts of its row.
sglang::RankModel from_facts(Json const& facts, std::uint32_t stage) {
  auto const count = [&](char const* key) { return facts.contains(key) && !facts.at(key).is_null() ? facts.at(key).get<std::uint32_t>() : 0; };
  auto const tokens = [&](char const* key) {
    auto const n = some<std::uint64_t>(facts, key);
    return n ? std::optional{Tokens{*n}} : std::nullopt;
  };
  sglang::Model m{.hidden_layers = count("num_hidden_layers"),
                  .attention_layers = count("num_attention_layers"),
                  .total_kv_heads = count("total_kv_heads"),
                  .head_dim = count("head_dim"),
                  .value_dim = count("v_head_dim"),
                  .swa_head_dim = count("swa_head_dim"),
                  .swa_value_dim = count("swa_v_head_dim"),
                  .dtype = torch_type(facts.at("dtype").get<std::string>()),
                  .context = {facts.at("context_len").get<std::uint64_t>()}};
  m.latent = facts.at("use_mla_backend").get<bool>();
  m.latent_dim = count("kv_lora_rank");
  m.rope_dim = count("qk_rope_head_dim");
  m.indexed = facts.at("is_dsa").get<bool>();
  m.index_dim = count("index_head_dim");
  m.hybrid_swa = facts.at("is_hybrid_swa").get<bool>();
  m.swa_own_shape = facts.at("is_hybrid_swa_compress").get<bool>();
  if (facts.contains("full_layer_ids")) m.full_layers = facts.at("full_layer_ids").get<sglang::LayerIds>();
  if (facts.contains("swa_layer_ids")) m.swa_layers = facts.at("swa_layer_ids").get<sglang::LayerIds>();
  m.window = tokens("runner_sliding_window_size");
  m.nextn_layers = some<std::uint32_t>(facts, "num_nextn_predict_layers");
  if (facts.contains("compress_ratios"))
    m.compressed = sglang::CompressedModel{.nope = count("qk_nope_head_dim"),
                                           .rope = count("qk_rope_head_dim"),
                                           .index_dim = count("index_head_dim"),
                                           .window = {facts.at("window_size").get<std::uint64_t>()},
                                           .ratios = facts.at("compress_ratios").get<sglang::LayerIds>()};
  sglang::RankModel rank{.stage = stage};
  if (facts.contains("mamba")) {
    Json const& mamba = facts.at("mamba");
    m.states = sglang::StateModel{.conv_type = torch_type(mamba.at("conv_dtype").get<std::string>()),
                                  .state_type = torch_type(mamba.at("temporal_dtype").get<std::string>()),
                                  .linear_layers = mamba.at("linear_layers").get<sglang::LayerIds>(),
                                  .full_layers = mamba.at("full_attention_layer_ids").get<sglang::LayerIds>()};
    rank.state.conv = mamba.at("conv_shape").at(0).get<std::array<std::uint64_t, 2>>();
    rank.state.recurrent = mamba.at("temporal_shape").get<std::array<std::uint64_t, 3>>();
  }
  rank.model = m;
  rank.first_layer = count("start_layer");
  rank.end_layer = count("end_layer");
  rank.kv_heads = count("kv_heads_rank");
  rank.swa_kv_heads = count("swa_kv_heads_rank");
  return rank;
}

// ---- our figures, by the names of the file ----

/// The layers of a stage as SGLang counts those of its two pools: the first of the next stage among them.
sglang::LayerIds counted(sglang::RankModel const& rank, sglang::LayerIds const& layers) {
  sglang::LayerIds found;
  for (auto const layer : layers)
    if (layer >= rank.first_layer && layer <= rank.end_layer) found.push_back(layer);
  return found;
}

Json model_facts(sglang::RankModel const& rank, sglang::Options const& o, Json const& reported_window) {
  sglang::Model const& m = rank.model;
  auto const maybe = [](auto const& value) { return value ? Json(*value) : Json(nullptr); };
  Json facts{{"num_hidden_layers", m.hidden_layers},
             {"num_attention_layers", m.attention_layers},
             {"total_kv_heads", m.total_kv_heads},
             {"kv_heads_rank", rank.kv_heads},
             {"swa_kv_heads_rank", rank.swa_kv_heads},
             {"head_dim", m.head_dim},
             {"v_head_dim", m.value_dim},
             {"swa_head_dim", m.swa_head_dim},
             {"swa_v_head_dim", m.swa_value_dim},
             {"context_len", m.context.count},
             {"start_layer", rank.first_layer},
             {"end_layer", rank.end_layer},
             {"num_effective_layers", rank.layers()}};
  facts["dtype"] = name_of(m.dtype);
  facts["use_mla_backend"] = m.latent;
  facts["is_dsa"] = m.indexed;
  facts["is_hybrid_swa_compress"] = m.swa_own_shape;
  facts["full_layer_ids"] = counted(rank, m.full_layers);
  facts["swa_layer_ids"] = counted(rank, m.swa_layers);
  facts["kv_lora_rank"] = m.latent_dim;
  facts["qk_rope_head_dim"] = m.compressed ? m.compressed->rope : m.rope_dim;
  facts["index_head_dim"] = m.compressed ? m.compressed->index_dim : m.index_dim;
  bool const hybrid = m.hybrid_swa && !o.disable_hybrid_swa_memory;
  facts["is_hybrid_swa"] = hybrid;
  facts["runner_sliding_window_size"] = hybrid && m.window ? Json(m.window->count) : reported_window;
  facts["num_nextn_predict_layers"] = maybe(m.nextn_layers);
  facts["eagle_draft_num_layers"] = maybe(o.draft_layers);
  if (m.compressed) {
    facts["window_size"] = m.compressed->window.count;
    facts["compress_ratios"] = m.compressed->ratios;
  }
  return facts;
}

Json state_facts(sglang::RankModel const& rank) {
  sglang::StateModel const& s = *rank.model.states;
  return {{"linear_layers", s.linear_layers},
          {"full_attention_layer_ids", s.full_layers},
          {"conv_shape", Json::array({rank.state.conv})},
          {"temporal_shape", rank.state.recurrent},
          {"conv_dtype", name_of(s.conv_type)},
          {"temporal_dtype", name_of(s.state_type)},
          {"cache_per_req", slot_bytes(s, rank.state).count}};
}

Json shape_of(sglang::Buffer const& buffer) {
  Json shape = Json::array();
  for (auto const length : buffer.shape) shape.push_back(length);
  return shape;
}

Json layered_shape(sglang::Buffer const& buffer) {
  Json shape = shape_of(buffer);
  shape.insert(shape.begin(), buffer.count);
  return shape;
}

Json sizes_of(sglang::Store const& store) {
  if (store.latent) return store.key_bytes.count;
  return Json::array({store.key_bytes.count, store.value_bytes.count});
}

char const* buffer_name(BufferKind kind) {
  switch (kind) {
    case BufferKind::keys:
      return "k_buffer";
    case BufferKind::values:
      return "v_buffer";
    case BufferKind::key_scales:
      return "k_scale_buffer";
    case BufferKind::value_scales:
      return "v_scale_buffer";
    case BufferKind::latent_scales:
      return "kv_scale_buffer";
    case BufferKind::index_keys:
      return "index_k_with_scale_buffer";
    default:
      return "kv_buffer";
  }
}

Json store_facts(sglang::Store const& store) {
  Json facts{{"kv_size_bytes", sizes_of(store)}, {"size", store.size.count}, {"page_size", store.page.count}, {"layer_num", store.layers}};
  for (auto const& buffer : store.buffers) {
    char const* const name = store.kind == StoreKind::indexer_4 ? "index_k_with_scale_buffer" : buffer_name(buffer.kind);
    facts[name] = {{"n", buffer.count}, {"shape", shape_of(buffer)}, {"bytes", buffer.bytes().count}};
    if (buffer.kind == BufferKind::pages) facts["page_bytes"] = buffer.shape[1];
  }
  return facts;
}

Json states_facts(sglang::Store const& store) {
  Json facts{{"size", store.size.count},
             {"conv", Json::array({layered_shape(store.buffers[0])})},
             {"temporal", layered_shape(store.buffers[1])},
             {"conv_bytes", store.buffers[0].bytes().count},
             {"temporal_bytes", store.buffers[1].bytes().count},
             {"temporal_dtype", name_of(store.type)}};
  if (store.buffers.size() == 4) {
    facts["intermediate_ssm"] = layered_shape(store.buffers[2]);
    facts["intermediate_ssm_bytes"] = store.buffers[2].bytes().count;
    facts["intermediate_conv_phys"] = Json::array({layered_shape(store.buffers[3])});
    facts["intermediate_conv_bytes"] = store.buffers[3].bytes().count;
  }
  return facts;
}

Json compressor_facts(sglang::Buffer const& buffer, std::uint64_t ratio, std::uint64_t ring) {
  sglang::Buffer one = buffer;
  one.count = 1;
  return {{"ratio", ratio}, {"ring", ring}, {"rows", buffer.shape[0]}, {"last_dim", buffer.shape[1]}, {"bytes", one.bytes().count}, {"count", buffer.count}};
}

sglang::Store const* find(std::vector<sglang::Store> const& stores, StoreKind kind) {
  for (auto const& store : stores)
    if (store.kind == kind) return &store;
  return nullptr;
}

/// A pool that only holds others: their sizes together.
Json together(sglang::Plan const& plan, std::vector<sglang::Store const*> const& stores, Json const& layers) {
  Bytes keys{}, values{};
  for (auto const* store : stores) keys += store->key_bytes, values += store->value_bytes;
  bool const latent = stores.size() == 1 && stores[0]->latent;
  return {{"kv_size_bytes", latent ? Json(keys.count) : Json::array({keys.count, values.count})},
          {"size", plan.layout == Layout::plain || plan.layout == Layout::latent ? plan.tokens.count : stores.back()->size.count},
          {"page_size", plan.arguments.page_size.count},
          {"layer_num", layers}};
}

Json pool_facts(sglang::Plan const& plan, std::vector<sglang::Store> const& stores) {
  Json facts;
  facts["kv_cache_dtype"] = name_of(plan.type);
  facts["req_to_token"] = {{"shape", {plan.request_table.rows, plan.request_table.columns}}, {"bytes", plan.request_table.bytes().count}};
  facts["allocator"] = {{"size", plan.allocator_size.count}, {"page_size", plan.allocator_page.count}};
  auto const *cache = find(stores, StoreKind::cache), *states = find(stores, StoreKind::states), *full = find(stores, StoreKind::full),
             *sliding = find(stores, StoreKind::sliding), *index = find(stores, StoreKind::sparse_index), *windows = find(stores, StoreKind::windows);
  if (states) facts["mamba"] = states_facts(*states);
  if (states && cache) {
    facts["full_kv_pool"] = store_facts(*cache);
    facts["main"] = together(plan, {cache}, nullptr);
  } else if (index) {
    facts["main_pool"] = store_facts(*cache);
    facts["main"] = together(plan, {index, cache}, cache->layers);
  } else if (sliding) {
    facts["full_kv_pool"] = store_facts(*full);
    facts["swa_kv_pool"] = store_facts(*sliding);
    facts["main"] = together(plan, {sliding, full}, full->layers + sliding->layers);
  } else if (windows) {
    auto const& compressors = find(stores, StoreKind::compressors)->buffers;
    facts["main"] = {{"size", windows->size.count}, {"page_size", windows->page.count}, {"layer_num", windows->layers}};
    facts["swa_kv_pool"] = store_facts(*windows);
    facts["c4_kv_pool"] = store_facts(*find(stores, StoreKind::compressed_4));
    facts["c128_kv_pool"] = store_facts(*find(stores, StoreKind::compressed_128));
    facts["c4_indexer_kv_pool"] = store_facts(*find(stores, StoreKind::indexer_4));
    facts["compress_state_pools"] = Json::array();  // in the order in which the layers first need them
    for (std::uint32_t i = plan.rank.first_layer; i < plan.rank.end_layer; ++i) {
      std::uint32_t const ratio = plan.rank.model.compressed->ratios[i];
      Json const pool =
          ratio == 4 ? compressor_facts(compressors[0], 4, plan.compressed.ring_4) : compressor_facts(compressors[1], 128, plan.compressed.ring_128);
      auto& known = facts["compress_state_pools"];
      if (ratio > 1 && std::find(known.begin(), known.end(), pool) == known.end()) known.push_back(pool);
    }
    facts["indexer_compress_state_pools"] = Json::array({compressor_facts(compressors[2], 4, plan.compressed.ring_4)});
  } else if (cache) {
    facts["main"] = store_facts(*cache);
  }
  return facts;
}

Json rank_facts(sglang::Plan const& plan) {
  Json facts;
  facts["budget_bytes"] = plan.budgeted ? Json(plan.pool.count) : Json(nullptr);
  if (plan.layout == Layout::compressed) {
    facts["bytes_per_full_token"] = plan.cell;
    facts["c4_ring_size"] = plan.compressed.ring_4;
    facts["c128_ring_size"] = plan.compressed.ring_128;
  } else {
    facts["cell_size"] = plan.cell;
  }
  facts["full_per_token"] = plan.sliding.full_per_token.count;
  facts["swa_per_token"] = plan.sliding.swa_per_token.count;
  facts["full_layers_num"] = plan.sliding.full_layers;
  facts["swa_layers_num"] = plan.sliding.swa_layers;
  facts["draft_full_layers_num"] = plan.sliding.draft_layers;
  if (plan.cap) facts["swa_cap"] = plan.cap->count;
  facts["mamba_ratio"] = plan.slots_per_request;
  facts["max_mamba_cache_size"] = plan.rank.model.states ? Json(plan.figures.slots) : Json(plan.arguments.max_mamba_cache_size.value_or(0));
  if (plan.refused()) return facts;
  auto const& pools = plan.pools_agreed;
  facts["max_total_num_tokens"] = plan.tokens.count;
  facts["full_max_total_num_tokens"] = pools.full.count;
  facts["swa_max_total_num_tokens"] = pools.swa.count;
  facts["c4_max_total_num_tokens"] = pools.c4;
  facts["c128_max_total_num_tokens"] = pools.c128;
  facts["c4_state_pool_size"] = pools.c4_state;
  facts["c128_state_pool_size"] = plan.compressor_rows;
  facts["max_running_requests"] = plan.running;
  facts["max_token_pool_size"] = plan.scheduler_tokens.count;
  facts["max_req_len"] = plan.longest_request.count;
  facts["max_req_input_len"] = plan.longest_input;
  return facts;
}

// ---- errors ----

struct KnownError {
  sglang::Refusal refusal;
  char const* type;
  char const* pattern;
};

std::vector<KnownError> const known_errors{
    {sglang::Refusal::no_memory, "ValueError", R"(--mem-fraction-static=([0-9.]+)\. Raise --mem-fraction-static above ([0-9.]+) \(.*= ([0-9.]+)\))"},
    {sglang::Refusal::no_state_slots, "RuntimeError",
     R"(max_mamba_cache_size=(-?[0-9]+) \(total_rest_memory=(-?[0-9.]+) GB, mamba_cache_per_req=([0-9.]+) MB\))"},
    {sglang::Refusal::no_running_requests, "RuntimeError", R"(max_mamba_cache_size=([0-9]+), mamba_ratio=([0-9]+), resulting max_num_reqs=([0-9]+))"},
    {sglang::Refusal::no_full_tokens, "RuntimeError", R"(SWA pool cap \(([0-9]+) tokens, ([0-9.]+) GiB\) .* available (-?[0-9.]+) GiB)"},
    {sglang::Refusal::indivisible, "AssertionError", R"(([0-9]+) is not divisible by ([0-9]+))"},
    {sglang::Refusal::pipeline_with_draft, "AssertionError", R"(PP is not compatible with MTP models)"},
    {sglang::Refusal::no_tokens, "RuntimeError", R"(Not enough memory\. Please try to increase --mem-fraction-static)"},
    {sglang::Refusal::nothing_cached, "ZeroDivisionError", R"(^(?:integer division or modulo|float floor division) by zero)"},
    {sglang::Refusal::bad_page, "AssertionError", R"(page_size must be (?:multiple of 128|256))"},
};

/// The figures of a message, as the message writes them.
std::vector<std::string> figures_of(sglang::Plan const& plan) {
  auto const& f = plan.figures;
  auto const gib = [](Bytes bytes) { return fmt::format("{:.2f}", static_cast<double>(bytes.count) / sglang::one_gib); };
  switch (plan.refusal) {
    case sglang::Refusal::no_memory:
      return {fmt::format("{}", f.fraction), fmt::format("{:.3f}", std::ceil(f.least_fraction * 1000) / 1000), fmt::format("{:.4f}", f.least_fraction)};
    case sglang::Refusal::no_state_slots:
      return {std::to_string(f.slots), fmt::format("{:.2f}", f.rest_gib), fmt::format("{:.2f}", static_cast<double>(f.slot.count) / 1'048'576)};
    case sglang::Refusal::no_running_requests:
      return {std::to_string(f.slots), std::to_string(f.slots_per_request), std::to_string(plan.running)};
    case sglang::Refusal::no_full_tokens:
      return {std::to_string(f.swa_tokens.count), gib(f.swa_bytes), gib(f.budget)};
    case sglang::Refusal::indivisible:
      return {std::to_string(f.indivisible.number), std::to_string(f.indivisible.by)};
    default:
      return {};
  }
}

void compare_error(Json const& output, sglang::Plan const& plan, bool self_test, Case& one) {
  std::string const message = output.at("error").get<std::string>();
  for (auto const& known : known_errors) {
    std::smatch found;
    if (!std::regex_search(message, found, std::regex{known.pattern})) continue;
    one.compare("error", std::string{name_of(known.refusal)} + (self_test ? " changed" : ""), name_of(plan.refusal));
    one.compare("error_type", output.at("error_type"), known.type);
    Json const expected(std::vector<std::string>{found.begin() + 1, found.end()});
    std::string const text = write::refusal_text(plan);
    one.compare("figures", expected, figures_of(plan));
    for (auto const& figure : figures_of(plan))
      if (text.find(figure) == std::string::npos) one.wrong("refusal_text", "does not say " + figure);
    return;
  }
  one.wrong("error", "a message that is not known: " + message);
}

// ---- log lines ----

std::vector<std::string> compared_lines(Json const& log, bool after_mark) {
  static char const* const kinds[] = {"KV Cache is allocated",
                                      "SWAKVPool mem usage",
                                      "Mamba Cache is allocated",
                                      "Use sliding window memory pool",
                                      "DSV4 ",
                                      "Initialize DeepSeekV4TokenToKVPool"};
  std::vector<std::string> lines;
  bool marked = false;
  for (auto const& item : log) {
    std::string line = item.get<std::string>();
    if (line == "MARK PP second pass") marked = true;
    if (marked != after_mark || line.rfind("INFO ", 0) != 0) continue;
    line = line.substr(5);
    for (auto const* kind : kinds)
      if (line.rfind(kind, 0) == 0) {
        lines.push_back(line);
        break;
      }
  }
  return lines;
}

void append(std::vector<std::string>& lines, std::vector<std::string> const& more) { lines.insert(lines.end(), more.begin(), more.end()); }

// ---- a row ----

struct Row {
  std::vector<sglang::RankModel> ranks{};
  std::vector<sglang::Plan> plans{};
  sglang::Options options{};
  std::vector<sglang::Memory> memory{};
  std::vector<sglang::Store> draft{};
  bool draft_unknown{};    // a draft pool ran, of a model that is not here: its lines are left out
  Json reported_window{};  // by the loaded model, where the row says
};

void compare_pools(std::string const& path, Json const& expected, Json const& ours, Case& one) {
  for (auto const& item : expected.items()) {
    std::string const name = path + "." + item.key();
    if (not_facts.contains(item.key())) continue;
    if (!ours.contains(item.key()))
      one.wrong(name, "a field that is not compared");
    else if (item.value().is_object())
      compare_pools(name, item.value(), ours.at(item.key()), one);
    else
      one.compare(name, item.value(), ours.at(item.key()));
  }
}

void compare_model(Json const& expected, sglang::RankModel const& rank, Row const& row, Case& one) {
  one.compare_all(expected, model_facts(rank, row.options, row.reported_window), not_model_facts);
  one.compare("has states", expected.contains("mamba"), rank.model.states.has_value());
  if (expected.contains("mamba") && rank.model.states) one.compare_all(expected.at("mamba"), state_facts(rank), {"config_class"});
}

void compare_rank(Json const& expected, sglang::Plan const& plan, Row const& row, bool with_model, Case& one) {
  Json facts = rank_facts(plan);
  facts["pre_gib"] = sglang::free_gib(row.memory[0].before_loading, sglang::on_several_ranks(row.options));
  one.compare_all(expected, facts, not_facts);
  if (with_model) compare_model(expected.at("model"), plan.rank, row, one);
  if (!expected.contains("pools")) return;
  if (plan.stores.empty()) return one.wrong("pools", write::refusal_text(plan));
  if (plan.trail.blocks() != plan.blocks || plan.trail.steps.overflowed()) one.wrong("trail", "does not end at the blocks");
  if (!check(plan.footprint).empty() || plan.footprint.pools() != plan.pools()) one.wrong("footprint", fmt::format("{}", check(plan.footprint)));
  compare_pools("pools", expected.at("pools"), pool_facts(plan, plan.stores), one);
  if (!expected.contains("draft") || row.draft.empty()) return;
  std::vector<sglang::Store> draft = row.draft;
  if (plan.rank.model.states) draft.push_back(*find(plan.stores, StoreKind::states));
  one.compare("draft.num_effective_layers", expected.at("draft").at("num_effective_layers"), row.draft[0].layers);
  compare_pools("draft.pools", expected.at("draft").at("pools"), pool_facts(plan, draft), one);
}

void compare_logs(Json const& log, Row const& row, Case& one) {
  std::vector<std::string> ours;
  for (auto const& plan : row.plans) append(ours, write::log_lines(plan));
  for (auto const& store : row.draft) ours.push_back(write::log_line(store));
  bool const piped = row.plans.size() > 1;
  auto expected = compared_lines(log, piped);
  if (row.draft_unknown && expected.size() > ours.size()) expected.resize(ours.size());
  one.compare("log", expected, ours);
  if (!piped) return;
  std::vector<std::string> alone;  // the first pass, before the stages agree
  for (auto const& rank : row.ranks) append(alone, write::log_lines(sglang::plan_stages({rank}, row.memory, row.options)[0]));
  one.compare("log of the first pass", compared_lines(log, false), alone);
}

/// Where the config.json files are when no --configs says so: beside FILE's folder, or beside this project.
std::filesystem::path configs_beside(std::string const& file) {
  auto const beside = std::filesystem::path{file}.parent_path() / ".." / "hf_configs" / "configs";
  return std::filesystem::exists(beside) ? beside : std::filesystem::path{"../shared/hf_configs/configs"};
}

/// The draft model's pool, where the row ran it: its own layers, of the target's tokens.
std::vector<sglang::Store> draft_pool(Row const& row, std::optional<read::SglangModel> const& draft) {
  if (!draft) return {};
  sglang::Model model = draft->model;
  model.hidden_layers = model.attention_layers = draft->layers_as_draft;
  model.states.reset();
  return sglang::draft_stores(row.plans[0], sglang::on_rank(model, row.options, 0));
}

void compare_row(std::string const& file, Options const& how, Json& row_json, Case& one) {
  Json const& input = row_json.at("input");
  Json& output = row_json.at("output");
  one.name = input.at("name").get<std::string>();
  if (text_of(output, "error_stage") == "server_args") {
    one.refusal = "an argument error, before anything is sized: " + text_of(output, "error");
    return;
  }
  Json const& resolved = output.at("resolved_args");
  bool const has_ranks = output.contains("ranks") && !output.at("ranks").empty();
  std::filesystem::path const configs = how.configs.empty() ? configs_beside(file) : std::filesystem::path{how.configs};
  bool const from_config_json = !how.configs.empty() || !has_ranks;

  Row row{.options = options_of(input, resolved), .memory = {{{input.at("pre").get<std::uint64_t>()}, {input.at("post").get<std::uint64_t>()}}}};
  row.reported_window = input.value("window", Json{});
  bool const runs_draft = input.value("draft_pool", false);
  auto const draft = from_config_json || runs_draft ? draft_of(input, configs) : std::nullopt;
  bool const is_sparse = has_ranks && text_of(output.at("ranks")[0].at("model"), "arch").rfind("MiniMaxM3Sparse", 0) == 0;
  if ((from_config_json || is_sparse) && !std::filesystem::exists(configs / input.at("config").get<std::string>())) {
    one.refusal = "the row does not have all facts of its model; give --configs";
    return;
  }
  if (from_config_json) {
    auto const read = from_config(input, configs);
    row.options.draft_layers = read::sglang_draft_layers(read, row.options, draft ? &*draft : nullptr);
    row.ranks = sglang::ranks_of(read.model, row.options);
  } else {
    for (auto const& rank : output.at("ranks")) row.ranks.push_back(from_facts(rank.at("model"), static_cast<std::uint32_t>(row.ranks.size())));
    row.options.draft_layers = some<std::uint32_t>(output.at("ranks")[0].at("model"), "eagle_draft_num_layers");
    if (is_sparse) {
      auto const read = from_config(input, configs);
      for (auto& rank : row.ranks) rank.model.sparse = read.model.sparse;
    }
  }
  row.plans = sglang::plan_stages(row.ranks, row.memory, row.options);
  if (row.plans.empty()) return one.wrong("ranks", "the row has no rank to plan");
  if (row.plans[0].refusal == sglang::Refusal::bad_arguments) {
    one.refusal = write::refusal_text(row.plans[0]);
    return;
  }
  if (runs_draft) row.draft = draft_pool(row, draft);
  row.draft_unknown = runs_draft && row.draft.empty();

  Json none = Json::array();
  Json& ranks = has_ranks ? output.at("ranks") : none;
  if (how.self_test && has_ranks) perturb(ranks[0], not_facts);
  if (output.contains("error"))
    compare_error(output, sglang::binding_stage(row.plans), how.self_test, one);
  else
    one.compare("stages", ranks.size(), row.plans.size());
  for (std::size_t i = 0; i < ranks.size() && i < row.plans.size(); ++i) compare_rank(ranks[i], row.plans[i], row, !how.configs.empty(), one);
  if (output.contains("error")) return;
  if (output.contains("pp_min_capacity")) {
    Json local = Json::array();
    for (auto const& plan : row.plans) local.push_back(plan.local_capacity.count);
    one.compare("pp_local_capacity", output.at("pp_local_capacity"), local);
    one.compare("pp_min_capacity", output.at("pp_min_capacity"), *std::min_element(local.begin(), local.end()));
  }
  compare_logs(output.at("log"), row, one);
}

}  // namespace

Cases sglang_sizing(Options const& options) {
  return each_file(options, [&](std::string const& file, Json& row, Case& one) { compare_row(file, options, row, one); });
}

}  // namespace conformance
