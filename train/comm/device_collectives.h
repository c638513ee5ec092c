#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "core/function_ref.h"
#include "core/reduce_op.h"
#include "core/tensor.h"

namespace moh {

class CollectiveTimer;
class Communicator;

/// Collectives on tensors of the GPU that this process computes on, beside those of the Communicator, which
/// are on host memory. All processes call the same, with equal shapes and types, in the same order, each from
/// one thread.
///
/// A collective is enqueued to the communication queue (core/cuda/queue.h), and the call returns; a tensor
/// may be touched, or released, when the compute queue has waited for that queue:
///
///     wait_for(Queue::kCommunication, Queue::kCompute);   // what the gradients are made by
///     processes.on_device().all_reduce(gradients, ReduceOp::kSum, DType::kFloat32);
///     wait_for(Queue::kCompute, Queue::kCommunication);   // before they are used
///
/// A rerun gives the same bits, and so does every process.
///
/// Whoever waits for the device (cuda::synchronize(), HostCopy) gets a CommError in place of a result if a
/// process is lost, stuck, or calls something else. Then nothing can be sent any more.
class DeviceCollectives {
 public:
  virtual ~DeviceCollectives() = default;
  DeviceCollectives() = default;
  DeviceCollectives(const DeviceCollectives&) = delete;
  DeviceCollectives& operator=(const DeviceCollectives&) = delete;

  /// "NCCL 2.28.9 (Ring,Tree)": for the log.
  virtual std::string description() const = 0;
  /// Whether calls can be part of a capture (core/cuda/graph.h). Else the host waits in each of them.
  virtual bool capturable() const = 0;

  /// As the Communicator's: float32, bfloat16, float64, int64; with `wire` bfloat16, float32 elements are
  /// sent rounded to it, summed in float32 in the order of the ranks, and the sum is rounded, too. The order
  /// of other sums is that of what carries them.
  void all_reduce(const Tensor& values, ReduceOp op, DType wire);
  /// `rows` [N, ...], `part` [...] maybe row number rank of them.
  void reduce_scatter(const Tensor& rows, const Tensor& part, ReduceOp op, DType wire);
  /// `part` [...] maybe row number rank of `rows` [N, ...]. Any type.
  void all_gather(const Tensor& part, const Tensor& rows);
  /// all_gather() and all_reduce() of what the compute queue has made, which waits for them (fork and join).
  void all_gather_in_line(const Tensor& part, const Tensor& rows);
  void all_reduce_in_line(const Tensor& values, ReduceOp op);
  /// Any type.
  void broadcast(const Tensor& values, int root = 0);
  /// Subsequent work of the communication queue begins when that of all processes has come here.
  virtual void barrier() = 0;

  /// Throws CommError, naming a rank and both calls, unless all processes have made the same calls so far.
  /// A collective on the host: called before the host waits for calls that may never end.
  void require_same_calls(Communicator& processes);
  /// Throws the CommError of collectives that have failed.
  virtual void check() = 0;
  /// Ends what is under way on the device; for a process that has failed. Returns at once. From any thread.
  virtual void abort() noexcept = 0;
  /// Waits for the end of an abort, a few seconds at most. Captured calls are gone by then, or it does not
  /// end; their memory may be released after it.
  virtual void wait_for_abort() noexcept {}
  /// All processes leave, when everything has ended. No collective follows, and captured calls are gone.
  virtual void leave() = 0;

  /// From now on `timer` times the calls, which are in no capture; null: nobody does.
  void set_timer(CollectiveTimer* timer) { timer_ = timer; }
  /// Number of calls so far; those of a capture count once.
  std::int64_t calls() const { return calls_; }
  /// "all-reduce of 4096 elements of float32": the last one.
  const std::string& last_call() const { return last_call_; }

 protected:
  virtual void do_all_reduce(const Tensor& values, ReduceOp op, DType wire) = 0;
  virtual void do_reduce_scatter(const Tensor& rows, const Tensor& part, ReduceOp op, DType wire) = 0;
  virtual void do_all_gather(const Tensor& part, const Tensor& rows) = 0;
  virtual void do_broadcast(const Tensor& values, int root) = 0;

 private:
  void call(std::string_view name, const Tensor& values, DType wire, int detail, FunctionRef<void()> work);

  std::int64_t calls_ = 0, compared_ = 0;
  std::uint64_t digest_ = 0;  // of all calls
  std::string last_call_;
  CollectiveTimer* timer_ = nullptr;
};

/// Ends the collectives of the device when it is left by an exception: then other processes may never come
/// to them, and whatever releases memory of the device would wait for it. `release_captures`, which does not
/// throw, destroys the graphs that calls were captured in, without which the abort has no end.
class AbortOnFailure {
 public:
  explicit AbortOnFailure(
      DeviceCollectives& collectives, std::function<void()> release_captures = [] {});
  ~AbortOnFailure();
  AbortOnFailure(const AbortOnFailure&) = delete;
  AbortOnFailure& operator=(const AbortOnFailure&) = delete;

 private:
  DeviceCollectives& collectives_;
  std::function<void()> release_captures_;
  int exceptions_;
};

}  // namespace moh
