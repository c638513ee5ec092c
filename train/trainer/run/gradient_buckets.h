#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "autograd/variable.h"
#include "train/comm/communicator.h"
#include "train/trainer/optim/parameter_shards.h"
#include "train/trainer/run/gradient_sums.h"
#include "train/trainer/run/reduction_order.h"

namespace moh {

/// Sums of whole gradients, which lie in buckets, in the reverse of the order in which the forward pass uses
/// the parameters (bucket_layout()). Backward passes add to them, and the last one of a step has the buckets
/// reduced while it goes on (ReductionOrder).
///
/// Between GPUs, a reduction is enqueued to the communication queue when the gradients of its bucket have
/// been to the compute queue, and the end of the last pass has subsequent work of that wait for all of them;
/// the host does not.
class GradientBuckets final : public GradientSums {
 public:
  struct Options {
    std::size_t bucket_bytes = std::size_t{4} << 20;
    DType wire = DType::kFloat32;  ///< of float32 gradients; bfloat16 ones are sent as they are
    /// If there are some, each process gets the sums of its own elements alone, which takes half of the
    /// bytes; the rest of its gradients is of no use after the last pass. Their items are the parameters that
    /// require a gradient, and the buckets theirs.
    const ParameterShards* shards = nullptr;
  };

  /// `parameters` in the order of the forward pass; those that require no gradient are left out. From now on
  /// their gradients are gathered in the buckets. The communicator must outlive this object.
  GradientBuckets(Communicator& processes, const std::vector<Variable>& parameters, const Options& options);

  void begin_step() override;
  void expect_pass(bool is_last) override;
  void finish_pass(bool is_last) override;

  std::size_t count() const { return gradients_.size(); }

 private:
  std::vector<Variable> add_bucket(const Bucket& layout, const std::vector<Variable>& leaves);
  void start(std::size_t begin, std::size_t end);
  void start_on_host(const Tensor& gradients);
  void start_on_device(const Tensor& gradients) const;

  Communicator& processes_;
  Options options_;
  bool on_device_ = false;
  std::vector<Tensor> gradients_;  // by bucket
  std::optional<ReductionOrder> order_;
  std::vector<Communicator::Pending> pending_;  // on the CPU
};

}  // namespace moh
