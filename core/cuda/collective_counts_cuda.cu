#include "core/cuda/collective_counts.h"

#include <mutex>

#include "core/cuda/launch.h"
#include "core/cuda/queue.h"

namespace moh::cuda {

namespace {

/// In page-locked memory: the device counts, and the host looks. A count has one writer, the queue.
using Count = volatile std::uint64_t;
struct Counts {
  Count begun, ended;
};

Counts* counts() {
  static Counts* const both = [] {
    void* memory = nullptr;
    MOH_CUDA_CALL(cudaMallocHost(&memory, sizeof(Counts)));
    return new (memory) Counts{0, 0};  // never freed, as the device
  }();
  return both;
}

struct AddOne {
  Count* count;
  MOH_DEVICE void operator()(std::int64_t) const { *count = *count + 1; }
};

void add_one(Count Counts::*count) {
  const QueueScope queue(Queue::kCommunication);
  launch_each("count_collective", 1, AddOne{&(counts()->*count)});
}

}  // namespace

void count_begin_of_collective() {
  add_one(&Counts::begun);
}

void count_end_of_collective() {
  add_one(&Counts::ended);
}

CollectiveCounts collective_counts() {
  // The count of ended collectives is read first, so that it is never more than that of begun ones.
  const std::uint64_t ended = counts()->ended;
  return {counts()->begun, ended};
}

}  // namespace moh::cuda
