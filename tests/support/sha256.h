#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace moh {

/// SHA-256 (FIPS 180-4) in 64 hexadecimal digits: what reference data names bytes by.
std::string sha256_hex(std::span<const std::byte> bytes);

}  // namespace moh
