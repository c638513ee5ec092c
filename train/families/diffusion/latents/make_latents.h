#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "core/function_ref.h"
#include "train/families/diffusion/latents/latent_shard.h"
#include "train/families/diffusion/load_autoencoder.h"
#include "train/families/images/data/broken_pictures.h"
#include "train/families/images/data/picture_source.h"

namespace moh {

/// Options of `moh data latents`.
struct LatentOptions {
  std::filesystem::path folder;
  std::int64_t image_size = 256;       ///< pixels a side of the square that is encoded (center_crop)
  DType dtype = DType::kFloat32;       ///< of mean and deviation: float32 or bfloat16
  std::int64_t shard_pictures = 1024;  ///< pictures of a shard, which is held in memory while it is made
  OnError on_error = OnError::kStop;   ///< of a broken picture; kSkip leaves it out
};

struct LatentProgress {
  std::int64_t done = 0;  ///< pictures whose latents are made, with those of earlier runs
  std::int64_t kept = 0;  ///< thereof in shards that were there
  std::int64_t total = 0;
};

struct LatentReport {
  LatentShardInfo info;       ///< what all shards share
  std::int64_t shards = 0;    ///< of the folder
  std::int64_t pictures = 0;  ///< in these
  std::string broken;         ///< BrokenPictures::describe() of those that this call left out
  bool finished = false;      ///< false: `stop` returned true
};

/// Encodes the pictures, each as it is and mirrored, and writes shards of latents to the folder, which is
/// created: `000000.safetensors` and so on, each complete when it has its name. Shards that are there are
/// kept, so that a process that was killed loses one at most. The bytes depend on pictures, weights and
/// options alone. Holds one shard, and what the autoencoder needs for a picture. Calls `stop` after each
/// picture. Throws ConfigError for sizes that the autoencoder does not take, for a folder with shards of
/// another making and where another process writes there; DataError for broken pictures with kStop, and
/// damaged shards; StorageError, NumericError.
LatentReport make_latents(const PictureSource& pictures, const LoadedAutoencoder& autoencoder,
                          const LatentOptions& options, FunctionRef<bool(const LatentProgress&)> stop);

}  // namespace moh
