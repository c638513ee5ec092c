#pragma once

#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <type_traits>

#include "core/error.h"

namespace moh {

/// Element types of a Tensor.
enum class DType : std::uint8_t { kFloat32, kBFloat16, kFloat64, kInt32, kInt64, kUInt8 };

/// The upper half of an IEEE float32, rounded to nearest even. For storage only: arithmetic is in float32.
/// The members are constexpr because nvcc lets device code call constexpr functions.
struct bfloat16 {
  std::uint16_t bits = 0;

  bfloat16() = default;
  // NOLINTNEXTLINE: storing a float is the point of the type
  constexpr bfloat16(float value) : bits(rounded(value)) {}
  /// Without a temporary: GCC does not vectorise an `omp simd` loop that creates objects of class type.
  constexpr bfloat16& operator=(float value) {
    bits = rounded(value);
    return *this;
  }
  constexpr operator float() const {  // NOLINT: reading one back is, too
    return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
  }

 private:
  static constexpr std::uint16_t rounded(float value) {
    const std::uint32_t u = std::bit_cast<std::uint32_t>(value);
    const std::uint32_t nearest = u + 0x7fffU + ((u >> 16) & 1U);
    const std::uint32_t quiet_nan = u | 0x00400000U;
    return static_cast<std::uint16_t>(((u & 0x7fffffffU) > 0x7f800000U ? quiet_nan : nearest) >> 16);
  }
};
static_assert(sizeof(bfloat16) == 2);

/// The type for arithmetic on elements of T and for accumulation: double for double, else float.
template <class T>
using Acc = std::conditional_t<std::is_same_v<T, double>, double, float>;

/// Element type of the C++ type T.
template <class T>
constexpr DType dtype_of() {
  if constexpr (std::is_same_v<T, float>)
    return DType::kFloat32;
  else if constexpr (std::is_same_v<T, bfloat16>)
    return DType::kBFloat16;
  else if constexpr (std::is_same_v<T, double>)
    return DType::kFloat64;
  else if constexpr (std::is_same_v<T, std::int32_t>)
    return DType::kInt32;
  else if constexpr (std::is_same_v<T, std::int64_t>)
    return DType::kInt64;
  else {
    static_assert(std::is_same_v<T, std::uint8_t>, "no DType for this C++ type");
    return DType::kUInt8;
  }
}

/// Bytes of one element.
std::size_t dtype_size(DType dtype);

/// "float32", "bfloat16", "float64", "int32", "int64", "uint8".
std::string_view dtype_name(DType dtype);

/// float32, bfloat16 or float64.
bool is_floating(DType dtype);

/// The type in which an op on `dtype` keeps its statistics: float64 for float64, else float32.
DType accumulate_dtype(DType dtype);

/// Calls fn.template operator()<T>() with the C++ type of a floating dtype; DTypeError naming `where`
/// otherwise.
template <class Fn>
decltype(auto) visit_floating(DType dtype, std::string_view where, Fn&& fn) {
  switch (dtype) {
    case DType::kFloat32:
      return fn.template operator()<float>();
    case DType::kBFloat16:
      return fn.template operator()<bfloat16>();
    case DType::kFloat64:
      return fn.template operator()<double>();
    default:
      break;
  }
  throw DTypeError(error_message(where, "dtype", "float32, bfloat16 or float64", dtype_name(dtype)));
}

/// Calls fn.template operator()<T>() with the C++ type of any dtype.
template <class Fn>
decltype(auto) visit_dtype(DType dtype, Fn&& fn) {
  switch (dtype) {
    case DType::kFloat32:
      return fn.template operator()<float>();
    case DType::kBFloat16:
      return fn.template operator()<bfloat16>();
    case DType::kFloat64:
      return fn.template operator()<double>();
    case DType::kInt32:
      return fn.template operator()<std::int32_t>();
    case DType::kInt64:
      return fn.template operator()<std::int64_t>();
    case DType::kUInt8:
      return fn.template operator()<std::uint8_t>();
  }
  fail_check(__FILE__, __LINE__, "dtype", "unknown DType value");
}

}  // namespace moh
