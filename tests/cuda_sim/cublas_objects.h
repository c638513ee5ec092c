#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <initializer_list>

#include "ops/linalg/cublas_library.h"

// The descriptors of products in the simulated cuBLASLt.

struct cublasLtMatmulDescOpaque_t {
  cublasComputeType_t compute_type;
  std::int32_t trans_a = CUBLAS_OP_N, trans_b = CUBLAS_OP_N;
  std::uint32_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  void* bias = nullptr;
  std::int32_t bias_type = -1;
  void* aux = nullptr;
  std::int64_t aux_stride = 0;
};

struct cublasLtMatrixLayoutOpaque_t {
  cudaDataType_t type;
  std::int64_t rows, columns, stride;

  std::size_t item() const { return type == CUDA_R_16BF ? 2 : 4; }
  std::size_t bytes() const { return static_cast<std::size_t>((columns - 1) * stride + rows) * item(); }
  bool operator==(const cublasLtMatrixLayoutOpaque_t&) const = default;
};

namespace moh::sim {

/// The contents of a cublasLtMatmulAlgo_t: the attributes, in the order of their numbers.
struct Algorithm {
  std::uint32_t mark, settings[9];

  static constexpr std::uint32_t kMark = 0x6d6f6821;
  int id() const { return static_cast<int>(settings[CUBLASLT_ALGO_CONFIG_ID]); }
  std::int64_t splits() const { return settings[CUBLASLT_ALGO_CONFIG_SPLITK_NUM]; }
  std::uint32_t reduction() const { return settings[CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME]; }
};
static_assert(sizeof(Algorithm) <= sizeof(cublasLtMatmulAlgo_t));

/// A product with everything that it is made of.
struct Product {
  cublasLtMatmulDescOpaque_t desc;
  cublasLtMatrixLayoutOpaque_t a, b, c, d;

  std::int64_t depth() const { return desc.trans_a == CUBLAS_OP_N ? a.columns : a.rows; }
  bool is_consistent() const {
    const std::int64_t rows = desc.trans_a == CUBLAS_OP_N ? a.rows : a.columns;
    const std::int64_t columns = desc.trans_b == CUBLAS_OP_N ? b.columns : b.rows;
    const std::int64_t depth_of_b = desc.trans_b == CUBLAS_OP_N ? b.rows : b.columns;
    for (const auto* layout : {&a, &b, &c, &d}) {
      if (layout->rows <= 0 || layout->columns <= 0 || layout->stride < layout->rows) return false;
    }
    return a.type == b.type && c == d && rows == d.rows && columns == d.columns && depth() == depth_of_b &&
           (a.type == CUDA_R_16BF || d.type == CUDA_R_32F);
  }
  bool has_epilogue() const { return desc.epilogue != CUBLASLT_EPILOGUE_DEFAULT; }
  bool is_epilogue(std::initializer_list<cublasLtEpilogue_t> some) const {
    return std::find(some.begin(), some.end(), desc.epilogue) != some.end();
  }
  bool adds_bias() const {
    return is_epilogue(
        {CUBLASLT_EPILOGUE_BIAS, CUBLASLT_EPILOGUE_GELU_BIAS, CUBLASLT_EPILOGUE_GELU_AUX_BIAS});
  }
  bool sums_rows() const { return is_epilogue({CUBLASLT_EPILOGUE_BGRADB}); }
  bool has_gelu() const {
    return is_epilogue({CUBLASLT_EPILOGUE_GELU, CUBLASLT_EPILOGUE_GELU_BIAS, CUBLASLT_EPILOGUE_GELU_AUX,
                        CUBLASLT_EPILOGUE_GELU_AUX_BIAS});
  }
  bool has_gelu_gradient() const { return is_epilogue({CUBLASLT_EPILOGUE_DGELU}); }
  bool writes_aux() const {
    return is_epilogue({CUBLASLT_EPILOGUE_GELU_AUX, CUBLASLT_EPILOGUE_GELU_AUX_BIAS});
  }

  bool has_good_bias() const {
    if (!adds_bias() && !sums_rows()) return true;
    return desc.bias != nullptr && (desc.bias_type == -1 || desc.bias_type == d.type);
  }
  /// Columns in pieces of 16 bytes, as the real library's documentation asks for.
  bool has_good_aux() const {
    if (!writes_aux() && !has_gelu_gradient()) return true;
    return desc.aux != nullptr && reinterpret_cast<std::uintptr_t>(desc.aux) % 16 == 0 &&
           desc.aux_stride >= d.rows && desc.aux_stride % 8 == 0;
  }
  bool has_good_epilogue() const {
    const bool known = !has_epilogue() || adds_bias() || sums_rows() || has_gelu() || has_gelu_gradient();
    return known && has_good_bias() && has_good_aux();
  }
};

struct Pointers {
  const void *a, *b;
  void* d;
  float beta;
};

/// Computes the product as the algorithm would, with its order of sums.
void multiply(const Algorithm& algorithm, const Product& product, const Pointers& at);

/// Throws where the real library would read or write elsewhere.
void require_memory(const Product& product, const Pointers& at);

}  // namespace moh::sim
