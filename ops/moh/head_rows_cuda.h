#pragma once

#include "ops/cuda/lanes.h"
#include "ops/cuda/map.h"

// For kernel files (*_cuda.cu) only. Rows of the output of one head, of d elements, in pieces that a thread
// reads and writes in one access, and the gate that multiplies them.

namespace moh {
namespace {

template <class T, int kCount>
struct alignas(sizeof(T) * kCount) HeadPiece {
  T values[kCount];

  static MOH_DEVICE HeadPiece load(const T* from) { return *reinterpret_cast<const HeadPiece*>(from); }
  MOH_DEVICE void store(T* to) const { *reinterpret_cast<HeadPiece*>(to) = *this; }
  MOH_DEVICE void scale(float factor) {
    for (T& value : values) value = factor * static_cast<float>(value);
  }
  /// factor * this + other, rounded once.
  MOH_DEVICE void add_to(float factor, const HeadPiece& other) {
    for (int j = 0; j < kCount; ++j)
      values[j] = factor * static_cast<float>(values[j]) + static_cast<float>(other.values[j]);
  }
};

/// dy = gate * dx, with kAdds plus the row that lies `before` elements before dx, and the gradient <dx, y> of
/// the gate, by the lanes of a warp.
template <class T, int kCount, bool kAdds = false>
MOH_DEVICE float gated_row_backward(const T* dx, const T* y, float gate, T* dy, std::int64_t d,
                                    std::int64_t before = 0) {
  using Piece = HeadPiece<T, kCount>;
  return sum_on_lanes(d / kCount, [&](std::int64_t i) {
    Piece gradient = Piece::load(dx + i * kCount);
    const Piece output = Piece::load(y + i * kCount);
    float sum = 0;
    for (int j = 0; j < kCount; ++j)
      sum += static_cast<float>(gradient.values[j]) * static_cast<float>(output.values[j]);
    if constexpr (kAdds) {
      gradient.add_to(gate, Piece::load(dx - before + i * kCount));
    } else {
      gradient.scale(gate);
    }
    gradient.store(dy + i * kCount);
    return sum;
  });
}

/// Calls launch.template operator()<kCount>() with as many elements as 16 bytes have, if every row is aligned
/// to them, or 1.
template <class T, class Launch>
void launch_pieces(std::int64_t head_dim, const Launch& launch) {
  constexpr int kPack = Pack<T>::kCount;
  if (head_dim % kPack == 0) {
    launch.template operator()<kPack>();
  } else {
    launch.template operator()<1>();
  }
}

}  // namespace
}  // namespace moh
