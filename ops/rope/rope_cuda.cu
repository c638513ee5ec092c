#include "ops/cuda/map.h"
#include "ops/rope/rope_kernels.h"

namespace moh {

namespace {

/// Rotates some consecutive elements of the first half of a head with their partners in the second half.
template <class T, int kPieces>
struct Rotate {
  const T* x;
  const float *cos, *sin;
  float direction;
  T* y;
  RopeSizes sizes;

  MOH_DEVICE void operator()(std::int64_t number) const {
    const std::int64_t pieces = sizes.half / kPieces, head = number / pieces;
    const std::int64_t angle = sizes.row(head / sizes.heads) * sizes.half + number % pieces * kPieces;
    const std::int64_t first = head * sizes.half * 2 + number % pieces * kPieces;
    struct alignas(kPieces * sizeof(T)) Piece {
      T values[kPieces];
    };
    const Piece low = *reinterpret_cast<const Piece*>(x + first);
    const Piece high = *reinterpret_cast<const Piece*>(x + first + sizes.half);
    Piece to_low, to_high;
    for (int j = 0; j < kPieces; ++j) {
      const float a = low.values[j], b = high.values[j], c = cos[angle + j], s = direction * sin[angle + j];
      to_low.values[j] = a * c - b * s;
      to_high.values[j] = b * c + a * s;
    }
    *reinterpret_cast<Piece*>(y + first) = to_low;
    *reinterpret_cast<Piece*>(y + first + sizes.half) = to_high;
  }
};

template <int kPieces, class T>
void launch_rotate(const T* x, const float* cos, const float* sin, float direction, T* y,
                   const RopeSizes& sizes) {
  cuda::launch_each("rope", sizes.batch * sizes.positions * sizes.heads * (sizes.half / kPieces),
                    Rotate<T, kPieces>{x, cos, sin, direction, y, sizes});
}

}  // namespace

template <class Backend, class T>
void RopeKernels<Backend, T>::rotate(const T* x, const Acc<T>* cos, const Acc<T>* sin, Acc<T> direction, T* y,
                                     RopeSizes sizes) {
  constexpr int kPack = Pack<T>::kCount;
  const auto aligned = [](const T* p) { return reinterpret_cast<std::uintptr_t>(p) % 16 == 0; };
  if (sizes.half % kPack == 0 && aligned(x) && aligned(y)) {
    launch_rotate<kPack>(x, cos, sin, direction, y, sizes);
  } else {
    launch_rotate<1>(x, cos, sin, direction, y, sizes);
  }
}

template struct RopeKernels<Cuda, float>;
template struct RopeKernels<Cuda, bfloat16>;

}  // namespace moh
