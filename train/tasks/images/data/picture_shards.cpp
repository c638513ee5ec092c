#include "train/tasks/images/data/picture_shards.h"

#include <algorithm>
#include <span>
#include <string_view>
#include <utility>

#include "core/error.h"
#include "train/io/checksum.h"
#include "train/io/input_file.h"
#include "train/io/printable.h"
#include "train/tasks/images/data/class_list.h"
#include "train/tasks/images/data/shard_index.h"

namespace moh {

namespace {

namespace fs = std::filesystem;

class PictureShards final : public PictureSource {
 public:
  PictureShards(const std::vector<fs::path>& archives, const std::vector<std::string>& class_names) {
    for (const fs::path& archive : archives) shards_.push_back({archive, open_shard_index(archive)});
    const ClassList classes(class_names.empty() ? own_classes() : class_names);
    for (Shard& shard : shards_) {
      shard.first = size_;
      size_ += shard.index.size();
      adopt(shard, classes);
    }
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
    const auto place = static_cast<std::size_t>(index - shard.first);
    return printable_path(shard.path) + ", picture " + std::to_string(place) + " at byte " +
           std::to_string(shard.index.offsets[place]);
  }

  std::string describe_contents() const override {
    Checksum checksum;
    for (const Shard& shard : shards_) {
      for (const auto* numbers : {&shard.index.offsets, &shard.index.sizes, &shard.index.labels})
        checksum.update(std::as_bytes(std::span(*numbers)));
    }
    return std::to_string(size_) + " pictures in " + std::to_string(shards_.size()) + " archives, " +
           std::to_string(class_names_.size()) + " classes, checksum of places " + checksum.hex();
  }

  void load(std::int64_t index, std::vector<std::byte>& bytes) const override {
    const Shard& shard = shard_of(index);
    const auto place = static_cast<std::size_t>(index - shard.first);
    const InputFile file(shard.path, InputKind::kData);  // not kept open: there may be thousands
    bytes.resize(static_cast<std::size_t>(shard.index.sizes[place]));
    file.read(static_cast<std::uint64_t>(shard.index.offsets[place]), bytes, "picture");
  }

 private:
  struct Shard {
    fs::path path;
    ShardIndex index;
    std::int64_t first = 0;  ///< number of its first picture
  };

  const Shard& shard_of(std::int64_t index) const {
    return *(std::ranges::upper_bound(shards_, index, {}, &Shard::first) - 1);
  }

  /// Names of all shards together, or the numbers up to the largest label.
  std::vector<std::string> own_classes() const {
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
    } else {
      for (std::int64_t label = 0; label <= most; ++label) names.push_back(std::to_string(label));
    }
    return names;
  }

  void require_form(const Shard& shard, bool named) const {
    if (named == !shard.index.class_names.empty()) return;
    throw DataError(error_message(printable_path(shard.path), "labels",
                                  named ? "folders named as classes, as in the archives before"
                                        : "members NAME.cls, as in the archives before",
                                  "the other form"));
  }

  static void adopt(Shard& shard, const ClassList& classes) {
    const std::string where = printable_path(shard.path);
    std::vector<std::int64_t> labels;
    for (const std::string& name : shard.index.class_names) labels.push_back(classes.label_of(name, where));
    for (std::int64_t& label : shard.index.labels) {
      if (!labels.empty())
        label = labels[static_cast<std::size_t>(label)];
      else if (label >= classes.size())
        classes.label_of(std::to_string(label), where);  // throws
    }
  }

  std::vector<Shard> shards_;
  std::int64_t size_ = 0;
  std::vector<std::string> class_names_;
};

}  // namespace

PictureSourcePtr open_picture_shards(const std::vector<fs::path>& archives,
                                     const std::vector<std::string>& class_names) {
  MOH_CHECK(!archives.empty(), "open_picture_shards: no archives");
  return std::make_shared<PictureShards>(archives, class_names);
}

}  // namespace moh
