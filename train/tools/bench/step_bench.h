#pragma once

#include <cstdint>
#include <iosfwd>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/allocator.h"
#include "train/bench/ceilings.h"
#include "train/config/run_config.h"
#include "train/run/train_step.h"
#include "train/tasks/family.h"
#include "train/tools/bench/step_profile.h"
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

/// Times of the parts of a step, in milliseconds.
struct PhaseTimes {
  double forward_ms = 0, backward_ms = 0, optimizer_ms = 0;
};

/// What was measured. Times in milliseconds, medians over the steps; on a GPU those of the device.
struct StepBenchRecord {
  std::string config;  ///< the file's name
  std::vector<std::string> overrides;
  std::string device, dtype;
  std::string isa;  ///< of the CPU's kernels
  std::string gpu;  ///< what it is, driver and CUDA included; empty: the CPU computes
  bool random_data = false;
  bool cuda_graph = false;
  std::int64_t parameters = 0;
  std::int64_t batch_size = 0, accumulate = 0;
  std::vector<std::pair<std::string, std::int64_t>> sample_sizes;  ///< {"sequence_length", 256}
  std::int64_t items = 0;                                          ///< inputs of a step, in `unit`
  int threads = 0;
  std::int64_t warmup = 0, steps = 0;

  double step_ms = 0;
  double step_ms_spread = 0;         ///< (90th - 10th percentile) / median
  std::string unit;                  ///< of the task's inputs: "tokens"
  double items_per_s = 0;            ///< inputs of a step / step_ms
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

/// One JSON object with all fields, and a newline.
void write_json_line(std::ostream& out, const StepBenchRecord& record);
/// The same as a table for people.
void write_table(std::ostream& out, const StepBenchRecord& record);

}  // namespace moh
