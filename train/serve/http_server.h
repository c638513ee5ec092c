#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "train/serve/client_socket.h"
#include "train/serve/server_metrics.h"

namespace moh {

/// A request whose body has arrived.
struct HttpRequest {
  std::string method, path, content_type, body;
  /// Whether nobody waits for the answer any more.
  std::function<bool()> gone;
};

/// An answer, whole or in pieces.
struct HttpReply {
  int status = 200;
  std::string content_type = "application/json";
  std::string body = {};
  std::vector<std::pair<std::string, std::string>> headers = {};
  /// If set, the body consists of what this appends to a text, call by call, until it returns false.
  std::function<bool(std::string&)> more = {};
  /// Called when the last byte has been written, or nobody reads it any more; true in the first case.
  std::function<void(bool)> written = {};
};

/// The body of an answer to a request that failed, as OpenAI's API has it.
HttpReply error_reply(int status, const std::string& message, const std::string& param = {});

/// Where a server listens, and what it takes.
struct HttpOptions {
  std::string host = "127.0.0.1";
  int port = 8000;  ///< 0: any free one
  int max_connections = 128;
  ClientLimits limits;
};

/// An HTTP/1.1 server (cpp-httplib) that hands every request whose body could be read to one function, on a
/// thread of the connection. What is no HTTP, too long, too slow or too much is answered here: 400, 408, 413,
/// 431, and 503 for a connection beyond max_connections.
class HttpServer {
 public:
  using Handler = std::function<HttpReply(const HttpRequest&)>;

  /// Begins to listen. `metrics` must outlive the server. Throws ConfigError if that is not possible, as when
  /// another program has the port.
  HttpServer(const HttpOptions& options, Handler handler, ServerMetrics& metrics);
  ~HttpServer();

  /// The port.
  int port() const;
  /// Accepts connections until stop(); returns when the last has ended.
  void run();

  // From another thread.

  /// From now on connections are refused with 503, and end with the answer that is being written.
  void drain();
  /// Ends run(). An answer in pieces breaks off.
  void stop();

 private:
  struct Implementation;
  std::unique_ptr<Implementation> implementation_;
};

}  // namespace moh
