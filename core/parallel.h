#pragma once

#include <cstdint>

#include "core/function_ref.h"

namespace moh {

/// Threads that parallel loops use. They are OpenMP's, the same that oneDNN uses, so nothing is
/// oversubscribed.
int num_threads();

/// More threads than any machine has processors; OpenMP ends the process where it cannot start one.
inline constexpr std::int64_t kMaxThreads = 4096;

/// Sets the number of threads; 0 means what OMP_NUM_THREADS asks for, or all processors that this process may run on.
/// Throws ValueError below 0 and, naming who asked, above kMaxThreads.
void set_num_threads(std::int64_t count);

/// Number of the calling thread inside a parallel loop, 0 ... num_threads() - 1; 0 outside.
int thread_index();

/// Calls body(begin, end) over chunks that cover [0, count). Chunks are `grain` long, the last may be
/// shorter, and do not depend on the number of threads: a reduction that keeps one partial result per chunk
/// gives the same bits with any number of threads. Each thread begins with a share of neighbouring chunks of
/// its own and then helps the others; chunks of a share are handed out in order. Inside another parallel
/// loop, or when there is but one chunk, the caller runs all of it. The first exception that a chunk throws
/// is rethrown once no chunk runs any more; chunks that had not begun may be left out.
/// In a dry run (core/dry_run.h) no chunk runs.
void parallel_for(std::int64_t count, std::int64_t grain, FunctionRef<void(std::int64_t, std::int64_t)> body);

/// Keeps libraries that bring parallel loops of their own (oneDNN) to one thread inside the bodies of
/// parallel_for, also where parallel_for itself runs a body on the calling thread. Moh's own loops are not
/// affected.
class SerialScope {
 public:
  SerialScope();
  ~SerialScope();
  SerialScope(const SerialScope&) = delete;
  SerialScope& operator=(const SerialScope&) = delete;

 private:
  bool previous_;
};

/// Number of chunks of parallel_for(count, grain, ...).
inline std::int64_t num_chunks(std::int64_t count, std::int64_t grain) {
  return (count + grain - 1) / grain;
}

}  // namespace moh
