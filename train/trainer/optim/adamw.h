#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "models/model.h"
#include "ops/optim/adamw.h"
#include "train/base/formats/safetensors.h"
#include "train/trainer/optim/adamw_options.h"
#include "train/trainer/optim/adamw_update.h"
#include "train/trainer/optim/parameter_groups.h"
#include "train/trainer/optim/parameter_shards.h"

namespace moh {

/// AdamW, Lion, Muon or Adafactor over the parameters of a model (ops/optim/adamw.h has the formulas). State
/// is float32. A bfloat16 parameter has a float32 master copy, which is updated and then rounded to the
/// parameter.
///
/// On a GPU gradients are kept in buffers at fixed addresses, and update() does not block the host.
///
/// Where several processes divide the state (ParameterShards), each has the moments and master copies of its
/// own elements, and an update changes these alone: until the values of the others are gathered
/// (ParameterGather), parameters are stale.
class AdamW {
 public:
  /// `decays` selects the parameters with weight decay. options.groups are of no account.
  AdamW(const std::vector<NamedParameter>& parameters, const AdamWOptions& options,
        const std::function<bool(const NamedParameter&)>& decays = is_matrix);
  /// Over the parameters of a model that options.groups do not freeze; the model selects those with weight
  /// decay (Model::decays). The others become constants (freeze()). Throws ConfigError as parameter_uses().
  AdamW(const Model& model, const AdamWOptions& options);
  /// With the state divided among `processes`, in buckets of `bucket_bytes`. Then update() is a collective,
  /// and needs the gradients of this process's elements alone.
  AdamW(const Model& model, const AdamWOptions& options, Communicator& processes, std::size_t bucket_bytes);
  /// With the state divided as shards_of() divides it, of parameters of which this process keeps its own
  /// elements alone: updates change `own`, [count] for each trained parameter, which others send to all
  /// (ShardedParameters). Reads no parameter.
  AdamW(const Model& model, const AdamWOptions& options, std::shared_ptr<const ParameterShards> shards,
        const std::vector<Tensor>& own);
  AdamW(const AdamW&) = delete;
  AdamW& operator=(const AdamW&) = delete;

  /// On a GPU, fixes the gradients' addresses, in buffers of their own for parameters that have none yet. The
  /// first zero_grad() or update() does so, too.
  void keep_gradients();
  /// From now on an update takes the gradients of this process's elements from `sums`, [count] for each
  /// trained parameter, where others write them (ShardedGradients). Before anything that keeps gradients.
  void take_gradients_from(const std::vector<Tensor>& sums);
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
  /// Adds an update that took place to steps().
  void count_update();
  /// update() of a step of one micro-batch with this loss, a scalar, and count_update(): waits for the
  /// device, and returns whether there was an update.
  bool step(const Variable& loss);

  // Updates of one parameter after the other, for FusedUpdate.

  /// From now on gradients come one by one, and have no addresses of their own on a GPU. Before anything that
  /// keeps gradients.
  void expect_each();
  /// See AdamWUpdate. `grad`: of this process's elements; finish_each() is a collective.
  void begin_each(const Tensor& losses) { update_->begin(losses); }
  void update_one(std::size_t index, const Tensor& grad);
  Tensor finish_each() { return update_->finish(*shards_); }

  const AdamWOptions& options() const { return options_; }
  /// The elements that this process updates.
  const std::shared_ptr<const ParameterShards>& shards() const { return shards_; }
  /// The trained parameters, and this process's elements of their values: handles.
  std::vector<Variable> trained() const;
  std::vector<Tensor> own_values() const;

  /// Whole tensors of `parts`, of which there is one for each parameter, divided as weights() are: the same
  /// ones, if nothing is divided. A collective.
  std::vector<NamedTensor> gathered(const std::vector<NamedTensor>& parts) const;

  /// The number of counted updates.
  std::int64_t steps() const { return steps_; }
  /// The tensors that updates change, under the names of the parameters: master copies of bfloat16
  /// parameters, and parameters of other types. Handles, not copies. Where the state is divided, the elements
  /// of this process, [count], for each parameter, even if there are none.
  std::vector<NamedTensor> weights() const;
  /// The frozen parameters: handles, too.
  const std::vector<NamedTensor>& frozen() const { return frozen_; }
  /// Moments "exp_avg.NAME" (not with Adafactor), "exp_avg_sq.NAME" (not with Lion), "exp_avg_sq_row.NAME"
  /// (of matrices with Adafactor) and, for bfloat16, "master.NAME": handles to the state, not copies. Whole
  /// tensors; where the state is divided, state_parts() has them.
  std::vector<NamedTensor> state() const;
  /// The elements of this process of the same.
  std::vector<TensorPart> state_parts() const;
  /// The elements of the parameters that `parts` are: one part for each parameter, divided as weights() are.
  std::vector<TensorPart> parts_of(const std::vector<NamedTensor>& parts) const;
  /// Sets the number of updates that led to the contents of state(), after these were loaded.
  void set_steps(std::int64_t steps);

 private:
  struct Slot {
    NamedParameter parameter;
    AdamWParameter tensors;    // of the process's elements; `grad` is defined on a GPU only: its whole buffer
    bool follows = false;      // the slot before it, as a BucketItem
    Tensor gradient_sum = {};  // of the process's elements, if others write it
  };

  AdamW(std::vector<NamedParameter> parameters, const std::vector<ParameterUse>& uses,
        const AdamWOptions& options, std::shared_ptr<const ParameterShards> shards,
        const std::vector<Tensor>& own);

  void make_update(const std::vector<AdamWParameter>& parameters);
  void add_gradient_buffers(std::size_t first, Device device);
  Tensor gradient_of(std::size_t index) const;
  static Tensor in_shape_of(const Slot& slot, const Tensor& elements);
  std::vector<AdamWParameter> parameters() const;
  TensorPart part_of(std::size_t slot, const NamedTensor& tensor) const;

  std::shared_ptr<const ParameterShards> shards_;
  std::vector<Slot> slots_;
  std::vector<NamedTensor> frozen_;
  AdamWOptions options_;
  double learning_rate_ = 0;
  UpdateLimits limits_;
  std::int64_t steps_ = 0;
  std::unique_ptr<AdamWUpdate> update_;  // null before keep_gradients() or expect_each()
};

/// The parameters of a model that options.groups do not freeze, in the order of AdamW::trained(), and the
/// values of the others.
struct TrainedParameters {
  std::vector<Variable> trained;
  std::vector<Tensor> frozen;
};
TrainedParameters trained_parameters(const Model& model, const AdamWOptions& options);

/// How an AdamW of these arguments divides its state.
std::shared_ptr<const ParameterShards> shards_of(const Model& model, const AdamWOptions& options,
                                                 Communicator& processes, std::size_t bucket_bytes);

}  // namespace moh
