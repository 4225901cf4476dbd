// A rank of a vLLM plan in the general shape, CachePlan: what a sequence holds of each kind of layers, and in how many blocks.
//
// Groups of one kind are one entry, with a pool block for each of them behind every block of tokens: Gemma-3-27B's 52 sliding
// layers are 6 groups, so a window of 1'089 blocks takes 6 x 1'089 of the pool. What no layer fills of a block is padding.
#pragma once

#include <kvbudget/size/capacity.hpp>
#include <kvbudget/size/vllm/groups.hpp>

namespace kvbudget::inline v1::vllm::detail {

/// Tokens behind one entry: of a state that every block keeps, the block.
constexpr std::uint32_t tokens_per_entry(LayerSpec const& spec, RequestTerms const& terms) {
  if (spec.kind == SpecKind::mamba) return spec.mamba_mode == MambaMode::all ? static_cast<std::uint32_t>(spec.block.count) : 1;
  return spec.compress_ratio * (base_of(spec.kind) == BaseKind::full ? terms.decode_context : 1);
}

/// What an entry of a sequence takes in one layer, without padding; of a fixed group, all that the sequence keeps.
constexpr Bytes entry_bytes(LayerSpec const& spec, RequestTerms const& terms) {
  if (spec.kind == SpecKind::mamba) return state_bytes(spec);
  Bytes const token{floor_div(unpadded_page(spec).count, stored_tokens(spec))};
  if (spec.kind != SpecKind::cross_attention) return token;
  return token * (spec.encoder != Tokens{} ? spec.encoder : terms.encoder).count;
}

constexpr bool same_group(CacheGroup const& a, CacheGroup const& b) {
  return a.keeps == b.keeps && a.block == b.block && a.span == b.span && a.fixed == b.fixed && a.bound.tokens == b.bound.tokens &&
         a.bound.blocks == b.bound.blocks;
}

/// The plan's entry for layers that keep this; one more where there is none yet.
constexpr GroupPlan& group_for(CachePlan& plan, CacheGroup const& group, std::uint32_t tokens_per_entry) {
  for (auto& known : plan.groups)
    if (same_group(known.group, group) && known.tokens_per_entry == tokens_per_entry) return known;
  GroupPlan one{.group = group, .tokens_per_entry = tokens_per_entry};
  one.group.blocks_per_entry = 0;
  plan.groups.push_back(one);
  return plan.groups[plan.groups.size() - 1];
}

/// B7: of a group of several kinds, the layer that needs most blocks stands for it.
constexpr LayerSpec const& carrier_of(Group const& group, RequestTerms const& terms, Tokens longest) {
  std::size_t most = 0;
  for (std::size_t i = 1; i < group.members.size(); ++i)
    if (blocks_per_request(group.members[i], terms, longest) > blocks_per_request(group.members[most], terms, longest)) most = i;
  return group.members[most];
}

/// One group: what its layers on the rank keep, and the pool block that it has behind every block of tokens, on all ranks alike.
constexpr void describe(CachePlan& plan, Group const& group, Group const& of_all_ranks, RequestTerms const& terms, Tokens longest) {
  Bytes filled{};
  for (std::size_t i = 0; i < group.layers.size(); ++i) {
    LayerSpec const& spec = group.members[group.uniform_type ? i : 0];
    GroupPlan& kept = group_for(plan, cache_group(spec, terms), tokens_per_entry(spec, terms));
    kept.entry += entry_bytes(spec, terms);
    kept.page = page_bytes(group);
    ++kept.layers;
    filled += unpadded_page(spec);
  }
  LayerSpec const& carrier = carrier_of(of_all_ranks, terms, longest);
  GroupPlan& blocks = group_for(plan, cache_group(carrier, terms), tokens_per_entry(carrier, terms));
  ++blocks.group.blocks_per_entry;
  blocks.padding += plan.bytes_per_block - filled;
}

/// All groups of a rank. Of more kinds than a plan has room for it says so, and that nothing fits.
constexpr void describe(CachePlan& plan, std::vector<Group> const& groups, std::vector<Group> const& of_all_ranks, RequestTerms const& terms, Tokens longest,
                        Complaints& complaints) {
  for (std::size_t i = 0; i < groups.size(); ++i) describe(plan, groups[i], of_all_ranks[i], terms, longest);
  for (auto const& one : plan.groups)
    if (one.group.blocks_per_entry != 0) plan.footprint.groups.push_back(one.group);
  if (!plan.groups.overflowed()) return;
  complaints.push_back(
      {".layers", plan.groups.size() + plan.groups.lost, "at most 8 kinds of what layers keep", "the printed figures hold; at() can't tell what fits"});
  plan.footprint.groups = {fixed_group(Blocks::max())};
}

}  // namespace kvbudget::inline v1::vllm::detail
