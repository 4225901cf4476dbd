// What reading a model costs: a config.json down to bytes per token, and the metadata of a GGUF file with a vocabulary of
// 150,000 tokens, of which nothing is kept.
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

template <class Number>
std::string little(Number number) {
  std::string bytes;
  for (std::size_t i = 0; i < sizeof number; ++i) bytes += static_cast<char>(static_cast<std::uint64_t>(number) >> (8 * i));
  return bytes;
}
std::string text(std::string const& of) { return little(std::uint64_t{of.size()}) + of; }

std::string vocabulary_file() {
  std::string bytes = "GGUF" + little(std::uint32_t{3}) + little(std::uint64_t{0}) + little(std::uint64_t{6}) + text("general.architecture") +
                      little(std::int32_t{8}) + text("llama");
  for (auto const& [key, value] : {std::pair{"block_count", 32U}, {"embedding_length", 4'096U}, {"context_length", 131'072U}, {"attention.head_count", 32U}})
    bytes += text(std::string{"llama."} + key) + little(std::int32_t{4}) + little(value);
  bytes += text("tokenizer.ggml.tokens") + little(std::int32_t{9}) + little(std::int32_t{8}) + little(std::uint64_t{150'000});
  for (int i = 0; i < 150'000; ++i) bytes += text("token" + std::to_string(i));
  return bytes;
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
