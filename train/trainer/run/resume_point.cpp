#include "train/trainer/run/resume_point.h"

#include <algorithm>
#include <string>
#include <vector>

#include "core/error.h"
#include "train/base/log/logging.h"
#include "train/trainer/config/load_run_config.h"
#include "train/trainer/run/config_change.h"
#include "train/trainer/run/existing_run.h"
#include "train/trainer/run/run_facts.h"
#include "train/trainer/run/several_processes.h"
#include "train/trainer/task/stored_model.h"
#include "train/weights/checkpoint/train_state.h"

namespace moh {

namespace {

/// Takes over shared heads that were measured at the start of the run, so that they are not measured again.
void take_measured_heads(const RunConfig& before, RunConfig& config) {
  const MohConfig* measured = before.family->moh();
  MohConfig* moh = config.family->moh();
  if (moh != nullptr && measured != nullptr && moh->shared_heads.to_be_measured())
    moh->shared_heads = measured->shared_heads;
}

/// The checkpoint to resume from; nothing for a new run.
std::optional<StoredCheckpoint> find_checkpoint(CheckpointStore& store, const RunConfig& config,
                                                const StartOptions& options) {
  if (options.overwrite) return std::nullopt;
  if (!options.resume) {
    const std::vector<CheckpointInfo> found = store.list();
    if (found.empty()) return std::nullopt;
    refuse_existing_run(config, options.config_file, found.back().step);
  }
  std::optional<StoredCheckpoint> newest = store.open_newest(options.allow_older);
  if (!newest) {
    log_info("resume: no checkpoint in " + config.output.dir.string() + " yet; starting at step 0");
    return std::nullopt;
  }
  require_resumable(*newest);
  return newest;
}

}  // namespace

std::optional<StoredCheckpoint> find_resume_point(CheckpointStore* store, RunConfig& config,
                                                  const StartOptions& options, const RunHost& host) {
  Communicator& processes = host.processes;
  std::optional<StoredCheckpoint> newest;
  if (store != nullptr) newest = find_checkpoint(*store, config, options);
  const std::int64_t step = processes.max(newest ? newest->step() : -1);
  if (step < 0) return std::nullopt;
  if (!newest) newest.emplace(config.output.dir / "checkpoints" / checkpoint_folder_name(step));
  require_same({checkpoint_fact("output.dir", newest->folder())}, processes);
  const std::filesystem::path saved = newest->folder() / "config.yaml";
  const RunConfig before = load_run_config(saved.string(), {}, host.families.configs());
  take_measured_heads(before, config);
  RunConfig compared = config;
  if (!processes.alone()) compared.device.index = before.device.index;  // each has taken a GPU of its own
  review_config_changes(before, compared, options.allow_changes, train_state_of(*newest).data);
  log_info("resume: from step " + std::to_string(newest->step()));
  return newest;
}

std::unique_ptr<FamilyConfig> saved_model(const std::filesystem::path& run_folder, const Families& families) {
  std::vector<CheckpointInfo> checkpoints = list_checkpoints(run_folder / "checkpoints");
  for (auto info = checkpoints.rbegin(); info != checkpoints.rend(); ++info) {
    try {
      const std::vector<std::string> settings = settings_of_checkpoint(info->folder, families);
      return load_run_config((info->folder / "config.yaml").string(), settings, families.configs())
          .family->clone();
    } catch (const ConfigError&) {
      continue;
    }
  }
  return nullptr;
}

}  // namespace moh
