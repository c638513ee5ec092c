#pragma once

#include <functional>
#include <mutex>
#include <vector>

namespace moh {

/// Work that other threads leave for one that polls descriptors.
class Mailbox {
 public:
  /// Throws Error if the system has no descriptor.
  Mailbox();
  ~Mailbox();
  Mailbox(const Mailbox&) = delete;
  Mailbox& operator=(const Mailbox&) = delete;

  /// From any thread. While there is no memory for it, waits for some: a message that is lost leaves its
  /// client without an answer.
  void post(std::function<void()> work);

  // For the thread that polls.

  /// Readable as long as there is work.
  int fd() const { return fd_; }
  std::vector<std::function<void()>> take();

 private:
  const int fd_;
  std::mutex mutex_;
  std::vector<std::function<void()>> work_;
};

}  // namespace moh
