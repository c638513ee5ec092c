#pragma once

#include <cstdint>

#include "core/dtype.h"

namespace moh {

/// Which elements stay, and what they are multiplied by.
struct DropoutMask {
  std::uint64_t seed = 0;
  std::uint64_t stream = 0;
  std::uint32_t threshold = 0;  ///< random words below it drop their element
  double scale = 1.0;
  const std::int64_t* first_stream = nullptr;  ///< on a GPU, where not null: added to `stream`
};

/// y = x times the mask over `count` elements; the backward pass is the same on the gradient.
template <class Backend, class T>
struct DropoutKernels {
  static void apply(const T* x, T* y, std::int64_t count, DropoutMask mask);
};

}  // namespace moh
