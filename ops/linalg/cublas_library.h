#pragma once

#include <cublasLt.h>

namespace moh {

/// The functions of cuBLASLt that moh calls, as members of the same names.
struct CublasLibrary {
  /// Loads the library at the first call. Throws DeviceError.
  static const CublasLibrary& get();

#define MOH_CUBLAS_FUNCTIONS(X)           \
  X(cublasLtCreate)                       \
  X(cublasLtGetStatusString)              \
  X(cublasLtGetVersion)                   \
  X(cublasLtMatmul)                       \
  X(cublasLtMatmulAlgoCheck)              \
  X(cublasLtMatmulAlgoConfigGetAttribute) \
  X(cublasLtMatmulAlgoConfigSetAttribute) \
  X(cublasLtMatmulAlgoGetHeuristic)       \
  X(cublasLtMatmulAlgoInit)               \
  X(cublasLtMatmulDescCreate)             \
  X(cublasLtMatmulDescDestroy)            \
  X(cublasLtMatmulDescSetAttribute)       \
  X(cublasLtMatmulPreferenceCreate)       \
  X(cublasLtMatmulPreferenceDestroy)      \
  X(cublasLtMatmulPreferenceSetAttribute) \
  X(cublasLtMatrixLayoutCreate)           \
  X(cublasLtMatrixLayoutDestroy)
#define MOH_DECLARE(name) decltype(&::name) name;  // NOLINT: a name takes no parentheses
  MOH_CUBLAS_FUNCTIONS(MOH_DECLARE)
#undef MOH_DECLARE
};

}  // namespace moh
