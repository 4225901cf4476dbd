// llama.cpp's flags on the estimate's command line. A GGUF file is taken by llama.cpp's own reading of its keys.
//
// As llama-server itself: without -c (or with -c 0) the context the model was trained for, in 4 unified slots unless --parallel says
// otherwise. --context N alone asks for N tokens for each of those sequences; -c alone is asked about the longest it can hold.
#pragma once

#include "runtime.hpp"

#include <kvbudget/read/llama_cpp_model.hpp>
#include <kvbudget/write/llama_cpp.hpp>

namespace example {

struct LlamaCppFlags {
  kvbudget::llama_cpp::Options options = kvbudget::llama_cpp::server_defaults;
  std::string type_k = "f16", type_v = "f16", flash_attention = "auto";
  std::uint32_t parallel{}, devices = 1;
  bool unified{}, tells_context{};
};

inline void add_llama_cpp_flags(CLI::App& app, LlamaCppFlags& flags) {
  auto& options = flags.options;
  add_whole(app, "-c,--ctx-size", options.n_ctx, 0, 0xffff'ffff,
            "tokens of all sequences together; 0: as trained. Not given: --context for each of --parallel sequences, else as trained")
      ->each([&flags](std::string const&) { flags.tells_context = true; });
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

/// `each` is the length that is asked for, if any: without -c, as much context for each sequence.
inline kvbudget::llama_cpp::Options llama_cpp_options(LlamaCppFlags const& flags, Tokens each) {
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
  if (options.n_ctx == 0 && !flags.tells_context)
    options.n_ctx = static_cast<std::uint32_t>(std::min<std::uint64_t>((each * options.n_seq_max).count, 0xffff'ffff));
  return options;
}

inline bool is_gguf(kvbudget::read::Model const& model) { return !model.file.empty() && model.file.extension() == ".gguf"; }

inline kvbudget::llama_cpp::Model llama_cpp_model(kvbudget::read::Model const& model) {
  using namespace kvbudget;
  if (is_gguf(model)) return read::llama_cpp_model(model.file);
  auto const found = llama_cpp::from_spec(model.spec, model.context.value_or(Tokens{}));
  require_good(found.complaints, {});
  return found.model;
}

/// What the runtime has no such flag for, or what cannot be known of this model.
inline void refuse_llama_cpp_flags(LlamaCppFlags const& flags, kvbudget::read::Model const& model, Question const& question) {
  auto const refuse = [](char const* flag, std::uint32_t value, char const* accepted, char const* next) {
    throw kvbudget::read::Error{{"", flag, std::to_string(value), accepted, next}};
  };
  char const* const split = "give --devices: llama.cpp splits whole layers over equal devices";
  if (question.tensor != 1) refuse("--tp", question.tensor, "1 under --runtime llama.cpp", split);
  if (question.pipeline != 1) refuse("--pp", question.pipeline, "1 under --runtime llama.cpp", split);
  if (flags.options.n_rs_seq != 0 && !is_gguf(model))
    refuse("--n-rs-seq", flags.options.n_rs_seq, "a GGUF file: whether llama.cpp keeps snapshots goes by its architecture",
           "name the GGUF file, or leave the flag out");
}

inline Report llama_cpp_report(LlamaCppFlags const& flags, kvbudget::read::Model const& model, Question const& question) {
  using namespace kvbudget;
  refuse_llama_cpp_flags(flags, model, question);
  auto const of = llama_cpp_model(model);
  auto const plan = llama_cpp::plan(of, llama_cpp_options(flags, Tokens{question.context}));
  Report report{.plan = plan, .context = question.context != 0 ? Tokens{question.context} : plan.resolved.n_ctx_seq, .refusal = llama_cpp::message(plan)};
  if (plan.refused) return report;
  if (of.no_memory) report.notes.push_back("the model keeps no cache (R18)");
  llama_cpp::Devices devices{};
  for (std::uint32_t i = 0; i < flags.devices; ++i) devices.splits.push_back(Bytes{1});
  report.log = llama_cpp::log_lines(plan, devices);
  Bytes largest{};
  for (auto const& share : plan.on(devices)) largest = max(largest, share.kv + share.rs);
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
  Question asked = question;
  asked.tensor = asked.pipeline = 1;
  asked.context = context_of(question, model).count;
  Report best{};
  std::uint32_t low = 0, high = kvbudget::llama_cpp::most_sequences + 1;
  while (low + 1 < high) {
    flags.parallel = (low + high) / 2;
    Report report = llama_cpp_report(flags, model, asked);
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
