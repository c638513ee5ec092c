#include "train/comm/process_group.h"

#include <unistd.h>

#include <chrono>
#include <utility>

#include "core/device_clock.h"
#include "core/threads.h"
#include "train/comm/comm_error.h"

namespace moh {

using std::chrono::milliseconds;

ProcessGroup::ProcessGroup(Connect connect) {
  thread_ = start_thread({"comm"}, [this] { run(); });
  Pending connected = enqueue(
      [this, connect = std::move(connect)] { collectives_ = std::make_unique<Collectives>(connect()); });
  try {
    connected.get();
  } catch (...) {
    stop();
    throw;
  }
}

ProcessGroup::~ProcessGroup() {
  stop();
}

void ProcessGroup::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void ProcessGroup::run() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return stopping_ || aborting_ || !jobs_.empty(); });
    if (aborting_ && collectives_) collectives_->abort_if_requested();
    if (jobs_.empty()) return;
    std::packaged_task<void()> job = std::move(jobs_.front());
    jobs_.pop_front();
    lock.unlock();
    job();
    lock.lock();
  }
}

Communicator::Pending ProcessGroup::enqueue(std::function<void()> job) {
  std::packaged_task<void()> task(std::move(job));
  Pending pending = task.get_future();
  {
    const std::lock_guard lock(mutex_);
    jobs_.push_back(std::move(task));
  }
  changed_.notify_all();
  return pending;
}

void ProcessGroup::set_listener(std::function<void(const Collective&)> listener) {
  enqueue([this, listener = std::move(listener)] { listener_ = listener; }).get();
}

Communicator::Pending ProcessGroup::start(std::string_view name, std::size_t bytes,
                                          std::function<void()> collective) {
  return enqueue([this, name, bytes, collective = std::move(collective)] {
    if (failure_) std::rethrow_exception(failure_);
    try {
      const double began = steady_seconds();
      collective();
      if (listener_) listener_({name, bytes, began, steady_seconds()});
    } catch (...) {
      failure_ = std::current_exception();
      failed_ = true;
      throw;
    }
  });
}

std::string ProcessGroup::trouble() const {
  if (failed_) return "a collective of the processes in host memory has failed";
  std::vector<int> others;
  for (int r = 0; r < size(); ++r) {
    if (r != rank()) others.push_back(r);
  }
  const std::vector<int> ended = collectives_->peers().ended(others);
  return ended.empty() ? "" : collectives_->peers().names(ended) + " ended without a word";
}

void ProcessGroup::finish(Pending& pending) {
  const double began = steady_seconds();
  collectives_->add_waiting(1);
  pending.wait();
  collectives_->add_waiting(-1);
  const double ended = steady_seconds();
  waited_seconds_ += ended - began;
  add_wait(began, ended);
  pending.get();
}

std::string ProcessGroup::description() const {
  const int hosts = collectives_->peers().hosts();
  return collectives_->description() + ", " + std::to_string(size()) + " processes on " +
         std::to_string(hosts) + (hosts == 1 ? " host" : " hosts");
}

Communicator::Pending ProcessGroup::start_all_reduce(const Tensor& values, ReduceOp op, DType wire) {
  return start("all-reduce", values.bytes(), [=, this] { collectives_->all_reduce(values, op, wire); });
}

Communicator::Pending ProcessGroup::start_reduce_scatter(const Tensor& rows, const Tensor& part, ReduceOp op,
                                                         DType wire) {
  return start("reduce-scatter", rows.bytes(),
               [=, this] { collectives_->reduce_scatter(rows, part, op, wire); });
}

Communicator::Pending ProcessGroup::start_all_gather(const Tensor& part, const Tensor& rows) {
  return start("all-gather", part.bytes(), [=, this] { collectives_->all_gather(part, rows); });
}

Communicator::Pending ProcessGroup::start_broadcast(const Tensor& values, int root) {
  return start("broadcast", values.bytes(), [=, this] { collectives_->broadcast(values, root); });
}

void ProcessGroup::barrier() {
  Pending pending = start("barrier", 0, [this] { collectives_->barrier(); });
  finish(pending);
}

void ProcessGroup::leave() {
  Pending pending = start("leave", 0, [this] { collectives_->leave(); });
  finish(pending);
}

bool ProcessGroup::report_failure(int exit_code, std::string_view message) {
  bool told = false;
  Pending pending = enqueue([&] {
    if (!failure_) {
      told = collectives_->report_failure(exit_code, message);
      failed_ = true;
      failure_ = std::make_exception_ptr(PeerError("this process has failed", exit_code));
      return;
    }
    try {
      std::rethrow_exception(failure_);
    } catch (const PeerError&) {
      told = true;  // who failed has told everybody
    } catch (...) {
    }
  });
  finish(pending);
  return told;
}

/// After a PeerError, and where this process told of its own, all processes meet once more. After any other
/// error they cannot: a moment for them to log it, too, then all are ended.
void ProcessGroup::leave_failed(int exit_code) {
  Pending pending = enqueue([&] {
    try {
      if (failure_) std::rethrow_exception(failure_);
    } catch (const PeerError&) {
      return collectives_->leave_failed();
    }
    throw CommError("no others to leave");
  });
  try {
    finish(pending);
  } catch (const std::exception&) {
    std::this_thread::sleep_for(milliseconds(500));
    abort(exit_code);
  }
}

void ProcessGroup::abort(int exit_code) {
  collectives_->request_abort(exit_code);
  aborting_ = true;
  changed_.notify_all();
  std::this_thread::sleep_for(milliseconds(5000));
  ::_exit(exit_code);  // the thread is stuck
}

}  // namespace moh
