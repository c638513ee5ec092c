#include "train/serve/client_socket.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>
#include <algorithm>
#include <cerrno>

#include "train/log/progress.h"

namespace moh {

namespace {

constexpr std::size_t kBufferBytes = 16 << 10;
/// A body beyond the limit is read and thrown away up to so many times the limit, so that a client that sends
/// all of it before it reads gets the answer.
constexpr std::size_t kDiscardedLimits = 4;

/// Whether `events` come before the deadline.
bool wait_for(int fd, short events, double seconds) {
  pollfd entry{fd, events, 0};
  const double begin = monotonic_seconds();
  for (;;) {
    const double left = std::max(begin + seconds - monotonic_seconds(), 0.0);
    const int found = ::poll(&entry, 1, static_cast<int>(left * 1000) + 1);
    if (found > 0) return true;
    if (found < 0 && errno != EINTR) return false;
    if (left <= 0) return false;
  }
}

}  // namespace

ClientSocket::ClientSocket(int fd, const ClientLimits& limits, const std::atomic<bool>& stopping)
    : fd_(fd), limits_(limits), stopping_(stopping) {}

ClientSocket::~ClientSocket() {
  constexpr double kGentleSeconds = 1;
  constexpr ssize_t kGentleBytes = 4 << 20;
  if (closes_ && fault_ != Fault::kClosed) {
    ::shutdown(fd_, SHUT_WR);
    const double end = monotonic_seconds() + kGentleSeconds;
    char rest[1 << 14];
    ssize_t left = kGentleBytes, count = 1;
    while (count > 0 && left > 0 && wait_for(fd_, POLLIN, std::max(end - monotonic_seconds(), 0.0))) {
      count = ::recv(fd_, rest, sizeof rest, MSG_DONTWAIT);
      left -= count;
    }
  }
  ::close(fd_);
}

bool ClientSocket::await_request() {
  constexpr double kSlice = 0.1;  // how late a stop may be noticed
  const double end = monotonic_seconds() + limits_.idle_seconds;
  answered_ = false;
  while (next_ == buffer_.size()) {
    if (stopping_ || closes_ || monotonic_seconds() >= end) return false;
    if (!wait_for(fd_, POLLIN, kSlice)) continue;
    deadline_ = end;
    if (!fill()) return false;
  }
  deadline_ = monotonic_seconds() + limits_.request_seconds;
  return true;
}

std::string ClientSocket::read_head() {
  std::string head;
  while (!head.ends_with("\n\r\n")) {
    if (head.size() == limits_.head_bytes) fault_ = Fault::kHeadTooLong;
    if (fault_ != Fault::kNone || (next_ == buffer_.size() && !fill())) return {};
    head += buffer_[next_++];
  }
  allowed_ = kDiscardedLimits * limits_.body_bytes;
  return head;
}

bool ClientSocket::fill() {
  buffer_.resize(kBufferBytes);
  next_ = 0;
  ssize_t count = -1;
  while (wait_for(fd_, POLLIN, std::max(deadline_ - monotonic_seconds(), 0.0))) {
    count = ::recv(fd_, buffer_.data(), buffer_.size(), MSG_DONTWAIT);
    if (count >= 0 || (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR)) break;
  }
  if (count < 0) fault_ = monotonic_seconds() >= deadline_ ? Fault::kTooSlow : Fault::kClosed;
  if (count == 0) fault_ = Fault::kClosed;
  buffer_.resize(static_cast<std::size_t>(std::max<ssize_t>(count, 0)));
  return count > 0;
}

ssize_t ClientSocket::read(char* to, std::size_t size) {
  if (fault_ != Fault::kNone) return -1;
  if (allowed_ == 0) {
    fault_ = Fault::kBodyTooLong;
    return -1;
  }
  if (next_ == buffer_.size() && !fill()) return buffer_.empty() && fault_ == Fault::kClosed ? 0 : -1;
  const std::size_t count = std::min({size, buffer_.size() - next_, allowed_});
  std::copy_n(buffer_.data() + next_, count, to);
  next_ += count;
  allowed_ -= count;
  return static_cast<ssize_t>(count);
}

ssize_t ClientSocket::write(const char* from, std::size_t size) {
  answered_ = true;
  std::size_t done = 0;
  while (done < size) {
    const ssize_t count = ::send(fd_, from + done, size - done, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (count >= 0) {
      done += static_cast<std::size_t>(count);
    } else if (errno == EINTR) {
      continue;
    } else if ((errno != EAGAIN && errno != EWOULDBLOCK) || !wait_for(fd_, POLLOUT, limits_.write_seconds)) {
      fault_ = Fault::kClosed;
      return -1;
    }
  }
  return static_cast<ssize_t>(size);
}

bool ClientSocket::gone() const {
  if (fault_ == Fault::kClosed) return true;
  char byte;
  const ssize_t count = ::recv(fd_, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
  return count == 0 || (count < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR);
}

}  // namespace moh
