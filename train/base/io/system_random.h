#pragma once

#include <cstdint>

namespace moh {

/// 64 random bits of the operating system, others in each call: for names and seeds that nothing has to
/// repeat.
std::uint64_t system_random();

}  // namespace moh
