// libFuzzer: any bytes given as a GGUF file are read or refused; memory stays in proportion to the bytes.
#include <kvbudget/read/gguf_model.hpp>
#include <kvbudget/read/llama_cpp_model.hpp>
#include <kvbudget/size/estimate.hpp>
#include <kvbudget/write/llama_cpp.hpp>

#include <cstdlib>
#include <sstream>

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
  std::istringstream in{std::string{reinterpret_cast<char const*>(data), size}};
  auto const file = kvbudget::read::attempt([&] { return kvbudget::read::gguf(in, size, "fuzz"); });
  if (!file) return 0;
  if (file->keys > size || file->tensors > size) std::abort();
  auto const model = kvbudget::read::attempt([&] { return kvbudget::read::gguf_model(*file, "fuzz"); });
  if (!model && model.refusal().next.empty()) std::abort();
  if (model) (void)growth(model->spec);
  auto const facts = kvbudget::read::attempt([&] { return kvbudget::read::llama_cpp_model(*file, "fuzz"); });
  if (facts && log_lines(kvbudget::llama_cpp::plan(*facts, {.n_ctx = 0, .n_seq_max = 3, .n_rs_seq = 2})).empty() && !facts->no_memory) std::abort();
  return 0;
}
