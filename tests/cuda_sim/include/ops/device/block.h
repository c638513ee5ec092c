#pragma once

#include "ops/device/kernel.h"

namespace moh::device {

inline void sync_block(const std::source_location& where = std::source_location::current()) {
  sim::Block& block = *sim::this_thread().block;
  block.meet_at_barrier("sync_block", 0, static_cast<unsigned>(block.threads().size()), where);
}

inline void sync_threads(int id, int threads,
                         const std::source_location& where = std::source_location::current()) {
  if (id < 1 || id > 15 || threads % kWarp != 0)
    sim::fault("barriers 1 to 15 take whole warps, not barrier " + std::to_string(id) + " for " +
                   std::to_string(threads) + " threads",
               where);
  sim::this_thread().block->meet_at_barrier("sync_threads", id, static_cast<unsigned>(threads), where);
}

}  // namespace moh::device
