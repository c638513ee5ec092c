#include "train/trainer/run/stop_signal.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>
#include <chrono>
#include <thread>

#include <catch2/catch.hpp>

namespace moh {
namespace {

/// The signal mask of this thread as it was, whatever a test does to it.
class MaskScope {
 public:
  MaskScope() { pthread_sigmask(SIG_SETMASK, nullptr, &before_); }
  ~MaskScope() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  MaskScope(const MaskScope&) = delete;
  MaskScope& operator=(const MaskScope&) = delete;

 private:
  sigset_t before_{};
};

/// Takes the signal if it is pending; whether it was.
bool take_pending(int number) {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, number);
  const timespec now{};
  return sigtimedwait(&set, nullptr, &now) == number;
}

void wait_for(const StopSignal& stop) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (!stop.requested() && std::chrono::steady_clock::now() < end)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

}  // namespace

TEST_CASE("stop_signal: a signal requests a stop, by name") {
  const MaskScope mask;
  StopSignal stop;
  stop.defer();
  CHECK(!stop.requested());
  CHECK(stop.name().empty());
  kill(getpid(), SIGTERM);
  wait_for(stop);
  CHECK(stop.requested());
  CHECK(stop.name() == "SIGTERM");
}

TEST_CASE("stop_signal: nothing begins after a signal has begun to end the process") {
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    StopSignal stop([](std::string_view) {
      std::this_thread::sleep_for(std::chrono::milliseconds(300));
      _exit(7);
    });
    kill(getpid(), SIGTERM);
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    stop.defer();
    _exit(8);  // the work has begun
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 7);
}

TEST_CASE("stop_signal: a program that is asked keeps its signals") {
  sigset_t before, after;
  pthread_sigmask(SIG_BLOCK, nullptr, &before);
  int asked = 0, answer = 0;
  StopSignal stop(StopSignal::Asked{[&] { return ++asked, answer; }});
  pthread_sigmask(SIG_BLOCK, nullptr, &after);
  CHECK(sigismember(&before, SIGINT) == sigismember(&after, SIGINT));
  stop.defer();
  CHECK_FALSE(stop.requested());
  answer = StopSignal::kRequest;
  CHECK(stop.number() == StopSignal::kRequest);
  CHECK(stop.name() == "request");
  CHECK(asked == 3);  // and not any more
  CHECK_THROWS_AS(stop.defer(), StoppedEarly);
}

TEST_CASE("stop_signal: what comes after the work does not end the process") {
  // A run that is done, with everything saved and said, must not be reported as killed.
  const MaskScope mask;
  {
    StopSignal stop;
    stop.defer();
  }
  for (const int number : {SIGINT, SIGTERM, SIGUSR1, SIGHUP}) {
    INFO(number);
    kill(getpid(), number);
    CHECK(take_pending(number));
  }
}

}  // namespace moh
