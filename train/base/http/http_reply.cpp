#include "train/base/http/http_reply.h"

#include <boost/beast/http/status.hpp>
#include <new>
#include <nlohmann/json.hpp>

#include "train/base/http/request_error.h"
#include "train/base/log/logging.h"

namespace moh {

namespace {

constexpr auto kRetryAfterSeconds = "1";

std::string phrase_of(int status) {
  return std::string(
      boost::beast::http::obsolete_reason(boost::beast::http::int_to_status(static_cast<unsigned>(status))));
}

std::string line(const std::string& name, const std::string& value) {
  return name + ": " + value + "\r\n";
}

}  // namespace

HttpReply error_reply(int status, const std::string& message, const std::string& param,
                      const std::string& code) {
  using Json = nlohmann::ordered_json;
  const auto or_null = [](const std::string& text) { return text.empty() ? Json(nullptr) : Json(text); };
  const Json body = {{"error",
                      {{"message", message},
                       {"type", status < 500 ? "invalid_request_error" : "server_error"},
                       {"param", or_null(param)},
                       {"code", or_null(code)}}}};
  return {.status = status, .body = body.dump(-1, ' ', false, Json::error_handler_t::replace)};
}

HttpReply current_exception_reply() noexcept {
  try {
    try {
      throw;
    } catch (const RequestError& error) {
      return error_reply(error.status(), error.what(), error.param());
    } catch (const std::bad_alloc&) {
      log_error("HTTP: a request needed more memory than there is");
      return error_reply(503, "the server has too little memory for this request; try again later");
    } catch (const std::exception& error) {
      log_error(std::string("HTTP: ") + error.what());
      return error_reply(500, error.what());
    }
  } catch (...) {
    return {.status = 500};  // there is no memory for words
  }
}

std::string reply_head(const HttpReply& reply, Framing framing, bool closes) {
  std::string head = "HTTP/1.1 " + std::to_string(reply.status) + " " + phrase_of(reply.status) + "\r\n" +
                     line("Content-Type", reply.content_type);
  for (const auto& [name, value] : reply.headers) head += line(name, value);
  if (reply.status == 503) head += line("Retry-After", kRetryAfterSeconds);
  if (framing == Framing::kLength) head += line("Content-Length", std::to_string(reply.body.size()));
  if (framing == Framing::kChunks) head += line("Transfer-Encoding", "chunked");
  return head + line("Connection", closes ? "close" : "keep-alive") + "\r\n";
}

std::string framed(std::string piece, Framing framing) {
  if (piece.empty() || framing != Framing::kChunks) return piece;
  char size[32];
  std::snprintf(size, sizeof size, "%zx\r\n", piece.size());
  return size + std::move(piece) + "\r\n";
}

std::string end_of_body(Framing framing) {
  return framing == Framing::kChunks ? "0\r\n\r\n" : "";
}

}  // namespace moh
