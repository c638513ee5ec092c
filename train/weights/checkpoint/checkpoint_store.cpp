#include "train/weights/checkpoint/checkpoint_store.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <system_error>
#include <utility>

#include "core/error.h"
#include "train/base/io/failpoint.h"
#include "train/base/io/file_ops.h"

namespace moh {

namespace fs = std::filesystem;

namespace {

// Prefixes of the store's internal names: `.tmp-...` may be deleted at any time; `.old-step_N-...` is a
// checkpoint that was being replaced by another of the same step; it is restored if that one does not exist.
constexpr std::string_view kTemporary = ".tmp-";
constexpr std::string_view kReplaced = ".old-";

fs::path hidden_name(std::string_view prefix, const fs::path& step_folder) {
  std::string name(prefix);
  name.append(step_folder.filename().string()).append("-").append(random_suffix());
  return step_folder.parent_path() / name;
}

/// "step_00000100" of ".old-step_00000100-4f...".
std::string name_without_hiding(std::string_view prefix, const std::string& name) {
  const std::string rest = name.substr(prefix.size());
  return rest.substr(0, rest.rfind('-'));
}

bool name_is_taken(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(fs::symlink_status(path, ignored));
}

const CheckpointInfo* best_of(const std::vector<CheckpointInfo>& all, bool higher_is_better) {
  const auto cost = [&](const CheckpointInfo& info) {
    if (!info.metric) return std::numeric_limits<double>::infinity();
    return higher_is_better ? -*info.metric : *info.metric;
  };
  const auto best = std::ranges::min_element(all, std::less<>(), cost);
  return best == all.end() || !best->metric ? nullptr : &*best;
}

}  // namespace

CheckpointStore::CheckpointStore(const fs::path& run_folder, RetentionPolicy retention, Warn warn)
    : folder_(run_folder / "checkpoints"), retention_(std::move(retention)), warn_(std::move(warn)) {
  if (retention_.keep_last < 1) {
    throw ValueError(
        error_message("checkpoints", "keep_last", "1 or more", std::to_string(retention_.keep_last)));
  }
  make_directories(folder_);
  clear_leftovers();
}

void CheckpointStore::clear_leftovers() {
  // A killed process may have renamed a folder without syncing: make that durable before deleting anything.
  sync_directory(folder_);
  for (const fs::path& path : list_directory(folder_)) {
    const std::string name = path.filename().string();
    if (name.starts_with(kTemporary)) {
      warn_on_failure("temporary folder not removed", [&] { remove_tree(path); });
    } else if (name.starts_with(kReplaced)) {
      const fs::path target = folder_ / name_without_hiding(kReplaced, name);
      warn_on_failure("replaced checkpoint not removed or restored",
                      [&] { name_is_taken(target) ? remove_tree(path) : rename_path(path, target); });
    }
  }
  sync_directory(folder_);
}

CheckpointDraft::~CheckpointDraft() {
  std::error_code ignored;
  fs::remove_all(folder_, ignored);
}

std::unique_ptr<CheckpointDraft> CheckpointStore::begin(std::int64_t step) const {
  const fs::path target = folder_ / checkpoint_folder_name(step);
  auto draft = std::make_unique<CheckpointDraft>(hidden_name(kTemporary, target), target);
  // A run that starts over has removed the folder of its checkpoints. But a run folder that is gone is not
  // made again: it was removed or moved while the run went on, and may be another run's by now.
  if (std::error_code ignored; !fs::is_directory(folder_, ignored)) {
    make_directory(folder_);
    sync_directory(fs::absolute(folder_).parent_path());
  }
  make_directory(draft->folder());
  sync_directory(folder_);
  return draft;
}

fs::path CheckpointStore::save(const CheckpointContents& contents) {
  const std::unique_ptr<CheckpointDraft> draft = begin(contents.step);
  write_checkpoint_files(contents, draft->folder());
  return publish(*draft, contents.higher_is_better);
}

fs::path CheckpointStore::publish(const CheckpointDraft& draft, bool higher_is_better) {
  static_cast<void>(MOH_FAILPOINT("ckpt:before_publish"));
  rename_to(draft.folder(), draft.target());
  static_cast<void>(MOH_FAILPOINT("ckpt:after_publish"));
  warn_on_failure("old checkpoints not removed", [&] { prune(draft.target(), higher_is_better); });
  return draft.target();
}

void CheckpointStore::rename_to(const fs::path& written, const fs::path& target) {
  if (!name_is_taken(target)) {
    rename_path(written, target);
    sync_directory(folder_);
    return;
  }
  const fs::path replaced = hidden_name(kReplaced, target);
  rename_path(target, replaced);
  try {
    rename_path(written, target);
  } catch (const StorageError&) {
    rename_path(replaced, target);
    throw;
  }
  sync_directory(folder_);
  warn_on_failure("replaced checkpoint not removed", [&] { remove_tree(replaced); });
}

void CheckpointStore::prune(const fs::path& just_saved, bool higher_is_better) {
  std::vector<CheckpointInfo> complete = list();
  std::erase_if(complete, [](const CheckpointInfo& info) { return !info.complete(); });
  const CheckpointInfo* best = retention_.keep_best ? best_of(complete, higher_is_better) : nullptr;
  const std::size_t keep =
      std::min<std::size_t>(static_cast<std::size_t>(retention_.keep_last), complete.size());
  for (const CheckpointInfo& info : std::span(complete).first(complete.size() - keep)) {
    const bool is_milestone = std::ranges::find(retention_.keep, info.step) != retention_.keep.end();
    if (&info == best || is_milestone || info.folder == just_saved) continue;
    warn_on_failure("old checkpoint not removed", [&] { remove_checkpoint(info.folder); });
  }
}

void CheckpointStore::remove_checkpoint(const fs::path& step_folder) {
  // Renamed durably first: after a crash no checkpoint may lack some of its files.
  const fs::path hidden = hidden_name(kTemporary, step_folder);
  rename_path(step_folder, hidden);
  sync_directory(folder_);
  remove_tree(hidden);
}

std::optional<StoredCheckpoint> CheckpointStore::open_newest(bool allow_older) {
  const std::vector<CheckpointInfo> all = list();
  for (auto info = all.rbegin(); info != all.rend(); ++info) {
    try {
      StoredCheckpoint newest(info->folder);
      newest.verify();
      std::for_each(all.rbegin(), info, [&](const CheckpointInfo& damaged) { set_aside(damaged); });
      return newest;
    } catch (const CheckpointAccessError&) {
      throw;  // unreadable now, but maybe undamaged
    } catch (const CheckpointError& error) {
      if (!allow_older) throw;
      warn_(std::string(error.what()) + "; falling back to the previous checkpoint");
    }
  }
  if (all.empty()) return std::nullopt;
  throw CheckpointError(error_message(folder_.string(), "", "an intact checkpoint",
                                      std::to_string(all.size()) + " damaged",
                                      "set another output.dir, or start over with --overwrite, which deletes "
                                      "them"));
}

void CheckpointStore::warn_on_failure(std::string_view what, FunctionRef<void()> action) const {
  try {
    action();
  } catch (const Error& error) {
    warn_(std::string(what) + ": " + error.what());
  }
}

void CheckpointStore::set_aside(const CheckpointInfo& damaged) {
  rename_path(damaged.folder, hidden_name("damaged-", damaged.folder));
  sync_directory(folder_);
}

}  // namespace moh
