#include "train/apps/bench/kernel_times.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "train/base/math/statistics.h"

namespace moh {

namespace {

using OpKey = std::pair<ProfilePhase, std::string>;

/// All launches of a kernel by one op in one phase.
struct Launches {
  std::vector<double> seconds;
  std::int64_t bytes = 0;
  cuda::KernelResources resources;
};

double sum_of(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return sum;
}

}  // namespace

std::size_t LaunchingOps::current() {
  const Profiler::OpenOp open = profiler_.open_op();
  const Op op{open.phase, std::string(open.op)};
  const auto found = std::ranges::find(ops_, op);
  const auto number = static_cast<std::size_t>(found - ops_.begin());
  if (found == ops_.end()) ops_.push_back(op);
  return number;
}

std::vector<KernelTime> summarize_launches(std::span<const cuda::TimedLaunch> launches,
                                           const LaunchingOps& ops, std::span<const ProfileEntry> entries,
                                           std::int64_t steps) {
  const auto count = static_cast<double>(steps);
  std::map<std::tuple<OpKey, std::string>, Launches> by_kernel;
  std::map<OpKey, double> seconds_of_op, flops_of_op;
  for (const cuda::TimedLaunch& launch : launches) {
    const Profiler::OpenOp op = ops[launch.context];
    const OpKey key(op.phase, op.op);
    Launches& kernel = by_kernel[{key, launch.name}];
    if (kernel.seconds.empty()) kernel.resources = launch.resources;
    kernel.seconds.push_back(launch.seconds);
    kernel.bytes += launch.bytes;
    seconds_of_op[key] += launch.seconds;
  }
  for (const ProfileEntry& entry : entries) flops_of_op[{entry.phase, entry.op}] += entry.flops;
  std::vector<KernelTime> kernels;
  for (const auto& [key, kernel] : by_kernel) {
    const auto& [op, name] = key;
    const double seconds = sum_of(kernel.seconds), of_op = seconds_of_op[op];
    kernels.push_back({.phase = op.first,
                       .op = op.second,
                       .kernel = name,
                       .calls = static_cast<double>(kernel.seconds.size()) / count,
                       .median_us = median(kernel.seconds) * 1e6,
                       .ms = seconds * 1e3 / count,
                       .gbytes_per_s = seconds > 0 ? static_cast<double>(kernel.bytes) / seconds * 1e-9 : 0,
                       .op_gflops = of_op > 0 ? flops_of_op[op] / of_op * 1e-9 : 0,
                       .resources = kernel.resources});
  }
  std::ranges::stable_sort(kernels, std::ranges::greater(), &KernelTime::ms);
  return kernels;
}

}  // namespace moh
