#pragma once

#include <string>

#include "train/comm/communicator.h"
#include "train/comm/device_collectives.h"

namespace moh {

/// Collectives on GPU tensors that are copied to host memory, combined there by the processes' Communicator,
/// and copied back: for processes that share a GPU, and machines without NCCL. Each waits for both queues,
/// so nothing is hidden behind computing. Sums are made in the order of the ranks.
class StagedCollectives final : public DeviceCollectives {
 public:
  /// `processes` must outlive this object.
  explicit StagedCollectives(Communicator& processes);
  ~StagedCollectives() override;

  std::string description() const override;
  bool capturable() const override { return false; }
  void barrier() override;
  void check() override {}
  void abort() noexcept override {}
  void leave() override {}

 private:
  void do_all_reduce(const Tensor& values, ReduceOp op, DType wire) override;
  void do_reduce_scatter(const Tensor& rows, const Tensor& part, ReduceOp op, DType wire) override;
  void do_all_gather(const Tensor& part, const Tensor& rows) override;
  void do_broadcast(const Tensor& values, int root) override;

  Communicator& processes_;
};

}  // namespace moh
