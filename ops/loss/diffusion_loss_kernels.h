#pragma once

#include "core/dtype.h"
#include "ops/loss/diffusion_loss.h"
#include "ops/op.h"

namespace moh {

/// Sizes of B samples with `elements` elements; predictions have `outputs` = elements or 2 * elements of
/// each.
struct DiffusionSizes {
  std::int64_t samples = 0, elements = 0, outputs = 0;

  /// constexpr, so that device code may call it.
  constexpr bool has_variance() const { return outputs > elements; }
};

template <class A>
struct DiffusionOperands {
  const A *start, *sample, *noise, *factors;
};

/// Kernels of diffusion_loss; outputs are overwritten.
template <class Backend, class T>
struct DiffusionLossKernels {
  /// squared_error, bound, losses [B]: the parts, and their sums.
  static void forward(const T* prediction, const DiffusionOperands<Acc<T>>& targets, Acc<T>* squared_error,
                      Acc<T>* bound, Acc<T>* losses, DiffusionSizes sizes);
  /// The gradient of *dloss / normalizer times the sum of the losses.
  static void backward(const Acc<T>* dloss, double normalizer, const T* prediction,
                       const DiffusionOperands<Acc<T>>& targets, T* dprediction, DiffusionSizes sizes);
};

}  // namespace moh
