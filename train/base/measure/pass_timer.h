#pragma once

#include <vector>

#include "core/device_clock.h"
#include "core/tensor.h"

namespace moh {

/// Milliseconds of each pass.
struct PassTimes {
  std::vector<double> forward, backward, both;
};

/// Times forward and backward passes on a device. On a GPU nothing is waited for until times() is called.
class PassTimer {
 public:
  /// A GPU has to be open (open_device).
  explicit PassTimer(Device device);

  /// One pass: backward() gets the result of forward(), which is freed after the last timestamp.
  template <class Forward, class Backward>
  void pass(const Forward& forward, const Backward& backward) {
    get_ahead();
    clock_.mark();
    const auto result = forward();
    clock_.mark();
    backward(result);
    clock_.mark();
    ++passes_;
  }

  /// Discards the passes so far.
  void forget();
  /// Waits for all passes.
  PassTimes times() const;

 private:
  /// On a GPU: overwrites more memory than L2 holds, so that operands come from HBM, as in a model, whose
  /// layers are larger than L2. Meanwhile the host enqueues the pass: what is measured is then the device's
  /// work and not launch overhead.
  void get_ahead() const;

  DeviceClock clock_;
  Tensor overwritten_;  // undefined on the CPU
  std::size_t passes_ = 0;
};

}  // namespace moh
