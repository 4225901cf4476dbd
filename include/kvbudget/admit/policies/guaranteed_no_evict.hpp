// TensorRT-LLM's GUARANTEED_NO_EVICT: a request starts when prompt + max_new has room to its end, and is never preempted.
//
// Reserved in blocks, rounded up, from the start; no headroom; in order of arrival. The original takes max_seq_len where a user gives no
// limit, and broke I5 until #15065: it took idle cached blocks for both hits and free ones. I7 holds: no growth ever fails.
#pragma once

#include <kvbudget/admit/policy.hpp>

namespace kvbudget::inline v1::policies {

struct GuaranteedNoEvict {
  kvbudget::need::PromptAndNew need{};
  kvbudget::headroom::AsGiven headroom{};
  kvbudget::order::Arrival order{};
  kvbudget::victim::Newest victim{};
};
static_assert(AdmissionPolicy<GuaranteedNoEvict>);

}  // namespace kvbudget::inline v1::policies
