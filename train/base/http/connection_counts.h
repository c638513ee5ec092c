#pragma once

#include <atomic>
#include <cstdint>

namespace moh {

/// Connections that are open, and how many were refused as there were too many.
struct ConnectionCounts {
  std::atomic<std::int64_t> open = 0, refused = 0;
};

}  // namespace moh
