#include "core/parallel.h"

#include <omp.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <exception>
#include <string>

#include "core/dry_run.h"
#include "core/error.h"

namespace moh {

namespace {

/// Work stealing over chunks. Each thread begins with its own share, the same in every loop of equally many
/// chunks, so that what it wrote in one loop is in its caches in the next. Then it steals from the others.
class Shares {
 public:
  Shares(std::int64_t chunks, int threads) : count_(std::min<int>(threads, kMost)) {
    for (int i = 0; i < count_; ++i) {
      shares_[static_cast<std::size_t>(i)].next = chunks * i / count_;
      shares_[static_cast<std::size_t>(i)].end = chunks * (i + 1) / count_;
    }
  }
  /// Calls run(chunk) for chunks that no other thread has taken, until there are none.
  template <class Run>
  void take(int thread, const Run& run) {
    for (int i = 0; i < count_; ++i) {
      Share& share = shares_[static_cast<std::size_t>((thread + i) % count_)];
      while (share.next.load(std::memory_order_relaxed) < share.end) {
        const std::int64_t chunk = share.next.fetch_add(1, std::memory_order_relaxed);
        if (chunk < share.end) run(chunk);
      }
    }
  }

 private:
  static constexpr int kMost = 64;
  struct alignas(64) Share {
    std::atomic<std::int64_t> next;
    std::int64_t end;
  };
  std::array<Share, kMost> shares_;
  int count_;
};

}  // namespace

int num_threads() {
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
  if (chunks <= 1 || num_threads() == 1 || omp_in_parallel()) {
    for (std::int64_t chunk = 0; chunk < chunks; ++chunk) run(chunk);
    return;
  }
  std::exception_ptr error;  // an exception must not leave an OpenMP region
  std::atomic_flag failed = ATOMIC_FLAG_INIT;
  Shares shares(chunks, num_threads());
#pragma omp parallel
  {
    try {
      shares.take(thread_index(), run);
    } catch (...) {
      if (!failed.test_and_set()) error = std::current_exception();
    }
  }
  if (error) std::rethrow_exception(error);
}

}  // namespace moh
