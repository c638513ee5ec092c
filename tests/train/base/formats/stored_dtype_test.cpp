#include "train/base/formats/stored_dtype.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

#include "core/dtype.h"

namespace moh {

namespace {

template <class To, class From>
To converted(From value, std::string_view from, std::string_view to) {
  const ConvertElements convert = find_conversion(from, to);
  REQUIRE(convert != nullptr);
  To result;
  convert(reinterpret_cast<const std::byte*>(&value), reinterpret_cast<std::byte*>(&result), 1);
  return result;
}

/// The value of a 16-bit pattern by the IEEE standard, by powers of two.
double value_of_half(std::uint32_t bits) {
  const double sign = (bits & 0x8000U) != 0 ? -1.0 : 1.0;
  const int exponent = static_cast<int>(bits >> 10 & 31U);
  const int mantissa = static_cast<int>(bits & 1023U);
  if (exponent == 31) return mantissa == 0 ? sign * INFINITY : NAN;
  if (exponent == 0) return sign * std::ldexp(mantissa, -24);
  return sign * std::ldexp(1024 + mantissa, exponent - 25);
}

bool is_half_nan(std::uint32_t bits) {
  return (bits & 0x7fffU) > 0x7c00U;
}

/// The half or bfloat16 nearest to `value`, ties to the even pattern, by looking at both neighbours of
/// `guess`. Positive finite values below the largest of the type.
template <class ValueOf>
std::uint16_t nearest_pattern(double value, std::uint16_t guess, ValueOf value_of) {
  std::uint16_t best = guess;
  for (int step = -2; step <= 2; ++step) {
    const int bits = guess + step;
    if (bits < 0) continue;
    const auto pattern = static_cast<std::uint16_t>(bits);
    const double closer = std::abs(value_of(best) - value) - std::abs(value_of(pattern) - value);
    if (closer > 0 || (closer == 0 && pattern % 2 == 0)) best = pattern;
  }
  return best;
}

double value_of_bfloat16(std::uint16_t bits) {
  bfloat16 value;
  value.bits = bits;
  return static_cast<float>(value);
}

}  // namespace

TEST_CASE("weights: F16 to F32 and F64: all 65536 patterns") {
  for (std::uint32_t bits = 0; bits < 65536; ++bits) {
    const auto half = static_cast<std::uint16_t>(bits);
    const double expected = value_of_half(bits);
    const auto f32 = converted<float>(half, "F16", "F32");
    const auto f64 = converted<double>(half, "F16", "F64");
    if (is_half_nan(bits)) {
      if (!std::isnan(f32) || !std::isnan(f64)) FAIL("pattern " << bits);
    } else if (f32 != expected || f64 != expected || std::signbit(f32) != std::signbit(expected)) {
      FAIL("pattern " << bits << ": " << f32 << ", " << f64 << " instead of " << expected);
    }
  }
}

TEST_CASE("weights: F16 survives F32 and F64 and comes back: all 65536 patterns") {
  for (std::uint32_t bits = 0; bits < 65536; ++bits) {
    const auto half = static_cast<std::uint16_t>(bits);
    const auto by_f32 = converted<std::uint16_t>(converted<float>(half, "F16", "F32"), "F32", "F16");
    const auto by_f64 = converted<std::uint16_t>(converted<double>(half, "F16", "F64"), "F64", "F16");
    // A NaN stays one with its sign and payload, made quiet.
    const auto expected = static_cast<std::uint16_t>(is_half_nan(bits) ? bits | 0x0200U : bits);
    if (by_f32 != expected || by_f64 != expected)
      FAIL("pattern " << bits << ": " << by_f32 << ", " << by_f64);
  }
}

TEST_CASE("weights: F16 to BF16 rounds to nearest even: all 65536 patterns") {
  for (std::uint32_t bits = 0; bits < 65536; ++bits) {
    const auto bf16 = converted<bfloat16>(static_cast<std::uint16_t>(bits), "F16", "BF16");
    const double value = value_of_half(bits);
    if (is_half_nan(bits)) {
      if (!std::isnan(static_cast<float>(bf16))) FAIL("pattern " << bits);
    } else if (!std::isfinite(value)) {
      if (static_cast<float>(bf16) != value) FAIL("pattern " << bits);
    } else {
      const auto guess = static_cast<std::uint16_t>(bf16.bits & 0x7fffU);
      const auto expected = nearest_pattern(std::abs(value), guess, value_of_bfloat16);
      if (guess != expected || (bf16.bits >> 15) != (bits >> 15)) FAIL("pattern " << bits);
    }
  }
}

TEST_CASE("weights: midpoints between neighbours go to the even one, and a hair decides") {
  // All positive halves: the value between two neighbours, and the doubles on either side of it.
  for (std::uint32_t bits = 0; bits < 0x7bff; ++bits) {
    const double low = value_of_half(bits), high = value_of_half(bits + 1), middle = (low + high) / 2;
    const std::uint16_t even = static_cast<std::uint16_t>(bits + bits % 2);
    const auto down = converted<std::uint16_t>(std::nextafter(middle, 0.0), "F64", "F16");
    const auto up = converted<std::uint16_t>(std::nextafter(middle, INFINITY), "F64", "F16");
    if (converted<std::uint16_t>(middle, "F64", "F16") != even || down != bits || up != bits + 1) FAIL(bits);
    if (converted<std::uint16_t>(static_cast<float>(middle), "F32", "F16") != even) FAIL(bits);
  }
  // bfloat16 likewise; rounding by way of float32 would take the doubles beside a midpoint for the
  // midpoint.
  for (std::uint32_t bits = 0; bits < 0x7f7f; ++bits) {
    const auto pattern = static_cast<std::uint16_t>(bits);
    const double low = value_of_bfloat16(pattern),
                 high = value_of_bfloat16(static_cast<std::uint16_t>(bits + 1));
    const double middle = (low + high) / 2;
    const auto even = static_cast<std::uint16_t>(bits + bits % 2);
    if (converted<bfloat16>(middle, "F64", "BF16").bits != even) FAIL(bits);
    if (converted<bfloat16>(std::nextafter(middle, 0.0), "F64", "BF16").bits != bits) FAIL(bits);
    if (converted<bfloat16>(std::nextafter(middle, INFINITY), "F64", "BF16").bits != bits + 1) FAIL(bits);
  }
}

TEST_CASE("weights: what is too large for a type becomes infinite, what is too small zero, with its sign") {
  CHECK(converted<std::uint16_t>(65519.99F, "F32", "F16") == 0x7bff);
  CHECK(converted<std::uint16_t>(65520.0F, "F32", "F16") == 0x7c00);
  CHECK(converted<std::uint16_t>(-1e300, "F64", "F16") == 0xfc00);
  CHECK(converted<std::uint16_t>(std::ldexp(1.0, -25), "F64", "F16") == 0);  // half of the least: a tie
  CHECK(converted<std::uint16_t>(-std::ldexp(1.000001, -25), "F64", "F16") == 0x8001);
  CHECK(converted<std::uint16_t>(-1e-300, "F64", "F16") == 0x8000);
  CHECK(converted<bfloat16>(1e300, "F64", "BF16").bits == 0x7f80);
  CHECK(converted<bfloat16>(-3.4e38F, "F32", "BF16").bits == 0xff80);
  CHECK(converted<bfloat16>(-1e-300, "F64", "BF16").bits == 0x8000);
  CHECK(std::isnan(static_cast<float>(converted<bfloat16>(std::nan(""), "F64", "BF16"))));
  CHECK(converted<float>(1e300, "F64", "F32") == INFINITY);
  CHECK(converted<float>(0.1, "F64", "F32") == 0.1F);
}

TEST_CASE("weights: integers become the nearest number") {
  CHECK(converted<float>(std::int8_t{-128}, "I8", "F32") == -128.0F);
  CHECK(converted<bfloat16>(std::uint8_t{255}, "U8", "BF16").bits == bfloat16(255.0F).bits);
  CHECK(converted<float>(std::uint8_t{1}, "BOOL", "F32") == 1.0F);
  CHECK(converted<float>(std::int16_t{-32768}, "I16", "F32") == -32768.0F);
  CHECK(converted<std::uint16_t>(std::uint16_t{65535}, "U16", "F16") == 0x7c00);
  CHECK(converted<float>(std::int32_t{16777217}, "I32", "F32") == 16777216.0F);  // a tie
  CHECK(converted<float>(std::uint32_t{4294967295U}, "U32", "F32") == 4294967296.0F);
  CHECK(converted<double>(std::numeric_limits<std::int64_t>::min(), "I64", "F64") == -0x1p63);
  CHECK(converted<float>(std::numeric_limits<std::uint64_t>::max(), "U64", "F32") == 0x1p64F);
  // One above the midpoint of two bfloat16 (2^62 + 2^54): double and float lose the one, the rounding must
  // not.
  const std::int64_t middle = (std::int64_t{1} << 62) + (std::int64_t{1} << 54);
  CHECK(static_cast<float>(converted<bfloat16>(middle, "I64", "BF16")) == 0x1p62F);
  CHECK(static_cast<float>(converted<bfloat16>(middle + 1, "I64", "BF16")) == 0x1.02p62F);
  CHECK(static_cast<float>(converted<bfloat16>(-middle - 1, "I64", "BF16")) == -0x1.02p62F);
  CHECK(static_cast<float>(converted<bfloat16>(-middle, "I64", "BF16")) == -0x1p62F);
  CHECK(static_cast<float>(converted<bfloat16>(-middle + 1, "I64", "BF16")) == -0x1p62F);
  // 2^24 + 2^16 is the midpoint of two bfloat16; float32 takes one more for it.
  CHECK(static_cast<float>(converted<bfloat16>(std::int32_t{16777216 + 65536}, "I32", "BF16")) ==
        16777216.0F);
  CHECK(static_cast<float>(converted<bfloat16>(std::int32_t{16777216 + 65537}, "I32", "BF16")) ==
        16908288.0F);
}

TEST_CASE("weights: types that do not convert") {
  for (const char* type : {"F8_E4M3", "F8_E5M2", "F8_E8M0", "F4", "F6_E2M3", "C64", "nonsense"}) {
    CHECK(find_conversion(type, "F32") == nullptr);
  }
  for (const char* type : {"I32", "U8", "BOOL", "F8_E4M3", "C64"})
    CHECK(find_conversion("F32", type) == nullptr);
}

TEST_CASE("weights: elements need not be aligned") {
  std::vector<std::byte> from(1 + 3 * 2), to(3 + 3 * 4);
  const std::uint16_t halves[] = {0x3c00, 0xc000, 0x0001};
  std::memcpy(from.data() + 1, halves, sizeof(halves));
  find_conversion("F16", "F32")(from.data() + 1, to.data() + 3, 3);
  float floats[3];
  std::memcpy(floats, to.data() + 3, sizeof(floats));
  CHECK(floats[0] == 1.0F);
  CHECK(floats[1] == -2.0F);
  CHECK(floats[2] == 0x1p-24F);
}

}  // namespace moh
