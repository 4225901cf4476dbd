// What a decision costs, beside a plain counter in the same run: compare the ratios, the machines are noisy.
#include <kvbudget/kvbudget.hpp>

#include <benchmark/benchmark.h>

#include <vector>

using namespace kvbudget;
using namespace kvbudget::literals;

namespace {

void plain_counter(benchmark::State& state) {
  std::uint64_t free = 100'000;
  for (auto _ : state) {
    std::uint64_t const need = (1'000 + (free & 1) + 15) / 16;
    if (free >= need) free -= need;
    benchmark::DoNotOptimize(free);
    free += need;
  }
}
BENCHMARK(plain_counter);

void submit_admit_release(benchmark::State& state) {
  AdmissionController gate{{.capacity = 100'000_blocks, .headroom = 2_percent, .footprint = paged(16_tokens)}};
  for (auto _ : state) {
    gate.submit({.prompt = 1'000_tokens, .max_new = 100_tokens});
    auto lease = gate.admit_next();
    benchmark::DoNotOptimize(lease);
  }
}
BENCHMARK(submit_admit_release);

void grow_a_token(benchmark::State& state) {
  AdmissionController gate{{.capacity = 10'000'000'000_blocks, .footprint = paged(16_tokens)}};
  gate.submit({.prompt = 1'000_tokens, .max_new = 100'000'000'000_tokens});
  auto lease = gate.admit_next();
  for (auto _ : state) benchmark::DoNotOptimize(lease.grow(1_tokens));
}
BENCHMARK(grow_a_token);

void kv_bytes_of_a_hybrid(benchmark::State& state) {
  CacheSpec const gemma{
      .layers = cycle(62, {5 * sliding_window({.kv_heads = 16, .head_dim = 128}, 1'024_tokens), full_attention({.kv_heads = 16, .head_dim = 128})}),
      .dtype = bf16};
  std::uint64_t tokens = 0;
  for (auto _ : state) benchmark::DoNotOptimize(kv_bytes(gemma, Tokens{++tokens}));
}
BENCHMARK(kv_bytes_of_a_hybrid);

}  // namespace
