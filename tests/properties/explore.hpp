// All that can happen in a small world: every operation in every state, up to a depth, but not again from a state that was seen before.
//
// A controller is not copied: its state is reached again by the operations that led to it, and the model, which is, goes on from there. Two
// states are the same when all that is seen of the controller and all that the model remembers is the same, but for the counters, which only
// add up and are compared wherever they change.
#pragma once

#include "course.hpp"
#include "invariants.hpp"

#include <optional>
#include <unordered_set>

namespace properties {

struct SmallWorld {
  char const* name{};
  AdmissionLimits limits{};
  policies::Recommended policy{};
  std::vector<Request> requests{};  // submitted in any order, or all of them at the start
  std::vector<Operation> others{};  // beside those of every world
  bool all_submitted{};
};

struct Explored {
  std::size_t states{};
  std::size_t transitions{};
  std::string failure{};  // what it is, and the operations that led to it
};

class Explorer {
 public:
  explicit Explorer(SmallWorld const& of) : of_{of} {
    for (auto const& request : of.requests) moves_.push_back({.call = Call::submit, .id = request.tag, .request = request});
    for (Call const call : {Call::begin_step, Call::admit_next, Call::commit}) moves_.push_back({.call = call});
    for (auto const& request : of.requests)
      for (Call const call : {Call::grow, Call::finish, Call::cancel, Call::lease, Call::hold, Call::arrived, Call::generated})
        moves_.push_back({.call = call, .id = request.tag, .amount = 1});
    for (auto const& other : of.others) moves_.push_back(other);
  }

  Explored to_depth(std::size_t depth) {
    Small start{of_.limits, of_.policy};
    std::vector<State> frontier{{}};
    for (std::uint8_t move = 0; of_.all_submitted && move < of_.requests.size(); ++move) {
      start.perform(moves_[move]);
      frontier[0].path.push_back(move);
    }
    frontier[0].model = start.model, frontier[0].seen = start.seen;
    for (; depth > 0; --depth) {
      std::vector<State> next;
      for (auto const& state : frontier)
        if (explored_.failure.empty()) go_on_from(state, next);
      frontier = std::move(next);
    }
    return explored_;
  }

 private:
  using Small = World<policies::Recommended>;
  struct State {
    std::vector<std::uint8_t> path{};  // of moves
    naive::Model model{{}, {}};
    Seen seen{};
  };

  void go_on_from(State const& state, std::vector<State>& next) {
    std::optional<Small> world;
    for (std::uint8_t move = 0; move < moves_.size() && explored_.failure.empty(); ++move) {
      if (!world) reach(state, world);
      if (!is_possible(moves_[move], state, *world)) continue;
      bool const is_new = is_new_state_after(move, state, *world);
      if (is_new) next.push_back({state.path, world->model, world->seen});
      if (is_new) next.back().path.push_back(move);
      world.reset();
    }
  }

  void reach(State const& state, std::optional<Small>& world) const {
    world.emplace(of_.limits, of_.policy);
    Count now = 0;
    for (auto const move : state.path) {
      now += moves_[move].call == Call::begin_step;
      world->Caller<policies::Recommended>::perform(at(now, moves_[move]));
    }
    world->resume(state.model, state.seen);
  }

  bool is_new_state_after(std::uint8_t move, State const& state, Small& world) {
    ++explored_.transitions;
    try {
      world.perform(at(state.model.now + (moves_[move].call == Call::begin_step), moves_[move]));
      invariants_hold(world);
    } catch (Broken const& broken) {
      explored_.failure = fmt::format("{} ({})\n", broken.sentence, broken.numbers);
      for (auto const before : state.path) explored_.failure += text_of(moves_[before]) + '\n';
      explored_.failure += text_of(moves_[move]);
    }
    Hash hash;
    world.seen.add_state(hash);
    world.model.add_state(hash);
    bool const is_new = seen_.insert(hash.value()).second;
    explored_.states += is_new;
    return is_new;
  }

  /// Steps and their retirement are those of the world's own clock.
  static Operation at(Count now, Operation move) {
    if (move.call == Call::begin_step || move.call == Call::retire) move.amount = now;
    return move;
  }

  /// Whether it could change anything.
  bool is_possible(Operation const& move, State const& state, Small& world) const {
    auto const* const item = state.model.find(move.id);
    switch (move.call) {
      case Call::submit: return std::none_of(state.path.begin(), state.path.end(), [&](auto before) { return moves_[before].id == move.id; });
      case Call::drop:
      case Call::grow: return bool(world.lease(move.id));
      case Call::finish:
      case Call::cancel: return item != nullptr;
      case Call::lease: return item && item->in_flight() && !world.lease(move.id);
      case Call::hold: return item && item->state == LiveState::running;
      case Call::arrived: return item && item->state == LiveState::arriving;
      case Call::generated: return item && item->step_by_step && item->pending < item->longest() - item->length();
      case Call::found: return item && item->queued();
      case Call::pin: return std::none_of(state.model.items.begin(), state.model.items.end(), [](auto const& one) { return one.told || one.shared > 0; });
      default: return true;
    }
  }

  SmallWorld const& of_;
  std::vector<Operation> moves_{};
  std::unordered_set<Count> seen_{};
  Explored explored_{};
};

}  // namespace properties
