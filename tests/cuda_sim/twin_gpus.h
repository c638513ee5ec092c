#pragma once

#include <string>

#include "core/cuda/queue.h"
#include "core/error.h"
#include "train/comm/communicator.h"
#include "train/comm/device_collectives.h"

namespace moh::test {

/// Rank 0 of two processes of which the other does the same: a sum is twice the own values.
class TwinProcesses final : public Communicator {
 public:
  int rank() const override { return 0; }
  int size() const override { return 2; }
  int local_rank() const override { return 0; }
  int local_size() const override { return 2; }
  int sharing_processors() const override { return 1; }
  std::string description() const override { return "twins"; }
  void set_listener(std::function<void(const Collective&)>) override {}
  void set_deadline(double) override {}
  Pending start_all_reduce(const Tensor& values, ReduceOp op, DType) override {
    if (op == ReduceOp::kSum) values.add(values.clone());
    return done();
  }
  Pending start_reduce_scatter(const Tensor& rows, const Tensor& part, ReduceOp, DType) override {
    part.copy_from(rows.select(0));
    part.scale(2);
    return done();
  }
  Pending start_all_gather(const Tensor& part, const Tensor& rows) override {
    for (int r = 0; r < size(); ++r) rows.select(r).copy_from(part.reshape(rows.select(r).shape()));
    return done();
  }
  Pending start_broadcast(const Tensor&, int) override { return done(); }
  void barrier() override {}
  void finish(Pending& pending) override { pending.get(); }
  double waited_seconds() const override { return 0; }
  std::string trouble() const override { return {}; }
  void leave() override {}
  bool report_failure(int, std::string_view) override { return true; }
  void leave_failed(int) override {}
  [[noreturn]] void abort(int) override { throw InternalError("the twins do not end each other"); }

 private:
  static Pending done() {
    std::promise<void> promise;
    promise.set_value();
    return promise.get_future();
  }
};

/// Their GPUs. A collective is work of the communication queue, as a kernel of NCCL.
class TwinGpus : public DeviceCollectives {
 public:
  explicit TwinGpus(TwinProcesses& processes) : processes_(processes) { processes_.set_device(this); }
  ~TwinGpus() override { processes_.set_device(nullptr); }

  std::string description() const override { return "twins"; }
  bool capturable() const override { return true; }
  void barrier() override {}
  void check() override {}
  void abort() noexcept override {}
  void leave() override {}

 protected:
  void do_all_reduce(const Tensor& values, ReduceOp, DType) override {
    const cuda::QueueScope queue(cuda::Queue::kCommunication);
    values.scale(2);
  }
  void do_reduce_scatter(const Tensor& rows, const Tensor& part, ReduceOp op, DType wire) override {
    do_all_reduce(rows, op, wire);
    const cuda::QueueScope queue(cuda::Queue::kCommunication);
    part.copy_from(rows.select(0));
  }
  void do_all_gather(const Tensor& part, const Tensor& rows) override {
    const cuda::QueueScope queue(cuda::Queue::kCommunication);
    for (int r = 0; r < 2; ++r) rows.select(r).copy_from(part.reshape(rows.select(r).shape()));
  }
  void do_broadcast(const Tensor&, int) override {}

 private:
  TwinProcesses& processes_;
};

}  // namespace moh::test
