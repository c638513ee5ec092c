#include "train/run/gradient_buckets.h"

#include <utility>

#include "core/error.h"
#include "train/log/progress.h"

namespace moh {

GradientBuckets::GradientBuckets(Communicator& processes, const std::vector<Variable>& parameters,
                                 const Options& options)
    : processes_(processes), wire_(options.wire) {
  std::vector<Variable> leaves;
  std::size_t bytes = 0;
  for (auto parameter = parameters.rbegin(); parameter != parameters.rend(); ++parameter) {
    if (!parameter->requires_grad()) continue;
    leaves.push_back(*parameter);
    bytes += static_cast<std::size_t>(parameter->numel()) * dtype_size(DType::kFloat32);
    if (bytes < options.bucket_bytes) continue;
    add_bucket(std::exchange(leaves, {}));
    bytes = 0;
  }
  if (!leaves.empty()) add_bucket(std::move(leaves));
}

GradientBuckets::~GradientBuckets() {
  for (Bucket& bucket : buckets_) {
    for (Variable& leaf : bucket.leaves) leaf.on_gradient({});
  }
}

void GradientBuckets::add_bucket(std::vector<Variable> leaves) {
  const MemoryPurposeScope purpose(MemoryPurpose::kGradient);
  std::int64_t elements = 0;
  for (const Variable& leaf : leaves) elements += leaf.numel();
  const Tensor gradients = empty({elements}, DType::kFloat32, leaves.front().device());
  const std::size_t number = buckets_.size();
  std::int64_t begin = 0;
  for (Variable& leaf : leaves) {
    leaf.zero_grad();
    leaf.keep_gradient_in(gradients.slice(begin, begin + leaf.numel()).reshape(leaf.shape()));
    leaf.on_gradient([this, number](Variable&) { complete(number); });
    begin += leaf.numel();
  }
  buckets_.push_back({gradients, std::move(leaves)});
}

void GradientBuckets::begin_step() {
  MOH_CHECK(pending_.empty(), "finish() comes first");
  for (Bucket& bucket : buckets_) bucket.missing = bucket.leaves.size();
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
    const Tensor& gradients = buckets_[pending_.size()].gradients;
    pending_.push_back(processes_.start_all_reduce(gradients, ReduceOp::kSum, wire_));
  }
}

double GradientBuckets::finish() {
  for (std::size_t i = pending_.size(); i < buckets_.size(); ++i) {
    for (Variable& leaf : buckets_[i].leaves) {
      if (!leaf.grad().defined()) leaf.accumulate_grad(zeros(leaf.shape(), DType::kFloat32, leaf.device()));
    }
    buckets_[i].missing = 0;
  }
  start_complete_ones();
  const double began = monotonic_seconds();
  for (Communicator::Pending& one : std::exchange(pending_, {})) processes_.finish(one);
  last_pass_ = false;
  return monotonic_seconds() - began;
}

}  // namespace moh
