#include "train/checkpoint/stored_checkpoint.h"

#include "core/error.h"
#include "train/formats/element_blocks.h"
#include "train/io/checksum.h"
#include "train/io/printable.h"

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

Manifest open_manifest(const fs::path& step_folder) {
  Manifest manifest = read_manifest(step_folder);
  const auto named = step_of_folder_name(step_folder.filename().string());
  if (named && *named != manifest.step) {
    throw CheckpointError(error_message((step_folder / kManifestFile).string(), "step",
                                        std::to_string(*named), std::to_string(manifest.step),
                                        "the folder was renamed or its files mixed up"));
  }
  return manifest;
}

std::string read_text(const fs::path& step_folder, const Manifest& manifest, const char* name) {
  const fs::path path = step_folder / name;
  const ManifestFile& listed = *manifest.find(name);
  std::string text = read_text_file(path, InputKind::kCheckpoint, listed.bytes);
  compare_checksums(path, "", listed.checksum, checksum_hex(text));
  return text;
}

std::vector<StoredTensors> open_tensors(const fs::path& step_folder, const Manifest& manifest,
                                        LoadScope scope) {
  const int shards = scope == LoadScope::kAll ? manifest.num_optimizer_shards : 0;
  std::vector<StoredTensors> tensors;
  tensors.emplace_back(step_folder, *manifest.find(kModelFile));
  for (int i = 0; i < shards; ++i)
    tensors.emplace_back(step_folder, *manifest.find(optimizer_shard_file(i, manifest.num_optimizer_shards)));
  return tensors;
}

void load(std::string_view where, std::span<const StoredTensors> from, std::span<const NamedTensor> to) {
  std::vector<TensorSpec> expected, found;
  for (const NamedTensor& named : to)
    expected.push_back({named.name, named.tensor.shape(), named.tensor.dtype()});
  for (const StoredTensors& tensors : from) {
    tensors.verify();
    const SafetensorsFile& file = tensors.file();
    for (const SafetensorsEntry& entry : file.entries())
      found.push_back({entry.name, entry.shape, file.dtype_of(entry)});
  }
  check_matches(where, expected, found);
  for (const NamedTensor& named : to) {
    for (const StoredTensors& tensors : from) {
      if (const SafetensorsEntry* entry = tensors.file().find(named.name))
        tensors.copy_to(*entry, named.tensor);
    }
  }
}

}  // namespace

StoredTensors::StoredTensors(const fs::path& step_folder, const ManifestFile& listed)
    : file_(step_folder / listed.name, InputKind::kCheckpoint), listed_(listed) {}

void StoredTensors::verify() const {
  if (verified_) return;
  Checksum whole;
  whole.update(file_.raw_header());
  for (const SafetensorsEntry& entry : file_.entries()) {
    Checksum elements;
    file_.stream(entry, [&](std::span<const std::byte> block) {
      elements.update(block);
      whole.update(block);
    });
    const auto expected = listed_.tensors.find(entry.name);
    if (expected != listed_.tensors.end())
      compare_checksums(file_.path(), printable(entry.name), expected->second, elements.hex());
  }
  // The tensors that are listed are sound; this covers the header, and with it names, shapes and types.
  compare_checksums(file_.path(), "header", listed_.checksum, whole.hex());
  compare_names();
  verified_ = true;
}

void StoredTensors::compare_names() const {
  for (const SafetensorsEntry& entry : file_.entries()) {
    if (!listed_.tensors.contains(entry.name))
      fail_damaged(file_.path(), printable(entry.name), "a tensor that the manifest lists",
                   "one that it does not");
  }
  for (const auto& [name, checksum] : listed_.tensors) {
    if (!file_.contains(name))
      fail_damaged(file_.path(), printable(name), "this tensor, which the manifest lists", "no such tensor");
  }
}

void StoredTensors::read(const SafetensorsEntry& entry, std::uint64_t offset, std::span<std::byte> to) const {
  verify();
  file_.read(entry, offset, to);
}

void StoredTensors::copy_to(const SafetensorsEntry& entry, const Tensor& to) const {
  verify();
  MOH_CHECK(entry.shape == to.shape() && entry.dtype == to.dtype(), "a tensor that matches");
  Checksum copied;
  TensorFiller filler(to);
  file_.stream(entry, [&](std::span<const std::byte> block) {
    copied.update(block);
    filler.append(block);
  });
  compare_checksums(file_.path(), printable(entry.name), listed_.tensors.at(entry.name), copied.hex());
}

StoredCheckpoint::StoredCheckpoint(const fs::path& step_folder, LoadScope scope)
    : StoredCheckpoint(step_folder, open_manifest(step_folder), scope) {}

StoredCheckpoint::StoredCheckpoint(const fs::path& step_folder, const Manifest& manifest, LoadScope scope)
    : folder_(step_folder),
      step_(manifest.step),
      metric_(manifest.metric),
      trainer_json_(read_text(step_folder, manifest, kTrainerFile)),
      config_yaml_(read_text(step_folder, manifest, kConfigFile)),
      tensors_(open_tensors(step_folder, manifest, scope)) {}

void StoredCheckpoint::verify() const {
  for (const StoredTensors& tensors : tensors_) tensors.verify();
}

void StoredCheckpoint::load_model(std::string_view where, std::span<const NamedTensor> to) const {
  load(where, std::span(&model(), 1), to);
}

void StoredCheckpoint::load_optimizer(std::string_view where, std::span<const NamedTensor> to) const {
  load(where, optimizer(), to);
}

void require_resumable(const StoredCheckpoint& checkpoint) {
  if (checkpoint.trainer_json() != kModelOnlyTrainer) return;
  throw CheckpointError(error_message("checkpoint " + checkpoint_folder_name(checkpoint.step()), "",
                                      "a run's optimiser state and position in its data", "a model alone",
                                      "it was converted: begin a new run that starts from it (init.from)"));
}

void verify_text_files(const fs::path& step_folder) {
  const Manifest manifest = open_manifest(step_folder);
  for (const char* name : {kTrainerFile, kConfigFile}) read_text(step_folder, manifest, name);
}

}  // namespace moh
