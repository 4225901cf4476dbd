// The plain policy: the whole prompt must fit beside the headroom, in order of arrival, and the newest gives way.
#pragma once

#include <kvbudget/admit/policy.hpp>

namespace kvbudget::inline v1::policies {

struct Plain {
  kvbudget::need::WholePrompt need{};
  kvbudget::headroom::AsGiven headroom{};
  kvbudget::order::Arrival order{};  // {.bypass = unbounded_bypass}: a later request that fits may start
  kvbudget::victim::Newest victim{};
};
static_assert(AdmissionPolicy<Plain>);

}  // namespace kvbudget::inline v1::policies
