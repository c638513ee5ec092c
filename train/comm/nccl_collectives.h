#pragma once

#include <atomic>
#include <exception>
#include <memory>
#include <string>
#include <thread>

#include "core/cuda/nccl_group.h"
#include "core/function_ref.h"
#include "train/comm/collective_memory.h"
#include "train/comm/collective_watchdog.h"
#include "train/comm/communicator.h"
#include "train/comm/device_collectives.h"

namespace moh {

/// NCCL's collectives. What is sent in float32, or needs no rounding, NCCL combines, in an order of its own;
/// bfloat16 is exchanged by it and summed here.
///
/// A watchdog ends them if one takes longer than the deadline, if NCCL reports an error, or if a process is
/// lost. Then each process asks the others on the host what they have done, which names the one that does
/// not answer or is behind.
class NcclCollectives final : public DeviceCollectives {
 public:
  /// Joins the others with the GPU `device`, through `processes`, which must outlive this object. Throws
  /// CommError if they do not come within `deadline` seconds (0: no limit), which also limits each
  /// collective; ConfigError without NCCL.
  NcclCollectives(Communicator& processes, Device device, double deadline);
  ~NcclCollectives() override;

  std::string description() const override;
  bool capturable() const override { return true; }
  void barrier() override;
  void check() override;
  void abort() noexcept override;
  void wait_for_abort() noexcept override;
  void leave() override;

 private:
  void join(double deadline);
  CollectiveWatchdog::Watched watched();
  void run(FunctionRef<void()> collective);
  [[noreturn]] void fail();
  std::string roll_call();
  Tensor exchange_and_sum(const Tensor& values, std::int64_t width);
  void do_all_reduce(const Tensor& values, ReduceOp op, DType wire) override;
  void do_reduce_scatter(const Tensor& rows, const Tensor& part, ReduceOp op, DType wire) override;
  void do_all_gather(const Tensor& part, const Tensor& rows) override;
  void do_broadcast(const Tensor& values, int root) override;

  Communicator& processes_;
  Device device_;
  cuda::NcclGroup group_;
  Tensor token_;                      // of barrier()
  CollectiveMemory sent_, received_;  // bfloat16
  std::exception_ptr failure_;
  std::atomic<bool> aborted_ = false;  // by abort(): captured calls must not be replayed
  bool left_ = false;
  std::thread::id thread_ = std::this_thread::get_id();
  std::unique_ptr<CollectiveWatchdog> watchdog_;
};

}  // namespace moh
