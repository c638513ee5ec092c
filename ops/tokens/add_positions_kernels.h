#pragma once

#include <cstdint>

#include "core/cpu_isa.h"
#include "core/dtype.h"

namespace moh {

/// `prefix` elements of an image (the class token: its width, or 0) come before `body`, those of its tokens.
struct TokenSizes {
  std::int64_t images, prefix, body;

  constexpr std::int64_t image() const { return prefix + body; }
};

/// Kernels of add_positions and take_token; outputs are overwritten.
template <class Backend, class T>
struct AddPositionsKernels {
  /// y [images, prefix + body] from x [images, body], token [prefix], positions [prefix + body].
  static void forward(const T* x, const T* token, const T* positions, T* y, TokenSizes sizes);
  /// dx [images, body], or none, and dpositions [prefix + body].
  static void backward(const T* dy, T* dx, Acc<T>* dpositions, TokenSizes sizes);
  /// Elements [first, first + width) of each image of x [images, image].
  static void take(const T* x, T* y, std::int64_t images, std::int64_t image, std::int64_t first,
                   std::int64_t width);
  /// dx = dy there, and zeros elsewhere.
  static void put(const T* dy, T* dx, std::int64_t images, std::int64_t image, std::int64_t first,
                  std::int64_t width);
};

}  // namespace moh
