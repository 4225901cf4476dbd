// The families of bugs that schedulers in the field had (facts: admission.md, section C): a test for each kind of line that admission can
// have, which fails when the fault is put back. The numbers behind a test are those lines.
//
// Not here, for they are not admission's: sizes (11, 22, 25, 26: size/), fleets and routers (31, 83), block tables, radix trees and pages (16, 36
// to 39, 41 to 47, 50 to 53, 70). C.8, isolation of cached prefixes, belongs to prefix sharing; here is what admission has of it: classes and
// tenants never share an account. That who waits preempts a lower priority that runs (92) is no feature.
#include "features/gate.hpp"

#include <kvbudget/admit/policies/guaranteed_no_evict.hpp>
#include <kvbudget/admit/policies/plain.hpp>

#include <functional>
#include <random>

using namespace kvbudget;
using namespace kvbudget::literals;

namespace {

using Gate = AdmissionController<ByArrival>;
using RecommendedGate = AdmissionController<policies::Recommended>;

constexpr Tokens block{16};
constexpr Ticket first{0, 0};

Request remote(std::uint64_t prompt, std::uint64_t max_new) { return {.prompt = {prompt}, .max_new = {max_new}, .arrives = true}; }

/// Serves what is queued to the end by plans: a request is complete when it has computed as many tokens as its tag says. A step is over when
/// the one after it begins. The steps it took.
template <class Gate>
std::uint64_t serve(Gate& gate, std::uint64_t most_steps, StepBudget const& budget = {}) {
  std::vector<std::uint64_t> length(1'000);
  for (std::uint64_t steps = 0;; ++steps) {
    if (gate.drained()) return steps;
    REQUIRE(steps < most_steps);
    if (gate.now() > 0) gate.retire(gate.now() - 1);
    auto const plan = step(gate, budget);
    for (auto const& one : plan.grow) length[one.ticket().slot] += one.tokens.count;
    for (auto const& one : plan.admit) length[one.ticket().slot] = (one.found + one.tokens).count;
    for (auto const* list : {&plan.grow, &plan.admit})
      for (auto const& one : *list)
        if (length[one.ticket().slot] == one.tag) REQUIRE(gate.finish(one.ticket()));
  }
}
Request served(std::uint64_t prompt, std::uint64_t max_new) { return ask(prompt, max_new, prompt + max_new); }

/// Nothing is left of anybody.
template <class Gate>
void is_empty(Gate& gate, Blocks capacity) {
  gate.retire(gate.now());
  REQUIRE(gate.drained());
  REQUIRE(gate.pool().supply == Supply{.clean = capacity});
  for (std::uint32_t i = 0; i < gate.classes(); ++i) {
    auto const& account = gate.account(i);
    REQUIRE(gate.held(i) == 0_blocks);
    REQUIRE(account.queued_requests + account.active_requests == 0);
    REQUIRE(account.queued_tokens + account.active_tokens + account.to_compute + account.tokens_held == 0_tokens);
  }
  REQUIRE(gate.next_step() == 0_blocks);
  REQUIRE(gate.balanced());
}

}  // namespace

// ---- C.1 double counting and over-admission ----

TEST_CASE("C.1: idle hits are not taken off the need and counted as free as well") {  // 1, 4, 5
  for (std::uint64_t idle = 0; idle <= 5; ++idle)
    for (bool const enough : {false, true}) {
      Supply supply{.clean = Blocks{6 - idle - (enough ? 0 : 1)}, .cached_idle = {idle}};
      AdmissionController gate{{.capacity = 100_blocks, .footprint = paged(block)}, ByArrival{}, {BlockManager{&supply}}};
      gate.found(gate.submit(ask(96)).ticket, {.idle = {idle}});
      REQUIRE(static_cast<bool>(gate.admit_next()) == enough);
    }
}

TEST_CASE("C.1: at an exact block boundary no block too many is credited") {  // 2
  for (std::uint64_t blocks = 1; blocks <= 8; ++blocks) {
    for (std::uint64_t const more : {0U, 1U}) {
      Supply supply{};
      AdmissionController gate{{.capacity = 100_blocks, .footprint = paged(block)}, ByArrival{}, {BlockManager{&supply}}};
      auto const ticket = gate.submit(ask(16 * blocks + more)).ticket;
      gate.found(ticket, {.active = {blocks}});
      REQUIRE_FALSE(gate.admit_next());
      REQUIRE(gate.why(ticket).needed == 1_blocks);
      supply.clean = 1_blocks;
      REQUIRE(gate.admit_next());
    }
  }
}

TEST_CASE("C.1: of whatever kind its hits are, a full hit computes its last token") {  // 2
  for (std::uint64_t blocks = 1; blocks <= 8; ++blocks)
    for (std::uint64_t const more : {0U, 1U})
      for (auto const& hits : {Hits{.active = {blocks}}, Hits{.idle = {blocks}}, Hits{.host = {blocks}}, Hits{.active = {1}, .idle = {blocks}}}) {
        Gate gate{{.capacity = 100_blocks, .footprint = paged(block)}};
        gate.found(gate.submit(ask(16 * blocks + more)).ticket, hits);
        REQUIRE(gate.plan().admit[0].tokens == (more == 0 ? block : 1_tokens));
      }
}

TEST_CASE("C.1: idle hits save tokens of the step, so that more start in it") {  // 3
  Gate gate{{.capacity = 100_blocks, .footprint = paged(block), .tokens_per_step = 100_tokens}};
  for (int i = 0; i < 7; ++i) gate.found(gate.submit(ask(96)).ticket, {.idle = 5_blocks});
  auto const plan = step(gate);
  REQUIRE(plan.admit.size() == 7);  // six compute 16 tokens, the last one the first 4 of its
  REQUIRE(plan.tokens() == 100_tokens);
}

TEST_CASE("C.1: a start takes what the gate asked for, to the block, for every shape") {  // 6, 7, 8, 9, 10
  for (auto const size : {1_tokens, 4_tokens, block})
    for (std::uint64_t prompt = 1; prompt <= 40; ++prompt)
      for (std::uint64_t const max_new : {0U, 1U, 30U})
        for (auto const lookahead : {0_tokens, 3_tokens})
          for (std::uint32_t const branches : {1U, 3U}) {
            Supply full{.clean = 1'000_blocks}, windows = full, states = full;
            AdmissionLimits const limits{
                .capacity = 1'000_blocks,
                .footprint = {.groups = {full_group(size), window_group(8_tokens, size, 1), fixed_group(1_blocks, 2)}, .in_flight = 8_tokens},
                .more_pools = {{.capacity = 1'000_blocks}, {.capacity = 1'000_blocks}}};
            AdmissionController gate{limits, ByArrival{}, {BlockManager{&full}, BlockManager{&windows}, BlockManager{&states}}};
            auto const ticket = gate.submit({.prompt = {prompt}, .max_new = {max_new}, .branches = branches, .lookahead = lookahead}).ticket;
            auto const asked = gate.plan().admit[0].blocks;
            Supply* const supplies[]{&full, &windows, &states};
            for (std::uint32_t pool = 0; pool < 3; ++pool) supplies[pool]->clean = asked[pool];
            for (std::uint32_t pool = 0; pool < 3; ++pool) {
              supplies[pool]->clean -= 1_blocks;
              REQUIRE_FALSE(gate.admit_next());
              REQUIRE(gate.why(ticket).reason == Reason::no_room);
              REQUIRE(gate.why(ticket).pool == pool);
              supplies[pool]->clean += 1_blocks;
            }
            auto const lease = gate.admit_next();
            REQUIRE(lease);
            for (auto const* supply : supplies) REQUIRE(supply->clean == 0_blocks);
          }
}

TEST_CASE("C.1: a window that is admitted has room for the blocks at both its ends in every step, whatever the chunk") {  // 8
  using Exact = Parts<order::Arrival, need::WholePrompt, victim::Newest, holds::Exactly>;
  for (auto const size : {1_tokens, 4_tokens, block})
    for (std::uint64_t chunk = 1; chunk <= 20; ++chunk)
      for (std::uint64_t prompt = 1; prompt <= 40; prompt += 3) {
        Footprint const footprint{.groups = {window_group(8_tokens, size)}, .in_flight = {chunk}};
        AdmissionController<Exact> gate{{.capacity = footprint.most(0, Tokens{prompt + 20}), .footprint = footprint, .chunk = {chunk}}};
        gate.submit(served(prompt, 20));
        serve(gate, 1'000);
        REQUIRE(gate.account(0).preempted == 0);
      }
}

TEST_CASE("C.1: every block of a pool can be held") {  // 11
  for (std::uint64_t capacity = 1; capacity <= 60; ++capacity) {
    Gate gate{{.capacity = Blocks{capacity}, .footprint = paged(block)}};
    for (std::uint64_t i = 0; i < capacity; ++i) gate.submit(ask(1 + i % 16));
    auto const leases = admit_all(gate);
    REQUIRE(gate.pool().supply == Supply{});
  }
}

TEST_CASE("C.1: no more of what others left as cache is destroyed than blocks are needed") {  // 12
  Gate gate{{.capacity = 40_tokens}, {.preemption = {.keep = Keep::as_cache}}};
  gate.submit(ask(15, 20, 1));
  gate.submit(ask(20, 20, 2));
  step(gate);
  gate.generated(first, 5_tokens);
  REQUIRE(tags(step(gate).preempt) == Tags{2});
  REQUIRE(gate.pool().supply == Supply{.clean = 0_blocks, .cached_idle = 19_blocks});  // 21 hold what the first has
  REQUIRE(gate.account(0).evicted_blocks == 1_blocks);
}

TEST_CASE("C.1: whichever pool is short, its blocks are found") {  // 13
  AdmissionLimits const limits{
      .capacity = 100_tokens, .footprint = {.groups = {full_group(), full_group(1_tokens, 1)}}, .more_pools = {{.capacity = 10_blocks}}};
  Gate gate{limits};
  gate.submit(ask(5, 5, 1));
  gate.submit(ask(5, 5, 2));
  auto leases = admit_all(gate);
  auto const verdict = leases[0].grow(1_tokens);
  REQUIRE(verdict.admitted());
  REQUIRE(verdict.pool == 1);
  REQUIRE(leases[1].ended());
}

TEST_CASE("C.1: no more requests are preempted than it takes") {  // 15
  for (std::uint64_t more = 1; more <= 8; ++more) {
    Gate gate{{.capacity = 20_tokens}};
    gate.submit(ask(12, 8, 1));
    for (std::uint64_t tag = 2; tag <= 5; ++tag) gate.submit(ask(2, 8, tag));
    auto leases = admit_all(gate);
    REQUIRE(leases[0].grow(Tokens{more}).admitted());
    REQUIRE(gate.account(0).preempted == (more + 1) / 2);
  }
}

TEST_CASE("C.1: long prompts do not start on a first chunk and evict each other") {  // 17
  auto const recomputed = [](auto policy) {
    AdmissionController<decltype(policy)> gate{{.capacity = 100_tokens, .chunk = 10_tokens}, policy};
    for (int i = 0; i < 6; ++i) gate.submit(served(70, 5));
    serve(gate, 10'000);
    return gate.account(0).recomputed_tokens;
  };
  REQUIRE(recomputed(policies::Recommended{}) == 0_tokens);
  REQUIRE(recomputed(ByArrival{}) == 0_tokens);
  REQUIRE(recomputed(Parts<order::Arrival, need::FirstChunk>{}) > 0_tokens);  // what that costs
}

TEST_CASE("C.1: no reserve is so strict that an empty pool starts nobody") {  // 18
  auto const starts = [](auto policy) {
    for (std::uint64_t headroom = 0; headroom < 20; ++headroom) {
      AdmissionController<decltype(policy)> gate{{.capacity = 20_blocks, .headroom = Blocks{headroom}, .footprint = paged(block)}, policy};
      gate.submit(ask(300, 20));
      REQUIRE(gate.admit_next());
    }
  };
  struct Batch {
    need::WholePrompt need{};
    headroom::StepsTimesBatch headroom{};
    order::Arrival order{};
    victim::Newest victim{};
  };
  starts(policies::Plain{});
  starts(policies::Recommended{});
  starts(policies::GuaranteedNoEvict{});
  starts(Batch{});
}

// ---- C.2 boundary, sizing, can never fit ----

TEST_CASE("C.2: whether a request can ever fit flips exactly at the capacity, and one that can is served to its end") {  // 19, 20, 21
  for (auto const size : {1_tokens, 7_tokens, block})
    for (std::uint64_t capacity = 1; capacity <= 4; ++capacity)
      for (std::uint64_t prompt = 1; prompt <= capacity * size.count; ++prompt) {
        std::uint64_t const most = capacity * size.count;
        RecommendedGate gate{{.capacity = Blocks{capacity}, .footprint = paged(size)}};
        REQUIRE(gate.submit(ask(prompt, most - prompt + 1)).reason == Reason::exceeds_capacity);
        if (prompt < most) REQUIRE(gate.submit(ask(prompt, most - prompt - 1)).queued());
        REQUIRE(gate.submit(ask(prompt, most - prompt)).queued());
        while (auto lease = gate.admit_next()) {
          lease.grow(Tokens{most - prompt});
          REQUIRE(lease.tokens() >= Tokens{most - 1});
        }
        REQUIRE(gate.account(0).completed == (prompt < most ? 2 : 1));
        REQUIRE(gate.account(0).preempted == 0);
      }
}

TEST_CASE("C.2: a capacity in tokens has no room for a part of a block") {  // 19, O6
  Gate gate{{.capacity = 167_tokens, .footprint = paged(block)}};
  REQUIRE(gate.submit(ask(160)).queued());
  REQUIRE(gate.submit(ask(161)).reason == Reason::exceeds_capacity);
}

TEST_CASE("C.2: the largest request is served whatever the headroom, also behind others") {  // 23
  RecommendedGate gate{{.capacity = 40_tokens, .headroom = 39_tokens}};
  for (std::uint64_t const prompt : {1U, 30U, 40U}) gate.submit(served(prompt, 40 - prompt));
  serve(gate, 1'000);
  REQUIRE(gate.account(0).completed == 3);
}

TEST_CASE("C.2: a request that can never fit is not at the head of the queue, also after the pool has shrunk") {  // 20, 21, 24
  Gate gate{{.capacity = 100_tokens}};
  REQUIRE(gate.submit(ask(101, 0, 1)).reason == Reason::exceeds_capacity);
  gate.submit(ask(60, 30, 2));
  gate.submit(ask(20, 0, 3));
  REQUIRE(gate.resize(89_tokens).empty());
  REQUIRE(gate.account(0).rejected_for(Reason::exceeds_capacity) == 2);
  REQUIRE(tags(step(gate).admit) == Tags{3});
}

TEST_CASE("C.2: too few blocks are a complaint before anything runs") {  // 27
  AdmissionLimits const none{.capacity = 15_tokens, .footprint = paged(block)}, reserve{.capacity = 4_blocks, .headroom = 4_blocks, .footprint = paged(block)};
  REQUIRE(std::string{check(none)[0].field} == ".capacity");
  REQUIRE(std::string{check(reserve)[0].field} == ".headroom");
}

TEST_CASE("C.2: a prompt longer than a step goes by chunks, and where prompts are whole it is rejected at submit") {  // 28
  AdmissionLimits limits{.capacity = 100_tokens, .tokens_per_step = 8_tokens};
  Gate chunked{limits};
  chunked.submit(served(50, 3));
  REQUIRE(serve(chunked, 100) == 7 + 3);
  limits.whole_prompts = true;
  REQUIRE(Gate{limits}.submit(ask(9)).reason == Reason::exceeds_step);
}

TEST_CASE("C.2: more sequences than blocks wait for blocks") {  // 29
  Gate gate{{.capacity = 4_blocks, .footprint = paged(block), .max_running = 1'000}};
  for (int i = 0; i < 5; ++i) gate.submit(ask(1));
  auto const plan = step(gate);
  REQUIRE(plan.admit.size() == 4);
  REQUIRE(plan.wait[0].reason() == Reason::no_room);
}

TEST_CASE("C.2: a huge max_new keeps nobody out, and where all of it is reserved it is cut to the longest sequence") {  // 30
  RecommendedGate gate{{.capacity = 1'000_tokens}};
  gate.submit(ask(10, 990));
  for (int i = 0; i < 4; ++i) gate.submit(ask(100));
  REQUIRE(step(gate).admit.size() == 5);
  AdmissionController<policies::GuaranteedNoEvict> reserved{{.capacity = 1'000_tokens, .max_length = 200_tokens}};
  for (int i = 0; i < 5; ++i) reserved.submit({.prompt = 10_tokens, .max_new = Tokens::max()});
  REQUIRE(step(reserved).admit.size() == 5);
}

TEST_CASE("C.2: reserves are whole again after a pool has shrunk and grown, however often") {  // 32
  Gate gate{{.capacity = 100_tokens, .headroom = 7_percent, .classes = 2, .class_limits = {{}, {.share = 30_percent}}}};
  gate.submit(of_class(1, 1));
  step(gate);
  for (int i = 0; i < 3; ++i) gate.submit(of_class(1, 30));
  auto const room = gate.more_of(of_class(0, 1));
  REQUIRE(room == 99 - 7 - 29);
  for (std::uint64_t capacity = 100; capacity > 40; --capacity) {
    REQUIRE(gate.resize(Tokens{capacity}).empty());
    REQUIRE(gate.pool().headroom == Blocks{(capacity * 7 + 99) / 100});
    REQUIRE(gate.more_of(of_class(0, 1)) == capacity - (capacity * 7 + 99) / 100 - capacity * 30 / 100);
  }
  REQUIRE(gate.resize(100_tokens).empty());
  REQUIRE(gate.more_of(of_class(0, 1)) == room);
}

// ---- C.3 leaks, double frees, counts ----

namespace {

/// A controller in which one request is in a state, perhaps beside a first one that it took to bring it there.
struct Brought {
  AdmissionController<ByArrival> gate;
  Ticket ticket{};
  std::vector<Gate::Lease> leases{};

  static AdmissionLimits limits(bool retires) { return {.capacity = 40_tokens, .max_live = 4, .adapters = 2, .chunk = 10_tokens, .retires = retires}; }
  explicit Brought(Keep keep, bool retires) : gate{limits(retires), {.preemption = {.keep = keep}}} {}
};
constexpr char const* stands[]{"queued", "leased", "in the middle of its prompt", "decoding", "preempted", "arriving", "held", "held by a lease"};

void bring(Brought& into, std::size_t state) {
  auto& gate = into.gate;
  Request request{.prompt = 15_tokens, .max_new = 20_tokens, .group = 5, .deadline = 100, .adapter = 7, .arrives = state == 5};
  auto const submit = [&] { into.ticket = gate.submit(request).ticket; };
  auto const steps = [&](int n) {
    for (int i = 0; i < n; ++i) step(gate);
  };
  gate.begin_step(1);
  if (state == 4) gate.submit({.prompt = 18_tokens, .max_new = 22_tokens, .group = 5, .adapter = 8});
  submit();
  if (state == 1 || state == 7) into.leases = admit_all(gate);
  if (state == 2 || state == 5) steps(1);
  if (state == 3 || state == 6) steps(4);
  while (state == 4 && gate.account(0).preempted == 0) steps(1);
  if (state == 6 || state == 7) REQUIRE(gate.hold(into.ticket));
}

}  // namespace

TEST_CASE("C.3: nothing is left of a request that leaves, from any state and in any way") {  // 33, 34, 49, 51
  for (auto const keep : {Keep::nothing, Keep::as_cache, Keep::on_host})
    for (bool const retires : {false, true})
      for (std::size_t state = 0; state < std::size(stands); ++state)
        for (int way = 0; way < 4; ++way) {
          CAPTURE(static_cast<int>(keep), retires, stands[state], way);
          Brought brought{keep, retires};
          auto& gate = brought.gate;
          bring(brought, state);
          if (way == 0) REQUIRE(gate.finish(brought.ticket));
          if (way == 1) REQUIRE(gate.cancel(brought.ticket));
          if (way == 2) gate.begin_step(101);
          if (way == 3) REQUIRE(gate.cancel_group(5) >= 1);
          REQUIRE(gate.why(brought.ticket).reason == Reason::unknown_ticket);
          for (auto const& lease : brought.leases) REQUIRE(lease.ended());
          gate.cancel(first);  // who brought it there
          is_empty(gate, 40_blocks);
          gate.begin_step(gate.now() + 1);
          for (std::uint64_t adapter = 1; adapter <= 2; ++adapter) gate.submit({.prompt = 10_tokens, .adapter = adapter});
          for (int i = 0; i < 2; ++i) REQUIRE(gate.submit(ask(10)).queued());
          REQUIRE(gate.plan().admit.size() == 4);  // every place, block and adapter is free again
        }
}

TEST_CASE("C.3: what is given back twice is free once") {  // 35, 40
  Gate gate{{.capacity = 40_tokens, .max_running = 2}};
  gate.submit(ask(15, 20));
  gate.submit(ask(15, 20));
  {
    auto leases = admit_all(gate);
    auto const ticket = leases[0].ticket();
    leases[0].finish();
    leases[0].cancel();
    REQUIRE_FALSE(gate.finish(ticket));
    REQUIRE_FALSE(gate.cancel(ticket));
    REQUIRE(gate.pool().supply == Supply{.clean = 25_blocks});
  }
  is_empty(gate, 40_blocks);
  REQUIRE(gate.account(0).completed == 2);
  for (int i = 0; i < 3; ++i) gate.submit(ask(1));
  REQUIRE(gate.plan().admit.size() == 2);
}

TEST_CASE("C.3: a start or a growth that one pool refuses leaves the others as they were") {  // 9, 48
  Supply full{.clean = 10_blocks}, states = full;
  AdmissionLimits const limits{
      .capacity = 10_blocks, .footprint = {.groups = {full_group(), full_group(1_tokens, 1)}}, .more_pools = {{.capacity = 10_blocks}}};
  AdmissionController gate{limits, ByArrival{}, {BlockManager{&full}, BlockManager{&states}}};
  gate.submit(ask(4, 4));
  states.clean = 3_blocks;
  REQUIRE_FALSE(gate.admit_next());
  REQUIRE(full.clean == 10_blocks);
  states.clean = 4_blocks;
  auto lease = gate.admit_next();
  REQUIRE(lease.grow(1_tokens).reason == Reason::preempted);
  REQUIRE(full.clean == 10_blocks);
  REQUIRE(states.clean == 4_blocks);
}

TEST_CASE("C.3: where a pool gives less than it said, the others get back what they gave, and no more") {  // 48
  struct Fickle : BlockManager {
    bool const* gives{};
    bool take(Blocks blocks) { return *gives && BlockManager::take(blocks); }
  };
  Supply full{.clean = 10_blocks}, states = full;
  bool const always = true;
  bool sometimes = false;
  AdmissionLimits const limits{
      .capacity = 10_blocks, .footprint = {.groups = {full_group(), full_group(1_tokens, 1)}}, .more_pools = {{.capacity = 10_blocks}}};
  AdmissionController gate{limits, ByArrival{}, {Fickle{{&full}, &always}, Fickle{{&states}, &sometimes}}};
  gate.submit(ask(4, 4));
  auto const all_there = [&] { return gate.balanced() && full.clean == 10_blocks && states.clean == 10_blocks && gate.queued() == 1; };
  REQUIRE_FALSE(gate.admit_next());
  REQUIRE(all_there());
  sometimes = true;
  auto lease = gate.admit_next();
  sometimes = false;
  REQUIRE(lease.grow(1_tokens).reason == Reason::preempted);
  REQUIRE(all_there());
}

TEST_CASE("C.3: a preempted request keeps no state of its own") {  // 49
  AdmissionLimits const limits{
      .capacity = 20_tokens, .footprint = {.groups = {full_group(), fixed_group(1_blocks, 1)}}, .more_pools = {{.capacity = 2_blocks}}};
  Gate gate{limits};
  gate.submit(ask(8, 12, 1));
  gate.submit(ask(8, 12, 2));
  while (step(gate).preempt.empty()) {
  }
  REQUIRE(gate.pool(1).held == 1_blocks);
}

TEST_CASE("C.3: after thousands of short lives everything is there, and at no time is there more or less") {  // 33, 35, 40, 77
  std::mt19937_64 random{20'261'129};
  for (auto const keep : {Keep::nothing, Keep::as_cache, Keep::on_host}) {
    AdmissionLimits const limits{.capacity = 60_blocks,
                                 .footprint = paged(4_tokens),
                                 .classes = 2,
                                 .max_live = 30,
                                 .max_running = 12,
                                 .adapters = 3,
                                 .chunk = 16_tokens,
                                 .retires = keep == Keep::nothing};
    Gate gate{limits, {.preemption = {.keep = keep, .regain = 1_tokens}}};
    std::vector<Ticket> tickets;
    for (std::uint64_t now = 1; now < 3'000; ++now) {
      for (std::uint64_t i = random() % 3; i > 0; --i) {
        Request const request{.prompt = {1 + random() % 80},
                              .max_new = {random() % 60},
                              .request_class = random() % 2,
                              .branches = 1 + std::uint32_t(random() % 2),
                              .lookahead = {random() % 4},
                              .deadline = now + random() % 60,
                              .adapter = random() % 5,
                              .arrives = random() % 5 == 0};
        if (auto const verdict = gate.submit(request); verdict.queued()) tickets.push_back(verdict.ticket);
      }
      std::erase_if(tickets, [&](Ticket ticket) {
        auto const what = random() % 12;
        if (what < 3) gate.arrived(ticket);
        if (what == 3) gate.hold(ticket);
        return what == 4 ? gate.finish(ticket) : what == 5 && gate.cancel(ticket);
      });
      if (random() % 2 == 0) gate.retire(now - random() % 3);
      step(gate);
      REQUIRE(gate.held(0) + gate.held(1) == gate.pool().held);
      REQUIRE(gate.account(0).active_requests + gate.account(1).active_requests == gate.running());
      REQUIRE(gate.account(0).queued_requests + gate.account(1).queued_requests == gate.queued());
    }
    for (auto const ticket : tickets) gate.cancel(ticket);
    is_empty(gate, 60_blocks);
    for (std::uint64_t i = 0; i < limits.max_running; ++i) gate.submit({.prompt = 1_tokens, .adapter = 10 + i % limits.adapters});
    auto const plan = step(gate);
    REQUIRE(plan.admit.size() == limits.max_running);
    for (auto const& one : plan.admit) gate.cancel(one.ticket());
    auto const& account = gate.account(0);
    REQUIRE(account.submitted == account.rejected_in_all() + account.completed + account.cancelled + account.expired);
  }
}

// ---- C.4 abort and asynchronous release ----

TEST_CASE("C.4: blocks of one that is cancelled in flight are nobody's before its step is over") {  // 55, 57, 58, 59
  for (auto const& request : {ask(15, 5, 1), remote(15, 5)}) {
    Gate gate{{.capacity = 20_tokens, .retires = true}};
    auto const ticket = gate.submit(request).ticket;
    step(gate);
    auto const written = gate.now();
    gate.cancel(ticket);
    gate.submit(ask(10, 0, 2));
    REQUIRE(step(gate).admit.empty());
    gate.retire(written - 1);
    REQUIRE(step(gate).admit.empty());
    gate.retire(written);
    REQUIRE(tags(step(gate).admit) == Tags{2});
  }
}

TEST_CASE("C.4: victims' blocks are not written by others while their own step may write them") {  // 55, 66
  Gate gate{{.capacity = 20_tokens, .retires = true}};
  gate.submit(ask(10, 10, 1));
  gate.submit(ask(10, 10, 2));
  step(gate);
  auto const plan = step(gate);
  REQUIRE(tags(plan.preempt) == Tags{2});
  REQUIRE(plan.tokens() == 0_tokens);
  REQUIRE(gate.pool().supply == Supply{.in_flight = 10_blocks});
}

TEST_CASE("C.4: a plan that was made before a request left is not carried out after it") {  // 57, 58
  for (std::string const& is : {std::string{"queued"}, std::string{"running"}, std::string{"leased"}})
    for (bool const another : {false, true}) {
      Gate gate{{.capacity = 20_tokens, .retires = true}};
      auto const ticket = gate.submit(ask(10, 10)).ticket;
      if (is == "running") step(gate);
      auto leases = is == "leased" ? admit_all(gate) : std::vector<Gate::Lease>{};
      auto const plan = gate.plan();
      leases.clear();
      gate.cancel(ticket);
      if (another) gate.submit(ask(10, 10));  // in the same slot
      REQUIRE_FALSE(gate.commit(plan));
      REQUIRE(gate.running() == 0);
    }
}

TEST_CASE("C.4: hundreds that were given up keep nobody out") {  // 54, 61
  Gate gate{{.capacity = 100_tokens, .max_live = 8, .max_running = 4}};
  for (int i = 0; i < 400; ++i) {
    auto const one = gate.submit(ask(40, 10)).ticket, another = gate.submit(remote(40, 10)).ticket, third = gate.submit(ask(40)).ticket;
    if (i % 3 != 0) step(gate);
    if (i % 3 == 1) gate.hold(one);
    for (auto const ticket : {another, one, third}) REQUIRE(gate.cancel(ticket));
  }
  gate.submit(ask(100, 0, 1));
  REQUIRE(tags(step(gate).admit) == Tags{1});
}

TEST_CASE("C.4: what arrives after its request was given up changes nothing of whose slot it is now") {  // 56, 59
  Gate gate{{.capacity = 20_tokens, .max_live = 1, .max_running = 1}};
  auto const late = gate.submit(remote(10, 5)).ticket;
  step(gate);
  REQUIRE(gate.cancel(late));
  auto const next = gate.submit(remote(10, 5)).ticket;
  step(gate);
  REQUIRE(next.slot == late.slot);
  REQUIRE_FALSE(gate.arrived(late));
  REQUIRE_FALSE(gate.hold(late));
  REQUIRE_FALSE(gate.generated(late, 1_tokens));
  REQUIRE_FALSE(gate.found(late, {.active = 1_blocks}));
  REQUIRE_FALSE(gate.cancel(late));
  REQUIRE(gate.why(next).reason == Reason::arriving);
}

TEST_CASE("C.4: one that is given up while it is preempted does not come back") {  // 60
  for (auto const keep : {Keep::nothing, Keep::as_cache, Keep::on_host}) {
    Gate gate{{.capacity = 20_tokens}, {.preemption = {.keep = keep}}};
    gate.submit(ask(10, 10, 1));
    auto const ticket = gate.submit(ask(10, 10, 2)).ticket;
    step(gate);
    REQUIRE(tags(step(gate).preempt) == Tags{2});
    gate.cancel(ticket);
    gate.cancel(first);
    REQUIRE(step(gate).admit.empty());
    is_empty(gate, 20_blocks);
  }
}

// ---- C.5 publish before compute ----

TEST_CASE("C.5: of a prompt that was preempted in its middle only the computed part is found") {  // 62, 63
  for (auto const keep : {Keep::as_cache, Keep::on_host}) {
    Gate gate{{.capacity = 60_tokens, .chunk = 10_tokens}, {.preemption = {.keep = keep}}};
    auto const asker = gate.submit(ask(10, 40, 1)).ticket;
    gate.submit(ask(40, 5, 2));
    step(gate);
    step(gate);  // 20 of the 40
    gate.generated(asker, 9_tokens);
    REQUIRE(tags(step(gate).preempt) == Tags{2});
    gate.finish(asker);
    REQUIRE(step(gate).admit[0].found == 20_tokens);
  }
}

TEST_CASE("C.5: a request that does not start takes nobody's cache, however often it is looked at") {  // O7, O8
  Gate gate{{.capacity = 30_tokens}, {.order = {.bypass = unbounded_bypass}, .preemption = {.keep = Keep::as_cache}}};
  for (std::uint64_t tag = 1; tag <= 3; ++tag) gate.submit(ask(10, 10, tag));
  step(gate);
  REQUIRE(tags(step(gate).preempt) == Tags{3});
  for (std::uint32_t slot = 0; slot < 2; ++slot) gate.hold(Ticket{slot, 0});  // nobody grows any more
  gate.submit(ask(20, 0, 4));
  for (int i = 0; i < 5; ++i) {
    REQUIRE(step(gate).admit.empty());
    REQUIRE_FALSE(gate.admit_next());
    REQUIRE(gate.pool().supply == Supply{.cached_idle = 8_blocks});
  }
}

TEST_CASE("C.5: blocks that a step in flight may still write are nobody's cache") {  // 62, 63
  // Others are blocks that are free all the same, for it is a ceiling that makes room scarce.
  for (std::uint64_t const others : {0U, 30U}) {
    Gate gate{{.capacity = Tokens{20 + others}, .class_limits = {{.tokens = 20_tokens}}, .retires = true}, {.preemption = {.keep = Keep::as_cache}}};
    gate.submit(ask(10, 10, 1));
    gate.submit(ask(10, 10, 2));
    step(gate);
    REQUIRE(tags(step(gate).preempt) == Tags{2});
    REQUIRE(gate.pool().supply.in_flight == 10_blocks);
    REQUIRE(gate.pool().supply.cached_idle == 0_blocks);
    gate.finish(first);
    gate.retire(gate.now());
    REQUIRE(step(gate).admit[0].found == 0_tokens);
  }
}

TEST_CASE("C.5: blocks that a smaller pool has no more are nobody's cache") {  // 62, 63
  Gate gate{{.capacity = 30_tokens}, {.preemption = {.keep = Keep::as_cache}}};
  SECTION("of one that was preempted before") {
    gate.submit(ask(10, 10, 1));
    gate.submit(ask(20, 0, 2));
    step(gate);
    REQUIRE(tags(step(gate).preempt) == Tags{2});
    REQUIRE(gate.resize(20_tokens).empty());
    REQUIRE(gate.balanced());
    REQUIRE(gate.pool().supply == Supply{.cached_idle = 9_blocks});
    gate.finish(first);
    REQUIRE(step(gate).admit[0].found == 9_tokens);
  }
  SECTION("of one that gives way as it has shrunk") {
    gate.submit(ask(10, 0, 1));
    gate.submit(ask(15, 5, 2));
    step(gate);
    REQUIRE(gate.resize(20_tokens).empty());
    REQUIRE(tags(step(gate).preempt) == Tags{2});
    REQUIRE(gate.pool().supply == Supply{.cached_idle = 10_blocks});
    gate.finish(first);
    REQUIRE(step(gate).admit[0].found == 10_tokens);
  }
}

TEST_CASE("C.5: what is told to be cached counts in the plan of the same step") {  // 64
  Gate gate{{.capacity = 100_blocks, .footprint = paged(block)}};
  auto const ticket = gate.submit(ask(160)).ticket;
  gate.begin_step(1);
  gate.found(ticket, {.idle = 9_blocks});
  REQUIRE(gate.plan().admit[0].tokens == 16_tokens);
}

// ---- C.6 deadlocks, livelocks, latches ----

TEST_CASE("C.6: where nothing runs somebody starts, whatever limits there are") {  // 65, 71, 77, 93
  std::mt19937_64 random{20'261'202};
  for (int world = 0; world < 400; ++world) {
    std::uint64_t const capacity = 20 + random() % 60;
    AdmissionLimits limits{.capacity = Tokens{capacity}, .headroom = Blocks{random() % (capacity / 2)}, .classes = 3, .max_live = 20};
    std::uint64_t left = capacity;
    for (int i = 0; i < 3; ++i) {
      std::uint64_t const floor = random() % (left + 1);
      left -= floor;
      limits.class_limits.push_back({.floor = {floor}, .floor_running = random() % 3, .running = 2 + random() % 3, .to_compute = {random() % 40}});
    }
    limits.max_running = 6 + random() % 3;
    limits.adapters = std::uint32_t(random() % 3);
    limits.tokens_per_step = {1 + random() % 50};
    limits.whole_prompts = random() % 2 == 0;
    Gate gate{limits, {.order = {.bypass = {.passes = std::uint32_t(random() % 3), .scan = 1 + std::uint32_t(random() % 4)}}}};
    REQUIRE(gate.complaints().empty());
    for (int i = 0; i < 20; ++i)
      gate.submit({.prompt = {1 + random() % capacity},
                   .max_new = {random() % 20},
                   .request_class = random() % 3,
                   .branches = 1 + std::uint32_t(random() % 2),
                   .adapter = random() % 4});
    while (!gate.drained()) {
      auto const plan = step(gate);
      REQUIRE((gate.running() > 0 || !plan.preempt.empty()));
      for (std::uint32_t slot = 0; slot < 20; ++slot)
        if (Ticket const ticket{slot, 0}; random() % 4 == 0 && gate.why(ticket).reason == Reason::running) gate.finish(ticket);
    }
  }
}

TEST_CASE("C.6: a full pool, a full class and a preemption keep nobody waiting longer than they last") {  // 65
  Gate gate{{.capacity = 20_tokens, .classes = 2, .class_limits = {{.running = 2}}}};
  gate.submit(of_class(0, 9, 11, 1));
  gate.submit(of_class(0, 9, 11, 2));
  gate.submit(of_class(0, 1, 0, 3));
  REQUIRE(step(gate).wait[0].reason() == Reason::class_limit);
  step(gate);
  auto const plan = step(gate);
  REQUIRE(tags(plan.preempt) == Tags{2});
  gate.cancel(first);
  REQUIRE(tags(step(gate).admit) == Tags{2, 3});
}

TEST_CASE("C.6: a plan whose memory is used again does not remember who was full") {  // 65
  Gate gate{{.capacity = 20_tokens, .classes = 2, .class_limits = {{.running = 1}}, .adapters = 1}};
  gate.submit({.prompt = 10_tokens, .tag = 1, .adapter = 1});
  gate.submit(of_class(0, 5, 0, 2));
  gate.submit({.prompt = 5_tokens, .request_class = 1, .tag = 3, .adapter = 2});
  gate.submit(of_class(1, 15, 0, 4));
  gate.submit(of_class(1, 1, 0, 5));
  Gate::StepPlan plan;
  gate.plan({}, plan);
  REQUIRE(tags(plan.admit) == Tags{1});
  REQUIRE(gate.commit(plan));
  gate.finish(first);
  gate.plan({}, plan);
  REQUIRE(tags(plan.admit) == Tags{2, 3});
}

TEST_CASE("C.6: the last one that runs always grows to its end") {  // 67
  for (auto const regain : {0_tokens, 1_tokens, 50_tokens}) {
    Gate gate{{.capacity = 30_tokens, .headroom = 5_tokens}, {.preemption = {.regain = regain}}};
    for (int i = 0; i < 4; ++i) gate.submit(served(10, 20));
    serve(gate, 1'000);
    REQUIRE(gate.account(0).completed == 4);
    std::uint64_t const preempted = gate.account(0).preempted;
    gate.submit(served(10, 20));
    serve(gate, 1'000);
    REQUIRE(gate.account(0).completed == 5);
    REQUIRE(gate.account(0).preempted == preempted);  // alone, nobody is
  }
}

TEST_CASE("C.6: equal calls give equal decisions on every rank, whatever each has seen before") {  // 68
  auto const decided = [](std::vector<std::uint32_t> const& gone) {
    AdmissionController<Parts<order::Priority>> gate{{.capacity = 40_tokens, .classes = 4, .tenants = 2, .chunk = 6_tokens}};
    std::vector<Ticket> tickets;
    for (std::uint32_t const index : gone) tickets.push_back(gate.submit(of_class(index, 1)).ticket);
    auto const submit = [&](std::uint64_t tag) {
      gate.submit({.prompt = {1 + tag * 7 % 11}, .max_new = {tag % 9}, .request_class = tag % 4, .tag = tag, .tenant = std::uint32_t(tag / 4 % 2)});
    };
    for (std::uint64_t tag = 1; tag <= 8; ++tag) submit(tag);
    for (auto const ticket : tickets) gate.cancel(ticket);
    std::vector<Tags> decisions;
    for (std::uint64_t tag = 9; tag <= 50; ++tag) {
      submit(tag);
      auto const plan = step(gate);
      for (auto const* list : {&plan.preempt, &plan.grow, &plan.admit, &plan.wait}) decisions.push_back(tags(*list));
      for (auto const& one : plan.grow)
        if (one.tag % 5 == tag % 5) gate.finish(one.ticket());
    }
    return decisions;
  };
  REQUIRE(decided({}) == decided({3, 0, 2, 1, 0}));
}

TEST_CASE("C.6: growth that waits for its victims' blocks takes no other victim in the next step") {  // 69
  Gate gate{{.capacity = 20_tokens, .retires = true}};
  for (std::uint64_t tag = 1; tag <= 4; ++tag) gate.submit(ask(5, 5, tag));
  step(gate);
  REQUIRE(tags(step(gate).preempt) == Tags{4});
  for (int i = 0; i < 3; ++i) REQUIRE(step(gate).preempt.empty());
  gate.retire(gate.now());
  REQUIRE(step(gate).tokens() == 3_tokens);
}

TEST_CASE("C.6: a request that has just started again is not preempted again before it has a token more") {  // 72, 75
  AdmissionController<Smallest> gate{{.capacity = 20_tokens}, {.preemption = {.regain = 1_tokens}}};
  gate.submit(ask(6, 14, 1));
  gate.submit(ask(5, 14, 2));
  auto leases = admit_all(gate);
  leases[1].grow(1_tokens);
  leases[0].grow(9_tokens);
  REQUIRE(leases[1].ended());
  leases[0].finish();
  gate.begin_step(1);
  gate.submit(ask(10, 5, 3));
  auto again = admit_all(gate);
  REQUIRE(tags(again) == Tags{2, 3});
  REQUIRE(again[1].grow(4_tokens).reason == Reason::preempted);
  REQUIRE(again[0].grow(1_tokens).reason == Reason::grown);
}

TEST_CASE("C.6: a victim is in one list of the plan, in the queue once, and its tokens of the step go to others") {  // 73, 74
  AdmissionController<Smallest> gate{{.capacity = 41_tokens}};
  gate.submit(ask(5, 20, 1));
  gate.submit(ask(20, 20, 2));
  gate.submit(ask(9, 20, 3));
  for (int i = 0; i < 3; ++i) step(gate);
  auto const plan = step(gate, {.tokens = 2_tokens});
  REQUIRE(tags(plan.preempt) == Tags{1});
  REQUIRE(tags(plan.grow) == Tags{2, 3});
  REQUIRE(gate.queued() == 1);
  REQUIRE(gate.running() == 2);
}

TEST_CASE("C.6: what a victim had counts no more in the same plan, so that nobody else gives way at the ceiling of its class") {  // 73
  Gate gate{{.capacity = 100_tokens, .class_limits = {{.tokens = 30_tokens}}}};
  for (std::uint64_t tag = 1; tag <= 3; ++tag) gate.submit(ask(10, 10, tag));
  step(gate);
  auto const plan = step(gate);
  REQUIRE(tags(plan.preempt) == Tags{3});
  REQUIRE(tags(plan.grow) == Tags{1, 2});
}

TEST_CASE("C.6: one that is preempted does not start again in the same step, even where it would fit") {  // 75
  Gate gate{{.capacity = 20_tokens}};
  gate.submit(ask(10, 10, 1));
  gate.submit(ask(10, 10, 2));
  step(gate);
  REQUIRE(tags(step(gate).preempt) == Tags{2});
  gate.finish(first);
  REQUIRE(gate.plan().admit.empty());
  REQUIRE_FALSE(gate.admit_next());
  REQUIRE(tags(step(gate).admit) == Tags{2});
}

TEST_CASE("C.6: one that gives way itself does not end the step of those behind it") {  // 74
  AdmissionController<Smallest> gate{{.capacity = 19_tokens}};
  gate.submit(ask(5, 14, 1));
  gate.submit(ask(14, 5, 2));
  step(gate);
  auto const plan = step(gate);
  REQUIRE(tags(plan.preempt) == Tags{1});
  REQUIRE(tags(plan.grow) == Tags{2});
}

TEST_CASE("C.6: plans of one step share what it computes") {  // 76
  Gate gate{{.capacity = 1'000_tokens, .tokens_per_step = 32_tokens}};
  Tokens computed{};
  for (int i = 0; i < 3; ++i) {
    gate.submit(ask(20));
    auto const plan = gate.plan();
    REQUIRE(gate.commit(plan));
    computed += plan.tokens();
  }
  REQUIRE(computed == 32_tokens);
}

TEST_CASE("C.6: a crowd that outgrows the pool many times is served to the end, also where blocks come back a step later") {  // 77
  std::mt19937_64 random{20'261'203};
  for (int world = 0; world < 20; ++world) {
    AdmissionLimits const limits{
        .capacity = 30_blocks, .footprint = paged(4_tokens), .tokens_per_step = 24_tokens, .chunk = 16_tokens, .retires = world % 2 == 0};
    RecommendedGate gate{limits};
    for (int i = 0; i < 60; ++i) {
      std::uint64_t const prompt = 1 + random() % 60;
      gate.submit(served(prompt, random() % 60));
    }
    serve(gate, 20'000);
    REQUIRE(gate.account(0).completed == 60);
    REQUIRE(gate.account(0).preempted > 0);
  }
}

// ---- C.7 look-ahead ----

TEST_CASE("C.7: look-ahead is held at every distance from a block's end, and what is admitted grows to its end") {  // 78
  for (std::uint64_t const size : {1U, 2U, 3U, 4U, 16U})
    for (std::uint64_t ahead = 0; ahead <= 2 * size + 1; ++ahead)
      for (std::uint64_t prompt = 1; prompt <= 2 * size + 1; ++prompt)
        for (std::uint32_t branches = 1; branches <= 2; ++branches) {
          std::uint64_t const max_new = 2 * size + 2;
          auto const blocks = [&](std::uint64_t generated) {  // whole blocks of the prompt are shared by all branches
            std::uint64_t const each = (prompt + generated + ahead + size - 1) / size, shared = branches == 1 ? 0 : prompt / size;
            return Blocks{shared + (each - shared) * branches};
          };
          Request const request{.prompt = {prompt}, .max_new = {max_new}, .branches = branches, .lookahead = {ahead}};
          Blocks const whole = blocks(max_new);
          REQUIRE(Gate{{.capacity = whole - 1_blocks, .footprint = paged({size})}}.submit(request).rejected());
          Gate gate{{.capacity = whole, .footprint = paged({size})}};
          REQUIRE(gate.submit(request).queued());
          auto lease = gate.admit_next();
          for (std::uint64_t generated = 0;; ++generated) {
            REQUIRE(gate.pool().held == blocks(generated));
            REQUIRE(gate.next_step() == (generated == max_new ? 0_blocks : blocks(generated + 1) - blocks(generated)));
            if (generated == max_new) break;
            REQUIRE(lease.grow(1_tokens).reason == Reason::grown);
          }
        }
}

TEST_CASE("C.7: drafts that are accepted find the room that look-ahead held for them") {  // 14, 78
  std::mt19937_64 random{20'261'204};
  for (std::uint64_t ahead = 0; ahead <= 8; ++ahead) {
    Gate gate{{.capacity = blocks_for(Tokens{100 + ahead}, 4_tokens), .footprint = paged(4_tokens)}};
    auto const ticket = gate.submit({.prompt = 20_tokens, .max_new = 80_tokens, .lookahead = {ahead}}).ticket;
    step(gate);
    while (gate.account(0).active_tokens < 100_tokens) {
      Blocks const held = gate.pool().held;
      Tokens const drafts{random() % (ahead + 1)}, before = gate.account(0).active_tokens;
      gate.generated(ticket, drafts);
      REQUIRE(before + drafts <= gate.pool().block * held.count);  // they are written where there is room already
      auto const plan = step(gate);
      REQUIRE(plan.tokens() == min(drafts + 1_tokens, 100_tokens - before));
      REQUIRE(plan.preempt.empty());
    }
  }
}

TEST_CASE("C.7: drafts of one that is preempted are computed once, when it starts again") {  // 14, 78
  Gate gate{{.capacity = 20_tokens}};
  gate.submit(ask(10, 10, 1));
  auto const ticket = gate.submit(ask(5, 15, 2)).ticket;
  step(gate);
  gate.generated(ticket, 6_tokens);
  REQUIRE(tags(step(gate).preempt) == Tags{2});
  gate.finish(first);
  REQUIRE(tokens_of(step(gate), 2) == 5_tokens + 7_tokens);
  REQUIRE(tokens_of(step(gate), 2) == 1_tokens);
}

TEST_CASE("C.7: a request that generates nothing has no look-ahead") {  // 78
  Gate gate{{.capacity = 10_tokens}};
  REQUIRE(gate.submit({.prompt = 10_tokens, .lookahead = 5_tokens}).queued());
  REQUIRE(gate.admit_next());
}

// ---- C.8 isolation: what admission has of it ----

TEST_CASE("C.8: classes never share an account, and one that is none has one of its own") {  // 79 to 84
  Gate gate{{.capacity = 100_tokens, .classes = 3}};
  for (std::uint32_t i = 0; i < 3; ++i) {
    auto const ticket = gate.submit(of_class(i, 10 + i, 10, 7)).ticket;  // the same tag everywhere
    if (i == 1) gate.found(ticket, {.idle = 4_blocks});
  }
  REQUIRE(gate.submit(of_class(3, 10)).reason == Reason::unknown_class);
  REQUIRE(gate.submit({.prompt = 10_tokens, .request_class = -1}).reason == Reason::unknown_class);
  step(gate);
  step(gate);
  for (std::uint32_t i = 0; i < 3; ++i) {
    auto const& account = gate.account(i);
    REQUIRE(account.submitted == 1);
    REQUIRE(account.rejected_in_all() == 0);
    REQUIRE(account.active_tokens == Tokens{11 + i});
    REQUIRE(gate.held(i) == Blocks{11 + i});
    REQUIRE(account.found_tokens == (i == 1 ? 4_tokens : 0_tokens));
  }
  REQUIRE(gate.account(3).submitted == 2);
  REQUIRE(gate.account(3).rejected_in_all() == 2);
}

TEST_CASE("C.8: tenants never share what they were served, in one class or in several") {
  AdmissionController<Parts<order::FairShare>> gate{{.capacity = 100_tokens, .classes = 2, .tenants = 3}};
  for (std::uint32_t tenant = 0; tenant < 3; ++tenant)
    for (std::uint32_t i = 0; i < 2; ++i) gate.submit({.prompt = {5 + tenant}, .max_new = 5_tokens, .request_class = i, .tenant = tenant});
  step(gate);
  for (std::uint32_t tenant = 0; tenant < 3; ++tenant) REQUIRE(gate.served(tenant) == 2 * (5 + tenant));
  step(gate);
  for (std::uint32_t tenant = 0; tenant < 3; ++tenant) REQUIRE(gate.served(tenant) == 2 * (5 + tenant) + 4);
  REQUIRE(gate.submit({.prompt = 1_tokens, .tenant = 3}).reason == Reason::bad_request);
  REQUIRE(gate.served(3) == 0);
}

// ---- C.9 starvation, head of line, thrash ----

TEST_CASE("C.9: a long request is passed by no more short ones than may pass it, however many come") {  // 85, 91
  Gate gate{{.capacity = 100_tokens}, {.order = {.bypass = {.passes = 5}}}};
  auto const runs = gate.submit(ask(60)).ticket;
  step(gate);
  gate.submit(ask(50, 0, 1));
  std::uint64_t passed = 0;
  for (int now = 0; now < 50; ++now) {
    for (int i = 0; i < 3; ++i) gate.submit(ask(2, 0, 2));
    auto const plan = step(gate);
    passed += plan.admit.size();
    for (auto const& one : plan.admit) gate.finish(one.ticket());
  }
  REQUIRE(passed == 5);
  gate.finish(runs);
  REQUIRE(step(gate).admit[0].tag == 1);
}

TEST_CASE("C.9: where shorter or more urgent ones come for ever, everybody starts in the end") {  // 85, 90
  auto const waits = [](auto order, Request request, Request crowd) {
    AdmissionController<Parts<decltype(order)>> gate{{.capacity = 1'000_tokens, .max_running = 1}, {.order = order}};
    gate.submit(crowd);
    request.tag = 1;
    gate.submit(request);
    for (std::uint64_t steps = 1; steps < 1'000; ++steps) {
      gate.submit(crowd);
      auto const plan = step(gate);
      REQUIRE(plan.admit.size() == 1);
      if (plan.admit[0].tag == 1) return steps;
      gate.finish(plan.admit[0].ticket());
    }
    return std::uint64_t{1'000};
  };
  REQUIRE(waits(order::Shortest{.pace = 20_tokens}, ask(900), ask(10)) == 900 / 20 + 2);  // and two that were there
  REQUIRE(waits(order::Priority{.age = 7}, {.prompt = 10_tokens, .priority = 6}, ask(10)) == 6 * 7 + 2);
}

TEST_CASE("C.9: a long prompt does not stop those that decode, and takes the rest of each step") {  // 86
  Gate gate{{.capacity = 10'000_tokens, .tokens_per_step = 64_tokens, .chunk = 48_tokens}};
  for (std::uint64_t tag = 1; tag <= 3; ++tag) gate.submit(ask(10, 500, tag));
  step(gate);
  gate.submit(ask(5'000, 10, 9));
  for (int i = 0; i < 50; ++i) {
    auto const plan = step(gate);
    for (std::uint64_t tag = 1; tag <= 3; ++tag) REQUIRE(tokens_of(plan, tag) == 1_tokens);
    REQUIRE(tokens_of(plan, 9) == 48_tokens);
    if (i == 10) gate.submit(ask(10, 500, 4));  // a short one behind it starts with what its chunk leaves
    if (i > 10) REQUIRE(tokens_of(plan, 4) > 0_tokens);
  }
}

TEST_CASE("C.9: a preempted request keeps its place before all that come later, in every order") {  // 71, 87
  auto const next = [](auto order) {
    AdmissionController<Parts<decltype(order)>> gate{{.capacity = 20_tokens, .tenants = 2}, {.order = order}};
    gate.submit({.prompt = 10_tokens, .max_new = 10_tokens, .tag = 1});
    gate.submit({.prompt = 10_tokens, .max_new = 10_tokens, .tag = 2, .priority = 5});
    step(gate);
    REQUIRE(tags(step(gate).preempt) == Tags{2});
    gate.submit({.prompt = 2_tokens, .tag = 3, .tenant = 1, .priority = -5});
    gate.finish(first);
    return tags(step(gate).admit);
  };
  Tags const expected{2, 3};
  REQUIRE(next(order::Arrival{}) == expected);
  REQUIRE(next(order::Priority{}) == expected);
  REQUIRE(next(order::Shortest{}) == expected);
  REQUIRE(next(order::FairShare{}) == expected);
}

TEST_CASE("C.9: newcomers take no room from under a preempted request") {  // 74, 88
  Gate gate{{.capacity = 20_tokens}};
  gate.submit(ask(10, 10, 1));
  gate.submit(ask(10, 10, 2));
  gate.submit(ask(2, 0, 3));  // would fit into what the second gives back
  step(gate);
  auto const plan = step(gate);
  REQUIRE(tags(plan.preempt) == Tags{2});
  REQUIRE(plan.admit.empty());
  REQUIRE_FALSE(gate.admit_next());
  REQUIRE(gate.plan().admit.empty());
  for (std::uint64_t tag = 4; tag <= 6; ++tag) {
    gate.submit(ask(2, 0, tag));
    REQUIRE(step(gate).admit.empty());
  }
  gate.finish(first);
  REQUIRE(tags(step(gate).admit) == Tags{2, 3, 4, 5, 6});
  REQUIRE(gate.queued() == 0);
}

TEST_CASE("C.9: preemptions leave no caution behind, so that those who come later are served as if they had never been") {  // 89
  auto const steps = [](std::uint64_t crowd) {
    RecommendedGate gate{{.capacity = 30_blocks, .footprint = paged(4_tokens)}};
    for (std::uint64_t i = 0; i < crowd; ++i) gate.submit(served(20, 40));
    serve(gate, 20'000);
    REQUIRE((gate.account(0).preempted > 0) == (crowd > 0));
    for (int i = 0; i < 30; ++i) gate.submit(served(30, 10));
    return serve(gate, 1'000);
  };
  REQUIRE(steps(30) == steps(0));
}

TEST_CASE("C.9: whoever waits beside an empty pool is told which limit it is") {  // 90
  struct Case {
    AdmissionLimits limits;
    std::string field;
  };
  for (auto const& [limits, field] :
       {Case{{.capacity = 10'000_tokens, .max_running = 1}, ".max_running"}, Case{{.capacity = 10'000_tokens, .class_limits = {{.running = 1}}}, ".running"},
        Case{{.capacity = 10'000_tokens, .class_limits = {{.tokens = 19_tokens}}}, ".tokens"}, Case{{.capacity = 10'000_tokens, .adapters = 1}, ".adapters"},
        Case{{.capacity = 10'000_tokens, .tokens_per_step = 10_tokens}, ".tokens_per_step"}}) {
    Gate gate{limits};
    gate.submit({.prompt = 10_tokens, .adapter = 1});
    step(gate);
    auto const ticket = gate.submit({.prompt = 10_tokens, .adapter = 2}).ticket;
    REQUIRE(std::string{gate.why(ticket).field} == field);
  }
}

TEST_CASE("C.9: where nobody else may give way the asker does, and nothing is stuck") {  // 93
  for (auto const regain : {0_tokens, 1_tokens}) {
    Gate gate{{.capacity = 30_tokens}, {.preemption = {.regain = regain}}};
    gate.submit(ask(10, 10));
    auto const held = gate.submit(ask(10, 10)).ticket;
    gate.submit(remote(10, 10));
    auto leases = admit_all(gate);
    gate.hold(held);
    REQUIRE(leases[0].grow(1_tokens).reason == Reason::preempted);
    REQUIRE(gate.running() == 2);
  }
}

TEST_CASE("C.9: a short class with a floor starts beside documents that fill the pool") {  // 85, 92
  Gate gate{{.capacity = 1'000_tokens, .classes = 2, .class_limits = {{.floor = 100_tokens}}}, {.order = {.bypass = unbounded_bypass}}};
  gate.submit(of_class(0, 80, 0, 1));
  for (std::uint64_t tag = 2; tag <= 30; ++tag) gate.submit(of_class(1, 90, 0, tag));
  auto const plan = step(gate);
  gate.finish(first);
  for (int i = 0; i < 20; ++i) {
    auto const ticket = gate.submit(of_class(0, 80, 0, 100)).ticket;
    REQUIRE(gate.why(ticket).reason == Reason::in_queue);
    REQUIRE(tags(step(gate).admit) == Tags{100});
    gate.finish(ticket);
  }
}

// ---- C.10 metrics ----

TEST_CASE("C.10: what is computed again is neither useful nor found, so that preemption makes no hit rate") {  // 94, 97
  auto const counted = [](Keep keep, std::uint64_t tokens) {
    Gate gate{{.capacity = Tokens{tokens}}, {.preemption = {.keep = keep}}};
    for (int i = 0; i < 8; ++i) gate.found(gate.submit(served(12, 20)).ticket, {.idle = 3_blocks});
    serve(gate, 10'000);
    return gate.account(0);
  };
  auto const calm = counted(Keep::nothing, 1'000);
  REQUIRE(calm.preempted == 0);
  REQUIRE(calm.recomputed_tokens == 0_tokens);
  for (auto const keep : {Keep::nothing, Keep::as_cache, Keep::on_host}) {
    auto const pressed = counted(keep, 40);
    REQUIRE(pressed.preempted > 0);
    REQUIRE(pressed.useful_tokens == calm.useful_tokens);
    REQUIRE(pressed.found_tokens == calm.found_tokens);
    REQUIRE((pressed.recomputed_tokens > 0_tokens) == (keep != Keep::on_host));
    REQUIRE(pressed.recomputed_per_million() == pressed.recomputed_tokens.count * 1'000'000 / calm.useful_tokens.count);
  }
}

TEST_CASE("C.10: hits that are told twice, plans that are abandoned and questions are counted once or not at all") {  // 95
  Gate gate{{.capacity = 10_blocks, .footprint = paged(block)}};
  auto const ticket = gate.submit(ask(96)).ticket;
  for (int i = 0; i < 3; ++i) {
    gate.found(ticket, {.idle = 3_blocks});
    auto const plan = gate.plan();
    gate.why(ticket);
    gate.more_of(ask(10));
  }
  REQUIRE(gate.account(0).found_tokens == 0_tokens);
  REQUIRE(gate.account(0).steps_waited == 0);
  step(gate);
  REQUIRE(gate.account(0).found_tokens == 48_tokens);
  REQUIRE(gate.account(0).admitted == 1);
  gate.submit(ask(160));
  for (int i = 0; i < 3; ++i) REQUIRE(gate.commit(gate.plan()));
  step(gate);
  REQUIRE(gate.account(0).steps_waited == 1);
}

TEST_CASE("C.10: counters only rise, and gauges are what is there") {  // 96
  auto const keep = GENERATE(Keep::nothing, Keep::as_cache);
  std::mt19937_64 random{20'261'206};
  Gate gate{{.capacity = 40_blocks, .footprint = paged(4_tokens), .max_live = 20}, {.preemption = {.keep = keep}}};
  std::vector<Gate::Lease> leases;
  ClassAccount before = gate.account(0);
  Tokens computed{};
  for (std::uint64_t now = 1; now < 4'000; ++now) {
    gate.begin_step(now);
    gate.submit(ask(1 + random() % 40, random() % 40));
    std::erase_if(leases, [&](auto& lease) { return lease.ended() || random() % 16 == 0; });
    for (auto& lease : leases) {
      Tokens const had = lease.tokens();
      lease.grow(Tokens{random() % 3});
      computed += lease.tokens() - had;
    }
    while (auto lease = gate.admit_next()) {
      computed += lease.tokens();
      leases.push_back(std::move(lease));
    }
    ClassAccount const& after = gate.account(0);
    for (auto const counter : {&ClassAccount::submitted, &ClassAccount::admitted, &ClassAccount::ever_waited, &ClassAccount::steps_waited,
                               &ClassAccount::completed, &ClassAccount::preempted, &ClassAccount::preempted_for})
      REQUIRE(after.*counter >= before.*counter);
    for (auto const counter : {&ClassAccount::useful_tokens, &ClassAccount::found_tokens, &ClassAccount::recomputed_tokens})
      REQUIRE(after.*counter >= before.*counter);
    REQUIRE(after.evicted_blocks >= before.evicted_blocks);
    if (keep == Keep::nothing) REQUIRE(after.useful_tokens + after.recomputed_tokens == computed);
    before = after;
    Tokens tokens{};
    for (auto const& lease : leases) tokens += lease.tokens();
    REQUIRE(after.active_tokens == tokens);
    REQUIRE(after.active_requests == gate.running());
    REQUIRE(after.queued_requests == gate.queued());
    REQUIRE(after.tokens_held == gate.pool().block * gate.pool().held.count);
    REQUIRE(after.ever_waited <= after.submitted);
  }
  REQUIRE(before.preempted > 100);
  REQUIRE(before.recomputed_tokens > 0_tokens);
}

TEST_CASE("C.10: of one that is given up the tokens it held are counted in every step once") {  // 96
  for (auto const size : {1_tokens, block}) {
    Gate gate{{.capacity = 1'600_tokens, .footprint = paged(size)}};
    for (std::uint64_t now = 1; now <= 3; ++now) gate.begin_step(now);
    gate.submit(ask(16, 100));
    auto lease = gate.admit_next();
    std::uint64_t wasted = 0;
    for (std::uint64_t now = 4; now <= 50; ++now) {
      wasted += gate.account(0).tokens_held.count;
      gate.begin_step(now);
      lease.grow(Tokens{now % 3});
    }
    lease.cancel();
    REQUIRE(gate.account(0).wasted_token_steps == wasted);
  }
}

TEST_CASE("C.10: a preemption counts for the class that lost by it and for the class that gained") {
  Gate gate{{.capacity = 20_tokens, .classes = 2}};
  gate.submit(of_class(1, 10, 10));
  gate.submit(of_class(0, 10, 10));
  step(gate);
  step(gate);
  REQUIRE(gate.account(0).preempted == 1);
  REQUIRE(gate.account(0).preempted_for == 0);
  REQUIRE(gate.account(1).preempted == 0);
  REQUIRE(gate.account(1).preempted_for == 1);
}

TEST_CASE("C.10: every number is told with the pool and the block it counts") {  // 98
  AdmissionLimits const limits{
      .capacity = 10_blocks, .footprint = {.groups = {full_group(block), full_group(4_tokens, 1)}}, .more_pools = {{.capacity = 9_blocks, .name = "index"}}};
  Gate gate{limits};
  REQUIRE(gate.submit(ask(37)).block == 4_tokens);
  gate.submit(ask(30));
  step(gate);
  auto const verdict = gate.why(gate.submit(ask(30)).ticket);
  REQUIRE(verdict.block == 4_tokens);
  REQUIRE(std::string{verdict.pool_name} == "index");
  REQUIRE(verdict.needed == 8_blocks);
  REQUIRE(verdict.limit == 9_blocks);
}

TEST_CASE("C.10: what growth lacked is told with the pool and the block it counts, too") {  // 98
  AdmissionLimits const limits{
      .capacity = 10_blocks, .footprint = {.groups = {full_group(block), full_group(4_tokens, 1)}}, .more_pools = {{.capacity = 9_blocks, .name = "index"}}};
  Gate gate{limits};
  gate.submit(ask(16, 4));
  gate.submit(ask(20));
  auto leases = admit_all(gate);
  auto const verdict = leases[0].grow(1_tokens);
  REQUIRE(verdict.block == 4_tokens);
  REQUIRE(std::string{verdict.pool_name} == "index");
  REQUIRE(verdict.needed == 1_blocks);
  REQUIRE(verdict.free == 0_blocks);
}

TEST_CASE("C.10: of cache that was taken in part its beginning is found, and nothing behind a gap") {  // 99
  for (std::uint64_t taken = 0; taken <= 6; ++taken) {
    Gate gate{{.capacity = 20_blocks, .footprint = paged(block)}, {.preemption = {.keep = Keep::as_cache}}};
    gate.submit(ask(16 * 14, 96, 1));
    gate.submit(ask(16 * 6, 16, 2));
    step(gate);
    gate.generated(first, Tokens{16 * taken});
    REQUIRE(tags(step(gate).preempt) == Tags{2});
    gate.finish(first);
    auto const plan = step(gate);
    Blocks const lost = min(Blocks{taken + 1}, 6_blocks);
    REQUIRE(plan.admit[0].found == block * (6_blocks - lost).count);
    REQUIRE(gate.account(0).evicted_blocks == lost);
  }
}
