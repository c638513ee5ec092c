#include "ops/linalg/cublas_product.h"

#include "core/cuda/device.h"
#include "core/cuda/launch_timer.h"
#include "core/error.h"

namespace moh {

namespace {

constexpr int kMostProposals = 16;
/// Allowed reduction schemes for split-K; algorithms without split-K are allowed by any mask.
constexpr std::uint32_t kReductions = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;

const CublasLibrary& library() {
  return CublasLibrary::get();
}

cudaDataType_t type_of(DType dtype) {
  return dtype == DType::kBFloat16 ? CUDA_R_16BF : CUDA_R_32F;
}

std::uint32_t alignment_of(const void* pointer) {
  const auto address = reinterpret_cast<std::uintptr_t>(pointer) | 256U;
  return static_cast<std::uint32_t>(address & (~address + 1));
}

// cuBLASLt is column-major: rows of our c are columns of its D, so that a vector [n] is its bias; our a is
// its B.
cublasLtEpilogue_t epilogue_of(GemmExtra extra) {
  switch (extra) {
    case GemmExtra::kNone:
      return CUBLASLT_EPILOGUE_DEFAULT;
    case GemmExtra::kBias:
      return CUBLASLT_EPILOGUE_BIAS;
    case GemmExtra::kRowSums:
      return CUBLASLT_EPILOGUE_BGRADB;
    case GemmExtra::kGelu:
      return CUBLASLT_EPILOGUE_GELU;
    case GemmExtra::kGeluBias:
      return CUBLASLT_EPILOGUE_GELU_BIAS;
    case GemmExtra::kGeluAux:
      return CUBLASLT_EPILOGUE_GELU_AUX;
    case GemmExtra::kGeluAuxBias:
      return CUBLASLT_EPILOGUE_GELU_AUX_BIAS;
    case GemmExtra::kGeluGradient:
      return CUBLASLT_EPILOGUE_DGELU;
  }
  fail_check(__FILE__, __LINE__, "extra", "an epilogue for every extra");
}

bool has_vector(GemmExtra extra) {
  return extra == GemmExtra::kBias || extra == GemmExtra::kRowSums || extra == GemmExtra::kGeluBias ||
         extra == GemmExtra::kGeluAuxBias;
}
bool has_aux(GemmExtra extra) {
  return extra == GemmExtra::kGeluAux || extra == GemmExtra::kGeluAuxBias ||
         extra == GemmExtra::kGeluGradient;
}
bool has_gelu(GemmExtra extra) {
  return has_aux(extra) || extra == GemmExtra::kGelu || extra == GemmExtra::kGeluBias;
}

/// Bytes of an attribute of an algorithm: the low bytes of a number, since all hosts of
/// CUDA are little-endian.
std::size_t setting_bytes(std::size_t attribute) {
  return attribute >= CUBLASLT_ALGO_CONFIG_INNER_SHAPE_ID ? sizeof(std::uint16_t) : sizeof(std::uint32_t);
}

}  // namespace

void check_cublas(cublasStatus_t status, const char* call) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  throw DeviceError(std::string("cublasLt: ") + call + ": " + library().cublasLtGetStatusString(status));
}

#define MOH_CUBLAS_CALL(name, ...) check_cublas(library().name(__VA_ARGS__), #name)

namespace {

std::uint32_t setting_of(const cublasLtMatmulAlgo_t& algorithm, std::size_t attribute) {
  std::uint32_t value = 0;
  std::size_t written = 0;
  MOH_CUBLAS_CALL(cublasLtMatmulAlgoConfigGetAttribute, &algorithm,
                  static_cast<cublasLtMatmulAlgoConfigAttributes_t>(attribute), &value,
                  setting_bytes(attribute), &written);
  return value;
}

bool is_reproducible(const cublasLtMatmulAlgo_t& algorithm) {
  return (setting_of(algorithm, CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME) & ~kReductions) == 0;
}

}  // namespace

CublasContext::CublasContext() {
  MOH_CUBLAS_CALL(cublasLtCreate, &handle_);
}

void* CublasContext::workspace() const {
  if (workspace_ == nullptr) workspace_ = cuda::allocate(kWorkspaceBytes, MemoryPurpose::kWorkspace);
  return workspace_;
}

GemmAlignments::GemmAlignments(const CudaGemmData& data)
    : a(alignment_of(data.a)),
      b(alignment_of(data.b)),
      c(alignment_of(data.c)),
      vector(alignment_of(data.vector)),
      aux(alignment_of(data.aux)) {}

void CublasProduct::Destroy::operator()(cublasLtMatrixLayout_t layout) const {
  library().cublasLtMatrixLayoutDestroy(layout);
}
void CublasProduct::Destroy::operator()(cublasLtMatmulDesc_t operation) const {
  library().cublasLtMatmulDescDestroy(operation);
}
void CublasProduct::Destroy::operator()(cublasLtMatmulPreference_t preference) const {
  library().cublasLtMatmulPreferenceDestroy(preference);
}

CublasProduct::Owned<cublasLtMatrixLayout_t> CublasProduct::layout_of(DType dtype, std::int64_t rows,
                                                                      std::int64_t columns,
                                                                      std::int64_t stride) {
  cublasLtMatrixLayout_t layout = nullptr;
  MOH_CUBLAS_CALL(cublasLtMatrixLayoutCreate, &layout, type_of(dtype), static_cast<std::uint64_t>(columns),
                  static_cast<std::uint64_t>(rows), stride);
  return Owned<cublasLtMatrixLayout_t>(layout);
}

template <class Value>
void CublasProduct::set(cublasLtMatmulDescAttributes_t attribute, const Value& value) const {
  MOH_CUBLAS_CALL(cublasLtMatmulDescSetAttribute, operation_.get(), attribute, &value, sizeof value);
}

bool CublasProduct::may_fuse(const CudaGemm& g, bool tf32) {
  if (has_aux(g.extra) && g.ldc % 8 != 0) return false;
  return !has_gelu(g.extra) || g.result_dtype == DType::kBFloat16 || tf32;
}

CublasProduct::CublasProduct(const CudaGemm& g, bool fused, bool tf32)
    : gemm_(g),
      has_epilogue_(fused && g.extra != GemmExtra::kNone),
      compute_type_(tf32 && g.operand_dtype == DType::kFloat32 ? CUBLAS_COMPUTE_32F_FAST_TF32
                                                               : CUBLAS_COMPUTE_32F),
      a_(g.transpose_a ? layout_of(g.operand_dtype, g.k, g.m, g.lda)
                       : layout_of(g.operand_dtype, g.m, g.k, g.lda)),
      b_(g.transpose_b ? layout_of(g.operand_dtype, g.n, g.k, g.ldb)
                       : layout_of(g.operand_dtype, g.k, g.n, g.ldb)),
      c_(layout_of(g.result_dtype, g.m, g.n, g.ldc)) {
  cublasLtMatmulDesc_t made = nullptr;
  MOH_CUBLAS_CALL(cublasLtMatmulDescCreate, &made, compute_type_, CUDA_R_32F);
  operation_.reset(made);
  const auto transposition = [](bool transposed) {
    return static_cast<std::int32_t>(transposed ? CUBLAS_OP_T : CUBLAS_OP_N);
  };
  set(CUBLASLT_MATMUL_DESC_TRANSA, transposition(g.transpose_b));
  set(CUBLASLT_MATMUL_DESC_TRANSB, transposition(g.transpose_a));
  if (!has_epilogue_) return;
  set(CUBLASLT_MATMUL_DESC_EPILOGUE, static_cast<std::uint32_t>(epilogue_of(g.extra)));
  if (has_vector(g.extra))
    set(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, static_cast<std::int32_t>(type_of(g.result_dtype)));
  if (has_aux(g.extra)) set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, g.ldc);  // its dtype is that of the result
}

void CublasProduct::point_to_extras(const CudaGemmData& data) const {
  if (!has_epilogue_) return;
  if (has_vector(gemm_.extra)) set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, data.vector);
  if (has_aux(gemm_.extra)) set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, data.aux);
}

CublasProduct::Owned<cublasLtMatmulPreference_t> CublasProduct::preference(
    const GemmAlignments& alignments) const {
  cublasLtMatmulPreference_t made = nullptr;
  MOH_CUBLAS_CALL(cublasLtMatmulPreferenceCreate, &made);
  Owned<cublasLtMatmulPreference_t> owner(made);
  const auto set_preference = [&](cublasLtMatmulPreferenceAttributes_t attribute, const auto& value) {
    MOH_CUBLAS_CALL(cublasLtMatmulPreferenceSetAttribute, made, attribute, &value, sizeof value);
  };
  set_preference(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, std::uint64_t{CublasContext::kWorkspaceBytes});
  set_preference(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, kReductions);
  set_preference(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, alignments.b);
  set_preference(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, alignments.a);
  set_preference(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, alignments.c);
  set_preference(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, alignments.c);
  return owner;
}

std::vector<CublasAlgorithm> CublasProduct::proposals(const CublasContext& context,
                                                      const GemmAlignments& alignments,
                                                      const CudaGemmData& data) const {
  point_to_extras(data);  // cuBLASLt considers their alignment
  cublasLtMatmulHeuristicResult_t results[kMostProposals];
  int found = 0;
  const cublasStatus_t status = library().cublasLtMatmulAlgoGetHeuristic(
      context.handle(), operation_.get(), b_.get(), a_.get(), c_.get(), c_.get(),
      preference(alignments).get(), kMostProposals, results, &found);
  std::vector<CublasAlgorithm> algorithms;
  // An epilogue that does not support the dtypes may be reported as an invalid value.
  if (status == CUBLAS_STATUS_NOT_SUPPORTED || (has_epilogue_ && status == CUBLAS_STATUS_INVALID_VALUE))
    return algorithms;
  check_cublas(status, "cublasLtMatmulAlgoGetHeuristic");
  for (int i = 0; i < found; ++i) {
    if (results[i].state == CUBLAS_STATUS_SUCCESS && is_reproducible(results[i].algo))
      algorithms.push_back({results[i].algo, results[i].workspaceSize});
  }
  return algorithms;
}

std::optional<CublasAlgorithm> CublasProduct::algorithm_of(const CublasContext& context,
                                                           const GemmAlgorithm& settings,
                                                           const CudaGemmData& data) const {
  point_to_extras(data);  // an epilogue without its pointers is rejected
  const cudaDataType_t operands = type_of(gemm_.operand_dtype), result = type_of(gemm_.result_dtype);
  cublasLtMatmulAlgo_t algorithm;
  const auto refused = [](cublasStatus_t status) { return status != CUBLAS_STATUS_SUCCESS; };
  if (refused(library().cublasLtMatmulAlgoInit(
          context.handle(), compute_type_, CUDA_R_32F, operands, operands, result, result,
          static_cast<int>(settings.settings[CUBLASLT_ALGO_CONFIG_ID]), &algorithm)))
    return std::nullopt;
  for (std::size_t i = CUBLASLT_ALGO_CONFIG_ID + 1; i < settings.settings.size(); ++i) {
    const std::uint32_t value = settings.settings[i];
    if (setting_bytes(i) == sizeof(std::uint16_t) && value > UINT16_MAX) return std::nullopt;
    if (refused(library().cublasLtMatmulAlgoConfigSetAttribute(
            &algorithm, static_cast<cublasLtMatmulAlgoConfigAttributes_t>(i), &value, setting_bytes(i))))
      return std::nullopt;
  }
  cublasLtMatmulHeuristicResult_t result_of_check{};
  if (refused(library().cublasLtMatmulAlgoCheck(context.handle(), operation_.get(), b_.get(), a_.get(),
                                                c_.get(), c_.get(), &algorithm, &result_of_check)) ||
      result_of_check.workspaceSize > CublasContext::kWorkspaceBytes || !is_reproducible(algorithm))
    return std::nullopt;
  return CublasAlgorithm{algorithm, result_of_check.workspaceSize};
}

cublasStatus_t CublasProduct::run(const CublasContext& context, const CublasAlgorithm& algorithm,
                                  const CudaGemmData& data) const {
  point_to_extras(data);
  const float one = 1, beta = gemm_.accumulate ? 1 : 0;
  const bool needs_workspace = algorithm.workspace_bytes > 0;
  cublasStatus_t status = CUBLAS_STATUS_SUCCESS;
  cuda::timed_call("cublasLtMatmul", {data.a, data.b, data.c, data.aux}, [&] {
    status = library().cublasLtMatmul(context.handle(), operation_.get(), &one, data.b, b_.get(), data.a,
                                      a_.get(), &beta, data.c, c_.get(), data.c, c_.get(),
                                      &algorithm.algorithm, needs_workspace ? context.workspace() : nullptr,
                                      needs_workspace ? CublasContext::kWorkspaceBytes : 0, cuda::stream());
  });
  return status;
}

GemmAlgorithm settings_of(const cublasLtMatmulAlgo_t& algorithm) {
  GemmAlgorithm result;
  for (std::size_t i = 0; i < result.settings.size(); ++i) result.settings[i] = setting_of(algorithm, i);
  return result;
}

}  // namespace moh
