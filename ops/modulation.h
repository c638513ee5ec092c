#pragma once

#include <string_view>

#include "autograd/variable.h"
#include "ops/gradient_destination.h"

namespace moh {

/// Checks x [B, ..., D] and modulation [B, M, D], of one floating dtype and device, for an op that reads rows
/// [first, first + count) of the modulation of each sample (adaptive layer norm, as in DiT). Throws
/// ShapeError, DTypeError, DeviceError, ValueError.
void check_modulation(std::string_view op, const Variable& x, const Variable& modulation, std::int64_t first,
                      std::int64_t count);

/// The gradient of a modulation, of which an op sets some rows, for record()'s function.
class ModulationGradient {
 public:
  /// Within the backward pass of an op whose input number `input` is the modulation, of the value
  /// `modulation`. On a GPU the op adds to the sum that other ops have left, so that each has only a launch
  /// that adds up its rows, and no tensor of zeros, conversion and addition of its own.
  ModulationGradient(const Tensor& modulation, std::size_t input);

  const Tensor& tensor() const { return all_; }
  /// The destination of sums from element `at` on.
  template <class T>
  GradientDestination<T> sums(std::int64_t at) const {
    if (adds_) return {.added_to = all_.data<T>() + at};
    return {.overwritten = all_.data<Acc<T>>() + at};
  }

 private:
  Tensor all_;
  bool adds_;
};

}  // namespace moh
