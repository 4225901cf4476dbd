// Whether sanitizers look on: all takes some ten times as long then, and the tests do a share of their work.
#pragma once

namespace properties {

inline constexpr bool sanitized = KVBUDGET_SANITIZED;

}  // namespace properties
