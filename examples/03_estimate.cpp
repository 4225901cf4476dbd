// The copy-paste capacity estimate: what a model's cache takes, what a device leaves for it, and what fits.
//
//   kvbudget_estimate config.json --gpu-memory 80GiB --weights 16GiB --context 8192 [--tp 2 --dtype fp8 --block 16 --json]
//   kvbudget_estimate config.json --context 8192 --blocks 27441 --block-size 16        the figure a running server printed
#include "command_line.hpp"

#include <kvbudget/kvbudget.hpp>
#include <kvbudget/read/amount.hpp>
#include <kvbudget/read/hf_config.hpp>
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
  std::string of_total, of_free, dtype = "auto";
  std::uint64_t context{}, block = 16, in_flight = 8'192, max_requests{}, blocks{}, block_size{}, require_requests{};
  kvbudget::Sharding sharding{};
  bool json{};
};

/// Everything the report says, computed once.
struct Estimate {
  kvbudget::read::HfModel model{};
  Tokens context{};
  std::string dtype{};
  Bytes weights{};
  bool measured{};                // blocks as a server printed them, not from memory
  kvbudget::Trail budget{};       // device memory to bytes for the cache, per rank
  kvbudget::StagePlan stage{};
  kvbudget::RequestCapacity capacity{};
  kvbudget::Growth whole{}, rank{};  // of the model, and of the rank that binds
  Bytes request_total{};          // one request on all ranks, replicas included
};

Error missing(char const* field, char const* accepted, char const* next) { return Error{{"", field, "missing", accepted, next}}; }

Bytes weights_of(Options const& options) {
  if (!options.weights.empty()) return kvbudget::read::bytes(options.weights, "--weights");
  if (auto const beside = kvbudget::read::weights_beside(options.config)) return *beside;
  throw missing("--weights", "the bytes of all weights, where no model.safetensors.index.json is beside the config", "add for example --weights 16GiB");
}

kvbudget::UsableFraction usable_of(Options const& options) {
  if (!options.of_total.empty() && !options.of_free.empty()) throw Error{{"", "--of-free", "given beside --of-total", "one of the two", "say what the runtime's fraction is a fraction of"}};
  if (!options.of_free.empty()) return kvbudget::of_free_after_weights(kvbudget::read::share(options.of_free, "--of-free"));
  return kvbudget::of_total(options.of_total.empty() ? kvbudget::Percent{100} : kvbudget::read::share(options.of_total, "--of-total"));
}

/// Bytes for the cache of one rank. Weights are taken as split evenly over tensor and pipeline ranks.
Bytes pool_of(Options const& options, Estimate& estimate) {
  if (options.memory.empty()) throw missing("--gpu-memory", "one device's memory", "add for example --gpu-memory 80GiB");
  estimate.weights = weights_of(options);
  kvbudget::DeviceBudget const device{.memory = kvbudget::read::bytes(options.memory, "--gpu-memory"),
                                      .usable = usable_of(options),
                                      .weights = kvbudget::part_up(estimate.weights, std::uint64_t{options.sharding.tensor} * options.sharding.pipeline),
                                      .activations = kvbudget::read::bytes(options.activations, "--activations"),
                                      .graphs = kvbudget::read::bytes(options.graphs, "--graphs"),
                                      .adapters = kvbudget::read::bytes(options.adapters, "--adapters"),
                                      .reserve = kvbudget::read::bytes(options.reserve, "--reserve")};
  example::require_good(check(device), "the device");
  return cache_bytes(device, estimate.budget);
}

/// The pool that so many printed blocks make. They mean the same to every runtime only where a block is of all layers.
Bytes measured_pool(Options const& options, kvbudget::CacheSpec const& rank) {
  if (options.blocks == 0 || options.block_size == 0) throw missing(options.blocks == 0 ? "--blocks" : "--block-size", "both --blocks and --block-size", "take the two from the server's log");
  if (kvbudget::growth(rank).windowed != Bytes{} || kvbudget::growth(rank).fixed != Bytes{})
    throw Error{{options.config, "--blocks", "given for a hybrid model", "a model whose layers all keep every token", "a hybrid's printed blocks depend on the runtime's layer groups; give --gpu-memory instead"}};
  return plan(rank, Bytes::max() - Bytes{1}, {.block = {options.block_size}}).bytes_per_block * options.blocks;
}

Estimate estimate_of(Options options) {
  Estimate estimate{.model = kvbudget::read::hf_config(std::filesystem::path{options.config})};
  auto& spec = estimate.model.spec;
  bool const declared = options.dtype == "auto" && estimate.model.checkpoint_kv_dtype;
  if (options.dtype != "auto")
    spec.dtype = kvbudget::read::dtype(options.dtype, "--dtype");
  else if (declared)
    spec.dtype = *estimate.model.checkpoint_kv_dtype;
  estimate.dtype = options.dtype != "auto" ? options.dtype : declared ? "fp8 (the checkpoint's kv_cache_scheme)" : estimate.model.dtype.empty() ? "2 bytes" : estimate.model.dtype;
  example::require_good(check(spec, options.sharding), "the model");
  if (options.context == 0 && !estimate.model.context) throw missing("--context", "the length of a request in tokens: the config does not say one", "add for example --context 8192");
  estimate.context = options.context != 0 ? Tokens{options.context} : *estimate.model.context;

  estimate.measured = options.blocks != 0 || options.block_size != 0;
  if (estimate.measured) options.block = options.block_size;
  Bytes const pool = estimate.measured ? measured_pool(options, on_rank(spec, options.sharding)) : pool_of(options, estimate);
  kvbudget::PlanOptions const plan{.block = {options.block}, .in_flight = {options.in_flight}, .max_requests = options.max_requests == 0 ? kvbudget::saturated_count : options.max_requests};
  example::require_good(check(spec, plan), "the plan");
  estimate.stage = plan_tightest(spec, options.sharding, pool, estimate.context, plan);
  estimate.capacity = estimate.stage.plan.at(estimate.context);
  estimate.whole = growth(spec);
  estimate.rank = growth(on_rank(spec, options.sharding, estimate.stage.rank));
  estimate.request_total = total_bytes(spec, options.sharding, estimate.context);
  return estimate;
}

Json growth_json(kvbudget::Growth const& growth) {
  return {{"bytes_per_token", growth.is_uniform() ? Json(growth.growing) : Json(nullptr)}, {"growing_bytes", growth.growing}, {"growing_per_tokens", growth.per},
          {"windowed_bytes_per_token", growth.windowed}, {"fixed_bytes_per_request", growth.fixed}};
}

Json to_json(Options const& options, Estimate const& estimate) {
  Json json = growth_json(estimate.whole);
  json["model_type"] = estimate.model.model_type;
  json["dtype"] = estimate.dtype;
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
  json["pool_bytes_total"] = estimate.stage.plan.pool * options.sharding.ranks();
  json["requests"] = estimate.capacity.requests;
  json["tokens"] = estimate.capacity.tokens;
  json["notes"] = estimate.model.notes;
  json["left_out"] = {"allocator fragmentation", "runtime metadata", "prefix sharing"};
  return json;
}

std::string described(kvbudget::Growth const& growth) {
  std::string text;
  auto const add = [&](std::string const& part) { text += (text.empty() ? "" : ", ") + part; };
  if (growth.growing != Bytes{}) add(growth.per == Tokens{1} ? fmt::format("{:B} a token ({})", growth.growing, growth.growing) : fmt::format("{:B} every {}", growth.growing, growth.per));
  if (growth.windowed != Bytes{}) add(fmt::format("{:B} a token inside the window ({})", growth.windowed, growth.windowed));
  if (growth.fixed != Bytes{}) add(fmt::format("{:B} a request ({})", growth.fixed, growth.fixed));
  return text;
}

std::string ranks(Options const& options) { return kvbudget::write::counted(options.sharding.ranks(), "rank", "ranks"); }

/// What the estimate rests on, each with its effect in bytes.
void print_factors(Options const& options, Estimate const& estimate) {
  auto const& first = estimate.model.spec.layers[0].parts[0];
  Bytes const ungrouped{kvbudget::saturating_multiply((estimate.whole.growing + estimate.whole.windowed).count, estimate.model.attention_heads) / first.heads};
  auto as_fp8 = estimate.model.spec;
  as_fp8.dtype = kvbudget::fp8;
  fmt::print("\nwhat moves this estimate\n");
  fmt::print("  KV heads       {} for {} query heads; with a KV head each, {} a token\n", first.heads, estimate.model.attention_heads, ungrouped);
  fmt::print("  cache dtype    {}; in fp8, {}\n", estimate.dtype, described(growth(as_fp8)));
  fmt::print("  sharding       {}; a request takes {} on the one that binds, {} on all\n", ranks(options), estimate.capacity.resident, estimate.request_total);
  fmt::print("  paging         blocks of {}; a request of {} reserves {} more than it holds\n", Tokens{estimate.stage.plan.options.block}, estimate.context, estimate.capacity.reserved - estimate.capacity.resident);
  for (auto const& group : estimate.stage.plan.groups)
    if (group.group.keeps == kvbudget::Keeps::window) fmt::print("  window         of {}, and the {} a step computes of a request (--in-flight)\n", group.group.span, Tokens{options.in_flight});
  fmt::print("  left out       allocator fragmentation, the runtime's metadata, and prefix sharing, which lets more in\n");
  fmt::print("  confirm it     with the runtime's own accounting: --blocks N --block-size B from its log replace this estimate\n");
}

void print(Options const& options, Estimate const& estimate) {
  auto const& plan = estimate.stage.plan;
  fmt::print("{} ({}), cache dtype {}\n", options.config, estimate.model.model_type, estimate.dtype);
  for (auto const& note : estimate.model.notes) fmt::print("note: {}\n", note);
  fmt::print("the model     {}\none rank      {}\n\n", described(estimate.whole), described(estimate.rank));
  if (estimate.measured)
    fmt::print("per rank, as the server printed it\n");
  else
    fmt::print("per rank (tensor {} x pipeline {} x context {}; stage {} binds; weights split evenly)\n{}\n", options.sharding.tensor, options.sharding.pipeline, options.sharding.context, estimate.stage.rank.stage, estimate.budget);
  fmt::print("{}\n\n", estimate.capacity.trail);
  fmt::print("in total, {}\n{:<40}  {:.2GiB}\n", ranks(options), "bytes for the cache", plan.pool * options.sharding.ranks());
  if (!estimate.measured) fmt::print("{:<40}  {:.2GiB}\n", "weights", estimate.weights * options.sharding.context);
  fmt::print("\n{}\n", estimate.capacity);
  if (plan.longest().saturated())
    fmt::print("longest request: any, the cache stops growing\n");
  else
    fmt::print("longest request that fits alone: {}\n", plan.longest());
  print_factors(options, estimate);
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"How many blocks, tokens and requests a device holds for a model", "kvbudget_estimate"};
  Options options;
  std::uint64_t const most = std::uint64_t{1} << 40;
  app.add_option("CONFIG", options.config, "a Hugging Face config.json")->required();
  app.add_option("--gpu-memory", options.memory, "of one device, for example 80GiB");
  app.add_option("--weights", options.weights, "of the whole model, for example 16GiB; read from model.safetensors.index.json where it is beside the config");
  app.add_option("--context", options.context, "tokens of one request; the model's context unless told")->check(CLI::Range(std::uint64_t{1}, most));
  app.add_option("--of-total", options.of_total, "usable fraction of the memory (vLLM, SGLang); 1.0 unless told");
  app.add_option("--of-free", options.of_free, "usable fraction of what is free after the weights (TensorRT-LLM, LMDeploy)");
  app.add_option("--activations", options.activations)->capture_default_str();
  app.add_option("--graphs", options.graphs)->capture_default_str();
  app.add_option("--adapters", options.adapters)->capture_default_str();
  app.add_option("--reserve", options.reserve)->capture_default_str();
  app.add_option("--tp", options.sharding.tensor, "tensor-parallel ranks")->check(CLI::Range(1, 65'535))->capture_default_str();
  app.add_option("--pp", options.sharding.pipeline, "pipeline stages")->check(CLI::Range(1, 64))->capture_default_str();
  app.add_option("--cp", options.sharding.context, "context-parallel ranks")->check(CLI::Range(1, 65'535))->capture_default_str();
  app.add_option("--dtype", options.dtype, "of the cache: bf16, fp8, q8_0, nvfp4 ...")->capture_default_str();
  app.add_option("--block", options.block, "tokens of one block")->check(CLI::Range(1, 1'048'576))->capture_default_str();
  app.add_option("--in-flight", options.in_flight, "most tokens of a request one step computes; sliding windows keep them, too")->check(CLI::Range(std::uint64_t{1}, most))->capture_default_str();
  app.add_option("--max-requests", options.max_requests, "the runtime's limit on running requests")->check(CLI::Range(std::uint64_t{1}, most));
  app.add_option("--blocks", options.blocks, "blocks a running server printed, instead of the estimate")->check(CLI::Range(std::uint64_t{1}, most));
  app.add_option("--block-size", options.block_size, "with --blocks: tokens of one block")->check(CLI::Range(1, 1'048'576));
  app.add_option("--require-requests", options.require_requests, "exit 1 when fewer requests fit");
  app.add_flag("--json", options.json);

  return example::main_of(app, argc, argv, [&] {
    Estimate const estimate = estimate_of(options);
    if (options.json)
      std::cout << to_json(options, estimate).dump(2) << '\n';
    else
      print(options, estimate);
    if (estimate.capacity.requests >= options.require_requests) return 0;
    fmt::print(stderr, "kvbudget_estimate: {} of {} fit, --require-requests {}\n", kvbudget::write::counted(estimate.capacity.requests, "request", "requests"), estimate.context, options.require_requests);
    return 1;
  });
}
