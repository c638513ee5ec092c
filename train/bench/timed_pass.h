#pragma once

#include <chrono>
#include <vector>

#include "autograd/variable.h"

namespace moh {

/// Times of repeated passes through one case.
struct PassTimes {
  std::vector<double> forward_ms, forward_backward_ms;
};

/// One pass: forward() returns the output, which gets the gradient `dout`.
template <class Forward>
void time_pass(const Forward& forward, const Tensor& dout, PassTimes& times) {
  using Clock = std::chrono::steady_clock;
  const auto milliseconds = [](Clock::duration d) {
    return std::chrono::duration<double, std::milli>(d).count();
  };
  const Clock::time_point start = Clock::now();
  const Variable out = forward();
  const Clock::time_point middle = Clock::now();
  out.backward(dout);
  const Clock::time_point end = Clock::now();
  times.forward_ms.push_back(milliseconds(middle - start));
  times.forward_backward_ms.push_back(milliseconds(end - start));
}

/// Passes of all cases in turns, so that what else the machine does hits all alike; only the last `repeats`
/// count. A case has run() and a PassTimes `times`.
template <class Case>
void run_interleaved(std::vector<Case>& cases, int warmups, int repeats) {
  for (int pass = 0; pass < warmups + repeats; ++pass) {
    for (Case& one : cases) {
      if (pass == warmups) one.times = {};
      one.run();
    }
  }
}

}  // namespace moh
