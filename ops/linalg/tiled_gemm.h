#pragma once

#include <cstddef>

#include "ops/linalg/matmul_kernels.h"

namespace moh {

/// c = op(a) op(b), or c += op(a) op(b), for float or double on the CPU in our own register tiles, by all
/// threads. The bits do not depend on the number of threads.
template <class T>
void tiled_gemm(const GemmShape& shape, const T* a, const T* b, T* c, bool accumulate);

/// Upper bound for its bytes of scratch for float, with the current number of threads.
std::size_t tiled_gemm_scratch_bytes(const GemmShape& shape);

}  // namespace moh
