#include "train/serve/http_server.h"

#include <httplib.h>
#include <sys/socket.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>

#include "core/error.h"
#include "train/log/logging.h"
#include "train/serve/request_error.h"

namespace moh {

namespace {

/// Threads that answer connections beyond the limit with their refusal.
constexpr int kSpareThreads = 4;
constexpr int kBacklog = 1024;
constexpr auto kRetryAfterSeconds = "1";

/// The connection whose request the calling thread answers, and the path of the request.
thread_local ClientSocket* current = nullptr;
thread_local std::string current_path;

/// The path that httplib sees of every request: it looks for handlers by regular expressions, which take
/// stack for each byte of a path.
constexpr auto kAnyPath = "/";

/// httplib's view of a request.
class SocketStream final : public httplib::Stream {
 public:
  SocketStream(ClientSocket& socket, std::string head) : socket_(socket), head_(std::move(head)) {}

  bool is_readable() const override { return !socket_.gone(); }
  bool is_writable() const override { return !socket_.gone(); }
  ssize_t read(char* to, std::size_t size) override {
    if (next_ == head_.size()) return socket_.read(to, size);
    const std::size_t count = head_.copy(to, size, next_);
    next_ += count;
    return static_cast<ssize_t>(count);
  }
  ssize_t write(const char* from, std::size_t size) override { return socket_.write(from, size); }
  void get_remote_ip_and_port(std::string&, int&) const override {}
  void get_local_ip_and_port(std::string&, int&) const override {}
  socket_t socket() const override { return socket_.fd(); }

 private:
  ClientSocket& socket_;
  const std::string head_;
  std::size_t next_ = 0;
};

/// The head without lines of a header (its name in lower case, with the colon).
std::string without_header(const std::string& head, std::string_view name) {
  std::string kept;
  for (std::size_t begin = 0; begin < head.size();) {
    const std::size_t end = std::min(head.find('\n', begin), head.size() - 1) + 1;
    const std::string_view line = std::string_view(head).substr(begin, end - begin);
    const bool named = std::ranges::equal(line.substr(0, name.size()), name, {},
                                          [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    if (!named) kept += line;
    begin = end;
  }
  return kept;
}

/// What to say of a request that httplib refuses.
std::string reason_of(int status) {
  switch (status) {
    case 400:
      return "this is not an HTTP request that the server understands";
    case 404:
      return "there is nothing at this path";
    case 413:
      return "the body is larger than the server's limit";
    case 414:
      return "the address is too long";
    case 416:
      return "ranges are not served";
    default:
      return "the server failed";
  }
}

void write_reply(httplib::Response& response, const HttpReply& reply) {
  response.status = reply.status;
  for (const auto& [name, value] : reply.headers) response.set_header(name, value);
  if (reply.status == 503) response.set_header("Retry-After", kRetryAfterSeconds);
  if (!reply.more) {
    response.set_content(reply.body, reply.content_type);
    if (reply.written) reply.written(true);
    return;
  }
  response.set_chunked_content_provider(
      reply.content_type,
      [more = reply.more](std::size_t, httplib::DataSink& sink) {
        std::string piece;
        const bool goes_on = more(piece);
        if (!piece.empty() && !sink.write(piece.data(), piece.size())) return false;
        if (!goes_on) sink.done();
        return true;
      },
      [written = reply.written](bool success) {
        if (written) written(success);
      });
}

std::string phrase_of(int status) {
  return status == 408   ? "Request Timeout"
         : status == 431 ? "Request Header Fields Too Large"
                         : "Service Unavailable";
}

/// An answer outside of httplib, before or beside one of its requests.
void write_raw(ClientSocket& socket, const HttpReply& reply) {
  const std::string retry =
      reply.status == 503 ? "Retry-After: " + std::string(kRetryAfterSeconds) + "\r\n" : "";
  socket.write("HTTP/1.1 " + std::to_string(reply.status) + " " + phrase_of(reply.status) +
               "\r\nContent-Type: application/json\r\n" + retry + "Connection: close\r\nContent-Length: " +
               std::to_string(reply.body.size()) + "\r\n\r\n" + reply.body);
  socket.close_after_answer();
}

}  // namespace

HttpReply error_reply(int status, const std::string& message, const std::string& param) {
  using Json = nlohmann::ordered_json;
  const Json body = {{"error",
                      {{"message", message},
                       {"type", status < 500 ? "invalid_request_error" : "server_error"},
                       {"param", param.empty() ? Json(nullptr) : Json(param)},
                       {"code", nullptr}}}};
  return {.status = status, .body = body.dump(-1, ' ', false, Json::error_handler_t::replace)};
}

struct HttpServer::Implementation final : httplib::Server {
  Implementation(const HttpOptions& given, HttpServer::Handler handles, ServerMetrics& counts)
      : options(given), handler(std::move(handles)), metrics(counts) {
    new_task_queue = [threads = options.max_connections + kSpareThreads] {
      return new httplib::ThreadPool(static_cast<std::size_t>(threads));
    };
    // httplib's own would let a second server share the port.
    set_socket_options([](socket_t socket) {
      const int yes = 1;
      ::setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    });
    set_tcp_nodelay(true);
    // What answers say of connections that are kept; there is no largest number of requests.
    set_keep_alive_timeout(static_cast<time_t>(options.limits.idle_seconds));
    set_keep_alive_max_count(1000000);
    set_payload_max_length(options.limits.body_bytes);
    set_error_handler(httplib::Server::Handler(
        [this](const httplib::Request&, httplib::Response& response) { explain(response); }));
    set_exception_handler([](const httplib::Request&, httplib::Response& response,
                             const std::exception_ptr&) { response.status = 500; });
    set_post_routing_handler([this](const httplib::Request&, httplib::Response& response) {
      if (stopping) current->close_after_answer();
      if (current->closes()) response.set_header("Connection", "close");
    });
    add_routes();
  }

  /// Every path and method comes to answer().
  void add_routes() {
    const auto plain = [this](const httplib::Request& request, httplib::Response& response) {
      answer(request, response, {});
    };
    const auto with_body = [this](const httplib::Request& request, httplib::Response& response,
                                  const httplib::ContentReader& reader) {
      if (std::optional<std::string> body = read_body(request, response, reader))
        answer(request, response, std::move(*body));
    };
    Get(kAnyPath, plain);
    Options(kAnyPath, plain);
    Post(kAnyPath, with_body);
    Put(kAnyPath, with_body);
    Patch(kAnyPath, with_body);
    Delete(kAnyPath, with_body);
  }

  /// Words for a refusal of httplib's.
  void explain(httplib::Response& response) const {
    if (!response.body.empty()) return;
    current->close_after_answer();  // where the next request begins is not known
    metrics.refused(response.status);
    write_reply(response, error_reply(response.status, reason_of(response.status)));
  }

  /// Nothing if the response says why.
  std::optional<std::string> read_body(const httplib::Request& request, httplib::Response& response,
                                       const httplib::ContentReader& reader) const {
    const auto refuse = [&](int status, const std::string& why) {
      metrics.refused(status);
      current->close_after_answer();  // the rest of the body may still come
      write_reply(response, error_reply(status, why));
      return std::nullopt;
    };
    if (request.has_header("Content-Encoding"))
      return refuse(415, "compressed bodies are not read; send the body without Content-Encoding");
    if (request.is_multipart_form_data()) return refuse(415, "expected a body of type application/json");
    std::string body;
    bool too_long = false;
    const std::size_t limit = options.limits.body_bytes;
    const bool complete = reader([&](const char* data, std::size_t size) {
      too_long = body.size() + size > limit;
      if (!too_long) body.append(data, size);
      return !too_long;
    });
    if (complete) return body;
    if (too_long || response.status == 413 || current->fault() == ClientSocket::Fault::kBodyTooLong)
      return refuse(413, "the body is larger than " + std::to_string(limit) + " bytes");
    if (current->fault() == ClientSocket::Fault::kTooSlow)
      return refuse(408, "the request did not arrive in time");
    return refuse(400, "the body could not be read");
  }

  void answer(const httplib::Request& request, httplib::Response& response, std::string body) const {
    const HttpRequest http{request.method, current_path, request.get_header_value("Content-Type"),
                           std::move(body), [socket = current] { return socket->gone(); }};
    try {
      write_reply(response, handler(http));
    } catch (const RequestError& error) {
      write_reply(response, error_reply(error.status(), error.what(), error.param()));
    } catch (const std::exception& error) {
      log_error(std::string("serve: ") + error.what());
      write_reply(response, error_reply(500, error.what()));
    }
  }

  /// Serves one connection. Overrides what httplib does, which has no deadline for a whole request.
  bool process_and_close_socket(socket_t fd) override {
    ClientSocket socket(fd, options.limits, stopping);
    const std::int64_t number = ++metrics.connections;
    if (stopping) {
      refuse(socket, 503, "the server is stopping; try again later");
    } else if (number > options.max_connections) {
      ++metrics.refused_connections;
      refuse(socket, 503, "there are too many connections; try again later");
    } else {
      while (!socket.closes() && socket.await_request()) serve_request(socket);
    }
    --metrics.connections;
    return true;
  }

  void serve_request(ClientSocket& socket) {
    const std::string head = socket.read_head();
    if (socket.fault() == ClientSocket::Fault::kTooSlow)
      refuse(socket, 408, "the request did not arrive in time");
    if (socket.fault() == ClientSocket::Fault::kHeadTooLong)
      refuse(socket, 431, "the request line and headers are too long");
    if (socket.fault() != ClientSocket::Fault::kNone) return socket.close_after_answer();
    // Answers have no ranges, and httplib reads a long list of them with a regular expression that takes
    // megabytes of stack.
    SocketStream stream(socket, without_header(head, "range:"));
    current = &socket;
    bool closes = false;
    const bool served = process_request(stream, /*close_connection=*/false, closes,
                                        [&](httplib::Request& request) { begin_body(socket, request); });
    current = nullptr;
    if (!served || closes || socket.fault() != ClientSocket::Fault::kNone) socket.close_after_answer();
  }

  /// Called when the headers are complete.
  static void begin_body(ClientSocket& socket, httplib::Request& request) {
    current_path = std::exchange(request.path, kAnyPath);
    request.headers.erase("Accept-Encoding");  // to compress takes longer than to send
    const bool has_body =
        request.has_header("Transfer-Encoding") ||
        request.get_header_value("Content-Length").find_first_not_of('0') != std::string::npos;
    const bool reads = request.method == "POST" || request.method == "PUT" || request.method == "PATCH" ||
                       request.method == "DELETE";
    if (has_body && !reads) socket.close_after_answer();  // it would be taken for the next request
  }

  void refuse(ClientSocket& socket, int status, const std::string& why) const {
    metrics.refused(status);
    write_raw(socket, error_reply(status, why));
  }

  /// httplib listens for five connections; a system call more makes it a thousand.
  void lengthen_backlog() { ::listen(svr_sock_, kBacklog); }

  const HttpOptions options;
  const HttpServer::Handler handler;
  ServerMetrics& metrics;
  std::atomic<bool> stopping = false;
  int bound_port = 0;
};

HttpServer::HttpServer(const HttpOptions& options, Handler handler, ServerMetrics& metrics)
    : implementation_(std::make_unique<Implementation>(options, std::move(handler), metrics)) {
  errno = 0;
  if (options.port == 0) {
    implementation_->bound_port = implementation_->bind_to_any_port(options.host);
  } else if (implementation_->bind_to_port(options.host, options.port)) {
    implementation_->bound_port = options.port;
  }
  if (implementation_->bound_port <= 0) {
    const std::string reason = errno != 0 ? std::strerror(errno) : "no such address";
    throw ConfigError(error_message("serve", "--host and --port",
                                    "an address of this machine, and a free port",
                                    options.host + ":" + std::to_string(options.port) + " (" + reason + ")"));
  }
  implementation_->lengthen_backlog();
}

HttpServer::~HttpServer() = default;

int HttpServer::port() const {
  return implementation_->bound_port;
}

void HttpServer::run() {
  implementation_->listen_after_bind();
}

void HttpServer::drain() {
  implementation_->stopping = true;
}

void HttpServer::stop() {
  drain();
  implementation_->stop();
}

}  // namespace moh
