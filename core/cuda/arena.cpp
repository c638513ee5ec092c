#include "core/cuda/arena.h"

#include <cuda_runtime_api.h>

#include <algorithm>

#include "core/block_size.h"
#include "core/cuda/device.h"
#include "core/cuda/queue.h"

namespace moh::cuda {

namespace {

constexpr std::size_t kAlignment = 256;
constexpr std::size_t kSmallestSegment = std::size_t{8} << 20;
constexpr std::size_t kSegmentUnit = std::size_t{2} << 20;  // granularity of the device's mappings

std::size_t address_of(const void* block) {
  return reinterpret_cast<std::uintptr_t>(block);
}

/// Allows cudaMalloc during a capture: it is not captured but allocates at once, which CUDA permits only in
/// relaxed capture mode.
class UncapturedCalls {
 public:
  UncapturedCalls() { MOH_CUDA_CALL(cudaThreadExchangeStreamCaptureMode(&mode_)); }
  ~UncapturedCalls() { cudaThreadExchangeStreamCaptureMode(&mode_); }
  UncapturedCalls(const UncapturedCalls&) = delete;
  UncapturedCalls& operator=(const UncapturedCalls&) = delete;

 private:
  cudaStreamCaptureMode mode_ = cudaStreamCaptureModeRelaxed;
};

}  // namespace

Arena::~Arena() {
  trim();
}

void* Arena::take(std::size_t bytes) {
  const std::size_t size = round_up(std::max<std::size_t>(bytes, 1), kAlignment);
  auto found = free_.smallest_of(size);
  if (found == free_.end()) {
    if (!grow(size)) return nullptr;
    found = free_.smallest_of(size);
  }
  const auto [begin, length] = *found;
  free_.remove(found);
  if (length > size) free_.add(begin + size, length - size);
  ++blocks_out_;
  return reinterpret_cast<void*>(begin);  // NOLINT(performance-no-int-to-ptr): addresses are numbers here
}

void Arena::give_back(void* block, std::size_t bytes) {
  free_.add(address_of(block), round_up(std::max<std::size_t>(bytes, 1), kAlignment));
  --blocks_out_;
}

bool Arena::owns(const void* block) const {
  return std::any_of(segments_.begin(), segments_.end(), [=](const Segment& segment) {
    return block >= segment.begin && block < segment.begin + segment.bytes;
  });
}

void Arena::trim() {
  std::erase_if(segments_, [this](const Segment& segment) { return free_if_unused(segment); });
}

bool Arena::free_if_unused(const Segment& segment) {
  const auto free = free_.at(address_of(segment.begin));
  if (free == free_.end() || free->second != segment.bytes - kAlignment) return false;
  free_.remove(free);
  reserved_ -= static_cast<std::int64_t>(segment.bytes);
  cudaFree(segment.begin);
  return true;
}

bool Arena::return_to(const Mark& mark) {
  const auto added = segments_.begin() + static_cast<std::ptrdiff_t>(mark.segments);
  segments_.erase(std::remove_if(added, segments_.end(),
                                 [this](const Segment& segment) { return free_if_unused(segment); }),
                  segments_.end());
  return std::equal(free_.begin(), free_.end(), mark.free.begin(), mark.free.end());
}

/// Segments grow with the arena, so that they are few. An unused gap at the end of each keeps free ranges of
/// neighbouring segments from merging: a block must not span two.
bool Arena::grow(std::size_t bytes) {
  const UncapturedCalls uncaptured;
  const std::size_t enough = round_up(bytes + kAlignment, kSegmentUnit);
  const std::size_t wanted =
      std::max({enough, kSmallestSegment, round_up(static_cast<std::size_t>(reserved_) / 4, kSegmentUnit)});
  if (add_segment(wanted) || add_segment(enough)) return true;
  // The pool gives back what it keeps for reuse, as far as the device has reached its release: a capture
  // cannot wait for that, but comes after steps that have allocated as much.
  if (!capturing()) MOH_CUDA_CALL(cudaStreamSynchronize(stream(Queue::kCompute)));
  MOH_CUDA_CALL(cudaMemPoolTrimTo(memory_pool(), 0));
  return add_segment(enough);
}

bool Arena::add_segment(std::size_t bytes) {
  void* memory = nullptr;
  if (cudaMalloc(&memory, bytes) != cudaSuccess) {
    cudaGetLastError();
    return false;
  }
  segments_.push_back({static_cast<std::byte*>(memory), bytes});
  free_.add(address_of(memory), bytes - kAlignment);
  reserved_ += static_cast<std::int64_t>(bytes);
  return true;
}

}  // namespace moh::cuda
