#include "train/families/images/data/picture_source.h"

#include <algorithm>
#include <filesystem>
#include <string_view>
#include <system_error>

#include "core/error.h"
#include "train/base/io/input_file.h"
#include "train/base/io/printable.h"
#include "train/families/images/data/checked_source.h"
#include "train/families/images/data/cifar_batches.h"
#include "train/families/images/data/picture_folder.h"
#include "train/families/images/data/picture_shards.h"

namespace moh {

namespace {

namespace fs = std::filesystem;

/// Files of a folder with this ending, in order of their names.
std::vector<fs::path> files_in(const fs::path& folder, std::string_view ending) {
  std::vector<fs::path> files;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error); !error && entry != fs::directory_iterator();
       entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (!name.starts_with('.') && name.ends_with(ending) && entry->is_regular_file())
      files.push_back(entry->path());
  }
  if (error) throw DataError(printable_path(folder) + ": cannot read: " + error.message());
  std::ranges::sort(files);
  return files;
}

}  // namespace

void resize_for_picture(std::vector<std::byte>& bytes, std::uint64_t size, PictureName name) {
  constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 30;
  if (size > kMostBytes)
    throw DataError(error_message(name(), "size", "at most 1 GiB", std::to_string(size) + " bytes"));
  with_memory(name, [&] { bytes.resize(size); });
}

void read_picture_file(const fs::path& path, std::vector<std::byte>& bytes) {
  const InputFile file(path, InputKind::kData);
  resize_for_picture(bytes, file.size(), [&] { return printable_path(path); });
  file.read(0, bytes, "contents");
}

namespace {

PictureSourcePtr open_unchecked(const std::vector<std::string>& paths,
                                const std::vector<std::string>& class_names, std::int64_t classes) {
  std::vector<fs::path> archives, batches, folders;
  for (const std::string& path : paths) {
    std::error_code ignored;  // opening the path says what is wrong with it
    if (fs::is_directory(path, ignored)) {
      const std::vector<fs::path> inside = files_in(path, ".tar");
      archives.insert(archives.end(), inside.begin(), inside.end());
      if (inside.empty()) folders.emplace_back(path);
    } else if (path.ends_with(".bin")) {
      batches.emplace_back(path);
    } else {
      archives.emplace_back(path);
    }
  }
  const int kinds = static_cast<int>(!archives.empty()) + static_cast<int>(!batches.empty()) +
                    static_cast<int>(!folders.empty());
  if (kinds != 1 || folders.size() > 1) {
    throw DataError(
        error_message("data", "pictures",
                      "one folder with a folder for each class, tar archives (.tar) or folders of "
                      "them, or files of CIFAR-10's binary version (.bin)",
                      paths.empty() ? "no path" : "several of them: " + printable(paths.front()) + " ..."));
  }
  if (!folders.empty()) return open_picture_folder(folders.front(), class_names);
  if (!batches.empty()) return open_cifar_batches(batches, class_names);
  return open_picture_shards(archives, class_names, classes);
}

}  // namespace

PictureSourcePtr open_pictures(const std::vector<std::string>& paths,
                               const std::vector<std::string>& class_names, std::int64_t classes) {
  return checked(open_unchecked(paths, class_names, classes));
}

}  // namespace moh
