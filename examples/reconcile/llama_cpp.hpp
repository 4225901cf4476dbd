// llama.cpp's side of a reconciliation (facts: llama_cpp.md R3-R5, R13, R19). Its caches follow from the context's parameters, which its log prints.
#pragma once

#include "../estimate/llama_cpp.hpp"
#include "subject.hpp"

#include <set>

namespace example {

struct LlamaCppSetup {
  LlamaCppFlags flags{};
  Tokens context{};
  kvbudget::llama_cpp::Model model{};
  std::string device{};  // the one that holds all caches, where the log names one

  Prediction predict(Bytes) const {
    using namespace kvbudget;
    auto const plan = llama_cpp::plan(model, llama_cpp_options(flags, context));
    if (plan.refused) return {.lines = {}, .refusal = llama_cpp::message(plan), .plan = plan};
    Prediction found{.lines = lines_of(plan), .plan = plan};
    found.lines.push_back(fmt::format("llama_context: n_ctx = {}", plan.resolved.n_ctx.count));
    found.lines.push_back(fmt::format("llama_context: n_ctx_seq = {}", plan.resolved.n_ctx_seq.count));
    return found;
  }

  /// With the buffers where one device holds all of them (R19).
  std::vector<std::string> lines_of(kvbudget::llama_cpp::Plan const& plan) const {
    using namespace kvbudget;
    if (device.empty()) return llama_cpp::log_lines(plan);
    return llama_cpp::log_lines(plan, device == "CPU" ? llama_cpp::Devices{} : llama_cpp::Devices{.splits = {Bytes{1}}}, {device});
  }
};

inline std::vector<Trial> llama_cpp_trials(LlamaCppSetup const& setup) {
  using kvbudget::llama_cpp::Release;
  std::vector<Trial> trials;
  auto const set = [&](std::string const& name, auto change) { trials.push_back(variant(name, setup, change)); };
  for (auto const& [words, release] :
       std::initializer_list<std::pair<char const*, Release>>{{"the rules of v0.5.0", kvbudget::llama_cpp::v0_5_0},
                                                              {"an older release, before September 2026", kvbudget::llama_cpp::before_pr_28330},
                                                              {"an older release, before August 2026", kvbudget::llama_cpp::before_pr_26474},
                                                              {"an older release, of April 2026", kvbudget::llama_cpp::pr_21277},
                                                              {"an older release, of May 2025", kvbudget::llama_cpp::pr_13194},
                                                              {"an older release, of February 2025", kvbudget::llama_cpp::february_2025},
                                                              {"ik_llama.cpp with -mla", kvbudget::llama_cpp::ik_llama_cpp_mla}})
    set(words, [&, release = release](LlamaCppSetup& changed) { changed.flags.options.release = release; });
  for (std::string const type : {"f16", "q8_0", "q4_0", "bf16", "f32"})
    if (type != setup.flags.type_k || type != setup.flags.type_v)
      set(fmt::format("--cache-type-k {} --cache-type-v {}", type, type), [&](LlamaCppSetup& changed) { changed.flags.type_k = changed.flags.type_v = type; });
  if (!setup.flags.options.swa_full) set("--swa-full", [](LlamaCppSetup& changed) { changed.flags.options.swa_full = true; });
  try_each<LlamaCppSetup, std::uint32_t>(trials, setup, "--ubatch-size", {128, 256, 512, 1'024, 2'048, 4'096}, setup.flags.options.n_ubatch,
                                         [](LlamaCppSetup& changed, std::uint32_t value) {
                                           changed.flags.options.n_ubatch = value;
                                           changed.flags.options.n_batch = std::max(changed.flags.options.n_batch, value);
                                         });
  try_each<LlamaCppSetup, std::uint32_t>(trials, setup, "--parallel", {1, 2, 4, 8}, setup.flags.parallel,
                                         [](LlamaCppSetup& changed, std::uint32_t value) { changed.flags.parallel = value; });
  set(setup.flags.unified ? "a stream for each sequence" : "--kv-unified", [](LlamaCppSetup& changed) { changed.flags.unified = !changed.flags.unified; });
  set("--flash-attn off", [](LlamaCppSetup& changed) { changed.flags.flash_attention = "off"; });
  try_each<LlamaCppSetup, std::uint32_t>(trials, setup, "--n-rs-seq", {0, 1, 2, 3, 4, 8}, setup.flags.options.n_rs_seq,
                                         [](LlamaCppSetup& changed, std::uint32_t value) { changed.flags.options.n_rs_seq = value; });
  return trials;
}

namespace detail {

inline bool says_yes(std::string const& word) { return word == "true" || word == "1" || word == "enabled" || word == "on"; }

inline kvbudget::llama_cpp::Release release_in(RuntimeLog const& log) {
  bool const fork = log.runtime() == kvbudget::read::Runtime::ik_llama_cpp;
  for (auto const& line : log.lines) {
    if (fork && line.form.find("c^KV") != std::string_view::npos) return kvbudget::llama_cpp::ik_llama_cpp_mla;
    if (fork && line.form.find("KV self size") != std::string_view::npos) return kvbudget::llama_cpp::ik_llama_cpp;
    if (line.form.find("kv_cache_unified:") != std::string_view::npos) return kvbudget::llama_cpp::pr_13194;
    if (line.form.find("V self size") != std::string_view::npos) return kvbudget::llama_cpp::february_2025;
  }
  return {};
}

inline std::uint32_t small(std::uint64_t n) { return static_cast<std::uint32_t>(std::min<std::uint64_t>(n, 0xffff'ffff)); }

/// The parameters a log prints, and the cache types of its first cache.
inline LlamaCppFlags llama_cpp_flags_in(RuntimeLog const& log) {
  LlamaCppFlags flags;
  auto& options = flags.options;
  options.release = release_in(log);
  auto const cells = kvbudget::read::measured(log);
  std::uint64_t const n_ctx = told(log, Quantity::n_ctx);
  options.n_ctx = small(n_ctx != 0 ? n_ctx : cells && cells->tokens ? cells->tokens->count : 0);
  std::uint64_t const sequences = told(log, Quantity::n_seq_max);
  flags.parallel = small(sequences != 0 ? sequences : std::max<std::uint64_t>(told(log, Quantity::sequences), 1));
  if (auto const n = told(log, Quantity::n_batch); n != 0) options.n_batch = small(n);
  if (auto const n = told(log, Quantity::n_ubatch); n != 0) options.n_ubatch = small(n);
  options.n_batch = std::max(options.n_batch, options.n_ubatch);
  options.n_rs_seq = small(told(log, Quantity::n_rs_seq));
  auto const unified = log.last(Quantity::kv_unified);
  flags.unified = unified ? says_yes(unified->printed) : told(log, Quantity::streams) <= 1;
  if (auto const flash = log.last(Quantity::flash_attn))
    flags.flash_attention = says_yes(flash->printed) ? "on" : flash->printed == "auto" || flash->printed == "-1" ? "auto" : "off";
  for (auto const& line : log.lines) {
    auto const* cached = line.find(Quantity::cells);
    auto const* key = line.find(Quantity::key_type);
    auto const* value = line.find(Quantity::value_type);
    if (!key || line.form.find("recurrent") != std::string_view::npos) continue;
    flags.type_k = key->printed;
    flags.type_v = value ? value->printed : key->printed;
    if (cached) break;
  }
  return flags;
}

/// The one device whose buffers the log prints, or none.
inline std::string only_device(RuntimeLog const& log) {
  std::set<std::string> devices;
  for (auto const& line : log.lines)
    if (auto const* device = line.find(Quantity::device); device && line.runtime == kvbudget::read::Runtime::llama_cpp) devices.insert(device->printed);
  return devices.size() == 1 ? *devices.begin() : "";
}

}  // namespace detail

inline Reconciler llama_cpp_reconciler(RuntimeLog const& log) {
  auto flags = std::make_shared<LlamaCppFlags>(detail::llama_cpp_flags_in(log));
  return {"llama.cpp", [flags](CLI::App& app) { add_llama_cpp_flags(app, *flags); },
          [flags, log](kvbudget::read::Model const& model, Question const& question) {
            Tokens const context = context_of(question, model);
            LlamaCppSetup const setup{*flags, context, llama_cpp_model(model), detail::only_device(log)};
            setup.predict({});
            return Subject{[setup](Bytes memory) { return setup.predict(memory); }, llama_cpp_trials(setup)};
          }};
}

}  // namespace example
