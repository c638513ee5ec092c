#pragma once

#include <filesystem>
#include <string>

namespace moh {

/// "host H, process P, since T", for people.
std::string describe_this_process();

/// Keeps a second process from training in the same run folder. The lock is flock() on `.lock` in the folder:
/// the system releases it when the process ends, however it ends, so a lock can never be left over. The text
/// in the file (host, process, start) only tells people who holds it.
class RunLock {
 public:
  /// Locks the existing folder. Throws ConfigError naming the holder when another process has it,
  /// StorageError when the file cannot be created or locked.
  explicit RunLock(const std::filesystem::path& run_folder);
  ~RunLock();
  RunLock(const RunLock&) = delete;
  RunLock& operator=(const RunLock&) = delete;

  /// Who held the lock before and ended without releasing it (killed, power lost); empty after a clean end.
  const std::string& crashed_holder() const { return crashed_holder_; }
  /// Throws StorageError when the lock no longer has its name: somebody removed, moved or replaced the
  /// folder, and what is written under its path would get into another run, or into a folder that nobody has
  /// locked.
  void require_in_place() const;
  /// Whether the constructor made the file.
  bool is_new() const { return is_new_; }
  /// Takes the file away, for a folder that is not to look like a run's.
  void remove() const;

 private:
  bool lock();
  bool is_in_place() const;

  std::filesystem::path path_;
  int fd_ = -1;
  bool is_new_ = false;
  std::string crashed_holder_;
};

}  // namespace moh
