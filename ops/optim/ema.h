#pragma once

#include <vector>

#include "core/tensor.h"
#include "ops/optim/ema_kernels.h"
#include "ops/optim/kernel_table.h"

namespace moh {

/// A tensor that changes from step to step, and its moving average.
struct EmaParameter {
  Tensor average;  ///< float32 (float64 for float64), shape of value; updated
  Tensor value;    ///< float32, bfloat16 or float64; only read
};

/// Exponential moving averages of parameters, all on one device:
///   average = decay * average + (1 - decay) * value,
/// computed as average + (1 - decay) (value - average) in float32 (float64 for float64): the factors sum to 1
/// despite rounding, so that an average equal to its value stays equal. One kernel launch for all tensors of
/// a dtype, bit-equal with any number of threads. Not differentiable. The host does not wait, and each update
/// enqueues the same work, so that it can be part of a CUDA graph: for a constant decay, or one in memory.
class EmaUpdate {
 public:
  /// Every update reads and writes these tensors. Throws ShapeError, DTypeError, DeviceError or ValueError,
  /// naming the index of the parameter.
  explicit EmaUpdate(std::vector<EmaParameter> parameters);

  /// One update. 0 <= decay <= 1, else throws ValueError. With `go`, a scalar of float64 on the device of the
  /// parameters, nothing happens if it is 0.
  void update(double decay, const Tensor& go = {}) const;
  /// An update with 1 - decay in `rate`, a scalar of float64 on the device of the parameters.
  void update_by(const Tensor& rate, const Tensor& go = {}) const;

 private:
  void run(double rate, const double* rate_at, const Tensor& go) const;

  std::vector<EmaParameter> parameters_;
  KernelTable<EmaChunk<float>> float32_;
  KernelTable<EmaChunk<bfloat16>> bfloat16_;
  KernelTable<EmaChunk<double>> float64_;  // on the CPU only
};

}  // namespace moh
