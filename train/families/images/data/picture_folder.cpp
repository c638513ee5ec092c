#include "train/families/images/data/picture_folder.h"

#include <algorithm>
#include <span>
#include <string_view>
#include <system_error>
#include <utility>

#include "core/error.h"
#include "train/base/io/checksum.h"
#include "train/base/io/printable.h"
#include "train/base/log/logging.h"
#include "train/families/images/data/class_list.h"
#include "train/families/images/data/content_sample.h"
#include "train/families/images/data/picture_names.h"
#include "train/trainer/task/data/input_files.h"

namespace moh {

namespace {

namespace fs = std::filesystem;

/// Names in a folder, without hidden ones, in order.
std::vector<fs::directory_entry> entries_of(const fs::path& folder) {
  std::vector<fs::directory_entry> entries;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error); !error && entry != fs::directory_iterator();
       entry.increment(error)) {
    if (!is_hidden_name(entry->path().filename().string())) entries.push_back(*entry);
  }
  if (error) throw DataError(printable_path(folder) + ": cannot read: " + error.message());
  std::ranges::sort(entries, {}, [](const auto& entry) { return entry.path().native(); });
  return entries;
}

/// Texts one after the other: a million paths without an allocation each.
class TextList {
 public:
  void add(std::string_view text) {
    text_ += text;
    ends_.push_back(text_.size());
  }
  std::string_view operator[](std::size_t i) const {
    const std::size_t begin = i == 0 ? 0 : ends_[i - 1];
    return std::string_view(text_).substr(begin, ends_[i] - begin);
  }
  std::size_t size() const { return ends_.size(); }

 private:
  std::string text_;
  std::vector<std::size_t> ends_;
};

class PictureFolder final : public PictureSource {
 public:
  PictureFolder(const fs::path& folder, const std::vector<std::string>& class_names) : folder_(folder) {
    std::vector<std::string> found;
    for (const auto& entry : entries_of(folder)) {
      if (entry.is_directory()) found.push_back(entry.path().filename().string());
    }
    if (found.empty()) {
      throw DataError(error_message(printable_path(folder), "pictures", "a folder for each class",
                                    "none in this folder", "put pictures into CLASS/NAME.jpg"));
    }
    const ClassList classes(class_names.empty() ? found : class_names);
    SkippedFiles skipped;
    for (const std::string& name : found) {
      const std::size_t before = files_.size();
      const std::int64_t label = classes.label_of(name, printable_path(folder / name));
      add_files(folder / name, name, skipped, 0);
      if (files_.size() == before) {
        throw DataError(error_message(printable_path(folder / name), "pictures of a class",
                                      "at least one that ends in .jpg, .jpeg or .png", "none",
                                      "remove the folder if it is no class"));
      }
      labels_.resize(files_.size(), static_cast<std::int32_t>(label));
    }
    class_names_ = classes.names();
    if (skipped.count() > 0)
      log_warning("data: " + printable_path(folder) + ": skipped " + skipped.describe());
  }

  std::int64_t size() const override { return static_cast<std::int64_t>(files_.size()); }
  std::int64_t label(std::int64_t index) const override { return labels_[static_cast<std::size_t>(index)]; }
  const std::vector<std::string>& class_names() const override { return class_names_; }
  std::string name(std::int64_t index) const override { return printable_path(path(index)); }

  std::string describe_contents() const override {
    Checksum checksum;
    for (std::size_t i = 0; i < files_.size(); ++i) {
      checksum.update(std::as_bytes(std::span(files_[i])));
      checksum.update(std::as_bytes(std::span("\n", 1)));
    }
    return std::to_string(size()) + " pictures, " + std::to_string(class_names_.size()) +
           " classes, checksum of names " + checksum.hex() + ", of contents " + sampled_contents();
  }

  void load(std::int64_t index, std::vector<std::byte>& bytes) const override {
    read_picture_file(path(index), bytes);
  }

 private:
  static constexpr int kMaxDepth = 64;  ///< ends loops of links

  /// A checksum of the sizes of all files, and of the contents of some.
  std::string sampled_contents() const {
    ContentSample sample;
    sample.add(sizes_of_files(size(), [this](std::int64_t index) { return path(index); }));
    for (const std::int64_t index : sampled_indices(size(), ContentSample::kPictures))
      sample.add(path(index));
    return sample.hex();
  }

  fs::path path(std::int64_t index) const { return folder_ / files_[static_cast<std::size_t>(index)]; }

  void add_files(const fs::path& folder, const std::string& name, SkippedFiles& skipped, int depth) {
    if (depth > kMaxDepth)
      throw DataError(error_message(printable_path(folder), "folders", "at most 64 levels", "more of them"));
    for (const auto& entry : entries_of(folder)) {
      const std::string inner = name + "/" + entry.path().filename().string();
      std::error_code error;
      if (entry.is_directory(error))
        add_files(entry.path(), inner, skipped, depth + 1);
      else if (is_picture_name(entry.path().filename().string()))
        files_.add(inner);
      else
        skipped.add("not named as pictures", entry.path().string());
    }
  }

  fs::path folder_;
  TextList files_;  ///< paths in the folder
  std::vector<std::int32_t> labels_;
  std::vector<std::string> class_names_;
};

}  // namespace

PictureSourcePtr open_picture_folder(const fs::path& folder, const std::vector<std::string>& class_names) {
  return std::make_shared<PictureFolder>(folder, class_names);
}

}  // namespace moh
