// Beast 1.74 asserts that the final chunk has 5 bytes when it looks at it again; that of an empty body has 3.
// Without the assertion it waits for the rest, as it should.
#define BOOST_DISABLE_ASSERTS

#include "train/base/http/http_parser.h"

#include <algorithm>
#include <boost/beast/core/buffers_range.hpp>
#include <boost/beast/http/parser.hpp>
#include <cctype>
#include <optional>
#include <utility>

#include "train/base/http/request_target.h"

namespace moh {

namespace {

namespace http = boost::beast::http;
using boost::system::error_code;

/// Bytes of a request, its chunk headers and what they carry included, as a multiple of the body's limit.
constexpr std::size_t kFramedLimits = 4;

/// A body in a string that grows with what has arrived: Beast's own reserves what the client has declared.
struct GrowingBody {
  using value_type = std::string;
  struct reader {  // NOLINT(readability-identifier-naming): the name that Beast asks for
    template <bool isRequest, class Fields>
    reader(http::header<isRequest, Fields>& /*head*/, value_type& body) : body_(body) {}
    void init(const boost::optional<std::uint64_t>& /*length*/, error_code& ec) { ec = {}; }
    template <class Buffers>
    std::size_t put(const Buffers& buffers, error_code& ec) {
      ec = {};
      const std::size_t before = body_.size();
      for (const boost::asio::const_buffer part : boost::beast::buffers_range(buffers))
        body_.append(static_cast<const char*>(part.data()), part.size());
      return body_.size() - before;
    }
    void finish(error_code& ec) { ec = {}; }
    std::string& body_;
  };
};

using Parser = http::request_parser<GrowingBody>;
using Fields = Parser::value_type;

std::string_view view(boost::beast::string_view text) {
  return {text.data(), text.size()};
}

std::string_view value_of(const Fields& head, http::field name) {
  return view(head[name]);
}

bool is_number(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, [](unsigned char c) { return std::isdigit(c) != 0; });
}

/// A host name or address with an optional port.
bool is_host(std::string_view text) {
  return std::ranges::all_of(text, [](unsigned char c) {
    return std::isalnum(c) != 0 ||
           std::string_view("-._~:[]%!$&'()*+;=").find(static_cast<char>(c)) != std::string_view::npos;
  });
}

/// The fault of a request that Beast's parser lets pass, and that another reader may read in another way (RFC
/// 9112, 3.2, 6.1, 6.3).
HttpParser::Refusal fault_of(const Fields& head) {
  const bool is_1_0 = head.version() < 11;
  const auto hosts = head.count(http::field::host);
  if (hosts > 1 || (hosts == 0 && !is_1_0))
    return {400, "expected one Host header, found " + std::to_string(hosts)};
  if (!is_host(value_of(head, http::field::host))) return {400, "Host: expected a host and a port"};
  if (head.count(http::field::content_length) > 1)
    return {400, "expected one Content-Length header, found several"};
  if (head.find(http::field::content_length) != head.end() &&
      !is_number(value_of(head, http::field::content_length)))
    return {400, "Content-Length: expected digits"};
  if (head.find(http::field::transfer_encoding) != head.end()) {
    if (is_1_0) return {400, "HTTP/1.0 has no Transfer-Encoding"};
    if (!boost::beast::iequals(head[http::field::transfer_encoding], "chunked"))
      return {501, "Transfer-Encoding: expected chunked"};
  }
  if (const auto encoding = value_of(head, http::field::content_encoding); !encoding.empty())
    return {415, "compressed bodies are not read; send the body without Content-Encoding"};
  if (head.find(http::field::expect) != head.end() &&
      !boost::beast::iequals(head[http::field::expect], "100-continue"))
    return {417, "Expect: expected 100-continue"};
  if (!path_of_target(view(head.target())))
    return {400, "expected a path, or an address that begins with http://"};
  return {};
}

}  // namespace

struct HttpParser::State {
  explicit State(const ClientLimits& given) : limits(given) { begin(); }

  void begin() {
    parser.emplace();
    parser->eager(true);
    parser->header_limit(static_cast<std::uint32_t>(limits.head_bytes));
    parser->body_limit(limits.body_bytes);
    blank_skipped = head_ended = head_checked = continued = false;
    scanned = framed = 0;
  }

  /// Always false.
  bool refuse(int status, std::string why) {
    refusal = {status, std::move(why)};
    in = {};
    parser->get().body() = {};
    return false;
  }

  /// Looks for the end of the head line by line; whether it is there. Line feeds alone, and lines that go on
  /// (obs-fold), are refused: readers differ over them.
  bool find_end_of_head() {
    for (std::size_t end = 0; (end = in.find('\n', scanned)) != std::string::npos;) {
      const std::size_t begin = std::exchange(scanned, end + 1);
      if (begin == 0 && end > limits.line_bytes + 1) return refuse(414, "the address is too long");
      if (scanned > limits.head_bytes) break;
      if (end == begin || in[end - 1] != '\r')
        return refuse(400, "a line of the head does not end with CR LF");
      if (begin > 0 && (in[begin] == ' ' || in[begin] == '\t'))
        return refuse(400, "a line of the head begins with a space");
      if (begin > 0 && end == begin + 1) return head_ended = true;
    }
    if (scanned == 0 && in.size() > limits.line_bytes + 1) refuse(414, "the address is too long");
    if (refusal.status == 0 && in.size() > limits.head_bytes)
      refuse(431, "the request line and headers are too long");
    return false;
  }

  bool refuse(const error_code& ec) {
    if (ec == http::error::header_limit) return refuse(431, "the request line and headers are too long");
    if (ec == http::error::body_limit)
      return refuse(413, "the body is larger than " + std::to_string(limits.body_bytes) + " bytes");
    return refuse(400, "this is not an HTTP request that the server understands: " + ec.message());
  }

  /// False after a refusal.
  bool parse() {
    if (scanned == 0 && !head_ended && in.starts_with("\r\n") && !std::exchange(blank_skipped, true))
      in.erase(0, 2);  // after the last request's body
    while (refusal.status == 0 && !parser->is_done() && !in.empty()) {
      if (!head_ended && !find_end_of_head()) break;
      error_code ec;
      const std::size_t used = parser->put(boost::asio::buffer(in), ec);
      in.erase(0, used);
      framed += used;
      const bool waits = ec == http::error::need_more;
      if (ec && !waits) return refuse(ec);
      if (parser->is_header_done() && !std::exchange(head_checked, true)) {
        if (Refusal fault = fault_of(parser->get()); fault.status != 0)
          return refuse(fault.status, std::move(fault.why));
      }
      if (framed > limits.head_bytes + kFramedLimits * limits.body_bytes)
        return refuse(413, "the chunks of the body carry too much besides it");
      if (waits && in.size() > limits.head_bytes) return refuse(400, "the header of a chunk is too long");
      if (used == 0) break;
    }
    return refusal.status == 0;
  }

  const ClientLimits& limits;
  std::optional<Parser> parser;
  std::string in;  // bytes that the parser has not taken
  Refusal refusal;
  std::size_t scanned = 0, framed = 0;
  bool blank_skipped = false, head_ended = false, head_checked = false, continued = false;
};

HttpParser::HttpParser(const ClientLimits& limits) : state_(std::make_unique<State>(limits)) {}
HttpParser::~HttpParser() = default;

void HttpParser::receive(std::string_view bytes) {
  if (state_->refusal.status != 0) return;
  state_->in += bytes;
  state_->parse();
}

bool HttpParser::empty() const {
  return state_->in.empty() && !state_->head_ended && state_->refusal.status == 0;
}

bool HttpParser::complete() const {
  return state_->refusal.status == 0 && state_->head_checked && state_->parser->is_done();
}

const HttpParser::Refusal& HttpParser::refusal() const {
  return state_->refusal;
}

std::size_t HttpParser::held_bytes() const {
  return state_->in.size() + state_->parser->get().body().size();
}

bool HttpParser::awaits_continue() {
  if (!state_->head_checked || complete() || state_->refusal.status != 0) return false;
  const Fields& head = state_->parser->get();
  if (is_http_1_0() || head.find(http::field::expect) == head.end()) return false;
  return !std::exchange(state_->continued, true);
}

std::string HttpParser::method() const {
  return state_->head_checked ? std::string(state_->parser->get().method_string()) : std::string();
}

std::string HttpParser::path() const {
  if (!state_->head_checked) return {};
  return path_of_target(view(state_->parser->get().target())).value_or("");
}

bool HttpParser::is_http_1_0() const {
  return state_->head_checked && state_->parser->get().version() < 11;
}

bool HttpParser::keeps_alive() const {
  return state_->refusal.status == 0 && state_->head_checked && state_->parser->get().keep_alive();
}

HttpRequest HttpParser::take() {
  Fields& head = state_->parser->get();
  return {.method = method(),
          .path = path(),
          .query = query_of_target(view(head.target())),
          .host = std::string(value_of(head, http::field::host)),
          .content_type = std::string(value_of(head, http::field::content_type)),
          .authorization = std::string(value_of(head, http::field::authorization)),
          .body = std::exchange(head.body(), {})};
}

void HttpParser::next() {
  state_->begin();
  state_->parse();
}

}  // namespace moh
