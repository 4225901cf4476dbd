// vLLM's flags on the estimate's command line.
#pragma once

#include "runtime.hpp"

#include <kvbudget/write/vllm.hpp>

namespace example {

struct VllmFlags {
  kvbudget::vllm::Options options{};
  std::string utilization = "0.92", kv_cache_memory, kv_cache_dtype = "auto", mamba_mode, mamba_dtype = "auto", ssm_dtype = "auto", swap = "4GiB",
              release = "current";
  std::uint64_t batched_tokens{}, blocks_override{};
  bool sync_scheduling{}, no_prefix_caching{}, auto_fit{}, no_skip_layers{};
};

inline void add_vllm_flags(CLI::App& app, VllmFlags& flags) {
  auto& options = flags.options;
  auto* const utilization = app.add_option("--gpu-memory-utilization", flags.utilization)->capture_default_str();
  auto* const cache_memory = app.add_option("--kv-cache-memory-bytes", flags.kv_cache_memory, "instead of what profiling leaves");
  app.get_option("--available")->excludes(utilization)->excludes(cache_memory);
  cache_memory->excludes(utilization);
  app.add_option("--kv-cache-dtype", flags.kv_cache_dtype)->capture_default_str();
  add_whole(app, "--block-size", options.block_size.count, 1, 1'048'576, "the attention backend's unless told");
  add_whole(app, "--kernel-block", options.kernel_block.count, 1, 1'048'576, "the attention backend's smallest block");
  add_whole(app, "--max-num-batched-tokens", flags.batched_tokens, 1, most_tokens, "windows keep what is in flight; by --gpu-memory, else 8192, unless told");
  add_whole(app, "--max-num-seqs", options.max_num_seqs, 1, most_tokens, "the limit on running requests");
  add_whole(app, "--dcp,--decode-context-parallel-size", options.decode_context_parallel, 1, 65'535, "decode context parallelism");
  add_whole(app, "--num-speculative-tokens", options.num_speculative_tokens, 1, 1'024, "drafted in a step; --speculative counts the draft's layers");
  add_whole(app, "--num-gpu-blocks-override", flags.blocks_override, 1, most_tokens, "blocks, whatever the memory");
  add_whole(app, "--max-num-encoder-input-tokens", options.max_num_encoder_input_tokens.count, 1, most_tokens, "what cross attention reserves");
  add_whole(app, "--prefix-match-unit", options.prefix_match_unit.count, 1, most_tokens, "tokens behind a block hash");
  add_whole(app, "--mamba-chunk", options.mamba_chunk.count, 1, 1'048'576, "chunk_size of the model's kernels, for --mamba-cache-mode all");
  app.add_option("--mamba-cache-dtype", flags.mamba_dtype, "of the convolutions' states: auto, bfloat16, float16 or float32")->capture_default_str();
  app.add_option("--mamba-ssm-cache-dtype", flags.ssm_dtype, "of the recurrent states")->capture_default_str();
  app.add_option("--swap-space", flags.swap, "of V0, for CPU blocks")->capture_default_str();
  app.add_flag("--v2-model-runner", options.v2_model_runner, "one more step in flight where --pp is above 1");
  app.add_flag("--multi-module-mtp", options.multi_module_mtp, "windows keep the drafted tokens but one");
  app.add_flag("--cross-layers-blocks", options.cross_layers_blocks);
  app.add_flag("--no-skip-layers", flags.no_skip_layers, "turboquant leaves no layer at the model's dtype");
  app.add_flag("--auto-fit", flags.auto_fit, "--max-model-len auto: the longest that fits, up to --context");
  app.add_flag("--no-async-scheduling", flags.sync_scheduling);
  app.add_flag("--no-enable-prefix-caching", flags.no_prefix_caching);
  app.add_flag("--disable-hybrid-kv-cache-manager", options.disable_hybrid_kv_cache_manager);
  app.add_flag("--allow-chunked-local", options.allow_chunked_local_with_hybrid_manager, "VLLM_ALLOW_CHUNKED_LOCAL_ATTN_WITH_HYBRID_KV_CACHE=1");
  app.add_option("--mamba-cache-mode", flags.mamba_mode, "none, align or all");
  app.add_option("--release", flags.release, "whose form is printed: v0, v1 (up to 0.20.0) or current")->capture_default_str();
}

inline std::optional<kvbudget::vllm::Element> vllm_state_dtype(std::string const& option, std::string const& told) {
  using kvbudget::vllm::Element;
  if (told == "auto") return std::nullopt;
  return chosen<Element>(option, told, {{"bfloat16", Element::bfloat16}, {"float16", Element::float16}, {"float32", Element::float32}});
}

/// B4: vLLM's own default goes by the device.
inline Tokens vllm_batched_tokens(VllmFlags const& flags, Question const& question) {
  if (flags.batched_tokens != 0) return {flags.batched_tokens};
  if (question.memory.empty()) return Tokens{8'192};
  return kvbudget::vllm::default_max_num_batched_tokens(kvbudget::read::bytes(question.memory, "--gpu-memory"), false, true);
}

inline std::vector<std::pair<std::string, kvbudget::vllm::CacheDType>> vllm_dtypes() {
  std::vector<std::pair<std::string, kvbudget::vllm::CacheDType>> values;
  for (auto const& known : kvbudget::vllm::cache_dtypes) values.emplace_back(known.name, known.dtype);
  return values;
}

inline kvbudget::vllm::Options vllm_options(VllmFlags const& flags, Question const& question, Tokens context) {
  using namespace kvbudget;
  auto options = flags.options;
  options.max_model_len = context;
  options.tensor_parallel = question.tensor;
  options.pipeline_parallel = question.pipeline;
  options.auto_fit = flags.auto_fit;
  options.max_num_batched_tokens = vllm_batched_tokens(flags, question);
  options.skip_boundary_layers = !flags.no_skip_layers;
  options.mamba_cache_dtype = vllm_state_dtype("--mamba-cache-dtype", flags.mamba_dtype);
  options.mamba_ssm_cache_dtype = vllm_state_dtype("--mamba-ssm-cache-dtype", flags.ssm_dtype);
  options.swap_space = kvbudget::read::bytes(flags.swap, "--swap-space");
  options.async_scheduling = !flags.sync_scheduling;
  options.enable_prefix_caching = !flags.no_prefix_caching;
  options.kv_cache_dtype = chosen("--kv-cache-dtype", flags.kv_cache_dtype, vllm_dtypes());
  options.release =
      chosen<vllm::Release>("--release", flags.release, {{"v0", vllm::Release::v0}, {"v1", vllm::Release::v1_until_0_20}, {"current", vllm::Release::current}});
  if (flags.blocks_override != 0) options.num_gpu_blocks_override = Blocks{flags.blocks_override};
  if (!flags.mamba_mode.empty())
    options.mamba_cache_mode = chosen<vllm::MambaMode>("--mamba-cache-mode", flags.mamba_mode,
                                                       {{"none", vllm::MambaMode::none}, {"align", vllm::MambaMode::align}, {"all", vllm::MambaMode::all}});
  return options;
}

inline Bytes vllm_available(VllmFlags const& flags, Question const& question, kvbudget::read::Model const& model, kvbudget::Trail& steps) {
  using namespace kvbudget;
  if (flags.blocks_override != 0) return {};
  if (!question.available.empty()) return read::bytes(question.available, "--available");
  vllm::Memory memory{};
  if (!flags.kv_cache_memory.empty()) {
    memory.kv_cache_memory = read::bytes(flags.kv_cache_memory, "--kv-cache-memory-bytes");
  } else {
    memory = {.total = memory_of(question),
              .gpu_memory_utilization = read::share(flags.utilization, "--gpu-memory-utilization"),
              .weights = weights_per_rank(question, model),
              .activations = read::bytes(question.activations, "--activations"),
              .cuda_graphs = read::bytes(question.graphs, "--graphs")};
  }
  require_good(check(memory), {{".total", "--gpu-memory"}, {".gpu_memory_utilization", "--gpu-memory-utilization"}});
  return vllm::available_bytes(memory, steps);
}

inline Report vllm_report(VllmFlags const& flags, kvbudget::read::Model const& model, Question const& question) {
  using namespace kvbudget;
  Report report{.context = context_of(question, model)};
  auto const options = vllm_options(flags, question, report.context);
  require_good(vllm::check(model.spec, options), {{".tensor", "--tp"},
                                                  {".pipeline", "--pp"},
                                                  {".decode_context_parallel", "--dcp"},
                                                  {".kv_cache_dtype", "--kv-cache-dtype " + flags.kv_cache_dtype + ": the width of a head"},
                                                  {".max_model_len", "--context"}});
  Trail steps;
  Bytes const available = vllm_available(flags, question, model, steps);
  if (!steps.steps.empty()) report.steps.push_back(steps);
  auto const plan = vllm::plan(model.spec, available, options);
  report.plan = plan;
  report.context = plan.max_model_len;
  report.log = vllm::log_lines(plan);
  report.refusal = vllm::why(plan);
  report.figures = {{"max_concurrency", plan.max_concurrency},
                    {"printed_tokens", plan.printed_tokens},
                    {"max_model_len", plan.max_model_len},
                    {"layer_groups", plan.layer_groups.size()},
                    {"scheduler_block_tokens", plan.scheduler_block},
                    {"hash_block_tokens", plan.hash_block},
                    {"needs_zeroing", plan.needs_zeroing},
                    {"tightest_stage", plan.tightest_rank}};
  if (!plan.refused())
    for (auto const& complaint : plan.complaints) report.notes.push_back(fmt::format("{}", complaint));
  if (plan.layers_left_out != 0) report.notes.push_back(fmt::format("vLLM puts {} layers in no group, and so in no cache (vllm.md C3)", plan.layers_left_out));
  if (!plan.needed_steps.steps.empty()) report.steps.push_back(plan.needed_steps);
  if (plan.refusal == vllm::Refusal::not_enough_memory)
    report.figures.update({{"needed_bytes", plan.needed}, {"available_bytes", plan.available}, {"longest_that_fits_tokens", plan.longest_that_fits}});
  return report;
}

inline Runtime vllm_runtime() {
  auto flags = std::make_shared<VllmFlags>();
  return {"vllm",
          [flags](CLI::App& app) { add_vllm_flags(app, *flags); },
          [flags](kvbudget::read::Model const& model, Question const& question) { return vllm_report(*flags, model, question); },
          {"auto", "fp8", "nvfp4"},
          [](kvbudget::read::Model const& model, Question const& question, std::string const& dtype) {
            VllmFlags flags_of_dtype;
            flags_of_dtype.kv_cache_dtype = dtype;
            return vllm_report(flags_of_dtype, model, question);
          }};
}

}  // namespace example
