// Most requests start, grow and end by short ways. They do what the long ones do: the same operations beside a controller that never takes
// one, as it counts adapters, of which nobody has any.
#include "gate.hpp"

#include <kvbudget/admit/policies/recommended.hpp>

#include <cstring>
#include <random>

using namespace kvbudget;
using namespace kvbudget::literals;

namespace {

struct Told {
  void on(Event const&) {}
};

AdmissionLimits with_adapters(AdmissionLimits limits) {
  limits.adapters = 1'000;
  return limits;
}

template <class Policy>
class Pair {
 public:
  explicit Pair(AdmissionLimits const& limits) : short_{limits}, long_{with_adapters(limits)} { REQUIRE(short_.complaints().empty()); }

  void submit(Request const& request) {
    Verdict const one = short_.submit(request), other = long_.submit(request);
    REQUIRE(one.reason == other.reason);
    REQUIRE(one.ticket == other.ticket);
    if (one.queued()) tickets_.push_back(one.ticket);
  }
  void admit() {
    auto one = short_.admit_next();
    auto other = long_.admit_next();
    REQUIRE(one.ticket() == other.ticket());
    REQUIRE(one.ended() == other.ended());
    if (one.ended()) return;
    of_short_.push_back(std::move(one));
    of_long_.push_back(std::move(other));
  }
  void grow(std::uint64_t pick, Tokens more) {
    if (of_short_.empty()) return;
    std::size_t const i = pick % of_short_.size();
    Verdict const one = of_short_[i].grow(more), other = of_long_[i].grow(more);
    REQUIRE(one.reason == other.reason);
    REQUIRE(of_short_[i].tokens() == of_long_[i].tokens());
  }
  void leave(std::uint64_t pick, bool completed) {
    if (of_short_.empty()) return;
    std::size_t const i = pick % of_short_.size();
    completed ? of_short_[i].finish() : of_short_[i].cancel();
    completed ? of_long_[i].finish() : of_long_[i].cancel();
  }
  void cancel(std::uint64_t pick) {
    if (tickets_.empty()) return;
    Ticket const ticket = tickets_[pick % tickets_.size()];
    REQUIRE(short_.cancel(ticket) == long_.cancel(ticket));
  }
  void found(std::uint64_t pick, Hits const& hits) {
    if (tickets_.empty()) return;
    Ticket const ticket = tickets_[pick % tickets_.size()];
    REQUIRE(short_.found(ticket, hits) == long_.found(ticket, hits));
  }
  void begin_step() {
    short_.begin_step(short_.now() + 1);
    long_.begin_step(long_.now() + 1);
  }
  void resize(Blocks capacity) { REQUIRE(short_.resize(capacity).empty() == long_.resize(capacity).empty()); }

  void compare() {
    for (std::size_t i = of_short_.size(); i-- > 0;) {
      REQUIRE(of_short_[i].ended() == of_long_[i].ended());
      if (!of_short_[i].ended()) continue;
      of_short_.erase(of_short_.begin() + static_cast<std::ptrdiff_t>(i));
      of_long_.erase(of_long_.begin() + static_cast<std::ptrdiff_t>(i));
    }
    REQUIRE(short_.balanced());
    REQUIRE(short_.pool().held == long_.pool().held);
    REQUIRE(short_.pool().supply == long_.pool().supply);
    REQUIRE(short_.next_step() == long_.next_step());
    for (std::uint32_t of = 0; of < short_.classes(); ++of) {
      REQUIRE(std::memcmp(&short_.account(of), &long_.account(of), sizeof(ClassAccount)) == 0);
      REQUIRE(short_.held(of) == long_.held(of));
    }
  }

 private:
  AdmissionController<Policy> short_;
  AdmissionController<Policy, Counter, Told> long_;
  std::vector<typename AdmissionController<Policy>::Lease> of_short_;
  std::vector<typename AdmissionController<Policy, Counter, Told>::Lease> of_long_;
  std::vector<Ticket> tickets_;
};

template <class Policy>
void same_ways(std::uint64_t seed) {
  std::mt19937_64 random{seed};
  auto const upto = [&](std::uint64_t n) { return random() % (n + 1); };
  Pair<Policy> pair{{.capacity = Blocks{8 + upto(40)},
                     .headroom = Blocks{upto(2)},
                     .footprint = paged(Tokens{1 + upto(4)}),
                     .classes = 2,
                     .max_live = 12,
                     .max_running = upto(1) == 0 ? saturated_count : 2 + upto(5),
                     .max_length = upto(2) == 0 ? Tokens{20 + upto(40)} : Tokens::max()}};
  for (int operation = 0; operation < 100; ++operation) {
    switch (upto(11)) {
      case 0:
      case 1:
      case 2:
        pair.submit({.prompt = Tokens{1 + upto(25)},
                     .max_new = Tokens{upto(20)},
                     .request_class = upto(1),
                     .branches = upto(7) == 0 ? 2U : 1U,
                     .lookahead = Tokens{upto(7) == 0 ? upto(4) : 0},
                     .arrives = upto(9) == 0});
        break;
      case 3:
      case 4:
      case 5:
        pair.admit();
        break;
      case 6:
      case 7:
      case 8:
        pair.grow(random(), Tokens{upto(5) == 0 ? upto(30) : upto(3)});
        break;
      case 9:
        upto(3) == 0 ? pair.cancel(random()) : pair.leave(random(), upto(2) != 0);
        break;
      case 10:
        upto(3) == 0 ? pair.found(random(), {.active = {upto(2)}, .idle = {upto(2)}}) : pair.begin_step();
        break;
      default:
        if (upto(3) == 0) pair.resize(Blocks{4 + upto(40)});
    }
    pair.compare();
  }
}

using Expecting = Parts<order::Arrival, need::PromptAndExpected, victim::LeastComputed>;
using AheadOfPeak = Parts<order::Arrival, need::FuturePeak>;
using ByParts = Parts<order::Arrival, need::FirstChunk>;

}  // namespace

TEST_CASE("short ways lead where the long ones lead") {
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    INFO("seed " << seed);
    same_ways<policies::Recommended>(seed);
    same_ways<ByArrival>(seed);
    same_ways<Expecting>(seed);
    same_ways<AheadOfPeak>(seed);
    same_ways<ByParts>(seed);
  }
}

TEST_CASE("a lease that starts with a part of its prompt takes blocks for all that it grows") {
  AdmissionController<ByParts> gate{{.capacity = 1'000_tokens, .chunk = 100_tokens}};
  gate.submit(ask(500, 400));
  auto lease = gate.admit_next();
  REQUIRE(gate.pool().held == 100_blocks);
  REQUIRE(lease.grow(300_tokens).admitted());
  REQUIRE(lease.tokens() == 800_tokens);
  REQUIRE(gate.pool().held == 800_blocks);
}
