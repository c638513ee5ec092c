#pragma once

#include <cstdint>
#include <span>

#include "core/tensor.h"

namespace moh {

/// The formulas by which a parameter is updated.
enum class UpdateRule { kAdamW, kLion, kMuon, kAdafactor };

/// Whether a rule reads all of a matrix to update an element of it.
constexpr bool takes_whole_matrices(UpdateRule rule) {
  return rule == UpdateRule::kMuon || rule == UpdateRule::kAdafactor;
}

/// One parameter with its gradient and optimiser state, all on one device, and of one shape but for
/// Adafactor's state.
struct AdamWParameter {
  Tensor value;       ///< float32, bfloat16 or float64; updated
  Tensor grad;        ///< float32 (float64 for float64), or bfloat16 as value; only read
  Tensor exp_avg;     ///< m, float32 (float64 for float64), zeros before the first step; updated; undefined
                      ///< with Adafactor
  Tensor exp_avg_sq;  ///< v, likewise; undefined with Lion and Muon, which have none; of adafactor_shapes()
  Tensor master;      ///< float32 master copy of a bfloat16 value; undefined for other dtypes; updated
  double weight_decay = 0.0;
  double learning_rate_scale = 1.0;  ///< s, a factor of the step's learning rate
  bool narrow_grad = false;          ///< a gradient that is not there yet will be bfloat16

  bool orthogonal = false;     ///< a matrix that Muon updates
  Tensor exp_avg_sq_row = {};  ///< of Adafactor (ops/optim/adafactor.h)

  UpdateRule rule() const {
    if (orthogonal) return UpdateRule::kMuon;
    if (!exp_avg.defined()) return UpdateRule::kAdafactor;
    return exp_avg_sq.defined() ? UpdateRule::kAdamW : UpdateRule::kLion;
  }
  /// A tensor of the state: on the parameter's device, and there while the value is on its way from others.
  const Tensor& moment() const { return exp_avg.defined() ? exp_avg : exp_avg_sq; }
  /// Whether each element is updated by its own numbers alone, in one pass over all parameters.
  bool by_elements() const { return rule() == UpdateRule::kAdamW || rule() == UpdateRule::kLion; }
  /// The dtype of the gradient, be it there or not.
  DType grad_type() const {
    if (grad.defined()) return grad.dtype();
    return narrow_grad ? DType::kBFloat16 : accumulate_dtype(value.dtype());
  }
};

/// Hyperparameters of one step, common to all parameters.
struct AdamWStep {
  std::int64_t step = 1;  ///< k, counted from 1
  double learning_rate = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  double momentum = 0.95;   ///< of Muon
  double grad_scale = 1.0;  ///< gradients are multiplied by it first; the result of clip_factor
};

/// One step of AdamW (Loshchilov & Hutter 2019, arXiv 1711.05101), bit-equal with any number of threads:
///   g = grad_scale * grad
///   p = p (1 - s lr weight_decay)
///   m = beta1 m + (1 - beta1) g
///   v = beta2 v + (1 - beta2) g^2
///   p = p - s lr / (1 - beta1^k) * m / (sqrt(v) / sqrt(1 - beta2^k) + epsilon)
/// in float32 (float64 for float64), on the master copy if there is one. Parameters without v are updated by
/// Lion (Chen et al. 2023, arXiv 2302.06675):
///   p = p (1 - s lr weight_decay) - s lr sign(beta1 m + (1 - beta1) g)
///   m = beta2 m + (1 - beta2) g
/// These are updated in one parallel pass, and one by one matrices that are `orthogonal`, by Muon
/// (ops/optim/muon.h), and parameters without m, by Adafactor (ops/optim/adafactor.h). Throws ShapeError,
/// DTypeError, DeviceError or ValueError, naming the index of the parameter, before anything is changed. Not
/// differentiable.
void adamw(std::span<const AdamWParameter> parameters, const AdamWStep& step);

/// Zeroes the moments and copies values to master copies, as before the first step. On the CPU the same
/// threads write what they update in adamw(): with several NUMA nodes a page then lies beside the thread that
/// uses it (first touch), if the tensors are fresh from empty(). Gradients may be undefined. Throws as
/// adamw() does.
void reset_adamw_state(std::span<const AdamWParameter> parameters);

/// Throws as adamw() does when shapes, dtypes or devices of a parameter's tensors do not match. Gradients may
/// be undefined unless needed.
void check_adamw_parameters(std::span<const AdamWParameter> parameters, bool need_grads);

}  // namespace moh
