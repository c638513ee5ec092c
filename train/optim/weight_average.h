#pragma once

#include <vector>

#include "models/module.h"
#include "ops/optim/ema.h"
#include "train/formats/safetensors.h"
#include "train/optim/adamw.h"

namespace moh {

/// The exponential moving average of a model's weights (ops/optim/ema.h), in float32, of the master copies
/// where the optimiser has such. It begins with the weights of its construction. The average of a frozen
/// parameter is its value. It is divided among processes as the optimiser's state is.
class WeightAverage {
 public:
  /// 0 < decay < 1. The optimiser and its model must outlive this object.
  WeightAverage(const AdamW& optimizer, double decay);

  /// Follows AdamW::update(), of whose result `go` is the second element: a step that was skipped changes
  /// nothing.
  void update(const Tensor& go) const { update_.update(decay_, go); }
  /// The averages of the trained parameters under the parameters' names: handles, not copies. Divided as
  /// AdamW::weights().
  const std::vector<NamedTensor>& trained() const { return trained_; }
  /// The same, of all processes, and the frozen parameters: the whole model that is evaluated. A collective
  /// where it is divided, and then the averages are copies.
  std::vector<NamedTensor> state() const;

 private:
  const AdamW& optimizer_;
  std::vector<NamedTensor> trained_;
  EmaUpdate update_;
  double decay_;
};

/// Gives parameters other values while it lives, and then their own again. Throws as Tensor::copy_from.
class WeightsScope {
 public:
  /// `values` has one for each parameter, by name; other dtypes are converted.
  WeightsScope(const std::vector<NamedParameter>& parameters, const std::vector<NamedTensor>& values);
  ~WeightsScope();
  WeightsScope(const WeightsScope&) = delete;
  WeightsScope& operator=(const WeightsScope&) = delete;

 private:
  std::vector<Tensor> places_, own_;
};

}  // namespace moh
