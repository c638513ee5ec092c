#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/dtype.h"
#include "ops/linalg/gemm_options.h"

namespace moh {

/// An epilogue of a matrix multiplication. GELU is the tanh approximation; it needs all columns of c, and a
/// matrix aux with the dtype and layout of c.
enum class GemmExtra {
  kNone,
  kBias,         ///< adds a vector [n] to every row of c
  kRowSums,      ///< writes the sums of the rows of op(a) to a vector [m]; a is transposed, c is float32
  kGelu,         ///< c = gelu(c)
  kGeluBias,     ///< c = gelu(c + vector [n])
  kGeluAux,      ///< kGelu, and aux = the pre-activation c
  kGeluAuxBias,  ///< kGeluBias, and aux = the pre-activation c + vector
  kGeluGradient  ///< c = c gelu'(aux)
};

/// c [m, n] = op(a) op(b), or c += op(a) op(b), row-major with leading dimensions (row strides) lda, ldb and
/// ldc in elements.
struct CudaGemm {
  std::int64_t m, n, k;
  bool transpose_a, transpose_b;
  std::int64_t lda, ldb, ldc;
  DType operand_dtype;  ///< of a and b: float32 or bfloat16
  DType result_dtype;   ///< of c, and of the vector: that of the operands, or float32
  bool accumulate;
  GemmExtra extra = GemmExtra::kNone;

  auto operator<=>(const CudaGemm&) const = default;  // NOLINT: compared with 0 by the compiler
};

/// Device addresses of the matrices, and of the vector and the aux matrix of its GemmExtra.
struct CudaGemmData {
  const void *a, *b;
  void* c;
  void *vector = nullptr, *aux = nullptr;
};

/// Workspace of cuBLASLt, in bytes of device memory; allocated on first use and kept.
inline constexpr std::size_t kCublasWorkspaceBytes = std::size_t{32} << 20;

/// Enqueues the matrix multiplication, accumulated in float32. Throws DeviceError when cuBLASLt has no
/// algorithm or fails.
void cuda_gemm(const CudaGemm& gemm, const CudaGemmData& data);

/// See set_gemm_options and gemm_searches.
void set_cuda_gemm_options(const GemmOptions& options);
std::vector<GemmSearch> cuda_gemm_searches();

}  // namespace moh
