// Random operations, side by side with the naive model; every state compared after every operation.
#include "catch.hpp"
#include "naive_model.hpp"

#include <random>

using namespace kvbudget;

namespace {

struct World {
  naive::Limits limits;
  naive::Model model;
  AdmissionController<policies::Plain> gate;
  std::map<std::uint64_t, AdmissionController<policies::Plain>::Lease> leases;  // by id
  std::map<std::uint64_t, Ticket> tickets;                       // of every request ever queued, stale ones included
  std::uint64_t next_id = 1;
  std::uint64_t now = 0;

  explicit World(naive::Limits const& of) : limits{of}, model{of}, gate{limits_of(of), policies::Plain{.order = {.bypass = of.scan_on ? unbounded_bypass : Bypass{}}}} {}

  static AdmissionLimits limits_of(naive::Limits const& of) {
    AdmissionLimits limits{.capacity = Blocks{of.pools[0].blocks},
                           .headroom = Blocks{of.pools[0].headroom},
                           .footprint = {.groups = {}, .in_flight = Tokens{of.in_flight}},
                           .classes = std::uint32_t(of.classes),
                           .max_live = std::uint32_t(of.max_live)};
    for (std::size_t i = 1; i < of.pools.size(); ++i)
      limits.more_pools.push_back({.capacity = Blocks{of.pools[i].blocks}, .headroom = Blocks{of.pools[i].headroom}});
    for (auto const& group : of.groups)
      limits.footprint.groups.push_back({.keeps = group.block == 0    ? Keeps::fixed
                                                  : group.window == 0 ? Keeps::everything
                                                                      : Keeps::window,
                                         .pool = std::uint32_t(group.pool),
                                         .block = Tokens{std::max<std::uint64_t>(group.block, 1)},
                                         .span = Tokens{group.window},
                                         .fixed = Blocks{group.fixed},
                                         .blocks_per_entry = group.factor});
    return limits;
  }

  void submit(naive::Item item) {
    item.id = next_id++;
    auto const verdict = gate.submit({.prompt = {item.prompt},
                                      .max_new = {item.max_new},
                                      .request_class = item.group,
                                      .branches = std::uint32_t(item.branches),
                                      .lookahead = {item.lookahead},
                                      .tag = item.id,
                                      .group = item.together,
                                      .deadline = item.deadline});
    REQUIRE(verdict.reason == model.submit(item));
    if (verdict.queued()) tickets[item.id] = verdict.ticket;
  }
  void admit() {
    auto lease = gate.admit_next();
    std::uint64_t const id = model.admit_next();
    REQUIRE((lease ? lease.tag() : 0) == id);
    if (lease) leases[id] = std::move(lease);
  }
  void grow(std::uint64_t id, std::uint64_t more) {
    if (!leases.contains(id)) return;
    leases[id].grow(Tokens{more});
    model.grow(id, more);
  }
  void leave(std::uint64_t id, bool completed) {
    if (!tickets.contains(id)) return;
    bool const there = completed ? gate.finish(tickets[id]) : gate.cancel(tickets[id]);
    REQUIRE(there == model.leave(id, completed));
  }
  /// The headroom is in blocks, and a capacity that does not exceed it changes nothing.
  void resize(std::uint32_t pool, std::uint64_t blocks) {
    bool const good = blocks > limits.pools[pool].headroom;
    REQUIRE(gate.resize(Blocks{blocks}, pool).empty() == good);
    if (!good) return;
    limits.pools[pool].blocks = blocks;
    model.resize(pool, blocks);
  }
  void drop(std::uint64_t id) {  // the lease dies
    if (!leases.contains(id)) return;
    if (!leases[id].ended()) model.leave(id, true);
    leases.erase(id);
  }

  void compare() {
    REQUIRE(gate.balanced());
    for (std::uint32_t pool = 0; pool < limits.pools.size(); ++pool) {
      REQUIRE(gate.pool(pool).held.count == model.held(pool));
      REQUIRE(gate.pool(pool).supply.available().count == model.free(pool));
      REQUIRE(gate.pool(pool).overcommitted.count == model.over(pool));
      std::uint64_t next_step = 0;
      for (auto const& item : model.running)
        if (item.grown < item.max_new) next_step += model.blocks(pool, item, item.grown + 1) - model.blocks(pool, item, item.grown);
      REQUIRE(gate.next_step(pool).count == next_step);
    }
    REQUIRE(gate.running() == model.running.size());
    REQUIRE(gate.queued() == model.queue.size());
    for (auto& [id, lease] : leases) REQUIRE(lease.ended() == !model.runs(id));
    for (auto const& item : model.running) REQUIRE(leases[item.id].tokens().count == item.prompt + item.grown);
    for (auto const& item : model.queue) {
      auto const verdict = gate.why(tickets[item.id]);
      REQUIRE(verdict.queued());
      REQUIRE(verdict.needed.count == model.blocks(verdict.pool, item, item.grown));
      REQUIRE(verdict.free.count == model.free(verdict.pool));
      REQUIRE(verdict.headroom.count == (model.running.empty() ? 0 : limits.pools[verdict.pool].headroom));
      REQUIRE((verdict.reason == Reason::no_room) == (verdict.needed > verdict.free));
    }
    for (std::uint32_t group = 0; group < limits.classes; ++group) {
      auto const& got = gate.account(group);
      auto const& expected = model.account(group);
      REQUIRE(got.submitted == expected.submitted);
      REQUIRE(got.rejected_in_all() == expected.rejected);
      REQUIRE(got.admitted == expected.admitted);
      REQUIRE(got.ever_waited == expected.ever_waited);
      REQUIRE(got.steps_waited == expected.steps_waited);
      REQUIRE(got.completed == expected.completed);
      REQUIRE(got.cancelled == expected.cancelled);
      REQUIRE(got.expired == expected.expired);
      REQUIRE(got.wasted_token_steps == expected.wasted);
      REQUIRE(got.preempted == expected.preempted);
      REQUIRE(got.recomputed_tokens.count == expected.recomputed);
      REQUIRE(got.active_tokens.count == model.active_tokens(group));
      REQUIRE(got.queued_tokens.count == model.queued_tokens(group));
      REQUIRE(got.peak_active_tokens().count == expected.peak_tokens);
      REQUIRE(got.tokens_held.count == model.tokens_held_by(group));
      REQUIRE(got.active_requests == model.running_of(group));
      REQUIRE(got.peak_tokens_held().count == expected.peak_held);
      REQUIRE(got.peak_active_requests() == expected.peak_requests);
      for (std::uint32_t pool = 0; pool < limits.pools.size(); ++pool) {
        std::uint64_t held = 0;
        for (auto const& item : model.running) held += item.group == group ? model.blocks(pool, item, item.grown) : 0;
        REQUIRE(gate.held(group, pool).count == held);
      }
    }
  }
};

}  // namespace

TEST_CASE("the controller does what the naive model does, whatever the operations") {
  std::mt19937_64 random{20'261'129};
  auto const upto = [&](std::uint64_t most) { return random() % (most + 1); };
  for (int world_number = 0; world_number < 300; ++world_number) {
    naive::Limits limits{.pools = {}, .groups = {}, .in_flight = 1 + upto(20), .classes = 1 + upto(2), .max_live = 1 + upto(12), .scan_on = upto(1) == 1};
    for (std::uint64_t pool = 0, pools = 1 + upto(2); pool < pools; ++pool) {
      std::uint64_t const blocks = 1 + upto(60);
      limits.pools.push_back({blocks, upto(blocks - 1) / 3});
      for (std::uint64_t group = 0, groups = 1 + upto(1); group < groups; ++group) {
        bool const fixed = upto(4) == 0;
        limits.groups.push_back({.pool = pool,
                                 .block = fixed     ? 0
                                          : upto(1) ? 1
                                                    : 1 + upto(7),
                                 .window = upto(2) ? 0 : 1 + upto(30),
                                 .fixed = 1 + upto(2),
                                 .factor = upto(2) ? 1 : 1 + upto(2)});
      }
    }
    World world{limits};
    for (int operation = 0; operation < 300; ++operation) {
      std::uint64_t const id = world.next_id > 12 ? world.next_id - upto(12) : upto(world.next_id);
      switch (upto(9)) {
        case 0:
          if (upto(15) == 0) world.resize(std::uint32_t(upto(world.limits.pools.size() - 1)), 1 + upto(60));
          world.gate.begin_step(++world.now), world.model.begin_step(world.now);
          break;
        case 1:
        case 2:
          world.submit({.id = 0,
                        .prompt = 1 + upto(60),
                        .max_new = upto(30),
                        .lookahead = upto(1) * upto(4),
                        .branches = upto(3) ? 1 : 1 + upto(3),
                        .group = upto(world.limits.classes - 1),
                        .deadline = upto(3) ? no_deadline : world.now + upto(8) - (world.now > 2 ? 2 : 0),
                        .together = upto(2)});
          break;
        case 3:
        case 4:
          world.admit();
          break;
        case 5:
        case 6:
          world.grow(id, upto(3) ? 1 : upto(20));
          break;
        case 7:
          world.drop(id);
          break;
        case 8:
          if (upto(7) == 0) {
            std::uint64_t const together = upto(2);
            REQUIRE(world.gate.cancel_group(together) == world.model.cancel_group(together));
          } else {
            world.leave(id, upto(1) == 1);
          }
          break;
        case 9:
          for (std::uint64_t each = 1; each < world.next_id; ++each)
            if (world.leases.contains(each)) world.grow(each, 1);
      }
      world.compare();
    }
  }
}
