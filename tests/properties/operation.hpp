// What a caller may do with a controller, as data: so that a sequence of it can be made from a seed, run again, and be cut down.
#pragma once

#include <kvbudget/admit/controller.hpp>

#include <fmt/format.h>

#include <string>

namespace properties {

using namespace kvbudget;
using Count = std::uint64_t;

enum class Call : std::uint8_t {
  submit,
  begin_step,
  admit_next,
  grow,
  finish,
  cancel,
  cancel_group,
  drop,        // the lease dies
  move,        // the lease moves to another place
  lease,       // of one that a plan has started
  plan,        // a plan that is kept, for commit_old
  commit,      // a plan that is committed at once
  commit_old,  // the plan that was kept
  generated,
  found,
  arrived,
  hold,
  retire,
  resize,
  drain,
  reopen,
  pin,   // others hold so many blocks of the pool, and whoever has them in its prompt finds them in use
  idle,  // so many free blocks are cached
  more_of,
};

struct Operation {
  Call call{};
  Count id{};      // whom it is about: requests are numbered from 1
  Count amount{};  // of tokens or blocks; a step; a group
  std::uint32_t pool{};
  StepBudget budget{};
  Request request{};
};

namespace detail {

inline std::string field(char const* name, Count value, Count absent, char const* unit = "") {
  return value == absent ? std::string{} : fmt::format(".{} = {}{}, ", name, value, unit);
}
inline std::string braced(std::string fields) {
  if (fields.ends_with(", ")) fields.resize(fields.size() - 2);
  return "{" + fields + "}";
}

}  // namespace detail

inline std::string text_of(StepBudget const& budget) {
  using detail::field;
  return detail::braced(field("tokens", budget.tokens.count, saturated_count, "_tokens") + field("chunk", budget.chunk.count, saturated_count, "_tokens"));
}

inline std::string text_of(Request const& request) {
  using detail::field;
  std::string fields = field("prompt", request.prompt.count, 0, "_tokens") + field("max_new", request.max_new.count, 0, "_tokens") +
                       field("request_class", request.request_class.index, 0) + field("branches", request.branches, 1) +
                       field("lookahead", request.lookahead.count, 0, "_tokens") + field("tag", request.tag, 0) + field("group", request.group, 0) +
                       field("deadline", request.deadline, no_deadline) + field("tenant", request.tenant, 0);
  if (request.priority != 0) fields += fmt::format(".priority = {}, ", request.priority);
  fields += field("arrival_time", request.arrival_time, 0) + field("adapter", request.adapter, 0);
  return detail::braced(fields + (request.arrives ? ".arrives = true" : ""));
}

/// The operation as the C++ that does it, where `ticket` and `lease` are by id, and `pool` is the source.
inline std::string text_of(Operation const& of) {
  switch (of.call) {
    case Call::submit:
      return fmt::format("ticket[{}] = gate.submit({}).ticket;", of.id, text_of(of.request));
    case Call::begin_step:
      return fmt::format("gate.begin_step({});", of.amount);
    case Call::admit_next:
      return "admit(gate.admit_next());";
    case Call::grow:
      return fmt::format("lease[{}].grow({}_tokens);", of.id, of.amount);
    case Call::finish:
      return fmt::format("gate.finish(ticket[{}]);", of.id);
    case Call::cancel:
      return fmt::format("gate.cancel(ticket[{}]);", of.id);
    case Call::cancel_group:
      return fmt::format("gate.cancel_group({});", of.amount);
    case Call::drop:
      return fmt::format("lease[{}] = {{}};", of.id);
    case Call::move:
      return fmt::format("auto moved = std::move(lease[{0}]); lease[{0}] = std::move(moved);", of.id);
    case Call::lease:
      return fmt::format("lease[{0}] = gate.lease(ticket[{0}]);", of.id);
    case Call::plan:
      return fmt::format("auto old = gate.plan({});", text_of(of.budget));
    case Call::commit:
      return fmt::format("gate.commit(gate.plan({}));", text_of(of.budget));
    case Call::commit_old:
      return "gate.commit(old);";
    case Call::generated:
      return fmt::format("gate.generated(ticket[{}], {}_tokens);", of.id, of.amount);
    case Call::found:
      return fmt::format("gate.found(ticket[{}], {{pool.pinned, pool.idle, {}_blocks}});", of.id, of.amount);
    case Call::arrived:
      return fmt::format("gate.arrived(ticket[{}]);", of.id);
    case Call::hold:
      return fmt::format("gate.hold(ticket[{}]);", of.id);
    case Call::retire:
      return fmt::format("gate.retire({});", of.amount);
    case Call::resize:
      return fmt::format("gate.resize({}_blocks, {});", of.amount, of.pool);
    case Call::drain:
      return "gate.drain();";
    case Call::reopen:
      return "gate.reopen();";
    case Call::pin:
      return fmt::format("pool.pin({}_blocks);", of.amount);
    case Call::idle:
      return fmt::format("pool.idle({}_blocks);", of.amount);
    case Call::more_of:
      return fmt::format("gate.more_of({});", text_of(of.request));
  }
  return {};
}

inline std::string text_of(CacheGroup const& group) {
  using detail::field;
  static constexpr char const* keeps[] = {"everything", "window", "chunk", "fixed"};
  return detail::braced(fmt::format(".keeps = Keeps::{}, ", keeps[std::size_t(group.keeps)]) + field("pool", group.pool, 0) +
                        field("block", group.block.count, 1, "_tokens") + field("span", group.span.count, 0, "_tokens") +
                        field("fixed", group.fixed.count, 0, "_blocks") + field("blocks_per_entry", group.blocks_per_entry, 1));
}

inline std::string text_of(ClassLimit const& limit) {
  using detail::field;
  return detail::braced(field("floor", limit.floor.count, 0, "_tokens") + field("share", limit.share.millionths, 0, " millionths") +
                        field("floor_running", limit.floor_running, 0) + field("running", limit.running, saturated_count) +
                        field("tokens", limit.tokens.count, saturated_count, "_tokens") +
                        field("to_compute", limit.to_compute.count, saturated_count, "_tokens") + field("queued", limit.queued, saturated_count) +
                        field("queued_tokens", limit.queued_tokens.count, saturated_count, "_tokens"));
}

inline std::string text_of(AdmissionLimits const& limits) {
  using detail::field;
  std::string groups, pools, classes;
  for (auto const& group : limits.footprint.groups) groups += text_of(group) + ", ";
  for (auto const& pool : limits.more_pools)
    pools += detail::braced(field("capacity", pool.capacity.count, 0, "_blocks") + field("headroom", pool.headroom.count, 0, "_blocks")) + ", ";
  for (auto const& limit : limits.class_limits) classes += text_of(limit) + ", ";
  std::string fields = field("capacity", limits.capacity.count, 0, "_blocks") +
                       field("headroom", limits.headroom.count, 0, limits.headroom.in == Headroom::In::percent ? " millionths" : "_blocks") +
                       fmt::format(".footprint = {{.groups = {}, .in_flight = {}_tokens}}, ", detail::braced(groups), limits.footprint.in_flight.count);
  if (!pools.empty()) fields += ".more_pools = " + detail::braced(pools) + ", ";
  fields += field("classes", limits.classes, 1);
  if (!classes.empty()) fields += ".class_limits = " + detail::braced(classes) + ", ";
  fields += field("tenants", limits.tenants, 1) + field("max_live", limits.max_live, 4'096) + field("max_running", limits.max_running, saturated_count) +
            field("adapters", limits.adapters, 0) + field("max_length", limits.max_length.count, saturated_count, "_tokens") +
            field("tokens_per_step", limits.tokens_per_step.count, saturated_count, "_tokens") + field("chunk", limits.chunk.count, saturated_count, "_tokens");
  if (limits.whole_prompts) fields += ".whole_prompts = true, ";
  if (limits.retires) fields += ".retires = true, ";
  return detail::braced(fields);
}

}  // namespace properties
