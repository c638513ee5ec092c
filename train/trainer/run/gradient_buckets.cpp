#include "train/trainer/run/gradient_buckets.h"

#include <optional>
#include <utility>

#include "core/cuda/queue.h"
#include "core/error.h"
#include "train/comm/device_collectives.h"

namespace moh {

namespace {

/// Zeros that captured work of both queues may refer to, and a library may register.
Tensor lasting_zeros(std::int64_t elements, DType dtype, Device device) {
  std::optional<cuda::PersistentMemoryScope> persistent;
  if (device != kCpu) persistent.emplace();
  return zeros({elements}, dtype, device);
}

}  // namespace

GradientBuckets::GradientBuckets(Communicator& processes, const std::vector<Variable>& parameters,
                                 const Options& options)
    : processes_(processes), options_(options) {
  std::vector<Variable> leaves;
  std::vector<BucketItem> items;
  for (const Variable& parameter : parameters) {
    if (!parameter.requires_grad()) continue;
    const bool follows = !leaves.empty() && leaves.back().value().is_followed_by(parameter.value());
    leaves.push_back(parameter);
    items.push_back({parameter.numel(), parameter.dtype(), follows});
  }
  on_device_ = !leaves.empty() && leaves.front().device() != kCpu;
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
  const Variable& first = leaves[layout.items.front()];
  Filled bucket{lasting_zeros(layout.elements, first.grad_dtype(), first.device()), {}};
  const std::size_t number = buckets_.size();
  std::int64_t begin = 0;
  for (const std::size_t item : layout.items) {
    Variable leaf = leaves[item];
    leaf.zero_grad();
    leaf.keep_gradient_in(bucket.gradients.slice(begin, begin + leaf.numel()).reshape(leaf.shape()));
    // On a GPU, the optimiser refers to where the gradients are (AdamW::keep_gradients()).
    if (on_device_) leaf.accumulate_grad(zeros(leaf.shape(), leaf.grad_dtype(), leaf.device()));
    leaf.on_gradient([this, number](Variable&) { complete(number); });
    begin += leaf.numel();
    bucket.leaves.push_back(std::move(leaf));
  }
  buckets_.push_back(std::move(bucket));
}

void GradientBuckets::begin_step() {
  MOH_CHECK(pending_.empty(), "finish() comes first");
  for (Filled& bucket : buckets_) bucket.missing = bucket.leaves.size();
  started_ = 0;
  last_pass_ = false;
}

void GradientBuckets::expect_last_pass() {
  last_pass_ = true;
}

void GradientBuckets::complete(std::size_t bucket) {
  if (!last_pass_) return;
  MOH_CHECK(buckets_[bucket].missing > 0 && bucket >= started_,
            "a hook runs once in a backward pass, after the last contribution");
  --buckets_[bucket].missing;
  start_complete_ones();
}

void GradientBuckets::start_complete_ones() {
  const auto is_next = [this] { return started_ < buckets_.size() && buckets_[started_].missing == 0; };
  if (on_device_ && is_next()) cuda::wait_for(cuda::Queue::kCommunication, cuda::Queue::kCompute);
  while (is_next()) start_reduction(buckets_[started_++].gradients);
}

void GradientBuckets::start_reduction(const Tensor& gradients) {
  if (on_device_) return start_on_device(gradients);
  const DType wire = wire_of(gradients);
  if (!options_.sharded)
    return pending_.push_back(processes_.start_all_reduce(gradients, ReduceOp::kSum, wire));
  const Tensor rows = rows_of(gradients);
  pending_.push_back(
      processes_.start_reduce_scatter(rows, rows.select(processes_.rank()), ReduceOp::kSum, wire));
}

void GradientBuckets::start_on_device(const Tensor& gradients) const {
  cuda::require_persistent(gradients.raw(), gradients.bytes(), "a bucket of gradients");
  DeviceCollectives& devices = processes_.on_device();
  const DType wire = wire_of(gradients);
  if (!options_.sharded) return devices.all_reduce(gradients, ReduceOp::kSum, wire);
  const Tensor rows = rows_of(gradients);
  devices.reduce_scatter(rows, rows.select(processes_.rank()), ReduceOp::kSum, wire);
}

DType GradientBuckets::wire_of(const Tensor& gradients) const {
  return gradients.dtype() == DType::kFloat32 ? options_.wire : gradients.dtype();
}

/// The part of each process as a row.
Tensor GradientBuckets::rows_of(const Tensor& gradients) const {
  return gradients.reshape({processes_.size(), gradients.numel() / processes_.size()});
}

void GradientBuckets::finish() {
  for (std::size_t i = started_; i < buckets_.size(); ++i) {
    for (Variable& leaf : buckets_[i].leaves) {
      if (!leaf.grad().defined()) leaf.accumulate_grad(zeros(leaf.shape(), leaf.grad_dtype(), leaf.device()));
    }
    buckets_[i].missing = 0;
  }
  start_complete_ones();
  last_pass_ = false;
  if (on_device_) return cuda::wait_for(cuda::Queue::kCompute, cuda::Queue::kCommunication);
  for (Communicator::Pending& one : std::exchange(pending_, {})) processes_.finish(one);
}

}  // namespace moh
