#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "train/base/formats/safetensors.h"
#include "train/weights/checkpoint/checkpoint.h"
#include "train/weights/checkpoint/manifest.h"

namespace moh {

/// A tensor file of a checkpoint, with its checksums from the manifest. No element is returned before the
/// whole file has been verified. Memory: one block of the file.
class StoredTensors final : public SafetensorsFile {
 public:
  /// Opens the file `listed` of the step folder's manifest.
  StoredTensors(const std::filesystem::path& step_folder, const ManifestFile& listed);

  /// The step folder.
  const std::filesystem::path& path() const override { return folder_; }
  std::string format() const override { return "moh checkpoint"; }

  /// Reads the whole file and compares it with its checksums, on the first call only. Throws CheckpointError
  /// naming the file, the tensor and both checksums.
  void verify() const;
  void read(const WeightInfo& tensor, std::uint64_t offset, std::span<std::byte> to) const override;
  /// Compares what was read with the tensor's checksum again, at the end, as the file may have changed since
  /// it was verified: if this throws, the bytes passed to `sink` must not be used.
  void stream(const WeightInfo& tensor, FunctionRef<void(std::span<const std::byte>)> sink) const override;

 private:
  std::filesystem::path folder_;
  ManifestFile listed_;
  mutable bool verified_ = false;
};

/// The tensors that a StoredCheckpoint opens.
enum class LoadScope {
  kAll,
  kModelOnly,  ///< the model and its moving average
};

/// A checkpoint on disk, open for reading. Opening checks the manifest, that the folder has the name of its
/// step, and the headers of the tensor files; it reads trainer.json, config.yaml and the tokenizer's files
/// and verifies their checksums. Tensors are loaded block by block (load_exactly). Errors are
/// CheckpointErrors.
class StoredCheckpoint {
 public:
  explicit StoredCheckpoint(const std::filesystem::path& step_folder, LoadScope scope = LoadScope::kAll);

  const std::filesystem::path& folder() const { return folder_; }
  std::int64_t step() const { return step_; }
  /// Score of the evaluation (CheckpointContents::metric).
  std::optional<double> metric() const { return metric_; }
  const std::string& trainer_json() const { return trainer_json_; }
  const std::string& config_yaml() const { return config_yaml_; }
  /// The parameters: one file.
  std::span<const StoredTensors> model() const { return std::span(tensors_).first(1); }
  StoredTensors take_model() && { return std::move(tensors_.front()); }
  /// The moving average of the parameters: one file or none.
  std::span<const StoredTensors> average() const { return std::span(tensors_).subspan(1, averages_); }
  StoredTensors take_average() && { return std::move(tensors_.at(1)); }
  /// The optimiser state: one file or several; none with LoadScope::kModelOnly.
  std::span<const StoredTensors> optimizer() const { return std::span(tensors_).subspan(1 + averages_); }

  /// Files that the model is used with (CheckpointContents::files), verified.
  const std::vector<std::pair<std::string, std::string>>& files() const { return files_; }

  /// Verifies the checksums of all tensor files.
  void verify() const;

 private:
  std::filesystem::path folder_;
  std::int64_t step_ = 0;
  std::optional<double> metric_;
  std::string trainer_json_, config_yaml_;
  std::vector<std::pair<std::string, std::string>> files_;
  std::size_t averages_ = 0;            // 1 with a moving average
  std::vector<StoredTensors> tensors_;  // the model, its average, then the optimiser
};

/// Throws CheckpointError for a checkpoint that holds a model only, from which no run can be resumed.
void require_resumable(const StoredCheckpoint& checkpoint);

}  // namespace moh
