#pragma once

#include <span>
#include <vector>

#include "core/tensor.h"

namespace moh {

/// The loads of a model's layers over a whole step, of all processes: what a load-balance loss over the step
/// takes for f (docs/load_balance.md). They lie in memory that stays the same from step to step, as captured
/// work needs it.
class StepLoads {
 public:
  /// A step of `micro_batches` in all processes begins.
  void begin(std::int64_t micro_batches);
  /// Adds those of a micro-batch, by layer (Task::head_loads).
  void add(std::span<const Tensor> loads);
  /// The loads of all layers, for the sum over processes.
  const Tensor& all() const { return all_; }
  /// The means over the micro-batches, of those that were added; undefined for layers without.
  const std::vector<Tensor>& of_layers() const { return of_layers_; }

 private:
  void allocate(std::span<const Tensor> loads);
  bool fits(std::span<const Tensor> loads) const;

  double share_ = 1;  // of a micro-batch
  Tensor all_;
  std::vector<Tensor> of_layers_;  // views of all_
};

}  // namespace moh
