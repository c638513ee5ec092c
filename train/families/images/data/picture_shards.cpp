#include "train/families/images/data/picture_shards.h"

#include <algorithm>
#include <span>
#include <string_view>
#include <utility>

#include "core/error.h"
#include "train/base/formats/tar_file.h"
#include "train/base/io/checksum.h"
#include "train/base/io/input_file.h"
#include "train/base/io/printable.h"
#include "train/families/images/data/archive_state.h"
#include "train/families/images/data/class_list.h"
#include "train/families/images/data/content_sample.h"
#include "train/families/images/data/shard_index.h"

namespace moh {

namespace {

namespace fs = std::filesystem;

/// Numbers up to the largest label name the classes of archives whose number of classes nobody gives.
constexpr std::int64_t kMostUnnamed = 1 << 20;

class PictureShards final : public PictureSource {
 public:
  PictureShards(const std::vector<fs::path>& archives, const std::vector<std::string>& class_names,
                std::int64_t model_classes) {
    for (const fs::path& archive : archives) {
      const ArchiveState state = archive_state(archive);
      Shard& shard = shards_.emplace_back(Shard{archive, state, open_shard_index(archive, state), size_});
      size_ += shard.index.size();
    }
    const ClassList classes(class_names.empty() ? own_classes(model_classes) : class_names);
    for (Shard& shard : shards_) adopt(shard, classes);
    class_names_ = classes.names();
  }

  std::int64_t size() const override { return size_; }
  std::int64_t label(std::int64_t index) const override {
    const Shard& shard = shard_of(index);
    return shard.index.labels[static_cast<std::size_t>(index - shard.first)];
  }
  const std::vector<std::string>& class_names() const override { return class_names_; }
  std::string name(std::int64_t index) const override {
    const Shard& shard = shard_of(index);
    return name_of(shard, static_cast<std::size_t>(index - shard.first));
  }

  std::string describe_contents() const override {
    Checksum checksum;
    for (const Shard& shard : shards_) {
      for (const auto* numbers : {&shard.index.offsets, &shard.index.sizes, &shard.index.labels})
        checksum.update(std::as_bytes(std::span(*numbers)));
    }
    return std::to_string(size_) + " pictures in " + std::to_string(shards_.size()) + " archives, " +
           std::to_string(class_names_.size()) + " classes, checksum of places " + checksum.hex() +
           ", of contents " + sampled_contents();
  }

  void load(std::int64_t index, std::vector<std::byte>& bytes) const override {
    const Shard& shard = shard_of(index);
    const auto place = static_cast<std::size_t>(index - shard.first);
    const InputFile file(shard.path, InputKind::kData);  // not kept open: there may be thousands
    resize_for_picture(bytes, static_cast<std::uint64_t>(shard.index.sizes[place]),
                       [&] { return name_of(shard, place); });
    try {
      file.read(static_cast<std::uint64_t>(shard.index.offsets[place]), bytes, "picture");
    } catch (const DataError&) {
      require_unchanged(shard.path, shard.state);  // the reason, if it was truncated
      throw;
    }
    require_unchanged(shard.path, shard.state);  // after the read: what was read is what was indexed
  }

 private:
  struct Shard {
    fs::path path;
    ArchiveState state;  ///< when its index was opened
    ShardIndex index;
    std::int64_t first = 0;  ///< number of its first picture
  };

  const Shard& shard_of(std::int64_t index) const {
    return *(std::ranges::upper_bound(shards_, index, {}, &Shard::first) - 1);
  }

  /// The archive, the picture's number and place, and the member's name if the archive can still be read.
  static std::string name_of(const Shard& shard, std::size_t place) {
    const std::int64_t offset = shard.index.offsets[place];
    std::string name = printable_path(shard.path) + ", picture " + std::to_string(place) + " at byte " +
                       std::to_string(offset);
    try {
      const InputFile file(shard.path, InputKind::kData);
      const std::string member = tar_name_before(file, static_cast<std::uint64_t>(offset));
      if (!member.empty()) name += ", " + printable(member);
    } catch (const DataError&) {
      // The caller, who asked for the name, reports the error in the archive.
    }
    return name;
  }

  /// A checksum of pictures of every archive, in their order: archives of the same layout that were exchanged
  /// differ.
  std::string sampled_contents() const {
    const std::int64_t each = std::max<std::int64_t>(1, ContentSample::kPictures / std::ssize(shards_));
    ContentSample sample;
    for (const Shard& shard : shards_) {
      const InputFile file(shard.path, InputKind::kData);
      for (const std::int64_t i : sampled_indices(shard.index.size(), each)) {
        const auto place = static_cast<std::size_t>(i);
        sample.add(file, static_cast<std::uint64_t>(shard.index.offsets[place]),
                   static_cast<std::uint64_t>(shard.index.sizes[place]));
      }
    }
    return sample.hex();
  }

  /// Names of all shards together, or the numbers up to the largest label.
  std::vector<std::string> own_classes(std::int64_t model_classes) const {
    const bool named = !shards_.front().index.class_names.empty();
    std::vector<std::string> names;
    std::int64_t most = -1;
    for (const Shard& shard : shards_) {
      require_form(shard, named);
      names.insert(names.end(), shard.index.class_names.begin(), shard.index.class_names.end());
      most = std::max(most, std::ranges::max(shard.index.labels));
    }
    if (named) {
      std::ranges::sort(names);
      names.erase(std::unique(names.begin(), names.end()), names.end());
      return names;
    }
    for (const Shard& shard : shards_)
      require_below(shard, model_classes > 0 ? model_classes : kMostUnnamed,
                    model_classes > 0 ? "model.classes" : "the bound where model.classes is not known");
    for (std::int64_t label = 0; label <= most; ++label) names.push_back(std::to_string(label));
    return names;
  }

  void require_form(const Shard& shard, bool named) const {
    if (named == !shard.index.class_names.empty()) return;
    throw DataError(error_message(printable_path(shard.path), "labels",
                                  named ? "folders named as classes, as in the archives before"
                                        : "members NAME.cls, as in the archives before",
                                  "the other form"));
  }

  /// Throws for the first picture whose label is a number from `classes` on.
  static void require_below(const Shard& shard, std::int64_t classes, const std::string& whose) {
    const auto& labels = shard.index.labels;
    const auto found = std::ranges::find_if(labels, [=](std::int64_t label) { return label >= classes; });
    if (found == labels.end()) return;
    const auto place = static_cast<std::size_t>(found - labels.begin());
    throw DataError(error_message(name_of(shard, place), "label",
                                  "less than " + std::to_string(classes) + ", " + whose,
                                  std::to_string(*found), "correct its .cls, or the number of classes"));
  }

  static void adopt(Shard& shard, const ClassList& classes) {
    if (shard.index.class_names.empty())
      return require_below(shard, classes.size(), "the number of classes of the training data");
    const std::string where = printable_path(shard.path);
    std::vector<std::int64_t> labels;
    for (const std::string& name : shard.index.class_names) labels.push_back(classes.label_of(name, where));
    for (std::int64_t& label : shard.index.labels) label = labels[static_cast<std::size_t>(label)];
  }

  std::vector<Shard> shards_;
  std::int64_t size_ = 0;
  std::vector<std::string> class_names_;
};

}  // namespace

PictureSourcePtr open_picture_shards(const std::vector<fs::path>& archives,
                                     const std::vector<std::string>& class_names, std::int64_t classes) {
  MOH_CHECK(!archives.empty(), "open_picture_shards: no archives");
  return std::make_shared<PictureShards>(archives, class_names, classes);
}

}  // namespace moh
