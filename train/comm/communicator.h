#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <future>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/reduce_op.h"
#include "core/tensor.h"

namespace moh {

class DeviceCollectives;

/// A collective that has finished, and when it ran, waiting for the other processes included.
struct Collective {
  std::string_view name;  ///< "all-reduce"
  std::size_t bytes;      ///< of this process's operand
  double begin, end;      ///< steady_seconds()
};

/// The processes of a run: N of them, numbered by their rank from 0. They call the same collectives, with
/// equal shapes and types, in the same order; each call is from one thread at a time.
///
/// Tensors are in host memory (of GPUs: on_device()). A collective whose name begins with `start` returns at
/// once and works on a thread of its own, in the order of the calls; its tensors must not be touched before
/// finish(). The others have finished when they return.
///
/// Sums are made in the order of the ranks, in float32 for bfloat16, whatever carries the bytes: a rerun
/// gives the same bits, and so does every process.
///
/// All throw CommError if a process is lost, or does not come within the deadline, or calls another
/// collective, naming it and the number of the collective; PeerError if one has failed.
class Communicator {
 public:
  using Pending = std::future<void>;

  virtual ~Communicator() = default;
  Communicator() = default;
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  virtual int rank() const = 0;
  virtual int size() const = 0;
  /// Rank among the processes of this machine.
  virtual int local_rank() const = 0;
  /// Number of processes of this machine.
  virtual int local_size() const = 0;
  /// Number of processes, this one included, that share its processors, as far as they are not bound to some
  /// of their own.
  virtual int sharing_processors() const = 0;
  /// "Open MPI 4.1.4, 4 processes on 2 hosts": for the log.
  virtual std::string description() const = 0;
  /// The process that writes the run's files and talks to people.
  bool is_rank0() const { return rank() == 0; }
  bool alone() const { return size() == 1; }

  /// The collectives on this process's GPU. There have to be some (open_device_collectives()).
  DeviceCollectives& on_device() const;
  /// For DeviceCollectives, which come and go; null: there are none.
  void set_device(DeviceCollectives* collectives) { device_ = collectives; }
  /// Why the others cannot be reached any more, as far as it is known without asking them; empty if they can.
  /// From any thread.
  virtual std::string trouble() const = 0;

  /// `listener` gets each collective from now on when it has finished, on the thread that runs them; empty:
  /// nobody does. Not while one is under way.
  virtual void set_listener(std::function<void(const Collective&)> listener) = 0;
  /// `listener` gets the begin and end, in steady_seconds(), of each wait for collectives from now on, on the
  /// thread that waits; empty: nobody does.
  void set_wait_listener(std::function<void(double begin, double end)> listener) {
    wait_listener_ = std::move(listener);
  }
  /// Longest wait in one collective for others, in seconds; 0: no limit.
  virtual void set_deadline(double seconds) = 0;

  /// Replaces the elements, in every process, by their sum or maximum over the processes. float32, bfloat16,
  /// float64, int64. With `wire` bfloat16, float32 elements are sent rounded to it, and summed in float32;
  /// the result is rounded, too.
  virtual Pending start_all_reduce(const Tensor& values, ReduceOp op, DType wire) = 0;
  /// Sum or maximum of the rows [N, ...] of all processes: `part` [...], maybe that row itself, gets row
  /// number rank(). `wire` as for all_reduce.
  virtual Pending start_reduce_scatter(const Tensor& rows, const Tensor& part, ReduceOp op, DType wire) = 0;
  /// Row r of `rows` [N, ...] becomes `part` [...] of process r. `part` may be row rank() of `rows`. Any
  /// type.
  virtual Pending start_all_gather(const Tensor& part, const Tensor& rows) = 0;
  /// All processes get the elements of process `root`. Any type.
  virtual Pending start_broadcast(const Tensor& values, int root) = 0;
  /// Returns when all processes have called it.
  virtual void barrier() = 0;
  /// Waits for what was started, and rethrows its error.
  virtual void finish(Pending& pending) = 0;
  /// The time that all calls have waited in this process so far, in seconds.
  virtual double waited_seconds() const = 0;

  void all_reduce(const Tensor& values, ReduceOp op) { run(start_all_reduce(values, op, values.dtype())); }
  void reduce_scatter(const Tensor& rows, const Tensor& part, ReduceOp op) {
    run(start_reduce_scatter(rows, part, op, rows.dtype()));
  }
  void all_gather(const Tensor& part, const Tensor& rows) { run(start_all_gather(part, rows)); }
  void broadcast(const Tensor& values, int root = 0) { run(start_broadcast(values, root)); }
  /// Replaces each number by its sum over the processes.
  void sum(std::span<double> numbers);
  void sum(std::span<std::int64_t> numbers);
  /// The largest of the processes' numbers.
  std::int64_t max(std::int64_t number);
  /// The text of process 0, at most 2^20 bytes of it.
  std::string text_of_rank0(std::string_view text);
  /// The texts of all processes, in the order of the ranks.
  std::vector<std::string> texts_of_all(std::string_view text);

  /// Waits, without a deadline, until all processes are done, and leaves them. No collective follows.
  virtual void leave() = 0;
  /// Tells the others that this process ends with an error: their next collective throws PeerError. Returns
  /// whether process 0 knows of it. After a CommError it does nothing.
  virtual bool report_failure(int exit_code, std::string_view message) = 0;
  /// Leaves after report_failure() or a CommError: as leave(), with a short deadline. If the others do not
  /// come, ends all processes of the run, this one included, with `exit_code`.
  virtual void leave_failed(int exit_code) = 0;
  /// Ends all processes of the run, this one included. From any thread.
  [[noreturn]] virtual void abort(int exit_code) = 0;

 protected:
  /// Tells the listener of a wait.
  void add_wait(double begin, double end) const {
    if (wait_listener_) wait_listener_(begin, end);
  }

 private:
  void run(Pending pending) { finish(pending); }

  DeviceCollectives* device_ = nullptr;
  std::function<void(double begin, double end)> wait_listener_;
};

/// The communicator of a run of one process, whose collectives change nothing.
Communicator& one_process();

/// Process 0 of `size` that are not there, for dry runs (core/dry_run.h): its collectives do nothing.
std::unique_ptr<Communicator> dry_processes(int size);

}  // namespace moh
