#pragma once

#include <cstddef>
#include <functional>
#include <vector>

#include "autograd/variable.h"

namespace moh {

/// When buckets of gradients are reduced, while the backward pass that makes them goes on: each as soon as
/// its last gradient is complete, and the reductions of those before it have started. So the order is the
/// same in all processes, whatever their backward passes do. What a pass has not reached is zero, and reduced
/// in the end.
class ReductionOrder {
 public:
  /// Starts the buckets [begin, end), which have become complete together.
  using Start = std::function<void(std::size_t begin, std::size_t end)>;

  /// `leaves[b]` are those of bucket b, whose hooks are this object's from now on.
  ReductionOrder(std::vector<std::vector<Variable>> leaves, Start start);
  ~ReductionOrder();
  ReductionOrder(const ReductionOrder&) = delete;
  ReductionOrder& operator=(const ReductionOrder&) = delete;

  std::vector<Variable>& leaves(std::size_t bucket) { return leaves_[bucket]; }
  std::size_t count() const { return leaves_.size(); }

  /// The backward pass that follows completes gradients: buckets are started.
  void begin();
  /// Starts what is left. Subsequent passes start nothing until begin().
  void finish();

 private:
  void complete(std::size_t bucket);
  void start_complete_ones();

  std::vector<std::vector<Variable>> leaves_;
  Start start_;
  std::vector<std::size_t> missing_;  // gradients, by bucket
  std::size_t started_ = 0;           // the first buckets
  bool active_ = false;
};

}  // namespace moh
