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
  void* memory = nullptr;
  MOH_CUDA_CALL(cudaMallocHost(&memory, kRingBytes));
  ring_ = static_cast<std::byte*>(memory);
}

void Staging::upload(void* to, const void* from, std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  for (std::size_t begin = 0; begin < bytes; begin += kMostPieceBytes) {
    upload_piece(static_cast<std::byte*>(to) + begin, static_cast<const std::byte*>(from) + begin,
                 std::min(kMostPieceBytes, bytes - begin));
  }
}

void Staging::upload_piece(void* to, const void* from, std::size_t bytes) {
  std::byte* const piece = reserve(bytes);
  std::memcpy(piece, from, bytes);
  MOH_CUDA_CALL(cudaMemcpyAsync(to, piece, bytes, cudaMemcpyHostToDevice, stream()));
  const cudaEvent_t copied = take_event();
  MOH_CUDA_CALL(cudaEventRecord(copied, stream()));
  under_way_.push_back({head_, copied});
}

/// The next `bytes` of the ring, contiguous; blocks while copies in flight occupy them.
std::byte* Staging::reserve(std::size_t bytes) {
  while (!under_way_.empty() && cudaEventQuery(under_way_.front().copied) == cudaSuccess) retire_oldest();
  cudaGetLastError();  // clears cudaErrorNotReady, which is no failure
  constexpr std::size_t kAlignment = 64;
  const std::size_t size = (bytes + kAlignment - 1) / kAlignment * kAlignment;
  if (const std::size_t at = head_ % kRingBytes; at + size > kRingBytes) head_ += kRingBytes - at;
  while (!under_way_.empty() && head_ + size - released_ > kRingBytes) retire_oldest();
  std::byte* const piece = ring_ + head_ % kRingBytes;
  head_ += size;
  return piece;
}

void Staging::retire_oldest() {
  const Piece oldest = under_way_.front();
  MOH_CUDA_CALL(cudaEventSynchronize(oldest.copied));
  under_way_.pop_front();
  released_ = oldest.end;
  idle_events_.push_back(oldest.copied);
}

cudaEvent_t Staging::take_event() {
  cudaEvent_t event = nullptr;
  if (idle_events_.empty()) {
    MOH_CUDA_CALL(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  } else {
    event = idle_events_.back();
    idle_events_.pop_back();
  }
  return event;
}

}  // namespace moh::cuda
