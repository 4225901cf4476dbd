// TensorRT-LLM's side of a reconciliation (facts: other_runtimes.md A18-A23). The memory it prints is what is free, of which it takes a fraction.
#pragma once

#include "../estimate/tensorrt_llm.hpp"
#include "subject.hpp"

namespace example {

struct TensorrtLlmSetup {
  TensorrtLlmFlags flags{};
  Question question{};
  Tokens context{};
  kvbudget::CacheSpec spec{};

  Prediction predict(Bytes memory) const {
    using namespace kvbudget;
    auto const options = tensorrt_llm_options(flags, context);
    CacheSpec of_dtype = spec;
    of_dtype.dtype = chosen<DType>("--kv-cache-dtype", flags.dtype, {{"auto", spec.dtype}, {"fp8", fp8}, {"int8", int8}, {"nvfp4", nvfp4}});
    Sharding const sharding{.tensor = question.tensor, .pipeline = question.pipeline};
    if (auto const complaints = check(of_dtype, sharding); !complaints.empty()) return {.lines = {}, .refusal = fmt::format("{}", complaints), .plan = {}};
    std::vector<tensorrt_llm::Plan> ranks;
    for (std::uint32_t stage = 0; stage < question.pipeline; ++stage)
      ranks.push_back(tensorrt_llm::plan(on_rank(of_dtype, sharding, {stage}), memory, options));
    auto const plan = tensorrt_llm::agreed(ranks);
    return {.lines = tensorrt_llm::log_lines(plan), .refusal = plan.refused() ? fmt::format("{}", plan.complaints) : "", .plan = plan};
  }
};

inline std::vector<Trial> tensorrt_llm_trials(TensorrtLlmSetup const& setup, std::vector<Trial> memories) {
  std::vector<Trial> trials = std::move(memories);
  try_each<TensorrtLlmSetup, std::string>(trials, setup, "--kv-cache-dtype", {"fp8", "int8", "nvfp4", "auto"}, setup.flags.dtype,
                                          [](TensorrtLlmSetup& changed, std::string const& value) { changed.flags.dtype = value; });
  try_each<TensorrtLlmSetup, std::string>(trials, setup, "--free-gpu-memory-fraction",
                                          {"0.5", "0.6", "0.7", "0.75", "0.8", "0.85", "0.9", "0.95", "0.98", "0.99"}, setup.flags.fraction,
                                          [](TensorrtLlmSetup& changed, std::string const& value) { changed.flags.fraction = value; });
  try_each<TensorrtLlmSetup, std::uint32_t>(trials, setup, "--tp", {1, 2, 4, 8, 16}, setup.question.tensor,
                                            [](TensorrtLlmSetup& changed, std::uint32_t value) { changed.question.tensor = value; });
  try_each<TensorrtLlmSetup, std::uint32_t>(trials, setup, "--pp", {1, 2, 4, 8}, setup.question.pipeline,
                                            [](TensorrtLlmSetup& changed, std::uint32_t value) { changed.question.pipeline = value; });
  try_each<TensorrtLlmSetup, std::uint64_t>(trials, setup, "--tokens-per-block", {16, 32, 64, 128}, setup.flags.options.tokens_per_block.count,
                                            [](TensorrtLlmSetup& changed, std::uint64_t value) { changed.flags.options.tokens_per_block = {value}; });
  return trials;
}

inline Reconciler tensorrt_llm_reconciler(RuntimeLog const& log) {
  auto flags = std::make_shared<TensorrtLlmFlags>();
  if (auto const block = told(log, Quantity::block); block > 1) flags->options.tokens_per_block = {block};
  if (auto const fraction = log.last(Quantity::fraction)) flags->fraction = fraction->printed;
  return {"tensorrt-llm", [flags](CLI::App& app) { add_tensorrt_llm_flags(app, *flags); },
          [flags, log](kvbudget::read::Model const& model, Question const& question) {
            TensorrtLlmSetup const setup{*flags, question, context_of(question, model), model.spec};
            setup.predict(Bytes{1});
            Predict const predict = [setup](Bytes memory) { return setup.predict(memory); };
            return Subject{predict, tensorrt_llm_trials(setup, other_memories(log, memory_in(log, question), predict))};
          }};
}

}  // namespace example
