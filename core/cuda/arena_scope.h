#pragma once

#include <memory>

#include "core/cuda/arena.h"

// For files that are compiled with the CUDA toolkit only.

namespace moh::cuda {

using SharedArena = std::shared_ptr<Arena>;
SharedArena make_arena();
/// What no block of the arena lies in goes back to the device, now and as blocks come back.
void disown(SharedArena& arena);

/// allocate() takes from the arena for the lifetime of the scope. A capture lies inside of one.
class ArenaScope {
 public:
  explicit ArenaScope(const SharedArena& arena);
  ~ArenaScope();
  ArenaScope(const ArenaScope&) = delete;
  ArenaScope& operator=(const ArenaScope&) = delete;
};

}  // namespace moh::cuda
