#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace moh {

/// A message that a process sends to another, or expects from it.
struct Outgoing {
  int to;
  std::span<const std::byte> bytes;
};
struct Incoming {
  int from;
  std::span<std::byte> bytes;
};

/// Carries bytes between the processes of a run. All members are called by one thread. Messages from one
/// process to another arrive in the order in which they were sent.
class Transport {
 public:
  Transport() = default;
  virtual ~Transport() = default;
  Transport(const Transport&) = delete;
  Transport& operator=(const Transport&) = delete;

  virtual int rank() const = 0;
  virtual int size() const = 0;
  /// "Open MPI 4.1.4".
  virtual std::string description() const = 0;

  /// Begins to send and to receive; what is under way must be complete. The bytes must stay until then. Of
  /// each message, the receiver knows the size. Throws CommError.
  virtual void begin(std::span<const Outgoing> sends, std::span<const Incoming> receives) = 0;
  /// Makes progress without blocking. True when everything has been sent and received. Throws CommError.
  virtual bool poll() = 0;
  /// Waits until poll() may find progress, or for at most 1 ms, by a caller that has waited for `waited`
  /// seconds, and for which a thread waits (`in_haste`), or not yet.
  virtual void wait(double waited, bool in_haste) = 0;
  /// The processes from which, or to which, something is under way.
  virtual std::vector<int> awaited() const = 0;

  /// Leaves the others, all of which do the same.
  virtual void close() = 0;
  /// Ends all processes.
  [[noreturn]] virtual void abort(int exit_code) = 0;
};

}  // namespace moh
