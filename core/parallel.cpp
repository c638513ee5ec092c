#include "core/parallel.h"

#include <algorithm>
#include <atomic>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <string>
#include <system_error>

#include "core/dry_run.h"
#include "core/error.h"
#include "core/loop_shares.h"
#include "core/processors.h"
#include "core/thread_team.h"

namespace moh {

namespace {

/// Where the calling thread is. Outside loops thread 0 of a team of its own.
thread_local int loop_thread = 0;
thread_local bool in_loop = false;

ThreadTeam& team() {
  thread_local ThreadTeam own;
  return own;
}

void require_thread_count(const char* where, std::int64_t count) {
  if (count >= 0 && count <= kMaxThreads) return;
  throw ValueError(error_message(where, "", "0 (all processors) to " + std::to_string(kMaxThreads),
                                 std::to_string(count)));
}

/// OMP_NUM_THREADS, of whose list of numbers for nested loops the first counts; else one for each processor.
int default_threads() {
  const char* const text = std::getenv("OMP_NUM_THREADS");
  std::int64_t count = 0;
  if (text != nullptr && *text != '\0') {
    const char* const end = text + std::strcspn(text, ",");
    const auto [parsed, error] = std::from_chars(text, end, count);
    if (error != std::errc() || parsed != end) {
      throw ValueError(error_message("OMP_NUM_THREADS", "", "a number of threads", text));
    }
    require_thread_count("OMP_NUM_THREADS", count);
  }
  return count > 0 ? static_cast<int>(count) : usable_processors();
}

std::atomic<int>& threads_of_loops() {
  static std::atomic<int> count = default_threads();
  return count;
}

}  // namespace

int num_threads() {
  return threads_of_loops();
}

void set_num_threads(std::int64_t count) {
  require_thread_count("threads", count);
  threads_of_loops() = count == 0 ? default_threads() : static_cast<int>(count);
}

int thread_index() {
  return loop_thread;
}

void parallel_for(std::int64_t count, std::int64_t grain,
                  FunctionRef<void(std::int64_t, std::int64_t)> body) {
  MOH_CHECK(grain > 0, "parallel_for: grain must be positive");
  if (dry_run()) return;
  const std::int64_t chunks = num_chunks(count, grain);
  const auto run = [&](std::int64_t chunk) { body(chunk * grain, std::min(count, (chunk + 1) * grain)); };
  const int threads = num_threads();
  if (chunks <= 1 || threads == 1 || in_loop) {
    for (std::int64_t chunk = 0; chunk < chunks; ++chunk) run(chunk);
    return;
  }
  std::exception_ptr error;
  std::atomic_flag failed = ATOMIC_FLAG_INIT;
  LoopShares shares(chunks, threads);
  team().run(threads, [&](int thread) {
    in_loop = true;
    loop_thread = thread;
    try {
      LoopShares::Walk walk{thread};
      for (std::int64_t chunk = shares.next(walk); chunk >= 0; chunk = shares.next(walk)) run(chunk);
    } catch (...) {
      if (!failed.test_and_set()) error = std::current_exception();
    }
    in_loop = false;
    loop_thread = 0;
  });
  if (error) std::rethrow_exception(error);
}

}  // namespace moh
