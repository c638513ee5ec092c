#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "train/families/diffusion/latents/latent_shard.h"
#include "train/families/images/data/picture_source.h"

namespace moh {

/// Latents of pictures, by number. Immutable and thread-safe.
class LatentSource : public LabelledSource {
 public:
  virtual std::int64_t channels() const = 0;
  virtual std::int64_t width() const = 0;
  /// The factor by which training multiplies latents.
  virtual double scaling_factor() const = 0;
  /// Hash of the weights of the autoencoder that made them; empty for made-up ones.
  virtual const std::string& autoencoder() const = 0;
  /// Mean and deviation, [channels, width, width] each. Throws DataError naming the picture.
  virtual void read(std::int64_t index, LatentView view, std::span<float> mean,
                    std::span<float> deviation) const = 0;

  std::int64_t elements() const { return channels() * width() * width(); }
};

using LatentSourcePtr = std::shared_ptr<const LatentSource>;

/// Whether all of the paths are of latents: shards, or folders with files of shards (*.safetensors). Throws
/// DataError if some are and others are not, and for what cannot be read.
bool are_latents(const std::vector<std::filesystem::path>& paths);

/// Opens shards: single ones, and folders, which have to hold all shards of their pictures. All have to be of
/// one autoencoder, of one size and of the same classes. `class_names`, if not empty, are those of the
/// training data: the labels are theirs then. Throws DataError.
LatentSourcePtr open_latents(const std::vector<std::filesystem::path>& paths,
                             const std::vector<std::string>& class_names = {});

/// The shards of a folder in the order of their pictures. Throws DataError for a file that is none, for
/// shards of different makings, and for two with the same pictures.
std::vector<LatentShard> shards_of(const std::filesystem::path& folder);

/// The difference between the makings of two shards, of their latents alone or of all that the shards of one
/// folder share; nothing if they are alike.
struct MakingDifference {
  std::string what, expected, found;
};
std::optional<MakingDifference> difference_of_latents(const LatentShardInfo& expected,
                                                      const LatentShardInfo& found);
std::optional<MakingDifference> difference_of_making(const LatentShardInfo& expected,
                                                     const LatentShardInfo& found);

/// Latents for measurements, of next to no cost: `count` of them, of a given shape, in `classes`.
LatentSourcePtr noise_latents(std::int64_t count, std::int64_t classes, std::int64_t channels,
                              std::int64_t side);

}  // namespace moh
