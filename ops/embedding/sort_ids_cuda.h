#pragma once

// For kernel files (*_cuda.cu) only.

#include <cstdint>

#include "ops/cuda/scratch.h"

namespace moh {

/// Ids in ascending order with the places where they stood, in device memory.
struct IdPlaces {
  const std::int64_t *ids, *places;
};

/// Sorts ids [count], each in [0, bound), by kernels in stream order; equal ones keep their order. What is
/// launched depends on the count and the bound alone. Takes 16 bytes of scratch per id, 32 where the bound is
/// above 256.
class SortedIds {
 public:
  SortedIds(const std::int64_t* ids, std::int64_t count, std::int64_t bound);
  /// Lives as long as this object.
  IdPlaces get() const { return sorted_; }

 private:
  DeviceScratch even_, odd_;
  IdPlaces sorted_{};
};

}  // namespace moh
