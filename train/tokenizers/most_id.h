#pragma once

#include <cstddef>
#include <cstdint>

namespace moh {

/// The largest id in a file with so many tokens. Ids are places in arrays, which a small file must not make
/// large; the gaps of vocabularies in use are small.
constexpr std::int64_t most_id(std::size_t tokens) {
  return 4 * static_cast<std::int64_t>(tokens) + (std::int64_t{1} << 16);
}

}  // namespace moh
