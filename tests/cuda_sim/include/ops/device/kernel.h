#pragma once

// The host's version of ops/device: see there for what each function does. Here a block's threads are fibers.

#include <cstdint>
#include <source_location>

#include "core/cuda/launch.h"
#include "tests/cuda_sim/grid.h"

#define MOH_UNROLL  // a compiler's business here
#define MOH_ROLLED

namespace moh::device {

inline constexpr int kWarp = 32;

inline int thread_x() {
  return static_cast<int>(sim::this_thread().index.x);
}
inline int block_threads() {
  return static_cast<int>(sim::this_thread().block->dims.x);
}
inline std::int64_t block_x() {
  return sim::this_thread().block->index.x;
}
inline std::int64_t block_y() {
  return sim::this_thread().block->index.y;
}
inline std::int64_t blocks_x() {
  return sim::grid_dims().x;
}
inline std::int64_t blocks_y() {
  return sim::grid_dims().y;
}

template <class T>
T* shared_memory() {
  return reinterpret_cast<T*>(sim::this_thread().block->shared());
}

}  // namespace moh::device
