#include "train/families/images/data/shard_index.h"

#include <algorithm>
#include <span>
#include <string_view>
#include <system_error>

#include "core/error.h"
#include "train/base/formats/safetensors.h"
#include "train/base/io/checksum.h"
#include "train/base/io/input_file.h"
#include "train/base/io/printable.h"
#include "train/base/log/logging.h"
#include "train/families/images/data/archive_samples.h"

namespace moh {

namespace {

namespace fs = std::filesystem;

constexpr std::string_view kFormat = "moh-shard-index", kVersion = "2";

/// The index is of another state of the archive, or of another version of moh: no damage.
class StaleIndex : public DataError {
 public:
  using DataError::DataError;
};

std::string joined(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text.append(name).push_back('\n');
  return text;
}

/// The lines of a text that ends each of them with a newline.
std::vector<std::string> ended_lines(std::string_view text) {
  std::vector<std::string> lines;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    lines.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

/// The checksum of all that an index says.
std::string checksum_of(const ShardIndex& index, std::string_view archive) {
  const std::string classes = joined(index.class_names);
  Checksum sum;
  for (const std::string_view text : {archive, std::string_view(classes)}) {
    sum.update(std::as_bytes(std::span(text)));
    sum.update(std::as_bytes(std::span("", 1)));  // a zero byte
  }
  for (const auto* numbers : {&index.offsets, &index.sizes, &index.labels})
    sum.update(std::as_bytes(std::span(*numbers)));
  return sum.hex();
}

Tensor tensor_of_numbers(const std::vector<std::int64_t>& numbers) {
  return tensor_of<std::int64_t>({static_cast<std::int64_t>(numbers.size())}, numbers);
}

void write(const ShardIndex& index, const fs::path& path, const std::string& archive) {
  const NamedTensor tensors[] = {{"offsets", tensor_of_numbers(index.offsets)},
                                 {"sizes", tensor_of_numbers(index.sizes)},
                                 {"labels", tensor_of_numbers(index.labels)}};
  save_safetensors(path, tensors,
                   {{"format", std::string(kFormat)},
                    {"version", std::string(kVersion)},
                    {"archive", archive},
                    {"classes", joined(index.class_names)},
                    {"checksum", checksum_of(index, archive)}});
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

/// The one place where an index is checked, read or just made: as many offsets, sizes and labels; pictures
/// within the archive; labels from 0 on, and below the number of named classes.
void check_index(const ShardIndex& index, const fs::path& where, std::uint64_t archive_bytes) {
  const std::size_t count = index.offsets.size();
  if (count == 0 || index.sizes.size() != count || index.labels.size() != count)
    throw DataError(error_message(printable_path(where), "index",
                                  "as many offsets, sizes and labels, at least one",
                                  std::to_string(count) + ", " + std::to_string(index.sizes.size()) +
                                      " and " + std::to_string(index.labels.size())));
  const std::int64_t classes =
      index.class_names.empty() ? std::int64_t{1} << 31 : static_cast<std::int64_t>(index.class_names.size());
  const auto end = static_cast<std::int64_t>(archive_bytes);
  for (std::size_t i = 0; i < count; ++i) {
    const std::int64_t offset = index.offsets[i], size = index.sizes[i], label = index.labels[i];
    if (offset >= 0 && size >= 0 && offset <= end && size <= end - offset && label >= 0 && label < classes)
      continue;
    throw DataError(error_message(
        printable_path(where), "picture " + std::to_string(i), "bytes of the archive and a class",
        std::to_string(size) + " bytes at " + std::to_string(offset) + ", class " + std::to_string(label)));
  }
}

/// The stored index, if there is one of this state of the archive that is sound.
bool read_stored(ShardIndex& index, const fs::path& path, const ArchiveState& state) {
  std::error_code error;
  if (!fs::is_regular_file(path, error)) return false;
  try {
    index = read_shard_index(path, static_cast<std::uint64_t>(state.bytes), state.text());
    return true;
  } catch (const StaleIndex&) {
  } catch (const DataError& damage) {
    log_warning("data: " + std::string(damage.what()) + "; the index is made again");
  }
  return false;
}

}  // namespace

fs::path shard_index_path(const fs::path& archive) {
  return archive.parent_path() / ("." + archive.filename().string() + ".moh-index");
}

ShardIndex make_shard_index(const fs::path& archive) {
  const InputFile file(archive, InputKind::kData);
  ShardIndex index = archive_samples(file);
  check_index(index, archive, file.size());
  return index;
}

ShardIndex read_shard_index(const fs::path& path, std::uint64_t archive_bytes, const std::string& archive) {
  const SafetensorsFile file(path);
  for (const auto& [key, expected] : {std::pair<std::string_view, std::string_view>("format", kFormat),
                                      {"version", kVersion},
                                      {"archive", archive}}) {
    if (const std::string found = entry_of(file, key); found != expected)
      throw StaleIndex(error_message(printable_path(path), key, expected, printable(found)));
  }
  ShardIndex index{numbers_of(file, "offsets"), numbers_of(file, "sizes"), numbers_of(file, "labels"),
                   ended_lines(entry_of(file, "classes"))};
  check_index(index, path, archive_bytes);
  const std::string expected = entry_of(file, "checksum"), found = checksum_of(index, archive);
  if (found != expected)
    throw DataError(
        error_message(printable_path(path), "checksum", printable(expected), found, "the file is damaged"));
  return index;
}

ShardIndex open_shard_index(const fs::path& archive, const ArchiveState& state) {
  const fs::path path = shard_index_path(archive);
  ShardIndex index;
  if (read_stored(index, path, state)) return index;
  index = make_shard_index(archive);
  require_unchanged(archive, state);  // while its headers were read
  try {
    write(index, path, state.text());
  } catch (const StorageError& failure) {
    log_warning("data: no index can be written, so that the archive is read through at every start: " +
                std::string(failure.what()));
  }
  return index;
}

ShardIndex open_shard_index(const fs::path& archive) {
  return open_shard_index(archive, archive_state(archive));
}

}  // namespace moh
