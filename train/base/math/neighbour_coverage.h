#pragma once

#include <cstdint>
#include <vector>

#include "core/function_ref.h"
#include "core/tensor.h"

namespace moh {

/// Precision and recall of generated points (Kynkäänniemi et al. 2019, arXiv 1904.06991): each set of points
/// covers the balls around its points that reach to their `neighbours`-th nearest other point.
struct Coverage {
  double precision = 0;  ///< share of the samples that the reference covers
  double recall = 0;     ///< share of the reference that the samples cover
};

/// Points [N, D] and [M, D], float64 on the CPU, more than `neighbours` of each. `done` is called with the
/// share of the work. Time: (N^2 + M^2 + N M) D multiplications; memory beside the points: two copies of the
/// larger set's row of distances for 256 points. Bits do not depend on the number of threads. Throws
/// ShapeError.
Coverage neighbour_coverage(const Tensor& reference, const Tensor& samples, std::int64_t neighbours,
                            FunctionRef<void(double)> done);

}  // namespace moh
