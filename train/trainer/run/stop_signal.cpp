#include "train/trainer/run/stop_signal.h"

#include <unistd.h>
#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "core/threads.h"

namespace moh {

namespace {

constexpr std::array kSignals = {
    std::pair{SIGINT, std::string_view("SIGINT")}, std::pair{SIGTERM, std::string_view("SIGTERM")},
    std::pair{SIGUSR1, std::string_view("SIGUSR1")}, std::pair{SIGHUP, std::string_view("SIGHUP")}};
constexpr std::string_view kRequestName = "request";
constexpr int kWakeUp = SIGUSR1;  // sent to the waiting thread

bool is_ignored(int number) {
  struct sigaction action {};
  return ::sigaction(number, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
}

/// Ends the process by the signal's default action.
void die_of(int number) {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, number);
  raise(number);
  pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
  _exit(128 + number);  // reached if the signal is ignored
}

}  // namespace

StopSignal::StopSignal(Early early) : early_(std::move(early)), wake_up_is_ignored_(is_ignored(kWakeUp)) {
  sigemptyset(&signals_);
  sigaddset(&signals_, kWakeUp);
  for (const auto& [number, name] : kSignals) {
    if (!is_ignored(number)) sigaddset(&signals_, number);
  }
  pthread_sigmask(SIG_BLOCK, &signals_, nullptr);
  watcher_ = start_thread({"signals"}, [this] { watch(); });
}

StopSignal::StopSignal(Asked asked) : asked_(std::move(asked)) {}

StopSignal::~StopSignal() {
  if (!watcher_.joinable()) return;
  ending_ = true;
  pthread_kill(watcher_.native_handle(), kWakeUp);
  watcher_.join();
}

void StopSignal::watch() {
  int number = 0;
  while (sigwait(&signals_, &number) == 0 && !ending_) {
    if (number == kWakeUp && wake_up_is_ignored_) continue;
    end_early(number);
    if (received_ != 0) _exit(128 + number);
    received_ = number;
  }
}

void StopSignal::defer() {
  if (asked_.stop) {
    if (!requested()) return;
    throw StoppedEarly("train: stopped by " + std::string(name()) +
                       " before the training began; nothing was written");
  }
  const std::lock_guard lock(deferring_);
  deferred_ = true;
}

/// Unless defer() came first. Both at a time would end a run of which `early_` says that it has not begun.
void StopSignal::end_early(int number) {
  const std::lock_guard lock(deferring_);
  if (deferred_) return;
  if (early_) early_(name_of(number));
  die_of(number);
}

int StopSignal::number() const {
  if (received_ == 0 && asked_.stop) received_ = asked_.stop();
  return received_;
}

std::string_view StopSignal::name_of(int number) {
  if (number == kRequest) return kRequestName;
  const auto* const found = std::ranges::find(kSignals, number, &decltype(kSignals)::value_type::first);
  return found == kSignals.end() ? "" : found->second;
}

}  // namespace moh
