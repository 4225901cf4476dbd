// Who comes first among those that wait, and what an order is asked by.
#include "steps.hpp"

using namespace kvbudget;
using namespace kvbudget::literals;
using namespace steps;

namespace {

struct ByPriority {
  need::WholePrompt need{};
  headroom::AsGiven headroom{};
  order::Priority order{};
  victim::LowestPriority victim{};
};

Request came_at(std::uint64_t time, Request request) {
  request.arrival_time = time;
  return request;
}

}  // namespace

TEST_CASE("of equal priority whoever came in first goes first, and of those whoever was submitted first") {
  AdmissionController<ByPriority> gate{{.capacity = 100_tokens, .max_running = 3}};
  gate.submit(came_at(4, ask('A', 10, 9)));
  gate.submit(came_at(3, ask('B', 10, 9)));
  gate.submit(came_at(9, ask('C', 10, 9, -1)));
  gate.submit(came_at(3, ask('D', 10, 9)));
  REQUIRE(waiting(gate) == "CBDA");
  REQUIRE(step(gate) == Did{.started = "CBD"});
  REQUIRE(waiting(gate) == "A");
}

TEST_CASE("the largest priority gives way, of equals whoever came in last, and of those whoever was submitted last") {
  Request const low = came_at(1, ask('A', 1, 1, 2)), late = came_at(5, ask('B', 1, 1)), early = came_at(3, ask('C', 1, 1));
  auto const yields_before = [](Request const& a, std::uint64_t submission_a, Request const& b, std::uint64_t submission_b) {
    return victim::LowestPriority{}.yields_before({.request = a, .arrival = submission_a}, {.request = b, .arrival = submission_b});
  };
  REQUIRE(yields_before(low, 1, late, 2));
  REQUIRE(yields_before(late, 1, early, 2));
  REQUIRE(yields_before(early, 2, early, 1));
  REQUIRE_FALSE(yields_before(late, 2, low, 1));
  REQUIRE_FALSE(yields_before(early, 2, late, 1));
  REQUIRE_FALSE(yields_before(early, 1, early, 1));
}

TEST_CASE("those that wait are named in the order they would be looked at, whatever their class, and those in flight as they started") {
  AdmissionController gate{{.capacity = 100_tokens, .classes = 2, .max_running = 2}};
  auto const of = [](std::uint32_t index, Request request) {
    request.request_class = index;
    return request;
  };
  gate.submit(of(1, ask('A', 9, 1)));
  gate.submit(of(0, ask('B', 9, 1)));
  gate.submit(of(1, ask('C', 9, 1)));
  gate.submit(of(0, ask('D', 9, 1)));
  std::string asked;
  gate.each_waiting([&](Ticket ticket, Request const&) { asked += gate.why(ticket).reason == Reason::in_queue ? '.' : '!'; });  // it may ask
  REQUIRE(asked == "....");
  REQUIRE(waiting(gate) == "ABCD");
  REQUIRE(step(gate) == Did{.started = "AB"});
  REQUIRE(waiting(gate) == "CD");
  std::string running;
  gate.each_running([&](Ticket, Request const& request) { running += static_cast<char>(request.tag); });
  REQUIRE(running == "AB");
}
