// The admission examples, run as a user runs them: the claims they are there for, and how they refuse.
#include "examples.hpp"

#include "workload.hpp"

namespace {

Json scheduler_loop(std::string const& arguments) { return json_of(run(examples + "kvbudget_scheduler_loop --json " + arguments)); }

std::uint64_t number(Json const& json) { return json.get<std::uint64_t>(); }

constexpr std::string_view classes[] = {"interactive", "document"};

/// Every request has been answered or given up, and nothing is held.
void closed(Json const& account) {
  REQUIRE(number(account["completed"]) + number(account["cancelled"]) == number(account["submitted"]));
  REQUIRE(account["rejected"] == Json::object());
  for (auto const* gauge : {"queued_requests", "active_requests", "active_tokens", "tokens_held"}) REQUIRE(account[gauge] == 0);
}

}  // namespace

TEST_CASE("the dice are SplitMix64, and within their range") {
  REQUIRE(example::Dice{0}.roll(0, 0xffff'ffff'ffff'fffe) == 0xe220'a839'7b1d'cdaf);
  example::Dice dice{1};
  std::vector<std::uint64_t> seen(4);
  for (int i = 0; i < 100; ++i) ++seen.at(dice.roll(5, 8) - 5);
  for (auto const times : seen) REQUIRE(times > 0);
}

TEST_CASE("an engine generates a token only once all that it knows is computed, and computes again what a preemption took") {
  example::Jobs const jobs{{.request = {.prompt = {10}}, .output = {3}}};
  kvbudget::BasicStepPlan<> start, prefill, decode, preempt;
  start.admit.push_back({.tokens = {6}});
  prefill.grow.push_back({.tokens = {4}});
  decode.grow.push_back({.tokens = {1}});
  preempt.preempt.push_back({});
  example::Engine engine{jobs};
  engine.step(start);
  engine.step(prefill);  // 1 generated
  engine.step(decode);   // 2
  REQUIRE(engine.complete().empty());
  engine.step(preempt);
  engine.step(start);
  REQUIRE(engine.complete().empty());
  engine.step(prefill);  // the prompt, not yet what was generated
  REQUIRE(engine.complete().empty());
  engine.step(decode);
  REQUIRE(engine.complete().empty());
  engine.step(decode);
  REQUIRE(engine.complete() == std::vector<std::uint64_t>{0});
}

// ---- the scheduler's loop: claims 13 and 14 ----

TEST_CASE("completion and cancellation give their room back in the same step") {
  REQUIRE(scheduler_loop("")["free_tokens"] == Json{{"while_it_runs", 9'000}, {"cancelled", 12'000}, {"completed", 12'000}});
}

TEST_CASE("ignored cancellations hold tokens for nobody, and everything is done later") {
  Json const out = scheduler_loop("");
  REQUIRE((out["capacity_tokens"] == 12'000 && out["headroom_tokens"] == 500));
  REQUIRE(out["runs"].size() == 4);
  for (std::size_t loop = 0; loop < 2; ++loop) {
    Json const &honoured = out["runs"][loop], &ignored = out["runs"][loop + 2];
    REQUIRE(honoured["loop"] == (loop == 0 ? "leases" : "plans"));
    REQUIRE(ignored["loop"] == honoured["loop"]);
    REQUIRE((honoured["cancellations"] == "honoured" && ignored["cancellations"] == "ignored"));
    REQUIRE(number(ignored["wasted_token_steps"]) > 20 * number(honoured["wasted_token_steps"]));
    REQUIRE(number(ignored["steps"]) * 10 > number(honoured["steps"]) * 13);
    for (auto const name : classes) {
      Json const &with = honoured["classes"][name]["account"], &without = ignored["classes"][name]["account"];
      closed(with);
      closed(without);
      REQUIRE(with["completed"] == without["completed"]);  // who is answered is the same
      REQUIRE(number(without["steps_waited"]) > 2 * number(with["steps_waited"]));
      REQUIRE(number(without["wasted_token_steps"]) > 20 * number(with["wasted_token_steps"]));
    }
  }
}

TEST_CASE("the two loops decide alike where nobody is preempted") {
  for (std::string const room : {"--capacity 1000000 ", "--capacity 40000 --headroom 8000 "}) {
    Json out = scheduler_loop(room + "--requests 100 --seed 3");
    for (auto const name : classes)
      for (auto const& of : out["runs"]) REQUIRE(of["classes"][name]["account"]["preempted"] == 0);
    for (std::size_t how = 0; how < 2; ++how) {
      out["runs"][2 * how + 1]["loop"] = "leases";
      REQUIRE(out["runs"][2 * how] == out["runs"][2 * how + 1]);
    }
  }
}

TEST_CASE("a seed decides the requests, and nothing else does") {
  REQUIRE(scheduler_loop("--seed 7") == scheduler_loop("--seed 7"));
  REQUIRE(scheduler_loop("--seed 7") != scheduler_loop("--seed 8"));
  REQUIRE(scheduler_loop("--seed 18446744073709551615")["runs"].size() == 4);
}

TEST_CASE("the scheduler's loop refuses bad arguments") {
  std::string const program = examples + "kvbudget_scheduler_loop ";
  refused(program + "--capacity 4399", {"--capacity is \"4399\"", "4400 to 1000000", "next:"});
  refused(program + "--headroom 12000", {"--headroom is 12000", "less than the capacity", "next:"});
  refused(program + "--requests 0", {"--requests is \"0\""});
  refused(program + "--seed -1", {"--seed is \"-1\""});
}
