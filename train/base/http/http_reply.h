#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace moh {

class ReplySource;

/// An answer, whole or to come.
struct HttpReply {
  int status = 200;
  std::string content_type = "application/json";
  std::string body = {};
  std::vector<std::pair<std::string, std::string>> headers = {};
  /// If set, the answer is made by this, later.
  std::shared_ptr<ReplySource> source = {};
  /// Set for an answer from a source: status and headers are sent at once, and the body piece by piece.
  bool streams = false;
  std::string note = {};  ///< for the log, such as how much was computed; may be empty
};

/// Makes an answer while other things happen.
class ReplySource {
 public:
  virtual ~ReplySource() = default;
  /// From now on `wake` is called, on any thread, when there is something for advance() to do; once until
  /// then.
  virtual void watch(std::function<void()> wake) = 0;
  /// Takes in what there is, without waiting. Returns whether the answer goes on. Of a stream it sets the
  /// body to what is new; else it fills in the reply at the end. Not called by two threads at once.
  virtual bool advance(HttpReply& reply) = 0;
  /// Nobody reads the rest. From any thread.
  virtual void cancel() = 0;
};

/// The answer to a request that failed; the body is as OpenAI's API has it.
HttpReply error_reply(int status, const std::string& message, const std::string& param = {},
                      const std::string& code = {});
/// The answer to a request that ended with the exception that is being handled.
HttpReply current_exception_reply() noexcept;

/// How the body of an answer is delimited.
enum class Framing {
  kLength,   ///< Content-Length
  kChunks,   ///< Transfer-Encoding: chunked
  kToTheEnd  ///< the end of the connection, for HTTP/1.0
};

/// The status line and the headers.
std::string reply_head(const HttpReply& reply, Framing framing, bool closes);
/// A piece of a body, framed. Empty pieces are "".
std::string framed(std::string piece, Framing framing);
/// The end of a body.
std::string end_of_body(Framing framing);

}  // namespace moh
