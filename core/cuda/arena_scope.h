#pragma once

#include <memory>

#include "core/cuda/arena.h"

// For files that are compiled with the CUDA toolkit only.

namespace moh::cuda {

using SharedArena = std::shared_ptr<Arena>;
SharedArena make_arena();
/// The arena goes once the last of its blocks has come back.
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
