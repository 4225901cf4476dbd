// The door builds without exceptions and without RTTI, and works.
#include <kvbudget/kvbudget.hpp>

int main() {
  using namespace kvbudget::literals;
  kvbudget::AdmissionController gate{{.capacity = 100_tokens}};
  bool const queued = gate.submit({.prompt = 60_tokens}).queued() && gate.submit({.prompt = 101_tokens}).rejected();
  auto const lease = gate.admit_next();
  constexpr kvbudget::ModelSpec model{.layers = 32, .kv_heads = 8, .head_dim = 128, .dtype = kvbudget::bf16};
  return queued && lease && plan(model, 64_GiB).at(8'192_tokens).requests == 64 ? 0 : 1;
}
