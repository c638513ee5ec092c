#include "train/comm/arrivals.h"

#include <poll.h>

#include <algorithm>
#include <chrono>
#include <span>
#include <utility>

namespace moh {

std::optional<Arrival> Arrivals::next(Clock::time_point deadline) {
  while (true) {
    if (std::optional<Arrival> arrival = read()) return arrival;
    const auto now = Clock::now();
    if (now >= deadline) return std::nullopt;
    std::erase_if(silent_, [&](const Silent& silent) { return silent.until <= now; });
    wait(deadline);
    accept_all();
  }
}

void Arrivals::wait(Clock::time_point deadline) const {
  using std::chrono::milliseconds;
  constexpr milliseconds kLongest{100};
  std::vector<pollfd> ready;
  for (const Socket& socket : listener_.sockets()) ready.push_back({socket.fd(), POLLIN, 0});
  for (const Silent& silent : silent_) ready.push_back({silent.arrival.socket.fd(), POLLIN, 0});
  const auto left = std::chrono::duration_cast<milliseconds>(deadline - Clock::now());
  ::poll(ready.data(), ready.size(), static_cast<int>(std::clamp(left, milliseconds(1), kLongest).count()));
}

void Arrivals::accept_all() {
  while (std::optional<Socket> socket = listener_.accept()) {
    if (!socket->is_open()) {  // there is no descriptor for it: the oldest gives way
      if (silent_.empty()) return;
      silent_.erase(silent_.begin());
      continue;
    }
    silent_.push_back(
        {{std::move(*socket), std::vector<std::byte>(greeting_bytes_)}, 0, Clock::now() + kGreetingTime});
  }
}

std::optional<Arrival> Arrivals::read() {
  std::optional<Arrival> complete;
  std::erase_if(silent_, [&](Silent& silent) {
    if (complete) return false;
    Arrival& arrival = silent.arrival;
    const auto received = arrival.socket.receive_some(std::span(arrival.greeting).subspan(silent.received));
    if (!received) return true;  // it has left
    silent.received += *received;
    if (silent.received < greeting_bytes_) return false;
    complete = std::move(arrival);
    return true;
  });
  if (silent_.size() > kMostSilent)
    silent_.erase(silent_.begin(), silent_.end() - static_cast<std::ptrdiff_t>(kMostSilent));
  return complete;
}

}  // namespace moh
