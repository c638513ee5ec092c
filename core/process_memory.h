#pragma once

#include <cstdint>

namespace moh {

/// The most main memory that this process has had at once (peak resident set size), in bytes: tensors,
/// libraries and all else. That of the program that started it is not in it, as in getrusage().
std::int64_t peak_process_memory();

}  // namespace moh
