// The copy-paste capacity estimate: what a model's cache takes, what a device leaves for it, and what fits.
//
// The model is a config.json, a GGUF file, a folder that holds one, or a name of the catalog.
//   kvbudget_estimate config.json --gpu-memory 80GiB --weights 16GiB --context 8192 [--tp 2 --dtype fp8 --block 16 --json]
//   kvbudget_estimate config.json --runtime vllm --gpu-memory 80GiB --tp 2    by a runtime's own rules and flags (estimate/*.hpp)
//   kvbudget_estimate config.json --compare --available 30GiB                 all runtimes and dtypes, side by side
//   kvbudget_estimate config.json --context 8192 --blocks 27441 --block-size 16        the figure a running server printed
#include "command_line.hpp"
#include "estimate/compare.hpp"
#include "estimate/llama_cpp.hpp"
#include "estimate/sglang.hpp"
#include "estimate/tensorrt_llm.hpp"
#include "estimate/vllm.hpp"

#include <kvbudget/kvbudget.hpp>
#include <kvbudget/read/amount.hpp>
#include <kvbudget/read/model.hpp>
#include <kvbudget/write/format.hpp>
#include <kvbudget/write/json.hpp>

#include <iostream>

namespace {

using kvbudget::Bytes;
using kvbudget::Tokens;
using kvbudget::read::Error;
using Json = nlohmann::ordered_json;

struct Options {
  std::string config, memory, weights, activations = "0B", graphs = "0B", adapters = "0B", reserve = "0B";
  std::string of_total, of_free, dtype;
  std::uint64_t context{}, block = 16, in_flight = 8'192, max_requests{}, blocks{}, block_size{}, require_requests{};
  kvbudget::Sharding sharding{};
  bool speculative{};
  bool json{};
};

/// Everything the report says, computed once.
struct Estimate {
  kvbudget::read::Model model{};
  Tokens context{};
  Bytes weights{};
  bool measured{};           // blocks as a server printed them, not from memory
  kvbudget::Trail budget{};  // device memory to bytes for the cache, per rank
  kvbudget::StagePlan stage{};
  kvbudget::RequestCapacity capacity{};
  kvbudget::Growth whole{}, rank{};  // of the model, and of the rank that binds
  Bytes request_total{};             // one request on all ranks, replicas included
  Bytes pool_total{};                // bytes for the cache on all ranks
};

Error missing(char const* field, char const* accepted, char const* next) { return Error{{"", field, "missing", accepted, next}}; }

Bytes weights_of(Options const& options, kvbudget::read::Model const& model) {
  if (!options.weights.empty()) return kvbudget::read::bytes(options.weights, "--weights");
  if (auto const said = kvbudget::read::weights_of(model)) return *said;
  throw missing("--weights", "the bytes of all weights, where no model.safetensors.index.json is beside the config", "add for example --weights 16GiB");
}

kvbudget::UsableFraction usable_of(Options const& options) {
  if (!options.of_total.empty() && !options.of_free.empty())
    throw Error{{"", "--of-free", "given beside --of-total", "one of the two", "say what the runtime's fraction is a fraction of"}};
  auto const share = [](std::string const& text, char const* option) {
    auto const found = kvbudget::read::share(text, option);
    if (found == kvbudget::Percent{}) throw Error{{"", option, text, "more than 0", "give the runtime's memory fraction, for example 0.92"}};
    return found;
  };
  if (!options.of_free.empty()) return kvbudget::of_free_after_weights(share(options.of_free, "--of-free"));
  return kvbudget::of_total(options.of_total.empty() ? kvbudget::Percent{100} : share(options.of_total, "--of-total"));
}

/// Bytes for the cache of one rank. Weights are taken as split evenly over tensor and pipeline ranks.
Bytes pool_of(Options const& options, Estimate& estimate) {
  if (options.memory.empty()) throw missing("--gpu-memory", "one device's memory", "add for example --gpu-memory 80GiB");
  estimate.weights = weights_of(options, estimate.model);
  kvbudget::DeviceBudget const device{.memory = kvbudget::read::bytes(options.memory, "--gpu-memory"),
                                      .usable = usable_of(options),
                                      .weights = kvbudget::part_up(estimate.weights, std::uint64_t{options.sharding.tensor} * options.sharding.pipeline),
                                      .activations = kvbudget::read::bytes(options.activations, "--activations"),
                                      .graphs = kvbudget::read::bytes(options.graphs, "--graphs"),
                                      .adapters = kvbudget::read::bytes(options.adapters, "--adapters"),
                                      .reserve = kvbudget::read::bytes(options.reserve, "--reserve")};
  example::require_good(check(device), {{".memory", "--gpu-memory"}});
  return cache_bytes(device, estimate.budget);
}

/// The pool that so many printed blocks make. They mean the same to every runtime only where a block is of all layers.
Bytes measured_pool(Options const& options, kvbudget::CacheSpec const& rank) {
  if (kvbudget::growth(rank).windowed != Bytes{} || kvbudget::growth(rank).fixed != Bytes{})
    throw Error{{options.config, "--blocks", "given for a hybrid model", "a model whose layers all keep every token",
                 "a hybrid's printed blocks depend on the runtime's layer groups; give --gpu-memory instead"}};
  return plan(rank, Bytes{}, {.block = {options.block_size}}).bytes_per_block * options.blocks;
}

kvbudget::read::Model read_model(Options const& options) {
  auto model = kvbudget::read::model(options.config, options.dtype);
  if (options.speculative && model.draft_layers.size() == 0)
    throw Error{{options.config, "--speculative", "given", "a model with MTP or NextN blocks", "leave it out, or give the draft model's cache to --reserve"}};
  if (options.speculative) model.spec.layers.append(model.draft_layers);
  if (model.context && options.context > model.context->count)
    model.notes.push_back(fmt::format("a context of {} is more than the {} the model says it was trained for", Tokens{options.context}, *model.context));
  return model;
}

Estimate estimate_of(Options options) {
  Estimate estimate{.model = read_model(options)};
  auto const& spec = estimate.model.spec;
  if (check(spec).empty() && growth(spec).growing + growth(spec).windowed + growth(spec).fixed == Bytes{})
    throw Error{{options.config, "the model", "without a cache", "a model that generates", "an encoder needs no cache"}};
  example::require_good(check(spec, options.sharding), {{".tensor", "--tp"},
                                                        {".pipeline", "--pp"},
                                                        {".context", "--cp"},
                                                        {".decode_context", "--dcp"},
                                                        {".head_dim", "--dtype " + options.dtype + ": head_dim"}});
  if (options.context == 0 && !estimate.model.context)
    throw missing("--context", "the length of a request in tokens: the config does not say one", "add for example --context 8192");
  estimate.context = options.context != 0 ? Tokens{options.context} : *estimate.model.context;

  estimate.measured = options.blocks != 0 || options.block_size != 0;
  if (estimate.measured && (options.blocks == 0 || options.block_size == 0))
    throw missing(options.blocks == 0 ? "--blocks" : "--block-size", "both --blocks and --block-size", "take the two from the server's log");
  if (estimate.measured) options.block = options.block_size;
  Bytes const pool = estimate.measured ? Bytes{} : pool_of(options, estimate);
  kvbudget::PlanOptions const how{
      .block = {options.block}, .in_flight = {options.in_flight}, .max_requests = options.max_requests == 0 ? kvbudget::saturated_count : options.max_requests};
  example::require_good(check(spec, how), {});
  if (estimate.measured) {  // so many blocks on every stage, whatever a block weighs there
    for (std::uint32_t stage = options.sharding.pipeline; stage-- > 0;) {
      auto const rank = on_rank(spec, options.sharding, {stage});
      estimate.stage = {{stage}, plan(rank, measured_pool(options, rank), how), {}};
      estimate.pool_total += estimate.stage.plan.pool * options.sharding.tensor * options.sharding.context;
    }
    estimate.stage.longest = estimate.stage.plan.longest();
  } else {
    estimate.stage = plan_tightest(spec, options.sharding, pool, estimate.context, how);
    estimate.pool_total = pool * options.sharding.ranks();
  }
  estimate.capacity = estimate.stage.plan.at(estimate.context);
  estimate.whole = growth(spec);
  estimate.rank = growth(on_rank(spec, options.sharding, estimate.stage.rank));
  estimate.request_total = total_bytes(spec, options.sharding, estimate.context);
  return estimate;
}

Json growth_json(kvbudget::Growth const& growth) {
  return {{"bytes_per_token", growth.is_uniform() ? Json(growth.growing) : Json(nullptr)},
          {"growing_bytes", growth.growing},
          {"growing_per_tokens", growth.per},
          {"windowed_bytes_per_token", growth.windowed},
          {"fixed_bytes_per_request", growth.fixed}};
}

Json to_json(Options const& options, Estimate const& estimate) {
  Json json = growth_json(estimate.whole);
  json["model"] = estimate.model.source;
  json["dtype"] = estimate.model.dtype;
  json["context"] = estimate.context;
  json["ranks"] = options.sharding.ranks();
  json["bytes_per_request_total"] = estimate.request_total;
  json["measured"] = estimate.measured;
  json["per_rank"] = growth_json(estimate.rank);
  json["per_rank"]["stage"] = estimate.stage.rank.stage;
  json["per_rank"]["plan"] = estimate.stage.plan;
  json["per_rank"]["capacity"] = estimate.capacity;
  json["per_rank"]["budget_steps"] = estimate.budget;
  json["per_rank"]["capacity_steps"] = estimate.capacity.trail;
  json["pool_bytes_total"] = estimate.pool_total;
  json["requests"] = estimate.capacity.requests;
  json["tokens"] = estimate.whole.is_uniform() ? Json(estimate.capacity.context_tokens) : Json(nullptr);
  json["longest_request_tokens"] = estimate.stage.longest;
  json["notes"] = estimate.model.notes;
  json["left_out"] = {"allocator fragmentation", "runtime metadata", "prefix sharing"};
  return json;
}

std::string described(kvbudget::Growth const& growth) {
  std::string text;
  auto const add = [&](std::string const& part) { text += (text.empty() ? "" : ", ") + part; };
  if (growth.growing != Bytes{})
    add(growth.per == Tokens{1} ? fmt::format("{:B} a token ({})", growth.growing, growth.growing) : fmt::format("{:B} every {}", growth.growing, growth.per));
  if (growth.windowed != Bytes{}) add(fmt::format("{:B} a token inside the window ({})", growth.windowed, growth.windowed));
  if (growth.fixed != Bytes{}) add(fmt::format("{:B} a request ({})", growth.fixed, growth.fixed));
  return text;
}

std::string ranks(Options const& options) { return kvbudget::write::counted(options.sharding.ranks(), "rank", "ranks"); }

std::string what_it_keeps(kvbudget::CacheGroup const& group) {
  switch (group.keeps) {
    case kvbudget::Keeps::everything:
      return "every token";
    case kvbudget::Keeps::window:
      return fmt::format("a window of {}", group.span);
    case kvbudget::Keeps::chunk:
      return fmt::format("a chunk of {}", group.span);
    case kvbudget::Keeps::fixed:
      return "a state";
  }
  return "";
}

/// KV heads of a model whose keys all have as many; 0 for any other.
std::uint32_t kv_heads(kvbudget::CacheSpec const& spec) {
  std::uint32_t heads = 0;
  for (auto const& layer : spec.layers.palette) {
    for (auto const& part : layer.parts) {
      if (part.kind == kvbudget::PartKind::latent) return 0;
      if (part.kind != kvbudget::PartKind::key) continue;
      if (heads != 0 && heads != part.heads) return 0;
      heads = part.heads;
    }
  }
  return heads;
}

/// What the estimate rests on, each with its effect in bytes.
void print_factors(Options const& options, Estimate const& estimate) {
  auto as_fp8 = estimate.model.spec;
  as_fp8.dtype = kvbudget::fp8;
  std::string const in_fp8 = estimate.model.spec.dtype == kvbudget::fp8 ? "" : "; in fp8, " + described(growth(as_fp8));
  fmt::print("\nwhat moves this estimate\n");
  if (auto const heads = kv_heads(estimate.model.spec); heads != 0 && estimate.model.attention_heads != 0) {
    Bytes const ungrouped{kvbudget::saturating_multiply((estimate.whole.growing + estimate.whole.windowed).count, estimate.model.attention_heads) / heads};
    fmt::print("  KV heads       {} for {} query heads; with a KV head each, {} a token\n", heads, estimate.model.attention_heads, ungrouped);
  }
  fmt::print("  cache dtype    {}{}\n", estimate.model.dtype, in_fp8);
  fmt::print("  sharding       {}; a request takes {} on the one that binds, {} on all\n", ranks(options), estimate.capacity.resident, estimate.request_total);
  fmt::print("  paging         a request of {} reserves {} more than it holds; the pool loses {} to whole blocks\n", estimate.context,
             estimate.capacity.reserved - estimate.capacity.resident, estimate.stage.plan.lost_in_pool());
  for (auto const& group : estimate.stage.plan.groups)
    if (group.group.keeps == kvbudget::Keeps::window)
      fmt::print("  window         of {}, and the {} a step computes of a request (--in-flight)\n", group.group.span, Tokens{options.in_flight});
  fmt::print("  left out       allocator fragmentation, the runtime's metadata, and prefix sharing, which lets more in\n");
  fmt::print("  confirm it     with the runtime's own accounting: --blocks N --block-size B from its log replace this estimate\n");
}

void print(Options const& options, Estimate const& estimate) {
  auto const& plan = estimate.stage.plan;
  fmt::print("{} ({}), cache dtype {}\n", options.config, estimate.model.source, estimate.model.dtype);
  for (auto const& note : estimate.model.notes) fmt::print("note: {}\n", note);
  fmt::print("the model     {}\none rank      {}\n\n", described(estimate.whole), described(estimate.rank));
  if (estimate.measured)
    fmt::print("per rank, as the server printed it\n");
  else
    fmt::print("per rank (tensor {} x pipeline {} x context {}; stage {} binds; weights split evenly)\n{}\n", options.sharding.tensor,
               options.sharding.pipeline, options.sharding.context, estimate.stage.rank.stage, estimate.budget);
  fmt::print("{}\n", estimate.capacity.trail);
  for (auto const& group : plan.groups)
    fmt::print("\nblocks of a request, in layers that keep {}\n{}\n", what_it_keeps(group.group), plan.explain(group, estimate.context));
  fmt::print("\nin total, {}\n", ranks(options));
  if (!estimate.measured) {
    fmt::print("{:<40}  {:.2GiB}\n", "device memory", kvbudget::read::bytes(options.memory, "--gpu-memory") * options.sharding.ranks());
    fmt::print("{:<40}  {:.2GiB}\n", "weights", estimate.weights * options.sharding.context);
  }
  fmt::print("{:<40}  {:.2GiB}\n", "bytes for the cache", estimate.pool_total);
  fmt::print("\n{}\n", estimate.capacity);
  if (estimate.stage.longest.saturated())
    fmt::print("longest request: any, the cache stops growing\n");
  else
    fmt::print("longest request that fits alone: {}\n", estimate.stage.longest);
  print_factors(options, estimate);
}

/// Whose own rules --runtime and --compare know.
std::vector<example::Runtime> runtimes() {
  return {example::vllm_runtime(), example::sglang_runtime(), example::tensorrt_llm_runtime(), example::llama_cpp_runtime()};
}

}  // namespace

int main(int argc, char** argv) {
  if (auto const runtime = example::runtime_named(argc, argv); !runtime.empty()) return example::runtime_main(runtimes(), runtime, argc, argv);
  if (example::has_word(argc, argv, "--compare")) return example::compare_main(runtimes(), argc, argv);
  CLI::App app{"How many blocks, tokens and requests a device holds for a model", "kvbudget_estimate"};
  Options options;
  auto const most = example::most_tokens;
  app.add_option("MODEL", options.config, "a Hugging Face config.json, a GGUF file, a folder with one, or a catalog name such as llama-3.1-8b")->required();
  auto* const memory = app.add_option("--gpu-memory", options.memory, "of one device, for example 80GiB");
  auto* const weights = app.add_option(
      "--weights", options.weights, "of the whole model, for example 16GiB; read from the GGUF file, or from model.safetensors.index.json beside the config");
  example::add_whole(app, "--context", options.context, 1, most, "tokens of one request; the model's context unless told");
  auto* const of_total = app.add_option("--of-total", options.of_total, "usable fraction of the memory (vLLM, SGLang); 1.0 unless told");
  auto* const of_free = app.add_option("--of-free", options.of_free, "usable fraction of what is free after the weights (TensorRT-LLM, LMDeploy)");
  auto* const activations = app.add_option("--activations", options.activations, "bytes a rank keeps for them")->capture_default_str();
  auto* const graphs = app.add_option("--graphs", options.graphs)->capture_default_str();
  auto* const adapters = app.add_option("--adapters", options.adapters)->capture_default_str();
  auto* const reserve = app.add_option("--reserve", options.reserve)->capture_default_str();
  example::add_whole(app, "--tp", options.sharding.tensor, 1, 65'535, "tensor-parallel ranks");
  example::add_whole(app, "--pp", options.sharding.pipeline, 1, 64, "pipeline stages");
  example::add_whole(app, "--cp", options.sharding.context, 1, 65'535, "context-parallel ranks, beside the others");
  example::add_whole(app, "--dcp", options.sharding.decode_context, 1, 65'535, "tensor ranks that share out the tokens (vLLM's decode context parallelism)");
  app.add_option("--dtype", options.dtype, "of the cache: bf16, fp8, q8_0, nvfp4 ...; the model's unless told");
  auto* const block = example::add_whole(app, "--block", options.block, 1, 1'048'576, "tokens of one block");
  example::add_whole(app, "--in-flight", options.in_flight, 1, most, "most tokens of a request one step computes; sliding windows keep them, too");
  example::add_whole(app, "--max-requests", options.max_requests, 1, most, "the runtime's limit on running requests");
  auto* const blocks = example::add_whole(app, "--blocks", options.blocks, 1, most, "blocks a running server printed, instead of the estimate");
  auto* const block_size = example::add_whole(app, "--block-size", options.block_size, 1, 1'048'576, "with --blocks: tokens of one block");
  for (auto* const estimated : {memory, weights, of_total, of_free, activations, graphs, adapters, reserve, block}) {
    blocks->excludes(estimated);
    block_size->excludes(estimated);
  }
  example::add_whole(app, "--require-requests", options.require_requests, 1, most, "exit 1 when fewer requests fit");
  app.add_flag("--speculative", options.speculative, "count the MTP or NextN blocks, too");
  app.add_flag("--json", options.json);

  return example::main_of(app, argc, argv, [&] {
    Estimate const estimate = estimate_of(options);
    if (options.json)
      std::cout << to_json(options, estimate).dump(2) << '\n';
    else
      print(options, estimate);
    if (estimate.capacity.requests >= options.require_requests) return 0;
    Bytes const needed = estimate.stage.plan.bytes_for(options.require_requests, estimate.context);
    fmt::print(stderr, "kvbudget_estimate: {} of {} fit, --require-requests {}; the cache would need {} a rank and has {}\n",
               kvbudget::write::counted(estimate.capacity.requests, "request", "requests"), estimate.context, options.require_requests, needed,
               estimate.stage.plan.pool);
    return 1;
  });
}
