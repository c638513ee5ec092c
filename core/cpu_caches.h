#pragma once

#include <cstdint>

namespace moh {

/// Bytes of the second-level data cache of a core, as the processor says; 512 KiB where it does not. Read
/// once. It decides how much a matrix multiplication works on at a time, never the order of a sum.
std::int64_t l2_cache_bytes();

}  // namespace moh
