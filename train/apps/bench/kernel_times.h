#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "autograd/profile.h"
#include "core/cuda/launch_timer.h"

namespace moh {

/// The launches of a kernel by one op in one phase of a training step, averaged over the timed steps.
struct KernelTime {
  ProfilePhase phase = ProfilePhase::kForward;
  std::string op;  ///< empty: outside of ops
  std::string kernel;
  double calls = 0;
  double median_us = 0;     ///< of a launch
  double ms = 0;            ///< of all launches of a step
  double gbytes_per_s = 0;  ///< TimedLaunch::bytes over the time, where they are known; otherwise 0
  /// GFLOP/s of the op in this phase, all of its kernels together; 0 where it reports no operations.
  double op_gflops = 0;
  cuda::KernelResources resources;  ///< those of its first launch
};

/// The kernels of training steps on a GPU.
struct KernelProfile {
  double step_ms = 0;               ///< mean of the timed steps, with the timing
  double copy_gbytes_per_s = 0;     ///< of the device's memory, reads plus writes, measured beside the steps
  std::vector<KernelTime> kernels;  ///< those with the most time in a step first
};

/// Numbers the ops that launch kernels, for a LaunchTimer: the number is its TimedLaunch::context.
class LaunchingOps {
 public:
  explicit LaunchingOps(const Profiler& profiler) : profiler_(profiler) {}
  /// The number of the op that is open.
  std::size_t current();
  Profiler::OpenOp operator[](std::size_t number) const { return {ops_[number].phase, ops_[number].op}; }

 private:
  struct Op {
    ProfilePhase phase;
    std::string op;
    bool operator==(const Op&) const = default;
  };
  const Profiler& profiler_;
  std::vector<Op> ops_;
};

/// The kernels of `launches`, which took place in `steps` steps within `ops`; `entries` are those of the same
/// steps' Profiler.
std::vector<KernelTime> summarize_launches(std::span<const cuda::TimedLaunch> launches,
                                           const LaunchingOps& ops, std::span<const ProfileEntry> entries,
                                           std::int64_t steps);

}  // namespace moh
