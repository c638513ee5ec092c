#include "train/formats/safetensors_dtype.h"

#include "core/error.h"

namespace moh {

namespace {

// BOOL stands behind U8, so that uint8 is stored as U8.
constexpr SafetensorsDType kDTypes[] = {
    {"F32", 32, DType::kFloat32}, {"BF16", 16, DType::kBFloat16},   {"F64", 64, DType::kFloat64},
    {"I32", 32, DType::kInt32},   {"I64", 64, DType::kInt64},       {"U8", 8, DType::kUInt8},
    {"BOOL", 8, DType::kUInt8},   {"F16", 16, std::nullopt},        {"I8", 8, std::nullopt},
    {"I16", 16, std::nullopt},    {"U16", 16, std::nullopt},        {"U32", 32, std::nullopt},
    {"U64", 64, std::nullopt},    {"C64", 64, std::nullopt},        {"F8_E4M3", 8, std::nullopt},
    {"F8_E5M2", 8, std::nullopt}, {"F8_E4M3FNUZ", 8, std::nullopt}, {"F8_E5M2FNUZ", 8, std::nullopt},
    {"F8_E8M0", 8, std::nullopt}, {"F6_E2M3", 6, std::nullopt},     {"F6_E3M2", 6, std::nullopt},
    {"F4", 4, std::nullopt},
};

}  // namespace

const SafetensorsDType* find_safetensors_dtype(std::string_view name) {
  for (const SafetensorsDType& dtype : kDTypes) {
    if (dtype.name == name) return &dtype;
  }
  return nullptr;
}

std::string_view safetensors_dtype_name(DType dtype) {
  for (const SafetensorsDType& known : kDTypes) {
    if (known.loads_as == dtype) return known.name;
  }
  fail_check(__FILE__, __LINE__, "dtype", "a dtype without a safetensors name");
}

}  // namespace moh
