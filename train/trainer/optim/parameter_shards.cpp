#include "train/trainer/optim/parameter_shards.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <utility>

#include "core/cuda/queue.h"
#include "core/error.h"
#include "train/comm/device_collectives.h"

namespace moh {

namespace {

constexpr std::int64_t kAlignment = 16;  // elements: 64 bytes of float32, a cache line

std::int64_t padded(std::int64_t elements, std::int64_t unit) {
  return (elements + unit - 1) / unit * unit;
}

/// Copies `count` elements of one dtype, from number `from_begin` to number `to_begin`.
void copy_elements(const Tensor& to, std::int64_t to_begin, const Tensor& from, std::int64_t from_begin,
                   std::int64_t count) {
  MOH_CHECK(to.dtype() == from.dtype(), "gather: one dtype");
  const auto elements = [count](const Tensor& tensor, std::int64_t begin) {
    return tensor.reshape({tensor.numel()}).slice(begin, begin + count);
  };
  if (count > 0) elements(to, to_begin).copy_from(elements(from, from_begin));
}

}  // namespace

std::vector<Bucket> bucket_layout(std::span<const BucketItem> items, std::size_t bytes, std::int64_t parts) {
  std::vector<Bucket> buckets;
  Bucket bucket;
  const auto close = [&] {
    if (bucket.items.empty()) return;
    if (parts > 1) bucket.elements = padded(bucket.elements, parts * kAlignment);
    buckets.push_back(std::exchange(bucket, {}));
  };
  for (std::size_t i = items.size(); i-- > 0;) {
    if (!bucket.items.empty() && items[bucket.items.back()].dtype != items[i].dtype) close();
    bucket.items.push_back(i);
    bucket.elements += items[i].elements;
    if (static_cast<std::size_t>(bucket.elements) * dtype_size(DType::kFloat32) >= bytes) close();
  }
  close();
  return buckets;
}

ParameterShards::ParameterShards(std::vector<BucketItem> items, std::size_t bucket_bytes,
                                 Communicator& processes)
    : items_(std::move(items)),
      processes_(processes),
      buckets_(bucket_layout(items_, bucket_bytes, processes.size())),
      own_(items_.size()) {
  for (const Bucket& bucket : buckets_) {
    const std::int64_t part = bucket.elements / processes.size(), first = part * processes.rank();
    std::int64_t begin = 0;
    for (const std::size_t i : bucket.items) {
      const std::int64_t elements = items_[i].elements;
      own_[i] = {std::clamp<std::int64_t>(first - begin, 0, elements),
                 std::clamp<std::int64_t>(first + part - begin, 0, elements)};
      begin += elements;
    }
  }
}

Tensor ParameterShards::own_part(std::size_t index, const Tensor& whole) const {
  if (!divided()) return whole;
  return whole.reshape({whole.numel()}).slice(own_[index].begin, own_[index].end);
}

double ParameterShards::norm_of_all(double own) const {
  if (!divided()) return own;
  const Tensor squares = tensor_of<double>({1}, {own * own});
  processes_.all_reduce(squares, ReduceOp::kSum);
  return std::sqrt(squares.item());
}

std::function<Tensor(const Tensor& own)> ParameterShards::squares_of_all() const {
  if (!divided()) return {};
  return [this](const Tensor& own) {
    const Tensor rows = empty({processes_.size(), own.numel()}, own.dtype(), own.device());
    processes_.on_device().all_gather_in_line(own, rows);
    return rows.reshape({rows.numel()});
  };
}

/// A bucket whose parts are under way.
struct ParameterShards::Sent {
  Communicator* processes;
  Tensor rows;
  std::vector<Tensor> whole;      // of the bucket's items
  Communicator::Pending pending;  // of main memory

  void finish() {
    if (rows.device() == kCpu)
      processes->finish(pending);
    else
      cuda::wait_for(cuda::Queue::kCompute, cuda::Queue::kCommunication);
    std::int64_t begin = 0;
    for (const Tensor& tensor : whole) {
      copy_elements(tensor, 0, rows, begin, tensor.numel());
      begin += tensor.numel();
    }
  }
};

ParameterShards::Sent ParameterShards::start(const Bucket& bucket, std::span<const Tensor> own,
                                             std::span<const Tensor> whole) const {
  const Tensor& first = own[bucket.items.front()];
  const std::int64_t part = bucket.elements / processes_.size();
  const MemoryPurposeScope purpose(MemoryPurpose::kWorkspace);
  const Tensor rows = zeros({processes_.size(), part}, first.dtype(), first.device());
  const Tensor mine = rows.select(processes_.rank());
  std::vector<Tensor> items;
  std::int64_t place = 0;
  for (const std::size_t i : bucket.items) {
    copy_elements(mine, place, own[i], 0, own_[i].count());
    place += own_[i].count();
    items.push_back(whole[i]);
  }
  Sent sent{&processes_, rows, std::move(items), {}};
  if (rows.device() == kCpu) {
    sent.pending = processes_.start_all_gather(mine, rows);
  } else {
    cuda::wait_for(cuda::Queue::kCommunication, cuda::Queue::kCompute);
    processes_.on_device().all_gather(mine, rows);
  }
  return sent;
}

void ParameterShards::gather(std::span<const Tensor> own, std::span<const Tensor> whole) const {
  std::optional<Sent> before;
  for (auto bucket = buckets_.rbegin(); bucket != buckets_.rend(); ++bucket) {
    Sent next = start(*bucket, own, whole);
    if (before) before->finish();
    before.emplace(std::move(next));
  }
  if (before) before->finish();
}

std::function<void()> ParameterShards::start_gather(std::size_t bucket, std::span<const Tensor> own,
                                                    std::span<const Tensor> whole) const {
  const auto sent = std::make_shared<Sent>(start(buckets_[bucket], own, whole));
  return [sent] { sent->finish(); };
}

}  // namespace moh
