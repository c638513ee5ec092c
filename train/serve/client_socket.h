#pragma once

#include <sys/types.h>
#include <atomic>
#include <cstddef>
#include <string>
#include <string_view>

namespace moh {

/// What a client may take of a server.
struct ClientLimits {
  double idle_seconds = 60;           ///< between two requests of a connection
  double request_seconds = 30;        ///< for a whole request to arrive, however slowly its bytes come
  double write_seconds = 30;          ///< without reading anything of an answer
  std::size_t head_bytes = 64 << 10;  ///< of the request line and the headers
  std::size_t body_bytes = 16 << 20;
};

/// A connection of a server with deadlines for whole requests and bounds for their bytes: a client that sends
/// a byte now and then, or a line without an end, holds neither a thread nor memory for long.
class ClientSocket {
 public:
  enum class Fault {
    kNone,
    kTooSlow,      ///< the request did not arrive in time
    kHeadTooLong,  ///< its headers did not end in time
    kBodyTooLong,  ///< it went on far beyond the limit
    kClosed        ///< the client is gone, or does not read
  };

  /// Takes the descriptor over. Idle connections end when `stopping` is set.
  ClientSocket(int fd, const ClientLimits& limits, const std::atomic<bool>& stopping);
  /// Closes it, gently: what the client still sends is read for a moment, as otherwise the system would throw
  /// the answer away with it.
  ~ClientSocket();
  ClientSocket(const ClientSocket&) = delete;
  ClientSocket& operator=(const ClientSocket&) = delete;

  /// Waits for the first byte of a request, whose deadline begins with it. False if the connection is to end.
  bool await_request();
  /// The request line and the headers, with the empty line after them; "" after a fault.
  std::string read_head();
  /// Of the body: the number of bytes read, at least 1; 0 at the end; -1 after a fault.
  ssize_t read(char* to, std::size_t size);
  /// Writes everything; -1 after a fault.
  ssize_t write(const char* from, std::size_t size);
  bool write(std::string_view text) { return write(text.data(), text.size()) >= 0; }
  /// Whether the client has closed the connection.
  bool gone() const;

  Fault fault() const { return fault_; }
  /// Whether something has been written since the request began.
  bool answered() const { return answered_; }
  /// The connection ends after this answer.
  void close_after_answer() { closes_ = true; }
  bool closes() const { return closes_; }
  int fd() const { return fd_; }

 private:
  bool fill();

  const int fd_;
  const ClientLimits& limits_;
  const std::atomic<bool>& stopping_;
  std::string buffer_;
  std::size_t next_ = 0;     // of the buffer
  std::size_t allowed_ = 0;  // bytes of the body that may still be read
  bool answered_ = false, closes_ = false;
  double deadline_ = 0;
  Fault fault_ = Fault::kNone;
};

}  // namespace moh
