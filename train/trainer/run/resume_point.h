#pragma once

#include <filesystem>
#include <memory>
#include <optional>

#include "train/trainer/run/config_change.h"
#include "train/trainer/run/start_run.h"
#include "train/weights/checkpoint/checkpoint_store.h"

namespace moh {

/// A checkpoint that a run goes on from: one of its own, or of another run, from which it branches.
struct ResumePoint {
  StoredCheckpoint checkpoint;
  OnChange on_change = OnChange::kRefuse;
};

/// The checkpoint that a run goes on from, for all processes the one that the first of them, which has the
/// store, finds; nothing for a new run. Shared heads that were measured at the start of the run are taken
/// over into `config`. Throws ConfigError where a run must not be touched or `config` changes what it
/// computes, and CheckpointError.
std::optional<ResumePoint> find_resume_point(CheckpointStore* store, RunConfig& config,
                                             const StartOptions& options, const RunHost& host);

/// The model of the checkpoint that a run in `output` goes on from, as far as configurations can be read;
/// null: there is none. Damage is reported later, when the checkpoint is loaded.
std::unique_ptr<FamilyConfig> saved_model(const StartOptions& options, const std::filesystem::path& output,
                                          const Families& families);

}  // namespace moh
