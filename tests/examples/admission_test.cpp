// The admission examples, run as a user runs them: the claims they are there for, and how they refuse.
#include "examples.hpp"

#include "workload.hpp"

namespace {

Json scheduler_loop(std::string const& arguments) { return json_of(run(examples + "kvbudget_scheduler_loop --json " + arguments)); }

/// Runs once, however many tests look at it.
Json const& request_classes() {
  static Json const out = json_of(run(examples + "kvbudget_request_classes --json"));
  return out;
}

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
  start.admit.emplace_back().tokens = {6};
  prefill.grow.emplace_back().tokens = {4};
  decode.grow.emplace_back().tokens = {1};
  preempt.preempt.emplace_back();
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

// ---- the request classes: claims 9, 10, 14 and 15 ----

TEST_CASE("every request of every admission is answered or given up") {
  for (auto const& run : request_classes()["admissions"])
    for (auto const name : classes) closed(run["classes"][name]["account"]);
}

TEST_CASE("a question and a document are orders of magnitude apart, so that one count means nothing") {
  for (auto const& run : request_classes()["admissions"])
    REQUIRE(number(run["classes"]["document"]["tokens_per_request"]) > 25 * number(run["classes"]["interactive"]["tokens_per_request"]));
}

TEST_CASE("a count that is safe leaves the cache idle, one that fills it thrashes, and a token budget does neither") {
  Json const& runs = request_classes()["admissions"];
  REQUIRE(runs.size() == 4);
  Json const &low = runs[0], &high = runs[1], &budget = runs[2];
  REQUIRE((low["admission"] == "a limit of 5 requests" && high["admission"] == "a limit of 80 requests"));
  auto const rate = [](Json const& run) { return number(run["rates"]["useful_tokens_per_second"]); };
  auto const thrash = [](Json const& run) { return number(run["rates"]["recomputed_per_million"]); };
  auto const of_both = [](Json const& run, char const* what) { return number(run["classes"]["interactive"][what]) + number(run["classes"]["document"][what]); };
  REQUIRE(of_both(low, "tokens_held") * 3 < 48'000);
  REQUIRE(of_both(budget, "tokens_held") * 5 > 4 * 48'000);
  REQUIRE(thrash(low) == 0);
  REQUIRE(thrash(high) > 3'000'000);  // each token that was of use is matched by three that were computed again
  REQUIRE(thrash(budget) < 1'000);
  REQUIRE(rate(budget) > 2 * rate(low));
  REQUIRE(rate(high) < rate(low));
  for (auto const name : classes) REQUIRE(number(high["classes"][name]["account"]["preempted"]) > 100);
  REQUIRE(number(low["classes"]["interactive"]["account"]["steps_waited"]) > 5 * number(budget["classes"]["interactive"]["account"]["steps_waited"]));
}

TEST_CASE("a floor and a ceiling keep questions from waiting behind documents, and as many documents are answered") {
  Json const &budget = request_classes()["admissions"][2]["classes"], &limited = request_classes()["admissions"][3]["classes"];
  REQUIRE(number(limited["interactive"]["account"]["steps_waited"]) * 20 < number(budget["interactive"]["account"]["steps_waited"]));
  REQUIRE(number(limited["interactive"]["account"]["completed"]) > number(budget["interactive"]["account"]["completed"]));
  REQUIRE(limited["document"]["account"]["completed"] == budget["document"]["account"]["completed"]);
  REQUIRE(number(limited["document"]["account"]["peak_active_tokens"]) <= 42'000);
}

TEST_CASE("a request that waits is told why, with what its class holds") {
  Json const& runs = request_classes()["admissions"];
  auto const first = [&](std::size_t run, char const* name) { return runs[run]["classes"][name]["first_that_waits"]; };
  Json const counted = first(0, "interactive")["verdict"];
  REQUIRE((counted["reason"] == "running_limit" && counted["field"] == ".max_running" && counted["needed"] == 6 && counted["limit"] == 5));
  Json const head = first(2, "document");
  REQUIRE((head["verdict"]["reason"] == "no_room" && head["verdict"]["needed"] == 8'000));
  REQUIRE(number(head["verdict"]["free"]) < 8'000);
  REQUIRE((head["active_requests"] == 5 && head["tokens_per_request"] == 8'070));
  REQUIRE(first(2, "interactive")["verdict"]["reason"] == "behind_head");
  Json const at_ceiling = first(3, "document")["verdict"];
  REQUIRE((at_ceiling["reason"] == "class_limit" && at_ceiling["field"] == ".tokens" && at_ceiling["limit"] == 42'000));
  REQUIRE(number(at_ceiling["needed"]) > 42'000);
}

TEST_CASE("past the useful point throughput falls while the count limit rises, and beside a token budget it does not") {
  std::uint64_t best = 0, last = 0, last_thrash = 0, budget = 0;
  for (auto const& point : request_classes()["concurrency"]) {
    Json const &alone = point["limit_alone"], &beside = point["token_budget"];
    last = number(alone["useful_tokens_per_second"]);
    best = std::max(best, last);
    REQUIRE(number(alone["recomputed_per_million"]) >= last_thrash);
    last_thrash = number(alone["recomputed_per_million"]);
    REQUIRE(number(beside["useful_tokens_per_second"]) >= budget);
    budget = number(beside["useful_tokens_per_second"]);
    REQUIRE(number(beside["recomputed_per_million"]) < 1'000);
  }
  REQUIRE(last * 3 < best * 2);
  REQUIRE(budget * 10 > best * 14);
}

TEST_CASE("the classes fit other caches and mixes, and refuse bad arguments") {
  std::string const program = examples + "kvbudget_request_classes ";
  Ran const small = run(program + "--capacity 10000 --interactive 20 --documents 5");
  REQUIRE(small.code == 0);
  REQUIRE(has(small, "a limit of 1 requests: "));
  REQUIRE(has(small, "a cache of 10,000 tokens; 20 requests of class interactive, 5 of class document\n"));
  REQUIRE(has(run(program + "--capacity 1000000 --interactive 1 --documents 1"), "806 useful tokens/s, 0.00 computed again for each"));
  refused(program + "--capacity 9999", {"--capacity is \"9999\"", "10000 to 1000000", "next:"});
  refused(program + "--documents 0", {"--documents is \"0\"", "next:"});
  refused(program + "--interactive many", {"--interactive is \"many\""});
}
