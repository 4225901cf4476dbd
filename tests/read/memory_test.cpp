// What the readers allocate stays in proportion to what a file really contains, whatever it claims.
#include "catch.hpp"
#include "gguf_writer.hpp"

#include <kvbudget/read/gguf_model.hpp>
#include <kvbudget/read/hf_config.hpp>

#include <cstdlib>
#include <iostream>
#include <new>
#include <sstream>

namespace {
std::size_t live = 0, peak = 0;
constexpr std::size_t header = alignof(std::max_align_t);

void* counted(std::size_t size) {
  auto* const block = static_cast<char*>(std::malloc(size + header));
  if (!block) return nullptr;
  std::memcpy(block, &size, sizeof size);
  live += size;
  peak = std::max(peak, live);
  return block + header;
}
void uncounted(void* memory) {
  if (!memory) return;
  char* const block = static_cast<char*>(memory) - header;
  std::size_t size{};
  std::memcpy(&size, block, sizeof size);
  live -= size;
  std::free(block);
}
}  // namespace

void* operator new(std::size_t size) {
  if (void* memory = counted(size)) return memory;
  std::abort();
}
void* operator new(std::size_t size, std::nothrow_t const&) noexcept { return counted(size); }
void operator delete(void* memory) noexcept { uncounted(memory); }
void operator delete(void* memory, std::size_t) noexcept { uncounted(memory); }

using namespace kvbudget;

namespace {

template <class Run>
std::size_t peak_of(Run run) {
  std::size_t const before = live;
  peak = live;
  run();
  return peak - before;
}

std::string text(std::string const& of) { return GgufWriter::text(of); }
template <class Number>
std::string little(Number number) {
  return GgufWriter::little(number);
}
std::string gguf_header(std::uint64_t tensors, std::uint64_t keys) { return "GGUF" + little(std::uint32_t{3}) + little(tensors) + little(keys); }

std::size_t peak_of_gguf(std::string const& bytes) {
  std::istringstream in{bytes};
  return peak_of([&] { (void)read::attempt([&] { return read::gguf(in, bytes.size(), ""); }); });
}

}  // namespace

TEST_CASE("a GGUF file that claims gigabytes costs what it contains") {
  std::uint64_t const giga = std::uint64_t{1} << 30;
  std::string const key = text("k");
  for (auto const& bytes : {gguf_header(giga, giga), gguf_header(0, 1) + little(giga) + "k", gguf_header(0, 1) + key + little(std::int32_t{8}) + little(giga),
                            gguf_header(0, 1) + key + little(std::int32_t{9}) + little(std::int32_t{4}) + little(giga),
                            gguf_header(0, 1) + key + little(std::int32_t{9}) + little(std::int32_t{8}) + little(giga), gguf_header(1, 0) + little(giga) + "t"})
    REQUIRE(peak_of_gguf(bytes) < 64 * 1'024);
}

TEST_CASE("a vocabulary of 150,000 tokens is not kept in memory") {
  std::string bytes = gguf_header(0, 1) + text("tokenizer.ggml.tokens") + little(std::int32_t{9}) + little(std::int32_t{8}) + little(std::uint64_t{150'000});
  for (int i = 0; i < 150'000; ++i) bytes += text("token" + std::to_string(i));
  REQUIRE(bytes.size() > 2'000'000);
  REQUIRE(peak_of_gguf(bytes) < 64 * 1'024);
}

TEST_CASE("a config of megabytes takes memory in proportion") {
  read::Json config{{"model_type", "llama"}, {"num_hidden_layers", 32}, {"hidden_size", 4'096}, {"num_attention_heads", 32}, {"torch_dtype", "bfloat16"}};
  for (int i = 0; i < 20'000; ++i)
    config["quantization_config"]["modules"]["model.layers." + std::to_string(i) + ".mlp.experts.gate_proj"] = {
        {"num_bits", 4}, {"group_size", 16}, {"strategy", "tensor_group"}};
  std::string const text = config.dump();
  REQUIRE(text.size() > 1'900'000);
  REQUIRE(peak_of([&] { (void)read::hf_config(read::parse_json(text, ""), ""); }) < 12 * text.size());
}
