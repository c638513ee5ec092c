#pragma once

#include <cstdint>

#include "core/dtype.h"
#include "ops/activation/gelu.h"
#include "ops/op.h"

namespace moh {

/// What gelu_mlp does between its products, over N rows of width F.
template <class Backend, class T>
struct GeluMlpKernels {
  /// h = product + b and y = gelu(h), of h as it is rounded. b null: there is none; h null: it is not kept.
  /// h or y may be `product`.
  static void forward(const T* product, const T* b, T* h, T* y, Rows rows, GeluForm form);
  /// dy = dy gelu'(h), then h = gelu(h), over `count` elements.
  static void backward(T* dy, T* h, std::int64_t count, GeluForm form);
};

}  // namespace moh
