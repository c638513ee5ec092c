#include "train/checkpoint/checkpoint_writer.h"

#include <cmath>
#include <utility>

#include "train/checkpoint/manifest.h"
#include "train/io/checksum.h"
#include "train/io/durable_file.h"
#include "train/io/failpoint.h"
#include "train/io/file_ops.h"

namespace moh {

namespace fs = std::filesystem;

namespace {

ManifestFile write_tensors(const fs::path& path, std::span<const NamedTensor> tensors) {
  // Readers of the Hugging Face libraries ask for this entry.
  const SafetensorsLayout layout = layout_of(tensors, {{"format", "pt"}});
  OutputFile file(path, layout.bytes());
  const SafetensorsChecksums checksums =
      write_safetensors(layout, tensors, [&](std::span<const std::byte> bytes) { file.write(bytes); });
  file.sync_and_close();
  ManifestFile entry{path.filename().string(), layout.bytes(), checksums.file, {}};
  for (std::size_t i = 0; i < tensors.size(); ++i) entry.tensors[tensors[i].name] = checksums.tensors[i];
  return entry;
}

ManifestFile write_text(const fs::path& path, std::string_view text) {
  write_new_file(path, text);
  return {path.filename().string(), text.size(), checksum_hex(text), {}};
}

}  // namespace

void write_checkpoint_files(const CheckpointContents& contents, const fs::path& folder) {
  Manifest manifest;
  manifest.step = contents.step;
  if (contents.metric && std::isfinite(*contents.metric)) manifest.metric = contents.metric;
  const auto written = [&](ManifestFile file) {
    manifest.files.push_back(std::move(file));
    static_cast<void>(MOH_FAILPOINT("ckpt:after_write"));
  };
  written(write_tensors(folder / kModelFile, contents.model));
  written(write_tensors(folder / optimizer_shard_file(0, 1), contents.optimizer));
  written(write_text(folder / kTrainerFile, contents.trainer_json));
  written(write_text(folder / kConfigFile, contents.config_yaml));
  write_text(folder / kManifestFile, to_json(manifest));
  sync_directory(folder);
}

void finish_model_only_checkpoint(const fs::path& folder, std::int64_t step, ManifestFile model,
                                  std::string_view config_yaml) {
  Manifest manifest;
  manifest.step = step;
  manifest.num_optimizer_shards = 0;
  manifest.files = {std::move(model), write_text(folder / kTrainerFile, kModelOnlyTrainer),
                    write_text(folder / kConfigFile, config_yaml)};
  write_text(folder / kManifestFile, to_json(manifest));
  sync_directory(folder);
}

}  // namespace moh
