#include "train/trainer/task/data/input_files.h"

#include <sys/stat.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <filesystem>
#include <iterator>
#include <set>
#include <system_error>
#include <utility>

#include "core/error.h"
#include "train/base/io/input_file.h"
#include "train/base/io/printable.h"

namespace moh {

namespace {

namespace fs = std::filesystem;

[[noreturn]] void fail_to_read(const std::string& path, const std::error_code& reason) {
  std::error_code ignored;
  const bool is_relative = reason == std::errc::no_such_file_or_directory && fs::path(path).is_relative();
  throw DataError(
      printable_path(path) + ": cannot read: " + reason.message() +
      (is_relative ? "; the path is relative to " + printable_path(fs::current_path(ignored)) : ""));
}

std::vector<std::string> visible_entries(const std::string& folder) {
  std::vector<std::string> paths;
  std::error_code error;
  fs::directory_iterator entry(folder, error);
  while (!error && entry != fs::directory_iterator()) {
    if (!entry->path().filename().string().starts_with('.')) paths.push_back(entry->path().string());
    entry.increment(error);
  }
  if (error) fail_to_read(folder, error);
  std::sort(paths.begin(), paths.end());
  return paths;
}

class Walker {
 public:
  Walker(SkippedFiles& skipped, const fs::path& run_folder) : skipped_(skipped) {
    struct stat status {};
    if (!run_folder.empty() && ::stat(run_folder.c_str(), &status) == 0)
      run_folder_ = {status.st_dev, status.st_ino};
  }

  void add(const std::string& path, bool named) {
    struct stat status {};
    if (::stat(path.c_str(), &status) != 0) {
      const std::error_code reason(errno, std::generic_category());
      const bool broken_link = reason.value() == ENOENT || reason.value() == ELOOP;
      if (named || !broken_link) fail_to_read(path, reason);
      skipped_.add("broken link", path);
      return;
    }
    const std::pair identity(status.st_dev, status.st_ino);
    if (run_folder_ == identity) {
      if (!named) return;
      throw DataError(error_message(path, "", "text, or a folder of it, outside of output.dir",
                                    "output.dir itself",
                                    "set another output.dir, which may be a folder in this one"));
    }
    const bool is_new = seen_.insert(identity).second;
    if (S_ISDIR(status.st_mode)) {
      if (is_new) add_entries(path);
    } else if (S_ISREG(status.st_mode)) {
      if (is_new) files_.push_back({path, named});
    } else if (named) {
      throw DataError(error_message(path, "", "a regular file or a folder", "a device, FIFO or socket"));
    } else {
      skipped_.add("special", path);
    }
  }

  std::vector<InputPath> take_files() { return std::move(files_); }

 private:
  void add_entries(const std::string& folder) {
    for (const std::string& path : visible_entries(folder)) add(path, false);
  }

  SkippedFiles& skipped_;
  std::optional<std::pair<dev_t, ino_t>> run_folder_;
  std::set<std::pair<dev_t, ino_t>> seen_;
  std::vector<InputPath> files_;
};

/// Extensions of files that are not plain text: a model would also learn their keys, quotes, escapes or
/// compression.
constexpr std::pair<std::string_view, std::string_view> kFormats[] = {
    {".jsonl", "JSON Lines"}, {".ndjson", "JSON Lines"}, {".json", "JSON"},      {".csv", "CSV"},
    {".tsv", "TSV"},          {".parquet", "Parquet"},   {".arrow", "Arrow"},    {".feather", "Arrow"},
    {".gz", "compressed"},    {".zst", "compressed"},    {".xz", "compressed"},  {".bz2", "compressed"},
    {".lz4", "compressed"},   {".zip", "an archive"},    {".tar", "an archive"}, {".tgz", "an archive"},
    {".7z", "an archive"},    {".npy", "NumPy"},         {".npz", "NumPy"},      {".pkl", "a pickle"},
    {".pickle", "a pickle"}};

}  // namespace

std::string_view format_by_name(const fs::path& path) {
  std::string ending = path.extension().string();
  std::ranges::transform(ending, ending.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  const auto* const found =
      std::ranges::find(kFormats, ending, &std::pair<std::string_view, std::string_view>::first);
  return found == std::end(kFormats) ? "" : found->second;
}

void pass_over(const InputPath& input, SkippedFiles& skipped, std::string_view reason, std::string_view found,
               std::string_view fix) {
  if (input.named) throw DataError(error_message(input.path, "", "text", found, fix));
  skipped.add(reason, input.path);
}

void SkippedFiles::add(std::string_view reason, const std::string& path) {
  auto known =
      std::find_if(reasons_.begin(), reasons_.end(), [&](const Reason& r) { return r.name == reason; });
  if (known == reasons_.end()) known = reasons_.insert(known, {std::string(reason), path, 0});
  ++known->count;
}

std::int64_t SkippedFiles::count() const {
  std::int64_t sum = 0;
  for (const Reason& reason : reasons_) sum += reason.count;
  return sum;
}

std::string SkippedFiles::describe() const {
  std::string text;
  for (const Reason& reason : reasons_) {
    if (!text.empty()) text += ", ";
    text += std::to_string(reason.count) + " " + reason.name +
            " (first: " + printable_path(reason.first_path) + ")";
  }
  return text;
}

std::vector<InputPath> list_input_files(std::span<const std::string> inputs, SkippedFiles& skipped,
                                        const fs::path& run_folder) {
  Walker walker(skipped, run_folder);
  for (const std::string& input : inputs) walker.add(input, true);
  return walker.take_files();
}

bool stream_text(const InputPath& input, SkippedFiles& skipped,
                 FunctionRef<void(std::string_view block)> sink) {
  const auto refuse = [&](std::string_view reason, const std::string& found, std::string_view fix = "") {
    pass_over(input, skipped, reason, found, fix);
    return false;
  };
  const std::string_view format = format_by_name(input.path);
  if (!format.empty()) return refuse(format, std::string(format) + " by its name", kRecordsFix);
  const InputFile file(input.path, InputKind::kData);
  if (file.size() == 0) return refuse("empty", "an empty file");
  std::string block;
  for (std::uint64_t offset = 0; offset < file.size(); offset += block.size()) {
    block.resize(std::min<std::uint64_t>(kTextBlockBytes, file.size() - offset));
    file.read(offset, std::as_writable_bytes(std::span(block)), "contents");
    if (block.find('\0') != std::string::npos) return refuse("binary", "a binary file (NUL bytes)");
    sink(block);
  }
  return true;
}

}  // namespace moh
