// SGLang's side of a reconciliation (facts: sglang.md R40-R61). It prints no budget, but for DeepSeek-V4: the memory is what its tokens take.
#pragma once

#include "../estimate/sglang.hpp"
#include "subject.hpp"

namespace example {

struct SglangSetup {
  SglangFlags flags{};
  Question question{};
  Tokens context{};
  kvbudget::read::Model model{};

  Prediction predict(Bytes memory) const {
    using namespace kvbudget;
    auto options = sglang_options(flags, question);
    options.mem_fraction_static = 1;  // all of the memory given is the budget
    auto const of_sglang = sglang_model(model, context, options);
    auto const plan = sglang::plan(of_sglang, {memory, memory}, options);
    Prediction found{.lines = write::log_lines(plan), .refusal = write::refusal_text(plan), .plan = plan};
    if (!plan.refused()) found.lines.push_back(fmt::format("max_total_num_tokens={}, max_running_requests={}", plan.tokens.count, plan.running));
    return found;
  }
};

/// Flags, one at a time.
inline std::vector<Trial> sglang_flag_trials(SglangSetup const& setup, RuntimeLog const& log) {
  std::vector<Trial> trials;
  auto const set = [&](std::string const& name, auto change) { trials.push_back(variant(name, setup, change)); };
  try_each<SglangSetup, std::string>(trials, setup, "--kv-cache-dtype", {"fp8_e4m3", "bf16", "fp4_e2m1", "auto"}, setup.flags.dtype,
                                     [](SglangSetup& changed, std::string const& value) { changed.flags.dtype = value; });
  try_each<SglangSetup, std::uint32_t>(trials, setup, "--tp-size", {1, 2, 4, 8, 16}, setup.question.tensor,
                                       [](SglangSetup& changed, std::uint32_t value) { changed.question.tensor = value; });
  try_each<SglangSetup, std::uint32_t>(trials, setup, "--pp-size", {1, 2, 4, 8}, setup.question.pipeline,
                                       [](SglangSetup& changed, std::uint32_t value) { changed.question.pipeline = value; });
  try_each<SglangSetup, std::uint64_t>(trials, setup, "--page-size", {1, 16, 32, 64, 128, 256}, setup.flags.options.page_size.count,
                                       [](SglangSetup& changed, std::uint64_t value) { changed.flags.options.page_size = {value}; });
  for (std::uint32_t const ranks : {2U, 4U, 8U, 16U})
    set(fmt::format("--enable-dp-attention --tp-size {} --dp-size {}", ranks, ranks),
        [&](SglangSetup& changed) { changed.flags.options.enable_dp_attention = true, changed.flags.options.dp_size = changed.question.tensor = ranks; });
  try_each<SglangSetup, std::string>(trials, setup, "--swa-full-tokens-ratio", {"0.1", "0.25", "0.5", "1"}, setup.flags.swa_ratio,
                                     [](SglangSetup& changed, std::string const& value) { changed.flags.swa_ratio = value; });
  if (!setup.flags.options.disable_hybrid_swa_memory)
    set("--disable-hybrid-swa-memory", [](SglangSetup& changed) { changed.flags.options.disable_hybrid_swa_memory = true; });
  if (!setup.flags.options.disable_radix_cache) set("--disable-radix-cache", [](SglangSetup& changed) { changed.flags.options.disable_radix_cache = true; });
  if (auto const slots = told(log, Quantity::slots); slots != 0 && setup.flags.mamba_slots == 0)
    set(fmt::format("other memory for states: --max-mamba-cache-size {}", slots), [&](SglangSetup& changed) { changed.flags.mamba_slots = slots; });
  if (auto const running = told(log, Quantity::max_requests); running != 0 && setup.flags.running == 0)
    set(fmt::format("--max-running-requests {}", running), [&](SglangSetup& changed) { changed.flags.running = running; });
  for (std::uint64_t const running : std::initializer_list<std::uint64_t>{1, 2, 3, 4, 8, 16, 32, 48, 64, 128, 256, 512})
    if (running != setup.flags.running) set(fmt::format("--max-running-requests {}", running), [&](SglangSetup& changed) { changed.flags.running = running; });
  return trials;
}

/// Flags, and the same with the pages that a backend may ask for (R25).
inline std::vector<Trial> sglang_trials(SglangSetup const& setup, RuntimeLog const& log) {
  auto trials = sglang_flag_trials(setup, log);
  for (std::uint64_t const page : std::initializer_list<std::uint64_t>{64, 128}) {
    if (setup.flags.options.page_size.count != 1) break;
    SglangSetup paged = setup;
    paged.flags.options.page_size = {page};
    for (auto& trial : sglang_flag_trials(paged, log)) trials.push_back({fmt::format("{}, and --page-size {}", trial.name, page), trial.predict, trial.memory});
  }
  return trials;
}

/// R25: what SGLang itself sets for DeepSeek-V4, and the page of sparse latents, where nothing else is told.
inline SglangFlags resolved(SglangFlags flags, kvbudget::sglang::Model const& model) {
  bool const page_told = flags.options.page_size != Tokens{1};
  if (model.indexed && !page_told) flags.options.page_size = Tokens{64};
  if (!model.compressed) return flags;
  if (!page_told) flags.options.page_size = Tokens{256};
  if (flags.swa_ratio.empty()) flags.swa_ratio = "0.1";
  if (flags.running == 0) flags.running = 256;
  return flags;
}

inline Reconciler sglang_reconciler(RuntimeLog const& log) {
  auto flags = std::make_shared<SglangFlags>();
  return {"sglang", [flags](CLI::App& app) { add_sglang_flags(app, *flags); },
          [flags, log](kvbudget::read::Model const& model, Question const& question) {
            SglangSetup setup{*flags, question, context_of(question, model), model};
            auto options = sglang_options(setup.flags, question);
            setup.flags = resolved(setup.flags, sglang_model(model, setup.context, options));
            setup.predict(Bytes{1} * (std::uint64_t{1} << 30));
            Predict const predict = [setup](Bytes memory) { return setup.predict(memory); };
            auto trials = sglang_trials(setup, log);
            auto const memories = other_memories(log, memory_in(log, question), predict);
            trials.insert(trials.begin(), memories.begin(), memories.end());
            return Subject{predict, trials};
          }};
}

}  // namespace example
