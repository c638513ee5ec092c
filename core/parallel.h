#pragma once

#include <cstdint>

#include "core/function_ref.h"

namespace moh {

/// Number of threads of parallel loops (core/thread_team.h), the one that comes to the loop among them.
int num_threads();

/// Upper bound for the number of threads, beyond any machine.
inline constexpr std::int64_t kMaxThreads = 4096;

/// Sets the number of threads; 0: the value of OMP_NUM_THREADS, else all processors that this process may
/// use. Throws ValueError below 0 and above kMaxThreads; the message names OMP_NUM_THREADS where the number
/// is its.
void set_num_threads(std::int64_t count);

/// Number of the calling thread inside a parallel loop, 0 ... num_threads() - 1; 0 outside.
int thread_index();

/// Calls body(begin, end) over chunks that cover [0, count). Chunks are `grain` long, the last may be
/// shorter, and do not depend on the number of threads: a reduction that keeps one partial result per chunk
/// gives the same bits with any number of threads. Each thread begins with its own share of consecutive
/// chunks, in order, and then steals from the shares of others. Inside another parallel loop, or when there
/// is only one chunk, the calling thread runs all chunks. The first exception of a chunk is rethrown once no
/// chunk is running; chunks that had not begun may be skipped. In a dry run (core/dry_run.h) no chunk runs.
void parallel_for(std::int64_t count, std::int64_t grain, FunctionRef<void(std::int64_t, std::int64_t)> body);

/// Number of chunks of parallel_for(count, grain, ...).
inline std::int64_t num_chunks(std::int64_t count, std::int64_t grain) {
  return (count + grain - 1) / grain;
}

}  // namespace moh
