#include "ops/pool/adaptive_avg_pool.h"

#include <string>

#include "ops/op.h"
#include "ops/pool/adaptive_avg_pool_kernels.h"

namespace moh {

namespace {

constexpr std::string_view kAdaptiveAvgPoolOp = "adaptive_avg_pool";

PoolAxis checked_axis(Check& check, std::string_view name, std::int64_t pixels, std::int64_t cells) {
  check.require(pixels >> 31 == 0, name, "fewer than 2^31 pixels of x", std::to_string(pixels));
  check.require(cells >= 1 && cells <= pixels, name, "1 to the " + std::to_string(pixels) + " pixels of x",
                std::to_string(cells));
  return {pixels, cells};
}

}  // namespace

Variable adaptive_avg_pool(const Variable& x, std::int64_t height, std::int64_t width) {
  Check check(kAdaptiveAvgPoolOp);
  check.floating("x", x).rank("x", x, 4);
  const PoolShape shape{x.dim(0), x.dim(3), checked_axis(check, "height", x.dim(1), height),
                        checked_axis(check, "width", x.dim(2), width)};
  const Tensor y = empty({x.dim(0), height, width, x.dim(3)}, x.dtype(), x.device());
  run_kernel(kAdaptiveAvgPoolOp, y, [&]<class Backend, class T>() {
    AdaptiveAvgPoolKernels<Backend, T>::forward(x.value().data<T>(), y.data<T>(), shape);
  });
  return record("adaptive_avg_pool", y, {x}, [shape](const Tensor& dy) -> Grads {
    const Tensor dx =
        empty({shape.batch, shape.y.pixels, shape.x.pixels, shape.channels}, dy.dtype(), dy.device());
    run_kernel(kAdaptiveAvgPoolOp, dx, [&]<class Backend, class T>() {
      AdaptiveAvgPoolKernels<Backend, T>::backward(dy.data<T>(), dx.data<T>(), shape);
    });
    return {dx};
  });
}

}  // namespace moh
