#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "autograd/variable.h"
#include "train/comm/communicator.h"
#include "train/trainer/optim/parameter_shards.h"
#include "train/trainer/run/gradient_sums.h"
#include "train/trainer/run/reduction_order.h"

namespace moh {

/// Sums of gradients of which each process keeps its own elements alone (ZeRO stage 2, arXiv 1910.02054):
/// every backward pass has its buckets reduced while it goes on (ReductionOrder), and adds the sums to those
/// of the passes before it. Whole gradients are in memory from their first contribution to the end of their
/// bucket's reduction: a few buckets at a time, in blocks that one bucket after the other uses. Two
/// reductions are under way at a time: the pass, or on a GPU its compute queue, waits for the one before
/// them.
///
/// In place of being kept, the sums of a bucket may be handed on when its reduction has ended, for an update
/// within the pass (FusedUpdate): then no sums last, at any stage of ZeRO.
class ShardedGradients final : public GradientSums {
 public:
  /// Gets this process's elements of a bucket's sums, [count] for each of its items, which lie in a block
  /// that another bucket has next: on a GPU, after what the compute queue has got until this returns.
  using Summed = std::function<void(std::size_t bucket, std::span<const Tensor> own)>;

  /// `leaves[i]` is item number i of `shards`, which are divided; `wire` as GradientBuckets has it. From now
  /// on the leaves have their gradients in blocks.
  ShardedGradients(std::shared_ptr<const ParameterShards> shards, const std::vector<Variable>& leaves,
                   DType wire);
  /// Hands the sums on, in the same order in all processes. A step has one pass. `shards` may be undivided:
  /// then each of `processes` gets the sums of all elements.
  ShardedGradients(Communicator& processes, std::shared_ptr<const ParameterShards> shards,
                   const std::vector<Variable>& leaves, DType wire, Summed summed);
  ~ShardedGradients() override;

  /// This process's elements of the sums, [count] for each leaf, where they stay. Not of those that are
  /// handed on.
  std::vector<Tensor> sums() const;
  /// Bytes of the blocks, at most so far.
  std::size_t block_bytes() const;

  void begin_step() override;
  void expect_pass(bool is_last) override;
  void finish_pass(bool is_last) override;

 private:
  struct Block;
  struct Filled {
    std::int64_t elements = 0;
    DType dtype = DType::kFloat32;
    Tensor sum;              // [elements / N], unless it is handed on
    Block* block = nullptr;  // of the gradients that a pass makes
  };

  Tensor place(std::size_t bucket, std::int64_t begin, const Shape& shape);
  Block& take(std::int64_t elements, DType dtype);
  Block& add_block(std::int64_t elements, DType dtype);
  void start(std::size_t begin, std::size_t end);
  void start(std::size_t bucket);
  void start_on_host(Block& block);
  void start_on_device(const Block& block);
  Tensor own_of(const Block& block) const;
  Tensor place_of_sum(const Block& block) const;
  void end_oldest();
  void wait_for(Block& block);

  std::shared_ptr<const ParameterShards> shards_;
  Communicator& processes_;
  DType wire_;
  Summed summed_;
  Device device_ = kCpu;
  std::vector<Filled> buckets_;
  std::vector<std::unique_ptr<Block>> blocks_;
  std::deque<Block*> under_way_;  // the oldest first
  std::optional<ReductionOrder> order_;
  bool adds_ = false;  // to the sums of earlier passes of the step
};

}  // namespace moh
