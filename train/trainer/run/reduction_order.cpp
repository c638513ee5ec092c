#include "train/trainer/run/reduction_order.h"

#include <utility>

#include "core/error.h"

namespace moh {

ReductionOrder::ReductionOrder(std::vector<std::vector<Variable>> leaves, Start start)
    : leaves_(std::move(leaves)), start_(std::move(start)) {
  for (std::size_t bucket = 0; bucket < leaves_.size(); ++bucket) {
    for (Variable& leaf : leaves_[bucket]) leaf.on_gradient([this, bucket](Variable&) { complete(bucket); });
  }
}

ReductionOrder::~ReductionOrder() {
  for (std::vector<Variable>& bucket : leaves_) {
    for (Variable& leaf : bucket) leaf.on_gradient({});
  }
}

void ReductionOrder::begin() {
  missing_.clear();
  for (const std::vector<Variable>& bucket : leaves_) missing_.push_back(bucket.size());
  started_ = 0;
  active_ = true;
}

void ReductionOrder::complete(std::size_t bucket) {
  if (!active_) return;
  MOH_CHECK(missing_[bucket] > 0 && bucket >= started_,
            "a hook runs once in a backward pass, after the last contribution");
  --missing_[bucket];
  start_complete_ones();
}

void ReductionOrder::start_complete_ones() {
  const std::size_t begin = started_;
  while (started_ < count() && missing_[started_] == 0) ++started_;
  if (started_ > begin) start_(begin, started_);
}

void ReductionOrder::finish() {
  active_ = false;
  while (started_ < count()) {
    for (Variable& leaf : leaves_[started_]) {
      if (!leaf.grad().defined()) leaf.accumulate_grad(zeros(leaf.shape(), leaf.grad_dtype(), leaf.device()));
    }
    missing_[started_] = 0;
    start_complete_ones();
  }
}

}  // namespace moh
