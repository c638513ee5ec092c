#include "train/trainer/run/sharded_gradients.h"

#include <algorithm>
#include <utility>

#include "core/cuda/backend.h"
#include "core/cuda/queue.h"
#include "core/dry_run.h"
#include "core/error.h"
#include "train/comm/device_collectives.h"

namespace moh {

namespace {

/// Reductions that are under way before one is waited for.
constexpr std::size_t kUnderWay = 2;

}  // namespace

/// Memory of whole gradients. It is free, or a bucket's, whose reduction may be under way.
struct ShardedGradients::Block {
  enum class State : std::uint8_t { kFree, kFilled, kUnderWay };

  Tensor memory;  // [elements]
  State state = State::kFree;
  std::size_t bucket = 0;              // whose reduction is under way
  Tensor gradients;                    // of that, in the memory
  Communicator::Pending pending = {};  // of main memory
  void* reduced = nullptr;             // a GPU's event after it

  explicit Block(Tensor of) : memory(std::move(of)) {
    if (memory.device() != kCpu && !dry_run()) reduced = cuda::create_event();
  }
  ~Block() {
    if (reduced != nullptr) cuda::destroy_event(reduced);
  }
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;
};

ShardedGradients::ShardedGradients(std::shared_ptr<const ParameterShards> shards,
                                   const std::vector<Variable>& leaves, DType wire)
    : ShardedGradients(shards->processes(), shards, leaves, wire, {}) {}

ShardedGradients::ShardedGradients(Communicator& processes, std::shared_ptr<const ParameterShards> shards,
                                   const std::vector<Variable>& leaves, DType wire, Summed summed)
    : shards_(std::move(shards)), processes_(processes), wire_(wire), summed_(std::move(summed)) {
  if (!leaves.empty()) device_ = leaves.front().device();
  std::vector<std::vector<Variable>> of_buckets;
  for (const Bucket& layout : shards_->buckets()) {
    const std::size_t bucket = buckets_.size();
    const DType dtype = leaves[layout.items.front()].grad_dtype();
    buckets_.push_back({layout.elements, dtype, {}});
    if (!summed_) buckets_.back().sum = lasting_zeros(layout.elements / processes_.size(), dtype, device_);
    of_buckets.emplace_back();
    for (std::size_t i = 0; i < layout.items.size(); ++i) {
      Variable leaf = leaves[layout.items[i]];
      leaf.zero_grad();
      leaf.keep_gradient_in([this, bucket, begin = layout.begins[i], shape = leaf.shape()] {
        return place(bucket, begin, shape);
      });
      of_buckets.back().push_back(std::move(leaf));
    }
  }
  order_.emplace(std::move(of_buckets), [this](std::size_t begin, std::size_t end) { start(begin, end); });
}

ShardedGradients::~ShardedGradients() {
  for (std::size_t bucket = 0; bucket < buckets_.size(); ++bucket) {
    for (Variable& leaf : order_->leaves(bucket)) leaf.keep_gradient_in(std::function<Tensor()>());
  }
}

std::vector<Tensor> ShardedGradients::sums() const {
  MOH_CHECK(!summed_, "sums that are handed on are not kept");
  std::vector<Tensor> of_buckets;
  for (const Filled& bucket : buckets_) of_buckets.push_back(bucket.sum);
  return shards_->own_parts(of_buckets);
}

std::size_t ShardedGradients::block_bytes() const {
  std::size_t bytes = 0;
  for (const std::unique_ptr<Block>& block : blocks_) bytes += block->memory.bytes();
  return bytes;
}

void ShardedGradients::begin_step() {
  MOH_CHECK(under_way_.empty(), "finish_pass() comes first");
  adds_ = false;
}

void ShardedGradients::expect_pass(bool) {
  MOH_CHECK(!summed_ || !adds_, "sums that are handed on are those of one pass");
  order_->begin();
}

/// Where the gradient of a leaf begins, at element `begin` of its bucket.
Tensor ShardedGradients::place(std::size_t bucket, std::int64_t begin, const Shape& shape) {
  Filled& filled = buckets_[bucket];
  if (filled.block == nullptr) filled.block = &take(filled.elements, filled.dtype);
  return filled.block->memory.slice(begin, begin + shape.numel()).reshape(shape);
}

/// The smallest free block for so many elements, but none of far more, which a larger bucket needs; else a
/// new one.
ShardedGradients::Block& ShardedGradients::take(std::int64_t elements, DType dtype) {
  Block* found = nullptr;
  for (const std::unique_ptr<Block>& block : blocks_) {
    const std::int64_t size = block->memory.numel();
    const bool fits = block->memory.dtype() == dtype && size >= elements && size <= 2 * elements;
    if (!fits || block->state != Block::State::kFree) continue;
    if (found == nullptr || size < found->memory.numel()) found = block.get();
  }
  if (found == nullptr) found = &add_block(elements, dtype);
  found->state = Block::State::kFilled;
  return *found;
}

/// A block for buckets of the size, and for those that are a little larger.
ShardedGradients::Block& ShardedGradients::add_block(std::int64_t elements, DType dtype) {
  const std::int64_t most = elements + elements / 4;
  for (const Filled& bucket : buckets_) {
    if (bucket.dtype == dtype && bucket.elements <= most) elements = std::max(elements, bucket.elements);
  }
  blocks_.push_back(std::make_unique<Block>(lasting_zeros(elements, dtype, device_)));
  return *blocks_.back();
}

void ShardedGradients::start(std::size_t begin, std::size_t end) {
  if (device_ != kCpu && !dry_run()) cuda::wait_for(cuda::Queue::kCommunication, cuda::Queue::kCompute);
  for (std::size_t bucket = begin; bucket < end; ++bucket) start(bucket);
}

void ShardedGradients::start(std::size_t bucket) {
  Filled& filled = buckets_[bucket];
  Block& block = *std::exchange(filled.block, nullptr);
  for (Variable& leaf : order_->leaves(bucket)) leaf.zero_grad();
  block.state = Block::State::kUnderWay;
  block.bucket = bucket;
  block.gradients = block.memory.slice(0, filled.elements);
  while (under_way_.size() >= kUnderWay) end_oldest();
  under_way_.push_back(&block);
  if (!dry_run()) device_ == kCpu ? start_on_host(block) : start_on_device(block);
}

void ShardedGradients::start_on_host(Block& block) {
  const DType wire = wire_of(block.gradients, wire_);
  if (!shards_->divided()) {
    block.pending = processes_.start_all_reduce(block.gradients, ReduceOp::kSum, wire);
    return;
  }
  const Tensor rows = rows_of(block.gradients, processes_.size());
  block.pending = processes_.start_reduce_scatter(rows, place_of_sum(block), ReduceOp::kSum, wire);
}

void ShardedGradients::start_on_device(const Block& block) {
  using cuda::Queue;
  const DType wire = wire_of(block.gradients, wire_);
  DeviceCollectives& devices = processes_.on_device();
  if (shards_->divided()) {
    const Tensor rows = rows_of(block.gradients, processes_.size());
    devices.reduce_scatter(rows, place_of_sum(block), ReduceOp::kSum, wire);
  } else {
    devices.all_reduce(block.gradients, ReduceOp::kSum, wire);
  }
  if (adds_) {
    const cuda::QueueScope queue(Queue::kCommunication);
    buckets_[block.bucket].sum.add(own_of(block));
  }
  cuda::record_event(block.reduced, Queue::kCommunication);
}

/// This process's elements of the gradients.
Tensor ShardedGradients::own_of(const Block& block) const {
  if (!shards_->divided()) return block.gradients;
  return rows_of(block.gradients, processes_.size()).select(processes_.rank());
}

/// Where a reduce-scatter leaves them: in the block, if they are added to others, or handed on.
Tensor ShardedGradients::place_of_sum(const Block& block) const {
  return adds_ || summed_ ? own_of(block) : buckets_[block.bucket].sum;
}

/// The block whose reduction is the oldest is free: on a GPU, for subsequent work of the compute queue.
void ShardedGradients::end_oldest() {
  Block& block = *under_way_.front();
  under_way_.pop_front();
  if (!dry_run()) wait_for(block);
  if (summed_) summed_(block.bucket, shards_->own_parts(block.bucket, own_of(block)));
  block.gradients = {};
  block.state = Block::State::kFree;
}

void ShardedGradients::wait_for(Block& block) {
  if (device_ != kCpu) return cuda::wait_for(cuda::Queue::kCompute, block.reduced);
  processes_.finish(block.pending);
  if (adds_) buckets_[block.bucket].sum.add(own_of(block));
}

void ShardedGradients::finish_pass(bool) {
  order_->finish();
  while (!under_way_.empty()) end_oldest();
  adds_ = true;
}

}  // namespace moh
