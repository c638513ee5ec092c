#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "core/tensor.h"
#include "ops/optim/adamw.h"
#include "train/trainer/optim/adamw_options.h"
#include "train/trainer/optim/parameter_shards.h"

namespace moh {

/// How the parameters of an AdamW are updated where they lie: the decision whether to update, the clipping
/// and the formulas. Of the whole model at once, or of one parameter after the other (FusedUpdate).
class AdamWUpdate {
 public:
  virtual ~AdamWUpdate() = default;

  virtual void set_learning_rate(double learning_rate) = 0;
  virtual void set_limits(const UpdateLimits& limits) = 0;
  /// Sets the number of updates so far, which determines the bias corrections.
  virtual void set_steps(std::int64_t steps) = 0;
  /// The host knows that one more update took place. A GPU counts by itself, ahead of the host.
  virtual void count_update() = 0;

  /// AdamW::update() with the gradients in `parameters`, which are those of the construction, of the elements
  /// that `shards` gives to this process. The norm is that of all elements.
  virtual Tensor update(const std::vector<AdamWParameter>& parameters, const Tensor& losses,
                        const ParameterShards& shards) = 0;

  /// Begins an update of one parameter after the other, which changes nothing if the sum of the losses is not
  /// finite, or above its limit.
  virtual void begin(const Tensor& losses) = 0;
  /// Updates parameter number `index`. If its gradient is not finite, neither this one nor those that follow
  /// are updated.
  virtual void update_one(std::size_t index, const AdamWParameter& parameter) = 0;
  /// Ends the update, after update_one() for every parameter of which this process has elements; the result
  /// is that of AdamW::update(), of all elements of `shards`.
  virtual Tensor finish(const ParameterShards& shards) = 0;
};

/// For parameters in host memory, or on a GPU. There the addresses of `parameters` are read and written by
/// every update; those of their gradients, too, unless updates are of one parameter after the other, and
/// their gradients undefined.
std::unique_ptr<AdamWUpdate> make_adamw_update(const std::vector<AdamWParameter>& parameters,
                                               const AdamWOptions& options);

}  // namespace moh
