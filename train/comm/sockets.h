#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

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

/// Accepts connections, at a port of some addresses of this machine.
class Listener {
 public:
  /// At the addresses of `host`, a name or an address by which others reach this machine. At all addresses of
  /// the machine if it has none of these, as behind an address translation, or if a name, other than
  /// localhost, means only the machine itself here, as where a machine's own name is that of 127.0.1.1.
  /// Throws ConfigError if the port is in use, and for a name that has no address.
  Listener(const std::string& host, int port);
  /// At a free port of the address that this machine has in the connection.
  explicit Listener(const Socket& connection);

  int port() const;
  const std::vector<Socket>& sockets() const { return sockets_; }
  /// A connection that is waiting; nothing if there is none. A closed one if the system refuses a descriptor
  /// for it.
  std::optional<Socket> accept() const;

 private:
  std::vector<Socket> sockets_;  // not empty
};

/// Connects, again and again while nobody listens; nothing when the deadline has passed. Throws ConfigError
/// for a name that has no address.
std::optional<Socket> connect_to(const std::string& host, int port, Clock::time_point deadline);

}  // namespace moh
