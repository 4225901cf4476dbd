// What a running server says it has, as a budget: the blocks of its pools and their tokens, or its tokens.
//
//   auto const found = read::measured(read::runtime_log("server.log"));
//   AdmissionController gate{{.capacity = found->usable(), .footprint = paged(found->block)}};      where it prints both
// "# GPU blocks: 27441" and "block_size: 16" are 27,441 blocks of 16 tokens; vLLM V1 never hands out one of its blocks (vllm.md D3).
// Of several ranks the least counts, since vLLM and SGLang take the minimum; of a server started again, the last start.
#pragma once

#include <kvbudget/core/rounding.hpp>
#include <kvbudget/read/runtime_log.hpp>

#include <set>

namespace kvbudget::inline v1::read {

struct MeasuredPool {
  Blocks blocks{};
  Tokens window{};  // of TensorRT-LLM's pools; 0: every token is kept
};

struct Measured {
  std::vector<MeasuredPool> pools{};  // the largest window first; empty where no blocks are printed
  Tokens block{};                     // tokens of a block; 0 where neither printed nor the only one that fits
  Blocks sentinels{};                 // blocks of pool 0 that are never handed out
  std::optional<Tokens> tokens{};     // as printed: of a hybrid, not a capacity (vllm.md D5)
  std::optional<Tokens> length{};     // of the requests that are spoken of

  bool in_blocks() const { return !pools.empty() && block != Tokens{}; }
  Blocks usable() const { return pools.empty() ? Blocks{} : pools[0].blocks - sentinels; }
};

namespace detail {

/// The least figure of the last start: back from the end, until a rank speaks again.
inline std::optional<Figure> settled(RuntimeLog const& log, Quantity quantity, std::string_view form = {}) {
  std::optional<Figure> least;
  std::set<std::string> ranks;
  for (auto line = log.lines.rbegin(); line != log.lines.rend(); ++line) {
    Figure const* const figure = line->find(quantity);
    if (!figure || (!form.empty() && line->form.substr(0, form.size()) != form)) continue;
    if (!ranks.insert(rank_of(line->process)).second) break;
    if (!least || figure->low < least->low) least = *figure;
  }
  return least;
}

/// J2: of an old vLLM's log, concurrency x length / blocks: the one power of two that prints so.
inline Tokens block_by_concurrency(RuntimeLog const& log, Blocks blocks) {
  auto const times = settled(log, Quantity::concurrency), length = settled(log, Quantity::concurrency_length);
  if (!times || !length || blocks == Blocks{}) return {};
  double const unit = static_cast<double>(length->low) / 1e6 / static_cast<double>(blocks.count);
  double const low = static_cast<double>(times->low) * unit, high = static_cast<double>(times->high) * unit;
  Tokens found{};
  for (std::uint64_t block = 1; block <= 1'024; block *= 2) {
    if (static_cast<double>(block) < low || static_cast<double>(block) > high) continue;
    if (found != Tokens{}) return {};
    found = {block};
  }
  return found;
}

/// A19: a pool for each window of TensorRT-LLM, the largest first.
inline std::vector<MeasuredPool> window_pools(RuntimeLog const& log) {
  std::vector<MeasuredPool> pools;
  for (auto const& line : log.lines) {
    Figure const* const window = line.find(Quantity::window);
    Figure const* const blocks = line.find(Quantity::blocks);
    if (!window || !blocks) continue;
    auto const known = std::find_if(pools.begin(), pools.end(), [&](auto const& pool) { return pool.window.count == window->low; });
    if (known != pools.end())
      known->blocks = {blocks->low};
    else
      pools.push_back({{blocks->low}, {window->low}});
  }
  std::sort(pools.begin(), pools.end(), [](auto const& a, auto const& b) { return a.window > b.window; });
  return pools;
}

/// R3: llama.cpp's cells: one pool of tokens, or a stream for each sequence.
inline std::optional<Measured> measured_cells(RuntimeLog const& log) {
  for (auto const& line : log.lines) {
    Figure const* const cells = line.find(Quantity::cells);
    Figure const* const sequences = line.find(Quantity::sequences);
    Figure const* const streams = line.find(Quantity::streams);
    if (!cells || !sequences || line.form.find("recurrent") != std::string_view::npos) continue;
    bool const apart = streams && streams->low > 1;
    if (apart)
      return Measured{.pools = {{.blocks = {sequences->low}}},
                      .block = {cells->low},
                      .tokens = Tokens{saturating_multiply(cells->low, streams->low)},
                      .length = Tokens{cells->low}};
    return Measured{.tokens = Tokens{cells->low}, .length = Tokens{cells->low}};
  }
  if (auto const n_ctx = log.last(Quantity::n_ctx)) return Measured{.tokens = Tokens{n_ctx->low}};
  return std::nullopt;
}

inline std::optional<Tokens> tokens_of(RuntimeLog const& log) {
  for (std::string_view const form : {"max_total_num_token", "DSV4 pool sizes", ""})
    if (auto const found = settled(log, Quantity::tokens, form)) return Tokens{found->low};
  if (auto const full = settled(log, Quantity::full_tokens)) return Tokens{full->low};
  return std::nullopt;
}

}  // namespace detail

/// What the log says the cache holds; nothing where it says neither blocks nor tokens.
inline std::optional<Measured> measured(RuntimeLog const& log) {
  Runtime const runtime = log.runtime();
  if (runtime == Runtime::llama_cpp || runtime == Runtime::ik_llama_cpp || runtime == Runtime::ollama) return detail::measured_cells(log);
  Measured found{.pools = detail::window_pools(log), .tokens = detail::tokens_of(log)};
  if (auto const blocks = detail::settled(log, Quantity::blocks); blocks && found.pools.empty()) found.pools.push_back({.blocks = {blocks->low}});
  if (auto const block = detail::settled(log, Quantity::block)) found.block = {block->low};
  if (found.block == Tokens{} && runtime == Runtime::vllm_v0 && !found.pools.empty()) found.block = detail::block_by_concurrency(log, found.pools[0].blocks);
  if (runtime == Runtime::vllm_v1) found.sentinels = Blocks{1};
  for (auto const quantity : {Quantity::concurrency_length, Quantity::max_length, Quantity::window})
    if (auto const length = detail::settled(log, quantity); length && !found.length) found.length = Tokens{length->low};
  if (found.pools.empty() && !found.tokens) return std::nullopt;
  return found;
}

}  // namespace kvbudget::inline v1::read
