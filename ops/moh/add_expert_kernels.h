#pragma once

#include <cstdint>

#include "core/cpu_isa.h"
#include "core/dtype.h"

namespace moh {

/// Rows of `width` elements; a gate every `stride` elements.
struct AddedExpertRows {
  std::int64_t count, width, stride;
};

/// Kernels of add_expert; outputs are overwritten. gates and dgates point at the expert's first gate.
template <class Backend, class T>
struct AddExpertKernels {
  /// sum may be null.
  static void forward(const T* sum, const T* output, const Acc<T>* gates, T* y, AddedExpertRows rows);
  static void backward(const T* dy, const T* output, const Acc<T>* gates, T* doutput, Acc<T>* dgates,
                       AddedExpertRows rows);
};

}  // namespace moh
