#include "train/base/http/listen_socket.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>
#include <cerrno>
#include <cstring>
#include <memory>

#include "core/error.h"

namespace moh {

namespace {

constexpr int kBacklog = 1024;

void set_option(int fd, int level, int option) {
  const int yes = 1;
  ::setsockopt(fd, level, option, &yes, sizeof yes);
}

/// The descriptor; -1 and errno if it is not possible.
int listen_at(const addrinfo& address) {
  const int fd = ::socket(address.ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd < 0) return -1;
  set_option(fd, SOL_SOCKET, SO_REUSEADDR);  // a restarted server need not wait for old connections
  if (::bind(fd, address.ai_addr, address.ai_addrlen) == 0 && ::listen(fd, kBacklog) == 0) return fd;
  const int reason = errno;
  ::close(fd);
  errno = reason;
  return -1;
}

}  // namespace

ListenSocket::ListenSocket(const char* command, const std::string& host, int port) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE;
  addrinfo* found = nullptr;
  const int fault =
      ::getaddrinfo(host.empty() ? nullptr : host.c_str(), std::to_string(port).c_str(), &hints, &found);
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> addresses(found, ::freeaddrinfo);
  std::string reason = fault != 0 ? ::gai_strerror(fault) : "no such address";
  for (const addrinfo* each = found; each != nullptr && fd_ < 0; each = each->ai_next) {
    fd_ = listen_at(*each);
    if (fd_ < 0) reason = std::strerror(errno);
  }
  if (fd_ < 0)
    throw ConfigError(error_message(command, "--host and --port",
                                    "an address of this machine, and a free port",
                                    host + ":" + std::to_string(port) + " (" + reason + ")"));
}

ListenSocket::~ListenSocket() {
  ::close(fd_);
}

int ListenSocket::port() const {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  ::getsockname(fd_, reinterpret_cast<sockaddr*>(&address), &size);
  const auto port = address.ss_family == AF_INET6 ? reinterpret_cast<const sockaddr_in6&>(address).sin6_port
                                                  : reinterpret_cast<const sockaddr_in&>(address).sin_port;
  return ntohs(port);
}

int ListenSocket::accept() const {
  const int fd = ::accept4(fd_, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
  if (fd >= 0) set_option(fd, IPPROTO_TCP, TCP_NODELAY);
  return fd;
}

}  // namespace moh
