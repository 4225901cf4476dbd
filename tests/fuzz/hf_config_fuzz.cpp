// libFuzzer: any text given as a config.json is read or refused; never a crash, never 0 bytes for what is not understood.
#include <kvbudget/read/hf_config.hpp>
#include <kvbudget/size/estimate.hpp>

#include <cstdlib>

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
  std::string_view const text{reinterpret_cast<char const*>(data), size};
  auto const model = kvbudget::read::attempt([&] { return kvbudget::read::hf_config(kvbudget::read::parse_json(text, "fuzz"), "fuzz"); });
  if (!model) {
    if (model.refusal().message().find('\n') != std::string::npos || model.refusal().next.empty()) std::abort();
    return 0;
  }
  auto const bytes = kv_bytes(model->spec, kvbudget::Tokens{1});
  bool const keeps = model->attention.kv_heads != 0 && model->layers != 0;
  if (keeps && bytes == kvbudget::Bytes{} && growth(model->spec).windowed == kvbudget::Bytes{}) std::abort();
  return 0;
}
