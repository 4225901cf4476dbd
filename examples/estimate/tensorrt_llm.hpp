// TensorRT-LLM's options on the estimate's command line.
#pragma once

#include "runtime.hpp"

#include <kvbudget/write/tensorrt_llm.hpp>

namespace example {

struct TensorrtLlmFlags {
  kvbudget::tensorrt_llm::Options options{};
  std::string fraction = "0.9", cross_fraction, dtype = "auto", host_cache, windows;
};

inline void add_tensorrt_llm_flags(CLI::App& app, TensorrtLlmFlags& flags) {
  auto& options = flags.options;
  app.add_option("--free-gpu-memory-fraction", flags.fraction, "of what is free after weights and activations")->capture_default_str();
  app.add_option("--kv-cache-dtype", flags.dtype, "auto, fp8, int8 or nvfp4")->capture_default_str();
  app.add_option("--host-cache-size", flags.host_cache, "host memory for offloaded blocks, for example 64GiB");
  app.add_option("--max-attention-window", flags.windows, "tokens of each layer's window in turn, for example 4096,131072; the model's own unless told");
  app.add_option("--cross-kv-cache-fraction", flags.cross_fraction, "of the cache, for an encoder's keys and values");
  add_whole(app, "--tokens-per-block", options.tokens_per_block.count, 2, 1'048'576, "a power of two");
  add_whole(app, "--max-tokens", options.max_tokens.count, 1, most_tokens, "beside the fraction: the smaller wins");
  add_whole(app, "--max-batch-size", options.max_batch, 1, most_tokens, "the limit on running requests");
  add_whole(app, "--max-beam-width", options.beam_width, 1, 1'024, "beams share the context's whole blocks");
  add_whole(app, "--sink-tokens", options.sink.count, 1, most_tokens, "kept beside a window");
}

/// "4096,131072"
inline void add_windows(kvbudget::tensorrt_llm::Options& options, std::string const& list) {
  for (std::size_t from = 0; from < list.size();) {
    std::size_t const end = std::min(list.find(',', from), list.size());
    options.attention_windows.push_back(Tokens{kvbudget::read::whole(list.substr(from, end - from), "--max-attention-window", 1, most_tokens)});
    from = end + 1;
  }
}

inline kvbudget::tensorrt_llm::Options tensorrt_llm_options(TensorrtLlmFlags const& flags, Tokens context) {
  using namespace kvbudget;
  auto options = flags.options;
  options.max_sequence_length = context;
  options.free_memory_fraction = read::share(flags.fraction, "--free-gpu-memory-fraction");
  if (!flags.cross_fraction.empty()) options.cross_fraction = read::share(flags.cross_fraction, "--cross-kv-cache-fraction");
  if (!flags.host_cache.empty()) options.host_cache = read::bytes(flags.host_cache, "--host-cache-size");
  add_windows(options, flags.windows);
  return options;
}

/// Free memory whose fraction is the bytes asked for.
inline Bytes free_for(Bytes wanted, kvbudget::Percent fraction) {
  Bytes free{static_cast<std::uint64_t>(static_cast<double>(wanted.count) / (static_cast<double>(fraction.millionths) / 1e6))};
  while (kvbudget::tensorrt_llm::cache_bytes(free, fraction) > wanted) free -= Bytes{1};
  while (kvbudget::tensorrt_llm::cache_bytes(free, fraction) < wanted) free += Bytes{1};
  return free;
}

inline Bytes tensorrt_llm_free(Question const& question, kvbudget::read::Model const& model, kvbudget::Percent fraction, kvbudget::Trail& steps) {
  using namespace kvbudget;
  if (!question.available.empty()) return free_for(read::bytes(question.available, "--available"), fraction);
  steps.start("device memory", memory_of(question));
  steps.subtract("weights", weights_per_rank(question, model));
  steps.subtract("activations", read::bytes(question.activations, "--activations"));
  steps.subtract("graphs", read::bytes(question.graphs, "--graphs"));
  return steps.bytes();
}

inline Report tensorrt_llm_report(TensorrtLlmFlags const& flags, kvbudget::read::Model const& model, Question const& question) {
  using namespace kvbudget;
  Report report{.context = context_of(question, model)};
  auto const options = tensorrt_llm_options(flags, report.context);
  CacheSpec spec = model.spec;
  spec.dtype = chosen<DType>("--kv-cache-dtype", flags.dtype, {{"auto", model.spec.dtype}, {"fp8", fp8}, {"int8", int8}, {"nvfp4", nvfp4}});
  Sharding const sharding{.tensor = question.tensor, .pipeline = question.pipeline};
  require_good(check(spec, sharding), {{".tensor", "--tp"}, {".pipeline", "--pp"}, {".head_dim", "--kv-cache-dtype " + flags.dtype + ": head_dim"}});
  Trail steps;
  Bytes const free = tensorrt_llm_free(question, model, options.free_memory_fraction, steps);
  if (!steps.steps.empty()) report.steps.push_back(steps);
  std::vector<tensorrt_llm::Plan> ranks;
  for (std::uint32_t stage = 0; stage < question.pipeline; ++stage) ranks.push_back(tensorrt_llm::plan(on_rank(spec, sharding, {stage}), free, options));
  auto const plan = tensorrt_llm::agreed(ranks);
  require_good(plan.complaints, {{".free_memory_fraction", "--free-gpu-memory-fraction"},
                                 {".tokens_per_block", "--tokens-per-block"},
                                 {".cross_fraction", "--cross-kv-cache-fraction"},
                                 {".attention_windows", "--max-attention-window"}});
  report.plan = plan;
  report.log = tensorrt_llm::log_lines(plan);
  if (plan.reduces_length())
    report.notes.push_back(fmt::format("the server would start and lower the longest sequence to {} without an error", plan.longest()));
  report.figures = {{"printed_tokens", plan.printed_tokens}, {"printed_bytes", plan.printed_bytes}, {"windows", Json::array()}};
  for (auto const& window : plan.windows)
    report.figures["windows"].push_back({{"window_tokens", window.window},
                                         {"layers", window.layers},
                                         {"share", window.share},
                                         {"primary_blocks", window.primary},
                                         {"secondary_blocks", window.secondary}});
  return report;
}

inline Runtime tensorrt_llm_runtime() {
  auto flags = std::make_shared<TensorrtLlmFlags>();
  return {"tensorrt-llm",
          [flags](CLI::App& app) { add_tensorrt_llm_flags(app, *flags); },
          [flags](kvbudget::read::Model const& model, Question const& question) { return tensorrt_llm_report(*flags, model, question); },
          {"auto", "fp8", "nvfp4"},
          [](kvbudget::read::Model const& model, Question const& question, std::string const& dtype) {
            TensorrtLlmFlags flags_of_dtype;
            flags_of_dtype.dtype = dtype;
            return tensorrt_llm_report(flags_of_dtype, model, question);
          }};
}

}  // namespace example
