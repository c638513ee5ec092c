#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>

namespace moh {

/// The least multiple of `to` that is no smaller.
constexpr std::size_t round_up(std::size_t bytes, std::size_t to) {
  return (bytes + to - 1) / to * to;
}

/// Blocks of CpuAllocator of this size or more (bytes) are whole pages; smaller ones are cached by size.
inline constexpr std::size_t kLargeBlock = std::size_t{128} << 10;
inline constexpr std::size_t kBlockAlignment = 64;

/// The size of the block that serves a request of `bytes`; the statistics count this size. Small sizes are
/// rounded up to an eighth of a power of two: at most 12.5% is lost, and steps whose tensors differ by a few
/// elements still reuse their blocks.
constexpr std::size_t block_size(std::size_t bytes, std::size_t page) {
  if (bytes >= kLargeBlock) return round_up(bytes, page);
  const std::size_t wanted = std::max(bytes, kBlockAlignment);
  return round_up(wanted, std::max(std::bit_floor(wanted) / 8, kBlockAlignment));
}

}  // namespace moh
