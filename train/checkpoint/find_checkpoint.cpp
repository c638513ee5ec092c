#include <algorithm>
#include <charconv>
#include <system_error>

#include "core/error.h"
#include "train/checkpoint/checkpoint.h"
#include "train/checkpoint/manifest.h"

namespace moh {

namespace fs = std::filesystem;

namespace {

constexpr std::string_view kStepPrefix = "step_";
constexpr std::size_t kStepDigits = 8;

CheckpointInfo describe_folder(const fs::path& folder, std::int64_t step) {
  CheckpointInfo info{folder, step, std::nullopt, ""};
  try {
    info.metric = read_manifest(folder).metric;
  } catch (const CheckpointError& error) {
    info.problem = error.what();
  }
  return info;
}

fs::path newest_in(const fs::path& checkpoints_folder, const fs::path& asked_for) {
  const std::vector<CheckpointInfo> all = list_checkpoints(checkpoints_folder);
  if (all.empty()) {
    throw CheckpointError(error_message(
        asked_for.string(), "", "a run folder, a folder of checkpoints or a step_... folder",
        "no checkpoint there", "of a model of another kind, `moh convert --format moh` makes one"));
  }
  if (!all.back().complete()) {
    throw CheckpointError(all.back().problem + "; or name an older step folder to use that");
  }
  return all.back().folder;
}

bool path_exists(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

}  // namespace

std::string checkpoint_folder_name(std::int64_t step) {
  MOH_CHECK(step >= 0, "a step is 0 or more");
  const std::string digits = std::to_string(step);
  return std::string(kStepPrefix) + std::string(kStepDigits - std::min(digits.size(), kStepDigits), '0') +
         digits;
}

std::optional<std::int64_t> step_of_folder_name(std::string_view name) {
  if (!name.starts_with(kStepPrefix)) return std::nullopt;
  std::int64_t step = -1;
  const char* end = name.data() + name.size();
  const auto number = std::from_chars(name.data() + kStepPrefix.size(), end, step);
  if (number.ec != std::errc() || number.ptr != end || step < 0) return std::nullopt;
  if (checkpoint_folder_name(step) != name) return std::nullopt;
  return step;
}

std::vector<CheckpointInfo> list_checkpoints(const fs::path& checkpoints_folder) {
  std::vector<CheckpointInfo> all;
  std::error_code error;
  for (fs::directory_iterator it(checkpoints_folder, error), end; !error && it != end; it.increment(error)) {
    const auto step = step_of_folder_name(it->path().filename().string());
    if (step) all.push_back(describe_folder(it->path(), *step));
  }
  if (error && error != std::errc::no_such_file_or_directory) {
    throw CheckpointError(
        error_message(checkpoints_folder.string(), "", "a readable folder", error.message()));
  }
  std::ranges::sort(all, std::less<>(), &CheckpointInfo::step);
  return all;
}

fs::path resolve_checkpoint(const fs::path& path) {
  // "runs/a/step_00000100/" has an empty last part.
  fs::path folder = path.has_filename() ? path : path.parent_path();
  if (!path_exists(folder)) {
    throw CheckpointError(error_message(path.string(), "", "a checkpoint", "nothing of this name"));
  }
  if (path_exists(folder / kManifestFile) || step_of_folder_name(folder.filename().string())) return folder;
  return newest_in(path_exists(folder / "checkpoints") ? folder / "checkpoints" : folder, path);
}

}  // namespace moh
