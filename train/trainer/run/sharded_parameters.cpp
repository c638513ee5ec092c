#include "train/trainer/run/sharded_parameters.h"

#include <algorithm>
#include <utility>

#include "autograd/between_ops.h"
#include "core/dry_run.h"
#include "core/error.h"

namespace moh {

namespace {

/// The leaves of a bucket, where one shares memory with the one before it together with that.
std::vector<std::vector<std::size_t>> items_by_memory(const Bucket& layout,
                                                      const std::vector<Variable>& leaves) {
  std::vector<std::vector<std::size_t>> blocks;
  for (const std::size_t item : layout.items) {
    const bool follows =
        !blocks.empty() && leaves[item].value().shares_storage_with(leaves[blocks.back().back()].value());
    if (!follows) blocks.emplace_back();
    blocks.back().push_back(item);
  }
  return blocks;
}

/// The values of the leaves as one tensor; undefined if they are not rows of one.
Tensor values_of(const std::vector<std::size_t>& items, const std::vector<Variable>& leaves) {
  if (items.size() == 1) return leaves[items.front()].value();
  std::vector<Tensor> values;
  for (const std::size_t item : items) values.push_back(leaves[item].value());
  return joined_rows(values);
}

}  // namespace

ShardedParameters::ShardedParameters(std::shared_ptr<const ParameterShards> shards,
                                     const std::vector<Variable>& leaves, std::span<const Tensor> others)
    : shards_(std::move(shards)), whole_(leaves.size()) {
  const MemoryPurposeScope purpose(MemoryPurpose::kParameter);
  const auto shares_with_others = [&](const std::vector<std::size_t>& items) {
    const Tensor& values = leaves[items.front()].value();
    const auto shares = [&](const Tensor& tensor) { return tensor.shares_storage_with(values); };
    return std::ranges::any_of(others, shares) || std::ranges::count_if(leaves, [&](const Variable& leaf) {
                                                    return shares(leaf.value());
                                                  }) > std::ssize(items);
  };
  std::vector<Tensor> parts;
  for (const Bucket& layout : shards_->buckets()) {
    const Tensor& first = leaves[layout.items.front()].value();
    parts.push_back(zeros({layout.elements / shards_->processes().size()}, first.dtype(), first.device()));
    Gathered bucket;
    for (std::vector<std::size_t>& items : items_by_memory(layout, leaves)) {
      const Tensor values = values_of(items, leaves);
      if (!values.defined() || shares_with_others(items)) bucket.state = Gathered::State::kPinned;
      bucket.blocks.push_back({values, std::move(items), {}});
    }
    if (bucket.state == Gathered::State::kPinned) pinned_.push_back(buckets_.size());
    buckets_.push_back(std::move(bucket));
  }
  own_ = shards_->own_parts(parts);
  for (std::size_t i = 0; i < leaves.size(); ++i)
    own_[i].copy_from(shards_->own_part(i, leaves[i].value()).reshape(own_[i].shape()));
  for (const std::size_t bucket : pinned_) {
    for (const std::size_t item : shards_->buckets()[bucket].items) whole_[item] = leaves[item].value();
  }
}

bool ShardedParameters::is_there(std::size_t bucket) const {
  const Gathered::State state = buckets_[bucket].state;
  return state == Gathered::State::kUnderWay || state == Gathered::State::kWhole;
}

std::size_t ShardedParameters::gathered() const {
  std::size_t count = 0;
  for (std::size_t bucket = 0; bucket < buckets_.size(); ++bucket) count += is_there(bucket) ? 1 : 0;
  return count;
}

void ShardedParameters::gather_pinned() const {
  if (dry_run()) return;
  for (const std::size_t bucket : pinned_) shards_->start_gather(bucket, own_, whole_)();
}

/// Starts to gather a bucket, into memory for its blocks.
void ShardedParameters::start(std::size_t bucket) {
  const MemoryPurposeScope purpose(MemoryPurpose::kParameter);
  Gathered& gathered = buckets_[bucket];
  for (Block& block : gathered.blocks) {
    block.fresh = empty(block.values.shape(), block.values.dtype(), block.values.device());
    const Tensor elements = block.fresh.reshape({block.fresh.numel()});
    std::int64_t begin = 0;
    for (const std::size_t item : block.items) {
      const std::int64_t end = begin + shards_->items()[item].elements;
      whole_[item] = elements.slice(begin, end);
      begin = end;
    }
  }
  gathered.finish = dry_run() ? std::function<void()>([] {}) : shards_->start_gather(bucket, own_, whole_);
  gathered.state = Gathered::State::kUnderWay;
}

void ShardedParameters::finish(std::size_t bucket) {
  Gathered& gathered = buckets_[bucket];
  std::exchange(gathered.finish, {})();
  for (const Block& block : gathered.blocks) {
    for (const std::size_t item : block.items) whole_[item] = {};
  }
  gathered.state = Gathered::State::kWhole;
}

/// The values of a block that an op reads.
Tensor ShardedParameters::read(std::size_t bucket, std::size_t block) {
  Gathered& gathered = buckets_[bucket];
  if (gathered.state != Gathered::State::kWhole) {
    if (gathered.state == Gathered::State::kReleased) start(bucket);
    if (!complete_) predict(bucket);
    finish(bucket);
    kept_.push_back(bucket);
  }
  return std::exchange(gathered.blocks[block].fresh, {});
}

/// Starts to gather what the pass before read after this bucket.
void ShardedParameters::predict(std::size_t bucket) {
  as_expected_ =
      as_expected_ && order_.size() < expected_order_.size() && expected_order_[order_.size()] == bucket;
  order_.push_back(bucket);
  if (!as_expected_ || order_.size() == expected_order_.size()) return;
  const std::size_t next = expected_order_[order_.size()];
  if (buckets_[next].state == Gathered::State::kReleased) start(next);
}

void ShardedParameters::release(std::size_t bucket) {
  Gathered& gathered = buckets_[bucket];
  if (gathered.state == Gathered::State::kUnderWay) finish(bucket);
  for (std::size_t b = 0; b < gathered.blocks.size(); ++b) {
    Block& block = gathered.blocks[b];
    if (block.fresh.defined())
      block.fresh = {};  // nobody has read it
    else
      block.values.release_until_read([this, bucket, b] { return read(bucket, b); });
  }
  gathered.state = Gathered::State::kReleased;
}

void ShardedParameters::release_all() {
  for (std::size_t bucket = 0; bucket < buckets_.size(); ++bucket) {
    if (is_there(bucket)) release(bucket);
  }
  kept_.clear();
}

void ShardedParameters::release_old() {
  for (; kept_.size() > kKept; kept_.pop_front()) release(kept_.front());
}

void ShardedParameters::before_pass() {
  if (!std::exchange(complete_, false)) return;
  release_all();
  if (dry_run()) plan_memory();
}

/// Memory that a dry run does not come to: rows of two gathers, of the largest bucket's size.
void ShardedParameters::plan_memory() {
  constexpr std::int64_t kBuckets = 2;
  std::int64_t largest = 0;
  for (const Gathered& bucket : buckets_) {
    std::int64_t bytes = 0;
    if (bucket.state == Gathered::State::kPinned) continue;
    for (const Block& block : bucket.blocks) bytes += static_cast<std::int64_t>(block.values.bytes());
    largest = std::max(largest, bytes);
  }
  const MemoryPurposeScope purpose(MemoryPurpose::kWorkspace);
  planned_ = empty({kBuckets * largest}, DType::kUInt8, own_.front().device());
}

void ShardedParameters::run_pass(bool, FunctionRef<void()> pass) {
  order_.clear();
  as_expected_ = true;
  gather_pinned();
  {
    const BetweenOps between([this] { release_old(); });
    pass();
  }
  release_all();
  const bool is_longer = order_.size() >= expected_order_.size();
  if (is_longer || !std::ranges::equal(order_, std::span(expected_order_).first(order_.size())))
    expected_order_ = order_;
}

void ShardedParameters::complete() {
  if (std::exchange(complete_, true)) return;
  planned_ = {};
  gather_pinned();
  for (std::size_t bucket = buckets_.size(); bucket > 0; --bucket) {
    if (buckets_[bucket - 1].state == Gathered::State::kPinned) continue;
    for (const Block& block : buckets_[bucket - 1].blocks) static_cast<void>(block.values.raw());
  }
  kept_.clear();
}

}  // namespace moh
