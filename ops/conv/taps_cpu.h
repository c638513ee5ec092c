#pragma once

// For kernel files only (they are compiled once per instruction set): everything here has internal linkage.

#include "ops/conv/conv_shape.h"

namespace moh {
namespace {

/// Taps [first, last) of an axis that are inside the image for an output.
struct TapRange {
  std::int64_t first, last;
};
[[gnu::always_inline]] inline TapRange taps_inside(const ConvAxis& axis, std::int64_t output) {
  const std::int64_t start = output * axis.stride - axis.padding, behind = axis.input - start;
  const std::int64_t first = start >= 0 ? 0 : -start < axis.kernel ? -start : axis.kernel;
  const std::int64_t last = behind < axis.kernel ? behind : axis.kernel;
  return {first, last > first ? last : first};
}

}  // namespace
}  // namespace moh
