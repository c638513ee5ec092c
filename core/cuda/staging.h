#pragma once

#include <cuda_runtime_api.h>

#include <array>
#include <cstddef>
#include <mutex>

namespace moh::cuda {

/// Page-locked memory through which copies to the device go: from pageable memory they would make the caller
/// wait for the device. Two slots take turns, each free again once the copy out of it is done.
class Staging {
 public:
  static Staging& instance();

  /// Copies `bytes` to the device, in stream order; `from` may be changed once the call returns. Thread-safe.
  void upload(void* to, const void* from, std::size_t bytes);

 private:
  Staging();
  void upload_piece(void* to, const void* from, std::size_t bytes);

  static constexpr std::size_t kSlotBytes = std::size_t{4} << 20;
  struct Slot {
    void* memory = nullptr;
    cudaEvent_t copied = nullptr;
  };
  std::mutex mutex_;
  std::array<Slot, 2> slots_;
  std::size_t next_ = 0;
};

}  // namespace moh::cuda
