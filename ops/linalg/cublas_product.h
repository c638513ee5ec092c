#pragma once

#include <compare>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "ops/linalg/cublas_library.h"
#include "ops/linalg/gemm_algorithms.h"
#include "ops/linalg/gemm_cuda.h"

namespace moh {

/// Throws DeviceError naming the call unless the status is success.
void check_cublas(cublasStatus_t status, const char* call);

/// The handle of cuBLASLt, and the workspace shared by all matrix multiplications, which run one
/// after the other.
class CublasContext {
 public:
  static constexpr std::size_t kWorkspaceBytes = kCublasWorkspaceBytes;

  CublasContext();  ///< never destroyed, as the device it belongs to
  cublasLtHandle_t handle() const { return handle_; }
  /// Device memory of kWorkspaceBytes, allocated on first use; its address is fixed.
  void* workspace() const;

 private:
  cublasLtHandle_t handle_ = nullptr;
  mutable void* workspace_ = nullptr;
};

/// A configured algorithm, and the workspace that it needs.
struct CublasAlgorithm {
  cublasLtMatmulAlgo_t algorithm;
  std::size_t workspace_bytes;
};

/// Alignments of the operands in bytes: the largest power of two, up to 256, that divides each address.
/// Algorithms require some.
struct GemmAlignments {
  explicit GemmAlignments(const CudaGemmData& data);
  std::uint32_t a, b, c, vector, aux;
  auto operator<=>(const GemmAlignments&) const = default;  // NOLINT: compared with 0 by the compiler
};

/// Descriptors of a matrix multiplication for cuBLASLt. cuBLASLt is column-major, so that a row-major matrix
/// is its transpose there: it computes c^T = op(b)^T op(a)^T, and its first operand is b.
class CublasProduct {
 public:
  /// Whether gemm.extra may be a cuBLASLt epilogue. The row stride of an aux matrix must be a multiple of
  /// eight elements. Its GELU may use the hardware's tanh (11 bits) whatever the dtypes: accurate enough for
  /// a bfloat16 result, and for float32 only where TF32 is allowed.
  static bool may_fuse(const CudaGemm& gemm, bool tf32);

  /// `fused`: with gemm.extra as an epilogue; otherwise without gemm.extra.
  CublasProduct(const CudaGemm& gemm, bool fused, bool tf32);

  /// Whether run() computes gemm.extra, too, so that no separate kernel is needed.
  bool is_whole() const { return has_epilogue_ || gemm_.extra == GemmExtra::kNone; }

  /// Algorithms that cuBLASLt proposes, in the order of expected time; empty if it does not support the case.
  /// Deterministic algorithms only: split-K must accumulate in float32 in a fixed order, so schemes that add
  /// to the output in place, or round partial sums to its dtype, are excluded.
  std::vector<CublasAlgorithm> proposals(const CublasContext& context, const GemmAlignments& alignments,
                                         const CudaGemmData& data) const;
  /// The algorithm that has these settings; none if cuBLASLt rejects it for this matrix multiplication.
  std::optional<CublasAlgorithm> algorithm_of(const CublasContext& context, const GemmAlgorithm& settings,
                                              const CudaGemmData& data) const;
  /// Enqueues the matrix multiplication on the stream.
  cublasStatus_t run(const CublasContext& context, const CublasAlgorithm& algorithm,
                     const CudaGemmData& data) const;

 private:
  struct Destroy {
    void operator()(cublasLtMatrixLayout_t layout) const;
    void operator()(cublasLtMatmulDesc_t operation) const;
    void operator()(cublasLtMatmulPreference_t preference) const;
  };
  template <class Handle>
  using Owned = std::unique_ptr<std::remove_pointer_t<Handle>, Destroy>;

  static Owned<cublasLtMatrixLayout_t> layout_of(DType dtype, std::int64_t rows, std::int64_t columns,
                                                 std::int64_t stride);
  template <class Value>
  void set(cublasLtMatmulDescAttributes_t attribute, const Value& value) const;
  Owned<cublasLtMatmulPreference_t> preference(const GemmAlignments& alignments) const;
  void point_to_extras(const CudaGemmData& data) const;

  CudaGemm gemm_;
  bool has_epilogue_;
  cublasComputeType_t compute_type_;
  Owned<cublasLtMatmulDesc_t> operation_;
  Owned<cublasLtMatrixLayout_t> a_, b_, c_;
};

/// The settings of an algorithm.
GemmAlgorithm settings_of(const cublasLtMatmulAlgo_t& algorithm);

}  // namespace moh
