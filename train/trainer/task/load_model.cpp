#include "train/trainer/task/load_model.h"

#include <algorithm>
#include <span>
#include <utility>

#include "core/dry_run.h"
#include "core/error.h"
#include "models/active_heads.h"
#include "ops/linalg/gemm_options.h"
#include "train/base/formats/stored_dtype.h"
#include "train/base/io/durable_file.h"
#include "train/base/io/input_file.h"
#include "train/base/log/logging.h"
#include "train/comm/process_gpus.h"
#include "train/trainer/task/evaluated_part.h"
#include "train/trainer/task/model_source.h"
#include "train/trainer/task/stored_precision.h"
#include "train/trainer/task/trained_identity.h"
#include "train/weights/checkpoint/stored_checkpoint.h"
#include "train/weights/compare_weights.h"
#include "train/weights/foreign_formats.h"
#include "train/weights/load_weights.h"
#include "train/weights/renamed_weights.h"
#include "train/weights/weight_writer.h"

namespace moh {

void take_gpu(RunConfig& config, Communicator& processes) {
  if (processes.alone() || config.device == kCpu) return;
  if (config.device.index != 0) {
    throw ConfigError(error_message("device", "several processes", "cuda, of which each takes its own GPU",
                                    device_name(config.device),
                                    "CUDA_VISIBLE_DEVICES in the environment says which GPUs they see"));
  }
  config.device = gpu_of_process(processes, config.comm.backend);
}

void open_configured_device(const RunConfig& config, NewProducts new_products) {
  open_device(config.device);
  if (config.device == kCpu) return;
  GemmOptions options;
  if (const std::filesystem::path file = config.gemm_algorithms; !file.empty()) {
    constexpr std::uint64_t kMostBytes = 16 << 20;
    options.algorithms_name = file.string();
    if (std::filesystem::exists(file))
      options.algorithms = read_text_file(file, InputKind::kData, kMostBytes);
    options.search = new_products != NewProducts::kFirstProposal;
    if (new_products == NewProducts::kSearchAndKeep)
      options.on_found = [file](const std::string& text) { write_file_durably(file, text); };
  }
  set_gemm_options(options);
}

Placement placement_of(const RunConfig& run) {
  return {dtype_of(run.precision), run.device, {.tf32 = run.tf32, .attention = run.attention.backend}};
}

std::vector<WeightInfo> expected_tensors(const Family& family, const FamilyConfig& config, DType dtype) {
  const DryRunScope no_memory;
  return infos_of(tensors_of(family.make_model(config, {dtype, kCpu})->parameters()));
}

std::unique_ptr<Model> make_initialised_model(const Family& family, const RunConfig& run) {
  std::unique_ptr<Model> model = family.make_model(*run.family, placement_of(run));
  model->initialise(run.random_seed());
  return model;
}

namespace {

/// Opens the tensors, and verifies the checksums of a checkpoint of moh.
std::unique_ptr<WeightFile> open_verified(const ModelLocation& location, const std::string& part) {
  std::unique_ptr<WeightFile> weights = open_weights(location, part);
  if (const auto* stored = dynamic_cast<const StoredTensors*>(weights.get())) stored->verify();
  return weights;
}

/// The model of weights without a configuration, of which tensors tell a part, and settings the rest.
std::unique_ptr<FamilyConfig> model_with(const std::vector<std::string>& settings,
                                         const ModelLocation& location, const WeightFile& weights,
                                         const Families& families) {
  TensorModel found = model_in_tensors(weights, families);
  if (found.model == nullptr) {
    refuse_foreign_names(weights);
    throw ConfigError(error_message(
        location.weights.string(), "", "a configuration next to the weights", "none",
        "name a folder with config.json or a run of moh; of a model that you can "
        "describe, write its `task` and `model` into a CONFIG.yaml, and add --config CONFIG.yaml, or "
        "name DIR of "
        "'moh convert --from " +
            location.weights.string() + " --to DIR --format moh --config CONFIG.yaml'"));
  }
  require_told(location.weights, found, [&](std::string_view key) {
    return std::ranges::any_of(
        settings, [&](const std::string& setting) { return setting.starts_with(std::string(key) + "="); });
  });
  return std::move(found.model);
}

/// The model at `path`, described by `description` if nothing else describes it.
ModelLocation located(const std::filesystem::path& path, const std::filesystem::path& description) {
  ModelLocation location = locate_model(path);
  if (description.empty()) return location;
  if (!location.config.empty())
    throw ConfigError(error_message("--config " + description.string(), "", "weights without a configuration",
                                    "those that " + location.config.string() + " describes"));
  location.config = description;
  return location;
}

/// The run of a model that was not trained by moh: defaults for everything but the model, in the precision of
/// its weights.
std::string run_text(const ModelLocation& location, const WeightFile& weights, const Families& families,
                     const std::vector<std::string>& settings) {
  std::unique_ptr<FamilyConfig> model = read_model_config(location, families);
  if (model == nullptr) model = model_with(settings, location, weights, families);
  RunConfig run = default_run(*model);
  run.output.dir =
      std::filesystem::path("runs") /
      (location.config.empty() ? location.weights.stem() : location.config.parent_path().filename());
  const std::span<const WeightInfo> tensors = weights.tensors();
  if (!take_precision(tensors, families, run) && !tensors.empty() && main_type(tensors) == "BF16")
    run.precision = Precision::kBFloat16;
  return print_resolved(run);
}

RunConfig read_config(const ModelLocation& location, const WeightFile& weights, const Families& families,
                      const std::vector<std::string>& settings, ConfigUse use) {
  if (location.is_checkpoint)
    return load_run_config(location.config.string(), settings, families.configs(), use);
  const auto& described_by = location.config.empty() ? location.weights : location.config;
  const std::string name = "the run that " + described_by.string() + " stands for";
  return RunFile::of_text(name, run_text(location, weights, families, settings), families.configs(), settings)
      .finish(use);
}

/// Throws CheckpointError unless the weights match the tensors `expected` of a model.
void require_model(const WeightFile& weights, std::span<const WeightInfo> expected,
                   const WeightNames& names) {
  const WeightDifferences differences = compare_weights(expected, weights, &names);
  if (differences.none()) return;
  throw CheckpointError(
      "checkpoint " + weights.path().string() +
      ": the tensors do not match the model that its configuration describes: " + list(differences));
}

/// Passes what the training of a model found out to its configuration.
void remember_training(const ModelLocation& location, const Families& families, FamilyConfig& config) {
  std::unique_ptr<FamilyConfig> described;
  if (!location.is_checkpoint) described = read_model_config(location, families);
  config.remember(trained_identity(location, described != nullptr ? *described : config));
}

/// Logs a line if most of the weights have another precision than the model.
void note_conversion(const WeightFile& weights, DType dtype) {
  const std::string_view stored = main_type(weights.tensors()), wanted = safetensors_dtype_name(dtype);
  if (stored == wanted) return;
  const bool exact = wanted == "F32" && (stored == "BF16" || stored == "F16");
  log_info("checkpoint " + weights.path().string() + ": its weights are " + std::string(stored) + ", " +
           (exact ? "upcast to " : "rounded to ") + std::string(dtype_name(dtype)));
}

}  // namespace

RunConfig with_first_heads(RunConfig run) {
  MohConfig* const moh = run.family->moh();
  if (moh != nullptr && moh->shared_heads.to_be_measured()) moh->shared_heads = {};
  return run;
}

std::string active_heads_of(const RunConfig& run, const Family& family) {
  const DryRunScope no_memory;
  return describe_active_heads(*family.make_model(*with_first_heads(run).family, placement_of(run)));
}

RunConfig teacher_run(const RunConfig& run) {
  RunConfig dense = run;
  if (MohConfig* moh = dense.family->moh()) *moh = {};
  return dense;
}

bool has_own_teacher(const RunConfig& run) {
  return run.init.distill.weight > 0 && run.init.distill.teacher == TeacherKind::kSource;
}

const Family& family_of_model(const std::filesystem::path& path, const Families& families,
                              const std::filesystem::path& description) {
  const ModelLocation location = located(path, description);
  if (location.is_checkpoint) return families.of(stored_run(location, families));
  std::unique_ptr<FamilyConfig> model = read_model_config(location, families);
  if (model == nullptr) model = model_in_tensors(*open_weights(location), families).model;
  return model != nullptr ? families.of(*model) : *families.all().front();
}

LoadedModel load_model(const std::filesystem::path& path, const Families& families,
                       const std::vector<std::string>& overrides, ConfigUse use, Communicator& processes,
                       const std::filesystem::path& description) {
  const ModelLocation location = located(path, description);
  std::vector<std::string> settings;
  if (location.is_checkpoint) {
    static_cast<void>(
        StoredCheckpoint(location.weights, LoadScope::kModelOnly));  // verifies its configuration
    settings = settings_of_checkpoint(location.weights, families);
  }
  // CUDA graphs and NCCL concern training only, and must not prevent loading the model on a CPU.
  settings.insert(settings.end(), {"cuda_graph=false", "comm.backend=auto", "attention.backend=auto"});
  settings.insert(settings.end(), overrides.begin(), overrides.end());
  std::unique_ptr<WeightFile> weights =
      open_verified(location, evaluated_part(location, families, settings, overrides));
  LoadedModel loaded;
  loaded.path = location.is_checkpoint ? location.weights : path;
  loaded.config = read_config(location, *weights, families, settings, use);
  remember_training(location, families, *loaded.config.family);
  take_gpu(loaded.config, processes);
  open_configured_device(loaded.config, NewProducts::kFirstProposal);
  loaded.family = &families.of(loaded.config);
  const DType dtype = dtype_of(loaded.config.precision);
  const WeightNames& names = loaded.family->weight_names();
  const std::vector<WeightInfo> expected = expected_tensors(*loaded.family, *loaded.config.family, dtype);
  weights = under_names_of(expected, names, std::move(weights));
  require_model(*weights, expected, names);
  note_conversion(*weights, dtype);
  loaded.model = loaded.family->make_model(*loaded.config.family, placement_of(loaded.config));
  load_weights(loaded.model->parameters(), *weights);
  return loaded;
}

}  // namespace moh
