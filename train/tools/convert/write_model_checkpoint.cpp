#include "train/tools/convert/write_model_checkpoint.h"

#include <algorithm>
#include <string>

#include "core/error.h"
#include "train/checkpoint/checkpoint_writer.h"
#include "train/config/load_run_config.h"
#include "train/tasks/model_source.h"

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
    if (MohConfig* moh = run.family->moh(); moh != nullptr && routers > 0 && type == "BF16")
      moh->router_precision = wide_routers > 0 ? RouterPrecision::kFloat32 : RouterPrecision::kSame;
    return;
  }
  throw CheckpointError(error_message(where.string(), "tensors", "F32 or BF16, one for all",
                                      same ? std::string(type) : "several types",
                                      "convert with --dtype float32 or --dtype bfloat16"));
}

/// The configuration of a run whose model this is. What it was trained on is not known.
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

/// Refuses what could not be read again.
void check_readable(const std::string& text, const fs::path& config, const Families& families) {
  try {
    RunFile::of_text(kConfigFile, text, families.configs()).finish(ConfigUse::kModel);
  } catch (const ConfigError& error) {
    throw ConfigError("no run can have the model that " + config.string() + " describes:\n" + error.what());
  }
}

}  // namespace

void write_model_checkpoint(const fs::path& folder, const fs::path& name, const FamilyConfig& model,
                            const fs::path& config, const Families& families, const WeightFile& weights,
                            std::span<const TensorToWrite> tensors, WriteProgress progress) {
  RunConfig run = run_of(model, config, name, families);
  set_precision(weights.path(), tensors, run);
  const std::string text = print_resolved(run);
  check_readable(text, config, families);
  finish_model_only_checkpoint(folder, step_of_folder_name(name.filename().string()).value_or(0),
                               write_safetensors_file(folder / kModelFile, weights, tensors, progress), text);
}

}  // namespace moh
