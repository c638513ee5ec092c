#include "train/base/http/http_connection.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>
#include <cerrno>
#include <limits>
#include <new>
#include <utility>

namespace moh {

namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
/// As in nginx: nobody has read this answer.
constexpr int kClientGone = 499;
/// For so long, and so many times the limit of a body, what a client still sends after its last answer is
/// read and thrown away: otherwise the system would reset the connection, and the answer would be lost.
constexpr double kLingerSeconds = 1;
constexpr std::size_t kLingerLimits = 4;
/// A client that keeps the server waiting for so long, or sends more slowly than that, can be given up.
constexpr double kPatienceSeconds = 1, kSlowBytesPerSecond = 1024;
constexpr std::size_t kPieceBytes = 16 << 10;

bool would_block() {
  return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR;
}

}  // namespace

HttpConnection::HttpConnection(int fd, const ClientLimits& limits, double now)
    : fd_(fd),
      limits_(limits),
      parser_(limits),
      begin_(now),
      deadline_(now + limits.request_seconds),
      last_progress_(now) {}

HttpConnection::~HttpConnection() {
  ::close(fd_);
}

short HttpConnection::events() const {
  // An answer is written only as fast as it is read, and the next request waits in the system's buffer.
  const int in = state_ != State::kAnswering ? POLLIN : half_closed_ ? 0 : POLLRDHUP;
  return static_cast<short>(in | (out_.empty() ? 0 : POLLOUT));
}

void HttpConnection::ready(short found, double now) {
  if ((found & (POLLERR | POLLNVAL)) != 0) return close();
  if (state_ == State::kReceiving && (found & (POLLIN | POLLHUP)) != 0) {
    receive(now);
  } else if (state_ == State::kLingering && (found & (POLLIN | POLLHUP)) != 0) {
    discard();
  } else if (state_ == State::kAnswering && (found & (POLLRDHUP | POLLHUP)) != 0) {
    // A client may send its request and close its side; what takes long is not computed for it.
    half_closed_ = closes_ = true;
    if ((found & POLLHUP) != 0 || reply_.source) return close();
  }
  if ((found & POLLOUT) != 0 && !closed()) flush(now);
}

double HttpConnection::deadline() const {
  if (state_ != State::kAnswering) return deadline_;
  return out_.empty() ? kNever : last_progress_ + limits_.write_seconds;
}

void HttpConnection::expire(double now) {
  if (state_ == State::kReceiving && !is_between_requests())
    return refuse(408, "the request did not arrive in time", now);
  close();
}

bool HttpConnection::is_between_requests() const {
  return state_ == State::kReceiving && !first_ && parser_.empty();
}

std::size_t HttpConnection::held_bytes() const {
  return state_ == State::kReceiving ? parser_.held_bytes() : body_bytes_;
}

void HttpConnection::receive(double now) {
  char bytes[kPieceBytes];
  const ssize_t count = ::recv(fd_, bytes, sizeof bytes, MSG_DONTWAIT);
  if (count < 0 && would_block()) return;
  if (count <= 0) return close();
  last_progress_ = now;
  if (is_between_requests()) deadline_ = now + limits_.request_seconds;
  if (parser_.empty()) {
    begin_ = now;
    received_ = 0;
  }
  received_ += static_cast<std::size_t>(count);
  try {
    parser_.receive({bytes, static_cast<std::size_t>(count)});
  } catch (const std::bad_alloc&) {
    return refuse(503, "the server has too little memory for this request; try again later", now);
  }
  take_in(now);
}

void HttpConnection::take_in(double now) {
  if (const HttpParser::Refusal& refusal = parser_.refusal(); refusal.status != 0)
    return refuse(refusal.status, refusal.why, now);
  if (parser_.awaits_continue()) {
    put("HTTP/1.1 100 Continue\r\n\r\n", now);
    flush(now);
  }
  if (!parser_.complete() || closed()) return;
  first_ = false;
  begin_ = now;
  state_ = State::kAnswering;
  woken_ = working_ = ended_ = false;
  said_ = {.method = parser_.method(), .path = parser_.path(), .arrived = true};
  if (!parser_.keeps_alive()) closes_ = true;
  request_ = parser_.take();
  body_bytes_ = request_->body.size();
}

std::optional<HttpRequest> HttpConnection::take_request() {
  return std::exchange(request_, std::nullopt);
}

std::shared_ptr<ReplySource> HttpConnection::take_work() {
  const bool due =
      state_ == State::kAnswering && reply_.source && woken_ && !working_ && !ended_ && out_.empty();
  if (!due) return nullptr;
  woken_ = false;
  working_ = true;
  return reply_.source;
}

std::vector<AnsweredRequest> HttpConnection::take_records() {
  return std::exchange(records_, {});
}

void HttpConnection::answer(HttpReply reply, double now) {
  body_bytes_ = 0;
  reply_ = std::move(reply);
  if (!reply_.source) return write_whole(now);
  if (half_closed_) return close();
  woken_ = true;
  if (!reply_.streams) return;
  framing_ = parser_.is_http_1_0() ? Framing::kToTheEnd : Framing::kChunks;
  if (framing_ == Framing::kToTheEnd) closes_ = true;
  put(reply_head(reply_, framing_, closes_), now);
  flush(now);
}

void HttpConnection::advanced(bool goes_on, HttpReply reply, double now) {
  working_ = false;
  if (!reply_.streams) {
    if (goes_on) return;
    reply_ = std::move(reply);
    return write_whole(now);
  }
  reply_.note = std::move(reply.note);
  put(framed(std::move(reply.body), framing_), now);
  if (!goes_on) {
    put(end_of_body(framing_), now);
    ended_ = true;
  }
  flush(now);
}

void HttpConnection::write_whole(double now) {
  put(reply_head(reply_, Framing::kLength, closes_), now);
  if (said_.method != "HEAD") put(reply_.body, now);
  reply_.body = {};
  ended_ = true;
  flush(now);
}

void HttpConnection::put(const std::string& bytes, double now) {
  if (out_.empty()) last_progress_ = now;
  out_ += bytes;
}

void HttpConnection::flush(double now) {
  while (sent_ < out_.size()) {
    const ssize_t count = ::send(fd_, out_.data() + sent_, out_.size() - sent_, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && would_block()) return;
    if (count < 0) return close();
    sent_ += static_cast<std::size_t>(count);
    last_progress_ = now;
  }
  out_.clear();
  if (out_.capacity() > kPieceBytes) out_.shrink_to_fit();
  sent_ = 0;
  if (state_ == State::kAnswering && ended_) end_answer(now);
}

void HttpConnection::end_answer(double now) {
  record(reply_.status, now);
  reply_ = {};
  if (half_closed_) {
    state_ = State::kClosed;
  } else if (closes_) {
    ::shutdown(fd_, SHUT_WR);
    state_ = State::kLingering;
    deadline_ = now + kLingerSeconds;
  } else {
    state_ = State::kReceiving;
    last_progress_ = begin_ = now;
    received_ = 0;
    parser_.next();
    deadline_ = now + (parser_.empty() ? limits_.idle_seconds : limits_.request_seconds);
    take_in(now);
  }
}

void HttpConnection::record(int status, double now) {
  said_.status = status;
  said_.seconds = now - begin_;
  said_.note = std::move(reply_.note);
  records_.push_back(std::move(said_));
}

void HttpConnection::discard() {
  char bytes[kPieceBytes];
  const ssize_t count = ::recv(fd_, bytes, sizeof bytes, MSG_DONTWAIT);
  if (count < 0 && would_block()) return;
  if (count > 0) discarded_ += static_cast<std::size_t>(count);
  if (count <= 0 || discarded_ > kLingerLimits * limits_.body_bytes) state_ = State::kClosed;
}

void HttpConnection::refuse(int status, const std::string& why, double now) {
  said_ = {.method = parser_.method(), .path = parser_.path()};
  state_ = State::kAnswering;
  closes_ = true;
  reply_ = error_reply(status, why);
  write_whole(now);
}

void HttpConnection::drain() {
  closes_ = true;
  if (state_ == State::kReceiving && parser_.empty()) close();
}

void HttpConnection::close() {
  if (state_ == State::kAnswering) {
    if (reply_.source) reply_.source->cancel();
    record(kClientGone, last_progress_ > begin_ ? last_progress_ : begin_);
  }
  state_ = State::kClosed;
}

std::optional<int> HttpConnection::spare(double now) const {
  if (is_between_requests()) return 0;
  const bool waits = state_ == State::kReceiving || (state_ == State::kAnswering && !out_.empty());
  const bool stands_still = waits && now - last_progress_ >= kPatienceSeconds;
  const double seconds = now - begin_;
  const bool is_slow = state_ == State::kReceiving && seconds >= kPatienceSeconds &&
                       static_cast<double>(received_) < kSlowBytesPerSecond * seconds;
  return stands_still || is_slow ? std::optional(1) : std::nullopt;
}

void HttpConnection::give_up(double now) {
  if (state_ == State::kReceiving && !is_between_requests())
    return refuse(503, "there are too many connections; try again later", now);
  close();
}

}  // namespace moh
