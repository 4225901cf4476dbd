// A user's program, built as a user would: see consumer.cmake.
#include <kvbudget/kvbudget.hpp>
#ifdef WITH_IO
#include <kvbudget/read/hf_config.hpp>
#include <kvbudget/write/format.hpp>
#endif

int main() {
  constexpr kvbudget::ModelSpec model{.layers = 32, .kv_heads = 8, .head_dim = 128, .dtype = kvbudget::bf16};
#ifdef WITH_IO
  if (fmt::format("{}", bytes_per_token(model)) != "128 KiB") return 1;
#endif
  return bytes_per_token(model).count == 131'072 ? 0 : 1;
}
