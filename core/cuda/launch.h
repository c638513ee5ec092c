#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "core/cuda/clear_padding.h"
#include "core/cuda/device.h"
#include "core/cuda/timed_launch.h"

// The only way to start a kernel. For kernel files (*_cuda.cu); tests/cuda_sim/include/core/cuda has the
// host's version.

#define MOH_DEVICE __device__ __forceinline__
/// A kernel: MOH_KERNEL(threads) void name(...); `threads` is the largest block that it is launched with.
/// A second number limits the registers so that at least so many blocks are resident per multiprocessor.
#define MOH_KERNEL(...) __global__ __launch_bounds__(__VA_ARGS__)

namespace moh::cuda {

struct LaunchShape {
  std::int64_t blocks_x = 1, blocks_y = 1;
  int threads = 128;             ///< of a block, whole warps
  std::size_t shared_bytes = 0;  ///< of a block
  bool indirect = false;         ///< tables of addresses in device memory say what it reads and writes
};

/// Enqueues kernel(args...) on the stream; does nothing for an empty grid. Throws DeviceError naming `name`.
template <class... Params>
void launch(const char* name, void (*kernel)(Params...), const LaunchShape& shape,
            std::type_identity_t<Params>... args) {
  if (shape.blocks_x == 0 || shape.blocks_y == 0) return;
  check_grid(name, shape.blocks_x, shape.blocks_y);
  const auto* function = reinterpret_cast<const void*>(kernel);
  constexpr std::size_t kAlwaysAllowed = 48 << 10;
  if (shape.shared_bytes > kAlwaysAllowed) allow_shared_memory(function, shape.shared_bytes);
  (clear_padding(args), ...);
  void* pointers[] = {static_cast<void*>(&args)...};
  constexpr std::size_t kSizes[] = {sizeof(Params)...};
  const dim3 grid(static_cast<unsigned>(shape.blocks_x), static_cast<unsigned>(shape.blocks_y));
  const bool timed =
      begin_timed_launch(name, function, shape.threads, shape.shared_bytes,
                         {pointers, kSizes, shape.indirect ? std::size_t{0} : sizeof...(Params)});
  // The status stays as the last error, which check_launch reads.
  cudaLaunchKernel(function, grid, dim3(static_cast<unsigned>(shape.threads)), pointers, shape.shared_bytes,
                   stream());
  check_launch(name);
  if (timed) end_timed_launch();
}

template <class Body>
MOH_KERNEL(256)
void each_kernel(std::int64_t count, Body body) {
  const std::int64_t step = std::int64_t{gridDim.x} * blockDim.x;
  for (std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += step) body(i);
}

/// Calls body(i) for i in [0, count) in a grid-stride loop. Body is a struct with a MOH_DEVICE operator().
template <class Body>
void launch_each(const char* name, std::int64_t count, const Body& body) {
  constexpr int kThreads = 256, kBlocksPerMultiprocessor = 32;
  const std::int64_t most = std::int64_t{limits().multiprocessors} * kBlocksPerMultiprocessor;
  launch(name, each_kernel<Body>, {std::min((count + kThreads - 1) / kThreads, most), 1, kThreads}, count,
         body);
}

}  // namespace moh::cuda
