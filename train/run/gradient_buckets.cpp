#include "train/run/gradient_buckets.h"

#include <utility>

#include "core/error.h"

namespace moh {

GradientBuckets::GradientBuckets(Communicator& processes, const std::vector<Variable>& parameters,
                                 const Options& options)
    : processes_(processes), options_(options) {
  std::vector<Variable> leaves;
  std::vector<BucketItem> items;
  for (const Variable& parameter : parameters) {
    if (!parameter.requires_grad()) continue;
    leaves.push_back(parameter);
    items.push_back({parameter.numel(), parameter.dtype()});
  }
  const std::int64_t parts = options.sharded ? processes.size() : 1;
  for (const Bucket& layout : bucket_layout(items, options.bucket_bytes, parts)) add_bucket(layout, leaves);
}

GradientBuckets::~GradientBuckets() {
  for (Filled& bucket : buckets_) {
    for (Variable& leaf : bucket.leaves) leaf.on_gradient({});
  }
}

void GradientBuckets::add_bucket(const Bucket& layout, const std::vector<Variable>& leaves) {
  const MemoryPurposeScope purpose(MemoryPurpose::kGradient);
  Filled bucket{zeros({layout.elements}, DType::kFloat32, leaves.front().device()), {}};
  const std::size_t number = buckets_.size();
  std::int64_t begin = 0;
  for (const std::size_t item : layout.items) {
    Variable leaf = leaves[item];
    leaf.zero_grad();
    leaf.keep_gradient_in(bucket.gradients.slice(begin, begin + leaf.numel()).reshape(leaf.shape()));
    leaf.on_gradient([this, number](Variable&) { complete(number); });
    begin += leaf.numel();
    bucket.leaves.push_back(std::move(leaf));
  }
  buckets_.push_back(std::move(bucket));
}

void GradientBuckets::begin_step() {
  MOH_CHECK(pending_.empty(), "finish() comes first");
  for (Filled& bucket : buckets_) bucket.missing = bucket.leaves.size();
  last_pass_ = false;
}

void GradientBuckets::expect_last_pass() {
  last_pass_ = true;
}

void GradientBuckets::complete(std::size_t bucket) {
  if (!last_pass_) return;
  MOH_CHECK(buckets_[bucket].missing > 0 && bucket >= pending_.size(),
            "a hook runs once in a backward pass, after the last contribution");
  --buckets_[bucket].missing;
  start_complete_ones();
}

void GradientBuckets::start_complete_ones() {
  while (pending_.size() < buckets_.size() && buckets_[pending_.size()].missing == 0) {
    pending_.push_back(start_reduction(buckets_[pending_.size()].gradients));
  }
}

Communicator::Pending GradientBuckets::start_reduction(const Tensor& gradients) {
  if (!options_.sharded) return processes_.start_all_reduce(gradients, ReduceOp::kSum, options_.wire);
  const Tensor rows = gradients.reshape({processes_.size(), gradients.numel() / processes_.size()});
  return processes_.start_reduce_scatter(rows, rows.select(processes_.rank()), ReduceOp::kSum, options_.wire);
}

void GradientBuckets::finish() {
  for (std::size_t i = pending_.size(); i < buckets_.size(); ++i) {
    for (Variable& leaf : buckets_[i].leaves) {
      if (!leaf.grad().defined()) leaf.accumulate_grad(zeros(leaf.shape(), DType::kFloat32, leaf.device()));
    }
    buckets_[i].missing = 0;
  }
  start_complete_ones();
  last_pass_ = false;
  for (Communicator::Pending& one : std::exchange(pending_, {})) processes_.finish(one);
}

}  // namespace moh
