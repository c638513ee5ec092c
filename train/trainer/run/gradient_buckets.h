#pragma once

#include <cstddef>
#include <vector>

#include "autograd/variable.h"
#include "train/comm/communicator.h"
#include "train/trainer/optim/parameter_shards.h"

namespace moh {

/// Sums the gradients of a model over the processes of a run, while the backward pass that completes them
/// goes on. They lie in buckets, in the reverse of the order in which the forward pass uses the parameters
/// (bucket_layout()); a bucket is reduced as soon as its last gradient is complete, and those before it are
/// under way: the order is the same in all processes, whatever their backward passes do. What no pass has
/// reached is zero, and reduced in the end.
///
/// Between GPUs, a reduction is enqueued to the communication queue when the gradients of its bucket have
/// been to the compute queue, and finish() has subsequent work of that wait for all of them; the host does
/// not. What the pass and finish() enqueue can be captured (core/cuda/graph.h): a replay needs no calls.
class GradientBuckets {
 public:
  struct Options {
    std::size_t bucket_bytes = std::size_t{4} << 20;
    DType wire = DType::kFloat32;  ///< of float32 gradients; bfloat16 ones are sent as they are
    /// Each process gets the sums of its own elements (ParameterShards) alone, which takes half of the bytes;
    /// the rest of its gradients is of no use after finish().
    bool sharded = false;
  };

  /// `parameters` in the order of the forward pass; those that require no gradient are left out. From now on
  /// their gradients are gathered in the buckets. The communicator must outlive this object.
  GradientBuckets(Communicator& processes, const std::vector<Variable>& parameters, const Options& options);
  ~GradientBuckets();
  GradientBuckets(const GradientBuckets&) = delete;
  GradientBuckets& operator=(const GradientBuckets&) = delete;

  /// Begins a step whose gradients are to be summed: backward passes until the last one only add to them.
  void begin_step();
  /// The next backward pass is the last of the step: a gradient is complete when its hook runs.
  void expect_last_pass();
  /// Starts what is left, and waits for all sums: on a GPU, its compute queue does.
  void finish();

  std::size_t count() const { return buckets_.size(); }

 private:
  struct Filled {
    Tensor gradients;
    std::vector<Variable> leaves;
    std::size_t missing = 0;
  };

  void add_bucket(const Bucket& layout, const std::vector<Variable>& leaves);
  void start_reduction(const Tensor& gradients);
  void start_on_device(const Tensor& gradients) const;
  DType wire_of(const Tensor& gradients) const;
  Tensor rows_of(const Tensor& gradients) const;
  void complete(std::size_t bucket);
  void start_complete_ones();

  Communicator& processes_;
  Options options_;
  bool on_device_ = false;
  std::vector<Filled> buckets_;
  std::size_t started_ = 0;                     // the first ones are under way
  std::vector<Communicator::Pending> pending_;  // on the CPU
  bool last_pass_ = false;
};

}  // namespace moh
