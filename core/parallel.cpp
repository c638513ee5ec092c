#include "core/parallel.h"

#include <omp.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <optional>
#include <string>

#include "core/error.h"

namespace moh {

namespace {

thread_local bool serial_libraries = false;

/// One OpenMP thread for what is called from here on this thread.
class OneThread {
 public:
  OneThread() : previous_(omp_get_max_threads()) { omp_set_num_threads(1); }
  ~OneThread() { omp_set_num_threads(previous_); }
  OneThread(const OneThread&) = delete;
  OneThread& operator=(const OneThread&) = delete;

 private:
  int previous_;
};

}  // namespace

SerialScope::SerialScope() : previous_(serial_libraries) {
  serial_libraries = true;
}
SerialScope::~SerialScope() {
  serial_libraries = previous_;
}

int num_threads() {
  return omp_get_max_threads();
}

void set_num_threads(int count) {
  // What OMP_NUM_THREADS asks for, or else all processors; read before this function first changes it.
  static const int default_threads = omp_get_max_threads();
  if (count < 0) throw ValueError(error_message("threads", "", "0 (all) or more", std::to_string(count)));
  omp_set_num_threads(count == 0 ? default_threads : count);
}

int thread_index() {
  return omp_get_thread_num();
}

void parallel_for(std::int64_t count, std::int64_t grain,
                  FunctionRef<void(std::int64_t, std::int64_t)> body) {
  MOH_CHECK(grain > 0, "parallel_for: grain must be positive");
  const std::int64_t chunks = num_chunks(count, grain);
  const auto run = [&](std::int64_t chunk) { body(chunk * grain, std::min(count, (chunk + 1) * grain)); };
  if (chunks <= 1 || num_threads() == 1 || omp_in_parallel()) {
    const std::optional<OneThread> one =
        serial_libraries ? std::optional<OneThread>(std::in_place) : std::nullopt;
    for (std::int64_t chunk = 0; chunk < chunks; ++chunk) run(chunk);
    return;
  }
  std::exception_ptr error;  // an exception must not leave an OpenMP region
  std::atomic_flag failed = ATOMIC_FLAG_INIT;
#pragma omp parallel for schedule(dynamic, 1)
  for (std::int64_t chunk = 0; chunk < chunks; ++chunk) {
    try {
      run(chunk);
    } catch (...) {
      if (!failed.test_and_set()) error = std::current_exception();
    }
  }
  if (error) std::rethrow_exception(error);
}

}  // namespace moh
