#include "train/families/images/data/archive_state.h"

#include <sys/stat.h>

#include <cerrno>
#include <system_error>

#include "core/error.h"
#include "train/base/io/printable.h"
#include "train/families/images/data/changed_data.h"

namespace moh {

namespace {

std::int64_t nanoseconds(const timespec& time) {
  constexpr std::int64_t kPerSecond = 1'000'000'000;
  return static_cast<std::int64_t>(time.tv_sec) * kPerSecond + time.tv_nsec;
}

}  // namespace

std::string ArchiveState::text() const {
  return std::to_string(bytes) + " bytes, changed at " + std::to_string(modified) +
         " ns, status changed at " + std::to_string(changed) + " ns, inode " + std::to_string(inode);
}

ArchiveState archive_state(const std::filesystem::path& archive) {
  struct stat status {};
  if (::stat(archive.c_str(), &status) != 0)
    throw DataError(printable_path(archive) + ": cannot read: " + std::generic_category().message(errno));
  return {.bytes = static_cast<std::int64_t>(status.st_size),
          .inode = static_cast<std::int64_t>(status.st_ino),
          .modified = nanoseconds(status.st_mtim),
          .changed = nanoseconds(status.st_ctim)};
}

void require_unchanged(const std::filesystem::path& archive, const ArchiveState& before) {
  const ArchiveState now = archive_state(archive);
  if (now.same_bytes(before)) return;
  throw ChangedDataError(error_message(
      printable_path(archive), "archive", "the file that was opened at the start, " + before.text(),
      now.text(), "it was replaced or written meanwhile; put it back and start again, a run with --resume"));
}

}  // namespace moh
