#include "catch.hpp"
#include "gguf_writer.hpp"

#include <kvbudget/read/gguf_model.hpp>
#include <kvbudget/size/estimate.hpp>

#include <nlohmann/json.hpp>

#include <iostream>
#include <sstream>

using namespace kvbudget;
using namespace kvbudget::literals;

namespace {

read::Result<read::GgufFile> parse(std::string const& bytes) {
  return read::attempt([&] {
    std::istringstream in{bytes};
    return read::gguf(in, bytes.size(), "test.gguf");
  });
}
read::Result<read::GgufModel> model_of(GgufWriter const& writer) {
  return read::attempt([&] {
    std::string const bytes = writer.bytes();
    std::istringstream in{bytes};
    return read::gguf_model(read::gguf(in, bytes.size(), "test.gguf"), "test.gguf");
  });
}
std::string refused(std::string const& bytes) {
  auto const result = parse(bytes);
  REQUIRE_FALSE(result);
  REQUIRE_FALSE(result.refusal().next.empty());
  return result.refusal().message();
}

GgufWriter llama() {
  return GgufWriter{}
      .string("general.architecture", "llama")
      .u32("llama.block_count", 32)
      .u32("llama.embedding_length", 4'096)
      .u32("llama.context_length", 131'072)
      .u32("llama.attention.head_count", 32)
      .u32("llama.attention.head_count_kv", 8);
}

}  // namespace

TEST_CASE("every type of value is read, and the vocabulary is passed over") {
  auto writer = llama();
  writer.raw("a.u8", 0, "\xff")
      .raw("a.i8", 1, "\xff")
      .raw("a.u16", 2, "\xff\xff")
      .raw("a.i16", 3, "\xff\xff")
      .raw("a.i32", 5, GgufWriter::little(std::int32_t{-7}))
      .raw("a.f32", 6, std::string(4, '\0'));
  writer.raw("a.bool", 7, "\x01")
      .raw("a.u64", 10, GgufWriter::little(std::uint64_t{1} << 40))
      .raw("a.i64", 11, GgufWriter::little(std::int64_t{-1}))
      .raw("a.f64", 12, std::string(8, '\0'))
      .numbers("a.list", {1, -2, 3});
  writer.raw("tokenizer.ggml.tokens", 9,
             GgufWriter::little(std::int32_t{8}) + GgufWriter::little(std::uint64_t{2}) + GgufWriter::text("hello") + GgufWriter::text("world"));
  auto const file = parse(writer.bytes());
  REQUIRE(file);
  REQUIRE(file->values.at("a.u8").number == 255);
  REQUIRE(file->values.at("a.i8").number == -1);
  REQUIRE(file->values.at("a.u16").number == 65'535);
  REQUIRE(file->values.at("a.i16").number == -1);
  REQUIRE(file->values.at("a.i32").number == -7);
  REQUIRE(file->values.at("a.bool").number == 1);
  REQUIRE(file->values.at("a.u64").number == std::int64_t{1} << 40);
  REQUIRE(file->values.at("a.i64").number == -1);
  REQUIRE(file->values.at("a.list").numbers == std::vector<std::int64_t>{1, -2, 3});
  REQUIRE_FALSE(file->values.contains("tokenizer.ggml.tokens"));
  REQUIRE(file->keys == 18);
}

TEST_CASE("hostile lengths are refused before anything is allocated or read") {
  auto const all = ~std::uint64_t{0};
  REQUIRE(refused("").find("magic") != std::string::npos);
  REQUIRE(refused("GGML").find("magic") != std::string::npos);
  REQUIRE(refused("GGUF" + GgufWriter::little(std::uint32_t{1}) + std::string(16, '\0')).find("version is 1") != std::string::npos);
  REQUIRE(refused("GGUF" + GgufWriter::little(std::uint32_t{0x03000000}) + std::string(16, '\0')).find("big-endian") != std::string::npos);
  auto const header = [](std::uint64_t tensors, std::uint64_t keys) {
    return "GGUF" + GgufWriter::little(std::uint32_t{3}) + GgufWriter::little(tensors) + GgufWriter::little(keys);
  };
  for (auto const count : {all, std::uint64_t{1} << 62, std::uint64_t{1'000}}) {
    REQUIRE(refused(header(0, count)).find("n_kv") != std::string::npos);
    REQUIRE(refused(header(count, 0)).find("n_tensors") != std::string::npos);
  }
  auto const pair = [&](std::string const& bytes) { return header(0, 1) + bytes; };
  for (auto const length : {all, std::uint64_t{1} << 40, std::uint64_t{100}}) {
    REQUIRE_FALSE(parse(pair(GgufWriter::little(length) + "key")));
    REQUIRE_FALSE(parse(pair(GgufWriter::text("k") + GgufWriter::little(std::int32_t{8}) + GgufWriter::little(length) + "text")));
    for (std::int32_t const element : {0, 4, 7, 8, 12})
      REQUIRE_FALSE(
          parse(pair(GgufWriter::text("k") + GgufWriter::little(std::int32_t{9}) + GgufWriter::little(element) + GgufWriter::little(length) + "xxxx")));
  }
  REQUIRE_FALSE(parse(pair(GgufWriter::text("k") + GgufWriter::little(std::int32_t{9}) + GgufWriter::little(std::int32_t{9}) +
                           GgufWriter::little(std::uint64_t{0}))));  // nested arrays
  REQUIRE_FALSE(parse(pair(GgufWriter::text("k") + GgufWriter::little(std::int32_t{13}) + std::string(8, '\0'))));
  REQUIRE_FALSE(parse(pair(GgufWriter::text("") + GgufWriter::little(std::int32_t{4}) + std::string(4, '\0'))));
  REQUIRE(refused(GgufWriter{}.u32("k", 1).u32("k", 1).bytes()).find("there twice") != std::string::npos);
  REQUIRE(refused(GgufWriter{}.u32("general.alignment", 48).bytes()).find("power of two") != std::string::npos);
}

TEST_CASE("every cut of a good file is refused, or says less") {
  std::string const bytes = llama().tensor("blk.0.attn_k.weight", {4'096, 1'024}, 1, 0).bytes();
  REQUIRE(parse(bytes));
  for (std::size_t n = 0; n < bytes.size(); ++n) REQUIRE_FALSE(parse(bytes.substr(0, n)));
}

TEST_CASE("tensors are described, in place, once each, and without overflow") {
  auto const file = parse(llama().tensor("a", {256, 2}, 1, 0).tensor("b", {32}, 8, 1'024).bytes());
  REQUIRE(file);
  REQUIRE(file->tensor_bytes == 1'024 + 34);
  auto const refuses = [](GgufWriter const& writer, char const* why) { REQUIRE(refused(writer.bytes()).find(why) != std::string::npos); };
  refuses(llama().tensor("a", {32}, 1, 0).tensor("a", {32}, 1, 64), "there twice");
  refuses(llama().tensor("a", {32}, 1, 32), "offset 0");
  refuses(llama().tensor("a", {1, 1, 1, 1, 1}, 1, 0), "0 to 4");
  refuses(llama().tensor("a", {-1}, 1, 0), "negative");
  refuses(llama().tensor("a", {32}, 4, 0), "of type 4");
  refuses(llama().tensor("a", {32}, 43, 0), "of type 43");
  refuses(llama().tensor("a", {33}, 8, 0), "whole blocks");
  refuses(llama().tensor(std::string(64, 'x'), {32}, 1, 0), "at most 63");
  refuses(llama().tensor("a", {std::int64_t{1} << 40, std::int64_t{1} << 40}, 1, 0), "2^63");
}

TEST_CASE("a llama's keys become its cache") {
  auto const model = model_of(llama());
  REQUIRE(model);
  REQUIRE(growth(model->spec).growing == 131'072_B);
  REQUIRE(model->context == 131'072_tokens);
  REQUIRE(growth(model_of(llama().u32("llama.attention.key_length", 64).u32("llama.attention.value_length", 32))->spec).growing == 32 * 8 * 96 * 2_B);
}

TEST_CASE("windows, latents, states, shared tails and NextN blocks each become what they keep") {
  auto const of = [](std::string const& name, std::uint32_t blocks) {
    return GgufWriter{}
        .string("general.architecture", name)
        .u32(name + ".block_count", blocks)
        .u32(name + ".embedding_length", 1'024)
        .u32(name + ".context_length", 8'192);
  };
  auto const heads = [](GgufWriter writer, std::string const& name) {
    return writer.u32(name + ".attention.head_count", 8)
        .u32(name + ".attention.head_count_kv", 2)
        .u32(name + ".attention.key_length", 128)
        .u32(name + ".attention.value_length", 128);
  };
  auto const gemma = model_of(heads(of("gemma3", 12), "gemma3").u32("gemma3.attention.sliding_window", 1'024));
  REQUIRE(growth(gemma->spec).growing == 2 * 1'024_B);
  REQUIRE(growth(gemma->spec).windowed == 10 * 1'024_B);
  auto const mla = model_of(of("deepseek2", 4)
                                .u32("deepseek2.attention.head_count", 16)
                                .u32("deepseek2.attention.head_count_kv", 1)
                                .u32("deepseek2.attention.kv_lora_rank", 512)
                                .u32("deepseek2.attention.key_length", 576)
                                .u32("deepseek2.attention.value_length", 512)
                                .u32("deepseek2.attention.key_length_mla", 192)
                                .u32("deepseek2.attention.value_length_mla", 128)
                                .u32("deepseek2.nextn_predict_layers", 1));
  REQUIRE(mla->keeps_latents);
  REQUIRE(growth(mla->spec).growing == 3 * 576 * 2_B);
  REQUIRE(mla->draft_layers.size() == 1);
  auto const shared = model_of(heads(of("gemma4", 6), "gemma4")
                                   .u32("gemma4.attention.sliding_window", 512)
                                   .numbers("gemma4.attention.sliding_window_pattern", {1, 1, 0, 1, 1, 0})
                                   .u32("gemma4.attention.shared_kv_layers", 3));
  REQUIRE(growth(shared->spec).growing == 1'024_B);
  REQUIRE(growth(shared->spec).windowed == 2 * 1'024_B);
  auto const jamba = model_of(of("jamba", 4)
                                  .u32("jamba.attention.head_count", 8)
                                  .numbers("jamba.attention.head_count_kv", {0, 0, 2, 0})
                                  .u32("jamba.ssm.inner_size", 2'048)
                                  .u32("jamba.ssm.state_size", 16)
                                  .u32("jamba.ssm.conv_kernel", 4));
  REQUIRE(growth(jamba->spec).growing == 2 * 2 * 128 * 2_B);
  REQUIRE(growth(jamba->spec).fixed == 3 * Bytes{(3 * 2'048 + 16 * 2'048) * 4});
}

TEST_CASE("models that are not understood or not whole are refused by key") {
  auto const field = [](GgufWriter const& writer) {
    auto const model = model_of(writer);
    REQUIRE_FALSE(model);
    return model.refusal().field;
  };
  REQUIRE(field(GgufWriter{}) == "general.architecture");
  REQUIRE(field(GgufWriter{}.string("general.architecture", "unheard-of")) == "general.architecture");
  REQUIRE(field(GgufWriter{}.string("general.architecture", "llama").u32("llama.context_length", 8)) == "llama.block_count");
  auto const blocks = [](std::uint32_t n) {
    return GgufWriter{}.string("general.architecture", "llama").u32("llama.block_count", n).u32("llama.embedding_length", 64).u32("llama.context_length", 8);
  };
  REQUIRE(field(blocks(0)) == "llama.block_count");
  REQUIRE(field(blocks(513)) == "llama.block_count");
  REQUIRE(field(blocks(2).u32("llama.nextn_predict_layers", 2)) == "llama.block_count");
  REQUIRE(field(blocks(2).numbers("llama.attention.head_count_kv", {1, 2, 3})) == "llama.attention.head_count_kv");
  REQUIRE(field(blocks(2).numbers("llama.attention.head_count_kv", {1, -2})) == "llama.attention.head_count_kv");
  REQUIRE(field(blocks(2).string("llama.attention.head_count", "8")) == "llama.attention.head_count");
  REQUIRE(field(GgufWriter{}
                    .string("general.architecture", "gemma4")
                    .u32("gemma4.block_count", 2)
                    .u32("gemma4.embedding_length", 64)
                    .u32("gemma4.context_length", 8)
                    .u32("gemma4.attention.sliding_window", 4)) == "gemma4.attention.sliding_window_pattern");
  REQUIRE(model_of(blocks(2)));  // head_count 0: nothing is divided by it
  REQUIRE(field(blocks(2).u32("llama.attention.shared_kv_layers", 2)) == "llama.attention.shared_kv_layers");
  std::vector<std::int32_t> ragged;
  for (std::int32_t i = 1; i <= 32; ++i) ragged.push_back(i);
  REQUIRE(field(blocks(32).u32("llama.attention.key_length", 64).u32("llama.attention.head_count", 32).numbers("llama.attention.head_count_kv", ragged)) ==
          ".layers");  // more shapes than a spec holds
}

TEST_CASE("widths of 0 and several latents are counted as llama.cpp counts them") {
  auto const wide = [] {
    return GgufWriter{}
        .string("general.architecture", "llama")
        .u32("llama.block_count", 2)
        .u32("llama.embedding_length", 64)
        .u32("llama.context_length", 8)
        .u32("llama.attention.head_count", 4)
        .u32("llama.attention.key_length", 32);
  };
  REQUIRE(growth(model_of(wide().u32("llama.attention.value_length", 0))->spec).growing == 2 * 4 * 32 * 2_B);  // keys alone
  auto const latents = model_of(GgufWriter{}
                                    .string("general.architecture", "deepseek2")
                                    .u32("deepseek2.block_count", 1)
                                    .u32("deepseek2.embedding_length", 64)
                                    .u32("deepseek2.context_length", 8)
                                    .u32("deepseek2.attention.head_count", 4)
                                    .u32("deepseek2.attention.kv_lora_rank", 32)
                                    .u32("deepseek2.attention.key_length", 48)
                                    .u32("deepseek2.attention.value_length", 32)
                                    .u32("deepseek2.attention.key_length_mla", 24)
                                    .u32("deepseek2.attention.value_length_mla", 16));
  REQUIRE(growth(latents->spec).growing == 4 * 48 * 2_B);  // R8: x head_count_kv
}

TEST_CASE("what the caches of the shared GGUF models weigh is what llama.cpp allocates") {
  std::filesystem::path const shared{KVBUDGET_SHARED_DIR};
  if (!std::filesystem::exists(shared / "golden/llama_cpp_sizing.jsonl")) {
    std::cout << "not run: " << shared << " is not here\n";
    return;
  }
  // Its own paddings and known waste are profiles of the runtime (size/llama_cpp.hpp, later): DeepSeek-V4's 256-cell pads,
  // MiniMax-M3's useless V, and the dead NextN row of hybrids.
  auto const differs = [](std::string const& name) {
    return name == "deepseek-v4-like" || name == "minimax-m3-like" || (name.find("nextn-like") != std::string::npos);
  };
  std::ifstream lines{shared / "golden/llama_cpp_sizing.jsonl"};
  std::size_t compared = 0;
  for (std::string line; std::getline(lines, line);) {
    auto const run = nlohmann::json::parse(line);
    auto const& context = run["ctx"];
    std::string const name = run["model"];
    if (run.contains("error") || differs(name) || context["n_seq_max"] != 1 || context["type_k"] != "f16" || context["type_v"] != "f16" ||
        context["flash_attn"] != true || context["n_rs_seq"] != 0 || context["ctx_type"] != "default")
      continue;
    auto const model = read::gguf_model(shared / "gguf/models" / (name + ".gguf"));
    std::uint64_t attention = 0, states = 0, cells = 0;
    bool same = true;
    for (auto const& cache : run["caches"]) {
      if (cache["kind"] == "attn" && cache["layers"] != 0) {
        same = same && (cells == 0 || cells == cache["cells"]);
        cells = cache["cells"];
        attention += cache["k_bytes"].get<std::uint64_t>() + cache["v_bytes"].get<std::uint64_t>();
      } else if (cache["kind"] == "recurrent") {
        states += cache["r_bytes"].get<std::uint64_t>() + cache["s_bytes"].get<std::uint64_t>() + cache.value("p_bytes", std::uint64_t{0});
      }
    }
    if (!same) continue;
    INFO(run["id"]);
    Growth const growing = growth(model.spec);
    REQUIRE((growing.growing + growing.windowed) * cells == Bytes{attention});
    REQUIRE(growing.fixed == Bytes{states});
    ++compared;
  }
  REQUIRE(compared > 150);
}
