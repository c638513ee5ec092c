#pragma once

#include <cstdint>

namespace moh {

/// The library that carries collectives between GPUs.
enum class CommBackend : std::uint8_t {
  kAuto,  ///< NCCL
  kNccl,
  kHost  ///< through host memory, by what carries those of the Communicator
};

}  // namespace moh
