#include "train/families/diffusion/latents/make_latents.h"

#include <algorithm>
#include <cstdio>
#include <utility>
#include <vector>

#include "core/error.h"
#include "core/parallel.h"
#include "train/augment/crop.h"
#include "train/augment/normalize.h"
#include "train/base/formats/stored_dtype.h"
#include "train/base/io/durable_file.h"
#include "train/base/io/file_ops.h"
#include "train/base/io/printable.h"
#include "train/base/io/run_lock.h"
#include "train/families/diffusion/latents/latent_source.h"
#include "train/families/diffusion/signed_pixels.h"
#include "train/families/images/data/changed_data.h"
#include "train/trainer/task/data/batch_workers.h"

namespace moh {

namespace {

namespace fs = std::filesystem;

/// Pictures that are decoded while one is encoded.
constexpr int kAhead = 4;

fs::path shard_path(const fs::path& folder, std::int64_t number) {
  char name[32];
  std::snprintf(name, sizeof name, "%06lld.safetensors", static_cast<long long>(number));
  return folder / name;
}

LatentShardInfo info_of(const PictureSource& pictures, const LoadedAutoencoder& autoencoder,
                        const LatentOptions& o) {
  const AutoencoderConfig& c = autoencoder.model->config();
  if (c.in_channels != Picture::kChannels || c.latent_channels == Picture::kChannels)
    throw ConfigError(error_message(
        "--autoencoder", "",
        "one of 3 channels of pixels, and of another number of latents, as 3 are taken for pixels",
        std::to_string(c.in_channels) + " and " + std::to_string(c.latent_channels)));
  if (o.image_size < 1 || o.image_size % c.reduction() != 0)
    throw ConfigError(error_message(
        "--image-size", "", "a multiple of " + std::to_string(c.reduction()) + ", as the autoencoder reduces",
        std::to_string(o.image_size)));
  return {.autoencoder = autoencoder.hash,
          .scaling_factor = c.scaling_factor,
          .image_size = o.image_size,
          .channels = c.latent_channels,
          .side = o.image_size / c.reduction(),
          .stored_dtype = safetensors_dtype_name(o.dtype),
          .class_names = pictures.class_names(),
          .source = pictures.describe_contents(),
          .total = pictures.size(),
          .shard_pictures = o.shard_pictures};
}

/// Shards of all pictures. shard_pictures may be any number from 1 on.
std::int64_t shards_for(const LatentShardInfo& info) {
  return info.total / info.shard_pictures + (info.total % info.shard_pictures > 0 ? 1 : 0);
}

/// The numbers of the shards that the folder lacks. Throws for those of another making.
std::vector<std::int64_t> missing_shards(const fs::path& folder, LatentReport& report,
                                         LatentProgress& progress) {
  const LatentShardInfo& info = report.info;
  const std::int64_t shards = shards_for(info);
  std::vector<bool> there(static_cast<std::size_t>(shards));
  for (const LatentShard& shard : shards_of(folder)) {
    const LatentShardInfo& found = shard.info();
    if (const auto difference = difference_of_making(info, found))
      throw ConfigError(error_message(printable_path(shard.path()), difference->what,
                                      difference->expected + ", as this command has it", difference->found,
                                      "shards of other makings lie there: choose another folder"));
    const std::int64_t number = found.first / info.shard_pictures;
    if (shard.path() != shard_path(folder, number) || found.first % info.shard_pictures != 0)
      throw ConfigError(error_message(printable_path(shard.path()), "name",
                                      shard_path(folder, number).filename().string(), "another",
                                      "name it as 'moh data latents' did"));
    there[static_cast<std::size_t>(number)] = true;
    progress.kept += found.count + found.skipped;
    report.pictures += found.count;
  }
  std::vector<std::int64_t> missing;
  for (std::int64_t number = 0; number < shards; ++number) {
    if (!there[static_cast<std::size_t>(number)]) missing.push_back(number);
  }
  progress.done = progress.kept;
  return missing;
}

/// A picture for the autoencoder.
struct Prepared {
  Tensor views;  ///< [2, size, size, 3]: as it is, and mirrored; undefined for a broken one
};

/// Decodes and crops pictures on threads, ahead of their use: those of the missing shards, one after the
/// other.
class PreparedPictures {
 public:
  PreparedPictures(const PictureSource& pictures, const LatentOptions& options,
                   std::vector<std::int64_t> numbers, BrokenPictures& broken)
      : pictures_(pictures),
        options_(options),
        numbers_(std::move(numbers)),
        broken_(broken),
        workers_(steps(), 0, kAhead, num_threads()) {}

  Prepared next() { return workers_.next(); }

 private:
  BatchWorkers<Prepared>::Steps steps() {
    return {.begin = [](std::int64_t) { return Prepared{}; },
            .samples = 1,
            .make = [this](Prepared& to, std::int64_t i, std::int64_t) { prepare(to, i); },
            .finish = [](Prepared&, std::int64_t) {}};
  }

  Picture square_of(std::int64_t number) const {
    std::vector<std::byte> bytes;
    pictures_.load(number, bytes);
    return center_crop(pictures_.decode(number, bytes, [](PictureSize size) { return whole(size); }),
                       static_cast<int>(options_.image_size));
  }

  void prepare(Prepared& to, std::int64_t i) const {
    if (i >= std::ssize(numbers_)) return;
    const std::int64_t number = numbers_[static_cast<std::size_t>(i)];
    try {
      Picture square;
      with_memory([&] { return pictures_.name(number); }, [&] { square = square_of(number); });
      to.views = empty({2, options_.image_size, options_.image_size, Picture::kChannels}, DType::kFloat32);
      normalizer_(square, to.views.select(0).span<float>());
      flip(square);
      normalizer_(square, to.views.select(1).span<float>());
    } catch (const ChangedDataError&) {
      throw;
    } catch (const DataError& error) {
      if (options_.on_error == OnError::kStop) throw;
      broken_.add(number, error.what());
    }
  }

  const PictureSource& pictures_;
  const LatentOptions& options_;
  const std::vector<std::int64_t> numbers_;
  BrokenPictures& broken_;
  ChannelNormalizer normalizer_{kSignedPixels};
  BatchWorkers<Prepared> workers_;
};

std::vector<std::int64_t> pictures_of(const std::vector<std::int64_t>& shards, const LatentShardInfo& info) {
  std::vector<std::int64_t> numbers;
  for (const std::int64_t shard : shards) {
    const std::int64_t first = shard * info.shard_pictures,
                       last = std::min(first + info.shard_pictures, info.total);
    for (std::int64_t number = first; number < last; ++number) numbers.push_back(number);
  }
  return numbers;
}

}  // namespace

LatentReport make_latents(const PictureSource& pictures, const LoadedAutoencoder& autoencoder,
                          const LatentOptions& options, FunctionRef<bool(const LatentProgress&)> stop) {
  LatentReport report{.info = info_of(pictures, autoencoder, options)};
  LatentShardInfo& info = report.info;
  LatentProgress progress{.total = info.total};
  make_directories(options.folder);
  const RunLock lock(options.folder);
  const std::vector<std::int64_t> missing = missing_shards(options.folder, report, progress);
  BrokenPictures broken;
  PreparedPictures prepared(pictures, options, pictures_of(missing, info), broken);
  for (const std::int64_t number : missing) {
    const fs::path path = shard_path(options.folder, number);
    remove_abandoned_temporaries(path);
    info.first = number * info.shard_pictures;
    NewLatentShard shard(info);
    const std::int64_t last = std::min(info.first + info.shard_pictures, info.total);
    for (std::int64_t picture = info.first; picture < last; ++picture) {
      if (stop(progress)) return report;
      const Prepared one = prepared.next();
      if (one.views.defined()) {
        const LatentDistribution latents = autoencoder.model->encode(one.views);
        shard.add(latents.mean, latents.deviation, pictures.label(picture), pictures.name(picture));
      } else {
        shard.skip();
      }
      ++progress.done;
    }
    lock.require_in_place();
    shard.save(path);
    report.pictures += shard.info().count;
  }
  report.shards = shards_for(info);
  report.broken = broken.describe();
  report.finished = true;
  lock.remove();
  return report;
}

}  // namespace moh
