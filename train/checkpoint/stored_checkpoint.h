#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "train/checkpoint/checkpoint.h"
#include "train/checkpoint/manifest.h"
#include "train/formats/safetensors.h"

namespace moh {

/// A tensor file of a checkpoint, with the checksums that the manifest has for it. No element is handed out
/// before all of the file was compared with them; no more of it than a block is held at a time.
class StoredTensors final : public SafetensorsFile {
 public:
  /// Opens a file that the manifest of a step folder lists.
  StoredTensors(const std::filesystem::path& step_folder, const ManifestFile& listed);

  /// The step folder.
  const std::filesystem::path& path() const override { return folder_; }
  std::string format() const override { return "moh checkpoint"; }

  /// Reads all of the file and compares it with its checksums; once, calls that follow return at once. Throws
  /// CheckpointError naming the file, the tensor and both checksums.
  void verify() const;
  void read(const WeightInfo& tensor, std::uint64_t offset, std::span<std::byte> to) const override;
  /// What is handed out is compared with the tensor's checksum again, as the file may have changed since it
  /// was verified: where this throws, it is not to be used.
  void stream(const WeightInfo& tensor, FunctionRef<void(std::span<const std::byte>)> sink) const override;

 private:
  std::filesystem::path folder_;
  ManifestFile listed_;
  mutable bool verified_ = false;
};

/// Which tensors a StoredCheckpoint has.
enum class LoadScope { kAll, kModelOnly };

/// A checkpoint on the disk, open for reading. Opening checks the manifest, that the folder bears the name of
/// its step, and the headers of the tensor files; it reads the texts and compares them with their checksums.
/// Elements go from the files into the tensors that they are for block by block (load_exactly). Errors are
/// CheckpointErrors.
class StoredCheckpoint {
 public:
  explicit StoredCheckpoint(const std::filesystem::path& step_folder, LoadScope scope = LoadScope::kAll);

  const std::filesystem::path& folder() const { return folder_; }
  std::int64_t step() const { return step_; }
  /// Evaluation loss.
  std::optional<double> metric() const { return metric_; }
  const std::string& trainer_json() const { return trainer_json_; }
  const std::string& config_yaml() const { return config_yaml_; }
  /// In one file.
  std::span<const StoredTensors> model() const { return std::span(tensors_).first(1); }
  StoredTensors take_model() && { return std::move(tensors_.front()); }
  /// In one file or in several; none with LoadScope::kModelOnly.
  std::span<const StoredTensors> optimizer() const { return std::span(tensors_).subspan(1); }

  /// Compares all tensors with their checksums.
  void verify() const;

 private:
  std::filesystem::path folder_;
  std::int64_t step_ = 0;
  std::optional<double> metric_;
  std::string trainer_json_, config_yaml_;
  std::vector<StoredTensors> tensors_;  // the model, then the optimiser
};

/// Throws CheckpointError for a checkpoint without what a run needs to go on.
void require_resumable(const StoredCheckpoint& checkpoint);

}  // namespace moh
