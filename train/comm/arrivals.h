#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "train/comm/sockets.h"

namespace moh {

/// Somebody who has connected and said something.
struct Arrival {
  Socket socket;
  std::vector<std::byte> greeting;
};

/// The connections at a listener, all polled together: who says nothing, or not enough, holds up nobody, and
/// is dropped after kGreetingTime, or before, when there are more than kMostSilent of them.
class Arrivals {
 public:
  static constexpr std::chrono::seconds kGreetingTime{5};
  static constexpr std::size_t kMostSilent = 256;

  /// `listener` must outlive this object. A greeting has `greeting_bytes`.
  Arrivals(const Listener& listener, std::size_t greeting_bytes)
      : listener_(listener), greeting_bytes_(greeting_bytes) {}

  /// The next one whose greeting is complete; nothing when the deadline has passed.
  std::optional<Arrival> next(Clock::time_point deadline);

 private:
  struct Silent {
    Arrival arrival;
    std::size_t received = 0;
    Clock::time_point until;
  };

  void wait(Clock::time_point deadline) const;
  void accept_all();
  /// Reads what has come; the first greeting that is complete.
  std::optional<Arrival> read();

  const Listener& listener_;
  std::size_t greeting_bytes_;
  std::vector<Silent> silent_;  // the oldest first
};

}  // namespace moh
