#include "train/base/http/http_parser.h"

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "train/base/http/request_target.h"

using namespace moh;

namespace {

const std::string small_body = R"({"prompt":"a","max_tokens":1})";  // 29 bytes
const std::string post = "POST /v1/completions HTTP/1.1\r\nHost: a\r\n";
const std::string chunked = post + "Transfer-Encoding: chunked\r\n\r\n";

ClientLimits small_limits() {
  ClientLimits limits;
  limits.body_bytes = 1000;
  return limits;
}

/// The status of a request that arrives in pieces of `step` bytes: 200 if it is complete, 0 if more is waited
/// for.
int status_of(const std::string& bytes, std::size_t step) {
  static const ClientLimits limits = small_limits();
  HttpParser parser(limits);
  for (std::size_t i = 0; i < bytes.size(); i += step) parser.receive(bytes.substr(i, step));
  if (parser.refusal().status != 0) return parser.refusal().status;
  return parser.complete() ? 200 : 0;
}

struct Case {
  const char* what;
  std::string bytes;
  int status;
};

void check_all(const std::vector<Case>& cases) {
  for (const Case& each : cases) {
    INFO(each.what);
    for (const std::size_t step : {std::size_t{1}, std::size_t{7}, each.bytes.size()})
      CHECK(status_of(each.bytes, step) == each.status);
  }
}

std::string with(const std::string& header, const std::string& body = small_body) {
  return post + header + "\r\n\r\n" + body;
}

std::string chunk(const std::string& size) {
  return chunked + size + "\r\n" + small_body + "\r\n0\r\n\r\n";
}

}  // namespace

TEST_CASE("http: a length that another reader could take otherwise is refused") {
  check_all(
      {{"a number", with("Content-Length: 29"), 200},
       {"spaces around it", with("Content-Length:   29  "), 200},
       {"leading zeros", with("Content-Length: 0029"), 200},
       {"a plus", with("Content-Length: +29"), 400},
       {"a minus", with("Content-Length: -29"), 400},
       {"a letter", with("Content-Length: 29a"), 400},
       {"a fraction", with("Content-Length: 29.0"), 400},
       {"two numbers", with("Content-Length: 29 29"), 400},
       {"a list", with("Content-Length: 29, 29"), 400},
       {"hexadecimal", with("Content-Length: 0x1d"), 400},
       {"none", with("Content-Length:"), 400},
       {"beyond 64 bits", with("Content-Length: 18446744073709551645"), 400},
       {"twice", with("Content-Length: 29\r\nContent-Length: 29"), 400},
       {"two different ones", with("Content-Length: 29\r\nContent-Length: 5"), 400},
       {"a length beside chunks", with("Content-Length: 5\r\nTransfer-Encoding: chunked", "0\r\n\r\n"), 400},
       {"chunks beside a length", with("Transfer-Encoding: chunked\r\nContent-Length: 5", "0\r\n\r\n"), 400},
       {"above the limit", with("Content-Length: 1001", ""), 413},
       {"far above it", with("Content-Length: 999999999999", ""), 413}});
}

TEST_CASE("http: a transfer encoding is chunked, and chunks have hexadecimal sizes") {
  check_all({{"chunks", chunk("1d"), 200},
             {"capitals", chunk("1D"), 200},
             {"zeros", chunk("0001d"), 200},
             {"an extension", chunk("1d;a=b"), 200},
             {"another case", with("transfer-encoding: Chunked", "0\r\n\r\n"), 200},
             {"0x", chunk("0x1d"), 400},
             {"a plus", chunk("+1d"), 400},
             {"a minus", chunk("-1"), 400},
             {"a space before", chunk(" 1d"), 400},
             {"beyond 64 bits", chunk("1000000000000001d"), 400},
             {"no size", chunk(""), 400},
             {"a line feed alone", chunked + "1d\n" + small_body + "\r\n0\r\n\r\n", 400},
             {"a size that is too small", chunked + "5\r\n" + small_body + "\r\n0\r\n\r\n", 400},
             {"above the limit", chunked + "fffffff\r\n", 413},
             {"a long extension", chunked + "1d;" + std::string(70000, 'a'), 400},
             {"gzip", with("Transfer-Encoding: gzip", ""), 501},
             {"gzip, chunked", with("Transfer-Encoding: gzip, chunked", ""), 501},
             {"chunked twice", with("Transfer-Encoding: chunked, chunked", ""), 501},
             {"identity", with("Transfer-Encoding: identity", ""), 501},
             {"xchunked", with("Transfer-Encoding: xchunked", ""), 501},
             {"two headers", with("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked", ""), 400},
             {"a NUL", post + std::string("Transfer-Encoding: chunked\0\r\n\r\n", 31), 400},
             {"a vertical tab", with("Transfer-Encoding: \vchunked", ""), 400},
             {"HTTP/1.0", "POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400}});
}

TEST_CASE("http: a head is read by the letter") {
  const auto get = [](const std::string& rest) { return "GET / HTTP/1.1\r\n" + rest + "\r\n\r\n"; };
  check_all({{"a host", get("Host: a"), 200},
             {"an empty line before", "\r\n" + get("Host: [::1]:80"), 200},
             {"two empty lines before", "\r\n\r\n" + get("Host: a"), 400},
             {"no host", get("Accept: */*"), 400},
             {"two hosts", get("Host: a\r\nHost: b"), 400},
             {"the same host twice", get("Host: a\r\nhost: a"), 400},
             {"a host that is none", get("Host: a, b"), 400},
             {"HTTP/1.0 without a host", "GET / HTTP/1.0\r\n\r\n", 200},
             {"HTTP/1.0 with two", "GET / HTTP/1.0\r\nHost: a\r\nHost: b\r\n\r\n", 400},
             {"a space before the colon", get("Host: a\r\nContent-Length : 0"), 400},
             {"a tab before the colon", get("Host: a\r\nContent-Length\t: 0"), 400},
             {"a space before the name", get("Host: a\r\n Content-Length: 0"), 400},
             {"a line that goes on", get("Host: a\r\nX: a\r\n\tb"), 400},
             {"no colon", get("Host: a\r\nX"), 400},
             {"no name", get("Host: a\r\n: x"), 400},
             {"a name that is no token", get("Host: a\r\nX(y): x"), 400},
             {"a NUL", get(std::string("Host: a\r\nX: a\0b", 15)), 400},
             {"a control character", get("Host: a\r\nX: a\x01"), 400},
             {"DEL", get("Host: a\r\nX: a\x7f"), 400},
             {"a carriage return alone", get("Host: a\r\nX: a\rb"), 400},
             {"a line feed alone", "GET / HTTP/1.1\nHost: a\n\n", 400},
             {"a line feed within", get("Host: a\r\nX: a\nY: b"), 400},
             {"two spaces", "GET  / HTTP/1.1\r\nHost: a\r\n\r\n", 400},
             {"HTTP/2.0", "GET / HTTP/2.0\r\nHost: a\r\n\r\n", 400},
             {"no version", "GET /\r\n\r\n", 400},
             {"a target that is none", "GET v1 HTTP/1.1\r\nHost: a\r\n\r\n", 400},
             {"nonsense", "nonsense\r\n\r\n", 400},
             {"a long target", "GET /" + std::string(9000, 'a'), 414},
             {"a long head", get("Host: a\r\nX: " + std::string(70000, 'a')), 431},
             {"compressed", with("Content-Encoding: gzip\r\nContent-Length: 29"), 415},
             {"what is expected", with("Expect: more\r\nContent-Length: 29"), 417}});
}

TEST_CASE("http: nothing behind a refused request is read") {
  const ClientLimits limits;
  HttpParser parser(limits);
  const std::string second = "GET /second HTTP/1.1\r\nHost: a\r\n\r\n";
  parser.receive(with("Content-Length: 5\r\nTransfer-Encoding: chunked", "0\r\n\r\n") + second);
  CHECK(parser.refusal().status == 400);
  parser.receive(second);
  CHECK_FALSE(parser.complete());
  CHECK_FALSE(parser.keeps_alive());
}

TEST_CASE("http: requests follow each other") {
  const ClientLimits limits;
  HttpParser parser(limits);
  CHECK(parser.empty());
  parser.receive(with("Content-Type: application/json\r\nContent-Length: 29") +
                 "GET /x?y=1 HTTP/1.0\r\n\r\n");
  REQUIRE(parser.complete());
  CHECK(parser.keeps_alive());
  const HttpRequest first = parser.take();
  CHECK(first.method == "POST");
  CHECK(first.path == "/v1/completions");
  CHECK(first.content_type == "application/json");
  CHECK(first.body == small_body);
  parser.next();
  REQUIRE(parser.complete());
  CHECK((parser.is_http_1_0() && !parser.keeps_alive()));
  CHECK(parser.take().path == "/x");
  parser.next();
  CHECK(parser.empty());
}

TEST_CASE("http: a client that waits before it sends a body is told once to go on") {
  const ClientLimits limits;
  HttpParser parser(limits);
  parser.receive(with("Expect: 100-continue\r\nContent-Length: 29", ""));
  CHECK(parser.awaits_continue());
  CHECK_FALSE(parser.awaits_continue());
  parser.receive(small_body);
  CHECK(parser.complete());
}

TEST_CASE("http: targets of requests") {
  CHECK(path_of_target("/v1/models/a%20b?x=%41") == "/v1/models/a b");
  CHECK(path_of_target("http://host:80/v1/models") == "/v1/models");
  CHECK(path_of_target("HTTPS://host?x") == "/");
  CHECK(path_of_target("/a%zz%4") == "/a%zz%4");
  CHECK(path_of_target("*") == "*");
  CHECK(query_of_target("/v1?a=1&b=%20?#end") == "a=1&b=%20?");
  CHECK(query_of_target("/v1#a?b").empty());
  CHECK(query_value("runs=1%2C2&name=a+b&runs=3", "runs") == "1,2");
  CHECK(query_value("runs=1%2C2&name=a+b", "name") == "a b");
  CHECK(query_value("name=", "name") == "");
  CHECK_FALSE(query_value("names=a&x", "name"));
  CHECK_FALSE(path_of_target("http:///v1"));
  CHECK_FALSE(path_of_target("host:80"));
  CHECK_FALSE(path_of_target(""));
}
