#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/tensor.h"

namespace moh {

/// Pictures that the latents of a folder, or one shard of it, can be of.
inline constexpr std::int64_t kMostLatentPictures = std::int64_t{1} << 40;

/// The description in a shard of latents (format: docs/latents.md). All but `first`, `count` and `skipped` is
/// the same in all shards of a folder.
struct LatentShardInfo {
  std::string autoencoder;        ///< hash of its weights (LoadedAutoencoder)
  double scaling_factor = 0;      ///< what training multiplies latents by
  std::int64_t image_size = 0;    ///< pixels a side of the pictures
  std::int64_t channels = 0;      ///< of latents
  std::int64_t side = 0;          ///< of latents
  std::string_view stored_dtype;  ///< of mean and deviation, as safetensors names it: "F32" or "BF16"
  std::vector<std::string> class_names;
  std::string source;               ///< PictureSource::describe_contents() of the pictures
  std::int64_t total = 0;           ///< pictures of the source
  std::int64_t shard_pictures = 0;  ///< of each shard but the last
  std::int64_t first = 0;           ///< number in the source of the shard's first picture
  std::int64_t count = 0;           ///< pictures of this shard
  std::int64_t skipped = 0;         ///< broken ones, which are not among them

  /// Elements of the latents of a picture.
  std::int64_t elements() const { return channels * side * side; }
};

/// A picture as it is, or left and right exchanged.
enum class LatentView : std::uint8_t { kPlain, kMirrored };

/// A shard that is being made, in memory: `latents` of up to shard_pictures pictures.
class NewLatentShard {
 public:
  /// Memory for the pictures of the source from `info.first` on. Throws ValueError for a dtype that is
  /// neither F32 nor BF16.
  explicit NewLatentShard(LatentShardInfo info);

  const LatentShardInfo& info() const { return info_; }
  /// Adds a picture: mean and deviation [2, side, side, channels] float32 of both views, as
  /// Autoencoder::encode gives them. Throws NumericError, naming the picture, for numbers that are not
  /// finite.
  void add(const Tensor& mean, const Tensor& deviation, std::int64_t label, std::string_view name);
  /// Notes a broken one.
  void skip() { ++info_.skipped; }

  /// Writes the file, atomically and durably. Throws StorageError; DataError where no picture was added.
  void save(const std::filesystem::path& path) const;

 private:
  LatentShardInfo info_;
  Tensor mean_, deviation_, labels_, checksums_;
};

/// A shard of latents, open for reading. The file is untrusted: opening checks its header, metadata, labels,
/// and the checksum of these and of the latents' checksums; reading compares each latent with its own. It is
/// not kept open, as there may be thousands. Immutable and thread-safe. All errors are DataErrors that name
/// the file.
class LatentShard {
 public:
  explicit LatentShard(std::filesystem::path path);
  /// The checksum that the file should have of labels, metadata and the checksums of all latents.
  static std::string computed_checksum(const std::filesystem::path& path);

  const std::filesystem::path& path() const { return path_; }
  const LatentShardInfo& info() const { return info_; }
  /// An index into info().class_names.
  std::int64_t label(std::int64_t picture) const;
  /// The checksum that the file has.
  const std::string& checksum() const { return checksum_; }

  /// Reads mean and deviation, [channels, side, side] each.
  void read(std::int64_t picture, LatentView view, std::span<float> mean, std::span<float> deviation) const;
  /// Reads everything.
  void verify() const;

 private:
  std::filesystem::path path_;
  LatentShardInfo info_;
  std::string checksum_;
  std::uint64_t mean_begin_ = 0, deviation_begin_ = 0;  ///< bytes of the file
  Tensor labels_, checksums_;
};

/// Whether a file is a safetensors file that says to be a shard of latents.
bool is_latent_shard(const std::filesystem::path& path);

}  // namespace moh
