// What becomes of a request that gives way: what of its cache is left, what it needs to start again, and when it may give way again.
#include "gate.hpp"

#include <random>

using namespace kvbudget;
using namespace kvbudget::literals;

namespace {

using Gate = AdmissionController<ByArrival>;

ByArrival keeping(Keep keep) { return {.preemption = {.keep = keep}}; }
ByArrival regaining(Tokens regain) { return {.preemption = {.regain = regain}}; }

constexpr Ticket first{0, 0};

/// In 20 tokens two requests of 8 + 12, of which the second has given way: ten of its tokens are computed, and another is known.
template <class G>
Ticket preempted_at_ten(G& gate) {
  gate.submit(ask(8, 12, 1));
  auto const second = gate.submit(ask(8, 12, 2)).ticket;
  for (int i = 0; i < 3; ++i) REQUIRE(step(gate).preempt.empty());
  REQUIRE(tags(step(gate).preempt) == Tags{2});
  return second;
}

}  // namespace

TEST_CASE("a preempted request that keeps nothing computes everything again") {
  Gate gate{{.capacity = 20_tokens}};
  preempted_at_ten(gate);
  gate.finish(first);
  auto const plan = step(gate);
  REQUIRE(plan.admit[0].found == 0_tokens);
  REQUIRE(plan.admit[0].tokens == 11_tokens);
  REQUIRE(gate.account(0).recomputed_tokens == 10_tokens);
}

TEST_CASE("what a preempted request leaves as cache is there for it, less the blocks that others took of its end") {
  Gate gate{{.capacity = 20_tokens}, keeping(Keep::as_cache)};
  preempted_at_ten(gate);
  REQUIRE(gate.pool().supply.cached_idle == 9_blocks);  // the other one took one to grow
  for (int i = 0; i < 3; ++i) step(gate);
  REQUIRE(gate.pool().supply == Supply{.clean = 0_blocks, .cached_idle = 6_blocks});
  gate.finish(first);
  auto const plan = step(gate);
  REQUIRE(plan.admit[0].found == 6_tokens);
  REQUIRE(plan.admit[0].tokens == 5_tokens);
  REQUIRE(gate.account(0).evicted_blocks == 4_blocks);
  REQUIRE(gate.account(0).recomputed_tokens == 4_tokens);
  REQUIRE(gate.account(0).useful_tokens == 14_tokens + 11_tokens);
  REQUIRE(gate.pool().supply.cached_idle == 0_blocks);
}

TEST_CASE("of what several left as cache the blocks of who would start last are taken first") {
  Gate gate{{.capacity = 30_tokens}, keeping(Keep::as_cache)};
  for (std::uint64_t tag = 1; tag <= 3; ++tag) gate.submit(ask(8, 22, tag));
  for (int i = 0; i < 3; ++i) step(gate);  // ten each
  gate.generated(first, 11_tokens);
  REQUIRE(tags(step(gate).preempt) == Tags{3, 2});
  REQUIRE(gate.pool().supply.cached_idle == 8_blocks);
  gate.finish(first);
  auto const plan = step(gate);
  REQUIRE(tags(plan.admit) == Tags{2, 3});
  REQUIRE(plan.admit[0].found == 8_tokens);
  REQUIRE(plan.admit[1].found == 0_tokens);
}

TEST_CASE("where growth takes from the last one's cache, the first starts in the same plan with all of its own") {
  Gate gate{{.capacity = 140_tokens, .classes = 2, .class_limits = {{.tokens = 40_tokens}}}, keeping(Keep::as_cache)};
  auto const other = gate.submit(of_class(1, 77, 63, 1)).ticket, asker = gate.submit(ask(8, 32, 2)).ticket;
  gate.submit(ask(8, 12, 3));
  gate.submit(ask(8, 12, 4));
  for (int i = 0; i < 3; ++i) step(gate);  // 79, and three times 10
  gate.generated(asker, 29_tokens);
  REQUIRE(tags(step(gate).preempt) == Tags{4, 3});  // for the ceiling of their class: nobody takes their blocks
  gate.finish(asker);
  gate.generated(other, 40_tokens);
  auto const plan = step(gate);  // leaves 19 of the 20 blocks they left
  REQUIRE(tags(plan.admit) == Tags{3});
  REQUIRE(plan.admit[0].found == 10_tokens);
  REQUIRE(gate.account(0).evicted_blocks == 2_blocks);  // of the fourth, which has 8 left beside the third's 11
}

TEST_CASE("the end of what is left is lost by whole blocks") {
  Gate gate{{.capacity = 10_blocks, .footprint = paged(16_tokens)}, keeping(Keep::as_cache)};
  gate.submit(ask(64, 64, 1));
  gate.submit(ask(90, 10, 2));
  step(gate);
  auto const plan = step(gate);  // the first needs its fifth block, and takes one of six
  REQUIRE(tags(plan.preempt) == Tags{2});
  REQUIRE(gate.pool().supply.cached_idle == 5_blocks);
  gate.finish(first);
  REQUIRE(step(gate).admit[0].found == 80_tokens);
}

TEST_CASE("only what was computed is found again, also after a second preemption") {
  for (auto const keep : {Keep::as_cache, Keep::on_host}) {
    Gate gate{{.capacity = 40_tokens}, keeping(keep)};
    gate.submit(ask(2, 38, 1));
    auto const second = gate.submit(ask(5, 30, 2)).ticket;
    gate.submit(ask(20, 10, 3));
    step(gate);
    gate.generated(second, 19_tokens);
    REQUIRE(tags(step(gate).preempt) == Tags{3});  // 20 of 21 known tokens were computed
    gate.generated(second, 9_tokens);
    step(gate);
    gate.finish(second);
    Tokens const found = keep == Keep::on_host ? 20_tokens : 1_tokens;  // all but one block was taken
    auto plan = step(gate, {.chunk = 5_tokens});
    REQUIRE(plan.admit[0].found == found);
    Tokens const computed = found + plan.admit[0].tokens;
    gate.generated(first, 19_tokens);
    REQUIRE(tags(step(gate).preempt) == Tags{3});
    gate.finish(first);
    plan = step(gate);
    REQUIRE(plan.admit[0].found == computed);
    REQUIRE(plan.admit[0].tokens == gate.account(0).active_tokens - computed);
  }
}

TEST_CASE("of several branches what was generated last and not computed is not found") {
  Gate gate{{.capacity = 34_tokens}, keeping(Keep::on_host)};
  gate.submit(ask(3, 20, 1));
  gate.submit({.prompt = 10_tokens, .max_new = 8_tokens, .branches = 2, .tag = 2});
  for (int i = 0; i < 6; ++i) REQUIRE(step(gate).preempt.empty());  // 3 + 5, and 10 + 2 x 5
  while (step(gate).preempt.empty()) {
  }
  gate.finish(first);
  auto const plan = step(gate);
  REQUIRE(plan.admit[0].tokens == 1_tokens);
}

TEST_CASE("one that shared blocks of others leaves no cache, for they may go") {
  AdmissionController<Parts<>, Shared> gate{{.capacity = 20_tokens}, keeping(Keep::as_cache)};
  gate.submit(ask(8, 12, 1));
  gate.found(gate.submit(ask(12, 8, 2)).ticket, {.active = 4_blocks});
  while (step(gate).preempt.empty()) {
  }
  REQUIRE(gate.pool().supply.cached_idle == 0_blocks);
  gate.finish(first);
  REQUIRE(step(gate).admit[0].found == 0_tokens);
}

TEST_CASE("what is left as cache is known in every pool, also where the first holds nothing") {
  Gate gate{{.capacity = 5_blocks, .footprint = {.groups = {full_group(1_tokens, 1)}}, .more_pools = {{.capacity = 20_blocks}}}, keeping(Keep::as_cache)};
  preempted_at_ten(gate);
  REQUIRE(gate.pool(1).supply.cached_idle == 9_blocks);
  for (int i = 0; i < 8; ++i) step(gate);
  REQUIRE(gate.pool(1).supply.cached_idle == 1_blocks);
  gate.finish(first);
  REQUIRE(step(gate).admit[0].found == 1_tokens);
}

TEST_CASE("with steps in flight nothing is left as cache") {
  Gate gate{{.capacity = 20_tokens, .retires = true}, keeping(Keep::as_cache)};
  preempted_at_ten(gate);
  REQUIRE(gate.pool().supply == Supply{.in_flight = 10_blocks});
  gate.retire(gate.now());
  gate.finish(first);
  gate.retire(gate.now());
  REQUIRE(step(gate).admit[0].found == 0_tokens);
}

TEST_CASE("one that is cancelled while it waits leaves its cache to nobody, and its blocks are clean") {
  Gate gate{{.capacity = 20_tokens}, keeping(Keep::as_cache)};
  gate.cancel(preempted_at_ten(gate));
  REQUIRE(gate.pool().supply == Supply{.clean = 9_blocks});
  REQUIRE(gate.account(0).evicted_blocks == 1_blocks);
}

TEST_CASE("on the host nothing is lost, and what was computed is moved out and back") {
  Gate gate{{.capacity = 20_tokens}, keeping(Keep::on_host)};
  preempted_at_ten(gate);
  REQUIRE(gate.account(0).moved_blocks == 10_blocks);
  gate.finish(first);
  auto const plan = step(gate);
  REQUIRE(plan.admit[0].found == 10_tokens);
  REQUIRE(plan.admit[0].tokens == 1_tokens);
  REQUIRE(plan.admit[0].blocks[0] == 11_blocks);
  REQUIRE(gate.account(0).moved_blocks == 20_blocks);
  REQUIRE(gate.account(0).recomputed_tokens == 0_tokens);
  REQUIRE(gate.account(0).found_tokens == 0_tokens);
}

TEST_CASE("by leases, too, nothing of what was moved to the host is computed again") {
  Gate gate{{.capacity = 20_tokens}, keeping(Keep::on_host)};
  gate.submit(ask(8, 12, 1));
  gate.submit(ask(8, 12, 2));
  auto leases = admit_all(gate);
  leases[0].grow(6_tokens);
  REQUIRE(leases[1].ended());
  leases[0].finish();
  gate.begin_step(1);
  auto const lease = gate.admit_next();
  REQUIRE(gate.account(0).useful_tokens == 22_tokens);
  REQUIRE(gate.account(0).recomputed_tokens == 0_tokens);
  REQUIRE(gate.account(0).moved_blocks == 16_blocks);
}

TEST_CASE("a request that starts again needs, and holds, the room for what it must gain, up to its end") {
  for (std::uint64_t const regain : {1U, 5U, 100U}) {
    Gate gate{{.capacity = 20_tokens}, regaining(Tokens{regain})};
    auto const second = preempted_at_ten(gate);
    Blocks const needed{std::min<std::uint64_t>(11 + regain, 20)};
    REQUIRE(gate.why(second).needed == needed);
    gate.finish(first);
    step(gate);
    REQUIRE(gate.pool().held == needed);
  }
}

TEST_CASE("one that was preempted is no victim before it has generated a token, and then it is") {
  Gate gate{{.capacity = 20_tokens}, regaining(1_tokens)};
  gate.submit(ask(5, 15, 1));
  gate.submit(ask(10, 10, 2));
  auto leases = admit_all(gate);
  REQUIRE(leases[1].grow(1_tokens).admitted());
  REQUIRE(leases[0].grow(5_tokens).admitted());  // takes the second, which has generated one
  REQUIRE(leases[1].ended());
  leases[0].finish();
  gate.begin_step(1);
  leases.push_back(gate.admit_next());
  gate.submit(ask(8, 10, 3));
  leases.push_back(gate.admit_next());
  REQUIRE(leases[3].tag() == 3);
  REQUIRE(leases[3].grow(1_tokens).reason == Reason::preempted);  // the second has gained nothing: the asker gives way
  gate.begin_step(2);
  REQUIRE(leases[2].grow(1_tokens).reason == Reason::grown);
  leases.push_back(gate.admit_next());
}

TEST_CASE("a part of a prompt is no progress, so that one in the middle of its prompt is no victim") {
  AdmissionController<Smallest> gate{{.capacity = 22_tokens}, {.preemption = {.regain = 1_tokens}}};
  gate.submit(ask(10, 10, 1));
  gate.found(gate.submit(ask(12, 8, 2)).ticket, {.idle = 11_blocks});
  step(gate, {.chunk = 4_tokens});
  auto const plan = step(gate, {.chunk = 4_tokens});
  REQUIRE(tags(plan.preempt) == Tags{2});
  REQUIRE(tokens_of(plan, 1) == 4_tokens);
}

TEST_CASE("one that has just started is no victim before it holds a token of its own, so that the asker gives way") {
  for (auto const regain : {0_tokens, 1_tokens}) {
    Gate gate{{.capacity = 20_tokens}, regaining(regain)};
    gate.submit(ask(10, 10, 1));
    gate.submit(ask(10, 10, 2));
    step(gate);
    REQUIRE(tags(step(gate).preempt) == (regain == 0_tokens ? Tags{2} : Tags{1}));
  }
}

TEST_CASE("nobody is preempted twice without a token in between, whatever the load") {
  struct Served {
    Tokens known{}, computed{}, longest{}, at_preemption{};
  };
  std::mt19937_64 random{20'261'201};
  std::uint64_t preemptions = 0;
  for (int world = 0; world < 60; ++world) {
    AdmissionController<Smallest> gate{{.capacity = 60_tokens, .chunk = 7_tokens}, {.preemption = {.regain = Tokens{1 + random() % 3}}}};
    std::vector<Served> requests;
    for (std::uint64_t i = 0; i < 20; ++i) {
      auto const request = ask(1 + random() % 25, random() % 35, i);
      gate.submit(request);
      requests.push_back({.known = request.prompt, .longest = request.prompt + request.max_new});
    }
    auto const computes = [&](Planned const& one, Tokens from) {
      Served& its = requests[one.tag];
      its.computed = from + one.tokens;
      REQUIRE(its.computed <= its.known);
      if (its.computed == its.known && its.known < its.longest) its.known += 1_tokens;
    };
    while (!gate.drained()) {
      auto const plan = step(gate);
      for (auto const& one : plan.preempt) {
        Served& its = requests[one.tag];
        REQUIRE(its.known > its.at_preemption);
        its.at_preemption = its.known;
        ++preemptions;
      }
      for (auto const& one : plan.grow) computes(one, requests[one.tag].computed);
      for (auto const& one : plan.admit) computes(one, one.found);
      for (auto const* list : {&plan.grow, &plan.admit})
        for (auto const& one : *list)
          if (requests[one.tag].computed == requests[one.tag].longest) gate.finish(one.ticket());
      REQUIRE(gate.now() < 10'000);
    }
  }
  REQUIRE(preemptions > 100);
}

TEST_CASE("growth that one pool has no room for evicts nothing of another") {
  Supply one{.clean = 2_blocks, .cached_idle = 2_blocks}, other{.clean = 2_blocks};
  AdmissionController gate{
      {.capacity = 4_blocks, .footprint = {.groups = {full_group(1_tokens), full_group(1_tokens, 1)}}, .more_pools = {{.capacity = 2_blocks}}},
      ByArrival{},
      {BlockManager{&one}, BlockManager{&other}}};
  gate.submit(ask(1, 1, 1));
  gate.submit(ask(1, 1, 2));
  auto leases = admit_all(gate);
  leases[1].grow(1_tokens);
  REQUIRE(leases[1].ended());
  REQUIRE(one == Supply{.clean = 1_blocks, .cached_idle = 2_blocks});
}
