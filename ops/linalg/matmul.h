#pragma once

#include <utility>

#include "core/tensor.h"

namespace moh {

/// A matrix [rows, columns] of a product, or some of its columns, read as its transpose when so marked.
struct Operand {
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

/// c = a b, or c += a b; c is not transposed. Matrices of any floating dtypes; products are summed in float32
/// (float64 when c is float64, and then a and b are float64 too) and rounded once when they are stored.
/// The result does not depend on the number of threads. Throws ShapeError.
void matmul_into(const Operand& c, const Operand& a, const Operand& b, bool accumulate = false);

/// c = a b + bias: a vector [n] of c's dtype that is added to every row, by the product itself where that
/// is possible and fast.
void matmul_bias_into(const Operand& c, const Operand& a, const Operand& b, const Tensor& bias);

/// matmul_into, and the sums of a's rows as a vector [m] of c's dtype, which is the one that a is summed in:
/// the gradients of a weight and of the bias beside it. a is transposed.
void matmul_row_sums_into(const Operand& c, const Operand& a, const Operand& b, const Tensor& sums,
                          bool accumulate = false);

/// a b as a new tensor of `dtype`.
Tensor matmul(const Operand& a, const Operand& b, DType dtype);

}  // namespace moh
