#include "train/apps/convert/write_model_checkpoint.h"

#include <algorithm>
#include <string>

#include "core/error.h"
#include "train/trainer/config/load_run_config.h"
#include "train/trainer/task/load_model.h"
#include "train/trainer/task/model_config.h"
#include "train/trainer/task/stored_precision.h"
#include "train/trainer/task/trained_identity.h"
#include "train/weights/checkpoint/checkpoint.h"
#include "train/weights/checkpoint/train_state.h"
#include "train/weights/load_weights.h"

namespace moh {

namespace fs = std::filesystem;

namespace {

/// Sets the precision of the model and of its routers to that of the tensors.
void set_precision(const fs::path& where, std::span<const WeightInfo> tensors, const Families& families,
                   RunConfig& run) {
  if (take_precision(tensors, families, run)) return;
  const std::string_view type = main_type(tensors);
  const bool same = std::ranges::all_of(tensors, [&](const WeightInfo& t) { return t.stored_dtype == type; });
  throw CheckpointError(error_message(where.string(), "tensors", "F32 or BF16, one for all",
                                      same ? std::string(type) : "several types", dtype_advice(tensors)));
}

/// The configuration of a run with this model. Its training data are unknown.
RunConfig run_of(const FamilyConfig& model, const fs::path& config, const fs::path& name,
                 const Families& families) {
  if (config.extension() != ".json") {
    RunFile file(config.string(), {}, families.configs());
    return finish_run(file, families, ConfigUse::kModel);
  }
  RunConfig run = default_run(model);
  run.output.dir = fs::path("runs") / name.filename();
  return run;
}

/// Throws if the configuration could not be read back.
void check_readable(const std::string& text, const fs::path& config, const Families& families) {
  try {
    RunFile::of_text(kConfigFile, text, families.configs()).finish(ConfigUse::kModel);
  } catch (const ConfigError& error) {
    throw ConfigError("no run can have the model that " + config.string() + " describes:\n" + error.what());
  }
}

}  // namespace

void write_model_checkpoint(const fs::path& folder, const fs::path& name, const FamilyConfig& model,
                            const fs::path& config, const StoredModel& source,
                            std::span<const WeightInfo> tensors, WriteProgress progress) {
  const Families& families = source.families();
  RunConfig run = run_of(model, config, name, families);
  set_precision(source.weights().path(), tensors, families, run);
  const std::string text = print_resolved(run);
  check_readable(text, config, families);
  complete_checkpoint({.step = step_of_folder_name(name.filename().string()).value_or(0),
                       .trainer_json = model_only_json(trained_identity(source.location(), model)),
                       .config_yaml = text,
                       .files = families.of(run).weight_names().carried_files(source.location())},
                      {write_safetensors_file(folder / kModelFile, source.weights(), tensors, progress)}, {},
                      folder);
}

}  // namespace moh
