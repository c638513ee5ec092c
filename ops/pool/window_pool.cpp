#include "ops/pool/window_pool.h"

#include <string>

#include "ops/op.h"
#include "ops/pool/window_pool_kernels.h"

namespace moh {

namespace {

constexpr std::string_view kWindowPoolOp = "window_pool";

WindowAxis checked_axis(Check& check, const char* name, std::int64_t pixels, const WindowPoolOptions& o) {
  check.require(pixels >> 31 == 0 && pixels + 2 * o.padding >= o.window, name,
                std::to_string(o.window) + " or more pixels of x with padding, and fewer than 2^31",
                std::to_string(pixels) + " + 2 * " + std::to_string(o.padding));
  return {pixels, (pixels + 2 * o.padding - o.window) / o.stride + 1, o.window, o.stride, o.padding};
}

}  // namespace

Variable window_pool(const Variable& x, const WindowPoolOptions& options) {
  constexpr double kMost = 1 << 15;
  Check check(kWindowPoolOp);
  check.floating("x", x).rank("x", x, 4);
  check.in_range("window", static_cast<double>(options.window), 1, kMost);
  check.in_range("stride", static_cast<double>(options.stride), 1, kMost);
  check.in_range("padding", static_cast<double>(options.padding), 0, static_cast<double>(options.window - 1));
  if (x.requires_grad() && grad_enabled())
    throw ValueError(error_message(kWindowPoolOp, "x", "no gradient to record: this op is for inference",
                                   "a variable that requires one", "compute under NoGrad"));
  const WindowPoolShape shape{x.dim(0), x.dim(3), checked_axis(check, "height", x.dim(1), options),
                              checked_axis(check, "width", x.dim(2), options)};
  const Tensor y = empty({shape.batch, shape.y.cells, shape.x.cells, shape.channels}, x.dtype(), x.device());
  run_kernel(kWindowPoolOp, y, [&]<class Backend, class T>() {
    using Kernels = WindowPoolKernels<Backend, T>;
    (options.kind == PoolKind::kMax ? Kernels::max : Kernels::mean)(x.value().data<T>(), y.data<T>(), shape);
  });
  return Variable(y);
}

}  // namespace moh
