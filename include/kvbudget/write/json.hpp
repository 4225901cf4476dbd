// nlohmann/json conversions: nlohmann::json(verdict), nlohmann::json(plan) ...
//
// Amounts are plain numbers, in the unit the key names; the saturated maximum, "without limit", is null.
#pragma once

#include <kvbudget/admit/account.hpp>
#include <kvbudget/write/names.hpp>

#include <nlohmann/json.hpp>

namespace kvbudget::inline v1 {

/// nlohmann::json, nlohmann::ordered_json, or another of its kind.
template <class J>
concept JsonValue = nlohmann::detail::is_basic_json<J>::value;

template <JsonValue Json, class UnitTag>
void to_json(Json& json, Amount<UnitTag> const& amount) {
  if (amount.saturated())
    json = nullptr;
  else
    json = amount.count;
}

template <JsonValue Json>
void to_json(Json& json, Complaint const& complaint) {
  json = {{"field", complaint.field}, {"value", complaint.value}, {"accepted", complaint.accepted}, {"next", complaint.next}, {"index", complaint.index}};
}

/// Counts in blocks of the pool; in a token budget, tokens.
template <JsonValue Json>
void to_json(Json& json, Verdict const& verdict) {
  json = {{"outcome", name_of(verdict.outcome)},
          {"reason", name_of(verdict.reason)},
          {"pool", verdict.pool_name},
          {"needed", verdict.needed},
          {"free", verdict.free},
          {"headroom", verdict.headroom},
          {"limit", verdict.limit}};
  if (verdict.field[0] != '\0') json["field"] = verdict.field;
}

template <JsonValue Json>
void to_json(Json& json, Step const& step) {
  json = {{"label", step.label},   {"operation", name_of(step.operation)},    {"operand", step.operand}, {"operand_unit", name_of(step.operand_unit)},
          {"result", step.result}, {"result_unit", name_of(step.result_unit)}};
}

template <JsonValue Json>
void to_json(Json& json, Trail const& trail) {
  json = Json::array();
  for (auto const& step : trail.steps) json.push_back(step);
}

template <JsonValue Json>
void to_json(Json& json, GroupPlan const& group) {
  json = {{"keeps", name_of(group.group.keeps)},
          {"span_tokens", group.group.span},
          {"block_tokens", group.group.block},
          {"layers", group.layers},
          {"entry_bytes", group.entry},
          {"page_bytes", group.page},
          {"padding_bytes_per_block", group.padding},
          {"pool", group.group.pool},
          {"pool_blocks_per_block", group.group.blocks_per_entry}};
}

template <JsonValue Json>
void to_json(Json& json, PoolPlan const& pool) {
  json = {{"name", pool.name}, {"bytes_per_block", pool.bytes_per_block}, {"blocks", pool.blocks}, {"usable_blocks", pool.usable()}};
}

template <JsonValue Json>
void to_json(Json& json, CachePlan const& plan) {
  json = {{"pool_bytes", plan.pool},
          {"bytes_per_block", plan.bytes_per_block},
          {"blocks", plan.blocks},
          {"usable_blocks", plan.usable()},
          {"block_tokens", plan.options.block},
          {"lost_in_pool_bytes", plan.lost_in_pool()},
          {"longest_request_tokens", plan.longest()},
          {"groups", Json::array()},
          {"more_pools", Json::array()}};
  for (auto const& group : plan.groups) json["groups"].push_back(group);
  for (auto const& pool : plan.more_pools) json["more_pools"].push_back(pool);
}

template <JsonValue Json>
void to_json(Json& json, RequestCapacity const& capacity) {
  json = {{"length", capacity.length},
          {"requests", capacity.requests},
          {"context_tokens", capacity.context_tokens},
          {"pool", capacity.pool},
          {"blocks_per_request", capacity.blocks_per_request},
          {"resident_bytes_per_request", capacity.resident},
          {"reserved_bytes_per_request", capacity.reserved},
          {"unused_blocks", capacity.unused},
          {"binds", name_of(capacity.binds)}};
}

template <JsonValue Json>
void to_json(Json& json, ClassAccount const& account) {
  json = {{"submitted", account.submitted},
          {"admitted", account.admitted},
          {"ever_waited", account.ever_waited},
          {"steps_waited", account.steps_waited},
          {"completed", account.completed},
          {"cancelled", account.cancelled},
          {"expired", account.expired},
          {"wasted_token_steps", account.wasted_token_steps},
          {"preempted", account.preempted},
          {"preempted_for", account.preempted_for},
          {"useful_tokens", account.useful_tokens},
          {"found_tokens", account.found_tokens},
          {"recomputed_tokens", account.recomputed_tokens},
          {"recomputed_per_million", account.recomputed_per_million()},
          {"evicted_blocks", account.evicted_blocks},
          {"moved_blocks", account.moved_blocks},
          {"queued_requests", account.queued_requests},
          {"queued_tokens", account.queued_tokens},
          {"active_requests", account.active_requests},
          {"active_tokens", account.active_tokens},
          {"to_compute", account.to_compute},
          {"tokens_held", account.tokens_held},
          {"tokens_per_request", account.tokens_per_request()},
          {"peak_active_requests", account.peak_active_requests()},
          {"peak_active_tokens", account.peak_active_tokens()},
          {"peak_tokens_held", account.peak_tokens_held()},
          {"rejected", Json::object()}};
  for (std::size_t i = 0; i < reasons; ++i)
    if (account.rejected[i] != 0) json["rejected"][std::string{name_of(static_cast<Reason>(i))}] = account.rejected[i];
}

}  // namespace kvbudget::inline v1
