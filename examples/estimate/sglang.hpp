// SGLang's flags on the estimate's command line. A config.json is taken by SGLang's own reading of it.
#pragma once

#include "runtime.hpp"

#include <kvbudget/read/sglang_model.hpp>
#include <kvbudget/size/sglang.hpp>
#include <kvbudget/write/sglang.hpp>

namespace example {

struct SglangFlags {
  kvbudget::sglang::Options options{};
  std::string fraction, dtype = "auto", swa_ratio, mamba_ratio, algorithm, chunk;
  std::uint64_t running{}, total_tokens{}, mamba_slots{}, draft_tokens{}, steps{}, topk{};
};

inline void add_sglang_flags(CLI::App& app, SglangFlags& flags) {
  auto& options = flags.options;
  app.get_option("--available")->excludes(app.add_option("--mem-fraction-static", flags.fraction, "as the server resolved it, for example 0.83"));
  app.add_option("--kv-cache-dtype", flags.dtype, kvbudget::sglang::cache_type_names)->capture_default_str();
  add_whole(app, "--page-size", options.page_size.count, 1, 1'048'576, "tokens of a page");
  add_whole(app, "--max-running-requests", flags.running, 1, most_tokens, "the limit on running requests");
  add_whole(app, "--max-total-tokens", flags.total_tokens, 1, most_tokens, "a limit on the pool");
  app.add_option("--chunked-prefill-size", flags.chunk, "tokens of a chunk; -1 is off");
  app.add_option("--swa-full-tokens-ratio", flags.swa_ratio, "sliding tokens for each full one; 0.8 unless told");
  app.add_option("--mamba-full-memory-ratio", flags.mamba_ratio, "memory of states beside the tokens'; 0.9 unless told");
  add_whole(app, "--max-mamba-cache-size", flags.mamba_slots, 1, most_tokens, "state slots");
  add_whole(app, "--dp-size", options.dp_size, 1, 65'535, "data-parallel ranks");
  add_whole(app, "--dcp-size", options.dcp_size, 1, 65'535, "decode context parallelism");
  app.add_flag("--enable-dp-attention", options.enable_dp_attention, "attention is split over --dp-size");
  app.add_flag("--disable-radix-cache", options.disable_radix_cache);
  app.add_flag("--disable-hybrid-swa-memory", options.disable_hybrid_swa_memory, "size sliding layers like full ones");
  app.add_flag("--disable-overlap-schedule", options.disable_overlap_schedule);
  app.add_option("--speculative-algorithm", flags.algorithm, kvbudget::sglang::speculation_names);
  add_whole(app, "--speculative-num-draft-tokens", flags.draft_tokens, 1, 1'024, "as the server resolved it");
  add_whole(app, "--speculative-num-steps", flags.steps, 1, 1'024, "as the server resolved it");
  add_whole(app, "--speculative-eagle-topk", flags.topk, 1, 1'024, "as the server resolved it");
}

template <class Value>
Value named_or_refused(std::string const& option, std::string const& told, std::optional<Value> found, char const* accepted) {
  if (!found) throw kvbudget::read::Error{{"", option, told, accepted, "choose one of them"}};
  return *found;
}

inline double as_double(kvbudget::Percent share) { return static_cast<double>(share.millionths) / 1e6; }

inline kvbudget::sglang::Options sglang_options(SglangFlags const& flags, Question const& question) {
  using namespace kvbudget;
  auto options = flags.options;
  auto const given = [](std::uint64_t n) { return n != 0 ? std::optional{n} : std::nullopt; };
  options.tp_size = question.tensor;
  options.pp_size = question.pipeline;
  options.mem_fraction_static = question.available.empty() ? 0 : 1;
  if (!flags.fraction.empty()) options.mem_fraction_static = as_double(read::share(flags.fraction, "--mem-fraction-static"));
  if (!flags.swa_ratio.empty()) options.swa_full_tokens_ratio = as_double(read::share(flags.swa_ratio, "--swa-full-tokens-ratio"));
  if (!flags.mamba_ratio.empty()) options.mamba_full_memory_ratio = as_double(read::share(flags.mamba_ratio, "--mamba-full-memory-ratio"));
  if (!flags.chunk.empty())
    options.chunked_prefill_size = flags.chunk == "-1" ? -1 : static_cast<std::int64_t>(read::whole(flags.chunk, "--chunked-prefill-size", 1, most_tokens));
  options.kv_cache_dtype = named_or_refused("--kv-cache-dtype", flags.dtype, sglang::cache_type_named(flags.dtype), sglang::cache_type_names);
  options.max_running_requests = given(flags.running);
  options.max_mamba_cache_size = given(flags.mamba_slots);
  if (flags.total_tokens != 0) options.max_total_tokens = Tokens{flags.total_tokens};
  if (flags.algorithm.empty()) return options;
  options.speculative_algorithm =
      named_or_refused("--speculative-algorithm", flags.algorithm, sglang::speculation_named(flags.algorithm), sglang::speculation_names);
  options.speculative_num_draft_tokens = given(flags.draft_tokens);
  options.speculative_num_steps = given(flags.steps);
  options.speculative_eagle_topk = given(flags.topk);
  return options;
}

/// By SGLang's own reading of a config.json; a catalog model by what its layers keep and its architecture; a GGUF file by its layers
/// alone, sliding ones as full attention, as SGLang takes an architecture that it has no pool for (R6).
inline kvbudget::sglang::Model sglang_model(kvbudget::read::Model const& model, Tokens context, kvbudget::sglang::Options& options) {
  using namespace kvbudget;
  if (model.file.extension() == ".json") {
    auto const found = read::sglang_model(model.file, {.context_length = context});
    options.draft_layers = read::sglang_draft_layers(found, options, nullptr);
    return found.model;
  }
  sglang::SpecFacts facts{.context = context};
  if (!model.architecture.empty()) facts = read::sglang_facts(model.architecture, facts);
  auto const found = sglang::model_of(model.spec, facts);
  require_good(found.complaints, {});
  if (options.kv_cache_dtype == sglang::CacheType::automatic) options.kv_cache_dtype = found.cache;
  return found.model;
}

/// Before the weights are loaded, and after. --available: all there is then, and all of it may be used.
inline kvbudget::sglang::Memory sglang_memory(Question const& question, kvbudget::read::Model const& model, kvbudget::Trail& steps) {
  using namespace kvbudget;
  if (!question.available.empty()) {
    Bytes const available = read::bytes(question.available, "--available");
    return {available, available};
  }
  Bytes const before = memory_of(question);
  steps.start("free before the weights", before);
  steps.subtract("weights", weights_per_rank(question, model));
  return {before, steps.bytes()};
}

inline Report sglang_report(SglangFlags const& flags, kvbudget::read::Model const& model, Question const& question) {
  using namespace kvbudget;
  Report report{.context = context_of(question, model)};
  auto options = sglang_options(flags, question);
  if (options.mem_fraction_static == 0)
    missing("--mem-fraction-static", "the fraction the server resolved, or --available", "add for example --mem-fraction-static 0.83");
  Tokens const longest = max(model.context.value_or(report.context), question.context != 0 ? report.context + Tokens{1} : Tokens{});
  auto const of_sglang = sglang_model(model, longest, options);
  Trail steps;
  auto const memory = sglang_memory(question, model, steps);
  if (!steps.steps.empty()) report.steps.push_back(steps);
  auto const plan = sglang::plan(of_sglang, memory, options);
  report.plan = plan;
  report.refusal = write::refusal_text(plan);
  report.log = write::log_lines(plan);
  report.figures = {{"budget_bytes", plan.pool},           {"bytes_per_token", plan.cell},
                    {"max_total_num_tokens", plan.tokens}, {"full_tokens", plan.pools_agreed.full},
                    {"swa_tokens", plan.pools_agreed.swa}, {"max_running_requests", plan.running},
                    {"max_req_len", plan.longest_request}, {"max_req_input_len", plan.longest_input},
                    {"allocated_bytes", plan.allocated()}, {"beside_the_budget_bytes", plan.beside_the_budget()}};
  if (plan.slots) report.figures["max_mamba_cache_size"] = *plan.slots;
  if (plan.refused()) return report;
  if (auto const why = write::serves_nobody_text(plan); !why.empty()) report.notes.push_back(why);
  if (question.context == 0) report.context = plan.longest_request;
  if (!plan.slots && plan.allocated() > plan.pool + share_down(Percent{1}, plan.pool))
    report.notes.push_back(fmt::format("the pools take {} of a budget of {}", plan.allocated(), plan.pool));
  report.notes.push_back(fmt::format("beside the budget, charged to nobody: {}", plan.beside_the_budget()));
  return report;
}

inline Runtime sglang_runtime() {
  auto flags = std::make_shared<SglangFlags>();
  return {"sglang",
          [flags](CLI::App& app) { add_sglang_flags(app, *flags); },
          [flags](kvbudget::read::Model const& model, Question const& question) { return sglang_report(*flags, model, question); },
          {"auto", "fp8_e4m3"},
          [](kvbudget::read::Model const& model, Question const& question, std::string const& dtype) {
            SglangFlags flags_of_dtype;
            flags_of_dtype.dtype = dtype;
            return sglang_report(flags_of_dtype, model, question);
          }};
}

}  // namespace example
