#include "train/base/http/mailbox.h"

#include <sys/eventfd.h>
#include <unistd.h>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <new>
#include <string>
#include <thread>
#include <utility>

#include "core/error.h"

namespace moh {

Mailbox::Mailbox() : fd_(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
  if (fd_ < 0) throw Error(error_message("HTTP server", "eventfd", "a descriptor", std::strerror(errno)));
}

Mailbox::~Mailbox() {
  ::close(fd_);
}

void Mailbox::post(std::function<void()> work) {
  const auto put = [&] {
    try {
      const std::scoped_lock lock(mutex_);
      work_.push_back(std::move(work));
      return true;
    } catch (const std::bad_alloc&) {
      return false;  // `work` is as it was
    }
  };
  while (!put()) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  const std::uint64_t one = 1;
  // The write fails only if the counter is full, and then the descriptor is readable all the same.
  [[maybe_unused]] const ssize_t written = ::write(fd_, &one, sizeof one);
}

std::vector<std::function<void()>> Mailbox::take() {
  const std::scoped_lock lock(mutex_);
  std::uint64_t count = 0;
  [[maybe_unused]] const ssize_t read = ::read(fd_, &count, sizeof count);
  return std::exchange(work_, {});
}

}  // namespace moh
