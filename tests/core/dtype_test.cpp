#include "core/dtype.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

#include "core/random.h"

using namespace moh;

namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

bfloat16 from_bits(std::uint16_t bits) {
  bfloat16 value;
  value.bits = bits;
  return value;
}

}  // namespace

TEST_CASE("dtype: bfloat16 to float and back is exact for all 65536 values") {
  for (std::uint32_t bits = 0; bits <= 0xffff; ++bits) {
    const bfloat16 value = from_bits(static_cast<std::uint16_t>(bits));
    const bfloat16 back(static_cast<float>(value));
    if (std::isnan(static_cast<float>(value))) {
      REQUIRE(std::isnan(static_cast<float>(back)));
    } else {
      REQUIRE(back.bits == value.bits);
    }
  }
}

TEST_CASE("dtype: bfloat16 rounds to nearest, ties to even") {
  // The last place of bfloat16 just above 1 is 2^-7.
  CHECK(static_cast<float>(bfloat16(1.0F + 0x1p-8F)) == 1.0F);                          // tie, down to even
  CHECK(static_cast<float>(bfloat16(1.0F + 0x1p-8F + 0x1p-23F)) == 1.0F + 0x1p-7F);     // just above a tie
  CHECK(static_cast<float>(bfloat16(1.0F + 0x1p-7F + 0x1p-8F)) == 1.0F + 2 * 0x1p-7F);  // tie, up to even
  CHECK(static_cast<float>(bfloat16(-1.0F - 0x1p-7F - 0x1p-8F)) == -1.0F - 2 * 0x1p-7F);
  CHECK(static_cast<float>(bfloat16(2.0F - 0x1p-23F)) == 2.0F);  // a carry into the exponent
}

TEST_CASE("dtype: bfloat16 is the nearer of its two neighbours") {
  for (std::uint64_t i = 0; i < 20000; ++i) {
    // Random bits, without infinities and NaNs: the top exponent is excluded.
    auto bits = static_cast<std::uint32_t>(random_below({7, 0}, i, 0x7f000000));
    const float value = std::bit_cast<float>(bits);
    const bfloat16 rounded(value);
    const auto distance = [&](int step) {
      const auto neighbour = static_cast<std::uint16_t>(rounded.bits + step);
      return std::abs(static_cast<double>(value) -
                      static_cast<double>(static_cast<float>(from_bits(neighbour))));
    };
    REQUIRE(distance(0) <= distance(1));
    if (rounded.bits > 0) REQUIRE(distance(0) <= distance(-1));
  }
}

TEST_CASE("dtype: bfloat16 keeps NaN, infinity, signed zero and subnormals") {
  CHECK(static_cast<float>(bfloat16(kInfinity)) == kInfinity);
  CHECK(static_cast<float>(bfloat16(-kInfinity)) == -kInfinity);
  CHECK(static_cast<float>(bfloat16(std::numeric_limits<float>::max())) == kInfinity);
  CHECK(bfloat16(-0.0F).bits == 0x8000);
  CHECK(bfloat16(0x1p-133F).bits == 1);  // the smallest subnormal of bfloat16
  CHECK(bfloat16(0x1p-149F).bits == 0);  // the smallest of float is nearer to zero
  // A NaN whose payload sits in the lower half only must not become an infinity, nor one that rounding
  // carries over.
  for (std::uint32_t nan : {0x7f800001U, 0x7fffffffU, 0xff800001U, 0xffffffffU}) {
    CHECK(std::isnan(static_cast<float>(bfloat16(std::bit_cast<float>(nan)))));
  }
}

TEST_CASE("dtype: names, sizes and kinds") {
  CHECK(dtype_name(DType::kFloat32) == "float32");
  CHECK(dtype_name(DType::kBFloat16) == "bfloat16");
  CHECK(dtype_name(DType::kFloat64) == "float64");
  CHECK(dtype_name(DType::kInt32) == "int32");
  CHECK(dtype_name(DType::kInt64) == "int64");
  CHECK(dtype_name(DType::kUInt8) == "uint8");
  CHECK(dtype_size(DType::kBFloat16) == 2);
  CHECK(dtype_size(DType::kFloat64) == 8);
  CHECK(dtype_size(DType::kUInt8) == 1);
  CHECK(is_floating(DType::kBFloat16));
  CHECK_FALSE(is_floating(DType::kInt64));
  CHECK(accumulate_dtype(DType::kBFloat16) == DType::kFloat32);
  CHECK(accumulate_dtype(DType::kFloat64) == DType::kFloat64);
}

TEST_CASE("dtype: visitors pass the C++ type of a dtype and refuse what is not floating") {
  for (DType dtype :
       {DType::kFloat32, DType::kBFloat16, DType::kFloat64, DType::kInt32, DType::kInt64, DType::kUInt8}) {
    CHECK(visit_dtype(dtype, []<class T>() { return dtype_of<T>(); }) == dtype);
    const auto visit = [&] {
      return visit_floating(dtype, "softmax", []<class T>() { return dtype_of<T>(); });
    };
    if (is_floating(dtype)) {
      CHECK(visit() == dtype);
    } else {
      CHECK_THROWS_AS(visit(), DTypeError);
      CHECK_THROWS_WITH(visit(), "softmax: dtype: expected float32, bfloat16 or float64, found " +
                                     std::string(dtype_name(dtype)));
    }
  }
  STATIC_REQUIRE(std::is_same_v<Acc<bfloat16>, float>);
  STATIC_REQUIRE(std::is_same_v<Acc<double>, double>);
}
