#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <type_traits>

#include "core/cuda/clear_padding.h"
#include "core/cuda/device.h"
#include "core/cuda/launch_timer.h"
#include "tests/cuda_sim/capture.h"
#include "tests/cuda_sim/clock.h"
#include "tests/cuda_sim/device_memory.h"
#include "tests/cuda_sim/grid.h"
#include "tests/cuda_sim/stream.h"

// The host's version of core/cuda/launch.h.

#define MOH_DEVICE inline
#define MOH_KERNEL(...) inline

namespace moh::cuda {

struct LaunchShape {
  std::int64_t blocks_x = 1, blocks_y = 1;
  int threads = 128;
  std::size_t shared_bytes = 0;
  bool indirect = false;
};

template <class Arg>
void check_argument(const char* name, const Arg& argument) {
  if constexpr (std::is_pointer_v<Arg>) {
    if (argument != nullptr && !sim::DeviceMemory::instance().is_reachable(argument))
      throw sim::KernelFault(std::string("kernel ") + name + ": an argument points to host memory");
  }
}

template <class... Params>
void launch(const char* name, void (*kernel)(Params...), const LaunchShape& shape,
            std::type_identity_t<Params>... args) {
  if (shape.blocks_x == 0 || shape.blocks_y == 0) return;
  check_grid(name, shape.blocks_x, shape.blocks_y);
  (check_argument(name, args), ...);
  const cudaStream_t queue = stream();
  if (const sim::Capture* const capture = sim::Capture::of(queue); capture != nullptr && capture->broken())
    check(cudaErrorStreamCaptureInvalidated, name);
  sim::LaunchLog::instance().add(name);
  LaunchTimer* const timer = LaunchTimer::current();
  if (timer != nullptr) {
    timer->begin(name,
                 {.threads = shape.threads, .shared_bytes = static_cast<std::int64_t>(shape.shared_bytes)});
    (clear_padding(args), ...);
    if (!shape.indirect) (timer->add_argument(&args, sizeof args), ...);
  }
  sim::Streams::instance().submit(queue, [=] {
    const sim::DeviceMemory::Access access;
    sim::run_grid(name, {static_cast<unsigned>(shape.blocks_x), static_cast<unsigned>(shape.blocks_y)},
                  {static_cast<unsigned>(shape.threads)}, shape.shared_bytes, [&] { kernel(args...); });
    sim::device_clock() += sim::kLaunchMilliseconds;
  });
  if (timer != nullptr) timer->end();
}

template <class Body>
void each_kernel(std::int64_t count, Body body) {
  const sim::Thread& thread = sim::this_thread();
  const std::int64_t threads = thread.block->dims.x, step = sim::grid_dims().x * threads;
  for (std::int64_t i = thread.block->index.x * threads + thread.index.x; i < count; i += step) body(i);
}

template <class Body>
void launch_each(const char* name, std::int64_t count, const Body& body) {
  constexpr int kThreads = 64, kMostBlocks = 4;
  launch(name, each_kernel<Body>,
         {std::min<std::int64_t>((count + kThreads - 1) / kThreads, kMostBlocks), 1, kThreads}, count, body);
}

}  // namespace moh::cuda
