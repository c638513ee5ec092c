#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "models/module.h"
#include "ops/optim/device_adamw.h"
#include "train/formats/safetensors.h"

namespace moh {

/// Whether a parameter is decayed by default: matrices are, what has one axis (norm weights, biases) is not.
bool is_matrix(const NamedParameter& parameter);

struct AdamWOptions {
  std::array<double, 2> betas = {0.9, 0.95};
  double eps = 1e-8;
  double weight_decay = 0.1;
  double clip_grad_norm = 1;  ///< maximum global L2 norm of an update()'s gradients; 0: no clipping

  bool operator==(const AdamWOptions&) const = default;
};

/// AdamW over the parameters of a model (ops/optim/adamw.h has the formulas). State is float32, and a
/// bfloat16 parameter has a float32 master copy, which is what is really trained.
///
/// On a GPU the gradients get a place of their own there, and update() waits for nothing.
class AdamW {
 public:
  /// `decays` says which parameters have weight decay.
  AdamW(std::vector<NamedParameter> parameters, const AdamWOptions& options,
        const std::function<bool(const NamedParameter&)>& decays = is_matrix);

  /// Forgets all gradients.
  void zero_grad();
  /// The learning rate of the updates that follow.
  void set_learning_rate(double learning_rate);
  /// One update with gradients clipped to options.clip_grad_norm, on the parameters' device, unless the norm
  /// of the gradients or the sum of `losses` (float64 [n]) is not finite: non-finite numbers must not reach
  /// the weights, where they would be lost for good. A parameter without a gradient counts as having zeros.
  /// Returns float64 [2]: the norm, and 1 if there was an
  /// update, else 0. The caller reads it when it likes and then says so by count_update().
  Tensor update(const Tensor& losses);
  /// That an update() took place, for steps().
  void count_update() { ++steps_; }

  /// Updates that have been counted.
  std::int64_t steps() const { return steps_; }
  /// Moments "exp_avg.NAME", "exp_avg_sq.NAME" and, for bfloat16, "master.NAME": handles to the state, not
  /// copies.
  std::vector<NamedTensor> state() const;
  /// That state() was filled with what it was after `steps` steps.
  void set_steps(std::int64_t steps);

 private:
  struct Slot {
    NamedParameter parameter;
    AdamWParameter tensors;  // `grad` on a GPU alone: its place there
  };

  std::vector<AdamWParameter> parameters() const;
  void move_to_device();
  Tensor update_on_cpu(const Tensor& losses);

  std::vector<Slot> slots_;
  AdamWOptions options_;
  double learning_rate_ = 0;
  std::int64_t steps_ = 0;
  std::unique_ptr<DeviceAdamW> on_device_;  // null on the CPU
};

}  // namespace moh
