#pragma once

#include <cstdint>

#include "core/dtype.h"

namespace moh {

/// A range of elements of one tensor and of its average: the unit of parallel work.
template <class T>
struct EmaChunk {
  Acc<T>* average = nullptr;
  const T* value = nullptr;
  std::int64_t count = 0;
};

/// average += rate (value - average) in all chunks, which must not overlap; nothing if *go is 0. All pointers
/// are to memory of the back end; go may be null, and rate_at, which unless null holds the rate in place of
/// `rate`.
template <class Backend, class T>
struct EmaKernels {
  static void update(const EmaChunk<T>* chunks, std::int64_t num_chunks, Acc<T> rate, const double* rate_at,
                     const double* go);
};

}  // namespace moh
