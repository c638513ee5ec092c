#include "ops/conv/depthwise.h"

#include "ops/conv/conv_operands.h"
#include "ops/conv/depthwise_kernels.h"
#include "ops/cpu/row_sums.h"
#include "ops/linalg/linear_parameters.h"
#include "ops/op.h"

namespace moh {

namespace {

void run_pass(const ConvShape& s, const Tensor& from, const Tensor& w, const Tensor& b, const Tensor& to,
              const DepthwisePass& pass) {
  run_kernel({"depthwise_conv2d", s.flops()}, from, [&]<class Backend, class T>() {
    DepthwiseKernels<Backend, T>::run(from.data<T>(), w.data<Acc<T>>(), b.defined() ? b.data<T>() : nullptr,
                                      to.data<T>(), pass);
  });
}

Tensor weight_gradient(const ConvShape& s, const Tensor& x, const Tensor& dy, const Shape& w_shape) {
  const Tensor dw = empty({s.taps(), s.channels}, accumulate_dtype(x.dtype()), x.device());
  const auto run = [&]<class Backend, class T>() {
    DepthwiseKernels<Backend, T>::weight_gradient(x.data<T>(), dy.data<T>(), dw.data<Acc<T>>(), s);
  };
  run_kernel({"depthwise_conv2d", s.flops()}, x, run,
             RowSumsWorkspace{{s.output_rows(), s.taps() * s.channels}});
  return swap_axes(dw, 1, s.taps(), s.channels).reshape(w_shape);
}

}  // namespace

Variable depthwise_conv2d(const Variable& x, const Variable& w, const Variable& b, const ConvShape& s) {
  const Tensor y = empty(output_shape(s), x.dtype(), x.device());
  run_pass(s, x.value(), depthwise_taps(w.value(), s), b.defined() ? b.value() : Tensor(), y,
           {s.batch, s.channels, TapAxis::forward(s.y), TapAxis::forward(s.x)});
  return record("depthwise_conv2d", y, {x, w, b},
                [x = x.value(), w = w.value(), s, needs_dx = x.requires_grad(), needs_dw = w.requires_grad(),
                 needs_db = b.requires_grad()](const Tensor& dy) -> Grads {
                  Grads grads(3);
                  if (needs_dx) {
                    grads[0] = empty_like(x);
                    run_pass(s, dy, depthwise_taps(w, s), {}, grads[0],
                             {s.batch, s.channels, TapAxis::backward(s.y), TapAxis::backward(s.x)});
                  }
                  if (needs_dw) grads[1] = weight_gradient(s, x, dy, w.shape());
                  if (needs_db) grads[2] = bias_gradient(dy);
                  return grads;
                });
}

}  // namespace moh
