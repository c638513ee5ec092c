#pragma once

#include <algorithm>

#include "core/dtype.h"
#include "ops/op.h"

namespace moh {

/// Images [B, P, C] of P pixels, whose channels form groups.
struct GroupNormSizes {
  std::int64_t images = 0, pixels = 0, channels = 0, groups = 1;

  std::int64_t group_channels() const { return channels / groups; }
  /// Elements of a group of an image.
  std::int64_t group_elements() const { return std::max<std::int64_t>(1, pixels * group_channels()); }
  /// Pixels whose sums are taken together, and how many such chunks an image has: a function of the sizes.
  std::int64_t chunk() const { return std::max<std::int64_t>(32, (pixels + 255) / 256); }
  std::int64_t chunks() const { return (pixels + chunk() - 1) / chunk(); }
};

/// Kernels of group_norm; outputs are overwritten. x, y, dx, dy [B, P, C]; w, b, dw, db [C]; mean, r [B,
/// groups]; partials, scratch, [B, chunks, 2, C]; means, scratch, [B, groups, 2]. dw and db may both be null:
/// then they are not computed; they are not rounded to T.
template <class Backend, class T>
struct GroupNormKernels {
  static void statistics(const T* x, Acc<T>* mean, Acc<T>* r, Acc<T>* partials, const GroupNormSizes& sizes,
                         double eps);
  static void normalise(const T* x, const T* w, const T* b, const Acc<T>* mean, const Acc<T>* r, T* y,
                        Acc<T>* partials, const GroupNormSizes& sizes);
  static void backward(const T* dy, const T* x, const T* w, const Acc<T>* mean, const Acc<T>* r, T* dx,
                       Acc<T>* dw, Acc<T>* db, Acc<T>* partials, Acc<T>* means, const GroupNormSizes& sizes);
};

}  // namespace moh
