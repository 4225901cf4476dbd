// The lab: a fixed token budget, requests in order, and what one larger request changes.
//
//   kvbudget_lab                       the scenario data/lab.json
//   kvbudget_lab --set a=8000          request a caches 8,000 tokens: b no longer fits, a later and smaller request does
//   kvbudget_lab data/equal24.json --scale-context 2                                twice the context, half the requests
//   kvbudget_lab data/equal24.json --model config.json --gpu-memory 80GiB --weights 16GiB    the budget the weights leave
#include "command_line.hpp"

#include <kvbudget/admit/policies/plain.hpp>
#include <kvbudget/kvbudget.hpp>
#include <kvbudget/read/amount.hpp>
#include <kvbudget/read/model.hpp>
#include <kvbudget/write/json.hpp>

#include <algorithm>
#include <iostream>

namespace {

using kvbudget::Tokens;
using kvbudget::read::Fields;
using Json = nlohmann::ordered_json;

struct Entry {
  std::string id;
  Tokens cached;
  std::uint32_t request_class;
};

struct Scenario {
  Tokens budget;
  std::vector<std::string> classes;
  std::vector<Entry> requests;
};

using example::most_tokens;

std::string joined(std::vector<std::string> const& words) {
  std::string text;
  for (auto const& word : words) text += (text.empty() ? "" : ", ") + word;
  return text;
}

std::vector<std::string> ids(Scenario const& scenario) {
  std::vector<std::string> all;
  for (auto const& entry : scenario.requests) all.push_back(entry.id);
  return all;
}

Entry read_request(Fields const& fields, Scenario const& scenario) {
  fields.only(std::array<std::string_view, 3>{"id", "cached_tokens", "class"});
  Entry entry{fields.text("id"), {fields.count("cached_tokens", 1, most_tokens)}, 0};
  if (auto const name = fields.text_if("class")) {
    auto const found = std::find(scenario.classes.begin(), scenario.classes.end(), *name);
    if (found == scenario.classes.end())
      throw fields.refuse("class", kvbudget::read::Json(*name), joined(scenario.classes), "use a class of the scenario's list, or add it there");
    entry.request_class = static_cast<std::uint32_t>(found - scenario.classes.begin());
  }
  auto const known = ids(scenario);
  if (std::find(known.begin(), known.end(), entry.id) != known.end())
    throw fields.refuse("id", kvbudget::read::Json(entry.id), "an id of its own for each request", "rename one of the two");
  return entry;
}

/// {"budget_tokens": n, "classes": [name, ...] (optional), "requests": [{"id": ..., "cached_tokens": n, "class": name (optional)}, ...]}
Scenario read_scenario(std::string const& path) {
  kvbudget::read::Json const json = kvbudget::read::parse_json(kvbudget::read::file_text(path), path);
  Fields const fields{json, path};
  fields.only(std::array<std::string_view, 3>{"budget_tokens", "classes", "requests"});
  Scenario scenario{.budget = {fields.count("budget_tokens", 0, most_tokens)}, .classes = {"default"}, .requests = {}};
  if (fields.has("classes")) {
    scenario.classes.clear();
    for (auto const& name : fields.list("classes")) {
      if (!name.is_string() || std::find(scenario.classes.begin(), scenario.classes.end(), name.get<std::string>()) != scenario.classes.end())
        throw fields.refuse("classes", name, "a list of names, each once", "write each class once, as a text");
      scenario.classes.push_back(name.get<std::string>());
    }
  }
  for (auto const& request : fields.list("requests"))
    scenario.requests.push_back(read_request(Fields{request, path, "requests[" + std::to_string(scenario.requests.size()) + "]"}, scenario));
  return scenario;
}

/// "a=8000": request a caches 8,000 tokens instead.
void change(Scenario& scenario, std::string const& setting) {
  std::size_t const equals = setting.find('=');
  std::string const id = setting.substr(0, equals);
  auto const found = std::find_if(scenario.requests.begin(), scenario.requests.end(), [&](auto const& entry) { return entry.id == id; });
  if (equals == std::string::npos || found == scenario.requests.end())
    throw kvbudget::read::Error{{"", "--set", "\"" + setting + "\"", "ID=TOKENS with one of the ids " + joined(ids(scenario)),
                                 "write for example --set " + (scenario.requests.empty() ? "a" : scenario.requests[0].id) + "=8000"}};
  found->cached = {kvbudget::read::whole(std::string_view{setting}.substr(equals + 1), "--set " + id, 1)};
}

struct Device {
  std::string model;
  std::string memory;
  std::string weights;
};

kvbudget::Bytes weights_of(Device const& device, kvbudget::read::Model const& model) {
  if (!device.weights.empty()) return kvbudget::read::bytes(device.weights, "--weights");
  if (auto const said = kvbudget::read::weights_of(model)) return *said;
  throw kvbudget::read::Error{
      {"", "--weights", "missing", "the bytes of the weights, where no model.safetensors.index.json is beside the config", "add for example --weights 16GiB"}};
}

/// The tokens that the weights leave room for. Only for a model whose tokens all cost the same.
Tokens budget_of(Device const& device) {
  auto const model = kvbudget::read::model(device.model);
  if (device.memory.empty())
    throw kvbudget::read::Error{{"", "--gpu-memory", "missing", "the device's memory, with --model", "add for example --gpu-memory 80GiB"}};
  if (!growth(model.spec).is_uniform())
    throw kvbudget::read::Error{
        {device.model, "the model", "a hybrid", "a model whose tokens all cost the same: the lab counts tokens", "use kvbudget_estimate"}};
  kvbudget::DeviceBudget const budget{.memory = kvbudget::read::bytes(device.memory, "--gpu-memory"),
                                      .usable = kvbudget::of_total(kvbudget::Percent{100}),
                                      .weights = weights_of(device, model)};
  example::require_good(check(budget), {{".memory", "--gpu-memory"}});
  Tokens const tokens = tokens_that_fit(model.spec, cache_bytes(budget));
  if (tokens == Tokens{})
    throw kvbudget::read::Error{{"", "--weights", fmt::format("{}", budget.weights), fmt::format("weights that leave room for a token in {}", budget.memory),
                                 "give more memory or smaller weights"}};
  return tokens;
}

kvbudget::Headroom headroom_of(std::string const& text, Tokens budget) {
  auto const share = kvbudget::read::attempt([&] { return kvbudget::read::share(text, "--headroom"); });
  auto const tokens = kvbudget::read::attempt([&] { return Tokens{kvbudget::read::whole(text, "--headroom")}; });
  bool const percent = !text.empty() && text.back() == '%' && share;
  if (!percent && !tokens)
    throw kvbudget::read::Error{{"", "--headroom", "\"" + text + "\"", "a whole number of tokens, or a percentage", "write for example 500 or 5%"}};
  kvbudget::Headroom const headroom = percent ? kvbudget::Headroom{*share} : kvbudget::Headroom{*tokens};
  if (headroom.blocks(Tokens{1}, {budget.count}).count >= budget.count)
    throw kvbudget::read::Error{
        {"", "--headroom", text, fmt::format("less than the budget of {}", budget), "lower it: with it, only a lone request could ever start"}};
  return headroom;
}

/// Admits what fits, in order, and says why the rest waits or can never fit.
Json run(Scenario const& scenario, kvbudget::Headroom headroom, bool scan_on) {
  kvbudget::AdmissionLimits const limits{.capacity = scenario.budget,
                                         .headroom = headroom,
                                         .classes = static_cast<std::uint32_t>(scenario.classes.size()),
                                         .max_live = static_cast<std::uint32_t>(std::max<std::size_t>(scenario.requests.size(), 1))};
  example::require_good(check(limits), {{".capacity", "budget_tokens"}, {".classes", "classes"}});
  kvbudget::AdmissionController gate{limits, kvbudget::policies::Plain{.order = {.bypass = scan_on ? kvbudget::unbounded_bypass : kvbudget::Bypass{}}}};

  Json result{{"budget_tokens", scenario.budget}, {"admitted", Json::array()}, {"queued", Json::array()}, {"rejected", Json::array()}};
  std::vector<kvbudget::Ticket> tickets;
  for (auto const& entry : scenario.requests) {
    auto const verdict = gate.submit({.prompt = entry.cached, .request_class = entry.request_class, .tag = tickets.size()});
    tickets.push_back(verdict.ticket);
    if (verdict.rejected())
      result["rejected"].push_back({{"id", entry.id}, {"why", name_of(verdict.reason)}, {"needed", verdict.needed}, {"limit", verdict.limit}});
  }
  std::vector<decltype(gate)::Lease> running;
  while (auto lease = gate.admit_next()) {
    result["admitted"].push_back(scenario.requests[lease.tag()].id);
    running.push_back(std::move(lease));
  }
  for (std::size_t i = 0; i < tickets.size(); ++i)
    if (auto const verdict = gate.why(tickets[i]); verdict.queued())
      result["queued"].push_back({{"id", scenario.requests[i].id}, {"why", name_of(verdict.reason)}, {"needed", verdict.needed}, {"free", verdict.free}});
  result["free_tokens"] = gate.pool().supply.available();
  if (scenario.classes.size() > 1)
    for (std::uint32_t i = 0; i < scenario.classes.size(); ++i) result["active_tokens_by_class"][scenario.classes[i]] = gate.account(i).active_tokens;
  return result;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"Which requests a token budget admits, in order, and why the others wait", "kvbudget_lab"};
  std::string path = KVBUDGET_EXAMPLES_DATA "/lab.json";
  std::vector<std::string> settings;
  std::uint64_t scale = 1;
  std::string order = "scan";
  std::string headroom = "0";
  Device device;
  app.add_option("SCENARIO", path, "a JSON file: budget_tokens and requests")->capture_default_str();
  app.add_option("--set", settings, "ID=TOKENS: change one request without editing the file; may be repeated")->allow_extra_args(false);
  example::add_whole(app, "--scale-context", scale, 1, 1'000'000, "multiply every request's cached tokens");
  app.add_option("--order", order, "scan: later requests are still considered; strict: stop at the first that does not fit")
      ->check(CLI::IsMember({"scan", "strict"}))
      ->capture_default_str();
  app.add_option("--headroom", headroom, "tokens, or a percentage, that admission leaves unused")->capture_default_str();
  app.add_option("--model", device.model, "config.json, GGUF file or catalog name: the budget is what the weights leave of the device");
  app.add_option("--gpu-memory", device.memory, "with --model: for example 80GiB");
  app.add_option("--weights", device.weights, "with --model: for example 16GiB");

  return example::main_of(app, argc, argv, [&] {
    Scenario scenario = read_scenario(path);
    for (auto const& setting : settings) change(scenario, setting);
    for (auto& entry : scenario.requests) entry.cached = entry.cached * scale;
    if (!device.model.empty())
      scenario.budget = budget_of(device);
    else if (!device.memory.empty() || !device.weights.empty())
      throw kvbudget::read::Error{{"", "--model", "missing", "a config.json, with --gpu-memory and --weights", "add --model config.json"}};
    if (scenario.budget == Tokens{}) throw kvbudget::read::Error{{path, "budget_tokens", "0", "1 token or more", "give the tokens that the cache holds"}};
    std::cout << run(scenario, headroom_of(headroom, scenario.budget), order == "scan").dump(2) << '\n';
    return 0;
  });
}
