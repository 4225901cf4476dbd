// Kinds llama-cpp-sizing MODELS.jsonl RUNS.jsonl, llama-cpp-gguf GGUF_DIR RUNS.jsonl, llama-cpp-log-lines MODELS.jsonl RUNS.jsonl
// and llama-cpp-logs LOGS.jsonl.
#include "kinds.hpp"

#include <kvbudget/read/llama_cpp_model.hpp>
#include <kvbudget/write/llama_cpp.hpp>

#include <map>

namespace conformance {

namespace {

using namespace kvbudget;

using ModelOf = std::function<llama_cpp::Model(std::string const& name)>;

/// Any field that is not known makes the case wrong.
void expect_only(Json const& row, std::set<std::string> const& known, Case& one) {
  for (auto const& item : row.items())
    if (!known.contains(item.key())) one.wrong(item.key(), "a field that is not read");
}

llama_cpp::Options options_of(Json const& ctx, Case& one) {
  expect_only(ctx, {"n_ctx", "n_seq_max", "n_batch", "n_ubatch", "type_k", "type_v", "flash_attn", "kv_unified", "swa_full", "n_rs_seq", "ctx_type"}, one);
  auto const type = [&](char const* key) { return read::llama_cpp_cache_type(ctx.at(key).get<std::string>(), key); };
  return {.n_ctx = ctx.at("n_ctx").get<std::uint32_t>(),
          .n_seq_max = ctx.at("n_seq_max").get<std::uint32_t>(),
          .n_batch = ctx.at("n_batch").get<std::uint32_t>(),
          .n_ubatch = ctx.at("n_ubatch").get<std::uint32_t>(),
          .type_k = type("type_k"),
          .type_v = type("type_v"),
          .flash_attn = ctx.at("flash_attn").get<bool>() ? llama_cpp::FlashAttention::automatic : llama_cpp::FlashAttention::off,
          .kv_unified = ctx.at("kv_unified").get<bool>(),
          .swa_full = ctx.at("swa_full").get<bool>(),
          .n_rs_seq = ctx.at("n_rs_seq").get<std::uint32_t>(),
          .context = ctx.at("ctx_type") == "mtp" ? llama_cpp::Context::mtp : llama_cpp::Context::main};
}

/// The facts of a cache, by the names of the golden rows.
Json facts_of(llama_cpp::Cache const& cache) {
  using enum llama_cpp::TensorKind;
  using llama_cpp::printed_mib;
  Json facts{{"kind", name_of(cache.kind)}, {"n_seq", cache.n_seq}, {"n_stream", cache.streams}, {"n_rs_seq", cache.n_rs_seq}};
  facts["printed"]["size"] = printed_mib(cache.bytes());
  facts["layers"] = cache.layer_ids.size();
  facts["layer_ids"] = cache.layer_ids;
  auto const bytes = [&](char const* letter, llama_cpp::TensorKind kind) {
    facts[std::string{letter} + "_bytes"] = cache.bytes(kind).count;
    facts["printed"][letter] = printed_mib(cache.bytes(kind));
  };
  if (cache.kind == llama_cpp::CacheKind::compressor_state) {
    facts.update({{"tag", name_of(cache.role)}, {"ratio", cache.ratio}, {"rows", cache.rows}, {"width", cache.width}, {"buf_bytes", cache.bytes().count}});
    return facts;
  }
  facts["cells"] = cache.cells.count;
  facts["layers_printed"] = cache.layers_printed;
  facts["type_k"] = cache.type_k.name;
  facts["type_v"] = cache.type_v.name;
  if (cache.kind == llama_cpp::CacheKind::recurrent)
    bytes("r", r), bytes("s", s), bytes("p", p);
  else
    bytes("k", k), bytes("v", v);
  return facts;
}

Json facts_of(llama_cpp::Resolved const& resolved) {
  return {{"n_ctx", resolved.n_ctx.count}, {"n_ctx_seq", resolved.n_ctx_seq.count}, {"n_batch", resolved.n_batch.count}, {"n_ubatch", resolved.n_ubatch.count}};
}

/// Every field of a run but those of golden/README.md's "Not".
void compare_run(Json const& row, llama_cpp::Plan const& plan, Case& one) {
  Json const expected_caches = row.value("caches", Json::array());
  Json facts;
  if (plan.refused) {
    facts["error"] = message(plan);
  } else {
    facts["total_bytes"] = facts["lib_context_bytes"] = plan.pool.count;
    one.compare("caches", expected_caches.size(), plan.caches.size());
    for (std::size_t i = 0; i < std::min(expected_caches.size(), plan.caches.size()); ++i) one.compare_all(expected_caches[i], facts_of(plan.caches[i]), {});
    one.compare_all(row.value("resolved", Json::object()), facts_of(plan.resolved), {});
  }
  one.compare("refused", row.contains("error"), static_cast<bool>(plan.refused));
  one.compare_all(row, facts, {"id", "model", "ctx", "resolved", "caches", "log", "cpu_compute_bytes"});
}

void perturb_run(Json& row) {
  if (row.contains("error"))
    row["error"] = row["error"].get<std::string>() + "1";
  else
    row["total_bytes"] = row["total_bytes"].get<std::uint64_t>() + 1;
  if (row.contains("log")) row["log"].push_back("one more");
}

Cases runs(Options const& options, ModelOf const& model_of, std::function<void(Json const&, llama_cpp::Plan const&, Case&)> const& compare) {
  return each_row(options.files[1], options, [&](Json& row, Case& one) {
    one.name = row.at("id").get<std::string>();
    if (options.self_test) perturb_run(row);
    auto const model = read::attempt([&] { return model_of(row.at("model").get<std::string>()); });
    if (!model)
      one.refusal = model.refusal().message();
    else
      compare(row, plan(*model, options_of(row.at("ctx"), one)), one);
  });
}

/// Models by name, from the keys in MODELS.jsonl.
ModelOf from_keys(std::string const& path) {
  std::map<std::string, Json> models;
  std::ifstream in{path};
  for (std::string line; std::getline(in, line);) {
    Json const row = Json::parse(line);
    models[row.at("model").get<std::string>()] = row.at("gguf");
  }
  if (models.empty()) throw std::runtime_error{path + " has no models"};
  return [models](std::string const& name) { return read::llama_cpp_model(read::gguf_keys(models.at(name), name), name); };
}

void two_files(Options const& options, char const* takes) {
  if (options.files.size() != 2) throw std::runtime_error{takes};
}

}  // namespace

Cases llama_cpp_sizing(Options const& options) {
  two_files(options, "llama-cpp-sizing takes MODELS.jsonl and RUNS.jsonl");
  return runs(options, from_keys(options.files[0]), compare_run);
}

Cases llama_cpp_gguf(Options const& options) {
  two_files(options, "llama-cpp-gguf takes GGUF_DIR and RUNS.jsonl");
  auto const path_of = [&](std::string const& name) { return std::filesystem::path{options.files[0]} / (name + ".gguf"); };
  return runs(
      options, [&](std::string const& name) { return read::llama_cpp_model(path_of(name)); }, compare_run);
}

/// The lines themselves, which the golden README does not count among the facts.
Cases llama_cpp_log_lines(Options const& options) {
  two_files(options, "llama-cpp-log-lines takes MODELS.jsonl and RUNS.jsonl");
  return runs(options, from_keys(options.files[0]), [](Json const& row, llama_cpp::Plan const& plan, Case& one) {
    one.compare("log", row.contains("error") ? Json::array({row["error"]}) : row.at("log"), log_lines(plan));
  });
}

}  // namespace conformance
