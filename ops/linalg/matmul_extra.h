#pragma once

#include "ops/linalg/gemm_cuda.h"
#include "ops/linalg/matmul.h"

namespace moh {

/// An epilogue, the vector that it reads or writes, and its aux matrix; see GemmExtra.
struct MatmulExtra {
  GemmExtra kind = GemmExtra::kNone;
  Tensor vector, aux;
};

/// matmul_into with an epilogue: fused where that is possible and fast, else by a separate kernel. Epilogues
/// with GELU are for GPUs only, and for k > 0.
void matmul_extra_into(const Operand& c, const Operand& a, const Operand& b, bool accumulate,
                       const MatmulExtra& extra);

}  // namespace moh
