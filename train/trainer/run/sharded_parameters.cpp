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
                                                      const std::vector<Tensor>& leaves) {
  std::vector<std::vector<std::size_t>> blocks;
  for (const std::size_t item : layout.items) {
    const bool follows = !blocks.empty() && leaves[item].shares_storage_with(leaves[blocks.back().back()]);
    if (!follows) blocks.emplace_back();
    blocks.back().push_back(item);
  }
  return blocks;
}

/// The values of the leaves as one tensor; undefined if they are not rows of one.
Tensor values_of(const std::vector<std::size_t>& items, const std::vector<Tensor>& leaves) {
  if (items.size() == 1) return leaves[items.front()];
  std::vector<Tensor> values;
  for (const std::size_t item : items) values.push_back(leaves[item]);
  return joined_rows(values);
}

std::vector<Tensor> values_of(const std::vector<Variable>& leaves) {
  std::vector<Tensor> values;
  for (const Variable& leaf : leaves) values.push_back(leaf.value());
  return values;
}

std::vector<Tensor> own_zeros(const ParameterShards& shards, const std::vector<Variable>& leaves) {
  const MemoryPurposeScope purpose(MemoryPurpose::kParameter);
  std::vector<Tensor> parts;
  for (const Bucket& bucket : shards.buckets()) {
    const Tensor& first = leaves[bucket.items.front()].value();
    parts.push_back(zeros({bucket.elements / shards.processes().size()}, first.dtype(), first.device()));
  }
  return shards.own_parts(parts);
}

}  // namespace

ShardedParameters::ShardedParameters(std::shared_ptr<const ParameterShards> shards,
                                     const std::vector<Variable>& leaves, std::vector<Tensor> others)
    : ShardedParameters(shards, leaves, std::move(others), own_zeros(*shards, leaves)) {
  filling_ = true;
  for (Gathered& bucket : buckets_) bucket.written = false;
}

ShardedParameters::ShardedParameters(std::shared_ptr<const ParameterShards> shards,
                                     const std::vector<Variable>& leaves, std::vector<Tensor> others,
                                     std::vector<Tensor> own)
    : shards_(std::move(shards)),
      leaves_(values_of(leaves)),
      others_(std::move(others)),
      own_(std::move(own)),
      whole_(leaves.size()) {
  make_buckets();
  for (std::size_t bucket = 0; bucket < buckets_.size(); ++bucket) {
    if (buckets_[bucket].state != Gathered::State::kPinned) {
      for (std::size_t b = 0; b < buckets_[bucket].blocks.size(); ++b) {
        static_cast<void>(buckets_[bucket].blocks[b].values.raw());  // late no more
        let_go(bucket, b);
      }
      continue;
    }
    pinned_.push_back(bucket);
    for (const std::size_t item : shards_->buckets()[bucket].items) whole_[item] = leaves_[item];
  }
}

void ShardedParameters::make_buckets() {
  const auto shares_with_others = [&](const std::vector<std::size_t>& items) {
    const Tensor& values = leaves_[items.front()];
    const auto shares = [&](const Tensor& tensor) { return tensor.shares_storage_with(values); };
    return std::ranges::any_of(others_, shares) || std::ranges::count_if(leaves_, shares) > std::ssize(items);
  };
  for (const Bucket& layout : shards_->buckets()) {
    Gathered bucket;
    for (std::vector<std::size_t>& items : items_by_memory(layout, leaves_)) {
      const Tensor values = values_of(items, leaves_);
      if (!values.defined() || shares_with_others(items)) bucket.state = Gathered::State::kPinned;
      bucket.blocks.push_back({values, std::move(items), {}});
    }
    buckets_.push_back(std::move(bucket));
  }
}

/// Frees a block's memory until it is read.
void ShardedParameters::let_go(std::size_t bucket, std::size_t block) {
  buckets_[bucket].blocks[block].values.release_until_read(
      [this, bucket, block] { return read(bucket, block); });
}

/// Keeps this process's elements of values that are in memory.
void ShardedParameters::keep_written(const Block& block) const {
  for (const std::size_t item : block.items)
    own_[item].copy_from(shards_->own_part(item, leaves_[item]).reshape(own_[item].shape()));
}

void ShardedParameters::end_filling() {
  release_read();
  for (const std::size_t bucket : pinned_) {
    for (const Block& block : buckets_[bucket].blocks) keep_written(block);
  }
  filling_ = false;
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
  MOH_CHECK(!gathered.updated, "a pass reads no parameter after its update");
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
  const bool is_gathered = gathered.written && !dry_run();
  gathered.finish = is_gathered ? shards_->start_gather(bucket, own_, whole_) : std::function<void()>([] {});
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
    predict(bucket);
    finish(bucket);
    kept_.push_back(bucket);
  }
  return std::exchange(gathered.blocks[block].fresh, {});
}

void ShardedParameters::begin_order() {
  order_.clear();
  as_expected_ = true;
}

/// Starts to gather what the pass before read after this bucket. Outside of a pass, what reads the bucket
/// that begins one may be an evaluation's forward pass.
void ShardedParameters::predict(std::size_t bucket) {
  if (filling_) return;
  if (!in_pass_ && !expected_order_.empty() && bucket == expected_order_.front()) begin_order();
  as_expected_ =
      as_expected_ && order_.size() < expected_order_.size() && expected_order_[order_.size()] == bucket;
  order_.push_back(bucket);
  if (!as_expected_ || order_.size() == expected_order_.size()) return;
  const std::size_t next = expected_order_[order_.size()];
  if (buckets_[next].state == Gathered::State::kReleased && !buckets_[next].updated) start(next);
}

void ShardedParameters::release(std::size_t bucket) {
  Gathered& gathered = buckets_[bucket];
  if (gathered.state == Gathered::State::kUnderWay) finish(bucket);
  for (std::size_t b = 0; b < gathered.blocks.size(); ++b) {
    Block& block = gathered.blocks[b];
    if (block.fresh.defined()) {  // nobody has read it
      block.fresh = {};
      continue;
    }
    if (filling_) keep_written(block);
    let_go(bucket, b);
  }
  gathered.written = true;
  gathered.state = Gathered::State::kReleased;
}

void ShardedParameters::release_read() {
  for (std::size_t bucket = 0; bucket < buckets_.size(); ++bucket) {
    if (is_there(bucket)) release(bucket);
  }
  kept_.clear();
}

void ShardedParameters::release_old() {
  for (; kept_.size() > kKept; kept_.pop_front()) release(kept_.front());
}

void ShardedParameters::before_pass() {
  release_read();
  if (dry_run() && !planned_.defined()) plan_memory();
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
  begin_order();
  in_pass_ = true;
  gather_pinned();
  pass();
  release_read();
  in_pass_ = false;
  for (Gathered& bucket : buckets_) bucket.updated = false;
  const bool is_longer = order_.size() >= expected_order_.size();
  if (is_longer || !std::ranges::equal(order_, std::span(expected_order_).first(order_.size())))
    expected_order_ = order_;
}

void ShardedParameters::after_reading() {
  release_read();
  gather_pinned();  // which may have been the average's
}

std::unique_ptr<WeightsScope> ShardedParameters::take_average(const Model&, const WeightAverage& average) {
  release_read();
  std::vector<NamedParameter> own;
  for (std::size_t i = 0; i < own_.size(); ++i) {
    const auto& [name, tensor] = average.trained()[i];
    own.push_back({name, Variable(own_[i].reshape(tensor.shape()))});
  }
  auto scope = std::make_unique<WeightsScope>(own, average.trained());
  gather_pinned();
  return scope;
}

}  // namespace moh
