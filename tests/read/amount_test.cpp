#include "catch.hpp"

#include <kvbudget/read/amount.hpp>

using namespace kvbudget;
using namespace kvbudget::literals;

TEST_CASE("amounts of bytes are read with their unit, binary and decimal apart") {
  REQUIRE(read::bytes("80GiB", "--gpu-memory") == 80_GiB);
  REQUIRE(read::bytes("80 GiB", "") == 80_GiB);
  REQUIRE(read::bytes("80GB", "") == 80'000'000'000_B);
  REQUIRE(read::bytes("12.5MiB", "") == 12'800_KiB);
  REQUIRE(read::bytes("16060522496B", "") == 16'060'522'496_B);
  REQUIRE(read::bytes("0B", "") == 0_B);
}

TEST_CASE("amounts without a unit, negative, absurd or garbled are refused with the field") {
  for (auto const* text : {"", "80", "GiB", "-1GiB", "80gib", "80GiBs", "1e300GiB", "nanGiB", "infGiB", "80 G iB", "0x10GiB"}) {
    auto const result = read::attempt([&] { return read::bytes(text, "--gpu-memory"); });
    INFO(text);
    REQUIRE_FALSE(result);
    REQUIRE(result.refusal().field == "--gpu-memory");
    REQUIRE(result.refusal().message().find("next: write for example 80GiB") != std::string::npos);
  }
}

TEST_CASE("shares are fractions or percentages") {
  REQUIRE(read::share("0.92", "") == 92_percent);
  REQUIRE(read::share("92%", "") == 92_percent);
  REQUIRE(read::share("1", "") == 100_percent);
  REQUIRE(read::share("0.835", "") == 83.5_percent);
  for (auto const* text : {"", "%", "92", "-0.1", "101%", "nan", "0.9x"}) REQUIRE_FALSE(read::attempt([&] { return read::share(text, "--of-total"); }));
}

TEST_CASE("whole numbers are digits in a range") {
  REQUIRE(read::whole("8192", "") == 8'192);
  for (auto const* text : {"", "-1", "8k", "1.5", "99999999999999999999"}) REQUIRE_FALSE(read::attempt([&] { return read::whole(text, "--set a"); }));
  REQUIRE_FALSE(read::attempt([&] { return read::whole("0", "--set a", 1); }));
}

TEST_CASE("dtypes are known by the names runtimes give them") {
  REQUIRE(read::dtype("bfloat16", "") == bf16);
  REQUIRE(read::dtype("q8_0", "") == q8_0);
  REQUIRE(read::dtype("fp8_e4m3", "") == fp8);
  auto const result = read::attempt([] { return read::dtype("q9_0", "--dtype"); });
  REQUIRE(result.refusal().accepted.find("q8_0") != std::string::npos);
}
