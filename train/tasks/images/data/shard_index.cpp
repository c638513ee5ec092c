#include "train/tasks/images/data/shard_index.h"

#include <sys/stat.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <charconv>
#include <map>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>

#include "core/error.h"
#include "train/formats/safetensors.h"
#include "train/formats/tar_file.h"
#include "train/io/input_file.h"
#include "train/io/printable.h"
#include "train/log/logging.h"

namespace moh {

namespace {

namespace fs = std::filesystem;

constexpr std::string_view kFormat = "moh-shard-index", kVersion = "1";
constexpr std::uint64_t kMaxLabelBytes = 32;

/// "NAME.ext" to NAME, with the folders, and "ext": the extension begins at the first dot of the last part,
/// as WebDataset has it.
std::pair<std::string_view, std::string> key_and_extension(std::string_view name) {
  const std::size_t part = name.rfind('/') == std::string_view::npos ? 0 : name.rfind('/') + 1;
  const std::size_t dot = name.find('.', part);
  if (dot == std::string_view::npos) return {name, ""};
  std::string extension(name.substr(dot + 1));
  std::ranges::transform(extension, extension.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return {name.substr(0, dot), extension};
}

bool is_picture(std::string_view extension) {
  // A folder's pictures may have further dots in their names.
  const std::size_t dot = extension.rfind('.');
  const std::string_view last = dot == std::string_view::npos ? extension : extension.substr(dot + 1);
  return last == "jpg" || last == "jpeg" || last == "png";
}

std::string_view folder_name(std::string_view name) {
  const std::size_t end = name.rfind('/');
  if (end == std::string_view::npos || end == 0) return "";
  const std::string_view folders = name.substr(0, end);
  const std::size_t begin = folders.rfind('/');
  return begin == std::string_view::npos ? folders : folders.substr(begin + 1);
}

std::int64_t read_label(const InputFile& file, const TarMember& member) {
  std::string text(std::min(member.size, kMaxLabelBytes), '\0');
  file.read(member.offset, std::as_writable_bytes(std::span(text)), "label");
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.back())) != 0) text.pop_back();
  std::int64_t label = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), label);
  if (error != std::errc() || end != text.data() + text.size() || label < 0 || label >= std::int64_t{1} << 31)
    file.fail("member " + printable(member.name), "the number of a class", printable(text));
  return label;
}

/// What is known of the pictures while the archive is read.
struct Found {
  std::vector<std::string> folders;                         ///< of each picture
  std::map<std::string, std::size_t, std::less<>> waiting;  ///< pictures without a label yet, by key
  std::map<std::string, std::int64_t, std::less<>> labels;  ///< labels without a picture yet, by key
  bool numbered = false;
};

std::string stamp_of(const fs::path& archive) {
  struct stat status {};
  if (::stat(archive.c_str(), &status) != 0)
    throw DataError(printable_path(archive) + ": cannot read: " + std::generic_category().message(errno));
  return std::to_string(status.st_size) + " bytes, changed at " + std::to_string(status.st_mtim.tv_sec) +
         "." + std::to_string(status.st_mtim.tv_nsec);
}

Tensor tensor_of_numbers(const std::vector<std::int64_t>& numbers) {
  return tensor_of<std::int64_t>({static_cast<std::int64_t>(numbers.size())}, numbers);
}

std::string joined(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text.append(name).push_back('\n');
  return text;
}

std::vector<std::string> lines_of(std::string_view text) {
  std::vector<std::string> lines;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    lines.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

void write(const ShardIndex& index, const fs::path& archive, const std::string& stamp) {
  const NamedTensor tensors[] = {{"offsets", tensor_of_numbers(index.offsets)},
                                 {"sizes", tensor_of_numbers(index.sizes)},
                                 {"labels", tensor_of_numbers(index.labels)}};
  save_safetensors(shard_index_path(archive), tensors,
                   {{"format", std::string(kFormat)},
                    {"version", std::string(kVersion)},
                    {"archive", stamp},
                    {"classes", joined(index.class_names)}});
}

std::vector<std::int64_t> numbers_of(const SafetensorsFile& file, std::string_view name) {
  const Tensor tensor = file.tensor(name);
  if (tensor.dtype() != DType::kInt64 || tensor.rank() != 1)
    throw DataError(error_message(file.path().string(), name, "one dimension of I64", describe(tensor)));
  const auto numbers = tensor.span<std::int64_t>();
  return {numbers.begin(), numbers.end()};
}

std::string entry_of(const SafetensorsFile& file, std::string_view key) {
  const auto found = file.metadata().find(key);
  return found == file.metadata().end() ? "" : found->second;
}

}  // namespace

fs::path shard_index_path(const fs::path& archive) {
  return archive.parent_path() / ("." + archive.filename().string() + ".moh-index");
}

ShardIndex make_shard_index(const fs::path& archive) {
  const InputFile file(archive, InputKind::kData);
  ShardIndex index;
  Found found;
  read_tar(file, [&](const TarMember& member) {
    const auto [key, extension] = key_and_extension(member.name);
    if (extension == "cls") {
      found.numbered = true;
      const std::int64_t label = read_label(file, member);
      const auto waiting = found.waiting.find(key);
      if (waiting == found.waiting.end()) {
        found.labels.emplace(key, label);
      } else {
        index.labels[waiting->second] = label;
        found.waiting.erase(waiting);
      }
    } else if (is_picture(extension)) {
      std::int64_t label = -1;
      if (const auto known = found.labels.find(key); known != found.labels.end()) {
        label = known->second;
        found.labels.erase(known);
      } else {
        found.waiting.emplace(key, index.offsets.size());
      }
      index.offsets.push_back(static_cast<std::int64_t>(member.offset));
      index.sizes.push_back(static_cast<std::int64_t>(member.size));
      index.labels.push_back(label);
      found.folders.emplace_back(folder_name(member.name));
    }
  });
  if (index.offsets.empty()) file.fail("members", "pictures: .jpg, .jpeg or .png", "none");
  if (found.numbered) {
    if (!found.waiting.empty())
      file.fail("picture " + printable(found.waiting.begin()->first), "a label beside it, NAME.cls", "none");
    return index;
  }
  index.class_names = found.folders;
  std::ranges::sort(index.class_names);
  index.class_names.erase(std::unique(index.class_names.begin(), index.class_names.end()),
                          index.class_names.end());
  for (std::size_t i = 0; i < found.folders.size(); ++i) {
    if (found.folders[i].empty())
      file.fail("pictures", "labels: members NAME.cls, or folders named as classes", "neither");
    index.labels[i] =
        std::ranges::lower_bound(index.class_names, found.folders[i]) - index.class_names.begin();
  }
  return index;
}

ShardIndex read_shard_index(const fs::path& path, std::uint64_t archive_bytes,
                            const std::string& archive_state) {
  const SafetensorsFile file(path);
  const auto require = [&](bool sound, std::string_view what, std::string_view expected,
                           std::string_view found) {
    if (!sound) throw DataError(error_message(path.string(), what, expected, printable(found)));
  };
  require(entry_of(file, "format") == kFormat, "format", kFormat, entry_of(file, "format"));
  require(entry_of(file, "version") == kVersion, "version", kVersion, entry_of(file, "version"));
  require(entry_of(file, "archive") == archive_state, "archive", archive_state, entry_of(file, "archive"));
  ShardIndex index{numbers_of(file, "offsets"), numbers_of(file, "sizes"), numbers_of(file, "labels"),
                   lines_of(entry_of(file, "classes"))};
  const std::size_t count = index.offsets.size();
  require(count > 0 && index.sizes.size() == count && index.labels.size() == count, "tensors",
          "as many offsets, sizes and labels, at least one", std::to_string(count));
  const std::int64_t classes =
      index.class_names.empty() ? std::int64_t{1} << 31 : static_cast<std::int64_t>(index.class_names.size());
  const auto end = static_cast<std::int64_t>(archive_bytes);
  for (std::size_t i = 0; i < count; ++i) {
    const std::int64_t offset = index.offsets[i], size = index.sizes[i], label = index.labels[i];
    require(
        offset >= 0 && size >= 0 && offset <= end && size <= end - offset && label >= 0 && label < classes,
        "picture " + std::to_string(i), "bytes of the archive and a class",
        std::to_string(size) + " bytes at " + std::to_string(offset) + ", class " + std::to_string(label));
  }
  return index;
}

ShardIndex open_shard_index(const fs::path& archive) {
  const std::string stamp = stamp_of(archive);
  const fs::path path = shard_index_path(archive);
  std::error_code error;
  if (fs::is_regular_file(path, error)) {
    try {
      return read_shard_index(path, fs::file_size(archive), stamp);
    } catch (const DataError&) {
      // Of an earlier state of the archive, or damaged: what it says can be found again.
    }
  }
  ShardIndex index = make_shard_index(archive);
  try {
    write(index, archive, stamp);
  } catch (const StorageError& failure) {
    log_warning("data: no index can be written, so that the archive is read through at every start: " +
                std::string(failure.what()));
  }
  return index;
}

}  // namespace moh
