#pragma once

#include <cstdint>

namespace moh::cuda {

/// How many collectives the communication queue has begun and ended since the device was opened, those of
/// captured graphs included: what the host has enqueued says nothing of what a replay has reached.
struct CollectiveCounts {
  std::uint64_t begun = 0, ended = 0;
};

/// Enqueue that a collective begins or has ended, to the communication queue; can be captured.
void count_begin_of_collective();
void count_end_of_collective();
/// The counts that the device has written to the host's memory so far. Does not wait; from any thread.
CollectiveCounts collective_counts();

}  // namespace moh::cuda
