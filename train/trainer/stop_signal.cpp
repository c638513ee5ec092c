#include "train/trainer/stop_signal.h"

#include <unistd.h>
#include <array>
#include <csignal>
#include <utility>

namespace moh {

namespace {

constexpr std::array kSignals = {std::pair{SIGINT, std::string_view("SIGINT")},
                                 std::pair{SIGTERM, std::string_view("SIGTERM")},
                                 std::pair{SIGUSR1, std::string_view("SIGUSR1")}};

// A signal handler may touch nothing but lock-free atomics and this type.
volatile std::sig_atomic_t received = 0;

std::array<struct sigaction, kSignals.size()> previous_actions;

extern "C" void on_stop_signal(int number) {
  if (received != 0) _exit(128 + number);
  received = number;
}

}  // namespace

StopSignal::StopSignal() {
  received = 0;
  struct sigaction action = {};
  action.sa_handler = on_stop_signal;
  action.sa_flags = SA_RESTART;  // a write in progress goes on
  for (std::size_t i = 0; i < kSignals.size(); ++i)
    sigaction(kSignals[i].first, &action, &previous_actions[i]);
}

StopSignal::~StopSignal() {
  for (std::size_t i = 0; i < kSignals.size(); ++i)
    sigaction(kSignals[i].first, &previous_actions[i], nullptr);
}

bool StopSignal::requested() const {
  return received != 0;
}

std::string_view StopSignal::name() const {
  for (const auto& [number, name] : kSignals) {
    if (number == received) return name;
  }
  return "";
}

}  // namespace moh
