#pragma once

#include <cstddef>

// The part of core/cuda/launch_timer.h that core/cuda/launch.h needs, for kernel files, which include few
// headers.

namespace moh::cuda {

/// Arguments of a launch: where they are, and their sizes in bytes.
struct LaunchArguments {
  void* const* addresses;
  const std::size_t* sizes;
  std::size_t count;
};

/// Tells the LaunchTimer of this thread that a launch begins; false if there is none.
bool begin_timed_launch(const char* name, const void* kernel, int threads, std::size_t shared_bytes,
                        const LaunchArguments& arguments);
void end_timed_launch();

}  // namespace moh::cuda
