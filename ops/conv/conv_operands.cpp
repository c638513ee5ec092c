#include "ops/conv/conv_operands.h"

#include <limits>
#include <string>

#include "ops/conv/conv2d_kernels.h"
#include "ops/op.h"

namespace moh {

namespace {

constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();

ConvAxis conv_axis(Check& check, const char* name, std::int64_t input, std::int64_t kernel,
                   std::int64_t stride, std::int64_t padding) {
  check.in_range("stride", static_cast<double>(stride), 1, static_cast<double>(kMost));
  check.in_range("padding", static_cast<double>(padding), 0, static_cast<double>(kMost));
  check.require(kernel >= 1, std::string("w's ") + name, "1 or more", std::to_string(kernel));
  const std::int64_t padded = input + 2 * padding;
  check.require(padded >= kernel, std::string("x's ") + name,
                std::to_string(kernel) + " or more with padding, for one position of the kernel",
                std::to_string(input) + " + 2 * " + std::to_string(padding));
  check.require(padded <= kMost, std::string("x's ") + name, "at most 2^31 - 1 with padding",
                std::to_string(input) + " + 2 * " + std::to_string(padding));
  return {input, (padded - kernel) / stride + 1, kernel, stride, padding};
}

void check_channels(Check& check, const Variable& x, const Variable& w, std::int64_t groups) {
  check.in_range("groups", static_cast<double>(groups), 1, static_cast<double>(kMost));
  const auto divides = [groups](std::int64_t count) { return count > 0 && count % groups == 0; };
  const std::string multiple = "a positive multiple of groups (" + std::to_string(groups) + ")";
  check.require(divides(x.dim(3)), "channels of x", multiple, std::to_string(x.dim(3)));
  check.require(divides(w.dim(0)), "first axis of w", multiple, std::to_string(w.dim(0)));
  check.require(w.dim(1) == x.dim(3) / groups, "w",
                "[O, " + std::to_string(x.dim(3) / groups) + ", kh, kw] (channels of x " +
                    to_string(x.shape()) + " / groups " + std::to_string(groups) + ")",
                to_string(w.shape()));
}

}  // namespace

ConvShape conv_shape(const Variable& x, const Variable& w, const Variable& b, const Conv2dOptions& options) {
  Check check("conv2d");
  check.floating("x", x).rank("x", x, 4).like("w", w, "x", x).rank("w", w, 4);
  check_channels(check, x, w, options.groups);
  if (b.defined()) check.shape("b", b, {w.dim(0)}, "first axis of w").like("b", b, "x", x);
  return {x.dim(0),
          x.dim(3),
          w.dim(0),
          options.groups,
          conv_axis(check, "height", x.dim(1), w.dim(2), options.stride.y, options.padding.y),
          conv_axis(check, "width", x.dim(2), w.dim(3), options.stride.x, options.padding.x)};
}

Shape output_shape(const ConvShape& shape) {
  return {shape.batch, shape.y.output, shape.x.output, shape.outputs};
}

Tensor swap_axes(const Tensor& x, std::int64_t batch, std::int64_t rows, std::int64_t columns) {
  Tensor y = empty({batch, columns, rows}, x.dtype(), x.device());
  run_kernel("conv2d", x, [&]<class Backend, class T>() {
    ConvKernels<Backend, T>::swap_axes(x.data<T>(), y.data<T>(), batch, rows, columns);
  });
  return y;
}

Tensor depthwise_taps(const Tensor& w, const ConvShape& shape) {
  return swap_axes(w, 1, shape.channels, shape.taps()).to(accumulate_dtype(w.dtype()));
}

}  // namespace moh
