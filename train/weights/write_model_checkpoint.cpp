#include "train/weights/write_model_folder.h"

#include <algorithm>
#include <string>

#include "core/error.h"
#include "train/checkpoint/checkpoint_writer.h"
#include "train/config/load_run_config.h"
#include "train/io/durable_file.h"
#include "train/io/file_ops.h"
#include "train/tasks/model_presets.h"

namespace moh {

namespace fs = std::filesystem;

namespace {

Precision precision_of(const fs::path& where, std::span<const TensorToWrite> tensors) {
  const std::string_view type = main_type(tensors);
  const bool same =
      std::ranges::all_of(tensors, [&](const TensorToWrite& t) { return t.stored_dtype == type; });
  if (same && type == "F32") return Precision::kFloat32;
  if (same && type == "BF16") return Precision::kBFloat16;
  throw CheckpointError(error_message(where.string(), "tensors", "F32 or BF16, one for all",
                                      same ? std::string(type) : "several types",
                                      "convert with --dtype float32 or --dtype bfloat16"));
}

/// The configuration of a run whose model this is. Its text is not known.
RunConfig run_of(const ModelConfig& model, const fs::path& config, const fs::path& name) {
  if (config.extension() != ".json") return load_run_config(config.string(), {}, llama_model_presets());
  RunConfig run;
  run.model = model;
  run.data.train = {"not-known.txt"};
  run.data.sequence_length = std::min(run.data.sequence_length, model.max_positions);
  run.output.dir = fs::path("runs") / name.filename();
  return run;
}

}  // namespace

void write_model_checkpoint(const fs::path& folder, const fs::path& name, const ModelConfig& model,
                            const fs::path& config, const WeightFile& weights,
                            std::span<const TensorToWrite> tensors, WriteProgress progress) {
  RunConfig run = run_of(model, config, name);
  run.precision = precision_of(weights.path(), tensors);
  const std::string text = print_resolved(run);
  const fs::path trial = folder / ".config.yaml";
  write_new_file(trial, text);
  try {
    load_run_config(trial.string(), {}, llama_model_presets());
  } catch (const ConfigError& error) {
    throw ConfigError("no run can have the model that " + config.string() + " describes:\n" + error.what());
  }
  remove_tree(trial);
  finish_model_only_checkpoint(folder, step_of_folder_name(name.filename().string()).value_or(0),
                               write_safetensors_file(folder / kModelFile, weights, tensors, progress), text);
}

}  // namespace moh
