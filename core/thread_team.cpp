#include "core/thread_team.h"

#include <chrono>
#include <cstdint>

#include "core/processors.h"
#include "core/threads.h"

namespace moh {
namespace {

/// Between two loops of a step pass 1 to 50 microseconds; to wake a thread that sleeps takes about 5 and
/// costs two switches of context. Whoever waits longer than this has been interrupted, or the program is not
/// computing.
constexpr std::chrono::microseconds kSpin{100};

void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

/// Waits for `done`, at most kSpin long; whether it came true.
template <class Done>
bool spin_until(const Done& done) {
  constexpr int kPausesPerLook = 16;  // at the clock
  const auto end = std::chrono::steady_clock::now() + kSpin;
  do {
    for (int i = 0; i < kPausesPerLook; ++i) {
      if (done()) return true;
      pause();
    }
  } while (std::chrono::steady_clock::now() < end);
  return done();
}

}  // namespace

/// Who may change it: idle -> asleep, offered -> running and running or awaited -> idle the worker; the
/// others the thread whose team it is.
enum class ThreadTeam::State : std::uint32_t {
  kIdle,     ///< spins
  kAsleep,   ///< waits to be woken
  kOffered,  ///< may begin
  kRunning,
  kAwaited,  ///< runs, and has to wake the thread that waits for it
  kEnding,
};

struct alignas(64) ThreadTeam::Worker {
  std::atomic<State> state = State::kIdle;
  std::thread thread;
};

ThreadTeam::ThreadTeam() = default;

ThreadTeam::~ThreadTeam() {
  for (const auto& worker : workers_) {
    worker->state.exchange(State::kEnding);
    worker->state.notify_one();
  }
  for (const auto& worker : workers_) worker->thread.join();
}

void ThreadTeam::start_missing(std::size_t workers) {
  while (workers_.size() < workers) {
    auto worker = std::make_unique<Worker>();
    const int index = static_cast<int>(workers_.size()) + 1;
    workers_.reserve(workers);
    worker->thread = start_thread(
        {"threads", "set `threads` or OMP_NUM_THREADS to fewer"},
        [this, index, &own = *worker] { work_when_asked(own, index); }, workers + 1,
        static_cast<std::size_t>(index));
    workers_.push_back(std::move(worker));
    bind_if_asked(workers_.back()->thread, static_cast<std::size_t>(index));
  }
}

void ThreadTeam::wait_for_offer(Worker& worker) {
  if (spin_until([&worker] { return worker.state.load(std::memory_order_acquire) != State::kIdle; })) return;
  State idle = State::kIdle;
  if (worker.state.compare_exchange_strong(idle, State::kAsleep)) worker.state.wait(State::kAsleep);
}

void ThreadTeam::work_when_asked(Worker& worker, int index) {
  for (;;) {
    wait_for_offer(worker);
    State offered = State::kOffered;
    if (!worker.state.compare_exchange_strong(offered, State::kRunning)) {
      if (offered == State::kEnding) return;
      continue;  // withdrawn
    }
    (*work_)(index);
    if (worker.state.exchange(State::kIdle) == State::kAwaited) worker.state.notify_one();
  }
}

void ThreadTeam::withdraw_or_await(Worker& worker) {
  State state = State::kOffered;
  if (worker.state.compare_exchange_strong(state, State::kIdle) || state != State::kRunning) return;
  if (spin_until([&worker] { return worker.state.load(std::memory_order_acquire) != State::kRunning; }))
    return;
  state = State::kRunning;
  if (worker.state.compare_exchange_strong(state, State::kAwaited)) worker.state.wait(State::kAwaited);
}

void ThreadTeam::run(int threads, FunctionRef<void(int)> work) {
  const std::size_t helpers = threads > 1 ? static_cast<std::size_t>(threads - 1) : 0;
  start_missing(helpers);
  work_ = &work;
  for (std::size_t i = 0; i < helpers; ++i) {
    if (workers_[i]->state.exchange(State::kOffered) == State::kAsleep) workers_[i]->state.notify_one();
  }
  work(0);
  for (std::size_t i = 0; i < helpers; ++i) withdraw_or_await(*workers_[i]);
}

}  // namespace moh
