#include "ops/conv/conv2d.h"

#include "autograd/gradient_target.h"
#include "ops/conv/conv2d_on_cpu.h"
#include "ops/conv/conv_operands.h"
#include "ops/conv/cudnn/cudnn_convolution.h"
#include "ops/conv/depthwise.h"
#include "ops/linalg/linear_parameters.h"
#include "ops/linalg/matmul.h"
#include "ops/op.h"

namespace moh {

namespace {

/// Whether the convolution is a matrix multiplication of the pixels (1 x 1 kernel, stride 1, no padding).
bool is_pointwise(const ConvShape& s) {
  const auto keeps = [](const ConvAxis& axis) {
    return axis.kernel == 1 && axis.stride == 1 && axis.padding == 0;
  };
  return s.groups == 1 && keeps(s.y) && keeps(s.x);
}

/// Runs `call`, which calls cuDNN, unless in a dry run: the workspace that cuDNN chooses is
/// not counted there.
template <class Call>
void run_on_device(const ConvShape& s, const Call& call) {
  const ProfileScope profile("conv2d", s.flops());
  if (!dry_run()) call();
}

/// An image as a matrix of pixels.
Tensor pixels(const Tensor& image) {
  return image.reshape({image.numel() / image.dim(3), image.dim(3)});
}
/// The weight of a 1 x 1 kernel as a matrix.
Tensor as_matrix(const Tensor& w) {
  return w.reshape({w.dim(0), w.dim(1)});
}

void forward(const ConvShape& s, const Tensor& x, const Tensor& w, const Tensor& b, const Tensor& y) {
  if (is_pointwise(s)) {
    const Operand factor = transposed(as_matrix(w));
    return b.defined() ? matmul_bias_into(pixels(y), pixels(x), factor, b)
                       : matmul_into(pixels(y), pixels(x), factor);
  }
  if (x.device() == kCpu) return conv2d_forward_on_cpu(s, x, w, b, y);
  const Tensor rows = like_patches(w, s);
  run_on_device(s, [&] { CudnnConvolution::forward(s, x, rows, b, y); });
}

Tensor data_gradient(const ConvShape& s, const Shape& x_shape, const Tensor& w, const Tensor& dy) {
  if (is_pointwise(s)) return matmul(pixels(dy), as_matrix(w), w.dtype()).reshape(x_shape);
  if (w.device() == kCpu) return conv2d_data_gradient_on_cpu(s, x_shape, w, dy);
  Tensor dx = empty(x_shape, w.dtype(), w.device());
  const Tensor rows = like_patches(w, s);
  run_on_device(s, [&] { CudnnConvolution::backward_data(s, dy, rows, dx); });
  return dx;
}

/// The gradient of w, in the accumulation dtype.
Tensor weight_gradient(const ConvShape& s, const Tensor& x, const Tensor& dy, const GradientTarget& w) {
  const DType wide = accumulate_dtype(x.dtype());
  const Shape& w_shape = w.value().shape();
  if (is_pointwise(s)) {
    Tensor dw = w.contribution();
    matmul_into(as_matrix(dw), transposed(pixels(dy)), pixels(x));
    return dw;
  }
  if (x.device() == kCpu) return conv2d_weight_gradient_on_cpu(s, x, dy, w_shape);
  const Tensor dw = empty({s.outputs, s.taps(), s.group_channels()}, wide, x.device());
  run_on_device(s, [&] { CudnnConvolution::backward_weights(s, x, dy, dw); });
  return swap_axes(dw, s.outputs, s.taps(), s.group_channels()).reshape(w_shape);
}

}  // namespace

Variable conv2d(const Variable& x, const Variable& w, const Variable& b, const Conv2dOptions& options) {
  const ConvShape shape = conv_shape(x, w, b, options);
  if (shape.is_depthwise()) return depthwise_conv2d(x, w, b, shape);
  const Tensor y = empty(output_shape(shape), x.dtype(), x.device());
  forward(shape, x.value(), w.value(), b.defined() ? b.value() : Tensor(), y);
  return record("conv2d", y, {x, w, b},
                [x = x.value(), w = GradientTarget(w), shape, needs_dx = x.requires_grad(),
                 needs_db = b.requires_grad()](const Tensor& dy) -> Grads {
                  Grads grads(3);
                  if (needs_dx) grads[0] = data_gradient(shape, x.shape(), w.value(), dy);
                  if (w.needed()) grads[1] = weight_gradient(shape, x, dy, w);
                  if (needs_db) grads[2] = bias_gradient(dy);
                  return grads;
                });
}

}  // namespace moh
