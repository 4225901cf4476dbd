// What a request that waits is told of its prompt's blocks in the cache. For each pool N blocks are needed, less the active hits; idle ones
// and those on the host save compute, not room.
#include "gate.hpp"

using namespace kvbudget;
using namespace kvbudget::literals;

namespace {

constexpr Tokens block{16};
constexpr AdmissionLimits ten_blocks{.capacity = 10_blocks, .footprint = paged(block)};
using Gate = AdmissionController<ByArrival, Shared>;

}  // namespace

TEST_CASE("the one equation: a start takes N less the active hits of clean and idle blocks, and computes what no hit saves") {
  for (std::uint64_t active = 0; active <= 5; ++active)
    for (std::uint64_t idle = 0; active + idle <= 5; ++idle)
      for (std::uint64_t host = 0; active + idle + host <= 5; ++host)
        for (std::uint64_t clean = 0; clean <= 10; ++clean) {
          CAPTURE(active, idle, host, clean);
          Supply supply{.clean = Blocks{clean}, .cached_idle = Blocks{idle}};
          AdmissionController gate{ten_blocks, ByArrival{}, {BlockManager{&supply}}};
          auto const ticket = gate.submit(ask(96)).ticket;
          REQUIRE(gate.found(ticket, {.active = {active}, .idle = {idle}, .host = {host}}));
          auto const plan = gate.plan();
          bool const fits = 6 - active <= clean + idle;
          REQUIRE(plan.admit.size() == (fits ? 1 : 0));
          REQUIRE(gate.why(ticket).needed == Blocks{6 - active});
          if (!fits) continue;
          REQUIRE(plan.admit[0].found == block * (active + idle + host));
          REQUIRE(plan.admit[0].tokens == 96_tokens - plan.admit[0].found);
          REQUIRE(gate.commit(plan));
          REQUIRE(supply.available() == Blocks{clean + idle - (6 - active)});
          REQUIRE(gate.account(0).found_tokens == plan.admit[0].found);
          REQUIRE(gate.account(0).useful_tokens == plan.admit[0].tokens);
        }
}

TEST_CASE("a full hit computes its last token all the same, in a block of its own") {
  struct Case {
    std::uint64_t prompt;
    Blocks needed;
    Tokens tokens;
  };
  for (auto const& [prompt, needed, tokens] :
       {Case{96, 1_blocks, 16_tokens}, Case{97, 1_blocks, 1_tokens}, Case{95, 1_blocks, 15_tokens}, Case{1, 1_blocks, 1_tokens}}) {
    Gate gate{ten_blocks};
    gate.found(gate.submit(ask(prompt)).ticket, {.active = 100_blocks});
    auto const plan = step(gate);
    REQUIRE(plan.admit[0].blocks[0] == needed);
    REQUIRE(plan.admit[0].tokens == tokens);
  }
}

TEST_CASE("of more hits than a prompt has those on the host go first, then idle ones") {
  Gate gate{ten_blocks};
  gate.found(gate.submit(ask(96)).ticket, {.active = 2_blocks, .idle = 2_blocks, .host = 2_blocks});
  auto const plan = step(gate);
  REQUIRE(plan.admit[0].found == 80_tokens);
  REQUIRE(plan.admit[0].blocks[0] == 4_blocks);
}

TEST_CASE("growth after hits takes only what is missing, block by block") {
  Gate gate{ten_blocks};
  gate.found(gate.submit(ask(97, 60)).ticket, {.active = 6_blocks});
  auto lease = gate.admit_next();
  for (std::uint64_t tokens = 97; tokens <= 157; ++tokens) {
    REQUIRE(lease.tokens() == Tokens{tokens});
    REQUIRE(gate.pool().held == blocks_for(Tokens{tokens}, block) - 6_blocks);
    if (tokens < 157) REQUIRE(lease.grow(1_tokens).reason == Reason::grown);
  }
}

TEST_CASE("the next token of one with hits is counted as it is taken") {
  AdmissionController<policies::Recommended, Shared> gate{ten_blocks};
  gate.found(gate.submit(ask(96, 60)).ticket, {.active = 4_blocks});
  auto lease = gate.admit_next();
  REQUIRE(gate.next_step() == 1_blocks);
  lease.grow(1_tokens);
  REQUIRE(gate.pool().held == 3_blocks);
  REQUIRE(gate.next_step() == 0_blocks);
}

TEST_CASE("hits are those that were told last, of a request that waits, and of a pool there is") {
  Gate gate{ten_blocks};
  auto const ticket = gate.submit(ask(97)).ticket;
  REQUIRE_FALSE(gate.found(ticket, {}, 1));
  REQUIRE_FALSE(gate.found(Ticket{}, {}));
  REQUIRE(gate.found(ticket, {.active = 6_blocks}));
  REQUIRE(gate.found(ticket, {.idle = 1_blocks}));
  auto const lease = gate.admit_next();
  REQUIRE(gate.pool().held == 7_blocks);
  REQUIRE(gate.account(0).found_tokens == 16_tokens);
  REQUIRE_FALSE(gate.found(ticket, {.active = 6_blocks}));
}

TEST_CASE("a preempted request asks for all of its blocks until it is told of hits again") {
  Gate gate{ten_blocks};
  gate.submit(ask(96, 60, 1));
  gate.found(gate.submit(ask(64, 60, 2)).ticket, {.active = 2_blocks});
  auto leases = admit_all(gate);
  REQUIRE(gate.pool().held == 8_blocks);
  leases[0].grow(40_tokens);
  REQUIRE(leases[1].ended());
  gate.begin_step(1);
  REQUIRE(gate.why(leases[1].ticket()).needed == 4_blocks);
  gate.found(leases[1].ticket(), {.active = 3_blocks});
  REQUIRE(gate.admit_next());
  REQUIRE(gate.account(0).found_tokens == 32_tokens);       // of its first start: the second is no news
  REQUIRE(gate.account(0).recomputed_tokens == 16_tokens);  // 48 of 64 were there
}

TEST_CASE("hits of one request are not those of the next in its slot, in any pool") {
  Gate gate{
      {.capacity = 10_blocks, .footprint = {.groups = {full_group(block), full_group(block, 1)}}, .more_pools = {{.capacity = 10_blocks}}, .max_live = 1}};
  auto const first = gate.submit(ask(96)).ticket;
  gate.found(first, {.active = 5_blocks}, 0);
  gate.found(first, {.active = 5_blocks}, 1);
  gate.cancel(first);
  auto const second = gate.submit(ask(96)).ticket;
  gate.found(second, {.active = 5_blocks}, 0);
  auto const lease = gate.admit_next();
  REQUIRE(gate.pool(0).held == 1_blocks);
  REQUIRE(gate.pool(1).held == 6_blocks);
}

TEST_CASE("in a pool of windows hits save compute and no room, for the window moves on to blocks of its own") {
  Gate gate{{.capacity = 20_blocks, .footprint = {.groups = {window_group(32_tokens, block)}, .in_flight = 16_tokens}}};
  gate.found(gate.submit(ask(160, 200)).ticket, {.active = 9_blocks});
  auto lease = gate.admit_next();
  Blocks const most = gate.pool().held;
  REQUIRE(most == 4_blocks);
  REQUIRE(gate.account(0).found_tokens == 144_tokens);
  lease.grow(200_tokens);
  REQUIRE(gate.pool().held == most);
}

TEST_CASE("where tokens are no measure of a pool its hits are nothing") {
  Gate gate{{.capacity = 10_blocks, .footprint = {.groups = {full_group(block), fixed_group(1_blocks)}}}};
  gate.found(gate.submit(ask(96)).ticket, {.active = 5_blocks});
  auto const lease = gate.admit_next();
  REQUIRE(gate.pool().held == 7_blocks);
  REQUIRE(gate.account(0).found_tokens == 0_tokens);
}

TEST_CASE("a plain number of blocks shares none of them: an active hit saves computing, not room") {
  AdmissionController<ByArrival> gate{{.capacity = 10_blocks, .footprint = paged(16_tokens)}};
  gate.submit(ask(96));
  auto first = gate.admit_next();
  gate.found(gate.submit(ask(96)).ticket, {.active = 5_blocks});
  REQUIRE_FALSE(gate.admit_next());
  first.finish();
  auto const second = gate.admit_next();
  REQUIRE(gate.pool().held == 6_blocks);
  REQUIRE(gate.account(0).found_tokens == 80_tokens);
}
