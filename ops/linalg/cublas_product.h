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

/// Throws DeviceError that names the call.
void check_cublas(cublasStatus_t status, const char* call);

/// The handle of cuBLASLt, and the workspace of all products, which run one after the other.
class CublasContext {
 public:
  static constexpr std::size_t kWorkspaceBytes = kCublasWorkspaceBytes;

  CublasContext();  ///< never destroyed, as the device it belongs to
  cublasLtHandle_t handle() const { return handle_; }
  /// Memory of kWorkspaceBytes; once it is there it stays where it is.
  void* workspace() const;

 private:
  cublasLtHandle_t handle_ = nullptr;
  mutable void* workspace_ = nullptr;
};

/// An algorithm that is ready to run.
struct CublasAlgorithm {
  cublasLtMatmulAlgo_t algorithm;
  std::size_t workspace_bytes;
};

/// The largest power of two, up to 256, that divides an address: algorithms ask for some.
struct GemmAlignments {
  explicit GemmAlignments(const CudaGemmData& data);
  std::uint32_t a, b, c, vector, aux;
  auto operator<=>(const GemmAlignments&) const = default;
};

/// A product as cuBLASLt describes it. It counts columns first: what is row-major here is the transpose
/// there. So it is asked for c^T = op(b)^T op(a)^T, and its first factor is b.
class CublasProduct {
 public:
  /// Whether cuBLASLt may be asked for gemm.extra as an epilogue. It wants the rows of an aux matrix a
  /// multiple of eight elements apart. Its GELU may take the tanh from the hardware (11 bits) whatever the
  /// types: good for a bfloat16 result, and for float32 only where TF32 is.
  static bool may_fuse(const CudaGemm& gemm, bool tf32);

  /// `fused`: with gemm.extra as an epilogue; without, that is left out.
  CublasProduct(const CudaGemm& gemm, bool fused, bool tf32);

  /// Whether the product does all that gemm.extra says, so that no kernel must follow.
  bool is_whole() const { return has_epilogue_ || gemm_.extra == GemmExtra::kNone; }

  /// Algorithms that cuBLASLt proposes, the one first that it takes for the fastest; none where it has no
  /// such product. Splits of k are added up in float32 in a fixed order, so that reruns give the same bits:
  /// schemes that add in the output as parts arrive, or round the parts to its type, are left out.
  std::vector<CublasAlgorithm> proposals(const CublasContext& context, const GemmAlignments& alignments,
                                         const CudaGemmData& data) const;
  /// The algorithm that has these settings; none where cuBLASLt refuses it for this product.
  std::optional<CublasAlgorithm> algorithm_of(const CublasContext& context, const GemmAlgorithm& settings,
                                              const CudaGemmData& data) const;
  /// Starts the product on the stream.
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
