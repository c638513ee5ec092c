#pragma once

#include <cstdint>

#include "core/dtype.h"

namespace moh {

/// c [m, n] = op(a) op(b), or c += op(a) op(b), row-major with rows lda, ldb and ldc elements apart.
struct CudaGemm {
  std::int64_t m, n, k;
  bool transpose_a, transpose_b;
  std::int64_t lda, ldb, ldc;
  DType operand_dtype;  ///< of a and b: float32 or bfloat16
  DType result_dtype;   ///< of c: that of the operands, or float32
  bool accumulate;
};

/// Multiplies on the device, in stream order; sums in float32. Throws DeviceError when the library refuses.
void cuda_gemm(const CudaGemm& gemm, const void* a, const void* b, void* c);

}  // namespace moh
