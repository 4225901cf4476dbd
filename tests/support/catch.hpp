// Catch2 v3 where it is installed, v2 (Debian bookworm) otherwise.
#pragma once
#if __has_include(<catch2/catch_test_macros.hpp>)
#include <catch2/catch_message.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/catch_tostring.hpp>
#include <catch2/generators/catch_generators.hpp>
#else
#include <catch2/catch.hpp>
#endif

#include <kvbudget/core/units.hpp>

#include <string>

template <class Unit>
struct Catch::StringMaker<kvbudget::Amount<Unit>> {
  static std::string convert(kvbudget::Amount<Unit> amount) { return std::to_string(amount.count); }
};
