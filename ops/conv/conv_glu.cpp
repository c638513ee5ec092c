#include "ops/conv/conv_glu.h"

#include <limits>
#include <string>

#include "ops/conv/conv_glu_kernels.h"
#include "ops/conv/conv_operands.h"
#include "ops/cpu/row_sums.h"
#include "ops/linalg/linear_parameters.h"
#include "ops/op.h"

namespace moh {

namespace {

constexpr std::string_view kConvGluOp = "conv_glu";

ConvAxis same_size(Check& check, std::string_view name, std::int64_t pixels, std::int64_t kernel) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
  check.require(kernel % 2 == 1, std::string("w's ") + std::string(name), "an odd number",
                std::to_string(kernel));
  check.require(pixels + kernel <= kMost, std::string("h's ") + std::string(name),
                "at most 2^31 - 1 with padding", std::to_string(pixels) + " + " + std::to_string(kernel));
  return {pixels, pixels, kernel, 1, kernel / 2};
}

ConvShape checked_shape(const Variable& h, const Variable& w, const Variable& b) {
  Check check(kConvGluOp);
  check.floating("h", h).rank("h", h, 4).like("w", w, "h", h).rank("w", w, 4).like("b", b, "h", h);
  const std::int64_t channels = w.dim(0);
  check.shape("w", w, {channels, 1, w.dim(2), w.dim(3)}).shape("b", b, {channels}, "first axis of w");
  check.shape("h", h, {h.dim(0), h.dim(1), h.dim(2), 2 * channels}, "last axis: twice the first of w");
  return {h.dim(0),
          channels,
          channels,
          channels,
          same_size(check, "height", h.dim(1), w.dim(2)),
          same_size(check, "width", h.dim(2), w.dim(3))};
}

struct SavedInputs {
  ConvShape shape;
  Tensor h, w, z;
  bool needs_dw, needs_db;
};

Grads gradients(const SavedInputs& saved, const Tensor& dy) {
  const ConvShape& s = saved.shape;
  const Tensor dh = empty_like(saved.h), taps = depthwise_taps(saved.w, s);
  run_kernel<MatrixIsas>({kConvGluOp, s.flops()}, dy, [&]<class Backend, class T>() {
    ConvGluKernels<Backend, T>::backward(dy.data<T>(), saved.h.data<T>(), taps.data<Acc<T>>(),
                                         saved.z.data<T>(), dh.data<T>(), s);
  });
  Grads grads = {dh, {}, {}};
  if (saved.needs_dw) {
    const Tensor dw = empty({s.taps(), s.channels}, accumulate_dtype(dy.dtype()), dy.device());
    const auto run = [&]<class Backend, class T>() {
      ConvGluKernels<Backend, T>::weight_gradient(saved.h.data<T>(), saved.z.data<T>(), dw.data<Acc<T>>(), s);
    };
    run_kernel<MatrixIsas>({kConvGluOp, s.flops()}, dy, run,
                           RowSumsWorkspace{{s.output_rows(), s.taps() * s.channels}});
    grads[1] = swap_axes(dw, 1, s.taps(), s.channels).reshape(saved.w.shape());
  }
  if (saved.needs_db) grads[2] = bias_gradient(saved.z);
  return grads;
}

}  // namespace

Variable conv_glu(const Variable& h, const Variable& w, const Variable& b) {
  const ConvShape shape = checked_shape(h, w, b);
  const Tensor y = empty(output_shape(shape), h.dtype(), h.device());
  // The backward pass overwrites the pre-activation with its gradient.
  const Tensor z = grad_enabled() ? empty_like(y) : y, taps = depthwise_taps(w.value(), shape);
  run_kernel<MatrixIsas>({kConvGluOp, shape.flops()}, y, [&]<class Backend, class T>() {
    ConvGluKernels<Backend, T>::forward(h.value().data<T>(), taps.data<Acc<T>>(), b.value().data<T>(),
                                        z.data<T>(), y.data<T>(), shape);
  });
  return record("conv_glu", y, {h, w, b},
                [saved = SavedInputs{shape, h.value(), w.value(), z, w.requires_grad(), b.requires_grad()}](
                    const Tensor& dy) -> Grads { return gradients(saved, dy); });
}

}  // namespace moh
