#pragma once

#include <filesystem>
#include <span>

#include "train/trainer/task/stored_model.h"
#include "train/weights/weight_writer.h"

namespace moh {

/// Writes a checkpoint of moh that holds the model only: `moh eval`, `moh generate` and `init.from` can read
/// it, but no run can be resumed from it. `name` is the final name of `folder`; if it has the form of a step
/// folder, its number becomes the checkpoint's step. `config` is the file from which `model` was read: a
/// run's YAML is copied completely. Throws ConfigError for a model that a run cannot have, CheckpointError
/// unless all tensors are F32, or all BF16. The checkpoint carries what `source`, the model's origin, has for
/// its use (WeightNames::carried_files).
void write_model_checkpoint(const std::filesystem::path& folder, const std::filesystem::path& name,
                            const FamilyConfig& model, const std::filesystem::path& config,
                            const StoredModel& source, std::span<const WeightInfo> tensors,
                            WriteProgress progress);

}  // namespace moh
