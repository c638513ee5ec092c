#pragma once

#include <functional>
#include <memory>
#include <string>

#include "train/base/http/client_limits.h"
#include "train/base/http/connection_counts.h"
#include "train/base/http/http_connection.h"

namespace moh {

/// Where a server listens, and what it takes.
struct HttpOptions {
  const char* command = "serve";  ///< for errors
  std::string host = "127.0.0.1";
  int port = 8000;  ///< 0: any free one
  int max_connections = 128;
  ClientLimits limits;
};

/// An HTTP/1.1 server. One thread polls all connections, however many there are, and a few threads answer
/// requests: one by one those with large bodies, whose parsed forms take memory. What is no HTTP, too long,
/// too slow or too much is answered here: 400, 408, 413, 414, 417, 431, 501, and 503 for a connection beyond
/// max_connections, unless another one can be given up for it.
class HttpServer {
 public:
  /// Makes the answer to a request, without waiting; on one of the threads. Exceptions are answered, too.
  using Handler = std::function<HttpReply(HttpRequest)>;
  /// Is told of each request when it is over, on the thread that polls.
  using Observer = std::function<void(const AnsweredRequest&)>;

  /// Begins to serve. `counts` must outlive the server. Throws ConfigError if the address cannot be listened
  /// at, as when another program has the port, and Error if the system refuses a thread.
  HttpServer(const HttpOptions& options, Handler handler, Observer observer, ConnectionCounts& counts);
  /// Ends all connections.
  ~HttpServer();

  /// "http://127.0.0.1:8000".
  std::string address() const;
  /// From now on connections are refused with 503, and end with the answer that is being made.
  void drain();

 private:
  struct Implementation;
  std::unique_ptr<Implementation> implementation_;
};

}  // namespace moh
