#include <cuda_runtime_api.h>

#include <cstring>
#include <mutex>
#include <vector>

#include "core/cuda/backend.h"
#include "core/cuda/device.h"
#include "core/cuda/fault.h"
#include "core/cuda/queue.h"

namespace moh::cuda {

namespace {

/// Page-locked memory with an event, recorded after the copy that fills it.
struct Landing {
  void* memory = nullptr;
  std::size_t bytes = 0;
  cudaEvent_t filled = nullptr;
};

/// Pool of unused landings: cudaMallocHost is slow and may wait for the device.
class Landings {
 public:
  static Landings& instance() {
    static auto* landings = new Landings;  // never destroyed, as the device they belong to
    return *landings;
  }

  Landing take(std::size_t bytes) {
    const std::lock_guard lock(mutex_);
    for (Landing& landing : idle_) {
      if (landing.bytes < bytes) continue;
      std::swap(landing, idle_.back());
      const Landing found = idle_.back();
      idle_.pop_back();
      return found;
    }
    Landing made{.bytes = bytes};
    MOH_CUDA_CALL(cudaMallocHost(&made.memory, bytes));
    MOH_CUDA_CALL(cudaEventCreateWithFlags(&made.filled, cudaEventDisableTiming));
    return made;
  }

  void give_back(const Landing& landing) {
    const std::lock_guard lock(mutex_);
    idle_.push_back(landing);
  }

 private:
  std::mutex mutex_;
  std::vector<Landing> idle_;
};

class PinnedTransfer : public HostTransfer {
 public:
  PinnedTransfer(const void* from, std::size_t bytes)
      : bytes_(bytes), landing_(Landings::instance().take(bytes)) {
    MOH_CUDA_CALL(cudaMemcpyAsync(landing_.memory, from, bytes, cudaMemcpyDeviceToHost, stream()));
    MOH_CUDA_CALL(cudaEventRecord(landing_.filled, stream()));
  }
  // May be reused while its copy is in flight: the next copy to it follows in the same stream.
  ~PinnedTransfer() override { Landings::instance().give_back(landing_); }

  void finish(void* to) override {
    MOH_CUDA_CALL(cudaEventSynchronize(landing_.filled));
    throw_fault();
    std::memcpy(to, landing_.memory, bytes_);
  }

 private:
  std::size_t bytes_;
  Landing landing_;
};

}  // namespace

std::unique_ptr<HostTransfer> begin_copy_to_host(const void* from, std::size_t bytes) {
  require_no_capture("copy to the host");
  require_compute_queue("copy to the host");
  use_device_in_this_thread();
  return std::make_unique<PinnedTransfer>(from, bytes);
}

}  // namespace moh::cuda
