// vLLM's side of a reconciliation (facts: vllm.md D, J).
#pragma once

#include "../estimate/vllm.hpp"
#include "subject.hpp"

namespace example {

struct VllmSetup {
  VllmFlags flags{};
  Question question{};
  Tokens context{};
  kvbudget::CacheSpec spec{};
  kvbudget::LayerList drafts{};
  bool without_null_block{};  // the memory is what an error prints (D6)

  Prediction predict(Bytes memory) const;
};

namespace detail {

/// D6, in vLLM's words as far as they have figures.
inline std::string error_line(kvbudget::vllm::Plan const& plan) {
  return fmt::format(
      "max seq len ({}), ({} GiB KV cache is needed, which is larger than the available KV cache memory ({} GiB). Based on the available memory, the estimated "
      "maximum model length is {}.",
      plan.max_model_len.count, kvbudget::vllm::python_gib(plan.needed), kvbudget::vllm::python_gib(plan.available), plan.longest_that_fits.count);
}

/// J1: V0 prints its blocks first, and what is wrong with them then.
inline std::vector<std::string> v0_lines(VllmSetup const& setup, kvbudget::vllm::Plan const& plan, kvbudget::vllm::Options options, Bytes memory) {
  if (plan.refusal != kvbudget::vllm::Refusal::not_enough_memory || plan.longest_that_fits == Tokens{}) return {};
  options.max_model_len = plan.longest_that_fits;
  auto const shorter = kvbudget::vllm::plan(setup.spec, memory, options);
  if (shorter.refused()) return {};
  auto lines = kvbudget::vllm::log_lines(shorter);
  double const length = static_cast<double>(plan.max_model_len.count);
  lines[1] = fmt::format("Maximum concurrency for {} tokens per request: {:.2f}x", plan.max_model_len.count,
                         static_cast<double>(shorter.printed_tokens.count) / length);
  lines.push_back(fmt::format("max seq len ({}) is larger than the maximum number of tokens that can be stored in KV cache ({})", plan.max_model_len.count,
                              shorter.printed_tokens.count));
  return lines;
}

/// C6: the block that a state stretches.
inline void add_block_line(std::vector<std::string>& lines, kvbudget::vllm::Plan const& plan) {
  Tokens stretched{};
  bool states = false;
  for (auto const& group : plan.layer_groups) {
    bool const state = group.members[0].kind == kvbudget::vllm::SpecKind::mamba;
    states = states || state;
    if (!state) stretched = max(stretched, group.members[0].block);
  }
  if (states && stretched != Tokens{}) lines.push_back(fmt::format("Setting attention block size to {} tokens", stretched.count));
}

/// C4: the layers that fill up the groups of a kind.
inline void add_padding_lines(std::vector<std::string>& lines, kvbudget::vllm::Plan const& plan) {
  auto const& groups = plan.layer_groups;
  if (groups.size() < 2 || groups[0].uniform_type) return;
  std::uint64_t const most = kvbudget::vllm::detail::largest_group(groups);
  for (std::size_t i = 0; i < groups.size(); ++i) {
    auto const alike = [&](auto const& other) {
      auto const &a = groups[i].members[0], &b = other.members[0];
      return a.kind == b.kind && a.window == b.window && a.block == b.block;
    };
    if (std::any_of(groups.begin(), groups.begin() + static_cast<std::ptrdiff_t>(i), alike)) continue;
    std::uint64_t layers = 0, room = 0;
    for (auto const& group : groups)
      if (alike(group)) layers += group.layers.size(), room += most;
    if (layers == 0 || room == layers) continue;
    lines.push_back(fmt::format("Add {} padding layers, may waste at most {:.2f}% KV cache memory", room - layers,
                                100 * static_cast<double>(room - layers) / static_cast<double>(layers)));
  }
}

}  // namespace detail

inline Prediction VllmSetup::predict(Bytes memory) const {
  using namespace kvbudget;
  auto const options = vllm_options(flags, question, context);
  if (auto const complaints = vllm::check(spec, options); !complaints.empty()) return {.lines = {}, .refusal = fmt::format("{}", complaints), .plan = {}};
  auto plan = vllm::plan(spec, memory, options);
  if (without_null_block && !plan.ranks.empty()) plan = vllm::plan(spec, memory + plan.ranks[plan.refused_rank].bytes_per_block, options);
  Prediction found{.lines = vllm::log_lines(plan), .refusal = vllm::why(plan), .plan = plan};
  if (plan.release == vllm::Release::v0) {
    if (plan.refused()) found.lines = detail::v0_lines(*this, plan, options, memory);
    return found;
  }
  if (plan.refusal == vllm::Refusal::not_enough_memory) found.lines.push_back(detail::error_line(plan));
  if (!plan.refused()) found.lines.push_back(fmt::format("num_gpu_blocks is: {}", plan.blocks.count));
  if (options.auto_fit && !plan.refused() && plan.max_model_len != context)
    found.lines.push_back(fmt::format("Auto-fit max_model_len: reduced from {} to {}", context.count, plan.max_model_len.count));
  detail::add_block_line(found.lines, plan);
  detail::add_padding_lines(found.lines, plan);
  return found;
}

/// Flags, one at a time; the cause where the print form is right.
inline std::vector<Trial> vllm_flag_trials(VllmSetup const& setup) {
  std::vector<Trial> trials;
  auto const set = [&](std::string const& name, auto change) { trials.push_back(variant(name, setup, change)); };
  try_each<VllmSetup, std::string>(trials, setup, "--kv-cache-dtype", {"fp8", "auto", "fp8_ds_mla", "nvfp4", "int8_per_token_head", "fp8_per_token_head"},
                                   setup.flags.kv_cache_dtype, [](VllmSetup& changed, std::string const& value) { changed.flags.kv_cache_dtype = value; });
  try_each<VllmSetup, std::uint32_t>(trials, setup, "--tensor-parallel-size", {1, 2, 4, 8, 16}, setup.question.tensor,
                                     [](VllmSetup& changed, std::uint32_t value) { changed.question.tensor = value; });
  try_each<VllmSetup, std::uint32_t>(trials, setup, "--pipeline-parallel-size", {1, 2, 4, 8}, setup.question.pipeline,
                                     [](VllmSetup& changed, std::uint32_t value) { changed.question.pipeline = value; });
  if (!setup.flags.sync_scheduling) set("--no-async-scheduling", [](VllmSetup& changed) { changed.flags.sync_scheduling = true; });
  for (std::uint64_t const tokens : std::initializer_list<std::uint64_t>{2'048, 2'496, 4'096, 8'192, 16'384, 32'768, 65'536})
    for (bool const sync : {setup.flags.sync_scheduling, !setup.flags.sync_scheduling})
      if (tokens != setup.flags.batched_tokens)
        set(fmt::format("--max-num-batched-tokens {}{}", tokens,
                        sync == setup.flags.sync_scheduling ? ""
                        : sync                              ? " --no-async-scheduling"
                                                            : " and asynchronous scheduling"),
            [&](VllmSetup& changed) { changed.flags.batched_tokens = tokens, changed.flags.sync_scheduling = sync; });
  if (!setup.flags.no_prefix_caching) set("--no-enable-prefix-caching", [](VllmSetup& changed) { changed.flags.no_prefix_caching = true; });
  if (!setup.flags.options.disable_hybrid_kv_cache_manager)
    set("--disable-hybrid-kv-cache-manager", [](VllmSetup& changed) { changed.flags.options.disable_hybrid_kv_cache_manager = true; });
  try_each<VllmSetup, std::uint64_t>(trials, setup, "--block-size", {1, 8, 16, 32, 64, 128, 256}, setup.flags.options.block_size.count,
                                     [](VllmSetup& changed, std::uint64_t value) { changed.flags.options.block_size = {value}; });
  for (std::uint32_t const tokens : {1U, 2U, 3U})
    if (setup.drafts.size() != 0 && !setup.question.speculative)
      set(fmt::format("--speculative --num-speculative-tokens {}", tokens), [&](VllmSetup& changed) {
        changed.spec.layers.append(changed.drafts);
        changed.flags.options.num_speculative_tokens = tokens;
      });
  if (auto const layers = setup.spec.layers.size(); layers != 0)
    set("a draft model of one layer like the last (EAGLE)", [layers](VllmSetup& changed) {
      kvbudget::Layer const last = changed.spec.layers[layers - 1];
      changed.spec.layers.append(last);
    });
  try_each<VllmSetup, std::uint32_t>(trials, setup, "--decode-context-parallel-size", {2, 4, 8}, setup.flags.options.decode_context_parallel,
                                     [](VllmSetup& changed, std::uint32_t value) { changed.flags.options.decode_context_parallel = value; });
  try_each<VllmSetup, std::string>(trials, setup, "--mamba-ssm-cache-dtype", {"bfloat16", "float16", "float32"}, setup.flags.ssm_dtype,
                                   [](VllmSetup& changed, std::string const& value) { changed.flags.ssm_dtype = value; });
  try_each<VllmSetup, std::string>(trials, setup, "--mamba-cache-mode", {"none", "align", "all"}, setup.flags.mamba_mode,
                                   [](VllmSetup& changed, std::string const& value) { changed.flags.mamba_mode = value; });
  try_each<VllmSetup, std::string>(trials, setup, "--swap-space", {"0B", "1GiB", "2GiB", "8GiB", "16GiB", "32GiB"}, setup.flags.swap,
                                   [](VllmSetup& changed, std::string const& value) { changed.flags.swap = value; });
  return trials;
}

namespace detail {

inline bool keeps_states(kvbudget::CacheSpec const& spec) {
  for (auto const& layer : spec.layers.palette)
    for (auto const& part : layer.parts)
      if (part.keeps == kvbudget::Keeps::fixed) return true;
  return false;
}

/// The other print forms, and for a model with states the default before it had prefix caching: a flag may differ beside one of these.
inline std::vector<std::pair<std::string, VllmSetup>> vllm_bases(VllmSetup const& setup) {
  std::vector<std::pair<std::string, VllmSetup>> bases;
  auto const add = [&](std::string name, char const* release, bool no_prefix_caching) {
    VllmSetup base = setup;
    base.flags.release = release;
    base.flags.no_prefix_caching = no_prefix_caching;
    if (release != setup.flags.release || no_prefix_caching != setup.flags.no_prefix_caching) bases.emplace_back(std::move(name), std::move(base));
  };
  bool const was = setup.flags.no_prefix_caching;
  if (setup.flags.release != "v0") {
    add("the print form since 0.20.1 (--release current)", "current", was);
    add("an older print form (--release v1, up to 0.20.0)", "v1", was);
    if (keeps_states(setup.spec)) add("--no-enable-prefix-caching", setup.flags.release == "v1" ? "v1" : "current", true);
    if (keeps_states(setup.spec)) add("--no-enable-prefix-caching in an older print form (--release v1, up to 0.20.0)", "v1", true);
  }
  return bases;
}

}  // namespace detail

/// What is tried where a figure differs, in the order of how often it is the cause: the print form, another rank's memory, flags one
/// at a time, and the same beside another print form.
inline std::vector<Trial> vllm_trials(VllmSetup const& setup, std::vector<Trial> const& memories) {
  std::vector<Trial> trials;
  auto const bases = detail::vllm_bases(setup);
  for (auto const& [name, base] : bases) trials.push_back(variant(name, base, [](VllmSetup&) {}));
  if (setup.flags.release != "v0")
    trials.push_back(variant("an older print form (--release v0)", setup, [](VllmSetup& changed) { changed.flags.release = "v0"; }));
  if (setup.without_null_block)
    trials.push_back(
        variant("an older print form: the error's memory still has the null block", setup, [](VllmSetup& changed) { changed.without_null_block = false; }));
  trials.insert(trials.end(), memories.begin(), memories.end());
  for (auto& trial : vllm_flag_trials(setup)) trials.push_back(std::move(trial));
  for (auto const& [name, base] : bases)
    for (auto& trial : vllm_flag_trials(base)) trials.push_back({fmt::format("{}, and {}", trial.name, name), trial.predict, trial.memory});
  return trials;
}

inline Reconciler vllm_reconciler(RuntimeLog const& log) {
  auto flags = std::make_shared<VllmFlags>();
  if (log.runtime() == kvbudget::read::Runtime::vllm_v0) flags->release = "v0";
  for (auto const& line : log.lines)
    if (line.form.substr(0, 10) == "Overriding") flags->blocks_override = line.figures[0].low;
  bool const fits_itself = log.last(Quantity::asked_length).has_value();
  return {"vllm", [flags](CLI::App& app) { add_vllm_flags(app, *flags); },
          [flags, log, fits_itself](kvbudget::read::Model const& model, Question const& question) {
            VllmSetup setup{.flags = *flags, .question = question, .context = context_of(question, model), .spec = model.spec, .drafts = model.draft_layers};
            if (fits_itself) setup.flags.auto_fit = true, setup.context = {told(log, Quantity::asked_length)};
            setup.without_null_block = question.available.empty() && only_an_error_says_memory(log);
            setup.predict(Bytes{1});  // a flag that nobody knows is refused here
            Predict const predict = [setup](Bytes memory) { return setup.predict(memory); };
            return Subject{predict, vllm_trials(setup, other_memories(log, memory_in(log, question), predict))};
          }};
}

}  // namespace example
