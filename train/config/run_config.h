#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/device.h"
#include "models/layers/head_routing.h"
#include "ops/attention/backend.h"
#include "ops/moh/router_options.h"
#include "ops/rope/rope_scaling.h"
#include "train/config/head_set.h"
#include "train/config/init_config.h"
#include "train/config/moh_choices.h"
#include "train/config/name_alias.h"
#include "train/config/per_layer.h"

/// Everything that a training run depends on, as plain data. What each field means, and what it may hold, is
/// said once, in run_fields.cpp (docs/config.md is made from it); rules between fields are in run_rules.cpp.
namespace moh {

enum class TaskKind { kLanguageModel };
enum class Precision { kFloat32, kBFloat16 };
enum class RecomputeLevel { kNone, kLayer };
enum class TokenizerKind { kByte };
enum class OptimizerKind { kAdamW };
enum class ScheduleKind { kCosine, kConstant };
enum class NonFinitePolicy { kStop, kSkip };

/// The names in YAML, in the order of the enumerators.
std::span<const std::string_view> names_of(TaskKind);
std::span<const std::string_view> names_of(Precision);
std::span<const std::string_view> names_of(AttentionBackend);
std::span<const std::string_view> names_of(RopeScalingKind);
std::span<const std::string_view> names_of(BalanceLoss);
std::span<const std::string_view> names_of(RouterPrecision);
std::span<const std::string_view> names_of(RecomputeLevel);
std::span<const std::string_view> names_of(TokenizerKind);
std::span<const std::string_view> names_of(OptimizerKind);
std::span<const std::string_view> names_of(ScheduleKind);
std::span<const std::string_view> names_of(NonFinitePolicy);

/// Other spellings that YAML may use: fp32, bf16. What is printed has the names.
std::span<const config::NameAlias> aliases_of(Precision);

/// The name in YAML: name_of(Precision::kFloat32) is "float32".
template <class E>
std::string_view name_of(E value) {
  return names_of(value)[static_cast<std::size_t>(value)];
}

struct OutputConfig {
  std::filesystem::path dir;  ///< load_run_config fills in runs/ and the config's name

  bool operator==(const OutputConfig&) const = default;
};

/// Mixture-of-Head attention (arXiv 2410.11842).
struct HeadMixtureConfig {
  RouterChoice router = RouterChoice::kNone;
  PerLayer shared;
  HeadSet shared_heads;
  PerLayer routed;
  GateScalingChoice gate_scaling = GateScalingChoice::kCode;
  bool two_stage = true;
  StraightThroughChoice straight_through = StraightThroughChoice::kSelected;
  BalanceLoss balance_loss = BalanceLoss::kCode;
  double balance_weight = 0.01;
  RouterPrecision router_precision = RouterPrecision::kSame;

  bool operator==(const HeadMixtureConfig&) const = default;
};

struct ModelConfig {
  static constexpr std::string_view kNoPreset = "none";

  std::string preset{kNoPreset};
  std::int64_t vocab_size = 256;
  std::int64_t layers = 6;
  std::int64_t hidden = 256;
  std::int64_t intermediate = 704;
  std::int64_t heads = 8;
  std::int64_t kv_heads = 0;
  std::int64_t head_dim = 0;
  std::int64_t max_positions = 2048;
  double norm_eps = 1e-5;
  double rope_theta = 10000;
  RopeScaling rope_scaling;
  bool tied_embeddings = false;
  double dropout = 0;
  double init_std = 0.02;
  RecomputeLevel recompute = RecomputeLevel::kNone;
  HeadMixtureConfig moh;

  /// kv_heads and head_dim with what their 0 stands for.
  std::int64_t num_kv_heads() const { return kv_heads == 0 ? heads : kv_heads; }
  std::int64_t head_width() const { return head_dim == 0 ? hidden / heads : head_dim; }

  bool operator==(const ModelConfig&) const = default;
};

struct DataConfig {
  std::vector<std::filesystem::path> train;
  std::vector<std::filesystem::path> validation;
  double validation_fraction = 0.1;
  TokenizerKind tokenizer = TokenizerKind::kByte;
  std::int64_t sequence_length = 256;

  bool operator==(const DataConfig&) const = default;
};

struct TrainConfig {
  std::int64_t steps = 1000;
  std::int64_t batch_size = 16;
  std::int64_t accumulate = 1;
  double stop_after_seconds = 0;

  bool operator==(const TrainConfig&) const = default;
};

struct OptimConfig {
  OptimizerKind name = OptimizerKind::kAdamW;
  double learning_rate = 1e-3;
  std::array<double, 2> betas = {0.9, 0.95};
  double eps = 1e-8;
  double weight_decay = 0.1;
  double clip_grad_norm = 1;

  bool operator==(const OptimConfig&) const = default;
};

struct ScheduleConfig {
  ScheduleKind kind = ScheduleKind::kCosine;
  std::int64_t warmup_steps = 100;
  double warmup_start = 0;
  double min_learning_rate = 0;
  std::int64_t decay_steps = 0;

  bool operator==(const ScheduleConfig&) const = default;
};

struct LogConfig {
  std::int64_t every = 10;

  bool operator==(const LogConfig&) const = default;
};

struct EvalConfig {
  std::int64_t every = 250;
  bool at_start = false;
  std::int64_t max_tokens = 0;

  bool operator==(const EvalConfig&) const = default;
};

struct CheckpointConfig {
  std::int64_t every = 500;
  std::int64_t keep_last = 2;
  bool keep_best = true;

  bool operator==(const CheckpointConfig&) const = default;
};

struct SampleConfig {
  std::string prompt = "\n";
  std::int64_t tokens = 256;
  double temperature = 0.8;
  std::int64_t top_k = 0;
  double top_p = 1;

  bool operator==(const SampleConfig&) const = default;
};

struct GuardConfig {
  NonFinitePolicy non_finite = NonFinitePolicy::kStop;
  std::int64_t max_skipped = 10;

  bool operator==(const GuardConfig&) const = default;
};

struct AttentionConfig {
  AttentionBackend backend = AttentionBackend::kAuto;

  bool operator==(const AttentionConfig&) const = default;
};

struct RunConfig {
  TaskKind task = TaskKind::kLanguageModel;
  std::int64_t seed = 0;
  Device device = kCpu;
  Precision precision = Precision::kFloat32;
  bool tf32 = false;
  std::string gemm_algorithms;
  std::int64_t threads = 0;
  bool cuda_graph = false;
  AttentionConfig attention;
  OutputConfig output;
  ModelConfig model;
  InitConfig init;
  DataConfig data;
  TrainConfig train;
  OptimConfig optim;
  ScheduleConfig schedule;
  LogConfig log;
  EvalConfig eval;
  CheckpointConfig checkpoint;
  SampleConfig sample;
  GuardConfig guard;

  bool operator==(const RunConfig&) const = default;
};

/// Models that a configuration may begin with: published ones, for `model.preset`, by names and the fields
/// that a name stands for; and that of the checkpoint which `init.from` names. The program that knows the
/// models provides it.
struct ModelPresets {
  std::vector<std::string> names;
  /// Called with one of the names only.
  ModelConfig (*get)(std::string_view name) = nullptr;
  /// The model that a run with init.from begins with, or nothing when the configuration says all of it. Given
  /// the configuration as far as it can be read without, and whether it gives every size. May throw what
  /// opening a checkpoint throws. Where it is not set, no checkpoint is opened.
  std::function<std::optional<ModelConfig>(const RunConfig& run, bool sizes_given)> of_source = {};
};

}  // namespace moh
