#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>
#include <vector>

namespace moh::cuda {

/// Page-locked memory through which copies to the device go: from pageable memory they would make the caller
/// wait for the device. A ring: a piece of it is used again once the copy out of it is done, so a caller
/// waits only when more than the ring holds is under way.
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

  /// A copy that may be under way. Positions count all bytes that were ever reserved.
  struct Piece {
    std::uint64_t end;
    cudaEvent_t copied;
  };
  std::mutex mutex_;
  std::byte* ring_ = nullptr;
  std::deque<Piece> under_way_;
  std::uint64_t head_ = 0;      // where the next piece begins
  std::uint64_t released_ = 0;  // what lies before may be used again
  std::vector<cudaEvent_t> idle_events_;
};

}  // namespace moh::cuda
