#include "core/loop_rehearsal.h"

#include <time.h>

#include <algorithm>
#include <queue>
#include <utility>

#include "core/error.h"
#include "core/loop_shares.h"

namespace moh {

double thread_seconds() {
  timespec now{};
  MOH_CHECK(clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now) == 0, "a thread has a clock");
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

LoopRehearsal::LoopRehearsal(int threads, Observe observe) : threads_(threads), observe_(std::move(observe)) {
  MOH_CHECK(current_ == nullptr, "one rehearsal at a time");
  MOH_CHECK(threads >= 1, "a rehearsal needs a thread");
  current_ = this;
}

LoopRehearsal::~LoopRehearsal() {
  current_ = nullptr;
}

void LoopRehearsal::run(std::int64_t chunks, FunctionRef<void(std::int64_t)> chunk) {
  struct Inside {
    bool& flag;
    explicit Inside(bool& f) : flag(f) { flag = true; }
    ~Inside() { flag = false; }
  };
  seconds_.clear();
  double before = thread_seconds();
  {
    const Inside inside(inside_loop_);
    for (std::int64_t i = 0; i < chunks; ++i) {
      chunk(i);
      const double after = thread_seconds();
      seconds_.push_back(after - std::exchange(before, after));
    }
  }
  observe_(seconds_);
}

double busiest_thread(std::span<const double> seconds, int threads) {
  using Free = std::pair<double, int>;  // when a thread is free, and which
  std::priority_queue<Free, std::vector<Free>, std::greater<>> free;
  std::vector<LoopShares::Walk> walks;
  for (int i = 0; i < threads; ++i) {
    free.emplace(0.0, i);
    walks.push_back({i});
  }
  LoopShares shares(static_cast<std::int64_t>(seconds.size()), threads);
  double last = 0;
  while (!free.empty()) {
    const auto [at, thread] = free.top();
    free.pop();
    const std::int64_t chunk = shares.next(walks[static_cast<std::size_t>(thread)]);
    if (chunk < 0) continue;
    const double done = at + seconds[static_cast<std::size_t>(chunk)];
    last = std::max(last, done);
    free.emplace(done, thread);
  }
  return last;
}

}  // namespace moh
