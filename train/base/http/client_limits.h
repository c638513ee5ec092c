#pragma once

#include <cstddef>

namespace moh {

/// The resources that a client may take of a server.
struct ClientLimits {
  double request_seconds = 30;        ///< for a whole request to arrive, however slowly its bytes come
  double idle_seconds = 60;           ///< between two requests of a connection
  double write_seconds = 30;          ///< without reading anything of an answer
  std::size_t line_bytes = 8 << 10;   ///< of the request line
  std::size_t head_bytes = 64 << 10;  ///< of the request line and the headers
  std::size_t body_bytes = 16 << 20;
};

}  // namespace moh
