#pragma once

#include <cstddef>
#include <string>

namespace moh::sim {

/// The most dynamic shared memory of a block that a kernel of this name was launched with; 0: none.
std::size_t most_shared_bytes(const std::string& kernel);

}  // namespace moh::sim
