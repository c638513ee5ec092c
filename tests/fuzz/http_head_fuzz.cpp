#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "train/base/http/http_parser.h"

namespace {

using namespace moh;

struct Seen {
  std::string bodies;
  int requests = 0, refused = 0;
  bool operator==(const Seen&) const = default;
};

/// The requests and refusals that bytes come to, `step` of them at a time.
Seen read(std::string_view bytes, std::size_t step) {
  ClientLimits limits;
  limits.body_bytes = 2000;
  HttpParser parser(limits);
  Seen seen;
  for (std::size_t at = 0; at < bytes.size(); at += step) {
    parser.receive(bytes.substr(at, step));
    while (parser.complete()) {
      const HttpRequest request = parser.take();
      seen.bodies += request.method + request.path + request.body;
      ++seen.requests;
      parser.next();
    }
    if (parser.held_bytes() > limits.body_bytes + limits.head_bytes + bytes.size()) std::abort();
  }
  seen.refused = parser.refusal().status;
  return seen;
}

}  // namespace

/// The requests in some bytes do not depend on how they are cut.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const Seen whole = read(bytes, std::max<std::size_t>(size, 1));
  if (read(bytes, 1) != whole || read(bytes, 5) != whole) std::abort();
  return 0;
}
