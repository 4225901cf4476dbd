// Kind vllm-sizing FILE: what vLLM's own code made of each row's cache specs and flags (golden/README.md says what is compared).
// Kind logs-hybrid FILE: what public vLLM logs print of hybrid models. A prediction is right if some number of bytes inside the
// rounding of the printed memory gives the printed figures; each block count the row names must.
#include "kinds.hpp"

#include <kvbudget/kvbudget.hpp>
#include <kvbudget/size/vllm.hpp>
#include <kvbudget/write/vllm.hpp>

#include <algorithm>
#include <map>

namespace conformance {

namespace {

using namespace kvbudget;

template <class Value>
Value named(std::map<std::string, Value> const& names, Json const& name) {
  auto const found = names.find(name.get<std::string>());
  if (found == names.end()) throw std::runtime_error{"no meaning for " + name.dump()};
  return found->second;
}

std::map<std::string, vllm::SpecKind> const kinds{{"FullAttentionSpec", vllm::SpecKind::full_attention},
                                                  {"MLAAttentionSpec", vllm::SpecKind::mla},
                                                  {"RSWASpec", vllm::SpecKind::rswa},
                                                  {"SinkFullAttentionSpec", vllm::SpecKind::sink_full_attention},
                                                  {"HiddenStateCacheSpec", vllm::SpecKind::hidden_state},
                                                  {"SlidingWindowSpec", vllm::SpecKind::sliding_window},
                                                  {"SlidingWindowMLASpec", vllm::SpecKind::sliding_window_mla},
                                                  {"ChunkedLocalAttentionSpec", vllm::SpecKind::chunked_local},
                                                  {"MambaSpec", vllm::SpecKind::mamba},
                                                  {"CrossAttentionSpec", vllm::SpecKind::cross_attention}};
std::map<std::string, vllm::Element> const elements{{"bfloat16", vllm::Element::bfloat16},
                                                    {"float16", vllm::Element::float16},
                                                    {"float32", vllm::Element::float32},
                                                    {"uint8", vllm::Element::uint8},
                                                    {"int8", vllm::Element::int8}};
std::map<std::string, vllm::CacheDType> const quant_modes{{"NONE", vllm::CacheDType::automatic},
                                                          {"FP8_PER_TENSOR", vllm::CacheDType::fp8},
                                                          {"INT8_PER_TOKEN_HEAD", vllm::CacheDType::int8_per_token_head},
                                                          {"FP8_PER_TOKEN_HEAD", vllm::CacheDType::fp8_per_token_head},
                                                          {"INT4_PER_TOKEN_HEAD", vllm::CacheDType::int4_per_token_head},
                                                          {"NVFP4", vllm::CacheDType::nvfp4},
                                                          {"TURBOQUANT_K8V4", vllm::CacheDType::turboquant_k8v4},
                                                          {"TURBOQUANT_4BIT_NC", vllm::CacheDType::turboquant_4bit_nc},
                                                          {"TURBOQUANT_K3V4_NC", vllm::CacheDType::turboquant_k3v4_nc},
                                                          {"TURBOQUANT_3BIT_NC", vllm::CacheDType::turboquant_3bit_nc}};
std::map<std::string, vllm::MambaMode> const mamba_modes{{"none", vllm::MambaMode::none}, {"align", vllm::MambaMode::align}, {"all", vllm::MambaMode::all}};

std::string class_of(vllm::SpecKind kind) {
  for (auto const& [name, value] : kinds)
    if (value == kind) return name;
  return "?";
}

/// A row's cache spec. A field that has no meaning here is an error, not passed over.
vllm::LayerSpec spec_of(Json const& row) {
  vllm::LayerSpec spec{.kv_heads = 0};
  std::map<std::string, std::function<void(Json const&)>> const fields{
      {"kind", [&](Json const& value) { spec.kind = named(kinds, value); }},
      {"block_size", [&](Json const& value) { spec.block = Tokens{value.get<std::uint64_t>()}; }},
      {"num_kv_heads", [&](Json const& value) { spec.kv_heads = value; }},
      {"num_head_slots", [&](Json const& value) { spec.head_slots = value; }},
      {"head_size", [&](Json const& value) { spec.head_size = value; }},
      {"head_size_v", [&](Json const& value) { spec.head_size_v = value; }},
      {"dtype", [&](Json const& value) { spec.element = named(elements, value); }},
      {"kv_quant_mode", [&](Json const& value) { spec.cache_dtype = named(quant_modes, value); }},
      {"state_content_bytes", [&](Json const& value) { spec.content = Bytes{value.get<std::uint64_t>()}; }},
      {"compress_ratio", [&](Json const& value) { spec.compress_ratio = value; }},
      {"alignment", [&](Json const& value) { spec.alignment = Bytes{value.get<std::uint64_t>()}; }},
      {"page_size_padded", [&](Json const& value) { spec.padded = Bytes{value.get<std::uint64_t>()}; }},
      {"indexes_kv_by_block_stride", [&](Json const& value) { spec.by_block_stride = value; }},
      {"sliding_window", [&](Json const& value) { spec.window = Tokens{value.get<std::uint64_t>()}; }},
      {"attention_chunk_size", [&](Json const& value) { spec.chunk = Tokens{value.get<std::uint64_t>()}; }},
      {"num_speculative_blocks", [&](Json const& value) { spec.speculative_blocks = value; }},
      {"mamba_cache_mode", [&](Json const& value) { spec.mamba_mode = named(mamba_modes, value); }},
      {"shapes", [](Json const&) {}},           // with dtypes
      {"page_size_bytes", [](Json const&) {}},  // compared
      {"storage_block_size", [](Json const&) {}},
      {"cache_dtype_str", [](Json const&) {}},  // says nothing that dtype, quant mode and content do not
      {"model_version", [](Json const&) {}},
      {"rswa_window", [&](Json const& value) { spec.rswa_window = Tokens{value.get<std::uint64_t>()}; }},
      {"extra_retained_tokens", [&](Json const& value) { spec.extra_retained = Tokens{value.get<std::uint64_t>()}; }},
      {"non_causal", [](Json const&) {}},  // merges all the same (C1)
      {"dtypes", [&](Json const& value) {
         for (std::size_t i = 0; i < value.size(); ++i) {
           std::uint64_t elements_in = 1;
           for (auto const& side : row.at("shapes").at(i)) elements_in *= side.get<std::uint64_t>();
           spec.states.push_back({elements_in, named(elements, value[i]), row.at("shapes").at(i).at(0).get<std::uint64_t>()});
         }
       }}};
  for (auto const& item : row.items()) {
    auto const field = fields.find(item.key());
    if (field == fields.end()) throw std::runtime_error{"a cache spec's field without a meaning: " + item.key()};
    field->second(item.value());
  }
  return spec;
}

vllm::Options options_of(Json const& row) {
  vllm::Options options{.max_in_flight_tokens = Tokens{row.at("max_in_flight_tokens").get<std::uint64_t>()}};
  std::map<std::string, std::function<void(Json const&)>> const flags{
      {"max_model_len", [&](Json const& value) { options.max_model_len = Tokens{value.get<std::uint64_t>()}; }},
      {"auto_fit", [&](Json const& value) { options.auto_fit = value; }},
      {"tp", [&](Json const& value) { options.tensor_parallel = value; }},
      {"pp", [&](Json const& value) { options.pipeline_parallel = value; }},
      {"dcp", [&](Json const& value) { options.decode_context_parallel = value; }},
      {"max_num_batched_tokens", [&](Json const& value) { options.max_num_batched_tokens = Tokens{value.get<std::uint64_t>()}; }},
      {"async_scheduling", [&](Json const& value) { options.async_scheduling = value; }},
      {"use_v2_model_runner", [&](Json const& value) { options.v2_model_runner = value; }},
      {"enable_prefix_caching", [&](Json const& value) { options.enable_prefix_caching = value; }},
      {"num_speculative_tokens", [&](Json const& value) { options.num_speculative_tokens = value; }},
      {"multi_module_mtp", [&](Json const& value) { options.multi_module_mtp = value; }},
      {"disable_hybrid_kv_cache_manager", [&](Json const& value) { options.disable_hybrid_kv_cache_manager = value; }},
      {"num_gpu_blocks_override", [&](Json const& value) { options.num_gpu_blocks_override = Blocks{value.get<std::uint64_t>()}; }},
      {"max_num_encoder_input_tokens", [&](Json const& value) { options.max_num_encoder_input_tokens = Tokens{value.get<std::uint64_t>()}; }},
      {"prefix_match_unit", [&](Json const& value) { options.prefix_match_unit = Tokens{value.get<std::uint64_t>()}; }},
      {"enable_cross_layers_blocks", [&](Json const& value) { options.cross_layers_blocks = value; }},
      {"kv_cache_dtype", [&](Json const& value) { options.kv_cache_dtype = vllm::find_cache_dtype(value.get<std::string>()).value(); }},
      {"mamba_cache_mode", [](Json const&) {}},             // the specs say it
      {"block_size", [](Json const&) {}},                   // the specs' counts
      {"indexes_kv_by_block_stride", [](Json const&) {}}};  // the specs say it
  for (auto const& item : row.at("config").items()) {
    auto const flag = flags.find(item.key());
    if (flag == flags.end()) throw std::runtime_error{"a flag without a meaning: " + item.key()};
    flag->second(item.value());
  }
  if (options.tensor_parallel % options.decode_context_parallel != 0) options.tensor_parallel = options.decode_context_parallel;  // the specs are a rank's
  return options;
}

/// Each worker's layers in order; the page of every spec is compared on the way.
std::vector<vllm::RankLayers> ranks_of(Json const& row, Case& one) {
  std::vector<vllm::RankLayers> ranks;
  for (std::size_t i = 0; i < row.at("workers").size(); ++i) {
    Json const& worker = row["workers"][i];
    vllm::RankLayers rank{.available = Bytes{row.at("available_bytes").at(i).get<std::uint64_t>()}};
    std::vector<vllm::LayerSpec> specs;
    for (auto const& spec : worker.at("unique_specs")) {
      specs.push_back(spec_of(spec));
      one.compare("page_size_bytes", spec.at("page_size_bytes"), vllm::page_bytes(specs.back()).count);
    }
    for (auto const& run : worker.at("layer_order_rle"))
      rank.layers.insert(rank.layers.end(), run.at(1).get<std::size_t>(), specs.at(run.at(0).get<std::size_t>()));
    one.compare("num_layers", worker.at("num_layers"), rank.layers.size());
    ranks.push_back(std::move(rank));
  }
  return ranks;
}

/// C6, where the row says the state's shapes: the resolved block of attention, and of the states.
void compare_hybrid_block(Json const& row, std::vector<vllm::RankLayers> const& ranks, vllm::Options const& options, Case& one) {
  if (!row.contains("model") || !row["model"].contains("state_shapes")) return;
  vllm::LayerSpec attention{};
  Bytes state{};
  for (auto const& spec : ranks[0].layers) {
    state = max(state, vllm::state_bytes(spec));
    if (attention.head_size == 0 && vllm::base_of(spec.kind) == vllm::BaseKind::full) attention = spec;
  }
  Bytes const per_token = vllm::token_bytes(attention);
  Tokens const told{row.at("config").value("block_size", std::uint64_t{16})};
  Tokens const align = max(max(told, Tokens{16}), Tokens{attention.kind == vllm::SpecKind::mla ? 128U : 16U});
  auto const mode = named(mamba_modes, row.at("resolved_mamba_cache_mode"));
  Tokens const block = max(told, vllm::hybrid_block(state, per_token, align, mode, Tokens{64}));
  one.compare("resolved_block_size", row.at("resolved_block_size"), block.count);
  one.compare("resolved_mamba_block_size", row.at("resolved_mamba_block_size"), mode == vllm::MambaMode::none ? options.max_model_len.count : block.count);
  one.compare("resolved_mamba_page_size_padded", row.at("resolved_mamba_page_size_padded"), (per_token * block.count).count);
}

Json groups_of(vllm::Plan const& plan, vllm::RequestTerms const& terms) {
  Json groups = Json::array();
  for (auto const& group : plan.ranks.at(0).groups)
    groups.push_back({{"num_layers", group.layers.size()},
                      {"layer_indices", group.layers},
                      {"kind", group.uniform_type ? "UniformTypeKVCacheSpecs" : class_of(group.members[0].kind)},
                      {"block_size", group.members[0].block.count},
                      {"page_size_bytes", vllm::page_bytes(group).count},
                      {"blocks_per_max_len_request", vllm::blocks_per_request(group, terms, plan.max_model_len).count}});
  return groups;
}

Json facts_of(vllm::Plan const& plan, vllm::Options const& options) {
  Json facts{{"num_blocks", plan.blocks.count},
             {"usable_blocks", plan.usable().count},
             {"kv_cache_size_tokens", plan.printed_tokens.count},
             {"max_concurrency", plan.max_concurrency},
             {"max_concurrency_str", fmt::format("{:.2f}", plan.max_concurrency)},
             {"log_line", vllm::log_lines(plan).back()},
             {"max_model_len", plan.max_model_len.count},
             {"scheduler_block_size", plan.scheduler_block.count},
             {"hash_block_size", plan.hash_block.count},
             {"bytes_per_pool_block", Json::array()},
             {"needed_bytes_one_request", Json::array()},
             {"needs_zeroing", plan.needs_zeroing},
             {"groups", groups_of(plan, vllm::request_terms(options))}};
  for (auto const& rank : plan.ranks) {
    facts["bytes_per_pool_block"].push_back(rank.bytes_per_block.count);
    facts["needed_bytes_one_request"].push_back(rank.needed.count);
  }
  return facts;
}

/// What a refusal's message states: the error's type, the reason in upstream's words, and its figures.
void compare_error(Json const& expected, vllm::Plan const& plan, Case& one) {
  static std::map<vllm::Refusal, std::pair<std::string, std::string>> const reasons{
      {vllm::Refusal::cannot_promote, {"ValueError", "Failed to promote local KV cache specs to one unified type."}},
      {vllm::Refusal::windows_differ, {"ValueError", "must have the same window size."}},
      {vllm::Refusal::pages_do_not_unify, {"NotImplementedError", "page size is not divisible by the maximum page size"}},
      {vllm::Refusal::cannot_auto_fit, {"ValueError", "auto-fit"}},
      {vllm::Refusal::no_memory, {"ValueError", "No available memory for the cache blocks"}},
      {vllm::Refusal::not_enough_memory, {"ValueError", "To serve at least one request with the model's max seq len"}}};
  auto const reason = reasons.find(plan.refusal);
  if (reason == reasons.end()) return one.wrong("error", std::string{"refused for "} + std::string{vllm::name_of(plan.refusal)});
  auto const text = expected.at("error").get<std::string>();
  one.compare("error_type", expected.at("error_type"), reason->second.first);
  one.compare("error", text.find(reason->second.second) != std::string::npos, true);
  if (plan.refusal != vllm::Refusal::not_enough_memory) return;
  one.compare("needed_gib_str", expected.at("needed_gib_str"), vllm::python_gib(plan.needed));
  one.compare("estimated_max_model_len", expected.at("estimated_max_model_len"), plan.longest_that_fits.count);
  auto const states = [&](std::string const& figure) { return text.find(figure) != std::string::npos; };
  one.compare("error, max_model_len", states("(" + std::to_string(plan.max_model_len.count) + ")"), true);
  one.compare("error, available", states("(" + vllm::python_gib(plan.available) + " GiB)"), true);
}

/// The general shape says the same: blocks of a request of any length, and what fits.
void compare_general_shape(vllm::Plan const& plan, vllm::Options const& options, Case& one) {
  if (check(plan.footprint).empty() && !plan.groups.overflowed() && !plan.layer_groups.empty()) {
    Blocks of_a_request{};
    for (auto const& group : plan.layer_groups) of_a_request += vllm::blocks_per_request(group, vllm::request_terms(options), plan.max_model_len);
    one.compare("footprint", of_a_request.count, plan.blocks_per_request(plan.max_model_len).count);
    one.compare("at", floor_div(plan.usable().count, of_a_request.count), plan.at(plan.max_model_len).requests);
    one.compare("trail", plan.blocks.count, plan.trail.result());
  }
}

void vllm_case(Json& row, Case& one, bool self_test) {
  static std::set<std::string> const not_facts{"kv_tensors"};
  static std::set<std::string> const not_facts_of_groups{"is_eagle", "member_kinds", "member_page_sizes"};
  one.name = std::to_string(row.at("id").get<int>()) + " " + row.at("name").get<std::string>();
  Json expected = row.at("expected");
  bool const fails = expected.contains("error");
  if (self_test) {
    if (fails) expected[expected.contains("estimated_max_model_len") ? "estimated_max_model_len" : "error_type"] = 1;
    if (!fails) perturb(expected, not_facts);
  }
  auto const options = options_of(row);
  auto const ranks = ranks_of(row, one);
  compare_hybrid_block(row, ranks, options, one);
  auto const plan = vllm::plan(ranks, options);
  if (plan.refusal == vllm::Refusal::bad_options || plan.refusal == vllm::Refusal::layout_without_rule) {
    one.refusal = vllm::why(plan);
    return;
  }
  if (fails != plan.refused()) return one.wrong("error", plan.refused() ? vllm::why(plan) : "accepted");
  if (fails) return compare_error(expected, plan, one);
  Json facts = facts_of(plan, options);
  Json const groups = expected["groups"];
  for (std::size_t i = 0; i < groups.size(); ++i) {
    if (i >= facts["groups"].size()) break;
    one.compare_all(groups[i], facts["groups"][i], not_facts_of_groups);
  }
  expected["groups"] = groups.size();
  facts["groups"] = facts["groups"].size();
  one.compare_all(expected, facts, not_facts);
  compare_general_shape(plan, options, one);
}

// ---- logs-hybrid ----

/// A log's layers: "full" and "swa" [layers, kv heads, head dim(, window)], "gdn" [layers, v heads, k heads], "m2" [layers, heads,
/// head dim, state, groups, state element bytes]; a gated delta net's heads are 128 wide (facts/vllm.md J6).
CacheSpec hybrid_model(Json const& spec) {
  CacheSpec model{.dtype = bf16};
  for (auto const& item : spec.items()) {
    auto const number = [&](std::size_t i) { return item.value().at(i).get<std::uint32_t>(); };
    if (item.key() == "mbt" || item.key() == "spec") continue;
    Layer layer{};
    if (item.key() == "full")
      layer = full_attention({.kv_heads = number(1), .head_dim = number(2)});
    else if (item.key() == "swa")
      layer = sliding_window({.kv_heads = number(1), .head_dim = number(2)}, Tokens{number(3)});
    else if (item.key() == "gdn")
      layer = recurrent({.conv = {.heads = 128 * (2 * number(2) + number(1)), .width = 3, .dtype = bf16, .keeps_drafts = true},
                         .state = {.heads = number(1), .width = 128 * 128, .dtype = fp32}});
    else if (item.key() == "m2")
      layer = recurrent({.conv = {.heads = number(1) * number(2) + 2 * number(4) * number(3), .width = 3, .dtype = bf16},
                         .state = {.heads = number(1), .width = number(2) * number(3), .dtype = bytes_per_element(number(5))}});
    else
      throw std::runtime_error{"layers without a meaning: " + item.key()};
    model.layers.append({layer, number(0)});
  }
  return model;
}

vllm::Options options_of_log(Json const& row) {
  Json const& spec = row.at("spec");
  return {.max_model_len = Tokens{row.at("max_model_len").get<std::uint64_t>()},
          .tensor_parallel = row.at("tp").get<std::uint32_t>(),
          .kv_cache_dtype = row.at("kv_elem_bytes") == 1 ? vllm::CacheDType::fp8 : vllm::CacheDType::automatic,
          .max_num_batched_tokens = Tokens{spec.value("mbt", std::uint64_t{8'192})},
          .async_scheduling = false,
          .enable_prefix_caching = row.at("prefix_caching"),
          .num_speculative_tokens = spec.value("spec", 0U),
          .release = row.at("new_print").get<bool>() ? vllm::Release::current : vllm::Release::v1_until_0_20};
}

/// The bytes that "12.94 GiB" may stand for.
std::pair<double, double> rounding_interval(std::string const& printed) {
  auto const point = printed.find('.'), unit = printed.find(" GiB");
  if (point == std::string::npos || unit == std::string::npos) throw std::runtime_error{"memory without a meaning: " + printed};
  double half = 0.5;
  for (auto i = point + 1; i < unit; ++i) half /= 10;
  if (unit - point == 2) half = 0.005;  // Python's "7.0" is 7.00
  double const gib = std::stod(printed);
  return {(gib - half) * 1'073'741'824, (gib + half) * 1'073'741'824};
}

/// Attention's block, or full and sliding ones; how much states are padded; the pool.
Json solution_of(vllm::Plan const& plan, vllm::Options const& options) {
  Json solution{{"block_bytes", plan.bytes_per_block.count},
                {"groups", plan.layer_groups.size()},
                {"blocks_per_request", plan.blocks_per_request(options.max_model_len).count}};
  for (auto const& group : plan.layer_groups) {
    auto const& spec = group.members[0];
    if (spec.kind == vllm::SpecKind::full_attention) solution["attention_block"] = solution["full_block"] = spec.block.count;
    if (spec.kind == vllm::SpecKind::sliding_window) solution["swa_block"] = spec.block.count;
    if (spec.kind != vllm::SpecKind::mamba) continue;
    double const state = static_cast<double>(vllm::state_bytes(spec).count);
    solution["mamba_pad_pct"] = std::stod(fmt::format("{:.2f}", 100 * (static_cast<double>(vllm::page_bytes(spec).count) - state) / state));
  }
  return solution;
}

void logs_hybrid_case(Json& row, Case& one, bool self_test) {
  static std::set<std::string> const known{"id",
                                           "model",
                                           "version",
                                           "tp",
                                           "kv_elem_bytes",
                                           "spec",
                                           "prefix_caching",
                                           "new_print",
                                           "available",
                                           "max_model_len",
                                           "printed_tokens",
                                           "printed_concurrency",
                                           "need",
                                           "solved",
                                           "url"};
  one.name = row.at("id").get<std::string>() + " " + row.at("model").get<std::string>();
  for (auto const& item : row.items())
    if (!known.contains(item.key())) one.wrong(item.key(), "a field that is not compared");
  if (self_test) row["printed_tokens"] = row["printed_tokens"].get<std::uint64_t>() + 1;
  CacheSpec const model = hybrid_model(row.at("spec"));
  auto options = options_of_log(row);
  options.num_gpu_blocks_override = Blocks{std::uint64_t{1} << 30};
  auto const layout = vllm::plan(model, Bytes{}, options);
  if (layout.refused()) return one.wrong("", vllm::why(layout));

  auto const concurrency = row.at("printed_concurrency").at("x").get<std::string>();
  double const of_a_request = static_cast<double>(layout.blocks_per_request(options.max_model_len).count);
  auto const first = static_cast<std::uint64_t>((std::stod(concurrency) - 0.006) * of_a_request);
  auto const last = static_cast<std::uint64_t>((std::stod(concurrency) + 0.006) * of_a_request) + 1;
  Json counts = Json::array();
  for (std::uint64_t blocks = first; blocks <= last; ++blocks) {
    if (!row.at("available").is_null()) {
      auto const [low, high] = rounding_interval(row["available"].get<std::string>());
      double const bytes = static_cast<double>((layout.bytes_per_block * blocks).count);
      if (bytes > high || bytes + static_cast<double>(layout.bytes_per_block.count) <= low) continue;
    }
    options.num_gpu_blocks_override = Blocks{blocks};
    auto const plan = vllm::plan(model, Bytes{}, options);
    bool const prints =
        plan.printed_tokens.count == row.at("printed_tokens").get<std::uint64_t>() && fmt::format("{:.2f}", plan.max_concurrency) == concurrency;
    auto const& named = row.at("solved").at("num_blocks");
    if (prints && std::find(named.begin(), named.end(), blocks) != named.end()) counts.push_back(blocks);
  }
  Json solution = solution_of(layout, options);
  solution["num_blocks"] = counts;
  one.compare("tokens_per_request", row["printed_concurrency"].at("tokens_per_request"), options.max_model_len.count);
  one.compare_all(row.at("solved"), solution, {});
}

}  // namespace

Cases vllm_sizing(Options const& options) {
  return each_file(options, [&](std::string const&, Json& row, Case& one) { vllm_case(row, one, options.self_test); });
}

Cases logs_hybrid(Options const& options) {
  return each_file(options, [&](std::string const&, Json& row, Case& one) { logs_hybrid_case(row, one, options.self_test); });
}

}  // namespace conformance
