#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "models/module.h"
#include "train/io/safetensors.h"

namespace moh {

/// Whether a parameter is decayed by default: matrices are, what has one axis (norm weights, biases) is not.
bool is_matrix(const NamedParameter& parameter);

struct AdamWOptions {
  std::array<double, 2> betas = {0.9, 0.95};
  double eps = 1e-8;
  double weight_decay = 0.0;
  std::function<bool(const NamedParameter&)> decays = is_matrix;
};

/// AdamW over the parameters of a model (ops/optim/adamw.h has the formulas). State is float32, and a
/// bfloat16 parameter has a float32 master copy, which is what is really trained.
class AdamW {
 public:
  AdamW(std::vector<NamedParameter> parameters, AdamWOptions options);

  /// Forgets all gradients.
  void zero_grad();
  /// L2 norm of all gradients together.
  double gradient_norm() const;
  /// One update with every gradient multiplied by `grad_scale`; a parameter without a gradient counts as
  /// having zeros.
  void step(double learning_rate, double grad_scale = 1.0);

  std::int64_t steps() const { return steps_; }
  /// Moments "exp_avg.NAME", "exp_avg_sq.NAME" and, for bfloat16, "master.NAME": handles to the state, not
  /// copies.
  std::vector<NamedTensor> state() const;
  /// Takes over a state that state() made after `steps` steps. Throws CheckpointError, naming everything that
  /// is missing, too much or of another shape, before anything is changed.
  void load_state(std::span<const NamedTensor> state, std::int64_t steps);
  /// Takes the parameters' present values as master copies, after they were loaded or initialised from
  /// outside.
  void refresh_masters();

 private:
  struct Slot {
    NamedParameter parameter;
    Tensor exp_avg, exp_avg_sq, master;
    double weight_decay;
  };

  std::vector<Slot> slots_;
  AdamWOptions options_;
  std::int64_t steps_ = 0;
};

}  // namespace moh
