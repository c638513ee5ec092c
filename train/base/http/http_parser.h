#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "train/base/http/client_limits.h"

namespace moh {

/// A request whose body has arrived.
struct HttpRequest {
  std::string method;
  std::string path;   ///< decoded, without scheme, host and query
  std::string query;  ///< behind the path's '?', as it was sent
  std::string host;   ///< the header of that name
  std::string content_type;
  std::string authorization;  ///< the header of that name
  std::string body;
};

/// Reads the requests of one connection from its bytes, as strictly as RFC 9112 allows: a request whose
/// length or target another reader, such as a proxy, could take otherwise is refused, and nothing behind it
/// is read.
class HttpParser {
 public:
  /// An answer to a request that cannot be read; status 0: none.
  struct Refusal {
    int status = 0;
    std::string why;
  };

  /// `limits` must outlive the object.
  explicit HttpParser(const ClientLimits& limits);
  ~HttpParser();

  /// Takes in what has arrived. After a refusal bytes are dropped.
  void receive(std::string_view bytes);
  /// Whether nothing of the next request has arrived.
  bool empty() const;
  /// Whether a request is complete. Bytes that follow it wait for take().
  bool complete() const;
  const Refusal& refusal() const;
  /// Bytes that are kept of the request so far.
  std::size_t held_bytes() const;
  /// Whether the client waits for a word before it sends the body; true once.
  bool awaits_continue();

  // The request whose head has arrived, until the next begins.

  std::string method() const;
  std::string path() const;
  bool is_http_1_0() const;
  /// Whether the client wants the connection to stay open.
  bool keeps_alive() const;

  /// The complete request.
  HttpRequest take();
  /// Reads on with the next request, from the bytes that have arrived.
  void next();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace moh
