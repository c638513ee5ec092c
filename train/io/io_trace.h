#pragma once

/// A record of every operation that changes the disk, for the crash-consistency test, which replays any
/// prefix of it on a model of a disk that forgets what was not synced. Compiled in together with the failure
/// points.
#ifdef MOH_FAILPOINTS

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace moh {

struct IoEvent {
  enum class Kind {
    kCreate,
    kWrite,
    kSyncFile,
    kMakeDirectory,
    kRename,
    kRemoveFile,
    kRemoveDirectory,
    kSyncDirectory
  };
  Kind kind;
  std::filesystem::path path;
  std::filesystem::path target;  ///< of a rename
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

#define MOH_TRACE_IO(...) ::moh::trace_io(::moh::IoEvent::Kind::__VA_ARGS__)

#else

#define MOH_TRACE_IO(...) \
  do {                    \
  } while (false)

#endif
