#pragma once

#include <vector>

#include "autograd/variable.h"
#include "core/device_clock.h"
#include "train/bench/head_start.h"

namespace moh {

/// Times of repeated passes through one case.
struct PassTimes {
  std::vector<double> forward_ms, forward_backward_ms;
};

/// Times passes on a device. On a GPU none is waited for before times() is called.
class PassTimer {
 public:
  explicit PassTimer(Device device) : clock_(device), head_start_(device) {}

  /// One pass: forward() returns the output, which gets the gradient `dout`.
  template <class Forward>
  void pass(const Forward& forward, const Tensor& dout) {
    head_start_();
    clock_.mark();
    const Variable out = forward();
    clock_.mark();
    out.backward(dout);
    clock_.mark();
    ++passes_;
  }

  /// Later passes count from here on.
  void forget() {
    clock_.clear();
    passes_ = 0;
  }

  PassTimes times() const {
    PassTimes times;
    for (std::size_t i = 0; i < passes_; ++i) {
      times.forward_ms.push_back(clock_.seconds(3 * i, 3 * i + 1) * 1e3);
      times.forward_backward_ms.push_back(clock_.seconds(3 * i, 3 * i + 2) * 1e3);
    }
    return times;
  }

 private:
  DeviceClock clock_;
  HeadStart head_start_;
  std::size_t passes_ = 0;
};

/// Passes of all cases in turns, so that what else the machine does hits all alike; only the last `repeats`
/// count. A case has run(), a PassTimer `timer` and a PassTimes `times`, which is filled here.
template <class Case>
void run_interleaved(std::vector<Case>& cases, int warmups, int repeats) {
  for (int pass = 0; pass < warmups + repeats; ++pass) {
    for (Case& one : cases) {
      if (pass == warmups) one.timer.forget();
      one.run();
    }
  }
  for (Case& one : cases) one.times = one.timer.times();
}

}  // namespace moh
