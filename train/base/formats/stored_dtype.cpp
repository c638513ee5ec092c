#include "train/base/formats/stored_dtype.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <concepts>
#include <cstring>
#include <limits>
#include <type_traits>

#include "core/error.h"

namespace moh {

namespace {

// U8 precedes BOOL, which loads as uint8, too, so that uint8 is stored as U8.
constexpr StoredDType kDTypes[] = {
    {"F32", 32, DType::kFloat32, "float32", "FloatStorage"},
    {"BF16", 16, DType::kBFloat16, "bfloat16", "BFloat16Storage"},
    {"F64", 64, DType::kFloat64, "float64", "DoubleStorage"},
    {"I32", 32, DType::kInt32, "int32", "IntStorage"},
    {"I64", 64, DType::kInt64, "int64", "LongStorage"},
    {"U8", 8, DType::kUInt8, "uint8", "ByteStorage"},
    {"BOOL", 8, DType::kUInt8, "bool", "BoolStorage"},
    {"F16", 16, std::nullopt, "float16", "HalfStorage"},
    {"I8", 8, std::nullopt, "int8", "CharStorage"},
    {"I16", 16, std::nullopt, "int16", "ShortStorage"},
    {"U16", 16, std::nullopt, "uint16"},
    {"U32", 32, std::nullopt, "uint32"},
    {"U64", 64, std::nullopt, "uint64"},
    {"C64", 64, std::nullopt, "complex64", "ComplexFloatStorage"},
    {"F8_E4M3", 8, std::nullopt, "float8_e4m3fn"},
    {"F8_E5M2", 8, std::nullopt, "float8_e5m2"},
    {"F8_E4M3FNUZ", 8, std::nullopt, "float8_e4m3fnuz"},
    {"F8_E5M2FNUZ", 8, std::nullopt, "float8_e5m2fnuz"},
    {"F8_E8M0", 8, std::nullopt, "float8_e8m0fnu"},
    {"F6_E2M3", 6},
    {"F6_E3M2", 6},
    {"F4", 4},
    {"", 128, std::nullopt, "complex128", "ComplexDoubleStorage"},
    {"", 32, std::nullopt, "complex32"},
    {"", 8, std::nullopt, "qint8", "QInt8Storage"},
    {"", 8, std::nullopt, "quint8", "QUInt8Storage"},
    {"", 32, std::nullopt, "qint32", "QInt32Storage"},
    {"", 8, std::nullopt, "quint4x2", "QUInt4x2Storage"},
    {"", 8, std::nullopt, "quint2x4", "QUInt2x4Storage"},
};

/// The type whose name of that kind is `name`; nullptr if there is none, or if `name` is empty.
const StoredDType* find_by(std::string_view StoredDType::*kind_of_name, std::string_view name) {
  const auto found = std::ranges::find(kDTypes, name, kind_of_name);
  return name.empty() || found == std::ranges::end(kDTypes) ? nullptr : found;
}

/// `name` without `prefix`, or nothing if it does not start with it.
std::string_view after(std::string_view name, std::string_view prefix) {
  return name.starts_with(prefix) ? name.substr(prefix.size()) : std::string_view();
}

/// IEEE binary16: 1 sign, 5 exponent and 10 mantissa bits.
struct float16 {
  std::uint16_t bits;
};

float to_float(float16 value) {
  const std::uint32_t sign = (value.bits & 0x8000U) << 16, exponent = (value.bits >> 10) & 31U;
  const std::uint32_t mantissa = value.bits & 0x3ffU;
  std::uint32_t magnitude;
  if (exponent == 0) {
    magnitude = std::bit_cast<std::uint32_t>(static_cast<float>(mantissa) * 0x1p-24F);
  } else if (exponent == 31) {
    magnitude = 0x7f800000U | (mantissa << 13);
  } else {
    magnitude = ((exponent + 112) << 23) | (mantissa << 13);
  }
  return std::bit_cast<float>(sign | magnitude);
}

float16 to_float16(float value) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = (bits >> 16) & 0x8000U, magnitude = bits & 0x7fffffffU;
  std::uint32_t half;
  if (magnitude > 0x7f800000U) {
    half = 0x7e00U | ((magnitude >> 13) & 0x3ffU);  // NaN, quiet
  } else if (magnitude >= 0x477ff000U) {
    half = 0x7c00U;  // overflow: from 65520 on, halfway between the largest number, 65504, and 65536
  } else if (magnitude < 0x38800000U) {
    // Below 2^-14 the spacing is 2^-24, as that of floats in [0.5, 1), so that an addition rounds correctly.
    half = std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) + 0.5F) -
           std::bit_cast<std::uint32_t>(0.5F);
  } else {
    half = (magnitude - 0x38000000U + 0xfffU + ((magnitude >> 13) & 1U)) >> 13;
  }
  return {static_cast<std::uint16_t>(sign | half)};
}

/// Rounded "to odd": towards zero, with the last bit set if the result is inexact. A second rounding, to
/// fewer bits, then gives the correctly rounded result.
float round_to_odd(double value) {
  const auto nearest = static_cast<float>(value);
  if (static_cast<double>(nearest) == value || std::isnan(value)) return nearest;
  const bool away = std::abs(static_cast<double>(nearest)) > std::abs(value);
  return std::bit_cast<float>((std::bit_cast<std::uint32_t>(nearest) - (away ? 1U : 0U)) | 1U);
}

/// round_to_odd() for 64-bit integers, which a double cannot represent exactly.
template <std::integral T>
float round_to_odd(T value) {
  constexpr T kExact = T{1} << 53, kLost = (T{1} << 11) - 1;
  const bool large = value >= kExact || (std::is_signed_v<T> && value <= -kExact);
  if (large) value = (value & ~kLost) | ((value & kLost) != 0 ? kLost + 1 : 0);
  return round_to_odd(static_cast<double>(value));
}

/// A float that rounds to the same 8 or 11 bits as `value`.
template <class From>
float narrowed(From value) {
  if constexpr (std::is_same_v<From, float16>)
    return to_float(value);
  else if constexpr (std::is_same_v<From, double> || (std::is_integral_v<From> && sizeof(From) == 8))
    return round_to_odd(value);
  else if constexpr (std::is_integral_v<From> && sizeof(From) == 4)
    return round_to_odd(static_cast<double>(value));
  else
    return static_cast<float>(value);
}

template <class To, class From>
To convert(From value) {
  if constexpr (std::is_same_v<To, float16>)
    return to_float16(narrowed(value));
  else if constexpr (std::is_same_v<To, bfloat16>)
    return bfloat16(narrowed(value));
  else if constexpr (std::is_same_v<From, float16> || std::is_same_v<From, bfloat16>)
    return static_cast<To>(narrowed(value));
  else
    return static_cast<To>(value);
}

template <class From, class To>
void convert_all(const std::byte* from, std::byte* to, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    From value;
    std::memcpy(&value, from + i * sizeof(From), sizeof(From));
    const To converted = convert<To>(value);
    std::memcpy(to + i * sizeof(To), &converted, sizeof(To));
  }
}

template <class To>
ConvertElements find_source(std::string_view from) {
  if (from == "F32") return convert_all<float, To>;
  if (from == "BF16") return convert_all<bfloat16, To>;
  if (from == "F16") return convert_all<float16, To>;
  if (from == "F64") return convert_all<double, To>;
  if (from == "I8") return convert_all<std::int8_t, To>;
  if (from == "I16") return convert_all<std::int16_t, To>;
  if (from == "I32") return convert_all<std::int32_t, To>;
  if (from == "I64") return convert_all<std::int64_t, To>;
  if (from == "U8" || from == "BOOL") return convert_all<std::uint8_t, To>;
  if (from == "U16") return convert_all<std::uint16_t, To>;
  if (from == "U32") return convert_all<std::uint32_t, To>;
  if (from == "U64") return convert_all<std::uint64_t, To>;
  return nullptr;
}

}  // namespace

const StoredDType* find_safetensors_dtype(std::string_view name) {
  return find_by(&StoredDType::name, name);
}

std::string_view safetensors_dtype_name(DType dtype) {
  const auto found = std::ranges::find(kDTypes, std::optional(dtype), &StoredDType::loads_as);
  MOH_CHECK(found != std::ranges::end(kDTypes), "a dtype without a safetensors name");
  return found->name;
}

const StoredDType* find_torch_dtype(std::string_view name) {
  return find_by(&StoredDType::torch, after(name, "torch."));
}

const StoredDType* find_torch_storage(std::string_view class_name) {
  const std::string_view on_gpu = after(class_name, "torch.cuda.");
  return find_by(&StoredDType::torch_storage, on_gpu.empty() ? after(class_name, "torch.") : on_gpu);
}

std::optional<std::uint64_t> stored_bytes(std::string_view stored_dtype, const Shape& shape) {
  const StoredDType* dtype = find_safetensors_dtype(stored_dtype);
  std::uint64_t bits = 0;
  const bool overflow =
      dtype == nullptr || __builtin_mul_overflow(static_cast<std::uint64_t>(shape.numel()),
                                                 static_cast<std::uint64_t>(dtype->bits), &bits);
  if (overflow || bits % 8 != 0) return std::nullopt;
  return bits / 8;
}

ConvertElements find_conversion(std::string_view from, std::string_view to) {
  if (to == "F32") return find_source<float>(from);
  if (to == "BF16") return find_source<bfloat16>(from);
  if (to == "F16") return find_source<float16>(from);
  if (to == "F64") return find_source<double>(from);
  return nullptr;
}

}  // namespace moh
