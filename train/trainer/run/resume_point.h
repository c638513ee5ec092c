#pragma once

#include <filesystem>
#include <memory>
#include <optional>

#include "train/trainer/run/start_run.h"
#include "train/weights/checkpoint/checkpoint_store.h"

namespace moh {

/// The checkpoint that a run resumes from, for all processes the one that the first of them, which has the
/// store, finds; nothing for a new run. Shared heads that were measured at the start of the run are taken
/// over into `config`. Throws ConfigError where a run must not be touched or `config` changes what it
/// computes, and CheckpointError.
std::optional<StoredCheckpoint> find_resume_point(CheckpointStore* store, RunConfig& config,
                                                  const StartOptions& options, const RunHost& host);

/// The model of the newest checkpoint in the run folder whose configuration can be read; null: there is none.
/// Damage is reported later, when the checkpoint is loaded.
std::unique_ptr<FamilyConfig> saved_model(const std::filesystem::path& run_folder, const Families& families);

}  // namespace moh
