#include "tests/cuda_sim/cublas.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <string>
#include <utility>

#include "ops/linalg/cublas_library.h"
#include "tests/cuda_sim/clock.h"
#include "tests/cuda_sim/cublas_objects.h"
#include "tests/cuda_sim/device_memory.h"
#include "tests/cuda_sim/stream.h"

// A cuBLASLt of plain loops. It is strict: sizes of attributes, shapes, alignments, workspace and epilogues
// that the real library would refuse, or that would make it read elsewhere, are refused here.

using moh::sim::Algorithm;
using moh::sim::Cublas;
using moh::sim::DeviceMemory;
using moh::sim::Pointers;
using moh::sim::Product;

struct cublasLtContext {};

struct cublasLtMatmulPreferenceOpaque_t {
  std::uint64_t workspace_bytes = 0;
  std::uint32_t reductions = 7;
  std::array<std::uint32_t, 4> alignments = {256, 256, 256, 256};  // of a, b, c, d
};

namespace {

Algorithm unpacked(const cublasLtMatmulAlgo_t& packed) {
  Algorithm algorithm;
  std::memcpy(&algorithm, packed.data, sizeof algorithm);
  return algorithm;
}
cublasLtMatmulAlgo_t packed(const Algorithm& algorithm) {
  cublasLtMatmulAlgo_t result{};
  std::memcpy(result.data, &algorithm, sizeof algorithm);
  return result;
}

Algorithm algorithm_of(int id, std::uint32_t tile, std::uint32_t splits, std::uint32_t reduction) {
  Algorithm a{Algorithm::kMark, {}};
  a.settings[CUBLASLT_ALGO_CONFIG_ID] = static_cast<std::uint32_t>(id);
  a.settings[CUBLASLT_ALGO_CONFIG_TILE_ID] = tile;
  a.settings[CUBLASLT_ALGO_CONFIG_SPLITK_NUM] = splits;
  a.settings[CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME] = reduction;
  return a;
}

/// Copies the value of an attribute, whose size must be the one it is stored in.
template <class To>
cublasStatus_t assign(To& to, const void* value, std::size_t bytes) {
  if (value == nullptr || bytes != sizeof(To)) return CUBLAS_STATUS_INVALID_VALUE;
  std::memcpy(&to, value, bytes);
  return CUBLAS_STATUS_SUCCESS;
}

/// Bytes of a setting of an algorithm.
std::size_t setting_bytes(cublasLtMatmulAlgoConfigAttributes_t name) {
  return name >= CUBLASLT_ALGO_CONFIG_INNER_SHAPE_ID ? 2 : 4;
}

bool has_alignment(std::uintptr_t address, std::uint32_t bytes) {
  return address % bytes == 0;
}

/// The alignment that is needed for matrix `index` of a, b, c, d.
std::uint32_t alignment_needed(const Algorithm& algorithm, const cublasLtMatrixLayoutOpaque_t& matrix,
                               std::size_t index) {
  const bool is_second_factor = index == 1;
  return algorithm.id() == 12 && !is_second_factor ? 16 : static_cast<std::uint32_t>(matrix.item());
}

std::size_t workspace_needed(const Algorithm& algorithm, const Product& p) {
  if (algorithm.reduction() != CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE) return 0;
  return static_cast<std::size_t>(algorithm.splits() * p.d.rows * p.d.columns) * sizeof(float);
}

/// Whether the library has such an algorithm for such a product.
bool is_supported(const Algorithm& algorithm, const Product& p) {
  if (algorithm.mark != Algorithm::kMark || algorithm.settings[CUBLASLT_ALGO_CONFIG_TILE_ID] > 3)
    return false;
  if (p.has_epilogue() && !Cublas::instance().has_epilogues) return false;
  const bool splits = algorithm.splits() > 1;
  switch (algorithm.id()) {
    case 11:
      return !splits && algorithm.reduction() == CUBLASLT_REDUCTION_SCHEME_NONE;
    case 12:
      return !splits && algorithm.reduction() == CUBLASLT_REDUCTION_SCHEME_NONE && !p.sums_rows();
    case 13:
      return splits && algorithm.splits() <= p.depth() && !p.has_epilogue() &&
             (algorithm.reduction() == CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE ||
              algorithm.reduction() == CUBLASLT_REDUCTION_SCHEME_INPLACE);
    default:
      return false;
  }
}

bool is_allowed(const Algorithm& algorithm, const Product& p,
                const cublasLtMatmulPreferenceOpaque_t& preference) {
  const cublasLtMatrixLayoutOpaque_t* matrices[] = {&p.a, &p.b, &p.c, &p.d};
  for (std::size_t i = 0; i < 4; ++i) {
    if (preference.alignments[i] < alignment_needed(algorithm, *matrices[i], i)) return false;
  }
  const bool reduces = algorithm.reduction() != CUBLASLT_REDUCTION_SCHEME_NONE;
  return (!reduces || (algorithm.reduction() & preference.reductions) != 0) &&
         workspace_needed(algorithm, p) <= preference.workspace_bytes;
}

}  // namespace

cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  static cublasLtContext context;
  *handle = &context;
  return CUBLAS_STATUS_SUCCESS;
}
std::size_t cublasLtGetVersion() {
  return 130100;
}
const char* cublasLtGetStatusString(cublasStatus_t status) {
  switch (status) {
    case CUBLAS_STATUS_SUCCESS:
      return "CUBLAS_STATUS_SUCCESS";
    case CUBLAS_STATUS_INVALID_VALUE:
      return "CUBLAS_STATUS_INVALID_VALUE";
    case CUBLAS_STATUS_ARCH_MISMATCH:
      return "CUBLAS_STATUS_ARCH_MISMATCH";
    case CUBLAS_STATUS_NOT_SUPPORTED:
      return "CUBLAS_STATUS_NOT_SUPPORTED";
  }
  return "unknown";
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* desc, cublasComputeType_t compute_type,
                                        cudaDataType_t scale_type) {
  if (scale_type != CUDA_R_32F) return CUBLAS_STATUS_INVALID_VALUE;
  *desc = new cublasLtMatmulDescOpaque_t{compute_type};
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t desc) {
  delete desc;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t desc, cublasLtMatmulDescAttributes_t name,
                                              const void* value, std::size_t bytes) {
  switch (name) {
    case CUBLASLT_MATMUL_DESC_TRANSA:
      return assign(desc->trans_a, value, bytes);
    case CUBLASLT_MATMUL_DESC_TRANSB:
      return assign(desc->trans_b, value, bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE:
      return assign(desc->epilogue, value, bytes);
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER:
      return assign(desc->bias, value, bytes);
    case CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE:
      return assign(desc->bias_type, value, bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER:
      return assign(desc->aux, value, bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD:
      return assign(desc->aux_stride, value, bytes);
  }
  return CUBLAS_STATUS_INVALID_VALUE;
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* layout, cudaDataType_t type,
                                          std::uint64_t rows, std::uint64_t columns,
                                          std::int64_t leading_dimension) {
  *layout = new cublasLtMatrixLayoutOpaque_t{type, static_cast<std::int64_t>(rows),
                                             static_cast<std::int64_t>(columns), leading_dimension};
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) {
  delete layout;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* preference) {
  *preference = new cublasLtMatmulPreferenceOpaque_t;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) {
  delete preference;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t name,
                                                    const void* value, std::size_t bytes) {
  switch (name) {
    case CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES:
      return assign(preference->workspace_bytes, value, bytes);
    case CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK:
      return assign(preference->reductions, value, bytes);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES:
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES:
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES:
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES:
      return assign(preference->alignments[name - CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES], value, bytes);
  }
  return CUBLAS_STATUS_INVALID_VALUE;
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t desc,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t preference, int most,
                                              cublasLtMatmulHeuristicResult_t results[], int* found) {
  const Product product{*desc, *a, *b, *c, *d};
  *found = 0;
  if (most <= 0 || !product.is_consistent() || !product.has_good_epilogue())
    return CUBLAS_STATUS_INVALID_VALUE;
  Algorithm estimated_order[] = {algorithm_of(13, 1, 4, CUBLASLT_REDUCTION_SCHEME_INPLACE),
                                 algorithm_of(11, 1, 1, CUBLASLT_REDUCTION_SCHEME_NONE),
                                 algorithm_of(12, 2, 1, CUBLASLT_REDUCTION_SCHEME_NONE),
                                 algorithm_of(13, 3, 4, CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE)};
  if (Cublas::instance().proposes_aligned_first) std::swap(estimated_order[0], estimated_order[2]);
  for (const Algorithm& algorithm : estimated_order) {
    if (*found == most || !is_supported(algorithm, product) || !is_allowed(algorithm, product, *preference))
      continue;
    results[(*found)++] = {
        packed(algorithm), workspace_needed(algorithm, product), CUBLAS_STATUS_SUCCESS, 1.0F, {}};
  }
  return *found > 0 ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_SUPPORTED;
}

cublasStatus_t cublasLtMatmulAlgoInit(cublasLtHandle_t, cublasComputeType_t, cudaDataType_t, cudaDataType_t,
                                      cudaDataType_t, cudaDataType_t, cudaDataType_t, int id,
                                      cublasLtMatmulAlgo_t* algorithm) {
  if (id < 11 || id > 13) return CUBLAS_STATUS_INVALID_VALUE;
  *algorithm = packed(algorithm_of(id, 0, 1, CUBLASLT_REDUCTION_SCHEME_NONE));
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoCheck(cublasLtHandle_t, cublasLtMatmulDesc_t desc, cublasLtMatrixLayout_t a,
                                       cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c,
                                       cublasLtMatrixLayout_t d, const cublasLtMatmulAlgo_t* algorithm,
                                       cublasLtMatmulHeuristicResult_t* result) {
  const Product product{*desc, *a, *b, *c, *d};
  if (!product.is_consistent() || !product.has_good_epilogue()) return CUBLAS_STATUS_INVALID_VALUE;
  if (!is_supported(unpacked(*algorithm), product)) return CUBLAS_STATUS_NOT_SUPPORTED;
  *result = {*algorithm, workspace_needed(unpacked(*algorithm), product), CUBLAS_STATUS_SUCCESS, 1.0F, {}};
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoConfigGetAttribute(const cublasLtMatmulAlgo_t* algorithm,
                                                    cublasLtMatmulAlgoConfigAttributes_t name, void* value,
                                                    std::size_t bytes, std::size_t* written) {
  if (bytes != setting_bytes(name)) return CUBLAS_STATUS_INVALID_VALUE;
  const std::uint32_t setting = unpacked(*algorithm).settings[name];
  std::memcpy(value, &setting, bytes);  // the low bytes come first
  *written = bytes;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulAlgoConfigSetAttribute(cublasLtMatmulAlgo_t* algorithm,
                                                    cublasLtMatmulAlgoConfigAttributes_t name,
                                                    const void* value, std::size_t bytes) {
  if (name == CUBLASLT_ALGO_CONFIG_ID || bytes != setting_bytes(name)) return CUBLAS_STATUS_INVALID_VALUE;
  Algorithm changed = unpacked(*algorithm);
  changed.settings[name] = 0;
  std::memcpy(&changed.settings[name], value, bytes);
  *algorithm = packed(changed);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t, cublasLtMatmulDesc_t desc, const void* alpha, const void* a,
                              cublasLtMatrixLayout_t a_layout, const void* b, cublasLtMatrixLayout_t b_layout,
                              const void* beta, const void* c, cublasLtMatrixLayout_t c_layout, void* d,
                              cublasLtMatrixLayout_t d_layout, const cublasLtMatmulAlgo_t* algorithm,
                              void* workspace, std::size_t workspace_bytes, cudaStream_t stream) {
  const Product product{*desc, *a_layout, *b_layout, *c_layout, *d_layout};
  const Algorithm chosen = unpacked(*algorithm);
  float one = 0;
  Pointers at{a, b, d, 0};
  std::memcpy(&one, alpha, sizeof one);
  std::memcpy(&at.beta, beta, sizeof at.beta);
  if (one != 1 || c != d || !product.is_consistent() || !product.has_good_epilogue())
    return CUBLAS_STATUS_INVALID_VALUE;
  if (!is_supported(chosen, product) || Cublas::instance().refused.contains(chosen.id()))
    return CUBLAS_STATUS_NOT_SUPPORTED;
  const std::size_t needed = workspace_needed(chosen, product);
  if (needed > workspace_bytes) return CUBLAS_STATUS_INVALID_VALUE;
  const std::pair<const void*, const cublasLtMatrixLayoutOpaque_t*> matrices[] = {
      {a, a_layout}, {b, b_layout}, {d, d_layout}};
  for (std::size_t i = 0; i < std::size(matrices); ++i) {
    const auto& [pointer, layout] = matrices[i];
    if (!has_alignment(reinterpret_cast<std::uintptr_t>(pointer), alignment_needed(chosen, *layout, i)))
      return CUBLAS_STATUS_INVALID_VALUE;
  }
  require_memory(product, at);
  if (needed > 0) DeviceMemory::instance().require(workspace, needed, "cublasLtMatmul: workspace");
  Cublas& state = Cublas::instance();
  const auto work = [product, chosen, at, milliseconds = state.milliseconds[chosen.id()]] {
    const DeviceMemory::Access access;
    multiply(chosen, product, at);
    moh::sim::device_clock() += milliseconds;
  };
  moh::sim::Streams::instance().submit(stream, work);
  ++state.calls[{chosen.id(), desc->epilogue, desc->compute_type == CUBLAS_COMPUTE_32F_FAST_TF32}];
  return CUBLAS_STATUS_SUCCESS;
}

Cublas& Cublas::instance() {
  static auto* state = new Cublas;
  return *state;
}

namespace moh {

const CublasLibrary& CublasLibrary::get() {
#define MOH_NAME(name) &::name,
  static const CublasLibrary functions{MOH_CUBLAS_FUNCTIONS(MOH_NAME)};
#undef MOH_NAME
  return functions;
}

}  // namespace moh
