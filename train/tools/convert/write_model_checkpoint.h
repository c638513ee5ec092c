#pragma once

#include <filesystem>
#include <span>

#include "train/tasks/family.h"
#include "train/weights/weight_writer.h"

namespace moh {

/// Writes a checkpoint of moh that holds the model alone: `moh eval`, `moh generate` and `init.from` read it,
/// a run cannot be resumed from it. `name` is what `folder` will be called; where that is a step's name, it
/// is the checkpoint's step. `config` is the file that `model` was read from: a run's YAML is taken over
/// whole. Throws ConfigError for a model that a run cannot have, CheckpointError for types other than all F32
/// or all BF16.
void write_model_checkpoint(const std::filesystem::path& folder, const std::filesystem::path& name,
                            const FamilyConfig& model, const std::filesystem::path& config,
                            const Families& families, const WeightFile& weights,
                            std::span<const WeightInfo> tensors, WriteProgress progress);

}  // namespace moh
