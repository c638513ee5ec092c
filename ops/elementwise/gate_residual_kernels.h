#pragma once

#include "core/dtype.h"
#include "ops/gradient_destination.h"
#include "ops/op.h"

namespace moh {

/// N rows of width D in `groups` groups of equal length. Each group has one row of gates; those of
/// consecutive groups are `stride` elements apart.
struct GatedRows {
  Rows rows;
  std::int64_t groups = 1;
  std::int64_t stride = 0;
};

/// Kernels of gate_residual; outputs are overwritten. residual, x, y, dy, dx [N, D]; gate, dgate [groups, D]
/// with row stride `stride`. dgate is summed over the rows of a group.
template <class Backend, class T>
struct GateResidualKernels {
  static void forward(const T* residual, const T* x, const T* gate, T* y, GatedRows gated);
  static void backward(const T* dy, const T* x, const T* gate, T* dx, const GradientDestination<T>& dgate,
                       GatedRows gated);
};

}  // namespace moh
