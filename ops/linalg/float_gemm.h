#pragma once

#include "ops/linalg/tiled_gemm.h"

namespace moh {

/// Matrix multiplication in float32 on the CPU: c [m, n] = op(a) op(b), or c += op(a) op(b). oneDNN computes
/// it if it is part of this build and faster than our own tiles. The order of summation depends on the sizes
/// alone, not on the number of threads.
void float_gemm(const GemmShape& shape, const float* a, const float* b, float* c, bool accumulate);

/// Whether our own tiles compute it, with tiled_gemm_scratch_bytes() of workspace.
bool runs_in_tiles(const GemmShape& shape);

}  // namespace moh
