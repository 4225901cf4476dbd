// The lesson's numbers and the README's constants, in the form a user would write them; and what must not compile.
#include <kvbudget/admit/policies/plain.hpp>
#include <kvbudget/kvbudget.hpp>

namespace {

using namespace kvbudget::literals;
using kvbudget::Bytes;
using kvbudget::Tokens;

constexpr kvbudget::ModelSpec lesson{.layers = 32, .kv_heads = 8, .head_dim = 128, .dtype = kvbudget::bf16};
constexpr kvbudget::ModelSpec in_bytes{.layers = 32, .kv_heads = 8, .head_dim = 128, .dtype = kvbudget::bytes_per_element(2)};

static_assert(kvbudget::bytes_per_token(lesson) == 128_KiB && kvbudget::bytes_per_token(in_bytes) == 131'072_B);
static_assert(kvbudget::kv_bytes(lesson, 100_tokens) == 12'800_KiB);  // 12.5 MiB
static_assert(kvbudget::kv_bytes(lesson, 1'000_tokens) == 125_MiB);
static_assert(kvbudget::kv_bytes(lesson, 8'000_tokens) == 1'000_MiB);
static_assert(8 * kvbudget::kv_bytes(lesson, 8'000_tokens) == 8'000_MiB);

// A bad constant does not compile where it is used.
template <Bytes Constant>
struct Compiles;
template <auto Spec>
concept usable = requires {
  typename Compiles<kvbudget::bytes_per_token(Spec)>;
};
static_assert(usable<lesson>);
static_assert(!usable<kvbudget::ModelSpec{.layers = 32, .kv_heads = 8, .head_dim = 128}>, "no dtype");
static_assert(!usable<kvbudget::ModelSpec{.kv_heads = 8, .head_dim = 128, .dtype = kvbudget::bf16}>, "no layers");
static_assert(!usable<kvbudget::ModelSpec{.layers = 32, .kv_heads = 8, .head_dim = 80, .dtype = kvbudget::q8_0}>, "groups of 32 do not divide 80");

// So with everything else that is asked of it.
template <auto Quantity>
struct Constant;
template <auto Spec>
concept sized = requires {
  typename Constant<kvbudget::kv_bytes(Spec, Tokens{1})>;
};
template <auto Spec>
concept grown = requires {
  typename Constant<kvbudget::growth(Spec).growing>;
};
template <auto Spec>
concept fitted = requires {
  typename Constant<kvbudget::tokens_that_fit(Spec, Bytes{1})>;
};
template <auto Spec>
concept planned = requires {
  typename Constant<kvbudget::plan(Spec, Bytes{1}).blocks>;
};
template <auto Spec>
concept totalled = requires {
  typename Constant<kvbudget::total_bytes(Spec, {.tensor = 3}, Tokens{1})>;
};
template <auto Device>
concept budgeted = requires {
  typename Constant<kvbudget::cache_bytes(Device)>;
};
constexpr kvbudget::ModelSpec no_dtype{.layers = 32, .kv_heads = 8, .head_dim = 128};
static_assert(sized<lesson> && grown<lesson> && fitted<lesson> && planned<lesson>);
static_assert(!sized<no_dtype> && !grown<no_dtype> && !fitted<no_dtype> && !planned<no_dtype>);
static_assert(!totalled<lesson>, "8 heads on 3 ranks");
static_assert(budgeted<kvbudget::DeviceBudget{.memory = 80_GiB, .usable = kvbudget::of_total(kvbudget::Percent{90})}>);
static_assert(!budgeted<kvbudget::DeviceBudget{.memory = 80_GiB}>, "a fraction of what?");

// Units do not mix, and nothing divides without naming its rounding.
template <class A, class B>
concept adds = requires(A a, B b) {
  a + b;
};
template <class A, class B>
concept compares = requires(A a, B b) {
  a < b;
};
template <class A, class B>
concept divides = requires(A a, B b) {
  a / b;
};
static_assert(adds<Bytes, Bytes> && !adds<Bytes, Tokens> && !adds<Bytes, int> && !compares<Tokens, kvbudget::Blocks>);
static_assert(!divides<Bytes, Bytes> && !divides<Bytes, int>);

// bytes_per_token exists only where every layer is alike.
template <class Spec>
concept has_bytes_per_token = requires(Spec spec) {
  kvbudget::bytes_per_token(spec);
};
static_assert(has_bytes_per_token<kvbudget::ModelSpec> && !has_bytes_per_token<kvbudget::CacheSpec>);

// A controller is neither copied nor moved; a lease is moved.
using Gate = kvbudget::AdmissionController<>;
template <class T>
concept copies = requires(T const& t) {
  T{t};
};
template <class T>
concept moves = requires(T& t) {
  T{static_cast<T&&>(t)};
};
static_assert(!copies<Gate> && !moves<Gate> && !copies<Gate::Lease> && moves<Gate::Lease>);

// The parts are what the concepts say.
static_assert(kvbudget::AdmissionPolicy<kvbudget::policies::Plain> && !kvbudget::AdmissionPolicy<int>);
static_assert(kvbudget::BlockSource<kvbudget::Counter> && !kvbudget::BlockSource<int>);

}  // namespace
