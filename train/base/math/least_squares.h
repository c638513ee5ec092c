#pragma once

#include <cstdint>
#include <vector>

#include "core/tensor.h"

namespace moh {

/// Ridge regression y = W x over rows that are added one batch after the other:
///   W = Y^T X (X^T X + lambda I)^-1  [E, D],  lambda = ridge trace(X^T X) / D.
/// Keeps X^T X and Y^T X in float64: D^2 + D E numbers, whatever the number of rows.
class LeastSquares {
 public:
  LeastSquares(std::int64_t inputs, std::int64_t outputs);

  /// Adds N rows: x [N, D] of a floating dtype on any device, y [N, E] float64 on the CPU.
  void add(const Tensor& x, const Tensor& y);
  /// W, [E, D] float64 on the CPU; zeros if all x are 0. ridge > 0.
  Tensor solve(double ridge) const;
  /// The mean of ||W x||^2 over the added rows.
  double mean_square_of(const Tensor& w) const;

 private:
  std::int64_t inputs_, outputs_, rows_ = 0;
  Tensor gram_;   // [D, D], X^T X
  Tensor cross_;  // [E, D], Y^T X
};

}  // namespace moh
