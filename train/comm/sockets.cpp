#include "train/comm/sockets.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <thread>
#include <utility>

#include "core/error.h"
#include "train/comm/comm_error.h"

namespace moh {

namespace {

void prepare(int fd) {
  const int on = 1;
  ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  ::fcntl(fd, F_SETFL, ::fcntl(fd, F_GETFL) | O_NONBLOCK);
}

/// Bytes of a call that does not block; nothing if the other side has ended.
std::optional<std::size_t> result_of(ssize_t count) {
  if (count > 0) return static_cast<std::size_t>(count);
  if (count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) return 0;
  return std::nullopt;
}

std::string refused_by_system(const char* what) {
  return std::string(what) + ": " + std::strerror(errno);
}

using Addresses = std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)>;

Addresses addresses_of(const std::string& host, int port) {
  addrinfo hints{}, *found = nullptr;
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  if (const int error = ::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found); error != 0)
    throw ConfigError(error_message("comm", "MASTER_ADDR", "a machine that can be reached",
                                    "'" + host + "': " + ::gai_strerror(error)));
  return {found, ::freeaddrinfo};
}

/// Where nobody listens at a port of this machine from which connections go out, a connection to it may be
/// given that very port, and is connected to itself.
bool is_connected_to_itself(int fd) {
  sockaddr_storage own{}, peer{};
  socklen_t own_length = sizeof own, peer_length = sizeof peer;
  return ::getsockname(fd, reinterpret_cast<sockaddr*>(&own), &own_length) == 0 &&
         ::getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &peer_length) == 0 &&
         own_length == peer_length && std::memcmp(&own, &peer, own_length) == 0;
}

bool is_loopback(const sockaddr* address) {
  if (address->sa_family == AF_INET6)
    return IN6_IS_ADDR_LOOPBACK(&reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr) != 0;
  constexpr std::uint32_t kLoopbackNet = 127;
  return ntohl(reinterpret_cast<const sockaddr_in*>(address)->sin_addr.s_addr) >> 24 == kLoopbackNet;
}

/// Whether `host` is a name by which others may know this machine, and only the machine itself another way.
bool means_only_itself(const std::string& host, const addrinfo* addresses) {
  std::array<std::byte, sizeof(in6_addr)> number;
  const bool is_number = ::inet_pton(AF_INET, host.c_str(), number.data()) == 1 ||
                         ::inet_pton(AF_INET6, host.c_str(), number.data()) == 1;
  if (is_number || host == "localhost") return false;
  for (const addrinfo* at = addresses; at != nullptr; at = at->ai_next) {
    if (!is_loopback(at->ai_addr)) return false;
  }
  return true;
}

/// A socket that listens at an address; nothing if it is none of this machine. With `both`, one of IPv6 takes
/// connections of IPv4, too. Throws ConfigError if the port is in use.
std::optional<Socket> listening_at(const sockaddr* address, socklen_t length, bool both) {
  const int on = 1, v6_only = both ? 0 : 1;
  Socket socket(::socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!socket.is_open()) return std::nullopt;
  ::setsockopt(socket.fd(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (address->sa_family == AF_INET6)
    ::setsockopt(socket.fd(), IPPROTO_IPV6, IPV6_V6ONLY, &v6_only, sizeof v6_only);
  if (::bind(socket.fd(), address, length) != 0 || ::listen(socket.fd(), 1024) != 0) {
    if (errno != EADDRINUSE && errno != EACCES) return std::nullopt;
    const int port = ntohs(reinterpret_cast<const sockaddr_in*>(address)->sin_port);
    throw ConfigError(error_message("comm", "port " + std::to_string(port), "a port that is free",
                                    refused_by_system("bind"), "start with another MASTER_PORT"));
  }
  prepare(socket.fd());
  return socket;
}

/// At all addresses of the machine; of IPv4 alone where it has no IPv6.
Socket listening_everywhere(int port) {
  sockaddr_in6 any6{};
  any6.sin6_family = AF_INET6;
  any6.sin6_port = htons(static_cast<std::uint16_t>(port));
  sockaddr_in any4{};
  any4.sin_family = AF_INET;
  any4.sin_port = any6.sin6_port;
  if (auto socket = listening_at(reinterpret_cast<const sockaddr*>(&any6), sizeof any6, /*both=*/true))
    return std::move(*socket);
  if (auto socket = listening_at(reinterpret_cast<const sockaddr*>(&any4), sizeof any4, /*both=*/true))
    return std::move(*socket);
  throw ConfigError(error_message("comm", "port " + std::to_string(port), "a port to listen at",
                                  refused_by_system("bind")));
}

/// The port is free when the socket is closed, and not a minute later.
void reset_when_closed(int fd) {
  const linger at_once{.l_onoff = 1, .l_linger = 0};
  ::setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
}

}  // namespace

Socket::~Socket() {
  if (fd_ >= 0) ::close(fd_);
}

Socket::Socket(Socket&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}

Socket& Socket::operator=(Socket&& other) noexcept {
  std::swap(fd_, other.fd_);
  return *this;
}

std::optional<std::size_t> Socket::send_some(std::span<const std::byte> bytes) const {
  return result_of(::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT));
}

std::optional<std::size_t> Socket::receive_some(std::span<std::byte> bytes) const {
  return result_of(::recv(fd_, bytes.data(), bytes.size(), MSG_DONTWAIT));
}

bool Socket::wait_until_ready(short events, Clock::time_point deadline) const {
  while (true) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
    if (left <= 0) return false;
    pollfd ready{fd_, events, 0};
    if (::poll(&ready, 1, static_cast<int>(std::min<long>(left, 1000))) > 0) return true;
  }
}

bool Socket::send_all(std::span<const std::byte> bytes, Clock::time_point deadline) const {
  while (!bytes.empty()) {
    const std::optional<std::size_t> sent = send_some(bytes);
    if (!sent) return false;
    bytes = bytes.subspan(*sent);
    if (*sent == 0 && !wait_until_ready(POLLOUT, deadline)) return false;
  }
  return true;
}

bool Socket::receive_all(std::span<std::byte> bytes, Clock::time_point deadline) const {
  while (!bytes.empty()) {
    const std::optional<std::size_t> received = receive_some(bytes);
    if (!received) return false;
    bytes = bytes.subspan(*received);
    if (*received == 0 && !wait_until_ready(POLLIN, deadline)) return false;
  }
  return true;
}

std::string Socket::peer_address() const {
  sockaddr_storage address{};
  socklen_t length = sizeof address;
  std::array<char, INET6_ADDRSTRLEN> text{};
  if (::getpeername(fd_, reinterpret_cast<sockaddr*>(&address), &length) != 0)
    throw CommError(error_message("comm", "TCP", "a connection", refused_by_system("getpeername")));
  const auto* const ipv6 = reinterpret_cast<const sockaddr_in6*>(&address);
  const auto* const ipv4 = reinterpret_cast<const sockaddr_in*>(&address);
  const bool is_ipv6 = address.ss_family == AF_INET6;
  const void* const bytes = is_ipv6 ? static_cast<const void*>(&ipv6->sin6_addr) : &ipv4->sin_addr;
  ::inet_ntop(address.ss_family, bytes, text.data(), text.size());
  return text.data();
}

Listener::Listener(const std::string& host, int port) {
  const Addresses addresses = addresses_of(host, port);
  if (!means_only_itself(host, addresses.get())) {
    for (const addrinfo* at = addresses.get(); at != nullptr; at = at->ai_next) {
      if (std::optional<Socket> socket = listening_at(at->ai_addr, at->ai_addrlen, /*both=*/false))
        sockets_.push_back(std::move(*socket));
    }
  }
  if (sockets_.empty()) sockets_.push_back(listening_everywhere(port));
}

Listener::Listener(const Socket& connection) {
  sockaddr_storage own{};
  socklen_t length = sizeof own;
  if (::getsockname(connection.fd(), reinterpret_cast<sockaddr*>(&own), &length) == 0) {
    reinterpret_cast<sockaddr_in6*>(&own)->sin6_port = 0;  // of IPv4 it is in the same place
    if (std::optional<Socket> socket =
            listening_at(reinterpret_cast<const sockaddr*>(&own), length, /*both=*/false))
      sockets_.push_back(std::move(*socket));
  }
  if (sockets_.empty()) sockets_.push_back(listening_everywhere(0));
}

int Listener::port() const {
  sockaddr_in6 address{};  // as large as either; the port is in the same place
  socklen_t length = sizeof address;
  ::getsockname(sockets_.front().fd(), reinterpret_cast<sockaddr*>(&address), &length);
  return ntohs(address.sin6_port);
}

std::optional<Socket> Listener::accept() const {
  for (const Socket& socket : sockets_) {
    const int fd = ::accept4(socket.fd(), nullptr, nullptr, SOCK_CLOEXEC);
    if (fd >= 0) {
      prepare(fd);
      return Socket(fd);
    }
    if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) return Socket();
  }
  return std::nullopt;
}

std::optional<Socket> connect_to(const std::string& host, int port, Clock::time_point deadline) {
  const Addresses addresses = addresses_of(host, port);
  while (Clock::now() < deadline) {
    for (const addrinfo* at = addresses.get(); at != nullptr; at = at->ai_next) {
      Socket socket(::socket(at->ai_family, at->ai_socktype | SOCK_CLOEXEC, at->ai_protocol));
      if (!socket.is_open() || ::connect(socket.fd(), at->ai_addr, at->ai_addrlen) != 0) continue;
      if (is_connected_to_itself(socket.fd())) {
        reset_when_closed(socket.fd());
        continue;
      }
      prepare(socket.fd());
      return socket;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(50));  // it has not started yet
  }
  return std::nullopt;
}

}  // namespace moh
