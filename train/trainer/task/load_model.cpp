#include "train/trainer/task/load_model.h"

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
#include "train/trainer/task/stored_model.h"
#include "train/trainer/task/trained_identity.h"
#include "train/weights/checkpoint/stored_checkpoint.h"
#include "train/weights/compare_weights.h"
#include "train/weights/load_weights.h"
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
  options.on_refused = [](const std::string& refusal) { log_warning(refusal); };
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
  return {dtype_of(run.precision),
          run.device,
          {.tf32 = run.tf32,
           .attention = run.attention.backend,
           .deterministic_attention = run.attention.deterministic}};
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

/// Reads all of a checkpoint of moh, and compares its checksums.
void verify(const WeightFile& weights) {
  if (const auto* stored = dynamic_cast<const StoredTensors*>(&weights)) stored->verify();
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
void remember_training(const StoredModel& stored, FamilyConfig& config) {
  const FamilyConfig* const described = stored.location().is_checkpoint ? nullptr : stored.config();
  config.remember(trained_identity(stored.location(), described != nullptr ? *described : config));
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

LoadedModel load_model(const std::filesystem::path& path, const Families& families,
                       const std::vector<std::string>& overrides, ConfigUse use, Communicator& processes,
                       const std::filesystem::path& description) {
  StoredModel stored(path, families);
  stored.describe_by(description);
  return load_model(std::move(stored), overrides, use, processes);
}

LoadedModel load_model(StoredModel stored, const std::vector<std::string>& overrides, ConfigUse use,
                       Communicator& processes) {
  std::vector<std::string> settings = stored.settings();
  // CUDA graphs and NCCL concern training only, and must not prevent loading the model on a CPU.
  settings.insert(settings.end(), {"cuda_graph=false", "comm.backend=auto", "attention.backend=auto"});
  settings.insert(settings.end(), overrides.begin(), overrides.end());
  stored.take_evaluated_part(settings, overrides);
  verify(stored.weights());
  LoadedModel loaded;
  loaded.path = stored.path();
  loaded.config = stored.run(settings, use);
  remember_training(stored, *loaded.config.family);
  take_gpu(loaded.config, processes);
  open_configured_device(loaded.config, NewProducts::kFirstProposal);
  loaded.family = &stored.families().of(loaded.config);
  const DType dtype = dtype_of(loaded.config.precision);
  const WeightNames& names = loaded.family->weight_names();
  const std::vector<WeightInfo> expected = expected_tensors(*loaded.family, *loaded.config.family, dtype);
  stored.take_names_of(expected, names);
  require_model(stored.weights(), expected, names);
  note_conversion(stored.weights(), dtype);
  loaded.model = loaded.family->make_model(*loaded.config.family, placement_of(loaded.config));
  load_weights(loaded.model->parameters(), stored.weights());
  return loaded;
}

}  // namespace moh
