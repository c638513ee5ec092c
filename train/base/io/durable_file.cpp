#include "train/base/io/durable_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "core/error.h"
#include "train/base/io/failpoint.h"
#include "train/base/io/file_ops.h"
#include "train/base/io/printable.h"
#include "train/base/io/temporary_files.h"

namespace moh {

namespace fs = std::filesystem;

namespace {

/// Prefix of the names of all temporary files of `path`, and of replaced folders.
std::string temporary_prefix(const fs::path& path) {
  return "." + path.filename().string() + std::string(kTemporaryInfix);
}
std::string replaced_prefix(const fs::path& path) {
  return "." + path.filename().string() + ".old-";
}

bool is_taken(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(fs::symlink_status(path, ignored));
}

/// The entries of the folder of `path` whose names begin with `prefix`.
std::vector<fs::path> left_beside(const fs::path& path, const std::string& prefix) {
  if (!is_taken(folder_of(path))) return {};
  std::vector<fs::path> found = list_directory(folder_of(path));
  std::erase_if(found, [&](const fs::path& entry) { return !entry.filename().string().starts_with(prefix); });
  return found;
}

/// Throws for the errno of creating a file, naming a folder that is not there.
[[noreturn]] void fail_to_create(const fs::path& path, int error, std::uint64_t expected_bytes) {
  const fs::path folder = folder_of(path);
  if (error != ENOENT || is_taken(folder)) throw_storage_error(path, "create", error, expected_bytes);
  throw StorageError(error_message(path.string(), "create", "success", std::generic_category().message(error),
                                   "the folder " + printable_path(folder) + " does not exist"));
}

}  // namespace

fs::path temporary_beside(const fs::path& path) {
  return path.parent_path() / (temporary_prefix(path) + random_suffix());
}

OutputFile::OutputFile(fs::path path, std::uint64_t expected_bytes)
    : path_(std::move(path)), expected_(expected_bytes) {
  ignore_file_size_signal();
  if (const int injected = MOH_FAILPOINT("io:create"); injected > 0) {
    fail_to_create(path_, injected, expected_);
  }
  fd_ = create_locked(path_);
  if (fd_ < 0) fail_to_create(path_, errno, expected_);
  MOH_TRACE_IO(kCreate, path_);
}

OutputFile::~OutputFile() {
  if (fd_ >= 0) ::close(fd_);
}

void OutputFile::write(std::span<const std::byte> bytes) {
  MOH_CHECK(fd_ >= 0, "the file is closed");
  const std::uint64_t left = expected_ - std::min(expected_, written_);
  write_fully(fd_, path_, bytes, std::max<std::uint64_t>(left, bytes.size()));
  written_ += bytes.size();
}

void OutputFile::write(std::string_view text) {
  write(std::as_bytes(std::span(text)));
}

void OutputFile::write_at(std::uint64_t offset, std::span<const std::byte> bytes) {
  MOH_CHECK(fd_ >= 0, "the file is closed");
  if (::lseek(fd_, static_cast<off_t>(offset), SEEK_SET) < 0) throw_storage_error(path_, "seek in", errno);
  const std::uint64_t left = expected_ - std::min(expected_, offset);
  write_fully(fd_, path_, bytes, std::max<std::uint64_t>(left, bytes.size()));
}

void OutputFile::sync_and_close() {
  MOH_CHECK(fd_ >= 0, "the file is closed");
  sync_file(fd_, path_);
  // Network file systems report some write errors only here.
  if (::close(std::exchange(fd_, -1)) != 0) throw_storage_error(path_, "close", errno);
}

int OutputFile::hold() const {
  return ::fcntl(fd_, F_DUPFD_CLOEXEC, 0);
}

void write_new_file(const fs::path& path, std::string_view contents) {
  OutputFile file(path, contents.size());
  file.write(contents);
  file.sync_and_close();
}

DurableFile::DurableFile(fs::path path, std::uint64_t expected_bytes)
    : path_(std::move(path)), file_(temporary_beside(path_), expected_bytes) {
  remove_abandoned_temporaries_once(folder_of(path_));
}

DurableFile::~DurableFile() {
  if (!renamed_) ::unlink(file_.path().c_str());
}

void DurableFile::commit() {
  // Without the lock the file would count as abandoned between closing and renaming.
  const Descriptor lock(file_.hold());
  file_.sync_and_close();
  rename_path(file_.path(), path_);
  renamed_ = true;
  sync_directory(folder_of(path_));
}

namespace {

/// Throws StorageError if a file cannot be made here because its folder does not exist.
void require_folder(std::string_view option, const fs::path& path) {
  const fs::path folder = folder_of(path);
  std::error_code ignored;
  if (fs::is_directory(folder, ignored)) return;
  const bool exists = fs::exists(folder, ignored);
  throw StorageError(std::string(option) + ": cannot create " + printable_path(path) + ": " +
                     (exists ? printable_path(folder) + " is no folder"
                             : "the folder " + printable_path(folder) + " does not exist; make it first"));
}

}  // namespace

void require_replaceable(std::string_view option, const fs::path& path, bool overwrite) {
  const auto refuse = [&](std::string_view expected, std::string_view found, std::string_view fix = "") {
    throw ConfigError(error_message(std::string(option) + " " + path.string(), "", expected, found, fix));
  };
  std::error_code ignored;
  const fs::file_status status = fs::symlink_status(path, ignored);
  if (!path.has_filename()) refuse("the name of a file", "that of a folder");
  if (!fs::exists(status)) return require_folder(option, path);
  if (fs::is_directory(status)) refuse("the name of a file", "a folder");
  if (!fs::is_regular_file(status)) refuse("the name of a file", "something else");
  if (!overwrite) refuse("a path that does not exist", "a file", "replace it with --overwrite");
}

void write_file_durably(const fs::path& path, std::string_view contents) {
  DurableFile file(path, contents.size());
  file.write(contents);
  file.commit();
}

DurableFolder::DurableFolder(fs::path path)
    : path_(path.has_filename() ? std::move(path) : path.parent_path()), temporary_(temporary_beside(path_)) {
  make_directories(folder_of(path_));
  remove_abandoned_temporaries_once(folder_of(path_));
  do {  // a process that looks for abandoned folders may remove it before it is locked
    make_directories(temporary_);
    lock_ = lock_entry(temporary_);
  } while (!is_taken(temporary_));
}

DurableFolder::~DurableFolder() {
  std::error_code ignored;
  if (lock_ >= 0) ::close(lock_);
  if (!renamed_) fs::remove_all(temporary_, ignored);
}

void DurableFolder::commit() {
  sync_directory(temporary_);
  const bool replaces = is_taken(path_);
  fs::path replaced;
  if (replaces) {
    replaced = replace();
  } else {
    rename_path(temporary_, path_);
  }
  renamed_ = true;
  sync_directory(folder_of(path_));
  if (replaces) remove_tree(replaced);
}

fs::path DurableFolder::replace() {
  if (exchange_paths(temporary_, path_)) return temporary_;
  fs::path aside = path_.parent_path() / (replaced_prefix(path_) + random_suffix());
  rename_path(path_, aside);
  try {
    rename_path(temporary_, path_);
  } catch (const StorageError& failure) {
    try {
      rename_path(aside, path_);
    } catch (const StorageError&) {
      throw StorageError(std::string(failure.what()) + "; the previous folder of this name is now " +
                         aside.string());
    }
    throw;
  }
  return aside;
}

void restore_replaced(const fs::path& path) {
  if (is_taken(path)) return;
  const std::vector<fs::path> aside = left_beside(path, replaced_prefix(path));
  if (!aside.empty()) rename_path(aside.front(), path);
}

void remove_abandoned_temporaries(const fs::path& path) {
  for (const std::string& prefix : {temporary_prefix(path), replaced_prefix(path)}) {
    for (const fs::path& entry : left_beside(path, prefix)) remove_tree(entry);
  }
}

}  // namespace moh
