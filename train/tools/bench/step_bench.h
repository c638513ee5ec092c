#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "autograd/profile.h"
#include "core/allocator.h"
#include "train/bench/ceilings.h"
#include "train/config/run_config.h"
#include "train/tasks/family.h"
#include "train/tools/plan/dry_step.h"

namespace moh {

/// What `moh bench step` measures: steps of the training run that a configuration describes.
struct StepBenchOptions {
  std::int64_t warmup = 5;   ///< steps that are not counted; the first ones ask for memory, or are captured
  std::int64_t steps = 10;   ///< counted steps
  bool random_data = false;  ///< made-up data instead of the configuration's files
  bool profile = false;      ///< after the counted steps, as many again with times by op; not with cuda_graph
};

/// Things that a step should not do once it is warm, counted over all measured steps.
struct StepFaults {
  std::int64_t system_allocations = 0;  ///< times that memory for the device's tensors was asked for
  std::int64_t page_faults = 0;         ///< of the whole process, minor and major
};

/// Milliseconds in each ProfilePhase.
using PhaseTimes = std::array<double, kNumProfilePhases>;

/// What one op takes of a training step, on average over the profiled steps.
struct OpTime {
  std::string op;
  PhaseTimes ms{};
  double calls = 0;   ///< in all phases
  double gflops = 0;  ///< achieved, of matrix products; else 0

  double total_ms() const { return ms[0] + ms[1] + ms[2]; }
};

/// Where a training step goes, op by op.
struct StepProfile {
  double step_ms = 0;       ///< mean of the profiled steps, which are slower by what taking times costs
  std::vector<OpTime> ops;  ///< longest first

  /// What no op accounts for: waiting for data, recording and releasing the graph, memory.
  double other_ms() const;
};

/// `entries` were collected over `steps` steps that took `seconds` together.
StepProfile summarize_profile(std::span<const ProfileEntry> entries, std::int64_t steps, double seconds);

/// What was measured. Times in milliseconds, medians over the steps; on a GPU those of the device.
struct StepBenchRecord {
  RunConfig config;
  StepBenchOptions options;
  std::string gpu;  ///< what it is, driver and CUDA included; empty: the CPU computes
  std::int64_t parameters = 0;
  SampleSizes sample_sizes;
  std::string_view unit;  ///< of the task's inputs: "tokens"

  double step_ms = 0;
  double step_ms_spread = 0;         ///< (90th - 10th percentile) / median
  double items_per_s = 0;            ///< inputs of a step, in `unit`, / step_ms
  std::optional<PhaseTimes> phases;  ///< none with cuda_graph: a replay has no marks inside

  MemoryStats memory;               ///< of the device: peaks since the model was made
  std::int64_t peak_rss_bytes = 0;  ///< of the whole process, code and libraries too
  StepFaults faults;

  StepFlops flops;
  Ceilings ceilings;  ///< of the same run, with the same threads; on a GPU for the same dtype

  std::optional<StepProfile> profile;

  double gflops() const { return flops.routed / step_ms * 1e-6; }
};

/// Builds task, model and optimiser as training does and runs steps of it. Writes no file. Throws as training
/// does, ValueError for options out of range, and NumericError when a loss is not finite: what is skipped
/// then would not be measured.
StepBenchRecord run_step_bench(const RunConfig& config, const Family& family,
                               const StepBenchOptions& options);

}  // namespace moh
