// What asks for room: a request, its class, and the ticket it is known by.
#pragma once

#include <kvbudget/core/units.hpp>

#include <type_traits>

namespace kvbudget::inline v1 {

/// The caller's own enum, or an index: 0 to classes - 1.
struct RequestClass {
  std::uint32_t index{};

  constexpr RequestClass() = default;
  template <class T>
  requires(std::is_enum_v<T> || Count<T>) constexpr RequestClass(T value) : index{narrow(value)} {}

  friend constexpr bool operator==(RequestClass, RequestClass) = default;

 private:
  template <class T>
  static constexpr std::uint32_t narrow(T value) {
    if constexpr (std::is_enum_v<T>) {
      return narrow(static_cast<std::underlying_type_t<T>>(value));
    } else {
      std::uint64_t const n = static_cast<std::uint64_t>(value);  // a negative one is too large to be a class
      return n > 0xffff'ffff ? 0xffff'ffff : static_cast<std::uint32_t>(n);
    }
  }
};

/// The library's own id of a request. A stale one, whose request is done, is recognised and ignored.
struct Ticket {
  std::uint32_t slot{0xffff'ffff};
  std::uint32_t generation{};

  friend constexpr bool operator==(Ticket, Ticket) = default;
};

/// A place among those that wait: the smaller comes first, and of two with the same level the smaller `then`.
struct Place {
  std::uint64_t level{};
  std::uint64_t then{};

  constexpr Place(std::uint64_t of_level = 0, std::uint64_t of_equals = 0) : level{of_level}, then{of_equals} {}
  friend constexpr auto operator<=>(Place const&, Place const&) = default;
};

inline constexpr std::uint64_t no_deadline = ~std::uint64_t{0};

struct Request {
  Tokens prompt{};
  Tokens max_new{};  // the most tokens it may generate, per branch; 0: the prompt alone
  RequestClass request_class{};
  std::uint32_t branches{1};            // parallel samples or beams; they share the prompt's whole blocks
  Tokens lookahead{};                   // slots a branch needs beyond what it has: speculative tokens, steps in flight
  std::uint64_t tag{};                  // the caller's own id
  std::uint64_t group{};                // the caller's own id of what is cancelled together; 0: of no group
  std::uint64_t deadline{no_deadline};  // the last step, as begin_step tells it, that it may see; later it is given up
  std::uint32_t tenant{};               // whose it is, 0 to tenants - 1, where the order shares between tenants
  std::int32_t priority{};              // smaller goes first (as in vLLM), where the order goes by it
  std::uint64_t arrival_time{};         // when it came in, by the caller's own clock: of equal priority the earlier goes first
  std::uint64_t adapter{};              // the caller's own id of the adapter that must be loaded for it; 0: none
  bool ignore_eos{};                    // it generates all of max_new, whatever it says: where a policy counts on that
  bool arrives{};                       // its cache is computed elsewhere: once started it is arriving, until arrived(ticket)

  /// Look-ahead is for decoding: a request that generates nothing has none.
  constexpr Tokens ahead() const { return max_new == Tokens{} ? Tokens{} : lookahead; }
};

}  // namespace kvbudget::inline v1
