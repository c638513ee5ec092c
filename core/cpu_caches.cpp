#include "core/cpu_caches.h"

#include <unistd.h>

#include <algorithm>

namespace moh {

std::int64_t l2_cache_bytes() {
  // A virtual machine may report nothing, or the cache of a whole package.
  static constexpr std::int64_t kUnknown = 512 << 10, kLeast = 128 << 10, kMost = 4 << 20;
  static const std::int64_t bytes = [] {
#ifdef _SC_LEVEL2_CACHE_SIZE
    const std::int64_t reported = sysconf(_SC_LEVEL2_CACHE_SIZE);
    if (reported > 0) return std::clamp(reported, kLeast, kMost);
#endif
    return kUnknown;
  }();
  return bytes;
}

}  // namespace moh
