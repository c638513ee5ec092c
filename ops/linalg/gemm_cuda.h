#pragma once

#include <cstddef>
#include <cstdint>

#include "core/dtype.h"
#include "ops/linalg/gemm_options.h"

namespace moh {

/// What a product does besides multiplying. GELU is the tanh form; it reads or writes all columns of c, and a
/// matrix aux of its type that lies in memory as c does.
enum class GemmExtra {
  kNone,
  kBias,         ///< adds a vector [n] to every row of c
  kRowSums,      ///< writes the sums of the rows of op(a) to a vector [m]; a is transposed, c is float32
  kGelu,         ///< c = gelu(c)
  kGeluBias,     ///< c = gelu(c + vector [n])
  kGeluAux,      ///< kGelu, and aux = c before it
  kGeluAuxBias,  ///< kGeluBias, and aux = c + vector
  kGeluGradient  ///< c = c gelu'(aux)
};

/// c [m, n] = op(a) op(b), or c += op(a) op(b), row-major with rows lda, ldb and ldc elements apart.
struct CudaGemm {
  std::int64_t m, n, k;
  bool transpose_a, transpose_b;
  std::int64_t lda, ldb, ldc;
  DType operand_dtype;  ///< of a and b: float32 or bfloat16
  DType result_dtype;   ///< of c, and of the vector: that of the operands, or float32
  bool accumulate;
  GemmExtra extra = GemmExtra::kNone;

  auto operator<=>(const CudaGemm&) const = default;
};

/// Where its matrices and its vector lie.
struct CudaGemmData {
  const void *a, *b;
  void* c;
  void *vector = nullptr, *aux = nullptr;
};

/// Device memory that the library may use for a product; kept from the first product on.
inline constexpr std::size_t kCublasWorkspaceBytes = std::size_t{32} << 20;

/// Multiplies on the device, in stream order; sums in float32. Throws DeviceError when the library refuses.
void cuda_gemm(const CudaGemm& gemm, const CudaGemmData& data);

/// See set_gemm_options.
void set_cuda_gemm_options(const GemmOptions& options);

}  // namespace moh
