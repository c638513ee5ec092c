#include "train/families/images/data/cifar_batches.h"

#include <algorithm>
#include <array>
#include <span>
#include <string_view>

#include "core/error.h"
#include "train/base/io/checksum.h"
#include "train/base/io/input_file.h"
#include "train/base/io/printable.h"
#include "train/families/images/data/class_list.h"

namespace moh {

namespace {

namespace fs = std::filesystem;

constexpr int kSide = 32, kClasses = 10;
constexpr std::size_t kPlane = std::size_t{kSide} * kSide, kRecord = 1 + 3 * kPlane;

std::vector<std::string> names_beside(const fs::path& file) {
  const fs::path path = file.parent_path() / "batches.meta.txt";
  std::vector<std::string> names;
  if (fs::is_regular_file(path)) {
    const std::string text = read_text_file(path, InputKind::kData, 4096);
    std::string_view left = text;
    while (!left.empty()) {
      const std::size_t end = std::min(left.find_first_of("\r\n"), left.size());
      if (end > 0) names.emplace_back(left.substr(0, end));
      left.remove_prefix(std::min(end + 1, left.size()));
    }
    if (names.size() != kClasses)
      throw DataError(
          error_message(printable_path(path), "", "10 names of classes", std::to_string(names.size())));
  }
  for (int i = 0; names.size() < kClasses; ++i) names.push_back(std::to_string(i));
  return names;
}

/// 180 MB for all of it: read at the start.
class CifarBatches final : public PictureSource {
 public:
  CifarBatches(const std::vector<fs::path>& files, const std::vector<std::string>& class_names)
      : path_(files.front()) {
    const std::vector<std::string> own = names_beside(path_);
    const ClassList classes(class_names.empty() ? own : class_names);
    class_names_ = classes.names();
    for (std::size_t i = 0; i < kClasses; ++i) labels_[i] = classes.label_of(own[i], printable_path(path_));
    for (const fs::path& path : files) append(path);
  }

  std::int64_t size() const override { return static_cast<std::int64_t>(records_.size() / kRecord); }
  std::int64_t label(std::int64_t index) const override {
    return labels_[std::to_integer<std::size_t>(record(index).front())];
  }
  const std::vector<std::string>& class_names() const override { return class_names_; }
  std::string name(std::int64_t index) const override {
    return printable_path(path_) + ", picture " + std::to_string(index);
  }
  std::string describe_contents() const override {
    return std::to_string(size()) + " pictures of CIFAR-10, checksum " + checksum_hex(std::span(records_));
  }

  void load(std::int64_t, std::vector<std::byte>& bytes) const override { bytes.clear(); }
  Picture decode(std::int64_t index, const std::vector<std::byte>&, ChooseRegion region) const override {
    const PictureBox box = region({kSide, kSide});
    Picture picture(box.size());
    const std::byte* planes = record(index).data() + 1;
    for (int y = 0; y < box.height; ++y) {
      std::uint8_t* to = picture.row(y);
      for (int x = 0; x < box.width; ++x) {
        const auto place =
            static_cast<std::size_t>(box.top + y) * kSide + static_cast<std::size_t>(box.left + x);
        for (std::size_t c = 0; c < 3; ++c) *to++ = std::to_integer<std::uint8_t>(planes[c * kPlane + place]);
      }
    }
    return picture;
  }

 private:
  std::span<const std::byte> record(std::int64_t index) const {
    return std::span(records_).subspan(static_cast<std::size_t>(index) * kRecord, kRecord);
  }

  void append(const fs::path& path) {
    const InputFile file(path, InputKind::kData);
    constexpr std::uint64_t kMost = std::uint64_t{1} << 30;
    if (file.size() == 0 || file.size() % kRecord != 0 || file.size() > kMost)
      file.fail("", "records of 3073 bytes, up to 1 GiB", std::to_string(file.size()) + " bytes");
    const std::size_t begin = records_.size();
    records_.resize(begin + file.size());
    file.read(0, std::span(records_).subspan(begin), "records");
    for (std::size_t at = begin; at < records_.size(); at += kRecord) {
      const int label = std::to_integer<int>(records_[at]);
      if (label >= kClasses)
        file.fail("record " + std::to_string((at - begin) / kRecord), "a label of 0 ... 9",
                  std::to_string(label));
    }
  }

  fs::path path_;
  std::vector<std::byte> records_;
  std::vector<std::string> class_names_;
  std::array<std::int64_t, kClasses> labels_{};
};

}  // namespace

PictureSourcePtr open_cifar_batches(const std::vector<fs::path>& files,
                                    const std::vector<std::string>& class_names) {
  MOH_CHECK(!files.empty(), "open_cifar_batches: no files");
  return std::make_shared<CifarBatches>(files, class_names);
}

}  // namespace moh
