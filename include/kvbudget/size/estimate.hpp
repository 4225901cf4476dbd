// How many bytes of cache a sequence takes, exactly and before any block is rounded.
//
//   bytes = tokens x layers x 2 x KV heads x head dim x bytes per element
// for a model whose layers are all alike: 32 x 2 x 8 x 128 x 2 = 131'072 bytes a token, 1'000 MiB at 8'000 tokens. A hybrid
// has no such number: it has kv_bytes(spec, tokens), and its growth. All figures are of the spec given: for a rank's
// figure, give the rank's spec (model/sharding.hpp).
#pragma once

#include <kvbudget/model/sharding.hpp>

namespace kvbudget::inline v1 {

namespace detail {

constexpr Bytes resident_bytes(CacheSpec const& spec, Tokens tokens) {
  Bytes sum{};
  for (std::size_t i = 0; i < spec.layers.palette.size(); ++i) {
    Bytes layer{};
    for (auto const& part : spec.layers.palette[i].parts) layer += part.entry_bytes(spec.dtype) * part.entries_at(tokens);
    sum += layer * spec.layers.count_of(i);
  }
  return sum;
}

constexpr std::uint64_t greatest_common_divisor(std::uint64_t a, std::uint64_t b) {
  while (b != 0) {
    std::uint64_t const rest = a % b;
    a = b;
    b = rest;
  }
  return a;
}

constexpr std::uint64_t least_common_multiple(std::uint64_t a, std::uint64_t b) { return saturating_multiply(a / greatest_common_divisor(a, b), b); }

}  // namespace detail

/// Bytes that a sequence of `tokens` cached tokens holds. The maximum for a bad spec; a bad constant does not compile.
constexpr Bytes kv_bytes(CacheSpec const& spec, Tokens tokens) {
  if (!check(spec).empty()) return never_fits<Bytes>();
  return detail::resident_bytes(spec, tokens);
}

/// Bytes of one cached token. Only a model whose layers are all alike has this number.
constexpr Bytes bytes_per_token(ModelSpec const& spec) { return kv_bytes(spec, Tokens{1}); }

/// What a cache is made of: `growing` more bytes with every `per` tokens for ever, `windowed` bytes a token up to each
/// window, and `fixed` bytes per sequence whatever its length.
struct Growth {
  Bytes growing{};
  Tokens per{1};  // more than 1 where entries are compressed or shared by context ranks
  Bytes windowed{};
  Bytes fixed{};

  constexpr bool is_uniform() const { return windowed == Bytes{} && fixed == Bytes{} && per == Tokens{1}; }
};

/// The three parts of a cache's size, apart. DeepSeek-V4's entries of 4 and of 128 tokens give `per` 128.
constexpr Growth growth(CacheSpec const& spec) {
  if (!check(spec).empty()) return {.growing = never_fits<Bytes>(), .windowed = Bytes::max(), .fixed = Bytes::max()};
  Growth result{};
  for (auto const& layer : spec.layers.palette)
    for (auto const& part : layer.parts)
      if (part.keeps == Keeps::everything) result.per = {detail::least_common_multiple(result.per.count, part.tokens_per_entry)};
  for (std::size_t i = 0; i < spec.layers.palette.size(); ++i) {
    for (auto const& part : spec.layers.palette[i].parts) {
      Bytes const entries = part.entry_bytes(spec.dtype) * spec.layers.count_of(i);
      if (part.keeps == Keeps::everything)
        result.growing += entries * part.entries_at(result.per);
      else if (part.keeps == Keeps::fixed)
        result.fixed += entries * part.entries;
      else
        result.windowed += entries;
    }
  }
  return result;
}

/// The longest sequence whose cache is at most `budget` bytes: the maximum where the cache stops growing inside the budget.
constexpr Tokens tokens_that_fit(CacheSpec const& spec, Bytes budget) {
  if (!check(spec).empty()) return nothing_fits<Tokens>();
  Tokens low{0}, high{std::uint64_t{1} << 48};
  auto const fits = [&](Tokens tokens) {
    Bytes const need = detail::resident_bytes(spec, tokens);
    return need <= budget && !need.saturated();
  };
  if (fits(high)) return Tokens::max();
  if (!fits(low)) return {};
  while (low + Tokens{1} < high) {
    Tokens const middle{(low.count + high.count) / 2};
    (fits(middle) ? low : high) = middle;
  }
  return low;
}

/// Bytes of all ranks together, replicas included: what TP beyond the KV heads or a latent on every rank really costs.
constexpr Bytes total_bytes(CacheSpec const& spec, Sharding const& sharding, Tokens tokens) {
  if (!check(spec, sharding).empty()) return never_fits<Bytes>();
  Bytes sum{};
  for (std::uint32_t stage = 0; stage < sharding.pipeline; ++stage)
    sum += detail::resident_bytes(on_rank(spec, sharding, {stage}), tokens) * sharding.tensor * sharding.context;
  return sum;
}

}  // namespace kvbudget::inline v1
