#pragma once

#include <cstddef>

#include "ops/linalg/matmul_kernels.h"

namespace moh {

/// c = op(a) op(b), or c += op(a) op(b), of float or double on the CPU in our own register tiles, by all
/// threads. Its bits do not depend on their number.
template <class T>
void tiled_gemm(const GemmShape& shape, const T* a, const T* b, T* c, bool accumulate);

/// Bytes of scratch memory that it takes for float, at most, with the present number of threads.
std::size_t tiled_gemm_scratch_bytes(const GemmShape& shape);

}  // namespace moh
