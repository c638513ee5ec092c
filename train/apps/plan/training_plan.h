#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "train/apps/plan/dry_step.h"
#include "train/trainer/config/run_config.h"

namespace moh {

/// Peak compute rate of a GPU, from a data sheet or a measurement.
struct PeakRate {
  double tflops = 0;
  std::string name;        ///< of the GPU; empty if the user gave a number
  std::string arithmetic;  ///< of the rate: "bfloat16", "float32 on tensor cores (TF32)", ...; likewise
  std::string hint;        ///< higher rates of this GPU in other precisions; empty if there is none
};

/// Options of `moh plan` besides the configuration.
struct PlanOptions {
  std::int64_t gpus = 1;                     ///< number of devices, which share the samples of a step
  std::optional<std::int64_t> zero;          ///< stage of ZeRO, in place of comm.zero
  std::optional<std::int64_t> memory_bytes;  ///< of each device; without it nothing is said about fitting
  double mfu = 0.4;                          ///< model FLOP utilisation, in (0, 1]
  std::optional<PeakRate> peak;              ///< of each device; without it no time is estimated
  bool largest_batches = true;               ///< MemoryChoice::largest_batch, if the memory is known
  bool no_memory = false;                    ///< without TrainingPlan::memory and least: a tenth of the work
};

/// Parses "141GB", "79.6 GiB", "24e9": decimal units (kB, MB, GB, TB), binary ones (KiB, MiB, GiB, TiB), or
/// bytes. Throws ValueError naming `option`.
std::int64_t parse_memory(const std::string& text, const std::string& option);

/// Parses "989" (TFLOP/s), or the name of a GPU whose rates are published: "H100", "H200", "A100", or as the
/// driver reports it (train/base/measure/ceilings.h). The rate is that of `dtype`, with `tf32` that of tensor
/// cores for float32. Throws ValueError naming `option`.
PeakRate parse_peak(const std::string& text, DType dtype, const std::string& option, bool tf32 = false);
/// Whether `text` is a number for parse_peak(), and not the name of a GPU.
bool is_number(const std::string& text);

/// Checkpoints in the folder of a run.
struct DiskPlan {
  std::int64_t bytes = 0;  ///< of one
  std::int64_t most = 0;   ///< at a time, one of them while it is written

  /// Bytes of all of them; the largest number if that is too small for it.
  std::int64_t total() const {
    std::int64_t product = 0;
    return __builtin_mul_overflow(bytes, most, &product) ? std::numeric_limits<std::int64_t>::max() : product;
  }
};

/// The memory of a device under one setting of model.recompute.
struct MemoryChoice {
  RecomputeLevel recompute = RecomputeLevel::kNone;
  MemoryPlan memory;
  std::int64_t largest_batch = 0;  ///< train.batch_size that still fits in PlanOptions::memory_bytes; 0: none
};

/// Bytes that a device needs at least in a precision: with train.batch_size 1 and the model.recompute that
/// takes least, which need not be kLayer: a layer that is computed again is there as a whole, which in models
/// of few layers is more than what its parts keep.
struct LeastMemory {
  Precision precision = Precision::kFloat32;
  RecomputeLevel recompute = RecomputeLevel::kNone;
  std::int64_t bytes = std::numeric_limits<std::int64_t>::max();
};

/// Estimated speed and duration of training.
struct TimePlan {
  double items_per_s = 0, step_seconds = 0;
  std::optional<double> seconds;             ///< of the run's steps, if their number is known
  std::optional<double> evaluation_seconds;  ///< of its evaluations, if their size is known, too
};

/// The evaluations of a run.
struct EvaluationPlan {
  std::int64_t count = 0;
  /// Forward passes of each, in items, pictures that the model draws among them. Nothing if all held-out data
  /// are evaluated, whose size is not known without them.
  std::optional<std::int64_t> items;
};

/// Estimated memory of each device, operations and time of a training run.
struct TrainingPlan {
  RunConfig config;  ///< of one device, with its share as train.batch_size and train.accumulate
  PlanOptions options;
  DryStep step;              ///< of a single micro-batch
  StepFlops flops_per_item;  ///< forward and backward pass
  /// One for each RecomputeLevel, in their order, or for kNone alone where the family does not recompute;
  /// none with PlanOptions::no_memory.
  std::vector<MemoryChoice> memory;
  std::array<LeastMemory, 2> least = {
      {{.precision = Precision::kFloat32}, {.precision = Precision::kBFloat16}}};
  std::optional<TimePlan> time;

  /// Counts the best checkpoint if checkpoint.keep_best is set, and those of checkpoint.keep.
  DiskPlan disk() const;
  std::int64_t items_per_sample() const { return step.items / config.train.batch_size; }
  /// Items of all devices together: each computes its own micro-batches (data parallelism).
  std::int64_t items_per_step() const;
  /// Steps of the run; nothing for epochs of data of unknown size.
  std::optional<std::int64_t> steps() const;
  /// Nothing for such data.
  std::optional<EvaluationPlan> evaluations() const;
  /// Operations of all evaluations over those of all steps; nothing where one is not known.
  std::optional<double> evaluation_share() const;
  const MemoryChoice& configured() const;
  /// The choice that computes least again of those that fit, or null.
  const MemoryChoice* least_recomputing() const;
  bool fits(const MemoryChoice& choice) const;
};

/// Throws ValueError for options out of range, and as dry_step.
TrainingPlan plan_training(const RunConfig& config, const PlanOptions& options, const MakeTask& make_task);

/// The setting of model.recompute that computes least again and fits in `bytes` of each of `gpus` devices.
/// Throws ConfigError if none does, naming the --memory that gave it, and as plan_training().
MemoryChoice choose_recompute(const RunConfig& config, std::int64_t gpus, std::int64_t bytes,
                              const MakeTask& make_task);

}  // namespace moh
