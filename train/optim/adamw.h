#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "models/model.h"
#include "ops/optim/clip_grad_norm.h"
#include "ops/optim/device_adamw.h"
#include "train/formats/safetensors.h"
#include "train/optim/parameter_groups.h"
#include "train/optim/parameter_shards.h"
#include "train/optim/precision.h"
#include "train/optim/value_gather.h"

namespace moh {

struct AdamWOptions {
  std::array<double, 2> betas = {0.9, 0.95};
  double eps = 1e-8;
  double weight_decay = 0.1;
  double clip_grad_norm = 1;  ///< maximum global L2 norm of an update()'s gradients; 0: no clipping
  Precision gradients = Precision::kFloat32;  ///< of bfloat16 parameters
  bool fused_update = false;  ///< updates are made within the backward pass; needs clip_grad_norm 0
  std::vector<ParameterGroup> groups = {};

  bool operator==(const AdamWOptions&) const = default;
};

/// Above which a step makes no update.
struct UpdateLimits {
  double loss = std::numeric_limits<double>::infinity();  ///< sum of the losses of the micro-batches
  double grad_norm = std::numeric_limits<double>::infinity();

  bool operator==(const UpdateLimits&) const = default;
};

/// AdamW over the parameters of a model (ops/optim/adamw.h has the formulas). State is float32. A bfloat16
/// parameter has a float32 master copy, which is updated and then rounded to the parameter.
///
/// On a GPU gradients are kept in buffers at fixed addresses, and update() does not block the host.
///
/// With options.fused_update a parameter is updated by a hook, as soon as a backward pass has completed its
/// gradient, whose memory is freed at once (arXiv 2306.09782, LOMO, has the idea for SGD). A step has one
/// backward pass then, between begin_update() and update(), and the bits of one that is not fused.
class AdamW {
 public:
  /// `decays` selects the parameters with weight decay. options.groups are of no account.
  AdamW(const std::vector<NamedParameter>& parameters, const AdamWOptions& options,
        const std::function<bool(const NamedParameter&)>& decays = is_matrix);
  /// Over the parameters of a model that options.groups do not freeze; the model selects those with weight
  /// decay (Model::decays). The others become constants (freeze()). Throws ConfigError as parameter_uses().
  AdamW(const Model& model, const AdamWOptions& options);
  /// The same, with the state divided among `processes` (ParameterShards), in buckets of `bucket_bytes`. Then
  /// update() is a collective, and needs the gradients of this process's elements alone. It leaves the values
  /// of the others to be gathered (on a GPU, leave_values_to_gather() does).
  AdamW(const Model& model, const AdamWOptions& options, Communicator& processes, std::size_t bucket_bytes);
  ~AdamW();
  AdamW(const AdamW&) = delete;
  AdamW& operator=(const AdamW&) = delete;

  /// Of a GPU: gradients stay where they are from now on, those that there are not in buffers that are made
  /// for them. The first zero_grad() or update() does so, if nobody has done it before.
  void keep_gradients();
  /// Drops all gradients.
  void zero_grad();
  /// Sets the learning rate of subsequent updates.
  void set_learning_rate(double learning_rate);
  /// Sets the limits of subsequent updates: a larger sum of losses, or global L2 norm of the gradients, is
  /// skipped as one that is not finite. Infinity, as in the beginning: no limit.
  void set_limits(const UpdateLimits& limits);
  /// One update on the parameters' device, with gradients clipped to options.clip_grad_norm. Skipped if the
  /// global L2 norm of the gradients or the sum of `losses` (float64 [n]) is not finite, which would ruin
  /// weights and moments for good. A missing gradient counts as zeros. Returns float64 [2] on that device:
  /// the norm, and 1 if there was an update, else 0. The caller may read it later, and then calls
  /// count_update() if it was 1.
  Tensor update(const Tensor& losses);
  /// Where the state is divided: starts to gather the values that the last update() has left to be, so that
  /// a forward pass runs beside it, which waits for each parameter where it reads it (ValueGather); and waits
  /// for all of them. Collectives; all processes have to call one of them, or to read a parameter, before
  /// one of them reads it alone.
  void start_gathering() const;
  void finish_gathering() const;
  /// Of a GPU, where update() may be replayed and leaves nothing to be gathered: the values of the others are
  /// to be gathered from now on, whether they have been before or not; and they are there, by a replay.
  void leave_values_to_gather();
  void forget_gathering();
  /// Whether parameters are updated within the backward pass.
  bool is_fused() const { return options_.fused_update; }
  /// Before the backward pass of a fused update, which changes nothing if the sum of `losses` is not finite,
  /// or above its limit; update() ends it. A gradient that is not finite is found when other parameters have
  /// their new values: neither this parameter nor those after it get one, and the result says that there was
  /// no update.
  void begin_update(const Tensor& losses);
  /// Adds an update that took place to steps().
  void count_update() { ++steps_; }

  /// How the state is divided; null if it is not.
  const ParameterShards* shards() const { return shards_.get(); }

  /// Whole tensors of `parts`, of which there is one for each parameter, divided as weights() are. A
  /// collective.
  std::vector<NamedTensor> gathered(const std::vector<NamedTensor>& parts) const;

  /// The number of counted updates.
  std::int64_t steps() const { return steps_; }
  /// What the updates change, under the names of the parameters: master copies of bfloat16 parameters, and
  /// parameters of other types. Handles, not copies. Of divided ones the elements of this process, [count],
  /// for each parameter, even if these are none.
  std::vector<NamedTensor> weights() const;
  /// The frozen parameters: handles, too.
  const std::vector<NamedTensor>& frozen() const { return frozen_; }
  /// Moments "exp_avg.NAME", "exp_avg_sq.NAME" and, for bfloat16, "master.NAME": handles to the state, not
  /// copies. Whole tensors; where the state is divided, state_parts() has them.
  std::vector<NamedTensor> state() const;
  /// The elements of this process of the same.
  std::vector<TensorPart> state_parts() const;
  /// Which elements of the parameters `parts` are, of which there is one for each, divided as weights() are.
  std::vector<TensorPart> parts_of(const std::vector<NamedTensor>& parts) const;
  /// Sets the number of updates that led to the contents of state(), after these were loaded.
  void set_steps(std::int64_t steps);

 private:
  struct Slot {
    NamedParameter parameter;
    AdamWParameter tensors;  // of the process's elements; `grad` is defined on a GPU only: its buffer
    bool updated = false;    // of a fused update: this parameter has had it
    SquareSums squares;      // likewise, on the CPU: of its gradient
  };

  AdamW(std::vector<NamedParameter> parameters, const std::vector<ParameterUse>& uses,
        const AdamWOptions& options, Communicator& processes = one_process(), std::size_t bucket_bytes = 0);

  std::vector<AdamWParameter> parameters() const;
  TensorPart part_of(std::size_t slot, const NamedTensor& tensor) const;
  double norm_of_all(double own) const;
  bool is_on_device() const;
  Tensor squares_of_all(const Tensor& own) const;
  AdamWStep step(double grad_scale) const;
  Tensor update_on_cpu(const Tensor& losses);
  void update_within_backward();
  void update_one(std::size_t number, const Tensor& grad);
  Tensor finish_update();

  std::shared_ptr<const ParameterShards> shards_;
  std::vector<Slot> slots_;
  std::optional<ValueGather> gather_;  // of the last update, if the state is divided
  std::vector<NamedTensor> frozen_;
  AdamWOptions options_;
  double learning_rate_ = 0;
  UpdateLimits limits_;
  std::int64_t steps_ = 0;
  bool going_ = false;  // of a fused update on the CPU: the losses, and the gradients so far, are finite
  std::unique_ptr<DeviceAdamW> on_device_;  // null on the CPU, and before keep_gradients()
};

}  // namespace moh
