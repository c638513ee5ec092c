#pragma once

#include <utility>

#include "core/tensor.h"

namespace moh {

/// An operand of a matrix multiplication: a matrix [rows, columns], or a range of its columns, read as its
/// transpose if `transposed`.
struct Operand {
  // NOLINTNEXTLINE: a tensor alone is an operand as it stands
  Operand(Tensor of, bool is_transposed = false) : matrix(std::move(of)), transposed(is_transposed) {}

  Tensor matrix;
  bool transposed = false;
  std::int64_t first_column = 0, num_columns = -1;  ///< -1: all that follow
};
inline Operand transposed(const Tensor& matrix) {
  return {matrix, true};
}
/// Columns [first, first + count) of `matrix`.
inline Operand columns_of(const Tensor& matrix, std::int64_t first, std::int64_t count,
                          bool is_transposed = false) {
  Operand operand{matrix, is_transposed};
  operand.first_column = first;
  operand.num_columns = count;
  return operand;
}

/// c = a b, or c += a b; c must not be transposed. Matrices of any floating dtypes; accumulation is in
/// float32 (float64 if c is float64, and then a and b must be float64 too), and the result is rounded once
/// when it is stored. The result does not depend on the number of threads. Throws ShapeError.
void matmul_into(const Operand& c, const Operand& a, const Operand& b, bool accumulate = false);

/// c = a b + bias: a vector [n] of c's dtype that is added to every row, in the epilogue of the matrix
/// multiplication where that is possible and fast.
void matmul_bias_into(const Operand& c, const Operand& a, const Operand& b, const Tensor& bias);

/// matmul_into, and the sums of the rows of op(a) as a vector [m] of c's dtype, which must be the
/// accumulation dtype of a: the gradients of a weight and of its bias. a must be transposed.
void matmul_row_sums_into(const Operand& c, const Operand& a, const Operand& b, const Tensor& sums,
                          bool accumulate = false);

/// a b as a new tensor [m, n] of `dtype`.
Tensor matmul(const Operand& a, const Operand& b, DType dtype);

}  // namespace moh
