#pragma once

// For kernel files (*_cuda.cu) only. Kernels use the hardware through the headers of this folder alone;
// tests/cuda_sim/include/ops/device implements them on the host, so that every kernel also runs there.

#include <cstdint>

#include "core/cuda/launch.h"

/// For loops over arrays of fragments: must be unrolled for the arrays to stay in registers.
#define MOH_UNROLL _Pragma("unroll")
/// For loops with a large body: unrolling would only cost registers and code size.
#define MOH_ROLLED _Pragma("unroll 1")

namespace moh::device {

inline constexpr int kWarp = 32;

MOH_DEVICE int thread_x() {
  return static_cast<int>(threadIdx.x);
}
MOH_DEVICE int block_threads() {
  return static_cast<int>(blockDim.x);
}
MOH_DEVICE std::int64_t block_x() {
  return blockIdx.x;
}
MOH_DEVICE std::int64_t block_y() {
  return blockIdx.y;
}
MOH_DEVICE std::int64_t blocks_x() {
  return gridDim.x;
}
MOH_DEVICE std::int64_t blocks_y() {
  return gridDim.y;
}

/// The block's dynamic shared memory, aligned to 128 bytes. Undefined at the start.
template <class T>
MOH_DEVICE T* shared_memory() {
  extern __shared__ __align__(128) unsigned char moh_shared_memory[];
  return reinterpret_cast<T*>(moh_shared_memory);
}

}  // namespace moh::device
