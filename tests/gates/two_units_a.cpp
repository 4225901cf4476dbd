// One of two translation units that include everything and link into one program.
#include <kvbudget/kvbudget.hpp>
#include <kvbudget/read/hf_config.hpp>
#include <kvbudget/write/format.hpp>
#include <kvbudget/write/json.hpp>

kvbudget::Bytes other_unit(kvbudget::ModelSpec const& model);

int main() {
  constexpr kvbudget::ModelSpec model{.layers = 32, .kv_heads = 8, .head_dim = 128, .dtype = kvbudget::bf16};
  return other_unit(model) == bytes_per_token(model) && fmt::format("{}", other_unit(model)) == "128 KiB" ? 0 : 1;
}
