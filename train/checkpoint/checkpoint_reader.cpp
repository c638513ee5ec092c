#include <algorithm>
#include <charconv>
#include <system_error>
#include <utility>

#include "core/error.h"
#include "train/checkpoint/checkpoint.h"
#include "train/checkpoint/manifest.h"
#include "train/io/checksum.h"
#include "train/io/printable.h"

namespace moh {

namespace fs = std::filesystem;

namespace {

constexpr std::string_view kStepPrefix = "step_";
constexpr std::size_t kStepDigits = 8;

[[noreturn]] void fail_damaged(const fs::path& path, std::string_view what, std::string_view expected,
                               std::string_view found) {
  throw CheckpointError(error_message(path.string(), what, expected, found, "the checkpoint is damaged"));
}

void compare_checksums(const fs::path& path, std::string_view what, const std::string& expected,
                       const std::string& actual) {
  if (actual != expected) fail_damaged(path, what, "checksum " + printable(expected), actual);
}

std::vector<NamedTensor> read_tensors(const fs::path& path, const ManifestFile& listed) {
  const SafetensorsFile file(path, InputKind::kCheckpoint);
  Checksum whole;
  whole.update(file.raw_header());
  std::vector<NamedTensor> tensors;
  for (const SafetensorsEntry& entry : file.entries()) {
    Tensor tensor = file.tensor(entry);
    whole.update(bytes_of(tensor));
    const auto expected = listed.tensors.find(entry.name);
    if (expected == listed.tensors.end()) {
      fail_damaged(path, printable(entry.name), "a tensor that the manifest lists", "one that it does not");
    }
    compare_checksums(path, printable(entry.name), expected->second, checksum_hex(bytes_of(tensor)));
    tensors.push_back({entry.name, std::move(tensor)});
  }
  // The tensors are sound; this covers the header, and with it their names, shapes and types.
  compare_checksums(path, "header", listed.checksum, whole.hex());
  for (const auto& [name, checksum] : listed.tensors) {
    if (!file.contains(name)) {
      fail_damaged(path, printable(name), "this tensor, which the manifest lists", "no such tensor");
    }
  }
  return tensors;
}

std::string read_text(const fs::path& path, const ManifestFile& listed) {
  std::string text = read_text_file(path, InputKind::kCheckpoint, listed.bytes);
  compare_checksums(path, "", listed.checksum, checksum_hex(text));
  return text;
}

void append(std::vector<NamedTensor>& to, std::vector<NamedTensor> from) {
  std::ranges::move(from, std::back_inserter(to));
}

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

void require_resumable(const CheckpointContents& contents) {
  if (contents.trainer_json != kModelOnlyTrainer) return;
  throw CheckpointError(error_message("checkpoint " + checkpoint_folder_name(contents.step), "",
                                      "a run's optimiser state and position in its data", "a model alone",
                                      "it was converted: begin a new run that starts from it (init.from)"));
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

void verify_text_files(const fs::path& step_folder) {
  const Manifest manifest = read_manifest(step_folder);
  for (const char* name : {kTrainerFile, kConfigFile}) read_text(step_folder / name, *manifest.find(name));
}

CheckpointContents load_checkpoint(const fs::path& step_folder, LoadScope scope) {
  const Manifest manifest = read_manifest(step_folder);
  const auto named = step_of_folder_name(step_folder.filename().string());
  if (named && *named != manifest.step) {
    throw CheckpointError(error_message((step_folder / kManifestFile).string(), "step",
                                        std::to_string(*named), std::to_string(manifest.step),
                                        "the folder was renamed or its files mixed up"));
  }
  const auto listed = [&](const std::string& file) -> const ManifestFile& { return *manifest.find(file); };
  CheckpointContents contents;
  contents.step = manifest.step;
  contents.metric = manifest.metric;
  contents.trainer_json = read_text(step_folder / kTrainerFile, listed(kTrainerFile));
  contents.config_yaml = read_text(step_folder / kConfigFile, listed(kConfigFile));
  contents.model = read_tensors(step_folder / kModelFile, listed(kModelFile));
  if (scope == LoadScope::kModelOnly) return contents;
  for (int i = 0; i < manifest.num_optimizer_shards; ++i) {
    const std::string file = optimizer_shard_file(i, manifest.num_optimizer_shards);
    append(contents.optimizer, read_tensors(step_folder / file, listed(file)));
  }
  return contents;
}

}  // namespace moh
