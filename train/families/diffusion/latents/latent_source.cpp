#include "train/families/diffusion/latents/latent_source.h"

#include <algorithm>
#include <system_error>
#include <utility>

#include "core/error.h"
#include "train/base/io/checksum.h"
#include "train/base/io/printable.h"
#include "train/config/number_text.h"
#include "train/families/images/class_names.h"
#include "train/families/images/data/checked_source.h"
#include "train/families/images/data/class_list.h"

namespace moh {

namespace {

namespace fs = std::filesystem;

constexpr std::size_t kSourceShown = 300;

bool has_shard_name(const fs::path& path) {
  return path.extension() == ".safetensors" && !path.filename().string().starts_with('.');
}

/// The files in a folder that are named as shards, in the order of their names; none of what is no folder.
std::vector<fs::path> shard_files(const fs::path& folder) {
  std::vector<fs::path> files;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) {
    if (has_shard_name(entry.path())) files.push_back(entry.path());
  }
  std::ranges::sort(files);
  return files;
}

bool are_latents(const fs::path& path) {
  std::error_code error;
  if (fs::is_directory(path, error)) return !shard_files(path).empty();
  return fs::is_regular_file(path, error) && is_latent_shard(path);
}

std::string text(double value) {
  return config::number_text(value);
}
std::string text(std::int64_t value) {
  return std::to_string(value);
}
std::string lines_of(const std::vector<std::string>& names) {
  return identity_of(names).second;
}

std::optional<MakingDifference> first_difference(const std::vector<MakingDifference>& pairs) {
  const auto differs = [](const MakingDifference& pair) { return pair.expected != pair.found; };
  const auto first = std::ranges::find_if(pairs, differs);
  if (first == pairs.end()) return std::nullopt;
  return MakingDifference{first->what, printable(first->expected), printable(first->found)};
}

void require_none(const std::optional<MakingDifference>& difference, const fs::path& where) {
  if (difference)
    throw DataError(
        error_message(printable_path(where), difference->what, difference->expected, difference->found,
                      "shards that are read together are of one autoencoder, size and list of classes"));
}

/// Throws unless the shards are all of their source's pictures.
void require_complete(const fs::path& folder, const std::vector<LatentShard>& shards) {
  std::int64_t next = 0;
  for (const LatentShard& shard : shards) {
    const LatentShardInfo& info = shard.info();
    if (info.first != next)
      throw DataError(error_message(printable_path(shard.path()), "first picture", std::to_string(next),
                                    std::to_string(info.first),
                                    "a shard is missing: 'moh data latents' makes missing ones"));
    next += info.count + info.skipped;
  }
  const std::int64_t total = shards.front().info().total;
  if (next != total)
    throw DataError(error_message(
        printable_path(folder), "shards", "those of all " + std::to_string(total) + " pictures",
        "of " + std::to_string(next), "the same 'moh data latents' goes on where it was stopped"));
}

/// Throws if a picture is in two of the shards, which are in the order of their pictures.
void require_disjoint(const std::vector<LatentShard>& shards) {
  std::int64_t next = 0;
  for (std::size_t i = 0; i < shards.size(); ++i) {
    const LatentShardInfo& info = shards[i].info();
    if (info.first < next)
      throw DataError(error_message(
          printable_path(shards[i].path()), "first picture", std::to_string(next) + " or a later one",
          std::to_string(info.first),
          "it has pictures of " + printable_path(shards[i - 1].path()) + ": remove the one that is a copy"));
    next = info.first + info.count + info.skipped;
  }
}

class LatentShards final : public LatentSource {
 public:
  LatentShards(std::vector<LatentShard> shards, const std::vector<std::string>& class_names)
      : shards_(std::move(shards)) {
    const ClassList classes(class_names.empty() ? info().class_names : class_names);
    class_names_ = classes.names();
    for (const LatentShard& shard : shards_) {
      firsts_.push_back(size_);
      size_ += shard.info().count;
      std::vector<std::int64_t>& labels = labels_.emplace_back();
      for (const std::string& name : shard.info().class_names)
        labels.push_back(classes.label_of(name, printable_path(shard.path())));
    }
  }

  std::int64_t size() const override { return size_; }
  std::int64_t label(std::int64_t index) const override {
    const std::size_t shard = shard_of(index);
    return labels_[shard][static_cast<std::size_t>(shards_[shard].label(index - firsts_[shard]))];
  }
  const std::vector<std::string>& class_names() const override { return class_names_; }
  std::string name(std::int64_t index) const override {
    const std::size_t shard = shard_of(index);
    return printable_path(shards_[shard].path()) + ", picture " + std::to_string(index - firsts_[shard]);
  }
  std::string describe_contents() const override {
    Checksum checksum;
    for (const LatentShard& shard : shards_) checksum.update(std::as_bytes(std::span(shard.checksum())));
    return "latents of " + std::to_string(size_) + " pictures, " + std::to_string(class_names_.size()) +
           " classes, checksum " + checksum.hex();
  }

  std::int64_t channels() const override { return info().channels; }
  std::int64_t width() const override { return info().side; }
  double scaling_factor() const override { return info().scaling_factor; }
  const std::string& autoencoder() const override { return info().autoencoder; }
  void read(std::int64_t index, LatentView view, std::span<float> mean,
            std::span<float> deviation) const override {
    const std::size_t shard = shard_of(index);
    shards_[shard].read(index - firsts_[shard], view, mean, deviation);
  }

 private:
  const LatentShardInfo& info() const { return shards_.front().info(); }
  std::size_t shard_of(std::int64_t index) const {
    return static_cast<std::size_t>(std::ranges::upper_bound(firsts_, index) - firsts_.begin()) - 1;
  }

  std::vector<LatentShard> shards_;
  std::vector<std::int64_t> firsts_;               ///< number of the first picture of each shard
  std::vector<std::vector<std::int64_t>> labels_;  ///< of the classes of each shard
  std::int64_t size_ = 0;
  std::vector<std::string> class_names_;
};

class NoiseLatents final : public LatentSource {
 public:
  NoiseLatents(std::int64_t count, std::int64_t classes, std::int64_t channels, std::int64_t side)
      : count_(count), channels_(channels), side_(side), names_(classes) {}

  std::int64_t size() const override { return count_; }
  std::int64_t label(std::int64_t index) const override { return index % num_classes(); }
  const std::vector<std::string>& class_names() const override { return names_.get(); }
  std::int64_t num_classes() const override { return names_.size(); }
  std::string name(std::int64_t index) const override { return "noise " + std::to_string(index); }
  std::string describe_contents() const override { return std::to_string(count_) + " latents of noise"; }
  std::int64_t channels() const override { return channels_; }
  std::int64_t width() const override { return side_; }
  double scaling_factor() const override { return 1; }
  const std::string& autoencoder() const override { return none_; }
  void read(std::int64_t, LatentView, std::span<float> mean, std::span<float> deviation) const override {
    std::ranges::fill(mean, 0.0F);
    std::ranges::fill(deviation, 1.0F);
  }

 private:
  std::int64_t count_, channels_, side_;
  NumberNames names_;
  std::string none_;
};

}  // namespace

bool are_latents(const std::vector<fs::path>& paths) {
  const auto latents = std::ranges::count_if(paths, [](const fs::path& path) { return are_latents(path); });
  if (latents > 0 && latents < std::ssize(paths)) {
    const auto other = std::ranges::find_if(paths, [](const fs::path& path) { return !are_latents(path); });
    throw DataError(
        error_message(printable_path(*other), "", "latents, as the other paths", "something else"));
  }
  return latents > 0;
}

std::optional<MakingDifference> difference_of_latents(const LatentShardInfo& expected,
                                                      const LatentShardInfo& found) {
  return first_difference({{"autoencoder", expected.autoencoder, found.autoencoder},
                           {"scaling factor", text(expected.scaling_factor), text(found.scaling_factor)},
                           {"image size", text(expected.image_size), text(found.image_size)},
                           {"channels", text(expected.channels), text(found.channels)},
                           {"side of latents", text(expected.side), text(found.side)},
                           {"classes", lines_of(expected.class_names), lines_of(found.class_names)}});
}

std::optional<MakingDifference> difference_of_making(const LatentShardInfo& expected,
                                                     const LatentShardInfo& found) {
  if (auto difference = difference_of_latents(expected, found)) return difference;
  if (expected.source != found.source)
    return MakingDifference{"pictures", printable(expected.source, kSourceShown),
                            printable(found.source, kSourceShown)};
  return first_difference(
      {{"type", std::string(expected.stored_dtype), std::string(found.stored_dtype)},
       {"number of pictures", text(expected.total), text(found.total)},
       {"pictures of a shard", text(expected.shard_pictures), text(found.shard_pictures)}});
}

std::vector<LatentShard> shards_of(const fs::path& folder) {
  std::vector<LatentShard> shards;
  for (const fs::path& file : shard_files(folder)) {
    const LatentShard& shard = shards.emplace_back(file);
    require_none(difference_of_making(shards.front().info(), shard.info()), file);
  }
  std::ranges::stable_sort(shards, {}, [](const LatentShard& shard) { return shard.info().first; });
  require_disjoint(shards);
  return shards;
}

LatentSourcePtr open_latents(const std::vector<fs::path>& paths,
                             const std::vector<std::string>& class_names) {
  std::vector<LatentShard> all;
  for (const fs::path& path : paths) {
    std::error_code error;
    std::vector<LatentShard> shards;
    if (fs::is_directory(path, error)) {
      shards = shards_of(path);
      if (shards.empty())
        throw DataError(error_message(printable_path(path), "", "shards of latents, *.safetensors", "none"));
      require_complete(path, shards);
    } else {
      shards.emplace_back(path);
    }
    for (LatentShard& shard : shards) {
      if (!all.empty()) require_none(difference_of_latents(all.front().info(), shard.info()), shard.path());
      all.push_back(std::move(shard));
    }
  }
  MOH_CHECK(!all.empty(), "open_latents: paths");
  return checked<LatentSource>(std::make_shared<LatentShards>(std::move(all), class_names));
}

LatentSourcePtr noise_latents(std::int64_t count, std::int64_t classes, std::int64_t channels,
                              std::int64_t side) {
  return checked_turn<LatentSource>(std::make_shared<NoiseLatents>(count, classes, channels, side));
}

}  // namespace moh
