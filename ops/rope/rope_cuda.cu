#include "core/cuda/run.h"
#include "core/cuda/tag.h"
#include "ops/cuda/divide.h"
#include "ops/rope/rope_kernels.h"

namespace moh {

namespace {

/// Rotates some consecutive elements of the first half of a head with their partners in the second half.
template <class T, int kCount>
struct Rotate {
  const T* x;
  const float *cos, *sin;
  float direction;
  T* y;
  RopeSizes sizes;

  MOH_DEVICE void operator()(std::int64_t number) const {
    const Division piece = divide(number, sizes.half / kCount), head = divide(piece.quotient, sizes.heads);
    if (sizes.leaves(head.quotient, head.rest)) return;
    const std::int64_t angle = sizes.row(head.quotient) * sizes.half + piece.rest * kCount;
    const std::int64_t first =
        (head.quotient * sizes.row_heads + head.rest) * sizes.half * 2 + piece.rest * kCount;
    const auto low = cuda::load_run<kCount>(x + first), high = cuda::load_run<kCount>(x + first + sizes.half);
    cuda::Run<T, kCount> to_low, to_high;
    for (int j = 0; j < kCount; ++j) {
      const float a = low.values[j], b = high.values[j], c = cos[angle + j], s = direction * sin[angle + j];
      to_low.values[j] = a * c - b * s;
      to_high.values[j] = b * c + a * s;
    }
    store_run(y + first, to_low);
    store_run(y + first + sizes.half, to_high);
  }
};

template <int kCount, class T>
void launch_rotate(const T* x, const float* cos, const float* sin, float direction, T* y,
                   const RopeSizes& sizes) {
  cuda::launch_each("rope", sizes.batch * sizes.positions * sizes.heads * (sizes.half / kCount),
                    Rotate<T, kCount>{x, cos, sin, direction, y, sizes});
}

}  // namespace

template <class Backend, class T>
void RopeKernels<Backend, T>::rotate(const T* x, const Acc<T>* cos, const Acc<T>* sin, Acc<T> direction, T* y,
                                     RopeSizes sizes) {
  constexpr int kRun = cuda::kRunOf<T>;
  if (sizes.half % kRun == 0 && cuda::runs_fit(x, y)) {
    launch_rotate<kRun>(x, cos, sin, direction, y, sizes);
  } else {
    launch_rotate<1>(x, cos, sin, direction, y, sizes);
  }
}

template struct RopeKernels<Cuda, float>;
template struct RopeKernels<Cuda, bfloat16>;

}  // namespace moh
