#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>
#include <vector>

namespace moh::cuda {

/// Ring buffer of page-locked memory that copies to the device are staged through: cudaMemcpyAsync from
/// pageable memory would make the caller wait for the device. A piece of the ring is reused once its copy has
/// finished, so a caller waits only when the copies in flight fill the ring.
class Staging {
 public:
  static Staging& instance();

  /// Copies `bytes` to the device, in stream order; `from` may be changed once the call returns. Thread-safe.
  void upload(void* to, const void* from, std::size_t bytes);

 private:
  Staging();
  void upload_piece(void* to, const void* from, std::size_t bytes);
  std::byte* reserve(std::size_t bytes);
  void retire_oldest();
  cudaEvent_t take_event();

  static constexpr std::size_t kRingBytes = std::size_t{16} << 20;
  static constexpr std::size_t kMostPieceBytes = kRingBytes / 4;

  /// A copy that may be in flight. Positions count all bytes ever reserved.
  struct Piece {
    std::uint64_t end;
    cudaEvent_t copied;
  };
  std::mutex mutex_;
  std::byte* ring_ = nullptr;
  std::deque<Piece> under_way_;
  std::uint64_t head_ = 0;      // where the next piece begins
  std::uint64_t released_ = 0;  // bytes before this position may be reused
  std::vector<cudaEvent_t> idle_events_;
};

}  // namespace moh::cuda
