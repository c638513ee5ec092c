#include "train/trainer/run/gradient_buckets.h"

#include <utility>

#include "core/cuda/queue.h"
#include "core/dry_run.h"
#include "core/error.h"
#include "train/comm/device_collectives.h"

namespace moh {

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
  std::vector<std::vector<Variable>> of_buckets;
  const std::vector<Bucket> buckets =
      options.shards != nullptr ? options.shards->buckets() : bucket_layout(items, options.bucket_bytes, 1);
  for (const Bucket& layout : buckets) of_buckets.push_back(add_bucket(layout, leaves));
  order_.emplace(std::move(of_buckets), [this](std::size_t begin, std::size_t end) { start(begin, end); });
}

/// The leaves of the bucket, whose gradients are kept in it from now on.
std::vector<Variable> GradientBuckets::add_bucket(const Bucket& layout, const std::vector<Variable>& leaves) {
  const Variable& first = leaves[layout.items.front()];
  gradients_.push_back(lasting_zeros(layout.elements, first.grad_dtype(), first.device()));
  std::vector<Variable> of_bucket;
  for (std::size_t i = 0; i < layout.items.size(); ++i) {
    const std::int64_t begin = layout.begins[i];
    Variable leaf = leaves[layout.items[i]];
    leaf.zero_grad();
    leaf.keep_gradient_in(gradients_.back().slice(begin, begin + leaf.numel()).reshape(leaf.shape()));
    // On a GPU, the optimiser refers to where the gradients are (AdamW::keep_gradients()).
    if (on_device_) leaf.accumulate_grad(zeros(leaf.shape(), leaf.grad_dtype(), leaf.device()));
    of_bucket.push_back(std::move(leaf));
  }
  return of_bucket;
}

void GradientBuckets::begin_step() {
  MOH_CHECK(pending_.empty(), "finish_pass() comes first");
}

void GradientBuckets::expect_pass(bool is_last) {
  if (is_last) order_->begin();
}

void GradientBuckets::start(std::size_t begin, std::size_t end) {
  if (dry_run()) return;
  if (on_device_) cuda::wait_for(cuda::Queue::kCommunication, cuda::Queue::kCompute);
  for (std::size_t bucket = begin; bucket < end; ++bucket)
    on_device_ ? start_on_device(gradients_[bucket]) : start_on_host(gradients_[bucket]);
}

void GradientBuckets::start_on_host(const Tensor& gradients) {
  const DType wire = wire_of(gradients, options_.wire);
  if (options_.shards == nullptr)
    return pending_.push_back(processes_.start_all_reduce(gradients, ReduceOp::kSum, wire));
  const Tensor rows = rows_of(gradients, processes_.size());
  pending_.push_back(
      processes_.start_reduce_scatter(rows, rows.select(processes_.rank()), ReduceOp::kSum, wire));
}

void GradientBuckets::start_on_device(const Tensor& gradients) const {
  cuda::require_persistent(gradients.raw(), gradients.bytes(), "a bucket of gradients");
  DeviceCollectives& devices = processes_.on_device();
  const DType wire = wire_of(gradients, options_.wire);
  if (options_.shards == nullptr) return devices.all_reduce(gradients, ReduceOp::kSum, wire);
  const Tensor rows = rows_of(gradients, processes_.size());
  devices.reduce_scatter(rows, rows.select(processes_.rank()), ReduceOp::kSum, wire);
}

void GradientBuckets::finish_pass(bool is_last) {
  if (!is_last) return;
  order_->finish();
  if (dry_run()) return;
  if (on_device_) return cuda::wait_for(cuda::Queue::kCompute, cuda::Queue::kCommunication);
  for (Communicator::Pending& one : std::exchange(pending_, {})) processes_.finish(one);
}

}  // namespace moh
