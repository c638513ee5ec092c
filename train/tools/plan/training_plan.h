#pragma once

#include <array>
#include <cstdint>
#include <iosfwd>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "train/tools/plan/memory_plan.h"
#include "train/tools/plan/plan_options.h"

namespace moh {

/// The memory of a device under one setting of model.recompute.
struct MemoryChoice {
  RecomputeLevel recompute = RecomputeLevel::kNone;
  MemoryPlan memory;
  std::int64_t largest_batch = 0;  ///< train.batch_size that still fits in PlanOptions::memory_bytes; 0: none
};

/// The least that a device needs: one sequence per micro-batch, layers computed again.
struct LeastMemory {
  Precision precision = Precision::kFloat32;
  std::int64_t bytes = 0;
};

/// How long training takes.
struct TimePlan {
  double items_per_s = 0, step_seconds = 0, seconds = 0;
};

/// What a training run will take: memory of each device, operations, time.
struct TrainingPlan {
  RunConfig config;
  PlanOptions options;
  std::int64_t parameters = 0;
  double activated_heads = 1;
  bool is_routed = false;
  Unit unit;                                                       ///< of the inputs
  std::int64_t items_per_sample = 0;                               ///< in this unit
  std::vector<std::pair<std::string, std::int64_t>> sample_sizes;  ///< Task::sample_sizes()
  StepFlops flops_per_item;                                        ///< forward and backward pass
  std::vector<MemoryChoice> memory;  ///< without and, where the family has it, with recomputation
  std::array<LeastMemory, 2> least;  ///< in float32 and bfloat16
  std::optional<TimePlan> time;

  /// Of all devices together: each computes micro-batches of its own (data parallelism).
  std::int64_t items_per_step() const;
  const MemoryChoice& configured() const;
  bool fits(const MemoryChoice& choice) const;
};

/// Throws ValueError for options out of range, and as dry_step.
TrainingPlan plan_training(const RunConfig& config, const PlanOptions& options, const MakeTask& make_task);

/// One JSON object with all of it, and a newline. `config` and `overrides` are what the user named.
void write_json_line(std::ostream& out, const TrainingPlan& plan, const std::string& config,
                     const std::vector<std::string>& overrides);
/// The same as a table for people.
void write_table(std::ostream& out, const TrainingPlan& plan);

}  // namespace moh
