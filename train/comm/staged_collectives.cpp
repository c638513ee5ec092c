#include "train/comm/staged_collectives.h"

#include "core/cuda/backend.h"
#include "core/cuda/queue.h"

namespace moh {

namespace {

using cuda::Queue;

/// While it lives, copies to and from the host, on the compute queue, run after the earlier work of the
/// communication queue, and before its subsequent work.
class InOrder {
 public:
  InOrder() { cuda::wait_for(Queue::kCompute, Queue::kCommunication); }
  ~InOrder() { cuda::wait_for(Queue::kCommunication, Queue::kCompute); }
  InOrder(const InOrder&) = delete;
  InOrder& operator=(const InOrder&) = delete;
};

}  // namespace

StagedCollectives::StagedCollectives(Communicator& processes) : processes_(processes) {
  processes_.set_device(this);
}

StagedCollectives::~StagedCollectives() {
  processes_.set_device(nullptr);
}

std::string StagedCollectives::description() const {
  return "through host memory, by " + processes_.description();
}

void StagedCollectives::do_all_reduce(const Tensor& values, ReduceOp op, DType wire) {
  const InOrder order;
  const Tensor staged = values.to(kCpu);
  Communicator::Pending pending = processes_.start_all_reduce(staged, op, wire);
  processes_.finish(pending);
  values.copy_from(staged);
}

void StagedCollectives::do_reduce_scatter(const Tensor& rows, const Tensor& part, ReduceOp op, DType wire) {
  const InOrder order;
  const Tensor staged = rows.to(kCpu), own = staged.select(processes_.rank());
  Communicator::Pending pending = processes_.start_reduce_scatter(staged, own, op, wire);
  processes_.finish(pending);
  part.copy_from(own.reshape(part.shape()));
}

void StagedCollectives::do_all_gather(const Tensor& part, const Tensor& rows) {
  const InOrder order;
  const Tensor staged = empty(rows.shape(), rows.dtype());
  processes_.all_gather(part.to(kCpu), staged);
  rows.copy_from(staged);
}

void StagedCollectives::do_broadcast(const Tensor& values, int root) {
  const InOrder order;
  const Tensor staged = values.to(kCpu);
  processes_.broadcast(staged, root);
  values.copy_from(staged);
}

void StagedCollectives::barrier() {
  const InOrder order;
  cuda::synchronize();
  processes_.barrier();
}

}  // namespace moh
