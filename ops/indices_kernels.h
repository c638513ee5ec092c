#pragma once

#include <cstdint>

#include "core/cuda/tag.h"

namespace moh {

template <class Backend>
struct IndexKernels {
  /// Replaces indices that are neither in [0, bound) nor `ignored` by 0, and reports one of them as a fault
  /// of `kind` (core/cuda/fault.h).
  static void check(std::int64_t* indices, std::int64_t count, std::int64_t bound, std::int64_t ignored,
                    std::int32_t kind);
};

}  // namespace moh
