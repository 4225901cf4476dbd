// All that can happen in a small world: every operation in every state, up to a depth, but not again from a state that was seen before.
//
// A controller is not copied: its state is reached again by the operations that led to it, and the model, which is, goes on from there. Two
// states are the same when the same requests were submitted and all that is seen of the controller, all that the model remembers and who was
// overtaken how often are the same, number by number; but for the counters, which only add up and are compared wherever they change.
#pragma once

#include "course.hpp"
#include "invariants.hpp"

#include <optional>
#include <unordered_set>

namespace properties {

struct SmallWorld {
  char const* name{};
  AdmissionLimits limits{};
  policies::Recommended policy{.headroom = {}};  // of four blocks, its share would be one
  std::vector<Request> requests{};               // submitted in any order, or all of them at the start
  std::vector<Operation> others{};               // beside those of every world
  bool all_submitted{};
  std::size_t states{};  // that there are
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
      for (Call const call :
           {Call::grow, Call::finish, Call::cancel, Call::drop, Call::move, Call::lease, Call::hold, Call::arrived, Call::generated, Call::more_of})
        moves_.push_back({.call = call, .id = request.tag, .amount = 1, .request = request});
    for (auto const& other : of.others) moves_.push_back(other);
  }

  Explored to_depth(std::size_t depth) {
    Small start{of_.limits, of_.policy};
    State first{};
    for (std::uint8_t move = 0; of_.all_submitted && move < of_.requests.size(); ++move) {
      start.perform(moves_[move]);
      first.path.push_back(move);
    }
    is_new(first.path, start);
    first.from = start.knowledge();
    std::vector<State> frontier{first};
    for (; depth > 0; --depth) {
      std::vector<State> next;
      for (auto const& state : frontier)
        if (explored_.failure.empty()) go_on_from(state, depth > 1 ? &next : nullptr);
      frontier = std::move(next);
    }
    return explored_;
  }

 private:
  using Small = World<policies::Recommended>;
  using Path = std::vector<std::uint8_t>;  // of moves
  struct State {
    Path path{};
    Small::Knowledge from{};
  };

  /// To `next`, where somebody goes on from there.
  void go_on_from(State const& state, std::vector<State>* next) {
    std::optional<Small> world;
    for (std::uint8_t move = 0; move < moves_.size() && explored_.failure.empty(); ++move) {
      if (!world) reach(state, world);
      if (!is_possible(move, state.path, *world)) continue;
      ++explored_.transitions;
      Path path = state.path;
      path.push_back(move);
      do_and_check(path, *world);
      if (is_new(path, *world) && next) next->push_back({path, world->knowledge()});
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
    world->resume(state.from);
  }

  void do_and_check(Path const& path, Small& world) {
    Operation const& move = moves_[path.back()];
    try {
      world.perform(at(world.model.now + (move.call == Call::begin_step), move));
      invariants_hold(world);
    } catch (Broken const& broken) {
      explored_.failure = fmt::format("{} ({})\n", broken.sentence, broken.numbers);
      for (auto const done : path) explored_.failure += text_of(moves_[done]) + '\n';
    }
  }

  bool is_new(Path const& path, Small const& world) {
    Key key;
    for (std::uint8_t submit = 0; submit < of_.requests.size(); ++submit) key.add(contains(path, submit));
    world.seen.add_state(key);
    world.model.add_state(key);
    for (Count const times : world.overtaken) key.add(times);
    bool const is_new = seen_.insert(key.bytes()).second;
    explored_.states += is_new;
    return is_new;
  }

  /// Steps and their retirement are those of the world's own clock.
  static Operation at(Count now, Operation move) {
    if (move.call == Call::begin_step || move.call == Call::retire) move.amount = now;
    return move;
  }

  static bool contains(Path const& path, std::uint8_t move) { return std::find(path.begin(), path.end(), move) != path.end(); }

  /// Whether it could change anything, or says something new.
  bool is_possible(std::uint8_t of, Path const& path, Small& world) const {
    Operation const& move = moves_[of];
    auto const& model = world.model;
    auto const* const item = model.find(move.id);
    switch (move.call) {
      case Call::submit:
        return !contains(path, of);
      case Call::drop:
      case Call::move:
      case Call::grow:
        return bool(world.lease(move.id));
      case Call::finish:
      case Call::cancel:
        return item != nullptr;
      case Call::lease:
        return item && item->in_flight() && !world.lease(move.id);
      case Call::hold:
        return item && item->state == LiveState::running;
      case Call::arrived:
        return item && item->state == LiveState::arriving;
      case Call::generated:
        return item && item->step_by_step && item->pending < item->longest() - item->length();
      case Call::found:
        return item && item->queued();
      case Call::pin:
        return std::none_of(model.items.begin(), model.items.end(), [](auto const& one) { return one.told || one.shared > 0; });
      default:
        return true;
    }
  }

  SmallWorld const& of_;
  std::vector<Operation> moves_{};
  std::unordered_set<std::string> seen_{};
  Explored explored_{};
};

}  // namespace properties
