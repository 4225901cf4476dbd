// What reading a model costs: a config.json down to bytes per token, and the metadata of a GGUF file with a vocabulary of
// 150,000 tokens, of which nothing is kept.
#include "gguf_writer.hpp"

#include <kvbudget/read/gguf_model.hpp>
#include <kvbudget/read/hf_config.hpp>
#include <kvbudget/size/estimate.hpp>

#include <benchmark/benchmark.h>

#include <sstream>

using namespace kvbudget;

namespace {

std::string const config =
    R"({"architectures": ["LlamaForCausalLM"], "model_type": "llama", "num_hidden_layers": 32, "hidden_size": 4096, "intermediate_size": 14336, "num_attention_heads": 32,
  "num_key_value_heads": 8, "max_position_embeddings": 131072, "vocab_size": 128256, "rope_theta": 500000.0, "rms_norm_eps": 1e-05, "tie_word_embeddings": false, "torch_dtype": "bfloat16"})";

void config_to_bytes_per_token(benchmark::State& state) {
  for (auto _ : state) benchmark::DoNotOptimize(growth(read::hf_config(read::parse_json(config, ""), "").spec).growing);
}
BENCHMARK(config_to_bytes_per_token);

void parse_json_alone(benchmark::State& state) {
  for (auto _ : state) benchmark::DoNotOptimize(read::parse_json(config, ""));
}
BENCHMARK(parse_json_alone);

std::string vocabulary_file() {
  GgufWriter writer;
  writer.string("general.architecture", "llama")
      .u32("llama.block_count", 32)
      .u32("llama.embedding_length", 4'096)
      .u32("llama.context_length", 131'072)
      .u32("llama.attention.head_count", 32);
  std::string tokens = GgufWriter::little(std::int32_t{8}) + GgufWriter::little(std::uint64_t{150'000});
  for (int i = 0; i < 150'000; ++i) tokens += GgufWriter::text("token" + std::to_string(i));
  return writer.raw("tokenizer.ggml.tokens", 9, tokens).bytes();
}

void gguf_with_a_vocabulary(benchmark::State& state) {
  std::string const bytes = vocabulary_file();
  for (auto _ : state) {
    std::istringstream in{bytes};
    benchmark::DoNotOptimize(growth(read::gguf_model(read::gguf(in, bytes.size(), ""), "").spec).growing);
  }
  state.SetBytesProcessed(static_cast<std::int64_t>(state.iterations() * bytes.size()));
}
BENCHMARK(gguf_with_a_vocabulary);

}  // namespace
