#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "autograd/profile.h"
#include "core/allocator.h"
#include "core/cuda/memory_blocks.h"
#include "ops/linalg/gemm_options.h"
#include "train/apps/bench/kernel_times.h"
#include "train/apps/plan/dry_step.h"
#include "train/base/measure/ceilings.h"
#include "train/trainer/config/run_config.h"
#include "train/trainer/task/family.h"

namespace moh {

/// Options of `moh bench step`, which measures steps of the training run that a configuration describes.
struct StepBenchOptions {
  std::int64_t warmup = 5;   ///< steps before the measured ones; the first ones allocate, or are captured
  std::int64_t steps = 10;   ///< measured steps
  bool random_data = false;  ///< synthetic data instead of the configuration's files
  bool profile = false;      ///< then profile as many steps again, by op; not with cuda_graph
  bool kernels = false;      ///< then time as many steps again, by kernel; on a GPU, not with cuda_graph
  bool no_peaks = false;     ///< without the peak rates of the device; not with `kernels`
};

/// Events that should not occur after the warm-up, counted over all measured steps.
struct StepFaults {
  std::int64_t system_allocations = 0;  ///< allocations from the system for tensors of the device
  std::int64_t page_faults = 0;         ///< of the whole process, minor and major
};

/// Milliseconds in each ProfilePhase.
using PhaseTimes = std::array<double, kNumProfilePhases>;

/// The time of one op in a training step, averaged over the profiled steps.
struct OpTime {
  std::string op;
  PhaseTimes ms{};
  double calls = 0;   ///< in all phases together
  double gflops = 0;  ///< achieved GFLOP/s of a GEMM; 0 for other ops

  double total_ms() const { return ms[0] + ms[1] + ms[2]; }
};

/// The time of a training step by op.
struct StepProfile {
  double step_ms = 0;       ///< mean of the profiled steps, including the overhead of profiling
  std::vector<OpTime> ops;  ///< the slowest first

  /// Time outside ops: waiting for data, recording and releasing the autograd graph, memory management.
  double other_ms() const;
};

/// The profile from `entries`, collected over `steps` steps that took `seconds` in total.
StepProfile summarize_profile(std::span<const ProfileEntry> entries, std::int64_t steps, double seconds);

/// The result of the benchmark. Times are medians over the steps in milliseconds; on a GPU, device time.
struct StepBenchRecord {
  RunConfig config;
  StepBenchOptions options;
  std::string gpu;  ///< name of the GPU, with driver and CUDA version; empty for a run on the CPU
  std::int64_t parameters = 0;
  SampleSizes sample_sizes;
  std::string_view unit;  ///< of the task's items: "tokens"

  double step_ms = 0;
  double step_ms_spread = 0;         ///< (90th - 10th percentile) / median
  double items_per_s = 0;            ///< items of a step, in `unit`, / step time
  std::optional<PhaseTimes> phases;  ///< none with cuda_graph: a replay has no timestamps inside

  MemoryStats memory;               ///< of the device: peaks since the model was built
  std::int64_t peak_rss_bytes = 0;  ///< peak resident set of the process, code and libraries included
  StepFaults faults;

  StepFlops flops;
  std::optional<Ceilings>
      ceilings;  ///< measured with the same process, threads and dtype; none with `no_peaks`

  std::optional<StepProfile> profile;
  std::optional<KernelProfile> kernels;

  std::size_t graph_nodes = 0;        ///< of all captured graphs; 0 without cuda_graph
  double graph_instantiation_ms = 0;  ///< what the driver took to make them ready for launches
  cuda::HeldBytes held;  ///< on a GPU: what the process holds of its memory after the measured steps
  std::vector<GemmSearch> gemm_searches;  ///< with gemm_algorithms: what was searched

  double gflops() const { return flops.routed / step_ms * 1e-6; }
};

/// Builds task, model and optimiser as training does and measures training steps. Writes no file. Throws as
/// training does, ValueError for options out of range, and NumericError when a loss is not finite: the update
/// would be skipped, and so not be measured.
StepBenchRecord run_step_bench(const RunConfig& config, const Family& family,
                               const StepBenchOptions& options);

}  // namespace moh
