#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/memory_region.h"

namespace moh::cuda {

/// Device memory that is split and merged by the host alone, so that the same sequence of requests gets the
/// same addresses, and that is not freed while a captured graph refers to it. A freed block may be reused at
/// once: what uses it is in the compute queue. Not thread-safe.
class Arena {
 public:
  ~Arena();
  Arena() = default;
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  /// A block aligned to 256 bytes; null when the device is out of memory.
  void* take(std::size_t bytes);
  void give_back(void* block, std::size_t bytes);
  bool owns(const void* block) const;
  /// Frees the device memory of all segments without an allocated block.
  void trim();

  /// Its blocks and segments at one time.
  struct Mark {
    Stretches free;
    std::size_t segments;
  };
  Mark mark() const { return {free_, segments_.size()}; }
  /// Frees the segments that were added since the mark, but for those with an allocated block. Whether the
  /// allocated blocks are those of then. No trim() was in between.
  bool return_to(const Mark& mark);

  std::int64_t reserved_bytes() const { return reserved_; }
  std::int64_t blocks_out() const { return blocks_out_; }

 private:
  struct Segment {
    std::byte* begin;
    std::size_t bytes;
  };

  bool grow(std::size_t bytes);
  bool add_segment(std::size_t bytes);
  bool free_if_unused(const Segment& segment);

  std::vector<Segment> segments_;
  Stretches free_;  // by address
  std::int64_t reserved_ = 0, blocks_out_ = 0;
};

}  // namespace moh::cuda
