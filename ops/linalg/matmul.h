#pragma once

#include "core/tensor.h"

namespace moh {

/// One operand of a matrix product: a matrix [rows, columns], read as its transpose when so marked.
struct Operand {
  Tensor matrix;
  bool transposed = false;
};
inline Operand transposed(const Tensor& matrix) {
  return {matrix, true};
}

/// c = a b, or c += a b. Matrices of any floating dtypes; products are summed in float32 (float64 when c is
/// float64, and then a and b are float64 too) and rounded once when they are stored. Float32 products run in
/// oneDNN on blocks that depend on the sizes alone, so the result does not depend on the number of threads.
/// Throws ShapeError.
void matmul_into(const Tensor& c, const Operand& a, const Operand& b, bool accumulate = false);

/// a b as a new tensor of `dtype`.
Tensor matmul(const Operand& a, const Operand& b, DType dtype);

}  // namespace moh
