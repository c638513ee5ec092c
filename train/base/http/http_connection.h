#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "train/base/http/client_limits.h"
#include "train/base/http/http_parser.h"
#include "train/base/http/http_reply.h"

namespace moh {

/// The log entry of a request once it is over.
struct AnsweredRequest {
  std::string method, path;  ///< empty if they had not arrived
  int status = 0;            ///< 499 for an answer that the client did not read, as in nginx
  double seconds = 0;
  std::string note;      ///< of its answer
  bool arrived = false;  ///< false if it was refused before all of it was there
};

/// A connection of a server as a state machine on one thread that polls: it reads a request, waits for its
/// answer, writes it, and so on, with a deadline for whatever it waits for from its client. Times are those
/// of monotonic_seconds().
class HttpConnection {
 public:
  /// Takes over the descriptor, which must not block. `limits` must outlive the object.
  HttpConnection(int fd, const ClientLimits& limits, double now);
  ~HttpConnection();
  HttpConnection(const HttpConnection&) = delete;
  HttpConnection& operator=(const HttpConnection&) = delete;

  // For the thread that polls.

  /// The descriptor, and the events of poll() to wait for.
  int fd() const { return fd_; }
  short events() const;
  /// To be called when `found` of them are there.
  void ready(short found, double now);
  /// When expire() has to be called; infinity: never.
  double deadline() const;
  void expire(double now);
  bool closed() const { return state_ == State::kClosed; }
  /// Whether it only waits for the client to have read its last answer.
  bool lingers() const { return state_ == State::kLingering; }
  /// Whether a request may still arrive in part.
  bool receives() const { return state_ == State::kReceiving; }

  // Work that the connection has for the server; each piece is returned once.

  /// A request that has arrived; answer() is called for it.
  std::optional<HttpRequest> take_request();
  /// An answer that goes on; advanced() is called after ReplySource::advance().
  std::shared_ptr<ReplySource> take_work();
  /// Requests that are over.
  std::vector<AnsweredRequest> take_records();

  void answer(HttpReply reply, double now);
  /// There is something for the source to do.
  void wake() { woken_ = true; }
  /// `reply` is what advance() has filled in.
  void advanced(bool goes_on, HttpReply reply, double now);

  // Ends, and what they are decided by.

  /// Answers with an error, and closes.
  void refuse(int status, const std::string& why, double now);
  /// Closes after the answer that is due, or at once if none is.
  void drain();
  /// Closes at once.
  void close();

  /// How willingly the connection is given up for another one: 0 between two requests, 1 when the client has
  /// made it wait for a while, nothing if it may not be given up.
  std::optional<int> spare(double now) const;
  /// When the client did something last.
  double last_progress() const { return last_progress_; }
  /// Gives it up.
  void give_up(double now);
  /// Bytes of a request that is not answered yet.
  std::size_t held_bytes() const;

 private:
  enum class State { kReceiving, kAnswering, kLingering, kClosed };

  void receive(double now);
  void take_in(double now);
  void discard();
  void write_head();
  void write_whole(double now);
  void put(const std::string& bytes, double now);
  void flush(double now);
  void end_answer(double now);
  void record(int status, double now);
  bool is_between_requests() const;

  const int fd_;
  const ClientLimits& limits_;
  HttpParser parser_;
  State state_ = State::kReceiving;
  bool first_ = true;         // no request has arrived yet
  bool closes_ = false;       // after the answer
  bool half_closed_ = false;  // the client sends nothing more
  double begin_, deadline_, last_progress_;
  std::size_t received_ = 0, discarded_ = 0;

  // State of the request that is answered.
  std::optional<HttpRequest> request_;
  AnsweredRequest said_;
  HttpReply reply_;
  Framing framing_ = Framing::kLength;
  std::size_t body_bytes_ = 0;                            // until its answer has begun
  bool woken_ = false, working_ = false, ended_ = false;  // of the answer's source, and of the answer
  std::string out_;
  std::size_t sent_ = 0;
  std::vector<AnsweredRequest> records_;
};

}  // namespace moh
