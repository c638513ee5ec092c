#pragma once

#include <cstdint>
#include <vector>

#include "core/tensor.h"

namespace moh {

/// Linear maps W [E, D] that predict y [E] from x [D] with the least squares over all rows that were added,
/// under a ridge penalty: W = Y^T X (X^T X + lambda I)^-1, lambda = ridge trace(X^T X) / D. Sums are float64,
/// D^2 + D E numbers, however many rows there are.
class LeastSquares {
 public:
  LeastSquares(std::int64_t inputs, std::int64_t outputs);

  /// x [N, D] floating on any device, y [N, E] float64 on the CPU.
  void add(const Tensor& x, const Tensor& y);
  /// [E, D] float64. Zeros when every x was 0. ridge > 0.
  Tensor solve(double ridge) const;
  /// The mean of ||W x||^2 over the rows.
  double mean_square_of(const Tensor& w) const;

 private:
  std::int64_t inputs_, outputs_, rows_ = 0;
  Tensor gram_;   // [D, D], X^T X
  Tensor cross_;  // [E, D], Y^T X
};

}  // namespace moh
