#include "train/weights/checkpoint/checkpoint.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <functional>
#include <system_error>
#include <utility>

#include "core/error.h"
#include "train/base/formats/element_blocks.h"
#include "train/base/io/checksum.h"
#include "train/base/io/durable_file.h"
#include "train/base/io/failpoint.h"
#include "train/base/io/file_ops.h"

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
        "no checkpoint there", "`moh convert --format moh` makes one from a model in another format"));
  }
  if (!all.back().complete()) {
    throw CheckpointError(all.back().problem + "; to use an older checkpoint, name its step folder");
  }
  return all.back().folder;
}

bool is_there(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

SafetensorsLayout layout_of_file(std::span<const NamedTensor> tensors) {
  return layout_of(tensors, {{"format", "pt"}});  // an entry that Hugging Face's readers require
}

ManifestFile write_tensors(const fs::path& path, std::span<const NamedTensor> tensors,
                           const std::function<void()>& after_read = {}) {
  using Sink = FunctionRef<void(std::span<const std::byte>)>;
  const SafetensorsLayout layout = layout_of_file(tensors);
  OutputFile file(path, layout.bytes());
  const auto elements = [&](std::size_t index, Sink to) {
    stream_elements(tensors[index].tensor, to);
    if (after_read) after_read();
  };
  const SafetensorsChecksums checksums =
      write_safetensors(layout, elements, [&](std::span<const std::byte> bytes) { file.write(bytes); });
  file.sync_and_close();
  ManifestFile entry{path.filename().string(), layout.bytes(), checksums.file, {}};
  for (std::size_t i = 0; i < tensors.size(); ++i) entry.tensors[tensors[i].name] = checksums.tensors[i];
  return entry;
}

ManifestFile write_text(const fs::path& path, std::string_view text) {
  write_new_file(path, text);
  return {path.filename().string(), text.size(), checksum_hex(text), {}};
}

void list_written(std::vector<ManifestFile>& files, ManifestFile file) {
  files.push_back(std::move(file));
  static_cast<void>(MOH_FAILPOINT("ckpt:after_write"));
}

/// Writes the files other than those with tensors, the manifest last.
void write_texts(Manifest& manifest, const fs::path& folder, std::string_view trainer_json,
                 std::string_view config_yaml, std::span<const std::pair<std::string, std::string>> files) {
  for (const auto& [name, contents] : files) {
    MOH_CHECK(is_carried_file(name), "a file of a checkpoint: " + name);
    list_written(manifest.files, write_text(folder / name, contents));
  }
  list_written(manifest.files, write_text(folder / kTrainerFile, trainer_json));
  list_written(manifest.files, write_text(folder / kConfigFile, config_yaml));
  write_text(folder / kManifestFile, to_json(manifest));
  sync_directory(folder);
}

}  // namespace

std::string checkpoint_folder_name(std::int64_t step) {
  MOH_CHECK(step >= 0, "a step is 0 or more");
  return std::string(kStepPrefix) + zero_padded(step, kStepDigits);
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

namespace {

/// "10, 20, 30", of many the last ones; "none".
std::string listed_steps(std::span<const CheckpointInfo> checkpoints) {
  constexpr std::size_t kMost = 12;
  const bool all = checkpoints.size() <= kMost;
  std::string steps = all ? "" : "...";
  for (const CheckpointInfo& each : all ? checkpoints : checkpoints.last(kMost))
    steps += (steps.empty() ? "" : ", ") + std::to_string(each.step);
  return steps.empty() ? "none" : steps;
}

}  // namespace

fs::path folder_of_step(const fs::path& checkpoints_folder, std::int64_t step, const std::string& where) {
  const std::vector<CheckpointInfo> found = list_checkpoints(checkpoints_folder);
  if (std::ranges::find(found, step, &CheckpointInfo::step) == found.end())
    throw CheckpointError(error_message(where, "", "a checkpoint of step " + std::to_string(step),
                                        "steps " + listed_steps(found),
                                        "checkpoint.keep keeps further ones"));
  return checkpoints_folder / checkpoint_folder_name(step);
}

fs::path path_of_step(const fs::path& path) {
  const std::string text = path.string();
  const std::size_t at = text.rfind('@');
  if (at == std::string::npos || at == 0 || is_there(path)) return path;
  std::int64_t step = -1;
  const char* end = text.data() + text.size();
  const auto number = std::from_chars(text.data() + at + 1, end, step);
  if (number.ec != std::errc() || number.ptr != end || step < 0) return path;
  return folder_of_step(fs::path(text.substr(0, at)) / "checkpoints", step, text);
}

fs::path resolve_checkpoint(const fs::path& given) {
  const fs::path path = path_of_step(given);
  // "runs/a/step_00000100/" has an empty filename().
  fs::path folder = path.has_filename() ? path : path.parent_path();
  if (!is_there(folder)) {
    throw CheckpointError(error_message(path.string(), "", "a checkpoint", "no such file or folder"));
  }
  if (is_there(folder / kManifestFile) || step_of_folder_name(folder.filename().string())) return folder;
  return newest_in(is_there(folder / "checkpoints") ? folder / "checkpoints" : folder, path);
}

ManifestFile write_optimizer_shard(const fs::path& folder, int index, int count,
                                   std::span<const NamedTensor> state) {
  return write_tensors(folder / optimizer_shard_file(index, count), state);
}

std::vector<ManifestFile> write_model_files(const CheckpointContents& contents, const fs::path& folder) {
  std::vector<ManifestFile> written;
  list_written(written, write_tensors(folder / kModelFile, contents.model, contents.after_read));
  if (!contents.average.empty())
    list_written(written, write_tensors(folder / kAverageFile, contents.average, contents.after_read));
  return written;
}

void read_model_files(const CheckpointContents& contents) {
  for (const std::vector<NamedTensor>* tensors : {&contents.model, &contents.average}) {
    if (tensors->empty()) continue;
    const SafetensorsLayout layout = layout_of_file(*tensors);
    for (const std::size_t index : layout.order()) {
      static_cast<void>((*tensors)[index].tensor.raw());
      if (contents.after_read) contents.after_read();
    }
  }
}

void complete_checkpoint(const CheckpointContents& contents, std::vector<ManifestFile> model,
                         std::vector<ManifestFile> shards, const fs::path& folder) {
  Manifest manifest;
  manifest.step = contents.step;
  if (contents.metric && std::isfinite(*contents.metric)) manifest.metric = contents.metric;
  manifest.files = std::move(model);
  manifest.num_optimizer_shards = static_cast<int>(shards.size());
  for (ManifestFile& shard : shards) list_written(manifest.files, std::move(shard));
  write_texts(manifest, folder, contents.trainer_json, contents.config_yaml, contents.files);
}

void write_checkpoint_files(const CheckpointContents& contents, const fs::path& folder) {
  std::vector<ManifestFile> model = write_model_files(contents, folder);
  std::vector<ManifestFile> shards = {write_optimizer_shard(folder, 0, 1, contents.optimizer)};
  complete_checkpoint(contents, std::move(model), std::move(shards), folder);
}

}  // namespace moh
