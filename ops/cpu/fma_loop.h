#pragma once

#include <cstdint>

#include "core/dtype.h"

namespace moh {

/// Measures the peak rate of the processor: multiply-adds on registers alone, in the widest vectors that the
/// kernels use, with enough independent sums to saturate the FMA units: of float32, or of `dtype` bfloat16
/// with sums in float32 where kernels multiply it as such. Each of num_threads() threads runs `rounds`
/// rounds. Returns the floating-point operations of all threads together, 2 per multiply-add.
double run_fma_loop(std::int64_t rounds, DType dtype = DType::kFloat32);

}  // namespace moh
