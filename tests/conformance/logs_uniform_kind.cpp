// Kind logs-uniform LOGS.jsonl: public logs of models whose layers are all alike. The memory is an interval, of what prints so; a
// prediction is right where the printed number is reached for some value inside.
#include "kinds.hpp"

#include <kvbudget/size/other_runtimes.hpp>
#include <kvbudget/size/tensorrt_llm.hpp>
#include <kvbudget/write/format.hpp>

#include <algorithm>

namespace conformance {

namespace {

using namespace kvbudget;

std::set<std::string> const inputs{"id",
                                   "model",
                                   "version",
                                   "runtime",
                                   "kind",
                                   "layers",
                                   "kv_heads",
                                   "head_dim",
                                   "mla_bytes_per_token_per_layer",
                                   "elem_bytes",
                                   "tp",
                                   "pp",
                                   "dcp",
                                   "block",
                                   "url",
                                   "avail_lo_bytes",
                                   "avail_hi_bytes",
                                   "max_model_len",
                                   "kv_cache_dtype",
                                   "verdict"};
std::set<std::string> const figures{"printed_tokens",   "printed_blocks",           "printed_cpu_blocks",
                                    "pool_gib_printed", "bytes_per_token_per_rank", "printed_concurrency"};

struct Unpredictable {
  std::string why;
};

/// One row, as an engineer would state it.
struct Row {
  Json const& json;
  Case& one;
  bool listing{};                       // what is not predicted is printed
  std::uint64_t default_block{1};       // the runtime's own, where the row has none
  std::vector<std::string> compared{};  // fields

  std::string text(char const* field) const { return json.at(field).is_string() ? json.at(field).get<std::string>() : ""; }
  bool has(char const* field) const { return json.contains(field) && !json.at(field).is_null(); }
  std::uint64_t number(char const* field, std::uint64_t otherwise = 0) const { return has(field) ? json.at(field).get<std::uint64_t>() : otherwise; }
  std::uint32_t small(char const* field, std::uint32_t otherwise) const { return static_cast<std::uint32_t>(number(field, otherwise)); }
  bool is_of(std::string const& runtime) const { return text("runtime").compare(0, runtime.size(), runtime) == 0; }

  Tokens block() const { return {number("block", default_block)}; }
  bool knows_memory() const { return has("avail_lo_bytes") && has("avail_hi_bytes"); }
  Bytes least() const { return {number("avail_lo_bytes")}; }
  Bytes most() const { return {number("avail_hi_bytes")}; }

  void expect(std::string const& field, std::string const& expected, std::string const& got) {
    compared.push_back(field.substr(0, field.find('.')));
    one.compare(field, expected, got);
  }
  /// A number is compared as one: 28672.0 is 28672.
  void expect_number(std::string const& field, std::uint64_t got) {
    compared.push_back(field);
    one.compare(field, json.at(field), Json(got));
  }
  /// The printed count must be one of low to high, in steps of `step`.
  void expect_reached(char const* field, std::uint64_t low, std::uint64_t high, std::uint64_t step = 1) {
    if (!has(field)) return;
    std::uint64_t const printed = number(field);
    bool const reached = printed >= low && printed <= high && step != 0 && printed % step == 0;
    expect(field, std::to_string(printed), reached ? std::to_string(printed) : fmt::format("{} to {} in steps of {}", low, high, step));
  }
  void not_predicted(char const* field, char const* why) const {
    if (!listing || !has(field)) return;
    ++one.taken_as_given;
    std::printf("not predicted: %s: %s is %s: %s\n", text("id").c_str(), field, json.at(field).dump().c_str(), why);
  }
};

/// Bytes of an element, exact in binary: whole ones, and those of nvfp4 and of llama.cpp's block types.
DType dtype_of(Row const& row) {
  static constexpr std::pair<double, DType> types[]{{0.5, {.elements_per_group = 2, .bytes_per_group = 1}},
                                                    {0.5625, nvfp4},
                                                    {0.625, q4_1},
                                                    {0.6875, q5_0},
                                                    {0.75, q5_1},
                                                    {1, fp8},
                                                    {1.0625, q8_0},
                                                    {2, fp16},
                                                    {4, fp32}};
  double const bytes = row.has("elem_bytes") ? row.json.at("elem_bytes").get<double>() : 0;
  std::string accepted;
  for (auto const& [of_element, type] : types) {
    if (of_element == bytes) return type;
    accepted += fmt::format("{}{}", accepted.empty() ? "" : ", ", of_element);
  }
  throw Unpredictable{fmt::format("elem_bytes is {}; accepted: {}", bytes, accepted)};
}

/// The whole model: heads, or the bytes a latent takes.
CacheSpec model_of(Row const& row) {
  std::uint64_t const layers = row.number("layers");
  if (row.text("kind") == "gqa")
    return {.layers = layers * full_attention({.kv_heads = row.small("kv_heads", 0), .head_dim = row.small("head_dim", 0)}), .dtype = dtype_of(row)};
  if (row.text("kind") == "mla")
    return {.layers = layers * latent_attention({.latent = row.small("mla_bytes_per_token_per_layer", 0)}), .dtype = bytes_per_element(1)};
  throw Unpredictable{"kind is " + row.text("kind") + "; accepted: gqa, mla"};
}

/// J8: where nothing was allocated, a pipeline's check held the need of all layers against one rank's memory.
bool is_precheck(Row const& row) { return row.small("pp", 1) > 1 && !row.has("printed_tokens") && !row.has("printed_blocks"); }

Bytes token_bytes(CacheSpec const& rank) { return kv_bytes(rank, Tokens{1}); }

/// Of the stages the fullest: it binds.
CacheSpec rank_of(Row const& row) {
  Sharding const sharding{.tensor = row.small("tp", 1), .pipeline = is_precheck(row) ? 1 : row.small("pp", 1)};
  CacheSpec const model = model_of(row);
  if (auto const complaints = check(model, sharding); !complaints.empty()) throw Unpredictable{fmt::format("{}", complaints)};
  CacheSpec fullest = on_rank(model, sharding);
  for (std::uint32_t stage = 1; stage < sharding.pipeline; ++stage)
    if (CacheSpec const rank = on_rank(model, sharding, {.stage = stage}); token_bytes(rank) > token_bytes(fullest)) fullest = rank;
  return fullest;
}

struct Range {
  std::uint64_t low{};
  std::uint64_t high{};
};

/// vLLM for layers that are all alike (J1, J2): whole blocks in the memory. One place, for size/vllm.hpp to take over.
std::uint64_t vllm_blocks(CacheSpec const& rank, Bytes memory, Tokens block) { return plan(rank, memory, {.block = block}).blocks.count; }

/// J2: tokens over length; later blocks over the blocks of a request; J4: one block more where the layers slide.
std::vector<std::string> concurrencies(std::uint64_t blocks, Tokens block, Tokens length) {
  double const whole = static_cast<double>(blocks), of_request = static_cast<double>(blocks_for(length, block).count);
  double const tokens = whole * static_cast<double>(block.count) / static_cast<double>(length.count);
  return {fmt::format("{:.2f}", tokens), fmt::format("{:.2f}", whole / of_request), fmt::format("{:.2f}", whole / (of_request + 1))};
}

void expect_concurrency(Row& row, Tokens block) {
  if (!row.has("printed_concurrency")) return;
  if (!row.has("printed_tokens") && !row.has("printed_blocks")) return row.not_predicted("printed_concurrency", "neither tokens nor blocks are printed");
  Json const& printed = row.json.at("printed_concurrency");
  std::uint64_t const blocks = row.has("printed_blocks") ? row.number("printed_blocks") : floor_div(row.number("printed_tokens"), block.count);
  Tokens const length{printed.at("tokens_per_request").get<std::uint64_t>()};
  std::string const x = printed.at("x").is_number() ? fmt::format("{:.2f}", printed.at("x").get<double>()) : printed.at("x").get<std::string>();
  auto const predicted = concurrencies(blocks, block, length);
  bool const agrees = std::find(predicted.begin(), predicted.end(), x) != predicted.end();
  bool const of_a_roomier_rank = row.small("tp", 1) > 1 && std::stod(x) > std::stod(predicted[0]);
  if (!agrees && of_a_roomier_rank) return row.not_predicted("printed_concurrency", "another rank's line, of more memory than the row gives");
  row.expect("printed_concurrency", x, agrees ? x : predicted[0]);
}

/// J1: host blocks of the default swap space; where they are those of another whole number of GiB, the flag was given.
void expect_cpu_blocks(Row& row, CacheSpec const& rank) {
  auto const of_swap = [&](std::uint64_t gib) { return vllm_blocks(rank, Bytes{gib << 30}, row.block()); };
  for (std::uint64_t gib = 0; row.has("printed_cpu_blocks") && gib <= 64; ++gib)
    if (gib != 4 && row.number("printed_cpu_blocks") == of_swap(gib)) return row.not_predicted("printed_cpu_blocks", "another swap space was asked for");
  row.expect_reached("printed_cpu_blocks", of_swap(4), of_swap(4));
}

void expect_vllm(Row& row, CacheSpec const& rank) {
  Tokens const block = row.block() * row.number("dcp", 1);  // D11
  if (row.knows_memory()) {
    Range const blocks{vllm_blocks(rank, row.least(), row.block()), vllm_blocks(rank, row.most(), row.block())};
    row.expect_reached("printed_blocks", blocks.low, blocks.high);
    row.expect_reached("printed_tokens", blocks.low * block.count, blocks.high * block.count, block.count);
  } else {
    row.expect_reached("printed_tokens", 0, saturated_count, block.count);
    row.not_predicted("printed_blocks", "no memory is printed");
  }
  expect_cpu_blocks(row, rank);
  expect_concurrency(row, block);
}

/// A pool in GB as it prints: of binary gigabytes.
void expect_pool(Row& row, Bytes bytes, int decimals = 2) {
  if (!row.has("pool_gib_printed")) return;
  row.expect("pool_gib_printed", fmt::format("{:.{}f}", row.json.at("pool_gib_printed").get<double>(), decimals),
             fmt::format("{:.{}f}", static_cast<double>(bytes.count) / 0x1p30, decimals));
}

/// SGLang (R40, R61): the printed pool has a page more than its tokens; of heads it prints keys and values apart. For size/sglang.hpp
/// to take over.
void expect_sglang(Row& row, CacheSpec const& rank) {
  Bytes const token = token_bytes(rank);
  Tokens const rows = Tokens{row.number("printed_tokens")} + row.block();
  std::uint64_t const halves = row.text("kind") == "gqa" ? 2 : 1;
  expect_pool(row, Bytes{floor_div((token * rows.count).count, halves)});
  if (row.knows_memory())
    row.expect_reached("printed_tokens", round_down(Tokens{floor_div(row.least(), token)}, row.block()).count,
                       round_down(Tokens{floor_div(row.most(), token)}, row.block()).count, row.block().count);
  else
    row.not_predicted("printed_tokens", "no memory is printed; what is, are the bytes of the pool");
}

/// A18; where the memory is not printed, the tokens were asked for.
void expect_tensorrt_llm(Row& row, CacheSpec const& rank) {
  tensorrt_llm::Options options{.max_sequence_length = Tokens{row.number("max_model_len", 1)}, .tokens_per_block = row.block()};
  if (!row.knows_memory()) options.max_tokens = {row.number("printed_tokens")};
  Bytes const ample{std::uint64_t{1} << 50};
  auto const low = tensorrt_llm::plan(rank, row.knows_memory() ? row.least() : ample, options);
  auto const high = tensorrt_llm::plan(rank, row.knows_memory() ? row.most() : ample, options);
  if (low.refused()) throw Unpredictable{fmt::format("{}", low.complaints)};
  row.expect_reached("printed_blocks", low.blocks.count, high.blocks.count);
  row.expect_reached("printed_tokens", low.printed_tokens.count, high.printed_tokens.count, row.block().count);
  expect_pool(row, token_bytes(rank) * row.number("printed_tokens"));
}

void expect_lmdeploy(Row& row, CacheSpec const& rank) {
  Bytes const block = lmdeploy::block_bytes(token_bytes(rank), row.block());
  if (row.knows_memory())
    row.expect_reached("printed_blocks", floor_div(lmdeploy::cache_bytes(row.least()), block), floor_div(lmdeploy::cache_bytes(row.most()), block));
  else
    row.not_predicted("printed_blocks", "no memory is printed");
}

void expect_mlc(Row& row, CacheSpec const&) { row.not_predicted("printed_tokens", "the length was asked for, and no memory is printed"); }

void expect_tgi(Row& row, CacheSpec const& rank) {
  Bytes const block = token_bytes(rank) * row.block().count;
  if (row.knows_memory())
    row.expect_reached("printed_blocks", floor_div(row.least(), block), floor_div(row.most(), block));
  else
    row.not_predicted("printed_blocks", "no memory is printed");
}

/// Ollama's figure is the plain product, to one decimal.
void expect_ollama(Row& row, CacheSpec const& rank) { expect_pool(row, token_bytes(rank) * row.number("max_model_len"), 1); }

/// A token budget: whole tokens in the memory.
void expect_freetoken(Row& row, CacheSpec const& rank) {
  if (row.knows_memory()) row.expect_reached("printed_tokens", floor_div(row.least(), token_bytes(rank)), floor_div(row.most(), token_bytes(rank)));
}

/// A33, A35: a row's memory is what is left for the cache, so that nothing of the device is kept free any more.
void expect_xllm(Row& row, CacheSpec const& rank) {
  if (!row.knows_memory()) return row.not_predicted("printed_blocks", "no memory is printed");
  auto const blocks = [&](Bytes memory) { return blocks_in(Tokens{floor_div(xllm::cache_bytes(memory, {}), token_bytes(rank))}, row.block()).count; };
  row.expect_reached("printed_blocks", blocks(row.least()), blocks(row.most()));
  row.expect_reached("printed_tokens", blocks(row.least()) * row.block().count, blocks(row.most()) * row.block().count, row.block().count);
}
void expect_lightllm(Row& row, CacheSpec const& rank) {
  if (!row.knows_memory()) return row.not_predicted("printed_tokens", "no memory is printed");
  auto const tokens = [&](Bytes memory) { return lightllm::max_total_tokens(memory, {}, token_bytes(rank)).count; };
  row.expect_reached("printed_tokens", tokens(row.least()), tokens(row.most()));
}

struct Profile {
  char const* runtime;
  std::uint64_t block;  // of its own (vllm.md A14; other_runtimes.md A22, A25, A33)
  void (*expect)(Row&, CacheSpec const&);
};
constexpr Profile profiles[] = {{"vLLM", 16, expect_vllm},         {"SGLang", 1, expect_sglang},       {"TensorRT-LLM", 32, expect_tensorrt_llm},
                                {"LMDeploy", 64, expect_lmdeploy}, {"MLC-LLM", 16, expect_mlc},        {"TGI", 1, expect_tgi},
                                {"Ollama", 1, expect_ollama},      {"FreeToken", 1, expect_freetoken}, {"xLLM", 128, expect_xllm},
                                {"LightLLM", 1, expect_lightllm}};

void expect_all(Row& row) {
  for (auto const& item : row.json.items())
    if (!inputs.contains(item.key()) && !figures.contains(item.key())) row.one.wrong(item.key(), "a field that is not compared");
  if (std::string const verdict = row.text("verdict"); verdict.compare(0, 6, "agrees") != 0) throw Unpredictable{"the file itself says: " + verdict};
  for (auto const& profile : profiles) {
    if (!row.is_of(profile.runtime)) continue;
    CacheSpec const rank = rank_of(row);
    row.default_block = profile.block;
    profile.expect(row, rank);
    if (row.has("bytes_per_token_per_rank")) row.expect_number("bytes_per_token_per_rank", token_bytes(rank).count);
    return;
  }
  throw Unpredictable{"no rule for " + row.text("runtime")};
}

/// Changes one figure that is compared: each row another kind, where it has several.
void change(Json& json, std::vector<std::string> const& compared) {
  if (compared.empty()) return;
  Json& value = json.at(compared.size() > 1 ? compared[compared.size() - 2] : compared[0]);
  if (value.is_object())
    value["x"] = "0.01";
  else if (value.is_number_float())
    value = value.get<double>() + 1;
  else
    value = value.get<std::uint64_t>() + 100'000;
}

}  // namespace

Cases logs_uniform(Options const& options) {
  return each_file(options, [&](std::string const&, Json& json, Case& one) {
    one.name = json.at("id").get<std::string>();
    try {
      if (options.self_test) {
        Case unchanged{};
        Row row{json, unchanged};
        expect_all(row);
        change(json, row.compared);
      }
      Row row{json, one, !options.self_test};
      expect_all(row);
    } catch (Unpredictable const& reason) {
      one.refusal = reason.why;
    }
  });
}

}  // namespace conformance
