#pragma once

#include <cstdint>

#include "core/dtype.h"
#include "ops/activation/gelu.h"
#include "ops/op.h"

namespace moh {

/// The elementwise part of gelu_mlp, between its matrix multiplications, over N rows of width F.
template <class Backend, class T>
struct GeluMlpKernels {
  /// h = product + b, rounded to T, and y = gelu(h). b may be null (no bias), and h (not stored). h or y may
  /// be the same memory as `product`.
  static void forward(const T* product, const T* b, T* h, T* y, Rows rows, GeluForm form);
  /// dy = dy gelu'(h), then h = gelu(h), over `count` elements.
  static void backward(T* dy, T* h, std::int64_t count, GeluForm form);
};

}  // namespace moh
