#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "autograd/variable.h"
#include "train/trainer/optim/parameter_shards.h"
#include "train/trainer/run/parameter_values.h"

namespace moh {

/// Parameters of which each process keeps its own elements alone (ZeRO stage 3, arXiv 1910.02054). Where an
/// op reads a parameter in a pass, its bucket is gathered from all processes, and the one that the pass
/// before read next, too. The bucket is released when no op is running and as many further ones have been
/// read.
///
/// Parameters that share memory with others outside of their bucket (the first halves of adapters that are
/// multiplied as one matrix, or a frozen part of packed weights) stay whole, and are gathered at the
/// beginning of each pass.
///
/// Reading is a collective, so all processes read in one order: a pass runs the same ops in each. After
/// complete() all values are there, and any process may read any of them, until the next step.
class ShardedParameters final : public ParameterValues {
 public:
  /// Buckets of whole values that stay while others are read.
  static constexpr std::size_t kKept = 2;

  /// `leaves[i]` is item number i of `shards`, which are divided; `others` are the model's further tensors.
  /// Whole values are released at the beginning of the first pass.
  ShardedParameters(std::shared_ptr<const ParameterShards> shards, const std::vector<Variable>& leaves,
                    std::span<const Tensor> others = {});

  /// This process's elements, [count] for each leaf, where they stay: those of a gather.
  const std::vector<Tensor>& own() const { return own_; }
  /// Buckets whose values are in memory, or on their way.
  std::size_t gathered() const;

  void prepare_loads() override {}
  void before_pass() override;
  void run_pass(bool is_first, FunctionRef<void()> pass) override;
  void after_passes() override {}
  void after_update() override {}
  void complete() override;

 private:
  /// Leaves that share memory, which is released with all of them.
  struct Block {
    Tensor values;
    std::vector<std::size_t> items;
    Tensor fresh;  // gathered values, until they are read
  };
  struct Gathered {
    enum class State : std::uint8_t { kReleased, kUnderWay, kWhole, kPinned };
    std::vector<Block> blocks;
    State state = State::kWhole;
    std::function<void()> finish = {};  // of what is under way
  };

  bool is_there(std::size_t bucket) const;
  void gather_pinned() const;
  void start(std::size_t bucket);
  void finish(std::size_t bucket);
  Tensor read(std::size_t bucket, std::size_t block);
  void predict(std::size_t bucket);
  void release(std::size_t bucket);
  void release_all();
  void release_old();
  void plan_memory();

  std::shared_ptr<const ParameterShards> shards_;
  std::vector<Tensor> own_;
  std::vector<Tensor> whole_;  // of the items of buckets that are under way, or pinned
  std::vector<Gathered> buckets_;
  std::vector<std::size_t> pinned_;                  // buckets that are never released
  std::deque<std::size_t> kept_;                     // buckets, by their first reading
  std::vector<std::size_t> order_, expected_order_;  // of reading, in this pass and the one before
  bool as_expected_ = false;
  bool complete_ = true;
  Tensor planned_;  // in a dry run
};

}  // namespace moh
