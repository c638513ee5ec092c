#include "core/cuda/staging.h"

#include <algorithm>
#include <cstring>

#include "core/cuda/device.h"

namespace moh::cuda {

Staging& Staging::instance() {
  static auto* staging = new Staging;  // never destroyed, as the device it belongs to
  return *staging;
}

Staging::Staging() {
  for (Slot& slot : slots_) {
    MOH_CUDA_CALL(cudaMallocHost(&slot.memory, kSlotBytes));
    MOH_CUDA_CALL(cudaEventCreateWithFlags(&slot.copied, cudaEventDisableTiming));
  }
}

void Staging::upload(void* to, const void* from, std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  for (std::size_t begin = 0; begin < bytes; begin += kSlotBytes) {
    upload_piece(static_cast<std::byte*>(to) + begin, static_cast<const std::byte*>(from) + begin,
                 std::min(kSlotBytes, bytes - begin));
  }
}

void Staging::upload_piece(void* to, const void* from, std::size_t bytes) {
  Slot& slot = slots_[next_];
  next_ = (next_ + 1) % slots_.size();
  MOH_CUDA_CALL(cudaEventSynchronize(slot.copied));
  std::memcpy(slot.memory, from, bytes);
  MOH_CUDA_CALL(cudaMemcpyAsync(to, slot.memory, bytes, cudaMemcpyHostToDevice, stream()));
  MOH_CUDA_CALL(cudaEventRecord(slot.copied, stream()));
}

}  // namespace moh::cuda
