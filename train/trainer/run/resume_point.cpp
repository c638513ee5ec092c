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

namespace fs = std::filesystem;

namespace {

/// Takes over shared heads that were measured at the start of the run, so that they are not measured again.
void take_measured_heads(const RunConfig& before, RunConfig& config) {
  const MohConfig* measured = before.family->moh();
  MohConfig* moh = config.family->moh();
  if (moh != nullptr && measured != nullptr && moh->shared_heads.to_be_measured())
    moh->shared_heads = measured->shared_heads;
}

/// In the process that has the store, the run's own checkpoint to resume from; nothing for a new run.
std::optional<StoredCheckpoint> find_own(CheckpointStore& store, const RunConfig& config,
                                         const StartOptions& options) {
  if (options.overwrite) return std::nullopt;
  if (!options.resume) {
    const std::vector<CheckpointInfo> found = store.list();
    if (found.empty()) return std::nullopt;
    refuse_existing_run(config, options.config_file, found.back().step);
  }
  std::optional<StoredCheckpoint> newest = store.open_newest(options.allow_older);
  if (!newest && options.resume_from.empty())
    log_info("resume: no checkpoint in " + config.output.dir.string() + " yet; starting at step 0");
  return newest;
}

/// The checkpoint to go on from, one for all processes.
std::optional<ResumePoint> find_checkpoint(CheckpointStore* store, const RunConfig& config,
                                           const StartOptions& options, Communicator& processes) {
  std::optional<StoredCheckpoint> own;
  if (store != nullptr) own = find_own(*store, config, options);
  const std::int64_t step = processes.max(own ? own->step() : -1);
  if (step < 0 && options.resume_from.empty()) return std::nullopt;
  if (step < 0)
    return ResumePoint{StoredCheckpoint(resolve_checkpoint(options.resume_from)), OnChange::kNote};
  if (!own) own.emplace(config.output.dir / "checkpoints" / checkpoint_folder_name(step));
  return ResumePoint{*std::move(own), options.allow_changes ? OnChange::kWarn : OnChange::kRefuse};
}

}  // namespace

std::optional<ResumePoint> find_resume_point(CheckpointStore* store, RunConfig& config,
                                             const StartOptions& options, const RunHost& host) {
  Communicator& processes = host.processes;
  std::optional<ResumePoint> found = find_checkpoint(store, config, options, processes);
  if (!found) return std::nullopt;
  const StoredCheckpoint& checkpoint = found->checkpoint;
  require_resumable(checkpoint);
  const bool branches = found->on_change == OnChange::kNote;
  require_same({checkpoint_fact(branches ? "--resume-from" : "output.dir", checkpoint.folder())}, processes);
  const fs::path saved = checkpoint.folder() / "config.yaml";
  const RunConfig before = load_run_config(saved.string(), {}, host.families.configs());
  take_measured_heads(before, config);
  RunConfig compared = config;
  if (!processes.alone()) compared.device.index = before.device.index;  // each has taken a GPU of its own
  review_config_changes(before, compared, found->on_change, train_state_of(checkpoint).data,
                        checkpoint.step());
  log_info((branches ? "branch: from step " : "resume: from step ") + std::to_string(checkpoint.step()) +
           (branches ? " of " + checkpoint.folder().parent_path().parent_path().string() : ""));
  return found;
}

std::unique_ptr<FamilyConfig> saved_model(const StartOptions& options, const fs::path& output,
                                          const Families& families) {
  std::vector<fs::path> folders;  // the one to take first comes last
  if (!options.resume_from.empty()) folders.push_back(resolve_checkpoint(options.resume_from));
  if (options.resume)
    for (const CheckpointInfo& info : list_checkpoints(output / "checkpoints"))
      folders.push_back(info.folder);
  for (auto folder = folders.rbegin(); folder != folders.rend(); ++folder) {
    try {
      const std::vector<std::string> settings = settings_of_checkpoint(*folder, families);
      return load_run_config((*folder / "config.yaml").string(), settings, families.configs())
          .family->clone();
    } catch (const ConfigError&) {
      continue;
    }
  }
  return nullptr;
}

}  // namespace moh
