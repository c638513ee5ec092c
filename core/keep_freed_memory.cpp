#include "core/keep_freed_memory.h"

#include <cstdlib>
#ifdef __GLIBC__
#include <malloc.h>

#include <limits>
#endif

namespace moh {

void keep_freed_memory() {
#ifdef __GLIBC__
  constexpr int kLargestMmapThreshold = 32 << 20;  // glibc refuses more
  mallopt(M_MMAP_THRESHOLD, kLargestMmapThreshold);
  mallopt(M_TRIM_THRESHOLD, std::numeric_limits<int>::max());
#endif
}

}  // namespace moh
