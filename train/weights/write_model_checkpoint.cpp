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

/// Sets the precision of the model and of its routers to that of the tensors. Only routers may differ from
/// the rest: as float32 in a bfloat16 model.
void set_precision(const fs::path& where, std::span<const TensorToWrite> tensors, RunConfig& run) {
  const std::string_view type = main_type(tensors);
  std::int64_t routers = 0, wide_routers = 0;
  bool same = true;
  for (const TensorToWrite& t : tensors) {
    const bool router = is_router_weight(t.tensor->name), wide = router && t.stored_dtype == "F32";
    routers += router;
    wide_routers += wide;
    same &= t.stored_dtype == type || (wide && type == "BF16");
  }
  same &= wide_routers == 0 || wide_routers == routers;
  if (same && (type == "F32" || type == "BF16")) {
    run.precision = type == "F32" ? Precision::kFloat32 : Precision::kBFloat16;
    if (routers > 0 && type == "BF16")
      run.model.moh.router_precision = wide_routers > 0 ? RouterPrecision::kFloat32 : RouterPrecision::kSame;
    return;
  }
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
  set_precision(weights.path(), tensors, run);
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
