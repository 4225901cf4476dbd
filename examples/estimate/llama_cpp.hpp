// llama.cpp's flags on the estimate's command line. A GGUF file is taken by llama.cpp's own reading of its keys.
#pragma once

#include "runtime.hpp"

#include <kvbudget/read/llama_cpp_model.hpp>
#include <kvbudget/write/llama_cpp.hpp>

namespace example {

struct LlamaCppFlags {
  kvbudget::llama_cpp::Options options = kvbudget::llama_cpp::server_defaults;
  std::string type_k = "f16", type_v = "f16", flash_attention = "auto";
  std::uint32_t parallel{}, devices = 1;
  bool unified{};
};

inline void add_llama_cpp_flags(CLI::App& app, LlamaCppFlags& flags) {
  auto& options = flags.options;
  add_whole(app, "-c,--ctx-size", options.n_ctx, 1, 0xffff'ffff, "tokens of all sequences together; --context for each unless told");
  add_whole(app, "--parallel,--np", flags.parallel, 1, 256, "sequences; llama-server's 4, unified, unless told");
  add_whole(app, "-b,--batch-size", options.n_batch, 1, 0xffff'ffff, "tokens of a step");
  add_whole(app, "--ubatch-size,--ub", options.n_ubatch, 1, 0xffff'ffff, "tokens of a part of it; sliding caches keep them, too");
  add_whole(app, "--n-rs-seq", options.n_rs_seq, 1, 1'024, "snapshots of states for rollback");
  add_whole(app, "--devices", flags.devices, 1, 16, "equal devices that share the layers");
  app.add_option("--cache-type-k,--ctk", flags.type_k)->capture_default_str();
  app.add_option("--cache-type-v,--ctv", flags.type_v)->capture_default_str();
  app.add_option("--flash-attn,--fa", flags.flash_attention, "auto, on or off")->capture_default_str();
  app.add_flag("--kv-unified,--kvu", flags.unified, "one pool of cells for all sequences");
  app.add_flag("--swa-full", options.swa_full);
}

inline kvbudget::llama_cpp::Options llama_cpp_options(LlamaCppFlags const& flags, Tokens context) {
  using namespace kvbudget;
  auto options = flags.options;
  if (flags.parallel != 0) {
    options.n_seq_max = flags.parallel;
    options.kv_unified = flags.unified;
  }
  options.type_k = read::llama_cpp_cache_type(flags.type_k, "--cache-type-k");
  options.type_v = read::llama_cpp_cache_type(flags.type_v, "--cache-type-v");
  options.flash_attn = chosen<llama_cpp::FlashAttention>(
      "--flash-attn", flags.flash_attention,
      {{"auto", llama_cpp::FlashAttention::automatic}, {"on", llama_cpp::FlashAttention::on}, {"off", llama_cpp::FlashAttention::off}});
  if (options.n_ctx == 0) options.n_ctx = static_cast<std::uint32_t>(std::min<std::uint64_t>((context * options.n_seq_max).count, 0xffff'ffff));
  return options;
}

inline kvbudget::llama_cpp::Model llama_cpp_model(kvbudget::read::Model const& model, Tokens context) {
  using namespace kvbudget;
  if (!model.file.empty() && model.file.extension() == ".gguf") return read::llama_cpp_model(model.file);
  CacheSpec spec = model.spec;
  auto const found = llama_cpp::from_spec(spec, context);
  require_good(found.complaints, {});
  return found.model;
}

inline Report llama_cpp_report(LlamaCppFlags const& flags, kvbudget::read::Model const& model, Question const& question) {
  using namespace kvbudget;
  Report report{.context = context_of(question, model)};
  auto const plan = llama_cpp::plan(llama_cpp_model(model, report.context), llama_cpp_options(flags, report.context));
  report.plan = plan;
  report.refusal = llama_cpp::message(plan);
  if (plan.refused) return report;
  report.log = llama_cpp::log_lines(plan);
  llama_cpp::Devices devices{};
  for (std::uint32_t i = 0; i < flags.devices; ++i) devices.splits.push_back(Bytes{1});
  Bytes largest{};
  for (auto const& share : plan.on(devices)) {
    for (auto const& line : llama_cpp::buffer_lines(share, share.device == llama_cpp::on_cpu ? "CPU" : fmt::format("CUDA{}", share.device)))
      report.log.push_back(line);
    largest = max(largest, share.kv + share.rs);
  }
  report.figures = {{"n_ctx", plan.resolved.n_ctx},     {"n_ctx_seq", plan.resolved.n_ctx_seq}, {"n_seq", plan.resolved.n_seq},
                    {"streams", plan.resolved.streams}, {"allocated_bytes", plan.pool},         {"largest_device_bytes", largest}};
  if (!question.available.empty() && largest > read::bytes(question.available, "--available"))
    report.refusal = fmt::format("the caches take {} of a device, {} are available; ask for fewer sequences or a shorter context", largest,
                                 read::bytes(question.available, "--available"));
  return report;
}

/// As many sequences, each with a stream of its own, as the bytes hold.
inline Report llama_cpp_at_most(kvbudget::read::Model const& model, Question const& question, std::string const& type) {
  LlamaCppFlags flags;
  flags.type_k = flags.type_v = type;
  flags.devices = std::min<std::uint32_t>(question.tensor, kvbudget::llama_cpp::most_devices);
  Report best{};
  std::uint32_t low = 0, high = kvbudget::llama_cpp::most_sequences + 1;
  while (low + 1 < high) {
    flags.parallel = (low + high) / 2;
    Report report = llama_cpp_report(flags, model, question);
    (report.refusal.empty() ? low : high) = flags.parallel;
    if (report.refusal.empty() || low == 0) best = std::move(report);
  }
  return best;
}

inline Runtime llama_cpp_runtime() {
  auto flags = std::make_shared<LlamaCppFlags>();
  return {"llama.cpp",
          [flags](CLI::App& app) { add_llama_cpp_flags(app, *flags); },
          [flags](kvbudget::read::Model const& model, Question const& question) { return llama_cpp_report(*flags, model, question); },
          {"f16", "q8_0", "q4_0"},
          llama_cpp_at_most};
}

}  // namespace example
