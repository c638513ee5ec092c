#include "core/parallel.h"

#include <omp.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <string>

#include "core/dry_run.h"
#include "core/error.h"
#include "core/loop_rehearsal.h"
#include "core/loop_shares.h"

namespace moh {

int num_threads() {
  if (const LoopRehearsal* rehearsal = LoopRehearsal::current()) return rehearsal->threads();
  return omp_get_max_threads();
}

void set_num_threads(std::int64_t count) {
  // The value of OMP_NUM_THREADS, else all processors; read before this function first changes it.
  static const int default_threads = omp_get_max_threads();
  const std::int64_t wanted = count == 0 ? default_threads : count;
  if (wanted < 0 || wanted > kMaxThreads) {
    throw ValueError(error_message(count == 0 ? "OMP_NUM_THREADS" : "threads", "",
                                   "0 (all processors) to " + std::to_string(kMaxThreads),
                                   std::to_string(wanted)));
  }
  omp_set_num_threads(static_cast<int>(wanted));
}

int thread_index() {
  return omp_get_thread_num();
}

void parallel_for(std::int64_t count, std::int64_t grain,
                  FunctionRef<void(std::int64_t, std::int64_t)> body) {
  MOH_CHECK(grain > 0, "parallel_for: grain must be positive");
  if (dry_run()) return;
  const std::int64_t chunks = num_chunks(count, grain);
  const auto run = [&](std::int64_t chunk) { body(chunk * grain, std::min(count, (chunk + 1) * grain)); };
  LoopRehearsal* const rehearsal = LoopRehearsal::current();
  const bool inside = rehearsal != nullptr ? rehearsal->inside_loop() : omp_in_parallel() != 0;
  if (chunks <= 1 || num_threads() == 1 || inside) {
    for (std::int64_t chunk = 0; chunk < chunks; ++chunk) run(chunk);
    return;
  }
  if (rehearsal != nullptr) return rehearsal->run(chunks, run);
  std::exception_ptr error;  // an exception must not leave an OpenMP region
  std::atomic_flag failed = ATOMIC_FLAG_INIT;
  LoopShares shares(chunks, num_threads());
#pragma omp parallel
  {
    try {
      LoopShares::Walk walk{thread_index()};
      for (std::int64_t chunk = shares.next(walk); chunk >= 0; chunk = shares.next(walk)) run(chunk);
    } catch (...) {
      if (!failed.test_and_set()) error = std::current_exception();
    }
  }
  if (error) std::rethrow_exception(error);
}

}  // namespace moh
