#pragma once

#include <cstdint>

#include "core/dtype.h"

namespace moh {

/// Element types that a run may have.
enum class Precision : std::uint8_t { kFloat32, kBFloat16 };

/// float32 or bfloat16.
constexpr DType dtype_of(Precision precision) {
  return precision == Precision::kBFloat16 ? DType::kBFloat16 : DType::kFloat32;
}

}  // namespace moh
