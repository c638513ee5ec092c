#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <vector>

#include "autograd/between_ops.h"
#include "autograd/variable.h"
#include "train/trainer/optim/parameter_shards.h"
#include "train/trainer/run/parameter_values.h"

namespace moh {

/// Parameters of which each process keeps its own elements alone (ZeRO stage 3, arXiv 1910.02054). Where one
/// is read, its bucket is gathered from all processes, and the one that the pass before read next, too. The
/// bucket is released when no op is running (BetweenOps of the thread that made this object) and as many
/// further ones have been read. So reading is a collective: all processes read in one order, as their passes,
/// evaluations and files are the same.
///
/// First the values are made: until end_filling() what is written to a bucket is kept when it is released,
/// and all processes write the same.
///
/// Parameters that share memory with others outside of their bucket (the first halves of adapters that are
/// multiplied as one matrix, or a frozen part of packed weights) stay whole, and are gathered at the
/// beginning of each pass.
class ShardedParameters final : public ParameterValues {
 public:
  /// Buckets of whole values that stay while others are read.
  static constexpr std::size_t kKept = 2;

  /// `leaves[i]` is item number i of `shards`, which are divided; `others` are the model's further tensors.
  /// Contents of the leaves are undefined from now on, and their memory is free: late (LateParameters), or
  /// released.
  ShardedParameters(std::shared_ptr<const ParameterShards> shards, const std::vector<Variable>& leaves,
                    std::vector<Tensor> others = {});
  /// Of values that there are: `own` has this process's elements, in the types of the leaves.
  ShardedParameters(std::shared_ptr<const ParameterShards> shards, const std::vector<Variable>& leaves,
                    std::vector<Tensor> others, std::vector<Tensor> own);
  ~ShardedParameters() override = default;

  /// Keeps what has been written to the leaves so far. Before the first pass.
  void end_filling();

  const std::shared_ptr<const ParameterShards>& shards() const { return shards_; }
  const std::vector<Tensor>& others() const { return others_; }
  /// This process's elements, [count] for each leaf, where they stay: those of a gather.
  const std::vector<Tensor>& own() const { return own_; }
  /// Buckets whose values are in memory, or on their way.
  std::size_t gathered() const;

  void prepare_loads() override {}
  void before_pass() override;
  void run_pass(bool is_first, FunctionRef<void()> pass) override;
  void expect_update(std::size_t bucket) override { buckets_[bucket].updated = true; }
  void after_passes() override {}
  void after_update() override {}
  void complete() override { gather_pinned(); }
  void after_reading() override;
  std::unique_ptr<WeightsScope> take_average(const Model& model, const WeightAverage& average) override;

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
    State state = State::kReleased;
    bool written = true;                // false: no value has been written yet
    std::function<void()> finish = {};  // of what is under way
    bool updated = false;               // in this pass
  };

  void make_buckets();
  void let_go(std::size_t bucket, std::size_t block);
  void keep_written(const Block& block) const;
  bool is_there(std::size_t bucket) const;
  void gather_pinned() const;
  void start(std::size_t bucket);
  void finish(std::size_t bucket);
  Tensor read(std::size_t bucket, std::size_t block);
  void begin_order();
  void predict(std::size_t bucket);
  void release(std::size_t bucket);
  void release_read();
  void release_old();
  void plan_memory();

  std::shared_ptr<const ParameterShards> shards_;
  std::vector<Tensor> leaves_, others_;
  std::vector<Tensor> own_;
  std::vector<Tensor> whole_;  // of the items of buckets that are under way, or pinned
  std::vector<Gathered> buckets_;
  std::vector<std::size_t> pinned_;                  // buckets that are never released
  std::deque<std::size_t> kept_;                     // buckets, by their first reading
  std::vector<std::size_t> order_, expected_order_;  // of reading, in this pass and the one before
  bool as_expected_ = false;
  bool in_pass_ = false, filling_ = false;
  Tensor planned_;  // in a dry run
  BetweenOps between_{[this] { release_old(); }};
};

}  // namespace moh
