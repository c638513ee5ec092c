#pragma once

#include <cmath>

#include "ops/device/kernel.h"

namespace moh {

/// The logistic function and 1 minus it, each to full relative accuracy.
struct SigmoidPair {
  float value, rest;
};
MOH_DEVICE SigmoidPair sigmoid_pair(float x) {
  const float e = expf(-fabsf(x));  // never overflows
  const float large = 1.0F / (1.0F + e), small = e / (1.0F + e);
  return x >= 0.0F ? SigmoidPair{large, small} : SigmoidPair{small, large};
}

}  // namespace moh
