#pragma once

#include <vector>

#include "core/device_clock.h"
#include "core/tensor.h"

namespace moh {

/// Milliseconds of repeated passes.
struct PassTimes {
  std::vector<double> forward, backward, both;
};

/// Times passes of two parts on a device. On a GPU none is waited for before times() is called.
class PassTimer {
 public:
  /// A GPU has to be open.
  explicit PassTimer(Device device);

  /// One pass: backward() gets what forward() returns, which is released once the time has been taken.
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

  /// Later passes count from here on.
  void forget();
  PassTimes times() const;

 private:
  /// On a GPU: overwrites more memory than the level 2 cache holds, so that operands come from memory, as in
  /// a model, whose layers are larger than the cache. While the device does that the host gets ahead of it:
  /// what is measured is then the device's work, and not how long the host takes to start it.
  void get_ahead() const;

  DeviceClock clock_;
  Tensor overwritten_;  // undefined on the CPU
  std::size_t passes_ = 0;
};

}  // namespace moh
