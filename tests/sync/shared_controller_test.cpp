// The shared controller: that it answers as the controller it shares, and that many threads may ask (thread sanitizer: preset tsan).
#include "catch.hpp"

#include <kvbudget/admit/policies/plain.hpp>
#include <kvbudget/sync/shared_controller.hpp>

#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <csignal>
#include <functional>
#include <map>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

using namespace kvbudget;
using namespace kvbudget::literals;

namespace {

using Gate = SharedController<policies::Plain>;

static_assert(!std::is_copy_constructible_v<Gate::Lease> && !std::is_copy_assignable_v<Gate::Lease>);
static_assert(std::is_nothrow_move_constructible_v<Gate::Lease> && std::is_nothrow_move_assignable_v<Gate::Lease>);
static_assert(!std::is_move_constructible_v<Gate>);

// What the lock guards stays behind it: an answer is a value, and a lease is not the controller's own.
constexpr auto itself = [](auto& of) -> auto& { return of; };
static_assert(!std::is_same_v<Gate::Lease, AdmissionController<>::Lease>);
static_assert(std::is_same_v<decltype(std::declval<Gate&>().admit_next()), Gate::Lease>);
static_assert(std::is_same_v<decltype(std::declval<Gate&>().account(0)), ClassAccount>);
static_assert(std::is_same_v<decltype(std::declval<Gate&>().complaints()), Complaints>);
static_assert(std::is_same_v<decltype(std::declval<Gate&>().policy()), policies::Plain>);
static_assert(std::is_same_v<decltype(std::declval<Gate&>().with_observer(itself)), Silent>);

Request ask(std::uint64_t prompt, std::uint64_t max_new = 0) { return {.prompt = {prompt}, .max_new = {max_new}}; }

/// Runs `work(self)` on so many threads at once. Only the thread of the test may REQUIRE.
template <class Work>
void on_threads(std::size_t count, Work work) {
  std::vector<std::thread> threads;
  for (std::size_t self = 0; self < count; ++self) threads.emplace_back(work, self);
  for (auto& thread : threads) thread.join();
}

template <class Work>
void elsewhere(Work work) {
  on_threads(1, [&](std::size_t) { work(); });
}

/// An observer that calls whatever a test wants.
struct Callback {
  std::function<void(Event const&)> call{};
  void on(Event const& event) const {
    if (call) call(event);
  }
};
using WatchedGate = SharedController<policies::Plain, Counter, Callback>;

/// How many events there were of each kind. It has no lock of its own.
struct Tally {
  std::array<std::uint64_t, 9> events{};
  void on(Event const& event) { ++events[static_cast<std::size_t>(event.kind)]; }
  std::uint64_t of(EventKind kind) const { return events[static_cast<std::size_t>(kind)]; }
};

/// The same operations on a controller and on a shared one.
struct Twins {
  AdmissionLimits limits{.capacity = 24_blocks, .headroom = 2_blocks, .footprint = paged(4_tokens), .classes = 2, .max_live = 8};
  AdmissionController<policies::Recommended> plain{limits};
  SharedController<policies::Recommended> shared{limits};
  std::map<std::uint64_t, AdmissionController<policies::Recommended>::Lease> plain_leases;  // by tag
  std::map<std::uint64_t, SharedController<policies::Recommended>::Lease> shared_leases;
  std::vector<Ticket> tickets;

  static void same(Verdict const& a, Verdict const& b) {
    REQUIRE(a.outcome == b.outcome);
    REQUIRE(a.reason == b.reason);
    REQUIRE(a.ticket == b.ticket);
    REQUIRE(a.needed == b.needed);
    REQUIRE(a.free == b.free);
    REQUIRE(a.headroom == b.headroom);
    REQUIRE(a.limit == b.limit);
  }

  /// Asks both, and both answer the same.
  template <class Question>
  auto both(Question question) {
    auto const answer = question(plain);
    REQUIRE(question(shared) == answer);
    return answer;
  }
  void submit(Request const& request) {
    auto const verdict = plain.submit(request);
    same(verdict, shared.submit(request));
    if (verdict.queued()) tickets.push_back(verdict.ticket);
  }
  void admit() {
    auto lease = plain.admit_next();
    auto name = shared.admit_next();
    REQUIRE(name.ended() == lease.ended());
    if (name.ended()) return;
    REQUIRE(name.ticket() == lease.ticket());
    REQUIRE(name.request_class() == lease.request_class());
    REQUIRE(name.tag() == lease.tag());
    plain_leases[lease.tag()] = std::move(lease);
    shared_leases[name.tag()] = std::move(name);
  }

  void compare() {
    for (auto& [tag, lease] : plain_leases) {
      REQUIRE(shared_leases[tag].ended() == lease.ended());
      REQUIRE(shared_leases[tag].tokens() == lease.tokens());
    }
    for (Ticket const ticket : tickets) same(plain.why(ticket), shared.why(ticket));
    both([](auto& gate) { return std::array{gate.queued(), gate.running(), gate.classes(), gate.pools()}; });
    both([](auto& gate) { return std::array{gate.balanced(), gate.drained()}; });
    both([](auto& gate) { return gate.now(); });
    both([](auto& gate) { return gate.more_of(ask(9, 3)); });
    both([](auto& gate) { return std::array{gate.next_step(), gate.pool().held, gate.pool().capacity, gate.pool().supply.available()}; });
    for (std::uint32_t index = 0; index < 3; ++index) {
      both([index](auto& gate) { return gate.held(index); });
      both([index](auto& gate) {
        ClassAccount const account = gate.account(index);
        return std::array{account.submitted, account.admitted, account.preempted, account.completed, account.cancelled, account.expired};
      });
    }
  }
};

/// A gate, and what the threads of a crowd share beside it.
struct Crowd {
  static constexpr std::uint32_t classes = 3, max_live = 64;
  static constexpr Blocks capacity{200};
  using Gate = SharedController<policies::Recommended, Counter, Tally>;

  Gate gate{{.capacity = capacity, .headroom = 3_percent, .footprint = paged(4_tokens), .classes = classes, .max_live = max_live}};
  std::atomic<std::uint64_t> submitted{}, leases{}, clock{}, wrong{}, members{4};
  std::mutex hands;
  std::vector<Gate::Lease> handed;  // from thread to thread

  void begin_step() {
    gate.with([this](auto& alone) { alone.begin_step(++clock); });
  }
  /// What a thread that exports metrics sees, as long as there are members.
  void watch() {
    for (std::uint64_t told = 0, before = 0; members != 0; before = told) {
      wrong += !std::as_const(gate).with([](auto const& alone) {
        Tokens active{};
        for (std::uint32_t index = 0; index < alone.classes(); ++index) active += alone.account(index).active_tokens;
        return alone.balanced() && (alone.running() == 0) == (active == Tokens{});
      });
      wrong += gate.pool().held > capacity;
      wrong += gate.queued() > max_live;
      wrong += gate.account(0).active_requests > max_live;
      told = gate.with_observer([](Tally& own) { return own.of(EventKind::submitted); });
      wrong += told < before;
    }
  }
  void finish_all() {
    handed.clear();
    while (!gate.drained()) {
      begin_step();
      while (auto const lease = gate.admit_next()) ++leases;
    }
  }
};

/// What one thread of a crowd does, at random. The leases it has left end with it.
struct Member {
  Crowd& crowd;
  std::size_t seed;
  std::mt19937_64 random{seed};
  std::array<Crowd::Gate::Lease, 16> batch{};
  std::array<Ticket, 16> tickets{};

  std::uint64_t upto(std::uint64_t most) { return random() % (most + 1); }

  Verdict submit() {
    ++crowd.submitted;
    return crowd.gate.submit({.prompt = Tokens{1 + upto(100)},
                              .max_new = Tokens{upto(200)},
                              .request_class = upto(Crowd::classes - 1),
                              .group = upto(50),
                              .deadline = upto(5) ? no_deadline : crowd.clock + upto(50)});
  }
  void admit_in_place_of(Crowd::Gate::Lease& lease) {
    auto given = crowd.gate.admit_next();
    if (given.ticket() == Ticket{}) return;
    ++crowd.leases;  // others may have ended it by now
    lease = std::move(given);
  }
  /// Gives a lease to others for one of theirs, and ends some where they become many.
  void swap_hands(Crowd::Gate::Lease& lease) {
    std::lock_guard const lock{crowd.hands};
    auto& handed = crowd.handed;
    handed.push_back(std::move(lease));
    if (handed.size() < 24) return;
    lease = std::move(handed[upto(23)]);
    handed.resize(12);
  }
  void end(Crowd::Gate::Lease& lease, Ticket ticket) {
    switch (upto(9)) {
      case 0:
        crowd.gate.cancel(ticket);
        break;
      case 1:
        crowd.gate.cancel_group(upto(50));
        break;
      case 2:
        lease.cancel();
        break;
      default:
        lease.finish();
    }
  }
  void act() {
    auto& lease = batch[upto(15)];
    Ticket& ticket = tickets[upto(15)];
    switch (upto(9)) {
      case 0:
      case 1:
      case 2:
        ticket = submit().ticket;
        break;
      case 3:
      case 4:
      case 5:
        admit_in_place_of(lease);
        break;
      case 6:
        crowd.begin_step();
        break;
      case 7:
        end(lease, ticket);
        break;
      case 8:
        swap_hands(lease);
        break;
      default:
        for (auto& each : batch) each.grow(Tokens{1 + upto(8)});
    }
  }
  void act(int times) {
    while (times-- > 0) act();
  }
};

}  // namespace

TEST_CASE("asked by one thread, the shared controller answers as the controller it shares, whatever the operations") {
  std::mt19937_64 random{20'261'130};
  auto const upto = [&](std::uint64_t most) { return random() % (most + 1); };
  std::uint64_t preempted = 0, completed = 0;
  for (int world = 0; world < 60; ++world) {
    Twins twins;
    for (std::uint64_t tag = 1; tag <= 200; ++tag) {
      std::uint64_t const some = tag > 10 ? tag - upto(10) : upto(tag);
      Ticket const ticket = twins.tickets.empty() ? Ticket{} : twins.tickets[upto(twins.tickets.size() - 1)];
      switch (upto(11)) {
        case 0:
          twins.plain.begin_step(tag), twins.shared.begin_step(tag);
          break;
        case 1:
          twins.both([&](auto& gate) { return gate.cancel(ticket); });
          break;
        case 2:
          twins.both([&](auto& gate) { return gate.finish(ticket); });
          break;
        case 3:
          if (upto(7) == 0) twins.both([group = upto(3)](auto& gate) { return gate.cancel_group(group); });
          break;
        case 4:
          if (upto(3) == 0) twins.both([blocks = 20 + upto(8)](auto& gate) { return gate.resize(Blocks{blocks}).size(); });
          if (upto(9) == 0) twins.plain.drain(), twins.shared.drain();
          if (upto(2) == 0) twins.plain.reopen(), twins.shared.reopen();
          break;
        case 5:
          twins.plain_leases[some].cancel(), twins.shared_leases[some].cancel();
          break;
        case 6:
          twins.plain_leases.erase(some), twins.shared_leases.erase(some);
          break;
        case 7:
        case 8:
          twins.submit({.prompt = Tokens{1 + upto(40)},
                        .max_new = Tokens{upto(70)},
                        .request_class = upto(2),
                        .tag = tag,
                        .group = upto(3),
                        .deadline = upto(5) ? no_deadline : tag + upto(20)});
          break;
        case 9:
        case 10:
          twins.admit();
          break;
        default:
          for (auto& [of, lease] : twins.plain_leases) {
            auto const verdict = lease.grow(3_tokens);
            twins.same(verdict, twins.shared_leases[of].grow(3_tokens));
          }
      }
      twins.compare();
    }
    for (std::uint32_t index = 0; index < twins.limits.classes; ++index) {
      preempted += twins.shared.account(index).preempted;
      completed += twins.shared.account(index).completed;
    }
  }
  REQUIRE(preempted > 20);
  REQUIRE(completed > 100);
}

TEST_CASE("a shared controller on bad limits says what is bad and rejects every request") {
  Gate gate{{.capacity = 0_tokens}};
  REQUIRE(std::string{gate.complaints()[0].field} == ".capacity");
  REQUIRE(gate.submit(ask(1)).reason == Reason::bad_limits);
  REQUIRE_FALSE(gate.admit_next());
}

TEST_CASE("a shared controller takes its pools' own sources of blocks") {
  SharedController gate{{.capacity = 10_tokens}, policies::Recommended{}, {Counter{10_blocks}}};
  gate.submit(ask(10));
  auto const lease = gate.admit_next();
  REQUIRE(lease.tokens() == 10_tokens);
}

TEST_CASE("who waits, who runs and who left are asked for under the lock") {
  Gate gate{{.capacity = 100_tokens}};
  gate.begin_step(1);
  gate.submit({.prompt = 60_tokens, .tag = 1});
  gate.submit({.prompt = 60_tokens, .tag = 2, .deadline = 1});
  auto const lease = gate.admit_next();
  std::vector<std::uint64_t> waiting, running;
  gate.each_waiting([&](Ticket, Request const& request) { waiting.push_back(request.tag); });
  gate.each_running([&](Ticket, Request const& request) { running.push_back(request.tag); });
  REQUIRE(waiting == std::vector<std::uint64_t>{2});
  REQUIRE(running == std::vector<std::uint64_t>{1});
  gate.begin_step(2);
  REQUIRE(gate.left().size() == 1);
  REQUIRE(gate.left()[0].tag == 2);
}

TEST_CASE("a lease that was preempted stays ended when its request starts again") {
  Gate gate{{.capacity = 100_tokens}};
  gate.submit(ask(40, 60));
  gate.submit(ask(50, 50));
  auto older = gate.admit_next(), newer = gate.admit_next();
  REQUIRE(older.grow(20_tokens).admitted());
  REQUIRE(newer.ended());
  older.finish();
  gate.begin_step(1);
  auto again = gate.admit_next();
  REQUIRE(again.ticket() == newer.ticket());
  REQUIRE(newer.ended());
  REQUIRE(newer.tokens() == 0_tokens);
  auto const verdict = newer.grow(1_tokens);
  REQUIRE(verdict.reason == Reason::ended);
  REQUIRE(verdict.ticket == newer.ticket());
  newer.finish();
  newer.cancel();
  newer = {};
  REQUIRE(again.tokens() == 50_tokens);
  REQUIRE(gate.running() == 1);
}

TEST_CASE("a shared lease moves, and its right ends with its last owner") {
  Gate gate{{.capacity = 100_tokens}};
  gate.submit({.prompt = 30_tokens, .tag = 7});
  gate.submit(ask(50));
  auto first = gate.admit_next(), second = gate.admit_next();
  auto moved = std::move(first);
  REQUIRE(first.ended());
  REQUIRE(first.grow(1_tokens).reason == Reason::ended);
  REQUIRE(moved.tokens() == 30_tokens);
  moved = std::move(second);  // the first ends
  REQUIRE(gate.pool().held == 50_blocks);
  auto& same = moved;
  moved = std::move(same);
  REQUIRE(moved.tokens() == 50_tokens);
  moved.finish();
  moved.cancel();
  REQUIRE(gate.account(0).completed == 2);
  REQUIRE(gate.account(0).cancelled == 0);
  REQUIRE(moved.ended());
  REQUIRE(gate.drained());
}

TEST_CASE("a lease ends on another thread than the one it was given to") {
  Gate gate{{.capacity = 100_tokens}};
  gate.submit(ask(60, 40));
  auto lease = gate.admit_next();
  elsewhere([taken = std::move(lease)]() mutable { taken.grow(5_tokens); });
  REQUIRE(lease.ended());
  REQUIRE(gate.drained());
  REQUIRE(gate.pool().supply.available() == 100_blocks);
  REQUIRE(gate.account(0).peak_active_tokens() == 65_tokens);
}

TEST_CASE("a lease is preempted by another thread while its owner asks it and moves it") {
  Gate gate{{.capacity = 100_tokens}};
  gate.submit(ask(10, 90));
  gate.submit(ask(40, 50));
  auto grows = gate.admit_next(), yields = gate.admit_next();
  std::atomic<bool> asked{}, wrong{};
  std::thread owner{[&] {
    while (!yields.ended()) {
      auto moved = std::move(yields);
      Tokens const seen = moved.tokens();
      if (seen != 40_tokens && seen != 0_tokens) wrong = true;
      yields = std::move(moved);
      asked = true;
    }
  }};
  while (!asked) std::this_thread::yield();
  while (gate.running() == 2) grows.grow(1_tokens);
  owner.join();
  REQUIRE_FALSE(wrong);
  REQUIRE(yields.tokens() == 0_tokens);
  REQUIRE(grows.tokens() == 61_tokens);
  REQUIRE(gate.why(yields.ticket()).queued());
  REQUIRE(gate.queued() == 1);
}

TEST_CASE("two threads may call one lease, and what one of them ends is ended for both") {
  Gate gate{{.capacity = 10'000_tokens}};
  gate.submit(ask(1, 9'999));
  auto lease = gate.admit_next();
  std::atomic<std::uint64_t> grown{};
  std::thread grows{[&] {
    while (lease.grow(1_tokens).reason != Reason::ended) ++grown;
  }};
  while (lease.tokens() < 100_tokens) std::this_thread::yield();
  lease.cancel();
  grows.join();
  REQUIRE(grown >= 99);
  REQUIRE(lease.ended());
  REQUIRE(gate.account(0).cancelled == 1);
  REQUIRE(gate.drained());
}

TEST_CASE("no other thread's call comes between the calls of one with") {
  Gate gate{{.capacity = 100_tokens}};
  std::atomic<std::uint64_t> torn{}, started{};
  on_threads(4, [&](std::size_t) {
    for (int i = 0; i < 500; ++i) {
      Ticket const ticket = gate.with([&](auto& alone) {
        std::uint32_t const before = alone.queued();
        std::this_thread::yield();
        auto const verdict = alone.submit(ask(100));
        torn += alone.queued() != before + 1;
        return verdict.ticket;
      });
      if (auto lease = gate.admit_next()) {
        ++started;
        torn += gate.with([&](auto& alone) {
          bool const mine = !lease.ended();
          std::this_thread::yield();
          return mine && lease.tokens() != alone.account(0).active_tokens;
        });
      }
      torn += std::as_const(gate).with([](auto const& alone) {
        std::uint32_t const before = alone.running();
        std::this_thread::yield();
        return before != alone.account(0).active_requests;
      });
      gate.cancel(ticket);
    }
  });
  REQUIRE(torn == 0);
  REQUIRE(started > 10);
  REQUIRE(gate.drained());
}

TEST_CASE("a shared controller's observer may call back, and is told of that before the rest") {
  WatchedGate gate{{.capacity = 20_tokens}};
  std::vector<EventKind> told;
  gate.with_observer([&](Callback& own) {
    own.call = [&](Event const& event) {
      told.push_back(event.kind);
      if (event.kind == EventKind::admitted) gate.submit(ask(1));
      if (event.kind == EventKind::grown) gate.cancel(event.ticket);
    };
  });
  gate.submit(ask(5, 5));
  auto lease = gate.admit_next();
  REQUIRE(lease.grow(1_tokens).admitted());
  REQUIRE(lease.ended());
  REQUIRE(told == std::vector{EventKind::submitted, EventKind::admitted, EventKind::submitted, EventKind::grown, EventKind::cancelled});
}

TEST_CASE("a lease that was ended before its thread saw it has a ticket, and one that nobody was given has none") {
  WatchedGate gate{{.capacity = 20_tokens}};
  gate.with_observer([&](Callback& own) {
    own.call = [&](Event const& event) {
      if (event.kind == EventKind::admitted) gate.cancel(event.ticket);
    };
  });
  auto const verdict = gate.submit({.prompt = 5_tokens, .tag = 9});
  auto const given = gate.admit_next();
  REQUIRE(given.ended());
  REQUIRE(given.ticket() == verdict.ticket);
  REQUIRE(given.tag() == 9);
  REQUIRE(gate.admit_next().ticket() == Ticket{});
}

TEST_CASE("a shared controller's observer may destroy the lease whose growth it is told of") {
  WatchedGate gate{{.capacity = 20_tokens}};
  std::map<std::uint64_t, WatchedGate::Lease> batch;
  gate.with_observer([&](Callback& own) {
    own.call = [&](Event const& event) {
      if (event.kind == EventKind::preempted) batch.erase(event.tag);
    };
  });
  for (std::uint64_t tag = 0; tag < 2; ++tag) {
    gate.submit({.prompt = 10_tokens, .max_new = 10_tokens, .tag = tag});
    batch[tag] = gate.admit_next();
  }
  Ticket const newest = batch[1].ticket();
  auto const verdict = batch[1].grow(1_tokens);  // the newest gives way: itself
  REQUIRE(verdict.reason == Reason::preempted);
  REQUIRE(verdict.ticket == newest);
  REQUIRE_FALSE(batch.contains(1));
  REQUIRE(gate.why(newest).queued());
}

TEST_CASE("threads submit, admit, grow, cancel and destroy each other's leases, and in the end all is balanced and nothing is held") {
  Crowd crowd;
  std::thread watcher{[&] { crowd.watch(); }};
  on_threads(crowd.members, [&](std::size_t self) {
    Member{crowd, self}.act(6'000);
    --crowd.members;
  });
  watcher.join();
  crowd.finish_all();
  auto& gate = crowd.gate;

  REQUIRE(crowd.wrong == 0);
  REQUIRE(gate.balanced());
  REQUIRE(gate.running() == 0);
  REQUIRE(gate.queued() == 0);
  REQUIRE(gate.pool().held == 0_blocks);
  REQUIRE(gate.pool().supply.available() == Crowd::capacity);
  ClassAccount sum;
  for (std::uint32_t index = 0; index < Crowd::classes; ++index) {
    ClassAccount const account = gate.account(index);
    REQUIRE(account.active_tokens == 0_tokens);
    REQUIRE(account.tokens_held == 0_tokens);
    REQUIRE(account.queued_tokens == 0_tokens);
    REQUIRE(account.submitted == account.rejected_in_all() + account.completed + account.cancelled + account.expired);
    sum.submitted += account.submitted;
    sum.admitted += account.admitted;
    sum.completed += account.completed;
    sum.cancelled += account.cancelled;
    sum.expired += account.expired;
    sum.preempted += account.preempted;
  }
  REQUIRE(sum.submitted == crowd.submitted);
  REQUIRE(sum.admitted == crowd.leases);
  Tally const told = gate.with_observer(itself);
  REQUIRE(told.of(EventKind::step_begun) == crowd.clock);
  REQUIRE(told.of(EventKind::submitted) + told.of(EventKind::rejected) == sum.submitted);
  REQUIRE(told.of(EventKind::admitted) == sum.admitted);
  REQUIRE(told.of(EventKind::completed) == sum.completed);
  REQUIRE(told.of(EventKind::cancelled) == sum.cancelled);
  REQUIRE(told.of(EventKind::expired) == sum.expired);
  REQUIRE(told.of(EventKind::preempted) == sum.preempted);
  for (auto const happened : {sum.preempted, sum.completed, sum.cancelled, sum.expired}) REQUIRE(happened > 10);
}

#ifndef NDEBUG
TEST_CASE("a lease that outlives its shared controller, were it ended, stops the program there") {
  pid_t const child = ::fork();
  if (child == 0) {
    std::signal(SIGABRT, SIG_DFL);
    ::close(STDERR_FILENO);
    Gate::Lease lease;
    {
      Gate gate{{.capacity = 10_tokens}};
      gate.submit(ask(5));
      lease = gate.admit_next();
      lease.finish();
    }
    ::_exit(0);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  REQUIRE(WIFSIGNALED(status));
  REQUIRE(WTERMSIG(status) == SIGABRT);
}
#endif

TEST_CASE("while one thread plans and commits others submit and cancel, and a plan that they made stale is refused") {
  SharedController<> gate{{.capacity = 2'000_blocks, .footprint = paged(16_tokens), .tokens_per_step = 512_tokens}};
  std::atomic<bool> done{false};
  std::atomic<std::uint64_t> submitted{0};
  std::uint64_t committed = 0, stale = 0;
  on_threads(3, [&](std::size_t self) {
    if (self == 0) {
      SharedController<>::StepPlan plan;
      for (std::uint64_t step = 1; step <= 2'000; ++step) {
        gate.begin_step(step);
        gate.plan({}, plan);
        ++(gate.commit(plan) ? committed : stale);
        for (auto const& one : plan.grow)
          if (one.reserved == 120_tokens) gate.finish(one.ticket());
      }
      done = true;
    } else {
      for (std::uint64_t i = 0; !done; ++i) {
        auto const verdict = gate.submit(ask(100, 20));
        submitted += verdict.queued();
        if (i % 3 == 0) gate.cancel(verdict.ticket);
      }
    }
  });
  REQUIRE(committed + stale == 2'000);
  REQUIRE(gate.balanced());
  gate.with([](auto& alone) {
    SharedController<>::StepPlan plan;
    alone.plan({}, plan);
    REQUIRE(alone.commit(plan));
    alone.begin_step(3'000);
    REQUIRE_FALSE(alone.commit(plan));
  });
  REQUIRE(gate.account(0).submitted >= submitted);
}
