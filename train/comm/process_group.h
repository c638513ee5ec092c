#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>

#include "train/comm/collectives.h"
#include "train/comm/communicator.h"

namespace moh {

/// A communicator over a transport. One thread of its own calls the transport, from connecting to closing it,
/// and runs the collectives one after the other, so that all processes have the same order of them and a
/// library need not be safe for several threads. It pauses between looks at the messages while nobody waits
/// for them: processors are for those who compute.
class ProcessGroup final : public Communicator {
 public:
  using Connect = std::function<std::unique_ptr<Transport>()>;

  /// Connects with the others. Throws what `connect` throws, and CommError.
  explicit ProcessGroup(Connect connect);
  /// Without leave(), the others notice that this process is lost.
  ~ProcessGroup() override;

  int rank() const override { return collectives_->rank(); }
  int size() const override { return collectives_->size(); }
  int local_rank() const override { return collectives_->peers().local_rank(); }
  int local_size() const override { return collectives_->peers().local_size(); }
  int sharing_processors() const override { return collectives_->peers().sharing_processors(); }
  std::string description() const override;
  void set_listener(std::function<void(const Collective&)> listener) override;
  void set_deadline(double seconds) override { collectives_->set_deadline(seconds); }

  Pending start_all_reduce(const Tensor& values, ReduceOp op, DType wire) override;
  Pending start_reduce_scatter(const Tensor& rows, const Tensor& part, ReduceOp op, DType wire) override;
  Pending start_all_gather(const Tensor& part, const Tensor& rows) override;
  Pending start_broadcast(const Tensor& values, int root) override;
  void barrier() override;
  void finish(Pending& pending) override;
  double waited_seconds() const override { return waited_seconds_; }
  std::string trouble() const override;

  void leave() override;
  bool report_failure(int exit_code, std::string_view message) override;
  void leave_failed(int exit_code) override;
  [[noreturn]] void abort(int exit_code) override;

 private:
  /// Appends to what the thread does. After an error of a collective, the job is to throw that again.
  Pending start(std::string_view name, std::size_t bytes, std::function<void()> collective);
  Pending enqueue(std::function<void()> job);
  void run();
  void stop();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::packaged_task<void()>> jobs_;
  bool stopping_ = false;
  double waited_seconds_ = 0;  // of the caller's thread
  std::atomic<bool> aborting_ = false, failed_ = false;
  std::function<void(const Collective&)> listener_;  // of the thread
  std::exception_ptr failure_;                       // of the thread, set with failed_: the first error
  std::unique_ptr<Collectives> collectives_;
  std::thread thread_;
};

}  // namespace moh
