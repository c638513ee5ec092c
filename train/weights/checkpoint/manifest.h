#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace moh {

inline constexpr const char* kManifestFile = "manifest.json";
inline constexpr const char* kModelFile = "model.safetensors";
inline constexpr const char* kAverageFile = "ema.safetensors";  ///< of some checkpoints only
inline constexpr const char* kTrainerFile = "trainer.json";
inline constexpr const char* kConfigFile = "config.yaml";
/// Whether a checkpoint may have a file of this name besides, as it needs it to be used alone: those of the
/// tokenizer, and what says how a text begins and ends.
bool is_carried_file(std::string_view name);
/// The version that this program writes; it reads this one and older ones.
inline constexpr int kCheckpointFormatVersion = 1;

/// "00012" for number 12, digits 5.
std::string zero_padded(std::int64_t number, std::size_t digits);
/// "optimizer-00000-of-00001.safetensors".
std::string optimizer_shard_file(int index, int count);

/// One file of a checkpoint.
struct ManifestFile {
  std::string name;
  std::uint64_t bytes = 0;
  std::string checksum;  ///< of the whole file (train/base/io/checksum.h)
  std::map<std::string, std::string, std::less<>>
      tensors;  ///< of a tensor file: name -> checksum of its elements
};

/// The table of contents of a checkpoint, the last file written. JSON with a checksum of itself, so that each
/// bit of a checkpoint is covered by a checksum.
struct Manifest {
  std::int64_t step = 0;
  std::optional<double> metric;
  int num_optimizer_shards = 1;
  std::vector<ManifestFile> files;

  /// The file of that name, or nullptr.
  const ManifestFile* find(std::string_view name) const;
};

std::string to_json(const Manifest& manifest);

/// Reads and checks the manifest of a step folder: its checksum, its version, that it lists the files of a
/// checkpoint by name without a path, that the folder contains exactly these, and their sizes. Files whose
/// names begin with a dot are ignored. Throws CheckpointError.
Manifest read_manifest(const std::filesystem::path& step_folder);

}  // namespace moh
