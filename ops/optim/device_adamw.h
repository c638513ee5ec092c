#pragma once

#include <cstdint>
#include <vector>

#include "core/tensor.h"
#include "ops/optim/adamw.h"
#include "ops/optim/adamw_kernels.h"
#include "ops/optim/clip_grad_norm_kernels.h"
#include "ops/optim/kernel_table.h"

namespace moh {

/// Clipping and AdamW (the formulas of clip_factor and adamw) over parameters on a GPU, as one: whether there
/// is an update and by what it is scaled is decided there. The host neither waits nor needs to know, and an
/// update asks for the same work each time, so that it can be part of a CUDA graph.
class DeviceAdamW {
 public:
  /// The tensors of the parameters, gradients included, are those of every update. max_norm = 0: no clipping.
  /// Throws as adamw() does.
  DeviceAdamW(const std::vector<AdamWParameter>& parameters, const AdamWBetas& betas, double max_norm);

  /// For the updates that are asked for from now on.
  void set_learning_rate(double learning_rate);
  /// The number of updates so far, on which the bias corrections depend.
  void set_steps(std::int64_t steps);

  /// One update, unless the norm of the gradients or the sum of `losses` (float64 [n]) is not finite: then
  /// the weights, the moments and the number of updates stay as they are. Returns float64 [2]: the norm, and
  /// 1 if there was an update, else 0.
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
  Tensor square_sums_;    // float64, one per chunk
  Tensor decays_, keep_;  // float64, float32: one per distinct weight decay
  Tensor learning_rate_, steps_, go_, coefficients_;
};

}  // namespace moh
