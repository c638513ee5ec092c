#pragma once

#include <cstdint>
#include <vector>

#include "models/model.h"
#include "train/trainer/task/step_statistics.h"

namespace moh {

/// The biases by which the layers of a model select routed heads (MohConfig::balance_bias, arXiv 2408.15664),
/// and their update after each step. They are parameters that no optimiser trains: checkpoints have them with
/// the weights, and a moving average of the weights takes them as they are.
class BalanceBiases {
 public:
  /// The model must outlive this object.
  explicit BalanceBiases(const Model& model);

  /// Whether no layer has a bias.
  bool empty() const { return layers_.empty(); }
  /// The update of all layers after a step whose micro-batches, of all processes, have reported `numbers`
  /// [M, W] float64, a row for each, laid out as `layout` says. The order of the rows is that of the samples,
  /// so the result does not depend on the number of processes. `go`: the second element of AdamW::update(); a
  /// step that was skipped changes nothing. Captured in CUDA graphs.
  void update(const Tensor& numbers, const NumberLayout& layout, const Tensor& go) const;

 private:
  struct Layer {
    std::int64_t number;  // among the layers with a router
    Tensor bias;
    std::int64_t groups;
    double rate;
  };

  std::vector<Layer> layers_;
};

}  // namespace moh
