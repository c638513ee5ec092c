#pragma once

#include <filesystem>
#include <optional>
#include <string>

namespace moh {

/// "host H, process P, since T", for people.
std::string describe_this_process();

/// The process that the lock of a run's folder names.
struct LockHolder {
  std::string host;
  bool is_here = false;   ///< this machine is that host
  bool is_alive = false;  ///< the process exists; known of a process on this machine alone
};

/// Who holds the lock of a run's folder, or ended without releasing it, by the text in `.lock`; none after a
/// clean end, and where there is no such file. Takes no lock, as a process that starts meanwhile would find
/// it.
std::optional<LockHolder> lock_holder(const std::filesystem::path& run_folder);

/// Keeps a second process from training in the same run folder. The lock is flock() on `.lock` in the folder,
/// which the system releases however the process ends, so a lock cannot become stale. The text in the file
/// (host, process, start) is for messages only.
class RunLock {
 public:
  /// Locks the existing folder. Throws ConfigError naming the holder if another process has locked it,
  /// StorageError if the file cannot be created or locked.
  explicit RunLock(const std::filesystem::path& run_folder);
  ~RunLock();
  RunLock(const RunLock&) = delete;
  RunLock& operator=(const RunLock&) = delete;

  /// The previous holder if it ended without releasing the lock (killed, power loss); empty after a clean
  /// end.
  const std::string& crashed_holder() const { return crashed_holder_; }
  /// Throws StorageError if the path no longer leads to the locked file: the folder was removed, moved or
  /// replaced, and further files would be written to another run or to a folder that is not locked.
  void require_in_place() const;
  /// Whether the constructor created the file.
  bool is_new() const { return is_new_; }
  /// Removes the file, so that the folder does not look like that of a run.
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
