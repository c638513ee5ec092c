#pragma once

#include <memory>

#include "core/cuda/arena.h"

// For files that are compiled with the CUDA toolkit only.

namespace moh::cuda {

using SharedArena = std::shared_ptr<Arena>;
SharedArena make_arena();
/// Drops the owner's handle: segments without allocated blocks are freed at once, the others later, with the
/// last of their blocks.
void disown(SharedArena& arena);

/// Arena::mark() and Arena::return_to(), while other threads may allocate and release.
Arena::Mark mark_of(const SharedArena& arena);
bool return_to(const SharedArena& arena, const Arena::Mark& mark);

/// Gives back what the pool keeps for reuse, if it was used since the last call, so that an evaluation's is
/// not kept beside an arena. Does not wait for the device.
void trim_pool();

/// cuda::allocate() takes memory from the arena for the lifetime of the scope. Graph capture requires one.
class ArenaScope {
 public:
  explicit ArenaScope(const SharedArena& arena);
  ~ArenaScope();
  ArenaScope(const ArenaScope&) = delete;
  ArenaScope& operator=(const ArenaScope&) = delete;
};

}  // namespace moh::cuda
