// GGUF files for tests and benchmarks.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

/// Writes GGUF byte by byte: good files, and parts of bad ones.
class GgufWriter {
 public:
  explicit GgufWriter(std::uint32_t version = 3) : version_{version} {}

  template <class Number>
  static std::string little(Number number) {
    std::string bytes;
    for (std::size_t i = 0; i < sizeof number; ++i) bytes += static_cast<char>(static_cast<std::uint64_t>(number) >> (8 * i));
    return bytes;
  }
  static std::string text(std::string const& of) { return little(std::uint64_t{of.size()}) + of; }
  GgufWriter& raw(std::string const& key, std::int32_t type, std::string const& value) {
    pairs_ += text(key) + little(type) + value;
    ++keys_;
    return *this;
  }
  GgufWriter& u32(std::string const& key, std::uint32_t value) { return raw(key, 4, little(value)); }
  GgufWriter& string(std::string const& key, std::string const& value) { return raw(key, 8, text(value)); }
  GgufWriter& numbers(std::string const& key, std::vector<std::int32_t> const& values) {
    std::string bytes = little(std::int32_t{5}) + little(std::uint64_t{values.size()});
    for (auto const value : values) bytes += little(value);
    return raw(key, 9, bytes);
  }
  GgufWriter& tensor(std::string const& name, std::vector<std::int64_t> const& dims, std::int32_t type, std::uint64_t offset) {
    tensors_ += text(name) + little(static_cast<std::uint32_t>(dims.size()));
    for (auto const dim : dims) tensors_ += little(dim);
    tensors_ += little(type) + little(offset);
    ++count_;
    return *this;
  }
  std::string bytes() const { return "GGUF" + little(version_) + little(count_) + little(keys_) + pairs_ + tensors_; }

 private:
  std::uint32_t version_;
  std::int64_t keys_ = 0, count_ = 0;
  std::string pairs_, tensors_;
};
