#pragma once

#include "ops/linalg/gemm_cuda.h"
#include "ops/linalg/matmul.h"

namespace moh {

/// What a product does besides multiplying, the vector that it reads or writes, and the matrix beside c.
struct MatmulExtra {
  GemmExtra kind = GemmExtra::kNone;
  Tensor vector, aux;
};

/// matmul_into with an extra: as part of the product where that is possible and fast, else by a kernel after
/// it. Those of GELU are for products on a GPU whose sums are not empty, k > 0.
void matmul_extra_into(const Operand& c, const Operand& a, const Operand& b, bool accumulate,
                       const MatmulExtra& extra);

}  // namespace moh
