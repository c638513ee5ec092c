#pragma once

#include "core/dtype.h"

namespace moh {

/// Where a kernel puts gradients that are sums over rows, one of the two; neither: they are not computed.
template <class T>
struct GradientDestination {
  Acc<T>* overwritten = nullptr;  ///< not rounded to T
  T* added_to = nullptr;  ///< on a GPU only: what other ops left there, to which sums are added, rounded

  explicit operator bool() const { return overwritten != nullptr || added_to != nullptr; }
};

}  // namespace moh
