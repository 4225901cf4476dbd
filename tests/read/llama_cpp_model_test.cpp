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
