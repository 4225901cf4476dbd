// Kind llama-cpp-logs LOGS.jsonl: public logs of llama.cpp, Ollama and ik_llama.cpp, recomputed from the parameters they print.
//
// What a log does not print of its model is taken from the cache it describes: the layers of a cache, the elements of a row. What
// is recomputed: cells (R3, R13), layers by an interval (R16), rows of V without flash attention (R7), states (R15), all MiB (R4).
#include "kinds.hpp"

#include <kvbudget/read/llama_cpp_model.hpp>
#include <kvbudget/write/llama_cpp.hpp>

namespace conformance {

namespace {

using namespace kvbudget;
using llama_cpp::Role;

/// A printed parameter: a number, or one in a string. Nothing where there is none, or a list.
std::optional<std::uint32_t> number(Json const& params, char const* key) {
  auto const found = params.find(key);
  if (found == params.end() || found->is_null()) return std::nullopt;
  if (found->is_number()) return found->get<std::uint32_t>();
  auto const text = found->get<std::string>();
  if (text.empty() || text.find_first_not_of("0123456789") != std::string::npos) return std::nullopt;
  return static_cast<std::uint32_t>(std::stoul(text));
}

bool flag(Json const& value) { return value.is_boolean() ? value.get<bool>() : value.is_string() && value != "0"; }

/// A log of one row: its parameters, and its caches by what they are for.
struct Log {
  Json const& row;
  Json const& params = row.at("params");

  std::optional<std::uint32_t> operator[](char const* key) const { return number(params, key); }
  std::uint32_t count_or(char const* key, std::uint32_t otherwise) const { return number(params, key).value_or(otherwise); }
  bool forked() const { return row.at("project") == "ik_llama.cpp"; }

  /// The first attention cache is the main one; a second one an indexer's or a sliding one's.
  Role role_of(std::size_t cache) const {
    if (row.at("caches")[cache].at("kind") == "recurrent") return Role::recurrent;
    for (std::size_t i = 0; i < cache; ++i)
      if (row.at("caches")[i].at("kind") != "recurrent") return params.contains("indexer_key_length") ? Role::indexer : Role::sliding;
    return Role::main;
  }
  Json const* cache_of(Role role) const {
    for (std::size_t i = 0; i < row.at("caches").size(); ++i)
      if (role_of(i) == role) return &row.at("caches")[i];
    return nullptr;
  }
  bool prints_latents() const { return cache_of(Role::main) && cache_of(Role::main)->at("kind") == "mla_latent"; }
};

/// The release, by the project and the date of the log.
llama_cpp::Release release_of(Log const& log) {
  if (log.forked()) return log.prints_latents() ? llama_cpp::ik_llama_cpp_mla : llama_cpp::ik_llama_cpp;
  std::string const date = log.row.at("date").is_string() ? log.row.at("date").get<std::string>() : "9999";
  struct Until {
    char const* date;
    llama_cpp::Release release;
  };
  static constexpr Until releases[]{{"2025-05", llama_cpp::february_2025},
                                    {"2025-11", llama_cpp::pr_13194},
                                    {"2026-04", llama_cpp::before_pr_26474},
                                    {"2026-08", llama_cpp::pr_21277},
                                    {"2026-09", llama_cpp::before_pr_28330}};
  for (auto const& [until, release] : releases)
    if (date < until) return release;
  return llama_cpp::v0_5_0;
}

llama_cpp::Options options_of(Log const& log) {
  auto const type = [&](char const* key) { return read::llama_cpp_cache_type(log.row.at(key).get<std::string>(), key); };
  auto const* main = log.cache_of(Role::main);
  auto const* states = log.cache_of(Role::recurrent);
  bool const one_stream = !main || main->value("n_stream", 1U) == 1;
  std::uint32_t const ubatch = number(log.row, "n_ubatch").value_or(512);
  return {.n_ctx = number(log.row, "n_ctx").value_or(256),
          .n_seq_max = log.row.at("n_seq").get<std::uint32_t>(),
          .n_batch = std::max(2'048U, ubatch),
          .n_ubatch = ubatch,
          .type_k = type("type_k"),
          .type_v = type("type_v"),
          .flash_attn =
              log.row.at("flash_attn").is_null() || flag(log.row.at("flash_attn")) ? llama_cpp::FlashAttention::automatic : llama_cpp::FlashAttention::off,
          .kv_unified = log.row.at("kv_unified").is_null() ? one_stream : flag(log.row.at("kv_unified")),
          .swa_full = flag(log.row.at("swa_full")),
          .n_rs_seq = states ? states->value("n_rs_seq", 0U) : 0,
          .release = release_of(log)};
}

/// A layer of the cache of this role: its heads where they are printed, else the elements of its rows.
llama_cpp::Layer layer_of(Log const& log, Role role) {
  bool const slides = role == Role::sliding;
  auto const heads = log["n_head_kv"] ? log["n_head_kv"] : log[slides ? "n_head_kv_swa" : "n_head_kv_full"];
  auto const head_k = log[slides ? "n_embd_head_k_swa" : "n_embd_head_k"];
  if (heads && head_k) {
    auto const head_v = log[slides ? "n_embd_head_v_swa" : "n_embd_head_v"];
    return {.kv_heads = *heads, .head_k = *head_k, .head_v = head_v.value_or(*head_k), .slides = slides};
  }
  auto const* cache = log.cache_of(role);
  return {.kv_heads = 1, .head_k = cache->value("n_embd_k_gqa", 0U), .head_v = cache->value("n_embd_v_gqa", 0U), .slides = slides};
}

/// R15, from the printed dimensions of a state-space model or of a short convolution.
void add_states(Log const& log, llama_cpp::Layer& layer) {
  std::uint64_t const conv = log.count_or("ssm_d_conv", 1) - 1, inner = log.count_or("ssm_d_inner", 0), state = log.count_or("ssm_d_state", 0);
  layer.recurs = true;
  layer.r = log["shortconv_l_cache"] ? std::uint64_t{log.count_or("n_embd", 0)} * (*log["shortconv_l_cache"] - 1)
                                     : conv * (inner + 2 * log.count_or("ssm_n_group", 0) * state);
  layer.s = inner * state;
}

void add_layers(llama_cpp::Model& model, llama_cpp::Layer const& layer, std::size_t count) { model.layers.insert(model.layers.end(), count, layer); }

/// The model as far as its log describes it.
llama_cpp::Model model_of(Log const& log) {
  llama_cpp::Model model{};
  auto const* main = log.cache_of(Role::main);
  auto const* sliding = log.cache_of(Role::sliding);
  auto const* indexer = log.cache_of(Role::indexer);
  bool const attends = main || log["n_head_kv"];
  model.recurrent = log["ssm_d_state"] || log["shortconv_l_cache"];
  model.attention = attends;
  model.rolls_back = model.recurrent;
  model.latents = main && main->value("n_embd_v_gqa", 1U) == 0;
  model.latent = log.count_or("n_lora_kv", 0) + log.count_or("n_rot", 0);
  if (indexer) model.index_width = log.count_or("indexer_key_length", 0);
  if (sliding) {
    std::uint32_t const inferred = sliding->at("cells").get<std::uint32_t>() - number(log.row, "n_ubatch").value_or(512);
    model.window = log.count_or("n_swa", inferred);
  }
  std::uint32_t const printed = main && main->at("layers").is_number() ? main->at("layers").get<std::uint32_t>() : 0;
  std::uint32_t const layers = log.count_or("n_layer", printed);
  llama_cpp::Layer full = attends ? layer_of(log, Role::main) : llama_cpp::Layer{.attends = false};
  if (auto const interval = log["full_attention_interval"]) {  // R16
    for (std::uint32_t i = 0; i < layers; ++i) {
      llama_cpp::Layer layer = full;
      layer.attends = (i + 1) % *interval == 0;
      if (!layer.attends) add_states(log, layer);
      add_layers(model, layer, 1);
    }
  } else if (model.recurrent) {
    llama_cpp::Layer states = full;
    add_states(log, states);
    bool const apart = log["shortconv_l_cache"].has_value();  // a layer is the one or the other
    states.attends = attends && !apart;
    add_layers(model, states, apart ? layers - printed : layers);
    if (apart) add_layers(model, full, printed);
  } else {
    bool const uniform = !sliding && !log["shared_kv_layers"] && printed != 0;
    add_layers(model, full, uniform ? layers : printed);
    if (sliding) add_layers(model, layer_of(log, Role::sliding), sliding->at("layers").get<std::size_t>());
  }
  if (indexer) {
    std::uint32_t left = indexer->at("layers").get<std::uint32_t>();
    for (auto& layer : model.layers) layer.indexes = layer.attends && left > 0 && left-- > 0;
  }
  auto const* states = log.cache_of(Role::recurrent);
  std::size_t const all = states ? states->value("layers_printed", layers) : layers;  // builds that count MTP blocks print more
  if (all > model.layers.size()) add_layers(model, {.attends = false}, all - model.layers.size());
  return model;
}

/// MiB as printed, as a number.
double mib(Bytes bytes) { return std::stod(llama_cpp::printed_mib(bytes)); }

Json facts_of(llama_cpp::Cache const& cache) {
  using llama_cpp::TensorKind;
  Json facts{{"cells", cache.cells.count}, {"layers", cache.layer_ids.size()}, {"layers_printed", cache.layers_printed}, {"n_stream", cache.streams}};
  facts["n_rs_seq"] = cache.n_rs_seq;
  facts["size_mib"] = mib(cache.bytes());
  facts["k_mib"] = facts["latent_mib"] = mib(cache.bytes(TensorKind::k));
  facts["v_mib"] = facts["vT_mib"] = mib(cache.bytes(TensorKind::v));
  facts["r_mib"] = mib(cache.bytes(TensorKind::r));
  facts["s_mib"] = mib(cache.bytes(TensorKind::s));
  facts["p_mib"] = mib(cache.bytes(TensorKind::p));
  for (auto const& tensor : cache.tensors) facts[tensor.kind == TensorKind::k ? "n_embd_k_gqa" : "n_embd_v_gqa"] = tensor.elements;
  if (!facts.contains("n_embd_v_gqa")) facts["n_embd_v_gqa"] = 0;
  return facts;
}

/// A P of which no dimension is printed is taken as printed: what is left of the size must be R and S, within both roundings.
void without_p(Json& expected, llama_cpp::Cache const& cache, Case& one) {
  if (expected.value("p_mib", 0.0) == 0.0) return;
  double const rest = expected.at("size_mib").get<double>() - expected.at("p_mib").get<double>();
  one.compare("size_mib less p_mib, within 0.01", true, std::abs(rest - mib(cache.bytes())) < 0.0101);
  expected.erase("p_mib");
  expected.erase("size_mib");
}

}  // namespace

Cases llama_cpp_logs(Options const& options) {
  static std::set<std::string> const known{"project",  "date",       "build",  "model",  "arch",       "params", "n_ctx",
                                           "n_seq",    "kv_unified", "type_k", "type_v", "flash_attn", "caches", "device_buffers_mib",
                                           "n_ubatch", "swa_full",   "note",   "check",  "id",         "url",    "mla_attn",
                                           "printed"};
  return each_file(options, [&](std::string const&, Json& row, Case& one) {
    one.name = row.at("id").get<std::string>();
    for (auto const& item : row.items())
      if (!known.contains(item.key())) one.wrong(item.key(), "a field that is not compared");
    if (row.at("check") != "recomputed ok") {
      one.refusal = row.at("check").get<std::string>() + ": " + row.at("note").get<std::string>();
      return;
    }
    Log const log{row};
    auto const plan = llama_cpp::plan(model_of(log), options_of(log));
    if (options.self_test) perturb(row.at("caches")[0], {"kind"});
    if (plan.refused) one.wrong("", message(plan));
    for (std::size_t i = 0; i < row.at("caches").size(); ++i) {
      Role const role = log.role_of(i);
      auto const found = std::find_if(plan.caches.begin(), plan.caches.end(), [&](auto const& cache) { return cache.role == role; });
      if (found == plan.caches.end()) {
        one.wrong("caches", "no such cache");
        continue;
      }
      Json expected = row.at("caches")[i];
      without_p(expected, *found, one);
      std::set<std::string> not_facts{"kind"};
      if (found->layer_ids.empty()) not_facts.insert({"n_embd_k_gqa", "n_embd_v_gqa"});  // the rows of no layer
      one.compare_all(expected, facts_of(*found), not_facts);
    }
  });
}

}  // namespace conformance
