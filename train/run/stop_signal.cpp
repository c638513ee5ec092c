#include "train/run/stop_signal.h"

#include <unistd.h>
#include <array>
#include <utility>

namespace moh {

namespace {

constexpr std::array kSignals = {std::pair{SIGINT, std::string_view("SIGINT")},
                                 std::pair{SIGTERM, std::string_view("SIGTERM")},
                                 std::pair{SIGUSR1, std::string_view("SIGUSR1")}};

sigset_t stop_signals() {
  sigset_t set;
  sigemptyset(&set);
  for (const auto& [number, name] : kSignals) sigaddset(&set, number);
  return set;
}

/// Ends the process as if it had never looked for this signal.
void die_of(int number) {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, number);
  raise(number);
  pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
  _exit(128 + number);  // whoever started the process has it ignored
}

}  // namespace

StopSignal::StopSignal() {
  const sigset_t set = stop_signals();
  pthread_sigmask(SIG_BLOCK, &set, &previous_mask_);
  watcher_ = std::thread([this] { watch(); });
}

StopSignal::~StopSignal() {
  ending_ = true;
  pthread_kill(watcher_.native_handle(), SIGUSR1);
  watcher_.join();
  pthread_sigmask(SIG_SETMASK, &previous_mask_, nullptr);
}

void StopSignal::watch() {
  const sigset_t set = stop_signals();
  int number = 0;
  while (sigwait(&set, &number) == 0 && !ending_) {
    if (!deferred_) die_of(number);
    if (received_ != 0) _exit(128 + number);
    received_ = number;
  }
}

std::string_view StopSignal::name() const {
  for (const auto& [number, name] : kSignals) {
    if (number == received_) return name;
  }
  return "";
}

}  // namespace moh
