#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <tuple>

#include "core/cuda/device.h"
#include "core/error.h"
#include "ops/linalg/cublas_library.h"
#include "ops/linalg/gemm_cuda.h"

namespace moh {

namespace {

constexpr std::size_t kWorkspaceBytes = std::size_t{32} << 20;

const CublasLibrary& library() {
  return CublasLibrary::get();
}

void check(cublasStatus_t status, const char* call) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  throw DeviceError(std::string("cublasLt: ") + call + ": " + library().cublasLtGetStatusString(status));
}

struct DestroyLayout {
  void operator()(cublasLtMatrixLayout_t layout) const { library().cublasLtMatrixLayoutDestroy(layout); }
};
struct DestroyOperation {
  void operator()(cublasLtMatmulDesc_t operation) const { library().cublasLtMatmulDescDestroy(operation); }
};
using Layout = std::unique_ptr<std::remove_pointer_t<cublasLtMatrixLayout_t>, DestroyLayout>;
using Operation = std::unique_ptr<std::remove_pointer_t<cublasLtMatmulDesc_t>, DestroyOperation>;

cudaDataType_t type_of(DType dtype) {
  return dtype == DType::kBFloat16 ? CUDA_R_16BF : CUDA_R_32F;
}

/// cuBLAS counts columns first: what is row-major here is the transpose there. So c^T = op(b)^T op(a)^T.
Layout layout_of(DType dtype, std::int64_t rows, std::int64_t columns, std::int64_t stride) {
  cublasLtMatrixLayout_t layout = nullptr;
  check(library().cublasLtMatrixLayoutCreate(&layout, type_of(dtype), static_cast<std::uint64_t>(columns),
                                             static_cast<std::uint64_t>(rows), stride),
        "cublasLtMatrixLayoutCreate");
  return Layout(layout);
}

/// The largest power of two, up to 256, that divides an address: algorithms ask for some.
std::uint32_t alignment_of(const void* pointer) {
  const auto address = reinterpret_cast<std::uintptr_t>(pointer) | 256U;
  return static_cast<std::uint32_t>(address & (~address + 1));
}

struct Alignments {
  std::uint32_t a, b, c;
  auto operator<=>(const Alignments&) const = default;
};

/// The layouts of a shape and the algorithm that cuBLAS chose for it.
struct Plan {
  Operation operation;
  Layout a, b, c;
  cublasLtMatmulAlgo_t algorithm;
};

class Gemms {
 public:
  static Gemms& instance() {
    static auto* gemms = new Gemms;  // never destroyed, as the device it belongs to
    return *gemms;
  }

  void run(const CudaGemm& gemm, const void* a, const void* b, void* c) {
    const std::lock_guard lock(mutex_);
    const Plan& plan = plan_of(gemm, {alignment_of(a), alignment_of(b), alignment_of(c)});
    const float one = 1, beta = gemm.accumulate ? 1 : 0;
    check(library().cublasLtMatmul(handle_, plan.operation.get(), &one, b, plan.b.get(), a, plan.a.get(),
                                   &beta, c, plan.c.get(), c, plan.c.get(), &plan.algorithm, workspace_,
                                   kWorkspaceBytes, cuda::stream()),
          "cublasLtMatmul");
  }

 private:
  using Key = std::tuple<std::int64_t, std::int64_t, std::int64_t, bool, bool, std::int64_t, std::int64_t,
                         std::int64_t, DType, DType, bool, Alignments>;

  Gemms() {
    check(library().cublasLtCreate(&handle_), "cublasLtCreate");
    workspace_ = cuda::allocate(kWorkspaceBytes, MemoryPurpose::kWorkspace);
  }

  const Plan& plan_of(const CudaGemm& g, const Alignments& alignments) {
    const Key key{g.m,          g.n,       g.k,   g.transpose_a,   g.transpose_b,
                  g.lda,        g.ldb,     g.ldc, g.operand_dtype, g.result_dtype,
                  g.accumulate, alignments};
    const auto known = plans_.find(key);
    return known != plans_.end() ? known->second
                                 : plans_.emplace(key, make_plan(g, alignments)).first->second;
  }

  Plan make_plan(const CudaGemm& g, const Alignments& alignments) const {
    Plan plan{make_operation(g),
              g.transpose_a ? layout_of(g.operand_dtype, g.k, g.m, g.lda)
                            : layout_of(g.operand_dtype, g.m, g.k, g.lda),
              g.transpose_b ? layout_of(g.operand_dtype, g.n, g.k, g.ldb)
                            : layout_of(g.operand_dtype, g.k, g.n, g.ldb),
              layout_of(g.result_dtype, g.m, g.n, g.ldc),
              {}};
    plan.algorithm = choose_algorithm(g, plan, alignments);
    return plan;
  }

  static Operation make_operation(const CudaGemm& g) {
    cublasLtMatmulDesc_t made = nullptr;
    // CUBLAS_COMPUTE_32F keeps float32 operands as they are: TF32 is never taken unasked.
    check(library().cublasLtMatmulDescCreate(&made, CUBLAS_COMPUTE_32F, CUDA_R_32F),
          "cublasLtMatmulDescCreate");
    Operation operation(made);
    const cublasOperation_t of_a = g.transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N;
    const cublasOperation_t of_b = g.transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N;
    // a is the second factor there.
    check(library().cublasLtMatmulDescSetAttribute(made, CUBLASLT_MATMUL_DESC_TRANSA, &of_b, sizeof of_b),
          "TRANSA");
    check(library().cublasLtMatmulDescSetAttribute(made, CUBLASLT_MATMUL_DESC_TRANSB, &of_a, sizeof of_a),
          "TRANSB");
    return operation;
  }

  cublasLtMatmulAlgo_t choose_algorithm(const CudaGemm& g, const Plan& plan,
                                        const Alignments& alignments) const {
    cublasLtMatmulPreference_t preference = nullptr;
    check(library().cublasLtMatmulPreferenceCreate(&preference), "cublasLtMatmulPreferenceCreate");
    const std::unique_ptr<std::remove_pointer_t<cublasLtMatmulPreference_t>,
                          decltype(CublasLibrary::cublasLtMatmulPreferenceDestroy)>
        owner(preference, library().cublasLtMatmulPreferenceDestroy);
    const auto set = [&](cublasLtMatmulPreferenceAttributes_t attribute, const auto& value) {
      check(library().cublasLtMatmulPreferenceSetAttribute(preference, attribute, &value, sizeof value),
            "cublasLtMatmulPreferenceSetAttribute");
    };
    set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, kWorkspaceBytes);
    set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, alignments.b);
    set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, alignments.a);
    set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, alignments.c);
    set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, alignments.c);
    cublasLtMatmulHeuristicResult_t result{};
    int found = 0;
    const cublasStatus_t status =
        library().cublasLtMatmulAlgoGetHeuristic(handle_, plan.operation.get(), plan.b.get(), plan.a.get(),
                                                 plan.c.get(), plan.c.get(), preference, 1, &result, &found);
    if (status != CUBLAS_STATUS_SUCCESS || found == 0) {
      throw DeviceError(error_message("cublasLt",
                                      "a product of " + std::to_string(g.m) + " x " + std::to_string(g.n) +
                                          " x " + std::to_string(g.k) + " " +
                                          std::string(dtype_name(g.operand_dtype)),
                                      "an algorithm", library().cublasLtGetStatusString(status)));
    }
    return result.algo;
  }

  std::mutex mutex_;
  cublasLtHandle_t handle_ = nullptr;
  void* workspace_ = nullptr;
  std::map<Key, Plan> plans_;
};

}  // namespace

void cuda_gemm(const CudaGemm& gemm, const void* a, const void* b, void* c) {
  Gemms::instance().run(gemm, a, b, c);
}

}  // namespace moh
