// What SGLang sizes, allocates, allows and prints, before a server starts (facts: sglang.md R30-R61; SGLang 9fec359a6).
//
//   auto const plan = sglang::plan(model, {.before_loading = pre, .after_loading = post}, {.mem_fraction_static = 0.83});
//   plan.tokens                      // max_total_num_tokens: floor_page(budget // bytes of a token), the least of all stages
//   plan.running, plan.longest_request      // max_running_requests, max_req_len
//   plan.at(8'192_tokens).requests          // requests of this length side by side
// Llama-3.1-8B on an H100 with 68'866'277'376 bytes free after loading: 54'428'455'403 bytes, 415'256 tokens, 2'048 requests.
// A plan that SGLang would refuse holds nothing and says why: `refusal`, and the figures of its message in `figures`.
// One that starts and can admit nothing (R51, R52) is not refused: plan.serves_nobody() says why at() gives 0 requests.
// The arithmetic is in the headers of sglang/, rule by rule: budget (R30-R34), cells (R40-R48), buffers (R60).
#pragma once

#include <kvbudget/size/sglang/from_spec.hpp>
#include <kvbudget/size/sglang/settle.hpp>

namespace kvbudget::inline v1::sglang {

/// Every stage of a pipeline, or the one of a server without: `memory` of each, or one for all.
constexpr std::vector<Plan> plan_stages(std::vector<RankModel> const& ranks, std::vector<Memory> const& memory, Options const& options) {
  std::vector<Plan> plans;
  Tokens capacity = Tokens::max();
  bool refused = false;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    plans.push_back(detail::profile(ranks[i], memory.empty() ? Memory{} : memory[i < memory.size() ? i : memory.size() - 1], options));
    refused = refused || plans.back().refused();
    capacity = min(capacity, plans.back().local_capacity);
  }
  for (auto& plan : plans) {
    if (!refused) detail::settle(plan, capacity);
  }
  for (auto const& plan : plans) refused = refused || plan.refused();
  for (auto& plan : plans) {
    if (refused && !plan.refused()) plan.refusal = Refusal::other_stage;
    if (plan.refused()) detail::empty(plan);
  }
  return plans;
}

constexpr std::vector<RankModel> ranks_of(Model const& model, Options const& options) {
  std::vector<RankModel> ranks;
  std::uint32_t const stages = check(options).empty() ? options.pp_size : 1;
  for (std::uint32_t stage = 0; stage < stages; ++stage) ranks.push_back(on_rank(model, options, stage));
  return ranks;
}

constexpr std::vector<Plan> plan_stages(Model const& model, std::vector<Memory> const& memory, Options const& options) {
  return plan_stages(ranks_of(model, options), memory, options);
}

/// The stage that binds: the first that is refused for its own reason, or else the one that by itself would hold least.
constexpr Plan const& binding_stage(std::vector<Plan> const& plans) {
  Plan const* least = &plans.front();
  for (auto const& plan : plans) {
    if (plan.refused() && plan.refusal != Refusal::other_stage) return plan;
    if (plan.local_capacity < least->local_capacity) least = &plan;
  }
  return *least;
}

constexpr Plan plan(Model const& model, Memory const& memory, Options const& options) { return binding_stage(plan_stages(model, {memory}, options)); }

/// R47. The pool of a draft model: the target's tokens, for the draft's own layers. Its bytes are what the draft really takes; what
/// SGLang has charged for it is `charged_draft_layers` at the target's size, or nothing.
constexpr std::vector<Store> draft_stores(Plan const& target, RankModel const& draft) {
  if (target.refused()) return {};
  Options const& o = target.arguments;
  CacheType const type = cache_type(o, draft.model);
  if (draft.model.latent) return {latent_store(StoreKind::cache, target.tokens, cached_layers(draft), draft.model, o, type)};
  return {key_value_store(StoreKind::cache, layout_of(draft, o), draft, target.tokens, cached_layers(draft), o, type)};
}

}  // namespace kvbudget::inline v1::sglang
