#pragma once

#include <string_view>

/// Failure points: named places at which a test makes the process die or an operation fail. They exist only
/// when moh is configured with MOH_FAILPOINTS (by default: when the tests are built); otherwise each is the
/// constant 0.
///
///   MOH_FAIL=POINT_N[=ACTION][,...]     the N-th pass (from 1) of POINT in this process
///
/// ACTION: kill (the default) ends the process by SIGKILL on the spot, so that nothing is flushed and no
/// destructor runs; an errno name (ENOSPC, EIO, EINTR, ...) makes the operation report that error; short
/// makes a write take only half of its bytes.
///
/// Points: io:open io:read of files that are read, io:create io:mkdir io:write io:fsync io:rename io:exchange
/// io:fsync_dir io:unlink io:rmdir, each before the system call of the same name; ckpt:after_write after each
/// file of a checkpoint, ckpt:before_publish and ckpt:after_publish around the rename that makes a checkpoint
/// visible.
///
/// Compiled in together with them: a record of every operation that changes the disk, for the
/// crash-consistency test, which replays any prefix of it on a model of a disk that forgets what was not
/// synced.
#ifdef MOH_FAILPOINTS

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace moh {

namespace failpoint {

/// What pass() returns for the action `short`; errno values are positive.
inline constexpr int kShortWrite = -1;

/// Counts a pass of the point and returns the errno to report, kShortWrite, or 0 to go on. Thread-safe.
/// Throws ConfigError at the first pass of all when MOH_FAIL is malformed.
int pass(std::string_view point);

/// Replaces what is armed and sets all counts to zero; "" disarms. Throws ConfigError when malformed.
void arm(std::string_view spec);

/// Arms what MOH_FAIL says. The first pass() of a process does so by itself when nothing has been armed.
void arm_from_environment();

}  // namespace failpoint

struct IoEvent {
  enum class Kind {
    kCreate,
    kWrite,
    kSyncFile,
    kMakeDirectory,
    kRename,
    kExchange,
    kRemoveFile,
    kRemoveDirectory,
    kSyncDirectory
  };
  Kind kind;
  std::filesystem::path path;
  std::filesystem::path target;  ///< of a rename, and of an exchange
  std::string data;              ///< of a write, appended to the file
};

/// Collects the events of this process for its own lifetime. One at a time, on one thread.
class IoTrace {
 public:
  IoTrace();
  ~IoTrace();
  IoTrace(const IoTrace&) = delete;
  IoTrace& operator=(const IoTrace&) = delete;

  const std::vector<IoEvent>& events() const { return events_; }

 private:
  friend void trace_io(IoEvent::Kind, const std::filesystem::path&, const std::filesystem::path&,
                       std::span<const std::byte>);
  std::vector<IoEvent> events_;
};

/// Called after the operation succeeded.
void trace_io(IoEvent::Kind kind, const std::filesystem::path& path, const std::filesystem::path& target = {},
              std::span<const std::byte> data = {});

}  // namespace moh

#define MOH_FAILPOINT(point) ::moh::failpoint::pass(point)
#define MOH_TRACE_IO(...) ::moh::trace_io(::moh::IoEvent::Kind::__VA_ARGS__)

#else

#define MOH_FAILPOINT(point) 0
#define MOH_TRACE_IO(...) \
  do {                    \
  } while (false)

#endif
