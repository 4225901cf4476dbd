// What a decision costs, beside baselines in the same run: compare the ratios, the machines are noisy.
#include "scenarios.hpp"

using namespace kvbudget;
using namespace kvbudget::literals;

namespace {

bool const registered = [] {
  scenarios::for_each_scenario([]<class Work>(scenarios::Scenario<Work> const& scenario) {
    benchmark::RegisterBenchmark(scenario.name, [](benchmark::State& state) {
      Work work;
      std::uint64_t i = 0;
      for (auto _ : state) work(i++);
    });
  });
  return true;
}();

void kv_bytes_of_a_hybrid(benchmark::State& state) {
  CacheSpec const gemma{
      .layers = cycle(62, {5 * sliding_window({.kv_heads = 16, .head_dim = 128}, 1'024_tokens), full_attention({.kv_heads = 16, .head_dim = 128})}),
      .dtype = bf16};
  std::uint64_t tokens = 0;
  for (auto _ : state) benchmark::DoNotOptimize(kv_bytes(gemma, Tokens{++tokens}));
}
BENCHMARK(kv_bytes_of_a_hybrid);

}  // namespace
