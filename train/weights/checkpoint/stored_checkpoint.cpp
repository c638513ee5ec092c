#include "train/weights/checkpoint/stored_checkpoint.h"

#include "core/error.h"
#include "train/base/formats/element_blocks.h"
#include "train/base/io/checksum.h"
#include "train/base/io/printable.h"
#include "train/weights/checkpoint/train_state.h"

namespace moh {

namespace fs = std::filesystem;

namespace {

[[noreturn]] void fail_damaged(const fs::path& path, std::string_view what, std::string_view expected,
                               std::string_view found) {
  throw CheckpointError(error_message(path.string(), what, expected, found, "the checkpoint is damaged"));
}

void compare_checksums(const fs::path& path, std::string_view what, const std::string& expected,
                       const std::string& actual) {
  if (actual != expected) fail_damaged(path, what, "checksum " + printable(expected), actual);
}

std::string read_text(const fs::path& step_folder, const ManifestFile& listed) {
  const fs::path path = step_folder / listed.name;
  std::string text = read_text_file(path, InputKind::kCheckpoint, listed.bytes);
  compare_checksums(path, "", listed.checksum, checksum_hex(text));
  return text;
}

}  // namespace

StoredTensors::StoredTensors(const fs::path& step_folder, const ManifestFile& listed)
    : SafetensorsFile(step_folder / listed.name, InputKind::kCheckpoint),
      folder_(step_folder),
      listed_(listed) {}

void StoredTensors::verify() const {
  if (verified_) return;
  Checksum whole;
  whole.update(raw_header());
  for (const WeightInfo& tensor : tensors()) {
    Checksum elements;
    const auto read_unverified = [&](std::uint64_t offset, std::span<std::byte> block) {
      SafetensorsFile::read(tensor, offset, block);
    };
    stream_blocks(tensor.bytes, read_unverified, [&](std::span<const std::byte> block) {
      elements.update(block);
      whole.update(block);
    });
    const auto expected = listed_.tensors.find(tensor.name);
    if (expected != listed_.tensors.end())
      compare_checksums(file_.path(), printable(tensor.name), expected->second, elements.hex());
  }
  // The listed tensors are verified; this covers the header, and with it names, shapes and dtypes.
  compare_checksums(file_.path(), "header", listed_.checksum, whole.hex());
  for (const WeightInfo& tensor : tensors()) {
    if (!listed_.tensors.contains(tensor.name))
      fail_damaged(file_.path(), printable(tensor.name), "a tensor that the manifest lists",
                   "one that it lacks");
  }
  for (const auto& [name, checksum] : listed_.tensors) {
    if (find(name) == nullptr)
      fail_damaged(file_.path(), printable(name), "this tensor, which the manifest lists", "no such tensor");
  }
  verified_ = true;
}

void StoredTensors::read(const WeightInfo& tensor, std::uint64_t offset, std::span<std::byte> to) const {
  verify();
  SafetensorsFile::read(tensor, offset, to);
}

void StoredTensors::stream(const WeightInfo& tensor,
                           FunctionRef<void(std::span<const std::byte>)> sink) const {
  verify();  // read() verifies, too, but is not called for an empty tensor
  Checksum handed_out;
  SafetensorsFile::stream(tensor, [&](std::span<const std::byte> block) {
    handed_out.update(block);
    sink(block);
  });
  compare_checksums(file_.path(), printable(tensor.name), listed_.tensors.at(tensor.name), handed_out.hex());
}

StoredCheckpoint::StoredCheckpoint(const fs::path& step_folder, LoadScope scope) : folder_(step_folder) {
  const Manifest manifest = read_manifest(step_folder);
  const auto named = step_of_folder_name(step_folder.filename().string());
  if (named && *named != manifest.step) {
    throw CheckpointError(error_message((step_folder / kManifestFile).string(), "step",
                                        std::to_string(*named), std::to_string(manifest.step),
                                        "the folder was renamed or its files mixed up"));
  }
  step_ = manifest.step;
  metric_ = manifest.metric;
  trainer_json_ = read_text(step_folder, *manifest.find(kTrainerFile));
  config_yaml_ = read_text(step_folder, *manifest.find(kConfigFile));
  for (const ManifestFile& listed : manifest.files) {
    if (is_carried_file(listed.name)) files_.emplace_back(listed.name, read_text(step_folder, listed));
  }
  tensors_.emplace_back(step_folder, *manifest.find(kModelFile));
  if (const ManifestFile* average = manifest.find(kAverageFile)) {
    averages_ = 1;
    tensors_.emplace_back(step_folder, *average);
  }
  if (scope == LoadScope::kModelOnly) return;
  for (int i = 0; i < manifest.num_optimizer_shards; ++i) {
    const std::string shard = optimizer_shard_file(i, manifest.num_optimizer_shards);
    tensors_.emplace_back(step_folder, *manifest.find(shard));
  }
}

void StoredCheckpoint::verify() const {
  for (const StoredTensors& tensors : tensors_) tensors.verify();
}

void require_resumable(const StoredCheckpoint& checkpoint) {
  if (!is_model_only(checkpoint)) return;
  throw CheckpointError(error_message("checkpoint " + checkpoint_folder_name(checkpoint.step()), "",
                                      "a run's optimiser state and position in its data", "a model alone",
                                      "it was converted: begin a new run that starts from it (init.from)"));
}

}  // namespace moh
