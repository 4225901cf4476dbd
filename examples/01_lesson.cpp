// The lesson: what the KV cache costs, what it buys, and how both grow.
//
//   kvbudget_lesson [TOKENS] [--request N ...] [--layers 32 --kv-heads 8 --head-dim 128 --bytes 2]
#include "command_line.hpp"

#include <kvbudget/kvbudget.hpp>
#include <kvbudget/write/format.hpp>

#include <algorithm>
#include <vector>

namespace {

using kvbudget::Bytes;
using kvbudget::Tokens;
using kvbudget::write::grouped;

constexpr std::size_t bar_width = 40;

/// A bar as long as `tokens` are of `full`; anything that is not nothing shows.
std::string bar(Tokens tokens, Tokens full) {
  std::size_t const filled = std::min<std::size_t>(bar_width, kvbudget::ceil_div(tokens * bar_width, full));
  return "[" + std::string(filled, '#') + std::string(bar_width - filled, '.') + "]";
}

/// Positions that pass through the model to emit n tokens: with the cache each once; without it, all earlier ones each time.
constexpr std::uint64_t positions_with_cache(std::uint64_t n) { return n; }
constexpr std::uint64_t positions_without_cache(std::uint64_t n) { return n % 2 == 0 ? n / 2 * (n + 1) : (n + 1) / 2 * n; }
static_assert(positions_without_cache(100) == 5'050);

void print_formula(kvbudget::ModelSpec const& model, std::uint32_t bytes) {
  fmt::print("bytes = cached tokens x layers x 2 (key and value) x KV heads x head dim x bytes per element\n");
  fmt::print("one token: {} x 2 x {} x {} x {} = {} B = {}\n\n", model.layers, model.kv_heads, model.head_dim, bytes, grouped(bytes_per_token(model).count),
             bytes_per_token(model));
  fmt::print("assumption          value\nlayers              {}\nKV heads            {}\nhead dim            {}\nbytes per element   {}\n\n", model.layers,
             model.kv_heads, model.head_dim, bytes);
}

void print_results(kvbudget::ModelSpec const& model) {
  fmt::print("cached tokens        cache         relative\n");
  for (std::uint64_t const tokens : {100U, 1'000U, 8'000U})
    fmt::print("{:>13}   {:>12} {:>8.2f} GiB {:>5}x\n", grouped(tokens), fmt::format("{:.1MiB}", kv_bytes(model, Tokens{tokens})),
               static_cast<double>(kv_bytes(model, Tokens{tokens}).count) / (1 << 30), tokens / 100);
  fmt::print("eight requests of 8,000 tokens: {:.1GiB}, before allocator overhead and other runtime memory\n\n", 8 * kv_bytes(model, Tokens{8'000}));
}

void print_bars(kvbudget::ModelSpec const& model, std::uint64_t tokens, std::vector<std::uint64_t> const& requests) {
  Tokens full{std::max<std::uint64_t>(tokens, 8'000)};
  for (auto const request : requests) full = max(full, Tokens{request});
  fmt::print("a full bar is {}\n{} {} = {}\n\n", full, bar(Tokens{tokens}, full), Tokens{tokens}, kv_bytes(model, Tokens{tokens}));

  fmt::print("each active request keeps a cache of its own:\n");
  Bytes sum{};
  char name = 'A';
  for (auto const request : requests) {
    fmt::print("{} {} {} = {}\n", name, bar(Tokens{request}, full), Tokens{request}, kv_bytes(model, Tokens{request}));
    sum += kv_bytes(model, Tokens{request});
    name = name == 'Z' ? 'A' : static_cast<char>(name + 1);
  }
  fmt::print("together {}\n\n", sum);
}

void print_trade(kvbudget::ModelSpec const& model) {
  fmt::print("tokens emitted   positions with the cache   positions without it   memory it takes\n");
  for (std::uint64_t const n : {100U, 1'000U, 8'000U})
    fmt::print("{:>14}   {:>24}   {:>20}   {:>15}\n", grouped(n), grouped(positions_with_cache(n)), grouped(positions_without_cache(n)),
               fmt::format("{}", kv_bytes(model, Tokens{n})));
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"What the KV cache costs, and what it buys", "kvbudget_lesson"};
  std::uint64_t tokens = 8'000;
  std::vector<std::uint64_t> requests{100, 8'000};
  kvbudget::ModelSpec model{.layers = 32, .kv_heads = 8, .head_dim = 128};
  std::uint32_t bytes = 2;
  std::vector<std::string> given;
  example::add_whole(app, "TOKENS", tokens, 0, example::most_tokens, "cached tokens of the bar");
  app.add_option("--request", given, "cached tokens of a request, side by side with others; may be repeated")->allow_extra_args(false);
  example::add_whole(app, "--layers", model.layers, 1, 512, "");
  example::add_whole(app, "--kv-heads", model.kv_heads, 1, 1'024, "");
  example::add_whole(app, "--head-dim", model.head_dim, 1, 65'536, "");
  example::add_whole(app, "--bytes", bytes, 1, 16, "per element");

  return example::main_of(app, argc, argv, [&] {
    if (!given.empty()) requests.clear();
    for (auto const& text : given) requests.push_back(kvbudget::read::whole(text, "--request", 0, example::most_tokens));
    model.dtype = kvbudget::bytes_per_element(bytes);
    Tokens all{std::max<std::uint64_t>(tokens, 64'000)};
    for (auto const request : requests) all += Tokens{request};
    if (kv_bytes(model, all).saturated())
      throw kvbudget::read::Error{
          {"", "TOKENS", std::to_string(all.count), "a product of tokens and model below 2^64 bytes", "choose fewer tokens or a smaller model"}};
    print_formula(model, bytes);
    print_results(model);
    print_bars(model, tokens, requests);
    print_trade(model);
    return 0;
  });
}
