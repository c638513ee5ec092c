#include "core/cuda/tag.h"
#include "ops/conv/conv2d_kernels.h"
#include "ops/device/kernel.h"

namespace moh {

namespace {

template <class T>
struct SwapAxes {
  const T* from;
  T* to;
  std::int64_t rows, columns;
  MOH_DEVICE void operator()(std::int64_t i) const {
    const std::int64_t n = i / (rows * columns), c = i / rows % columns, r = i % rows;
    to[i] = from[(n * rows + r) * columns + c];
  }
};

}  // namespace

template <class Backend, class T>
void ConvKernels<Backend, T>::swap_axes(const T* from, T* to, std::int64_t batch, std::int64_t rows,
                                        std::int64_t columns) {
  cuda::launch_each("swap_axes", batch * rows * columns, SwapAxes<T>{from, to, rows, columns});
}

template struct ConvKernels<Cuda, float>;
template struct ConvKernels<Cuda, bfloat16>;

}  // namespace moh
