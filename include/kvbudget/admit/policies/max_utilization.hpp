// TensorRT-LLM's MAX_UTILIZATION: once those that run have room for their next step, a request starts iff its whole prompt has room. Where
// there is none to run on, the last that started is paused (capacityScheduler.cpp of its batch manager; facts: admission.md B.1, B10).
//
// In order of arrival, without headroom; nothing is kept of one that is paused, and nobody starts in that step. Request::lookahead is what
// the next step has room for beside its token: the d drafts, or 2 d + 1 with overlap, when it looks two steps ahead. With overlap and blocks
// of 16, a request of 15 tokens holds 1 block, and its next token takes the second.
//
// Of I1 to I24 (facts: admission.md E.3) the original breaks, and so does this:
//   I15  those paused stay paused though the asker then is paused itself, which ends the step for those behind it; and the same request may
//        be paused again before it has computed a token more than it had (#9931, #9997)
// The original alone: I8 and I9, its scheduler passes a request that can't fit alone over in every step, where submit rejects it here; in
// some releases I5, hits on idle blocks were room as well (#11731), and I20, look-ahead was not counted (#16280).
// Not as the original: it looks ahead no further than max_new, and not at a start; this does both, so it is stricter by that look-ahead.
#pragma once

#include <kvbudget/admit/policy.hpp>

namespace kvbudget::inline v1::policies {

struct MaxUtilization {
  kvbudget::need::WholePrompt need{};
  kvbudget::headroom::AsGiven headroom{};
  kvbudget::order::Arrival order{};
  kvbudget::victim::Newest victim{};
  kvbudget::Preemption preemption{.enough_or_none = false, .others_go_on = false};
};
static_assert(AdmissionPolicy<MaxUtilization>);

}  // namespace kvbudget::inline v1::policies
