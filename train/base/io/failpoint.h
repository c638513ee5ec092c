#pragma once

#include <string_view>

/// Failure points: named places where a test can kill the process or make an operation fail. They exist only
/// when moh is configured with MOH_FAILPOINTS (by default: when the tests are built); otherwise each is the
/// constant 0.
///
///   MOH_FAIL=POINT_N[=ACTION][,...]     the N-th pass (from 1) of POINT in this process
///
/// ACTION: kill (the default) ends the process by SIGKILL at once, so that nothing is flushed and no
/// destructor runs; stop halts it there until SIGCONT, so that the disk may change meanwhile; slow takes half
/// a second; nan and flip spoil a number; an errno name (ENOSPC, EIO, EINTR, ...) makes the operation fail
/// with that error; short makes a write accept only half of its bytes.
///
/// Points: io:open io:read for input files, io:create io:mkdir io:write io:fsync io:rename io:exchange
/// io:fsync_dir io:unlink io:rmdir, each before the system call of the same name; ckpt:after_write after each
/// file of a checkpoint, ckpt:before_publish and ckpt:after_publish around the rename that makes a checkpoint
/// visible; train:loss after the forward pass of each micro-batch, where nan makes the loss one, and flip
/// flips an exponent bit of it.
///
/// MOH_FAILPOINTS also compiles in a trace of every operation that changes the disk. The crash-consistency
/// test replays each prefix of it on a simulated disk that loses what was not synced.
#ifdef MOH_FAILPOINTS

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace moh {

namespace failpoint {

/// Result of pass() for the action `short`; errno values are positive.
inline constexpr int kShortWrite = -1;
/// Results of pass() for the actions `nan` and `flip`.
inline constexpr int kNan = -5, kFlip = -6;

/// Counts a pass of the point and returns the errno to fail with, kShortWrite, or 0 to continue. Thread-safe.
/// The first call in a process throws ConfigError if MOH_FAIL is malformed.
int pass(std::string_view point);

/// Arms the points of `spec`, in the format of MOH_FAIL, instead of those armed so far, and sets all counts
/// to zero; "" disarms. Throws ConfigError if malformed.
void arm(std::string_view spec);

/// Arms the points of MOH_FAIL. The first pass() of a process does so if nothing has been armed.
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

/// Collects the events of this process during its lifetime. One object at a time; single-threaded.
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

/// To be called after the operation succeeded.
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
