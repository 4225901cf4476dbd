// What check() lists: the field, the value found there, what is accepted, and what to do next.
//
// A bad spec has two ends. In a constant expression it does not compile where it is used; met at run time it yields the
// saturated maximum, a need that never fits. It never yields 0 bytes.
#pragma once

#include <kvbudget/core/inplace_vector.hpp>
#include <kvbudget/core/units.hpp>

#include <type_traits>

namespace kvbudget::inline v1 {

struct Complaint {
  char const* field{""};     // as the caller spelled it: ".kv_heads"
  std::uint64_t value{};     // what was found there
  char const* accepted{""};  // what would have been accepted
  char const* next{""};      // what to do about it
  std::uint32_t index{};     // which layer shape, pool or group, where a field has several
};

/// Every complaint, up to 16; `lost` counts further ones.
using Complaints = InplaceVector<Complaint, 16>;

namespace detail {
inline void spec_is_bad_see_check() {}  // not constexpr: a constant that gets here does not compile
}  // namespace detail

/// The answer to a question about a bad spec: a compile error in a constant expression, else the need that never fits.
template <class Quantity>
constexpr Quantity never_fits() {
  if (std::is_constant_evaluated()) detail::spec_is_bad_see_check();
  return Quantity::max();
}

/// The capacity of a bad spec: a compile error in a constant expression, else nothing fits.
template <class Quantity>
constexpr Quantity nothing_fits() {
  if (std::is_constant_evaluated()) detail::spec_is_bad_see_check();
  return Quantity{};
}

}  // namespace kvbudget::inline v1
