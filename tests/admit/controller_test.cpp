#include "catch.hpp"

#include <kvbudget/admit/policies/guaranteed_no_evict.hpp>
#include <kvbudget/admit/policies/plain.hpp>
#include <kvbudget/admit/controller.hpp>

#include <functional>
#include <string>
#include <vector>

using namespace kvbudget;
using namespace kvbudget::literals;

namespace {

using PlainGate = AdmissionController<policies::Plain>;

enum class Kind { interactive, document };

template <class Gate>
std::vector<typename Gate::Lease> admit_all(Gate& gate) {
  std::vector<typename Gate::Lease> leases;
  while (auto lease = gate.admit_next()) leases.push_back(std::move(lease));
  return leases;
}

Request ask(std::uint64_t prompt, std::uint64_t max_new = 0) { return {.prompt = {prompt}, .max_new = {max_new}}; }
Request of_class(std::uint32_t index, std::uint64_t prompt) { return {.prompt = {prompt}, .request_class = index}; }

constexpr policies::Plain scan_on{.order = {.bypass = unbounded_bypass}};

}  // namespace

TEST_CASE("a request larger than the pool is refused at submit and not queued, an equal one is accepted") {
  PlainGate gate{{.capacity = 100_tokens}};
  REQUIRE(gate.submit(ask(99)).queued());
  REQUIRE(gate.submit(ask(100)).queued());
  auto const verdict = gate.submit(ask(101));
  REQUIRE(verdict.rejected());
  REQUIRE(verdict.reason == Reason::exceeds_capacity);
  REQUIRE(verdict.needed == 101_blocks);
  REQUIRE(verdict.limit == 100_blocks);
  REQUIRE(gate.queued() == 2);
}

TEST_CASE("what can never fit counts max_new, look-ahead and branches, rounded up to blocks") {
  auto const submit = [](Request const& request) { return AdmissionController{{.capacity = 10_blocks, .footprint = paged(16_tokens)}}.submit(request).reason; };
  REQUIRE(submit({.prompt = 100_tokens, .max_new = 60_tokens}) == Reason::in_queue);
  REQUIRE(submit({.prompt = 100_tokens, .max_new = 61_tokens}) == Reason::exceeds_capacity);
  REQUIRE(submit({.prompt = 100_tokens, .max_new = 56_tokens, .lookahead = 4_tokens}) == Reason::in_queue);
  REQUIRE(submit({.prompt = 100_tokens, .max_new = 57_tokens, .lookahead = 4_tokens}) == Reason::exceeds_capacity);
  REQUIRE(submit({.prompt = 160_tokens, .lookahead = 4_tokens}) == Reason::in_queue);                       // max_new 0: the prompt alone
  REQUIRE(submit({.prompt = 96_tokens, .max_new = 32_tokens, .branches = 2}) == Reason::in_queue);          // 6 shared + 2 x 2
  REQUIRE(submit({.prompt = 96_tokens, .max_new = 33_tokens, .branches = 2}) == Reason::exceeds_capacity);  // 6 shared + 2 x 3
  REQUIRE(submit({.prompt = Tokens::max(), .max_new = 1_tokens}) == Reason::exceeds_capacity);
  REQUIRE(submit({.prompt = 1_tokens, .max_new = Tokens::max()}) == Reason::exceeds_capacity);
}

TEST_CASE("max_new is cut to the longest sequence, and a prompt as long as that generates nothing") {
  AdmissionController gate{{.capacity = 100_tokens, .max_length = 100_tokens}};
  REQUIRE(gate.submit(ask(99, 50)).needed == 100_blocks);
  REQUIRE(gate.submit(ask(100, 50)).needed == 100_blocks);
  REQUIRE(gate.submit(ask(101, 50)).reason == Reason::bad_request);
}

TEST_CASE("headroom rounds up, is kept free by admission, and is waived when nothing runs") {
  PlainGate gate{{.capacity = 8_blocks, .headroom = 5_percent, .footprint = paged(16_tokens)}};
  REQUIRE(gate.pool().headroom == 1_blocks);
  gate.submit(ask(128));  // all 8 blocks: may start alone
  auto whole = gate.admit_next();
  REQUIRE(whole);
  whole.finish();
  gate.submit(ask(16));
  gate.submit(ask(96));  // 6 of the 7 left, and 1 stays free
  gate.submit(ask(1));
  auto leases = admit_all(gate);
  REQUIRE(leases.size() == 2);
  REQUIRE(gate.pool().supply.available() == 1_blocks);
}

TEST_CASE("the verdict names the headroom, the room or the head that keeps a request waiting, with the numbers") {
  PlainGate gate{{.capacity = 100_tokens, .headroom = 10_tokens}};
  gate.submit(ask(50));
  auto const near = gate.submit(ask(45)).ticket;
  auto const far = gate.submit(ask(60)).ticket;
  auto const small = gate.submit(ask(5)).ticket;
  auto leases = admit_all(gate);
  REQUIRE(leases.size() == 1);
  REQUIRE(gate.why(leases[0].ticket()).reason == Reason::running);
  auto const verdict = gate.why(near);
  REQUIRE(verdict.reason == Reason::headroom);
  REQUIRE(verdict.needed == 45_blocks);
  REQUIRE(verdict.free == 50_blocks);
  REQUIRE(verdict.headroom == 10_blocks);
  REQUIRE(verdict.limit == 100_blocks);
  REQUIRE(verdict.pool == 0);
  REQUIRE(std::string{verdict.pool_name} == "cache");
  REQUIRE(gate.why(far).reason == Reason::no_room);
  REQUIRE(gate.why(small).reason == Reason::behind_head);
  REQUIRE(gate.why(Ticket{}).reason == Reason::unknown_ticket);
}

TEST_CASE("strict order stops at the head that does not fit, scan-on starts a later one that does") {
  AdmissionLimits const limits{.capacity = 12'000_tokens};
  PlainGate strict{limits};
  PlainGate scanning{limits, scan_on};
  for (auto const tokens : {8'000, 5'000, 2'000, 1'500, 4'000}) {
    strict.submit(ask(std::uint64_t(tokens)));
    scanning.submit(ask(std::uint64_t(tokens)));
  }
  REQUIRE(admit_all(strict).size() == 1);
  auto const leases = admit_all(scanning);
  REQUIRE(leases.size() == 3);
  REQUIRE(leases[1].tokens() == 2'000_tokens);
  REQUIRE(leases[2].tokens() == 1'500_tokens);
}

TEST_CASE("a lease's end frees its room at once, however it ends") {
  PlainGate gate{{.capacity = 100_tokens, .classes = 2}};
  auto const give = [&] {
    gate.submit({.prompt = 100_tokens, .request_class = Kind::document});
    return gate.admit_next();
  };
  {
    auto lease = give();
    REQUIRE(gate.pool().supply.available() == 0_blocks);
  }
  REQUIRE(gate.pool().supply.available() == 100_blocks);
  auto lease = give();
  lease.finish();
  REQUIRE(lease.ended());
  lease.finish();
  lease.cancel();
  REQUIRE(gate.pool().supply.available() == 100_blocks);
  lease = give();
  lease.cancel();
  REQUIRE(gate.pool().supply.available() == 100_blocks);
  lease = give();
  auto const ticket = lease.ticket();
  REQUIRE(gate.cancel(ticket));
  REQUIRE(lease.ended());
  REQUIRE_FALSE(gate.cancel(ticket));
  REQUIRE_FALSE(gate.finish(ticket));
  lease = give();
  lease = {};  // assigning over a lease ends it
  REQUIRE(gate.pool().supply.available() == 100_blocks);
  auto const& account = gate.account(Kind::document);
  REQUIRE(account.completed == 3);
  REQUIRE(account.cancelled == 2);
  REQUIRE(account.active_requests == 0);
  REQUIRE(gate.account(Kind::interactive).submitted == 0);
}

TEST_CASE("a moved lease carries its right along") {
  PlainGate gate{{.capacity = 10_tokens}};
  gate.submit(ask(5, 5));
  std::vector<decltype(gate)::Lease> leases;
  leases.push_back(gate.admit_next());
  for (int i = 0; i < 100; ++i) leases.emplace_back();  // the vector moves its leases
  REQUIRE(leases[0].grow(2_tokens).admitted());
  auto other = std::move(leases[0]);
  REQUIRE(leases[0].ended());
  REQUIRE(other.tokens() == 7_tokens);
  REQUIRE(gate.cancel(other.ticket()));
  REQUIRE(other.ended());
}

TEST_CASE("growth takes a block when it crosses one, uses the headroom, and never passes prompt + max_new") {
  PlainGate gate{{.capacity = 4_blocks, .headroom = 1_blocks, .footprint = paged(16_tokens)}};
  gate.submit(ask(16, 48));
  gate.submit(ask(16, 16));
  auto leases = admit_all(gate);
  REQUIRE(leases.size() == 2);
  for (int i = 0; i < 16; ++i) REQUIRE(leases[0].grow(1_tokens).reason == Reason::grown);
  REQUIRE(gate.pool().supply.available() == 1_blocks);
  REQUIRE(leases[0].grow(1_tokens).reason == Reason::grown);  // the headroom
  REQUIRE(gate.pool().supply.available() == 0_blocks);
  leases[1].finish();
  auto const verdict = leases[0].grow(1'000_tokens);
  REQUIRE(verdict.reason == Reason::past_max_new);
  REQUIRE(verdict.needed == 1'000_blocks);
  REQUIRE(verdict.free == 31_blocks);
  REQUIRE(leases[0].tokens() == 64_tokens);
  REQUIRE(leases[0].grow(1_tokens).reason == Reason::past_max_new);
  REQUIRE(leases[0].tokens() == 64_tokens);
}

TEST_CASE("growth past the room preempts the newest, which returns to the front with all it held as its next need") {
  PlainGate gate{{.capacity = 100_tokens}};
  gate.begin_step(1);
  gate.submit(ask(40, 50));
  gate.submit(ask(30, 50));
  gate.submit(ask(25, 50));
  auto leases = admit_all(gate);
  auto const waiting = gate.submit(ask(1)).ticket;
  gate.begin_step(2);
  REQUIRE(leases[2].grow(2_tokens).admitted());
  REQUIRE(leases[0].grow(10_tokens).admitted());
  REQUIRE(leases[2].ended());
  REQUIRE(leases[2].grow(1_tokens).reason == Reason::ended);
  REQUIRE(leases[2].tokens() == 0_tokens);
  REQUIRE_FALSE(leases[1].ended());
  REQUIRE(gate.why(leases[2].ticket()).needed == 27_blocks);
  REQUIRE(gate.why(waiting).reason == Reason::yielding);  // nothing starts in a step that preempted
  REQUIRE_FALSE(gate.admit_next());
  gate.begin_step(3);
  REQUIRE_FALSE(gate.admit_next());  // 20 are free, the preempted request in front needs 27
  leases[1].finish();
  auto again = gate.admit_next();
  REQUIRE(again.ticket() == leases[2].ticket());
  REQUIRE(again.tokens() == 27_tokens);
  REQUIRE(leases[2].ended());  // the old lease stays ended
  auto const& account = gate.account(0);
  REQUIRE(account.preempted == 1);
  REQUIRE(account.recomputed_tokens == 27_tokens);
  REQUIRE(account.admitted == 4);
  leases[0].finish();
  REQUIRE(again.grow(48_tokens).admitted());
  REQUIRE(again.grow(1_tokens).reason == Reason::past_max_new);  // prompt 25 + max_new 50
}

TEST_CASE("the asker is a victim like any other, and nobody else loses work for an asker that must yield itself") {
  PlainGate gate{{.capacity = 12_tokens}};
  gate.submit(ask(5, 7));
  gate.submit(ask(4, 8));
  gate.submit(ask(3, 8));
  auto leases = admit_all(gate);
  SECTION("the newest asks") {
    auto const verdict = leases[2].grow(1_tokens);
    REQUIRE(verdict.reason == Reason::preempted);
    REQUIRE(verdict.queued());
    REQUIRE(leases[2].ended());
    REQUIRE(gate.running() == 2);
  }
  SECTION("what the newer ones hold is not enough") {
    REQUIRE(leases[1].grow(4_tokens).reason == Reason::preempted);
    REQUIRE(leases[1].ended());
    REQUIRE_FALSE(leases[2].ended());
  }
  SECTION("several yield when it takes several") {
    REQUIRE(leases[0].grow(5_tokens).reason == Reason::grown);
    REQUIRE(leases[1].ended());
    REQUIRE(leases[2].ended());
    gate.begin_step(1);
    leases[0].finish();
    auto again = admit_all(gate);
    REQUIRE(again[0].ticket() == leases[1].ticket());  // their order is kept
    REQUIRE(again[1].ticket() == leases[2].ticket());
  }
}

TEST_CASE("a preempted request can be cancelled or finished, and its place is free") {
  PlainGate gate{{.capacity = 10_tokens, .max_live = 2}};
  gate.submit(ask(5, 5));
  gate.submit(ask(5, 5));
  auto leases = admit_all(gate);
  leases[0].grow(1_tokens);
  REQUIRE(leases[1].ended());
  REQUIRE(gate.submit(ask(1)).reason == Reason::queue_full);  // the preempted request keeps its place
  REQUIRE((GENERATE(false, true) ? gate.cancel(leases[1].ticket()) : gate.finish(leases[1].ticket())));
  REQUIRE(gate.submit(ask(1)).queued());
  REQUIRE(gate.account(0).queued_requests == 1);
  REQUIRE(gate.balanced());
}

TEST_CASE("tickets of done requests are stale, also when their slot is used again") {
  PlainGate gate{{.capacity = 10_tokens, .max_live = 1}};
  auto const first = gate.submit(ask(1)).ticket;
  gate.cancel(first);
  auto const second = gate.submit(ask(1)).ticket;
  REQUIRE(first.slot == second.slot);
  REQUIRE_FALSE(gate.cancel(first));
  REQUIRE(gate.queued() == 1);
  REQUIRE(gate.why(first).reason == Reason::unknown_ticket);
}

TEST_CASE("look-ahead is held from the start and charged once") {
  PlainGate gate{{.capacity = 100_tokens}};
  gate.submit({.prompt = 10_tokens, .max_new = 5_tokens, .lookahead = 3_tokens});
  auto lease = gate.admit_next();
  REQUIRE(gate.pool().held == 13_blocks);
  REQUIRE(gate.account(0).active_tokens == 10_tokens);
  REQUIRE(gate.account(0).tokens_held == 13_tokens);
  lease.grow(5_tokens);
  REQUIRE(gate.pool().held == 18_blocks);
}

TEST_CASE("several pools: the one that binds is named, and a sequence slot is a pool like any other") {
  AdmissionLimits const limits{.capacity = 100_blocks,
                               .footprint = {.groups = {full_group(16_tokens), fixed_group(1_blocks, 1)}},
                               .more_pools = {{.capacity = 2_blocks, .name = "running requests"}}};
  REQUIRE(check(limits).empty());
  PlainGate gate{limits};
  for (int i = 0; i < 3; ++i) gate.submit(ask(16));
  auto leases = admit_all(gate);
  REQUIRE(leases.size() == 2);
  auto const third = gate.submit(ask(16)).ticket;
  leases.push_back(gate.admit_next());
  auto const verdict = gate.why(third);
  REQUIRE(verdict.pool == 1);
  REQUIRE(std::string{verdict.pool_name} == "running requests");
  REQUIRE(verdict.needed == 1_blocks);
  REQUIRE(verdict.free == 0_blocks);
  REQUIRE(gate.submit({.prompt = 16_tokens, .branches = 3}).reason == Reason::exceeds_capacity);
  leases.clear();
  REQUIRE(gate.balanced());
}

TEST_CASE("a windowed footprint stops growing past its window") {
  PlainGate gate{{.capacity = 200_blocks, .footprint = {.groups = {window_group(64_tokens, 16_tokens)}, .in_flight = 64_tokens}}};
  REQUIRE(gate.submit(ask(100'000, 100'000)).queued());
  auto lease = gate.admit_next();
  REQUIRE(gate.pool().held == 9_blocks);
  for (int i = 0; i < 1'000; ++i) REQUIRE(lease.grow(1_tokens).admitted());
  REQUIRE(gate.pool().held == 9_blocks);
}

TEST_CASE("waits are counted by step, and each request that waited once") {
  PlainGate gate{{.capacity = 10_tokens, .classes = 2}};
  gate.begin_step(1);
  gate.submit({.prompt = 10_tokens, .request_class = Kind::interactive});
  gate.submit({.prompt = 10_tokens, .request_class = Kind::document});
  auto leases = admit_all(gate);
  admit_all(gate);  // asking again in the same step is not another wait
  REQUIRE(gate.account(Kind::interactive).ever_waited == 0);
  REQUIRE(gate.account(Kind::document).ever_waited == 1);
  REQUIRE(gate.account(Kind::document).steps_waited == 1);
  gate.submit({.prompt = 1_tokens, .request_class = Kind::document});  // after this step's admission
  for (std::uint64_t step = 2; step < 5; ++step) {
    gate.begin_step(step);
    admit_all(gate);
  }
  REQUIRE(gate.account(Kind::document).ever_waited == 2);
  REQUIRE(gate.account(Kind::document).steps_waited == 1 + 3 * 2);
  gate.begin_step(5);  // a step that never asks lets everybody wait, too
  gate.begin_step(6);
  REQUIRE(gate.account(Kind::document).steps_waited == 1 + 4 * 2);
  leases.clear();
  leases = admit_all(gate);
  leases.clear();
  leases = admit_all(gate);
  REQUIRE(gate.account(Kind::document).ever_waited == 2);
  REQUIRE(gate.account(Kind::document).admitted == 2);
}

TEST_CASE("accounts are kept by the caller's own classes") {
  PlainGate gate{{.capacity = 1'000_tokens, .classes = 2}};
  gate.submit({.prompt = 100_tokens, .max_new = 10_tokens, .request_class = Kind::interactive});
  gate.submit({.prompt = 50_tokens, .max_new = 10_tokens, .request_class = Kind::interactive});
  gate.submit({.prompt = 800_tokens, .max_new = 10_tokens, .request_class = Kind::document});
  gate.submit({.prompt = 800_tokens, .request_class = Kind::document});
  gate.submit({.prompt = 8'000_tokens, .request_class = Kind::document});
  auto leases = admit_all(gate);
  leases[0].grow(10_tokens);
  auto const& interactive = gate.account(Kind::interactive);
  auto const& document = gate.account(Kind::document);
  REQUIRE(interactive.active_requests == 2);
  REQUIRE(interactive.active_tokens == 160_tokens);
  REQUIRE(interactive.tokens_per_request() == 80_tokens);
  REQUIRE(document.active_tokens == 800_tokens);
  REQUIRE(document.queued_requests == 1);
  REQUIRE(document.queued_tokens == 800_tokens);
  REQUIRE(document.submitted == 3);
  REQUIRE(document.rejected_for(Reason::exceeds_capacity) == 1);
  REQUIRE(document.rejected_in_all() == 1);
  REQUIRE(gate.held(Kind::interactive) == 160_blocks);
  REQUIRE(gate.held(Kind::document) == 800_blocks);
  leases.clear();
  REQUIRE(interactive.peak_active_tokens() == 160_tokens);
  REQUIRE(interactive.peak_active_requests() == 2);
  REQUIRE(interactive.active_tokens == 0_tokens);
  REQUIRE(interactive.completed == 2);
}

TEST_CASE("bad requests are rejected with the field, and accounted for") {
  PlainGate gate{{.capacity = 100_tokens, .classes = 2}};
  auto const unknown = gate.submit({.prompt = 1_tokens, .request_class = 2});
  REQUIRE(unknown.reason == Reason::unknown_class);
  REQUIRE(std::string{unknown.field} == ".request_class");
  REQUIRE(gate.submit({.prompt = 1_tokens, .request_class = -1}).reason == Reason::unknown_class);
  REQUIRE(gate.account(2).rejected_for(Reason::unknown_class) == 2);
  REQUIRE(std::string{gate.submit({}).field} == ".prompt");
  REQUIRE(std::string{gate.submit({.prompt = 1_tokens, .branches = 0}).field} == ".branches");
  REQUIRE(gate.account(0).rejected_for(Reason::bad_request) == 2);
  REQUIRE(unknown.needed == 2_blocks);
  REQUIRE(unknown.limit == 2_blocks);
  REQUIRE(gate.queued() == 0);
}

TEST_CASE("bad limits are listed, and a controller built on them rejects everything with the field") {
  struct Case {
    AdmissionLimits limits;
    std::string field;
  };
  auto const bad = GENERATE(
      Case{{}, ".capacity"}, Case{{.capacity = 0_tokens}, ".capacity"}, Case{{.capacity = Tokens::max()}, ".capacity"},
      Case{{.capacity = 100_tokens, .headroom = 100_tokens}, ".headroom"}, Case{{.capacity = 100_tokens, .headroom = 100_percent}, ".headroom"},
      Case{{.capacity = 100_tokens, .headroom = Percent{-1}}, ".headroom"}, Case{{.capacity = 100_tokens, .classes = 0}, ".classes"},
      Case{{.capacity = 100_tokens, .classes = 4'000'000'000}, ".classes"}, Case{{.capacity = 100_tokens, .max_live = 0}, ".max_live"},
      Case{{.capacity = 100_tokens, .max_live = 4'000'000'000}, ".max_live"}, Case{{.capacity = 100_blocks}, ".footprint"},
      Case{{.capacity = 15_tokens, .footprint = paged(16_tokens)}, ".capacity"}, Case{{.capacity = 100_tokens, .footprint = paged(0_tokens)}, ".block"},
      Case{{.capacity = 100_blocks, .footprint = {.groups = {full_group(16_tokens), fixed_group(1_blocks, 1)}}}, ".more_pools"},
      Case{{.capacity = 100_tokens, .footprint = {.groups = {full_group(16_tokens), fixed_group(1_blocks)}}}, ".capacity"},
      Case{{.capacity = 100_blocks, .headroom = 1_tokens, .footprint = {.groups = {full_group(16_tokens), fixed_group(1_blocks)}}}, ".headroom"},
      Case{{.capacity = 100_blocks, .footprint = {.groups = {{.blocks_per_entry = 0}}}}, ".blocks_per_entry"},
      Case{{.capacity = 100_blocks, .footprint = {.groups = {fixed_group(0_blocks)}}}, ".fixed"},
      Case{{.capacity = 100_blocks, .footprint = {.groups = {full_group(1_tokens, 9)}}}, ".pool"},
      Case{{.capacity = 100_tokens, .more_pools = {{}, {}, {}, {}, {}, {}, {}, {}}}, ".more_pools"});
  REQUIRE_FALSE(check(bad.limits).empty());
  REQUIRE(std::string{check(bad.limits)[0].field} == bad.field);
  PlainGate gate{bad.limits};
  auto const verdict = gate.submit(ask(1));
  REQUIRE(verdict.reason == Reason::bad_limits);
  REQUIRE(std::string{verdict.field} == bad.field);
  REQUIRE(gate.account(0).rejected_for(Reason::bad_limits) == 1);
  REQUIRE_FALSE(gate.admit_next());
  REQUIRE_FALSE(gate.cancel(Ticket{}));
  gate.begin_step(1);
  REQUIRE(gate.pool().capacity == 0_blocks);
}

TEST_CASE("the bound on live requests counts queued and running ones") {
  PlainGate gate{{.capacity = 10_tokens, .max_live = 2}};
  gate.submit(ask(10));
  gate.submit(ask(10));
  auto leases = admit_all(gate);
  auto const full = gate.submit(ask(10));
  REQUIRE(full.reason == Reason::queue_full);
  REQUIRE(std::string{full.field} == ".max_live");
  REQUIRE(full.limit == 2_blocks);
  REQUIRE(gate.submit(ask(11)).reason == Reason::exceeds_capacity);  // what can never fit is said first
  leases.clear();
  REQUIRE(gate.submit(ask(10)).queued());
}

namespace {
struct Recorder {
  std::vector<Event>* events;
  void on(Event const& event) { events->push_back(event); }
};
}  // namespace

TEST_CASE("an observer is told of every change, in order") {
  std::vector<Event> events;
  {
    AdmissionController<policies::Plain, Counter, Recorder> gate{{.capacity = 10_tokens, .classes = 2}, {}, Recorder{&events}};
    gate.begin_step(7);
    gate.submit({.prompt = 5_tokens, .max_new = 5_tokens, .tag = 1});
    gate.submit({.prompt = 5_tokens, .max_new = 5_tokens, .request_class = Kind::document, .tag = 2});
    gate.submit({.prompt = 50_tokens, .tag = 3});
    auto leases = admit_all(gate);
    leases[0].grow(2_tokens);
    gate.cancel(leases[1].ticket());
  }
  auto const is = [&](std::size_t i, EventKind kind, std::uint64_t tag, Tokens before, Tokens after) {
    return events[i].kind == kind && events[i].tag == tag && events[i].before == before && events[i].after == after && events[i].now == 7;
  };
  REQUIRE(events.size() == 10);
  REQUIRE(events[4].ticket == events[1].ticket);
  REQUIRE(events[6].ticket == events[2].ticket);
  REQUIRE(events[6].request_class == RequestClass{Kind::document});
  REQUIRE(is(0, EventKind::step_begun, 0, 0_tokens, 0_tokens));
  REQUIRE(is(1, EventKind::submitted, 1, 0_tokens, 0_tokens));
  REQUIRE(is(2, EventKind::submitted, 2, 0_tokens, 0_tokens));
  REQUIRE(is(3, EventKind::rejected, 3, 0_tokens, 0_tokens));
  REQUIRE(is(4, EventKind::admitted, 1, 0_tokens, 5_tokens));
  REQUIRE(is(5, EventKind::admitted, 2, 0_tokens, 5_tokens));
  REQUIRE(is(6, EventKind::preempted, 2, 5_tokens, 0_tokens));
  REQUIRE(is(7, EventKind::grown, 1, 5_tokens, 7_tokens));
  REQUIRE(is(8, EventKind::cancelled, 2, 0_tokens, 0_tokens));
  REQUIRE(is(9, EventKind::completed, 1, 7_tokens, 0_tokens));
}

TEST_CASE("events give the reason and the pool, and only those who lost work are told so") {
  std::vector<Event> events;
  {
    AdmissionLimits const limits{
        .capacity = 100_blocks, .footprint = {.groups = {full_group(), full_group(1_tokens, 1)}}, .more_pools = {{.capacity = 12_blocks}}};
    AdmissionController<policies::Plain, Counter, Recorder> gate{limits, {}, Recorder{&events}};
    for (std::uint64_t const prompt : {5U, 4U, 3U}) gate.submit(ask(prompt, 7));
    gate.submit(ask(200));
    auto leases = admit_all(gate);
    leases[1].grow(4_tokens);  // what the newer one holds is not enough: the asker yields alone
    leases[0].grow(5_tokens);
  }
  std::vector<std::pair<EventKind, Reason>> seen;
  for (auto const& event : events) seen.emplace_back(event.kind, event.reason);
  using K = EventKind;
  REQUIRE(seen == std::vector<std::pair<EventKind, Reason>>{{K::submitted, Reason::in_queue},
                                                            {K::submitted, Reason::in_queue},
                                                            {K::submitted, Reason::in_queue},
                                                            {K::rejected, Reason::exceeds_capacity},
                                                            {K::admitted, Reason::fits_alone},
                                                            {K::admitted, Reason::fits},
                                                            {K::admitted, Reason::fits},
                                                            {K::preempted, Reason::preempted},
                                                            {K::preempted, Reason::preempted},
                                                            {K::grown, Reason::grown},
                                                            {K::completed, Reason::ended}});
  REQUIRE(events[7].pool == 1);
  REQUIRE(events[7].before == 4_tokens);
  REQUIRE(events[8].pool == 1);
  REQUIRE(events[9].after == 10_tokens);
}

namespace {
/// Somebody else's block manager: a pool of which others hold a part, and whose cached blocks may be taken.
struct Shared {
  struct Pool {
    Supply supply;
  };
  Pool* pool;
  Supply supply() const { return pool->supply; }
  bool take(Blocks blocks) {
    if (blocks > pool->supply.available()) return false;
    Blocks const from_clean = min(blocks, pool->supply.clean);
    pool->supply.clean -= from_clean;
    pool->supply.cached_idle -= blocks - from_clean;
    return true;
  }
  void give(Blocks blocks) { pool->supply.clean += blocks; }
};
}  // namespace

TEST_CASE("a source of one's own is the only count of its blocks") {
  Shared::Pool pool{{.clean = 3_blocks, .cached_idle = 4_blocks, .in_flight = 1_blocks}};
  AdmissionController gate{{.capacity = 8_blocks, .footprint = paged(1_tokens)}, policies::Plain{}, {Shared{&pool}}};
  gate.submit(ask(5));
  auto lease = gate.admit_next();
  REQUIRE(lease);
  REQUIRE(pool.supply.clean == 0_blocks);
  REQUIRE(pool.supply.cached_idle == 2_blocks);
  REQUIRE(gate.balanced());
  lease.finish();
  REQUIRE(pool.supply.clean == 5_blocks);
  AdmissionController wrong{{.capacity = 8_blocks, .footprint = paged(1_tokens)}, policies::Plain{}, {Shared{&pool}, Shared{&pool}}};
  REQUIRE(std::string{wrong.submit(ask(1)).field} == ".sources");
}

namespace {
struct OldestYields {
  bool yields_before(RunningView const& a, RunningView const& b) const { return a.admission < b.admission; }
};
struct WholeReservation {
  Tokens operator()(WaitingView const& waiting) const { return waiting.request.prompt + waiting.request.max_new; }
};
struct PageMore {
  Tokens operator()(WaitingView const& waiting) const { return waiting.known + 8_tokens; }
};
struct OneToken {
  Tokens operator()(WaitingView const&) const { return 1_tokens; }
};
struct TwoForEach {
  Blocks operator()(HeadroomView const& pool) const { return Blocks{2} * pool.running; }
};
template <class Need = need::WholePrompt, class Headroom = headroom::AsGiven, class Victim = victim::Newest>
struct Composed {
  Need need{};
  Headroom headroom{};
  order::Arrival order{};
  Victim victim{};
};
}  // namespace

TEST_CASE("a victim order of one's own decides who yields, and those stand in the queue in the order they were admitted in") {
  AdmissionController<Composed<need::WholePrompt, headroom::AsGiven, OldestYields>> gate{{.capacity = 15_tokens}};
  for (int i = 0; i < 3; ++i) gate.submit(ask(5, 10));
  auto leases = admit_all(gate);
  REQUIRE(leases[2].grow(7_tokens).admitted());
  REQUIRE(leases[0].ended());
  REQUIRE(leases[1].ended());
  leases[2].finish();
  gate.begin_step(1);
  auto again = admit_all(gate);
  REQUIRE(again[0].ticket() == leases[0].ticket());
  REQUIRE(again[1].ticket() == leases[1].ticket());
}

TEST_CASE("what a need reserves is held from the start, grown into for nothing, and given back whole") {
  AdmissionController<Composed<WholeReservation>> gate{{.capacity = 100_tokens}};
  gate.submit(ask(10, 50));
  gate.submit(ask(10, 50));
  auto leases = admit_all(gate);
  REQUIRE(leases.size() == 1);
  REQUIRE(gate.pool().held == 60_blocks);
  REQUIRE(gate.account(0).tokens_held == 60_tokens);
  REQUIRE(gate.account(0).active_tokens == 10_tokens);
  for (int i = 0; i < 50; ++i) REQUIRE(leases[0].grow(1_tokens).reason == Reason::grown);
  REQUIRE(gate.pool().held == 60_blocks);
  leases.clear();
  REQUIRE(gate.pool().held == 0_blocks);
  REQUIRE(gate.account(0).tokens_held == 0_tokens);
}

TEST_CASE("a need is at least the known tokens and at most prompt + max_new, so that a lone head always starts") {
  AdmissionController<Composed<PageMore>> more{{.capacity = 100_tokens}};
  more.submit(ask(95));
  auto lease = more.admit_next();
  REQUIRE(lease);
  REQUIRE(more.pool().held == 95_blocks);
  AdmissionController<Composed<OneToken>> less{{.capacity = 100_tokens}};
  less.submit(ask(40, 10));
  auto other = less.admit_next();
  REQUIRE(less.pool().held == 40_blocks);
}

TEST_CASE("the recommended policy leaves room for the next token of all that run, and for 2% of the pool") {
  AdmissionController<policies::Recommended> gate{{.capacity = 100_tokens}};
  for (int i = 0; i < 4; ++i) gate.submit(ask(30, 10));
  auto leases = admit_all(gate);
  REQUIRE(leases.size() == 3);  // 90 held, 3 for their next tokens, 2 of headroom
  REQUIRE(gate.next_step() == 3_blocks);
  gate.begin_step(1);
  for (auto& lease : leases) REQUIRE(lease.grow(1_tokens).reason == Reason::grown);
  leases.pop_back();
  gate.submit(ask(34, 1));  // 62 held, 2 next, 2 headroom: 34 is all there is
  gate.begin_step(2);
  REQUIRE_FALSE(gate.admit_next().tokens() == 34_tokens);  // the one that waits longer comes first
  AdmissionController<policies::Recommended> alone{{.capacity = 100_tokens}};
  alone.submit(ask(100, 0));
  REQUIRE(alone.admit_next());  // waived: nothing runs
}

TEST_CASE("in blocks, only those that stand at the end of a block take one in the next step") {
  AdmissionController<policies::Recommended> gate{{.capacity = 10_blocks, .footprint = paged(16_tokens)}};
  gate.submit(ask(16, 40));
  gate.submit(ask(17, 40));
  auto leases = admit_all(gate);
  REQUIRE(gate.next_step() == 1_blocks);
  leases[0].grow(1_tokens);
  REQUIRE(gate.next_step() == 0_blocks);
  for (int i = 0; i < 15; ++i) leases[1].grow(1_tokens);
  REQUIRE(gate.next_step() == 1_blocks);
  leases[1].finish();
  REQUIRE(gate.next_step() == 0_blocks);
}

TEST_CASE("with all that may come reserved, no growth ever fails and nobody is preempted") {
  AdmissionController<policies::GuaranteedNoEvict> gate{{.capacity = 40_blocks, .footprint = paged(4_tokens)}};
  for (std::uint64_t i = 0; i < 30; ++i) gate.submit(ask(5 + i % 7, 10 + i % 23));
  std::vector<decltype(gate)::Lease> running;
  for (std::uint64_t step = 0; gate.queued() + gate.running() != 0; ++step) {
    gate.begin_step(step);
    std::erase_if(running, [](auto& lease) { return lease.grow(1_tokens).reason == Reason::past_max_new; });
    while (auto lease = gate.admit_next()) running.push_back(std::move(lease));
    REQUIRE(step < 1'000);
  }
  REQUIRE(gate.account(0).completed == 30);
  REQUIRE(gate.account(0).preempted == 0);
}

TEST_CASE("who gives way: the least computed, the lowest class, or whose blocks cost least to compute again") {
  Request const high{.request_class = 0}, low{.request_class = 1};
  RunningView const old{high, 100_tokens, 1, 10_blocks}, young{high, 100_tokens, 2, 10_blocks}, small{high, 50_tokens, 1, 1_blocks},
      lowly{low, 500_tokens, 0, 10_blocks};
  REQUIRE(victim::LeastComputed{}.yields_before(small, young));
  REQUIRE(victim::LeastComputed{}.yields_before(young, old));
  REQUIRE_FALSE(victim::LeastComputed{}.yields_before(old, young));
  REQUIRE(victim::LowestClass{}.yields_before(lowly, young));
  REQUIRE_FALSE(victim::LowestClass{}.yields_before(young, lowly));
  REQUIRE(victim::LowestClass{}.yields_before(young, old));
  REQUIRE(victim::CheapestBlocks{}.yields_before(old, small));  // 10 tokens a block, beside 50
  REQUIRE(victim::CheapestBlocks{}.yields_before(young, old));
  REQUIRE(headroom::StepsTimesBatch{}({.given = 5_blocks, .capacity = 100_blocks, .running = 2}) == 16_blocks);
  REQUIRE(headroom::StepsTimesBatch{}({.given = 50_blocks, .capacity = 100_blocks, .running = 2}) == 50_blocks);
  REQUIRE(headroom::StepsTimesBatch{}({.given = 50_blocks, .capacity = 100_blocks, .running = 0}) == 0_blocks);
}

TEST_CASE("a request whose deadline is past leaves at the next step, from the queue or from its lease, and gives its room back") {
  PlainGate gate{{.capacity = 100_tokens}};
  gate.begin_step(10);
  Request late = ask(60, 10);
  late.deadline = 12;
  gate.submit(late);
  gate.submit(late);
  auto leases = admit_all(gate);
  REQUIRE(leases.size() == 1);
  gate.begin_step(12);
  REQUIRE_FALSE(leases[0].ended());
  gate.begin_step(13);
  REQUIRE(leases[0].ended());
  REQUIRE(gate.queued() == 0);
  REQUIRE(gate.pool().held == 0_blocks);
  REQUIRE(gate.account(0).expired == 2);
  REQUIRE(gate.account(0).wasted_token_steps == 60 * 2);  // it held 60 tokens over two steps for nothing
  REQUIRE(gate.submit(late).reason == Reason::expired);
  REQUIRE(std::string{gate.submit(late).field} == ".deadline");
  gate.begin_step(14);
  REQUIRE(gate.account(0).expired == 2);
}

TEST_CASE("a group is given up together, wherever its requests are, and group 0 is no group") {
  PlainGate gate{{.capacity = 100_tokens}};
  Request one = ask(40);
  one.group = 7;
  gate.submit(one);
  gate.submit(ask(40));
  gate.submit(one);
  auto leases = admit_all(gate);
  REQUIRE(leases.size() == 2);
  REQUIRE(gate.cancel_group(0) == 0);
  REQUIRE(gate.cancel_group(8) == 0);
  REQUIRE(gate.cancel_group(7) == 2);
  REQUIRE(leases[0].ended());
  REQUIRE_FALSE(leases[1].ended());
  REQUIRE(gate.queued() == 0);
  REQUIRE(gate.cancel_group(7) == 0);
}

TEST_CASE("a pool that shrinks below what is held says by how much, starts nothing, and lets growth take victims") {
  PlainGate gate{{.capacity = 100_tokens, .headroom = Percent{10}}};
  for (int i = 0; i < 3; ++i) gate.submit(ask(30, 10));
  gate.submit(ask(50, 20));
  gate.submit(ask(5, 0));
  auto leases = admit_all(gate);
  REQUIRE(leases.size() == 3);
  REQUIRE(gate.resize(60_tokens).empty());
  REQUIRE(gate.pool().overcommitted == 30_blocks);
  REQUIRE(gate.pool().headroom == 6_blocks);
  REQUIRE(gate.balanced());
  REQUIRE(gate.queued() == 1);  // 50 + 20 can never fit any more
  REQUIRE(gate.account(0).rejected_for(Reason::exceeds_capacity) == 1);
  gate.begin_step(1);
  REQUIRE_FALSE(gate.admit_next());
  REQUIRE(leases[0].grow(1_tokens).admitted());  // takes both newer ones: 30 over, and one more
  REQUIRE(leases[1].ended());
  REQUIRE(leases[2].ended());
  REQUIRE(gate.pool().overcommitted == 0_blocks);
  REQUIRE(gate.pool().held == 31_blocks);
  REQUIRE(gate.balanced());
  REQUIRE(gate.resize(100_tokens).empty());
  REQUIRE(gate.pool().headroom == 10_blocks);  // of the limits' share again: nothing has eroded
  REQUIRE(gate.submit(ask(50, 20)).queued());
}

TEST_CASE("a request that runs and can never fit any more is rejected when it is preempted, and does not block the queue") {
  PlainGate gate{{.capacity = 100_tokens}};
  gate.submit(ask(60, 30));
  auto leases = admit_all(gate);
  REQUIRE(gate.resize(50_tokens).empty());
  auto const verdict = leases[0].grow(1_tokens);
  REQUIRE(verdict.rejected());
  REQUIRE(verdict.reason == Reason::exceeds_capacity);
  REQUIRE(verdict.needed == 90_blocks);
  REQUIRE(verdict.limit == 50_blocks);
  REQUIRE(leases[0].ended());
  REQUIRE(gate.queued() == 0);
  REQUIRE(gate.account(0).rejected_for(Reason::exceeds_capacity) == 1);
  REQUIRE(gate.account(0).preempted == 1);
  gate.submit(ask(50));
  gate.begin_step(1);
  REQUIRE(gate.admit_next());
}

TEST_CASE("a bad capacity changes nothing") {
  PlainGate gate{{.capacity = 100_tokens, .headroom = 40_tokens}};
  REQUIRE(std::string{gate.resize(0_tokens)[0].field} == ".capacity");
  REQUIRE(std::string{gate.resize(40_tokens)[0].field} == ".headroom");
  REQUIRE(std::string{gate.resize(10_tokens, 1)[0].field} == ".pool");
  REQUIRE(gate.pool().capacity == 100_blocks);
  PlainGate hybrid{{.capacity = 10_blocks, .footprint = {.groups = {full_group(4_tokens), fixed_group(1_blocks)}}}};
  REQUIRE(std::string{hybrid.resize(10_tokens)[0].field} == ".capacity");
  REQUIRE(hybrid.resize(5_blocks).empty());
}

TEST_CASE("a controller that drains takes nothing new and finishes what it has") {
  PlainGate gate{{.capacity = 100_tokens}};
  gate.submit(ask(60));
  gate.submit(ask(60));
  auto leases = admit_all(gate);
  gate.drain();
  REQUIRE(gate.submit(ask(1)).reason == Reason::draining);
  leases.clear();
  gate.begin_step(1);
  leases = admit_all(gate);
  REQUIRE(leases.size() == 1);
  REQUIRE_FALSE(gate.drained());
  leases.clear();
  REQUIRE(gate.drained());
  gate.reopen();
  REQUIRE(gate.submit(ask(1)).queued());
}

TEST_CASE("a class at its ceiling is passed by, in requests or in tokens, and under it is served as without one") {
  PlainGate gate{{.capacity = 1'000_tokens, .classes = 3, .class_limits = {{.running = 2}, {.tokens = 100_tokens}}}};
  for (int i = 0; i < 3; ++i) gate.submit(of_class(0, 10));
  for (int i = 0; i < 3; ++i) gate.submit(of_class(1, 45));
  for (int i = 0; i < 3; ++i) gate.submit(of_class(2, 10));  // no limit is said of it
  auto leases = admit_all(gate);
  REQUIRE(gate.account(0).active_requests == 2);
  REQUIRE(gate.account(1).active_requests == 2);
  REQUIRE(gate.account(2).active_requests == 3);
  leases.erase(leases.begin());
  gate.begin_step(1);
  auto next = admit_all(gate);
  REQUIRE(next.size() == 1);
  REQUIRE(gate.account(0).active_requests == 2);
}

TEST_CASE("a class's full queue rejects at submit, in requests or in tokens") {
  PlainGate gate{{.capacity = 1'000_tokens, .classes = 2, .class_limits = {{.queued = 1}, {.queued_tokens = 50_tokens}}}};
  REQUIRE(gate.submit(of_class(0, 10)).queued());
  REQUIRE(gate.submit(of_class(0, 10)).reason == Reason::class_queue_full);
  REQUIRE(gate.submit(of_class(1, 50)).queued());
  REQUIRE(gate.submit(of_class(1, 1)).rejected());
  auto leases = admit_all(gate);
  REQUIRE(gate.submit(of_class(0, 10)).queued());
  REQUIRE(gate.account(0).rejected_for(Reason::class_queue_full) == 1);
}

TEST_CASE("how many more of a shape fit is how many then start") {
  auto const agrees = [](auto& gate, Request const& request) {
    std::uint64_t const more = gate.more_of(request);
    for (std::uint64_t i = 0; i < more + 3; ++i) gate.submit(request);
    auto const leases = admit_all(gate);
    REQUIRE(leases.size() == more);
    return more;
  };
  PlainGate plain{{.capacity = 100_tokens, .headroom = 10_tokens}};
  REQUIRE(agrees(plain, ask(30, 10)) == 3);
  PlainGate alone{{.capacity = 100_tokens, .headroom = 10_tokens}};
  REQUIRE(agrees(alone, ask(95, 5)) == 1);  // waived
  AdmissionController<policies::Recommended> recommended{{.capacity = 100_blocks, .footprint = paged(16_tokens)}};
  REQUIRE(agrees(recommended, ask(64, 100)) == 19);  // 4 blocks each, 1 in the next step, 2 of headroom
  AdmissionController<policies::GuaranteedNoEvict> reserved{{.capacity = 100_blocks, .footprint = paged(16_tokens)}};
  REQUIRE(agrees(reserved, ask(64, 96)) == 10);
  PlainGate few{{.capacity = 100_tokens, .max_live = 2}};
  REQUIRE(few.more_of(ask(1)) == 2);
  REQUIRE(few.more_of(ask(101)) == 0);
}

TEST_CASE("a request that waits says by how much it is short") {
  PlainGate gate{{.capacity = 100_tokens, .headroom = 10_tokens}};
  gate.submit(ask(60));
  auto const lease = gate.admit_next();
  auto const ticket = gate.submit(ask(50)).ticket;
  REQUIRE(gate.why(ticket).short_by() == 20_blocks);
  REQUIRE(gate.submit(ask(500)).short_by() == 0_blocks);
}

TEST_CASE("a headroom of one's own sees how many run") {
  AdmissionController<Composed<need::WholePrompt, TwoForEach>> gate{{.capacity = 10_tokens}};
  for (int i = 0; i < 5; ++i) gate.submit(ask(2));
  auto const leases = admit_all(gate);
  REQUIRE(leases.size() == 3);  // 2, then 2 + 2 of 8, then 2 + 4 of 6; 2 + 6 of 4 is too much
}

TEST_CASE("one of a class above its floor waits behind a head that does not fit, and why says so") {
  PlainGate gate{{.capacity = 100_tokens, .classes = 2, .class_limits = {{.floor = 10_tokens}}}};
  gate.submit(of_class(0, 20));
  gate.submit(of_class(1, 60));
  auto const leases = admit_all(gate);
  gate.submit(of_class(1, 30));
  auto const behind = gate.submit(of_class(0, 5)).ticket;
  REQUIRE_FALSE(gate.admit_next());
  REQUIRE(gate.why(behind).reason == Reason::behind_head);
}

TEST_CASE("the verdict of one that waits for a sequence says how many there would be, and the limit") {
  PlainGate gate{{.capacity = 100_tokens, .classes = 2, .class_limits = {{}, {.floor_running = 1}}, .max_running = 3}};
  for (int i = 0; i < 3; ++i) gate.submit(of_class(0, 5));
  auto const short_one = gate.submit(of_class(1, 5)).ticket;
  auto const more = gate.submit(of_class(0, 5)).ticket;
  auto leases = admit_all(gate);
  REQUIRE(leases.size() == 3);  // 2 of class 0, and the floor of class 1
  REQUIRE(leases.back().ticket() == short_one);
  auto const full = gate.why(more);
  REQUIRE(full.reason == Reason::running_limit);
  REQUIRE(std::string{full.field} == ".max_running");
  REQUIRE((full.needed == 4_blocks && full.limit == 3_blocks));
  leases.pop_back();
  gate.submit(of_class(1, 5));
  auto const kept = gate.why(more);
  REQUIRE(kept.reason == Reason::class_floor);
  REQUIRE((kept.needed == 3_blocks && kept.limit == 2_blocks));
}

TEST_CASE("a class at its limit is passed by, and stops nobody, even in strict order") {
  PlainGate gate{{.capacity = 100_tokens, .classes = 2, .class_limits = {{.running = 1}, {.running = 1}}}};
  gate.submit({.prompt = 5_tokens, .request_class = Kind::document});
  auto const held_back = gate.submit({.prompt = 5_tokens, .request_class = Kind::document}).ticket;
  gate.submit({.prompt = 5_tokens, .request_class = Kind::interactive});
  auto leases = admit_all(gate);
  REQUIRE(leases.size() == 2);
  REQUIRE(leases[1].request_class() == RequestClass{Kind::interactive});
  REQUIRE(gate.why(held_back).reason == Reason::class_limit);
  leases.pop_back();
  auto const behind = gate.submit({.prompt = 5_tokens, .request_class = Kind::interactive}).ticket;
  REQUIRE(gate.why(behind).reason == Reason::in_queue);  // not behind the head, which is held back by its class
  leases.erase(leases.begin());
  REQUIRE(gate.why(held_back).reason == Reason::in_queue);
  REQUIRE(gate.admit_next().ticket() == held_back);
}

TEST_CASE("growth says what it took, which pool was short, and how far it could go") {
  AdmissionLimits const limits{.capacity = 10_blocks,
                               .footprint = {.groups = {full_group(16_tokens), full_group(4_tokens, 1)}},
                               .more_pools = {{.capacity = 9_blocks, .name = "index"}}};
  PlainGate gate{limits};
  gate.submit(ask(16, 20));
  gate.submit(ask(16, 20));
  auto leases = admit_all(gate);
  REQUIRE(leases.size() == 2);
  REQUIRE(leases[0].grow(1_tokens).reason == Reason::grown);
  auto const verdict = leases[0].grow(4_tokens);  // a block of pool 1, of which none is free
  REQUIRE(verdict.reason == Reason::grown);
  REQUIRE(verdict.pool == 1);
  REQUIRE(std::string{verdict.pool_name} == "index");
  REQUIRE(verdict.needed == 1_blocks);
  REQUIRE(verdict.free == 0_blocks);
  REQUIRE(verdict.limit == 9_blocks);
  REQUIRE(leases[1].ended());
  auto const past = leases[0].grow(100_tokens);
  REQUIRE(past.admitted());
  REQUIRE(past.reason == Reason::past_max_new);
  REQUIRE(past.needed == 100_blocks);
  REQUIRE(past.free == 15_blocks);
  REQUIRE(past.limit == 20_blocks);
  REQUIRE(leases[0].tokens() == 36_tokens);
}

namespace {
struct ByChunks {
  need::WholePromptFree need{};
  headroom::AsGiven headroom{};
  order::Arrival order{};
  victim::LeastComputed victim{};
  holds::Exactly holds{};
};
}  // namespace

TEST_CASE("what a request that gives way would have given back by growing is counted once, with all that it held") {
  AdmissionController<ByChunks> gate{{.capacity = 110_blocks,
                                      .footprint = {.groups = {window_group(4_tokens), full_group(1_tokens, 1)}},
                                      .more_pools = {{.capacity = 110_blocks}},
                                      .tokens_per_step = 50_tokens}};
  gate.submit(ask(20, 9));
  gate.submit(ask(80, 9));
  REQUIRE(gate.commit(gate.plan()));
  gate.begin_step(1);
  gate.resize(50_blocks, 1);  // 20 and 30 are held
  auto const plan = gate.plan({.tokens = 10_tokens});
  REQUIRE(plan.preempt.size() == 1);
  REQUIRE(plan.preempt[0].ticket() == Ticket{0, 0});
  REQUIRE(plan.grow.size() == 1);
  REQUIRE(plan.grow[0].verdict.free == 80_blocks);  // 60, and the 20 of the window's group: not 16 more
  REQUIRE(gate.commit(plan));
  REQUIRE(gate.balanced());
}

TEST_CASE("past max_new does not hide that the asker was preempted") {
  PlainGate gate{{.capacity = 10_tokens}};
  gate.submit(ask(5, 5));
  gate.submit(ask(5, 5));
  auto leases = admit_all(gate);
  REQUIRE(leases[1].grow(100_tokens).reason == Reason::preempted);
  REQUIRE(leases[1].ended());
}

namespace {
/// Says it has blocks, and gives none when asked.
struct Liar {
  bool* gives;
  Supply supply() const { return {.clean = 10_blocks}; }
  bool take(Blocks) { return *gives; }
  void give(Blocks) {}
};
}  // namespace

TEST_CASE("a source that gives less than it says starts nothing, and growth preempts the asker") {
  bool gives = false;
  AdmissionController gate{
      {.capacity = 10_blocks, .footprint = paged(1_tokens), .more_pools = {{.capacity = 10_blocks}}}, policies::Plain{}, {Liar{&gives}, Liar{&gives}}};
  gate.submit(ask(5, 5));
  REQUIRE_FALSE(gate.admit_next());
  REQUIRE(gate.queued() == 1);
  gives = true;
  auto lease = gate.admit_next();
  REQUIRE(lease);
  gives = false;
  REQUIRE(lease.grow(1_tokens).reason == Reason::preempted);
  REQUIRE(lease.ended());
  REQUIRE(gate.queued() == 1);
}

TEST_CASE("blocks taken of one pool are given back when another has none") {
  Shared::Pool first{{.clean = 8_blocks}}, second{{.clean = 8_blocks}};
  bool gives = false;
  struct Either {
    Shared shared;
    bool* gives;
    Supply supply() const { return shared.supply(); }
    bool take(Blocks blocks) { return (!gives || *gives) && shared.take(blocks); }
    void give(Blocks blocks) { shared.give(blocks); }
  };
  AdmissionController gate{{.capacity = 8_blocks, .footprint = {.groups = {full_group(), full_group(1_tokens, 1)}}, .more_pools = {{.capacity = 8_blocks}}},
                           policies::Plain{},
                           {Either{{&first}, nullptr}, Either{{&second}, &gives}}};
  gate.submit(ask(5));
  REQUIRE_FALSE(gate.admit_next());
  REQUIRE(first.supply.clean == 8_blocks);
}

namespace {
struct Callback {
  std::function<void(Event const&)> call{};
  void on(Event const& event) const {
    if (call) call(event);
  }
};
}  // namespace

TEST_CASE("an observer may call the controller back from any event") {
  auto const when = GENERATE(EventKind::submitted, EventKind::rejected, EventKind::admitted, EventKind::grown, EventKind::preempted, EventKind::completed,
                             EventKind::cancelled);
  AdmissionController<policies::Plain, Counter, Callback> gate{{.capacity = 20_tokens, .max_live = 4}};
  gate.observer().call = [&](Event const& event) {
    if (event.kind == when) gate.cancel(event.ticket);
  };
  for (int round = 0; round < 20; ++round) {
    gate.begin_step(std::uint64_t(round));
    for (int i = 0; i < 5; ++i) gate.submit(ask(5, 12));
    std::vector<decltype(gate)::Lease> leases;
    while (auto lease = gate.admit_next()) leases.push_back(std::move(lease));
    for (auto& lease : leases) lease.grow(7_tokens);
    for (auto& lease : leases) lease.cancel();
    REQUIRE(gate.balanced());
    REQUIRE(gate.queued() + gate.running() <= 4);
  }
  while (gate.queued() != 0) {
    gate.begin_step(100);
    auto const lease = gate.admit_next();
  }
  REQUIRE(gate.running() == 0);
  REQUIRE(gate.pool().supply.available() == 20_blocks);
  REQUIRE(gate.account(0).active_tokens == 0_tokens);
  REQUIRE(gate.account(0).queued_tokens == 0_tokens);
  REQUIRE(gate.account(0).tokens_held == 0_tokens);
}

TEST_CASE("a lone request is admitted without headroom and says so, and a running one shows what it holds") {
  PlainGate gate{{.capacity = 100_tokens, .headroom = 10_tokens}};
  auto const first = gate.submit(ask(95)).ticket;
  REQUIRE(gate.why(first).reason == Reason::in_queue);
  REQUIRE(gate.why(first).headroom == 0_blocks);
  auto const lease = gate.admit_next();
  auto const verdict = gate.why(first);
  REQUIRE(verdict.admitted());
  REQUIRE(verdict.needed == 95_blocks);
  REQUIRE(verdict.free == 5_blocks);
  REQUIRE(verdict.limit == 100_blocks);
}

TEST_CASE("a request behind a fitting head is in the queue, not behind the head") {
  PlainGate gate{{.capacity = 100_tokens}};
  gate.submit(ask(10));
  auto const second = gate.submit(ask(10)).ticket;
  REQUIRE(gate.why(second).reason == Reason::in_queue);
}

TEST_CASE("states alone hold no tokens, and a window no more than it keeps") {
  PlainGate states{{.capacity = 4_blocks, .footprint = {.groups = {fixed_group(1_blocks)}}}};
  states.submit(ask(100, 100));
  auto state = states.admit_next();
  REQUIRE(state.grow(100_tokens).reason == Reason::grown);
  REQUIRE(states.account(0).tokens_held == 0_tokens);
  REQUIRE(states.account(0).active_tokens == 200_tokens);
  REQUIRE(states.pool().held == 1_blocks);
  PlainGate window{{.capacity = 20_blocks, .footprint = {.groups = {window_group(64_tokens, 16_tokens)}, .in_flight = 64_tokens}}};
  window.submit(ask(100'000));
  auto const lease = window.admit_next();
  REQUIRE(window.account(0).tokens_held == 144_tokens);
  REQUIRE(window.submit({.prompt = Tokens::max()}).reason == Reason::exceeds_capacity);
}

TEST_CASE("a lease keeps its class and tag when it moves, and after it ends") {
  PlainGate gate{{.capacity = 10_tokens, .classes = 2}};
  gate.submit({.prompt = 5_tokens, .request_class = Kind::document, .tag = 77});
  decltype(gate)::Lease lease;
  lease = gate.admit_next();
  auto& same = lease;
  lease = std::move(same);
  REQUIRE_FALSE(lease.ended());
  REQUIRE(lease.tag() == 77);
  lease.finish();
  REQUIRE(lease.request_class() == RequestClass{Kind::document});
  REQUIRE(lease.tag() == 77);
}

TEST_CASE("a headroom in tokens rounds up to blocks") {
  REQUIRE(AdmissionController{{.capacity = 8_blocks, .headroom = 17_tokens, .footprint = paged(16_tokens)}}.pool().headroom == 2_blocks);
  REQUIRE(AdmissionController{{.capacity = 31_tokens, .footprint = paged(16_tokens)}}.pool().capacity == 1_blocks);
}

TEST_CASE("growth that needs no decision does and says what a decided one does") {
  struct Told {
    void on(Event const&) const {}
  };  // growth that is told of is decided
  for (Footprint const& footprint : {paged(4_tokens), Footprint{.groups = {window_group(6_tokens, 4_tokens), full_group(3_tokens, 1)}, .in_flight = 2_tokens}}) {
    AdmissionLimits const limits{.capacity = 30_blocks, .footprint = footprint, .more_pools = {{.capacity = 40_blocks}}};
    AdmissionController<> at_once{limits};
    AdmissionController<policies::Recommended, Counter, Told> decided{limits};
    for (std::uint64_t i = 0; i < 4; ++i) {
      at_once.submit(ask(3 + i, 60));
      decided.submit(ask(3 + i, 60));
    }
    auto ones = admit_all(at_once);
    auto others = admit_all(decided);
    REQUIRE(ones.size() == 4);
    for (std::uint64_t i = 0; i < 200; ++i) {
      Tokens const more{i % 7 == 0 ? 5U : i % 3};
      Verdict const one = ones[i % 4].grow(more), other = others[i % 4].grow(more);
      INFO("growth " << i);
      REQUIRE(one.outcome == other.outcome);
      REQUIRE(one.reason == other.reason);
      REQUIRE(std::string{one.pool_name} == other.pool_name);
      REQUIRE(one.needed == other.needed);
      REQUIRE(one.free == other.free);
      REQUIRE(one.limit == other.limit);
      for (std::uint32_t pool = 0; pool < 2; ++pool) {
        REQUIRE(at_once.pool(pool).held == decided.pool(pool).held);
        REQUIRE(at_once.held(0, pool) == decided.held(0, pool));
        REQUIRE(at_once.next_step(pool) == decided.next_step(pool));
      }
      REQUIRE(at_once.account(0).useful_tokens == decided.account(0).useful_tokens);
      REQUIRE(at_once.account(0).tokens_held == decided.account(0).tokens_held);
      REQUIRE(at_once.account(0).preempted == decided.account(0).preempted);
    }
    REQUIRE(at_once.account(0).preempted > 0);
  }
}
