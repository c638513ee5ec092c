#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

namespace moh {

using Clock = std::chrono::steady_clock;

/// A TCP socket that is closed with this object.
class Socket {
 public:
  Socket() = default;
  explicit Socket(int fd) : fd_(fd) {}
  ~Socket();
  Socket(Socket&& other) noexcept;
  Socket& operator=(Socket&& other) noexcept;

  int fd() const { return fd_; }
  bool is_open() const { return fd_ >= 0; }

  /// Sends or receives what goes without blocking; the number of bytes. Nothing if the other side has ended.
  std::optional<std::size_t> send_some(std::span<const std::byte> bytes) const;
  std::optional<std::size_t> receive_some(std::span<std::byte> bytes) const;
  /// All of it; false if the other side has ended, or the deadline has passed.
  bool send_all(std::span<const std::byte> bytes, Clock::time_point deadline) const;
  bool receive_all(std::span<std::byte> bytes, Clock::time_point deadline) const;
  /// The address of the other side, of 4 bytes or 16.
  std::string peer_address() const;

 private:
  bool wait_until_ready(short events, Clock::time_point deadline) const;

  int fd_ = -1;
};

/// A socket that accepts connections at a port, 0: at any. Throws ConfigError if the port is in use.
class Listener {
 public:
  explicit Listener(int port);
  int port() const;
  /// The next connection; nothing when the deadline has passed.
  std::optional<Socket> accept(Clock::time_point deadline) const;

 private:
  Socket socket_;
};

/// Connects, again and again while nobody listens; nothing when the deadline has passed. Throws ConfigError
/// for a name that has no address.
std::optional<Socket> connect_to(const std::string& host, int port, Clock::time_point deadline);

}  // namespace moh
