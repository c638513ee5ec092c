#pragma once

#include <cstdint>
#include <vector>

#include "models/module.h"
#include "ops/optim/ema.h"
#include "train/base/formats/safetensors.h"
#include "train/trainer/optim/adamw.h"

namespace moh {

/// How the decay of a moving average begins.
struct AverageDecay {
  double decay = 0;     ///< 0 < decay < 1
  bool warmup = false;  ///< at most (1 + t) / (10 + t) after t steps

  double at(std::int64_t step) const;
  /// The share of the weights of step 0 in the average after `steps` steps: the product of their decays.
  double share_of_first(std::int64_t steps) const;
};

/// The exponential moving average of a model's weights (ops/optim/ema.h), in float32, of the master copies
/// where the optimiser has such. It begins with the weights of its construction. The average of a frozen
/// parameter is its value. It is divided among processes as the optimiser's state is.
class WeightAverage {
 public:
  /// The optimiser and its model must outlive this object.
  WeightAverage(const AdamW& optimizer, double decay) : WeightAverage(optimizer, AverageDecay{decay}) {}
  WeightAverage(const AdamW& optimizer, AverageDecay decay);

  /// From now on updates are those after `step` steps. Not captured in a CUDA graph: it puts the decay where
  /// a captured update() reads it.
  void set_step(std::int64_t step);
  /// From now on the decay is the same in all steps: of an average that began so.
  void end_warmup() { decay_.warmup = false; }
  const AverageDecay& decay() const { return decay_; }
  /// Follows AdamW::update(), of whose result `go` is the second element: a step that was skipped changes
  /// nothing.
  void update(const Tensor& go) const;
  /// The averages of the trained parameters under the parameters' names: handles, not copies. Divided as
  /// AdamW::weights().
  const std::vector<NamedTensor>& trained() const { return trained_; }
  /// The averages of all processes, and the frozen parameters: the whole model that is evaluated. A
  /// collective where the average is divided, and then the averages are copies.
  std::vector<NamedTensor> state() const;

 private:
  const AdamW& optimizer_;
  std::vector<NamedTensor> trained_;
  EmaUpdate update_;
  AverageDecay decay_;
  double now_ = 0;  ///< the decay of the next update
  Tensor rate_;     ///< 1 - now_ on a GPU, where the decay changes
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
