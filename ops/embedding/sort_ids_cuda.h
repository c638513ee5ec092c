#pragma once

// For kernel files (*_cuda.cu) only.

#include <cstdint>

#include "ops/cuda/scratch.h"

namespace moh {

/// Sorted ids and their original positions, in device memory.
struct IdPlaces {
  const std::int64_t *ids, *places;
};

/// Stable sort of ids [count], each in [0, bound), in stream order. The launches depend on the count and the
/// bound alone. Allocates 16 bytes of scratch per id, 32 if the bound is above 256.
class SortedIds {
 public:
  SortedIds(const std::int64_t* ids, std::int64_t count, std::int64_t bound);
  /// Valid as long as this object.
  IdPlaces get() const { return sorted_; }

 private:
  DeviceScratch even_, odd_;
  IdPlaces sorted_{};
};

}  // namespace moh
