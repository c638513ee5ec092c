#pragma once

#include <cstddef>
#include <functional>
#include <vector>

#include "core/device.h"

namespace moh {

/// Seconds on the host's monotonic clock.
double steady_seconds();

/// Marks points in the work of a device, and measures the time between them. On the CPU a mark is the time at
/// which it was made. On a GPU it is an event in the stream, reached when all work enqueued before it has
/// finished: making one does not block, so the host may run ahead of the device while it is measured.
class DeviceClock {
 public:
  /// A point in time; marks of one clock ascend.
  using Mark = std::size_t;

  /// A GPU has to be open.
  explicit DeviceClock(Device device);
  /// Reads seconds from a function, for tests.
  explicit DeviceClock(std::function<double()> now);
  ~DeviceClock();
  DeviceClock(DeviceClock&& other) noexcept;
  DeviceClock& operator=(DeviceClock&&) = delete;

  Mark mark();
  /// Seconds between two marks; blocks until the device has reached the later one.
  double seconds(Mark from, Mark to) const;
  /// Forgets all marks; later ones begin again at 0.
  void clear() { num_marks_ = 0; }

 private:
  std::function<double()> now_;  // empty: events of the device
  std::size_t num_marks_ = 0;
  std::vector<double> times_;  // marks of a CPU; those of a GPU are events_, reused after clear()
  std::vector<void*> events_;
};

}  // namespace moh
