#include "catch.hpp"
#include "gguf_writer.hpp"

#include <kvbudget/read/llama_cpp_model.hpp>
#include <kvbudget/size/llama_cpp.hpp>

#include <sstream>

using namespace kvbudget;
using namespace kvbudget::literals;

namespace {

using Json = nlohmann::json;

/// Keys without their prefix, as a file of this architecture would have them.
llama_cpp::Model model_of(std::string const& architecture, Json const& keys) {
  Json all{{"general.architecture", architecture}};
  for (auto const& [key, value] : keys.items()) all[architecture + "." + key] = value;
  return read::llama_cpp_model(read::gguf_keys(all, "test"), "test");
}
Json keys(Json const& more, std::uint32_t blocks = 8) {
  Json all{{"block_count", blocks}, {"embedding_length", 1'024}, {"context_length", 4'096}, {"attention.head_count", 8}, {"attention.head_count_kv", 2}};
  all.update(more);
  return all;
}
std::vector<std::size_t> layers(llama_cpp::Model const& model, llama_cpp::Context context = llama_cpp::Context::main) {
  std::vector<std::size_t> counts;
  for (auto const& cache : llama_cpp::plan(model, {.swa_full = false, .context = context}).caches) counts.push_back(cache.layer_ids.size());
  return counts;
}
using Counts = std::vector<std::size_t>;

}  // namespace

TEST_CASE("a GGUF file and the JSON form of its keys give the same llama.cpp model") {
  auto writer = GgufWriter{}.string("general.architecture", "llama").u32("llama.block_count", 32).u32("llama.embedding_length", 4'096);
  writer.u32("llama.context_length", 131'072).u32("llama.attention.head_count", 32).u32("llama.attention.head_count_kv", 8);
  std::istringstream in{writer.bytes()};
  auto const from_file = read::llama_cpp_model(read::gguf(in, writer.bytes().size(), "test.gguf"), "test.gguf");
  auto const from_json = model_of(
      "llama", {{"block_count", 32}, {"embedding_length", 4'096}, {"context_length", 131'072}, {"attention.head_count", 32}, {"attention.head_count_kv", 8}});
  REQUIRE(llama_cpp::plan(from_file, {.n_ctx = 4'096}).pool == 512_MiB);
  REQUIRE(llama_cpp::plan(from_json, {.n_ctx = 4'096}).pool == 512_MiB);
}

TEST_CASE("NextN blocks stay out of a main context, and a draft context stores nothing else") {
  auto const glm = model_of("glm4moe", keys({{"nextn_predict_layers", 1}}));
  REQUIRE(layers(glm) == Counts{7});
  REQUIRE(layers(glm, llama_cpp::Context::mtp) == Counts{1});
  auto const qwen = model_of("qwen3next", keys({{"nextn_predict_layers", 1}, {"ssm.conv_kernel", 4}, {"ssm.inner_size", 64}, {"ssm.state_size", 16}}));
  REQUIRE(layers(qwen) == Counts{1, 6});
  REQUIRE(layers(qwen, llama_cpp::Context::mtp) == Counts{1});
}

TEST_CASE("a hybrid that finds its recurrent layers by their heads does not leave NextN blocks out") {
  auto const kimi = model_of("kimi-linear", keys({{"nextn_predict_layers", 1}, {"kda.head_dim", 128}, {"attention.head_count_kv", {0, 0, 0, 1, 0, 0, 0, 1}}}));
  REQUIRE(layers(kimi) == Counts{2, 6});
  REQUIRE(layers(kimi, llama_cpp::Context::mtp) == Counts{2, 6});
}

TEST_CASE("layers without heads are stored, and cost nothing, but for layers of no attention at all") {
  REQUIRE(layers(model_of("deci", keys({{"attention.head_count_kv", {2, 0, 2, 0, 2, 2, 2, 2}}}))) == Counts{8});
  auto const nemotron = model_of("nemotron_h", keys({{"attention.head_count_kv", {0, 0, 2, 0, 0, 2, 0, 0}},
                                                     {"feed_forward_length", {0, 64, 0, 64, 0, 0, 64, 0}},
                                                     {"ssm.conv_kernel", 4},
                                                     {"ssm.inner_size", 64},
                                                     {"ssm.state_size", 16}}));
  REQUIRE(layers(nemotron) == Counts{2, 3});
}

TEST_CASE("shared tails, loops and sliding layers are stored as llama.cpp stores them") {
  REQUIRE(layers(model_of(
              "gemma4",
              keys({{"attention.shared_kv_layers", 3}, {"attention.sliding_window", 512}, {"attention.sliding_window_pattern", {1, 1, 0, 1, 1, 0, 1, 1}}}))) ==
          Counts{1, 4});
  REQUIRE(layers(model_of("nanbeige", keys({{"num_loops", 2}}))) == Counts{16});
  REQUIRE(layers(model_of("graniteswitch", keys(Json::object()))) == Counts{9});
  REQUIRE(llama_cpp::plan(model_of("graniteswitch", keys(Json::object())), {}).pool == (8 * 2 + 1) * 2 * 128 * 2 * 512_B);
  REQUIRE(layers(model_of("gemma2", keys(Json::object()))) == Counts{4, 4});
  REQUIRE(layers(model_of("falcon-h1", keys({{"ssm.conv_kernel", 4}, {"ssm.inner_size", 64}, {"ssm.state_size", 16}}))) == Counts{8, 8});
}

TEST_CASE("an indexer has a cache of its own, with values where the model keeps no latents") {
  Json const latents{{"attention.key_length", 576},       {"attention.value_length", 512}, {"attention.key_length_mla", 192},
                     {"attention.value_length_mla", 128}, {"attention.head_count_kv", 1},  {"attention.indexer.key_length", 128}};
  Json types = latents;
  types["attention.indexer.types"] = {1, 0, 0, 0, 1, 0, 0, 0};
  REQUIRE(layers(model_of("deepseek32", keys(latents))) == Counts{8, 8});
  REQUIRE(layers(model_of("hy_v4", keys(types))) == Counts{8, 2});
  auto const msa = llama_cpp::plan(model_of("minimax-m3", keys({{"attention.indexer.key_length", 128}, {"leading_dense_block_count", 3}})), {});
  REQUIRE(msa.caches[1].layer_ids.size() == 5);
  REQUIRE(msa.caches[1].bytes(llama_cpp::TensorKind::v) == 5 * 512 * 128 * 2_B);
}

TEST_CASE("a DSA model without the lengths of MLA keeps values, its indexer's, too, and is still DSA") {
  Json const dsa{{"attention.indexer.key_length", 128}, {"attention.indexer.types", {1, 0, 0, 0, 1, 0, 0, 0}}};
  for (std::string const architecture : {"glm-dsa", "hy_v4"}) {
    auto const plan = llama_cpp::plan(model_of(architecture, keys(dsa)), {});
    REQUIRE(plan.layout == llama_cpp::Layout::indexed);
    REQUIRE(plan.caches[1].bytes(llama_cpp::TensorKind::k) == 2 * 512 * 128 * 2_B);
    REQUIRE(plan.caches[1].bytes(llama_cpp::TensorKind::v) == 2 * 512 * 128 * 2_B);
  }
  auto const all = llama_cpp::plan(model_of("glm-dsa", keys(dsa)), {.release = llama_cpp::before_pr_26474});
  REQUIRE(all.caches[1].layer_ids.size() == 8);
  auto const msa = llama_cpp::plan(model_of("minimax-m3", keys({{"attention.indexer.key_length", 128}, {"leading_dense_block_count", 3}})),
                                   {.release = llama_cpp::before_pr_26474});
  REQUIRE(msa.layout == llama_cpp::Layout::indexed_with_values);
  REQUIRE(msa.caches[1].layer_ids.size() == 5);
}

TEST_CASE("a draft context beside an indexer is one cache, whatever slides, and that of other windows is two") {
  Json const windows{{"nextn_predict_layers", 2}, {"attention.sliding_window", 512}, {"attention.sliding_window_pattern", {1, 1, 0, 1, 1, 0, 1, 0}}};
  Json indexed = windows;
  indexed.update({{"attention.indexer.key_length", 128}});
  auto const dots = model_of("dots3note", keys(indexed));
  REQUIRE(layers(dots) == Counts{2, 6, 4});
  REQUIRE(layers(dots, llama_cpp::Context::mtp) == Counts{2});
  REQUIRE(llama_cpp::plan(dots, {.n_ctx = 4'096, .swa_full = false, .context = llama_cpp::Context::mtp}).caches[0].cells == 4'096_tokens);
  REQUIRE(llama_cpp::plan(dots, {.context = llama_cpp::Context::mtp}).layout == llama_cpp::Layout::plain);
  REQUIRE(layers(model_of("step35", keys(windows)), llama_cpp::Context::mtp) == Counts{1, 1});
}

TEST_CASE("a draft context of a model without NextN blocks stores the model's own layers") {
  REQUIRE(layers(model_of("llama", keys(Json::object())), llama_cpp::Context::mtp) == Counts{8});
  Json const states{{"ssm.conv_kernel", 4}, {"ssm.inner_size", 64}, {"ssm.state_size", 16}};
  REQUIRE(layers(model_of("qwen3next", keys(states)), llama_cpp::Context::mtp) == Counts{8});
  REQUIRE(layers(model_of("deepseek32", keys({{"attention.indexer.key_length", 128}})), llama_cpp::Context::mtp) == Counts{8, 8});
}

TEST_CASE("a value of Kimi K3 is as wide as its latent, whatever the file says") {
  auto const kimi = model_of(
      "kimi-k3",
      keys({{"attention.value_length", 96}, {"attention.kv_lora_rank", 512}, {"kda.head_dim", 128}, {"attention.head_count_kv", {0, 0, 0, 1, 0, 0, 0, 1}}}));
  REQUIRE(kimi.layers[3].head_v == 512);
}

TEST_CASE("LFM2's attention layers slide where the file has a window, whatever pattern it has, NextN blocks too") {
  auto const lfm2 = model_of("lfm2", keys({{"attention.sliding_window", 512},
                                           {"attention.sliding_window_pattern", {0, 0, 0, 0, 0, 0, 0, 0}},
                                           {"attention.head_count_kv", {0, 0, 2, 0, 2, 0, 0, 2}},
                                           {"nextn_predict_layers", 1},
                                           {"shortconv.l_cache", 3}}));
  REQUIRE(layers(lfm2) == Counts{0, 3, 5});
}

TEST_CASE("the states of DeepSeek-V4's compressors are as wide as a full key, its entries as wide as a sliding one") {
  auto const v4 = model_of("deepseek4", keys({{"attention.sliding_window", 128},
                                              {"attention.head_count_kv", 1},
                                              {"attention.key_length", 512},
                                              {"attention.key_length_swa", 256},
                                              {"attention.value_length", 512},
                                              {"attention.sliding_window_pattern", {0, 0, 0, 0, 0, 0, 0, 0}},
                                              {"attention.compress_ratios", {4, 128, 4, 128, 4, 128, 4, 128}}}));
  auto const plan = llama_cpp::plan(v4, {});
  REQUIRE(plan.caches[1].tensors[0].elements == 256);
  REQUIRE(plan.caches[2].tensors[0].elements == 256);
  REQUIRE(plan.caches[5].width == 2 * 512);
  REQUIRE(plan.caches[6].width == 512);
}

TEST_CASE("a window of 0 tokens keeps those of a step, and a missing one is refused") {
  auto const zero = llama_cpp::plan(model_of("gpt-oss", keys({{"attention.sliding_window", 0}})), {.n_ctx = 4'096, .swa_full = false});
  REQUIRE(zero.caches.size() == 2);
  REQUIRE(zero.caches[1].cells == 512_tokens);
  REQUIRE(check(zero.footprint).empty());
  REQUIRE(layers(model_of("gemma3", keys({{"attention.sliding_window", 0}}))) == Counts{8});
  auto const refused = read::attempt([] { return model_of("gpt-oss", keys(Json::object())); });
  REQUIRE_FALSE(refused);
  REQUIRE(refused.refusal().field == "gpt-oss.attention.sliding_window");
}

TEST_CASE("snapshots for rollback are kept by the architectures that support them") {
  Json const states{{"ssm.conv_kernel", 4}, {"ssm.inner_size", 64}, {"ssm.state_size", 16}};
  llama_cpp::Options const options{.n_rs_seq = 3};
  REQUIRE(llama_cpp::plan(model_of("qwen35", keys(states)), options).caches[1].n_rs_seq == 3);
  REQUIRE(llama_cpp::plan(model_of("qwen3next", keys(states)), options).caches[1].n_rs_seq == 0);
}

TEST_CASE("Grok runs without flash attention, whatever is asked for") {
  auto const plan = llama_cpp::plan(model_of("grok", keys(Json::object())), {.type_v = llama_cpp::types::q8_0, .flash_attn = llama_cpp::FlashAttention::on});
  REQUIRE(plan.refused.why == llama_cpp::Refusal::v_needs_flash_attention);
}

TEST_CASE("a cache type the command line does not take is refused with those it takes") {
  REQUIRE(read::llama_cpp_cache_type("iq4_nl") == llama_cpp::types::iq4_nl);
  auto const refused = read::attempt([] { return read::llama_cpp_cache_type("q6_0", "--cache-type-k"); });
  REQUIRE_FALSE(refused);
  REQUIRE(refused.refusal().message().find("--cache-type-k is \"q6_0\"; accepted: f32, f16, bf16, q8_0, q4_0, q4_1, iq4_nl, q5_0, q5_1;") == 0);
}

TEST_CASE("keys that are no whole numbers, texts or lists of numbers are refused by name") {
  for (Json const& bad : {Json(1.5), Json(nullptr), Json::object(), Json({1, "x"}), Json(18'446'744'073'709'551'615ULL)}) {
    auto const refused = read::attempt([&] { return read::gguf_keys({{"llama.block_count", bad}}, "keys.json"); });
    REQUIRE_FALSE(refused);
    REQUIRE(refused.refusal().field == "llama.block_count");
  }
  auto const unknown = read::attempt([] { return model_of("no-such-arch", keys(Json::object())); });
  REQUIRE_FALSE(unknown);
  REQUIRE(unknown.refusal().field == "general.architecture");
}
