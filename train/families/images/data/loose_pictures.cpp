#include "train/families/images/data/loose_pictures.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "core/error.h"
#include "train/base/formats/numpy_file.h"
#include "train/base/io/printable.h"
#include "train/families/images/data/checked_source.h"
#include "train/families/images/data/picture_names.h"

namespace moh {

namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kMostSide = 1 << 15;

/// Pictures without classes.
class Loose : public PictureSource {
 public:
  explicit Loose(fs::path path) : path_(std::move(path)) {}
  std::int64_t label(std::int64_t) const override { return 0; }
  const std::vector<std::string>& class_names() const override { return names_; }
  std::string describe_contents() const override {
    return std::to_string(size()) + " pictures of " + printable_path(path_);
  }

 protected:
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
  std::vector<std::string> names_ = {"any"};
};

class NumpyPictures final : public Loose {
 public:
  explicit NumpyPictures(const fs::path& path) : Loose(path), file_(path) {
    constexpr const char* kName = "arr_0";
    const NumpyArray* array = file_.find(kName);
    if (array == nullptr) file_.file().fail("arrays", "arr_0, of pictures", file_.names());
    const std::vector<std::int64_t>& shape = array->shape;
    if (shape.size() != 4 || shape[3] != Picture::kChannels || array->stored_dtype != "U8" ||
        array->fortran_order || std::ranges::min(shape) == 0 || std::max(shape[1], shape[2]) > kMostSide)
      file_.file().fail("array arr_0", "pictures, uint8 [N, H, W, 3] in rows",
                        printable(array->descr) + " with " + std::to_string(shape.size()) + " axes");
    file_.verify(kName);
    array_ = *array;
    size_ = {static_cast<int>(shape[2]), static_cast<int>(shape[1])};
  }

  std::int64_t size() const override { return array_.shape[0]; }
  std::string name(std::int64_t index) const override {
    return printable_path(path()) + ", picture " + std::to_string(index);
  }
  void load(std::int64_t index, std::vector<std::byte>& bytes) const override {
    bytes.resize(static_cast<std::size_t>(size_.width) * static_cast<std::size_t>(size_.height) *
                 Picture::kChannels);
    file_.file().read(array_.begin + static_cast<std::uint64_t>(index) * bytes.size(), bytes, name(index));
  }
  Picture decode(std::int64_t, const std::vector<std::byte>& bytes, ChooseRegion region) const override {
    const PictureBox box = region(size_);
    Picture picture(box.size());
    for (int y = 0; y < box.height; ++y) {
      const std::size_t pixel =
          static_cast<std::size_t>(box.top + y) * static_cast<std::size_t>(size_.width) +
          static_cast<std::size_t>(box.left);
      std::memcpy(picture.row(y), bytes.data() + pixel * Picture::kChannels, picture.row_bytes());
    }
    return picture;
  }

 private:
  NumpyFile file_;
  NumpyArray array_;
  PictureSize size_;
};

class FlatFolder final : public Loose {
 public:
  FlatFolder(const fs::path& folder, std::vector<fs::path> files) : Loose(folder), files_(std::move(files)) {}

  std::int64_t size() const override { return std::ssize(files_); }
  std::string name(std::int64_t index) const override {
    return printable_path(files_[static_cast<std::size_t>(index)]);
  }
  void load(std::int64_t index, std::vector<std::byte>& bytes) const override {
    read_picture_file(files_[static_cast<std::size_t>(index)], bytes);
  }

 private:
  std::vector<fs::path> files_;
};

bool is_picture(const fs::path& path) {
  const std::string name = path.filename().string();
  return is_picture_name(name) && !is_hidden_name(name) && name != "grid.png";
}

/// The pictures of a folder without folders; empty for any other.
std::vector<fs::path> flat_files(const fs::path& folder) {
  std::vector<fs::path> files;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) {
    if (is_hidden_name(entry.path().filename().string())) continue;
    if (entry.is_directory(error)) return {};
    if (is_picture(entry.path())) files.push_back(entry.path());
  }
  std::ranges::sort(files);
  return files;
}

}  // namespace

PictureSourcePtr open_loose_pictures(const fs::path& path) {
  if (path.extension() == ".npz") return checked<PictureSource>(std::make_shared<NumpyPictures>(path));
  std::error_code error;
  if (fs::is_directory(path, error)) {
    std::vector<fs::path> files = flat_files(path);
    if (!files.empty()) return checked<PictureSource>(std::make_shared<FlatFolder>(path, std::move(files)));
  }
  return open_pictures({path.string()});
}

}  // namespace moh
