#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "core/device.h"
#include "core/dtype.h"
#include "core/math_mode.h"
#include "models/layers/attention_gate.h"
#include "train/comm/comm_backend.h"
#include "train/trainer/config/family_config.h"
#include "train/trainer/optim/adamw_options.h"
#include "train/trainer/optim/lr_schedule.h"
#include "train/trainer/optim/precision.h"

/// Everything that a training run depends on, as plain data. The meaning and allowed values of each field are
/// in run_config.cpp and in the family's field list (docs/config.md is generated from them); rules between
/// fields are in run_rules.cpp and in the family's check.
namespace moh {

enum class NonFinitePolicy { kStop, kSkip };
enum class NewRows { kMean, kNormal, kZeros };
enum class RouterStart { kZero, kRandom, kCalibrated };
enum class TeacherKind { kTwin, kSource };

struct OutputConfig {
  std::filesystem::path dir;  ///< default after reading a file: see docs/config.md
};

/// Measurements on training data before a run starts from a dense checkpoint.
struct CalibrationConfig {
  std::int64_t batches = 8;
};

/// How a dense checkpoint is turned into a Mixture-of-Head model, in addition to its routing, model.moh.
struct InitMohConfig {
  RouterStart router_start = RouterStart::kCalibrated;
  CalibrationConfig calibration;
};

/// A loss that keeps the model near a dense one.
struct DistillConfig {
  double weight = 0;  ///< 0: none
  double temperature = 1;
  TeacherKind teacher = TeacherKind::kSource;
};

/// The checkpoint that a run starts from.
struct InitConfig {
  std::string from;  ///< empty: random weights
  std::string part;
  NewRows new_rows = NewRows::kMean;
  InitMohConfig moh;
  DistillConfig distill;
};

struct TrainConfig {
  std::int64_t steps = 1000;
  std::int64_t epochs = 0;  ///< 0: `steps`
  std::int64_t batch_size = 16;
  std::int64_t accumulate = 1;
  double stop_after_seconds = 0;
};

struct OptimConfig {
  AdamWOptions adamw;
};

/// The learning rate by epochs.
struct EpochSchedule {
  std::int64_t warmup = 0, decay = 0, cooldown = 0;  ///< epochs; 0: LrSchedule's steps
  bool stepwise = true;                              ///< false: the rate is set once per epoch
  bool late = false;                                 ///< StepRates::late
};

/// The moving average of the weights.
struct EmaConfig {
  double decay = 0;      ///< 0: none
  bool warmup = true;    ///< the decay begins lower (decay_at)
  bool evaluate = true;  ///< evaluations, and what loads a checkpoint, take the average
};

struct LogConfig {
  std::int64_t every = 10;
  bool tensorboard = true;
};

struct EvalConfig {
  std::int64_t every = 250;
  std::int64_t every_epochs = 0;      ///< 0: `every`
  std::int64_t each_epoch_after = 0;  ///< epochs; later ones are evaluated each. 0: none
  bool at_start = false;
};

struct CheckpointConfig {
  std::int64_t every = 500;
  std::int64_t every_epochs = 0;  ///< 0: `every`
  std::int64_t keep_last = 2;
  bool keep_best = true;
  std::vector<std::int64_t> keep;  ///< steps that are saved, and whose checkpoints stay for good
  bool asynchronous = true;
};

/// Steps whose loss or gradients are far above those before.
struct SpikeConfig {
  double loss = 0;       ///< standard deviations; 0: no limit
  double grad_norm = 0;  ///< likewise
  std::int64_t window = 100;
};

struct GuardConfig {
  NonFinitePolicy non_finite = NonFinitePolicy::kStop;
  std::int64_t max_skipped = 10;
  SpikeConfig spike;
};

/// Settings of the communication between the processes of a run: the section `comm`.
struct CommConfig {
  CommBackend backend = CommBackend::kAuto;
  double timeout = 600;  ///< seconds; 0: no limit
  std::int64_t bucket_mib = 4;
  Precision gradients = Precision::kFloat32;
  std::int64_t zero = 0;  ///< stage of ZeRO

  std::size_t bucket_bytes() const { return static_cast<std::size_t>(bucket_mib) << 20; }
};

/// Steps of which a trace is written.
struct ProfileConfig {
  std::vector<std::int64_t> steps;  ///< the first and the last one; empty: none
};

struct AttentionConfig {
  AttentionBackend backend = AttentionBackend::kAuto;
  bool deterministic = true;
};

struct RunConfig {
  std::string task;
  std::int64_t seed = 0;
  Device device = kCpu;
  Precision precision = Precision::kFloat32;
  bool tf32 = false;
  std::string gemm_algorithms;
  std::int64_t threads = 0;
  bool cuda_graph = false;
  AttentionConfig attention;
  OutputConfig output;
  InitConfig init;
  TrainConfig train;
  OptimConfig optim;
  LrSchedule schedule;  ///< its peak is optim.learning_rate
  EpochSchedule schedule_epochs;
  EmaConfig ema;
  LogConfig log;
  EvalConfig eval;
  CheckpointConfig checkpoint;
  GuardConfig guard;
  CommConfig comm;
  ProfileConfig profile;
  FamilyValue family;  ///< sections of the family of `task`: model, data, ...

  std::uint64_t random_seed() const { return static_cast<std::uint64_t>(seed); }
};

/// A run of that family with all defaults.
RunConfig default_run(const FamilyConfig& family);

/// The micro-batches of each of `processes` processes that share the samples of a step: fewer if these can be
/// divided evenly, else smaller ones. The result's batch_size * accumulate is the share of one process.
/// Nothing if the samples cannot be divided, or their number overflows.
std::optional<TrainConfig> share_of_process(TrainConfig train, std::int64_t processes);

/// Throws ConfigError if a run with optim.fused_update has more micro-batches in a step than there are
/// `processes`.
void require_one_micro_batch_each(const RunConfig& config, std::int64_t processes);

/// The section with which each of `processes` makes its task: micro-batches of the size of theirs, all
/// micro-batches of a step. Throws ConfigError if the samples of a step cannot be divided, and as
/// require_one_micro_batch_each().
TrainConfig per_rank_config(const RunConfig& config, int processes);

/// The length of a run, in steps.
struct RunLength {
  std::int64_t steps = 0;
  std::int64_t steps_per_epoch = 1;

  /// `epochs` in steps, or for 0 epochs `steps`.
  std::int64_t of(std::int64_t epochs, std::int64_t other_steps) const {
    return epochs > 0 ? epochs * steps_per_epoch : other_steps;
  }
};
/// `steps_per_epoch` is the result of Task::steps_per_epoch(); 0, where it is not known, counts as 1.
RunLength length_of(const RunConfig& run, std::int64_t steps_per_epoch);

/// The schedule with the last step of its cosine in numbers.
StepRates rates_of(const RunConfig& run, const RunLength& length);

namespace config {

/// The section `moh` of a model of any family.
Section describe(MohConfig& config);
/// Adds the key `recompute` to the section `model` of any family.
void add_recompute(RecomputeLevel& level, Section& model);
/// The key `attention_gate`, as add_recompute().
void add_attention_gate(AttentionGate& gate, Section& model);
/// The fields that runs of every family have; `task` is the name of one of the families.
Section describe_common(RunConfig& run, FamilyConfigs families);
/// All fields of a run, including those of its family.
Section describe(RunConfig& run, FamilyConfigs families);

}  // namespace config

}  // namespace moh
