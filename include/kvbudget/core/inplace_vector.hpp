// A vector of at most `Capacity` elements, stored in place: literal, structural, no allocation.
//
// What does not fit is counted in `lost`, never dropped in silence: whoever checks the owner reports it.
#pragma once

#include <cassert>
#include <cstddef>
#include <cstdint>
#include <initializer_list>

namespace kvbudget::inline v1 {

template <class T, std::size_t Capacity>
struct InplaceVector {
  T items[Capacity]{};
  std::uint32_t used{};
  std::uint32_t lost{};  // elements pushed beyond the capacity

  constexpr InplaceVector() = default;
  constexpr InplaceVector(std::initializer_list<T> list) {
    for (auto const& item : list) push_back(item);
  }

  static constexpr std::size_t capacity() { return Capacity; }
  constexpr std::size_t size() const { return used; }
  constexpr bool empty() const { return used == 0; }
  constexpr bool overflowed() const { return lost != 0; }

  constexpr void push_back(T const& item) {
    if (used < Capacity)
      items[used++] = item;
    else
      ++lost;
  }

  constexpr T& operator[](std::size_t i) {
    assert(i < used);
    return items[i];
  }
  constexpr T const& operator[](std::size_t i) const {
    assert(i < used);
    return items[i];
  }

  friend constexpr bool operator==(InplaceVector const&, InplaceVector const&) = default;

  constexpr T* begin() { return items; }
  constexpr T* end() { return items + used; }
  constexpr T const* begin() const { return items; }
  constexpr T const* end() const { return items + used; }
};

}  // namespace kvbudget::inline v1
