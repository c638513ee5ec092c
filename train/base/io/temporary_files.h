#pragma once

#include <filesystem>
#include <string_view>

namespace moh {

/// Part of the names of temporary files and folders, `.NAME.tmp-` and 16 hexadecimal digits. Their writers
/// lock them, and the system unlocks those of a process that was killed, so that others can tell which are
/// abandoned.
inline constexpr std::string_view kTemporaryInfix = ".tmp-";

/// Closes a descriptor, if there is one.
class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor();
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

 private:
  int fd_;
};

/// Creates, opens for writing and locks a file that does not exist. Returns -1, with errno, if it cannot be
/// created; without a lock on file systems that have none.
int create_locked(const std::filesystem::path& path);

/// Opens and locks a file or folder that no process has locked. Returns -1 for others, and on file systems
/// without locks.
int lock_entry(const std::filesystem::path& path);

/// Removes temporary files and folders of any name in `folder` that nobody has locked. Leaves those that it
/// cannot lock or remove. Does nothing if the folder does not exist.
void remove_abandoned_temporaries_in(const std::filesystem::path& folder);
/// Does so once in the life of the process for each folder.
void remove_abandoned_temporaries_once(const std::filesystem::path& folder);

}  // namespace moh
