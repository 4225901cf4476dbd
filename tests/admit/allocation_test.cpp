// The steady path allocates nothing: every allocation of this program is counted.
#include "catch.hpp"

#include <kvbudget/admit/controller.hpp>
#include <kvbudget/admit/future_peak.hpp>
#include <kvbudget/admit/output_lengths.hpp>
#include <kvbudget/sync/shared_controller.hpp>

#include <array>
#include <cstdlib>
#include <new>

namespace {
std::size_t allocations = 0;
}

void* operator new(std::size_t size) {
  ++allocations;
  if (void* memory = std::malloc(size)) return memory;
  std::abort();
}
void* operator new(std::size_t size, std::nothrow_t const&) noexcept {
  ++allocations;
  return std::malloc(size);
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

using namespace kvbudget;
using namespace kvbudget::literals;

namespace {

template <class Gate>
void submit_admit_grow_preempt_cancel_release() {
  Gate gate{{.capacity = 64_blocks, .headroom = 2_percent, .footprint = paged(16_tokens), .classes = 3, .max_live = 64}};
  std::array<typename Gate::Lease, 64> leases;
  std::size_t const before = allocations;
  std::uint64_t admitted = 0;
  for (std::uint64_t step = 0; step < 2'000; ++step) {
    gate.begin_step(step);
    for (auto& lease : leases) lease.grow(3_tokens);
    leases[step % 64].finish();
    leases[(step * 7) % 64].cancel();
    auto const verdict = gate.submit({.prompt = Tokens{1 + step % 200}, .max_new = 100_tokens, .request_class = step % 3});
    if (step % 5 == 0) gate.cancel(verdict.ticket);
    for (auto& place : leases) {
      if (!place.ended()) continue;
      auto lease = gate.admit_next();
      if (!lease) break;
      place = std::move(lease);
      ++admitted;
    }
  }
  std::size_t const after = allocations;
  REQUIRE(after == before);
  REQUIRE(admitted > 500);
  REQUIRE(gate.account(0).preempted > 10);
  { std::vector<int> const counted(3); }
  REQUIRE(allocations > after);  // the counter counts
}

}  // namespace

TEST_CASE("submit, admit, grow, preempt, cancel and release allocate nothing") { submit_admit_grow_preempt_cancel_release<AdmissionController<>>(); }

TEST_CASE("submit, admit, grow, preempt, cancel and release of a shared controller allocate nothing") {
  submit_admit_grow_preempt_cancel_release<SharedController<>>();
}

TEST_CASE("what is expected of outputs and of the future is kept without allocating") {
  FuturePeak future{paged(16_tokens), 64};
  OutputLengths lengths;
  std::size_t const before = allocations;
  Blocks most{};
  for (std::uint64_t i = 0; i < 10'000; ++i) {
    lengths.observe(Tokens{i % 700});
    most = max(most, future.peak_with({{.length = 100_tokens}, lengths.quantile(90_percent)})[0]);
    future.put(i % 100, {{.length = Tokens{i % 300}}, lengths.quantile_beyond(50_percent, Tokens{i % 500})});
    if (i % 3 == 0) future.advance();
    if (i % 7 == 0) future.remove(i % 64);
  }
  std::size_t const after = allocations;
  REQUIRE(after == before);
  REQUIRE(future.size() > 50);
  REQUIRE(most > future.peak()[0]);
}
