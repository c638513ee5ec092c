#pragma once

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>

#include "core/tensor.h"

namespace moh::test {

/// The largest difference of two tensors of float32 on the CPU, as a share of the largest element of b.
inline double relative_difference(const Tensor& a, const Tensor& b) {
  REQUIRE(a.numel() == b.numel());
  double difference = 0, most = 1e-30;
  for (std::int64_t i = 0; i < a.numel(); ++i) {
    const double expected = b.data<float>()[i];
    difference = std::max(difference, std::abs(double{a.data<float>()[i]} - expected));
    most = std::max(most, std::abs(expected));
  }
  return difference / most;
}

}  // namespace moh::test
