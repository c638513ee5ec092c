#pragma once

#include <string>

namespace moh {

/// A socket that listens, without blocking.
class ListenSocket {
 public:
  /// `port` 0: any free one. `command` begins the error. Throws ConfigError if that is not possible, as when
  /// another program has the port.
  ListenSocket(const char* command, const std::string& host, int port);
  ~ListenSocket();
  ListenSocket(const ListenSocket&) = delete;
  ListenSocket& operator=(const ListenSocket&) = delete;

  int fd() const { return fd_; }
  int port() const;
  /// The descriptor of the next connection, which does not block; -1 and errno if there is none.
  int accept() const;

 private:
  int fd_ = -1;
};

}  // namespace moh
