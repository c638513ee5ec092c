#pragma once

#include <cstdint>
#include <vector>

#include "core/tensor.h"
#include "ops/optim/adamw.h"
#include "ops/optim/adamw_kernels.h"
#include "ops/optim/clip_grad_norm_kernels.h"
#include "ops/optim/kernel_table.h"

namespace moh {

/// Clipping and AdamW (the formulas of clip_factor and adamw) over parameters on a GPU. The decision whether
/// to update, and the scale of the gradients, are computed on the GPU. The host does not wait, and each
/// update enqueues the same work, so that it can be part of a CUDA graph.
class DeviceAdamW {
 public:
  /// Every update reads and writes the tensors of `parameters`, gradients included, at the same addresses.
  /// max_norm: maximum global L2 norm of the gradients; 0: no clipping. Throws as adamw() does.
  DeviceAdamW(const std::vector<AdamWParameter>& parameters, const AdamWBetas& betas, double max_norm);

  /// Sets the learning rate of subsequent updates.
  void set_learning_rate(double learning_rate);
  /// Sets the largest sum of the losses, and the largest global L2 norm of the gradients, of subsequent
  /// updates; infinity: no limit.
  void set_limits(double loss, double norm);
  /// Sets the number of updates so far, which determines the bias corrections.
  void set_steps(std::int64_t steps);

  /// One update, unless the global L2 norm of the gradients or the sum of `losses` (float64 [n]) is not
  /// finite, or above its limit: then the weights, the moments and the number of updates are unchanged.
  /// Returns float64 [2] on the GPU: the norm, and 1 if there was an update, else 0.
  Tensor update(const Tensor& losses) const;

 private:
  /// The chunks of all parameters of one dtype.
  template <class T>
  struct Chunks {
    KernelTable<GradChunk<Acc<T>>> grads;
    KernelTable<AdamWChunk<T>> parameters;
  };
  template <class Fn>
  void each_dtype(const char* op, Fn&& fn) const;

  AdamWBetas betas_;
  double max_norm_;
  Tensor like_;  // a parameter
  Chunks<float> float32_;
  Chunks<bfloat16> bfloat16_;
  Tensor square_sums_;  // float64, one per chunk
  KernelTable<AdamWScale> scales_;
  Tensor rates_, coefficients_;  // bytes of an AdamWRate<float> per scale, of AdamWCoefficients<float>
  Tensor learning_rate_, limits_, steps_, go_;
};

}  // namespace moh
