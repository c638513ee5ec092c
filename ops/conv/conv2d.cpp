#include "ops/conv/conv2d.h"

#include <algorithm>

#include "ops/conv/conv2d_kernels.h"
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

/// A weight as [O, taps, C / groups], the order of elements in a patch, in `dtype`.
Tensor like_patches(const Tensor& w, const ConvShape& s, DType dtype) {
  return swap_axes(w, s.outputs, s.group_channels(), s.taps()).to(dtype);
}

/// Convolution on the CPU as matrix multiplications of blocks of patches (im2col). A row is a patch
/// of one group.
class Patches {
 public:
  Patches(const ConvShape& shape, DType dtype)
      : shape_(shape), values_(shape.taps() * shape.group_channels()) {
    const std::int64_t row_bytes = shape.x.output * values_ * static_cast<std::int64_t>(dtype_size(dtype));
    rows_ = std::clamp<std::int64_t>(kBytes / row_bytes, 1, std::max<std::int64_t>(shape.output_rows(), 1));
    const MemoryPurposeScope purpose(MemoryPurpose::kWorkspace);
    buffer_ = empty({rows_ * shape.x.output, values_}, dtype);
  }

  /// Calls body(block, group) for all blocks, and for the groups of each.
  template <class Body>
  void each(const Body& body) const {
    for (std::int64_t row = 0; row < shape_.output_rows(); row += rows_) {
      const std::int64_t last = std::min(row + rows_, shape_.output_rows());
      for (std::int64_t g = 0; g < shape_.groups; ++g)
        body(PatchBlock{row, last, g * shape_.group_channels()}, g);
    }
  }

  /// The part of the buffer that the block's pixels need.
  Tensor of(const PatchBlock& block) const {
    return buffer_.slice(0, (block.last_row - block.first_row) * shape_.x.output);
  }
  Tensor gather(const Tensor& x, const PatchBlock& block) const {
    const Tensor patches = of(block);
    run_cpu_kernel("conv2d", x, [&]<class Backend, class T>() {
      ConvPatchKernels<Backend, T>::gather(x.data<T>(), patches.data<Acc<T>>(), shape_, block);
    });
    return patches;
  }
  /// dx += patches (col2im), both in the accumulation dtype.
  void scatter(const Tensor& patches, const Tensor& dx, const PatchBlock& block) const {
    run_cpu_kernel("conv2d", dx, [&]<class Backend, class T>() {
      ConvPatchKernels<Backend, T>::scatter(patches.data<Acc<T>>(), dx.data<Acc<T>>(), shape_, block);
    });
  }
  /// The outputs of a group for the block's pixels, as columns of a tensor shaped as the result.
  Operand outputs(const Tensor& y, const PatchBlock& block, std::int64_t group,
                  bool is_transposed = false) const {
    const Tensor rows = y.reshape({shape_.output_pixels(), shape_.outputs})
                            .slice(block.first_row * shape_.x.output, block.last_row * shape_.x.output);
    return columns_of(rows, group * shape_.group_outputs(), shape_.group_outputs(), is_transposed);
  }
  /// The rows of one group from a weight [O, taps, C / groups], as a matrix [O / groups, taps C / groups].
  Tensor weight(const Tensor& w, std::int64_t group) const {
    return rows_of_group(w, group).reshape({shape_.group_outputs(), values_});
  }
  Tensor rows_of_group(const Tensor& w, std::int64_t group) const {
    return w.slice(group * shape_.group_outputs(), (group + 1) * shape_.group_outputs());
  }

 private:
  /// Bytes of patches in memory at a time, so that they stay in the last-level cache until they are
  /// multiplied. A constant, as the order of sums of a weight's gradient depends on it.
  static constexpr std::int64_t kBytes = std::int64_t{4} << 20;

  const ConvShape& shape_;
  std::int64_t values_, rows_ = 1;
  Tensor buffer_;
};

void forward_on_cpu(const ConvShape& s, const Tensor& x, const Tensor& w, const Tensor& b, const Tensor& y) {
  const DType wide = accumulate_dtype(x.dtype());
  const Patches patches(s, wide);
  const Tensor rows = like_patches(w, s, wide);
  patches.each([&](const PatchBlock& block, std::int64_t g) {
    const Operand out = patches.outputs(y, block, g);
    const Tensor from = patches.gather(x, block);
    if (b.defined()) {
      matmul_bias_into(out, from, transposed(patches.weight(rows, g)), patches.rows_of_group(b, g));
    } else {
      matmul_into(out, from, transposed(patches.weight(rows, g)));
    }
  });
}

Tensor data_gradient_on_cpu(const ConvShape& s, const Shape& x_shape, const Tensor& w, const Tensor& dy) {
  const DType wide = accumulate_dtype(w.dtype());
  const Patches patches(s, wide);
  const Tensor rows = like_patches(w, s, wide), dx = zeros(x_shape, wide);
  patches.each([&](const PatchBlock& block, std::int64_t g) {
    const Tensor to = patches.of(block);
    matmul_into(to, patches.outputs(dy, block, g), patches.weight(rows, g));
    patches.scatter(to, dx, block);
  });
  return dx.to(w.dtype());
}

/// The gradient of w as [O, taps, C / groups], in the accumulation dtype.
Tensor weight_gradient_on_cpu(const ConvShape& s, const Tensor& x, const Tensor& dy) {
  const DType wide = accumulate_dtype(x.dtype());
  const Patches patches(s, wide);
  const Tensor dw = zeros({s.outputs, s.taps(), s.group_channels()}, wide);
  patches.each([&](const PatchBlock& block, std::int64_t g) {
    matmul_into(patches.weight(dw, g), patches.outputs(dy, block, g, /*is_transposed=*/true),
                patches.gather(x, block), /*accumulate=*/true);
  });
  return dw;
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
  if (x.device() == kCpu) return forward_on_cpu(s, x, w, b, y);
  const Tensor rows = like_patches(w, s, w.dtype());
  run_on_device(s, [&] { CudnnConvolution::forward(s, x, rows, b, y); });
}

Tensor data_gradient(const ConvShape& s, const Shape& x_shape, const Tensor& w, const Tensor& dy) {
  if (is_pointwise(s)) return matmul(pixels(dy), as_matrix(w), w.dtype()).reshape(x_shape);
  if (w.device() == kCpu) return data_gradient_on_cpu(s, x_shape, w, dy);
  const Tensor dx = empty(x_shape, w.dtype(), w.device());
  const Tensor rows = like_patches(w, s, w.dtype());
  run_on_device(s, [&] { CudnnConvolution::backward_data(s, dy, rows, dx); });
  return dx;
}

/// The gradient of w, in the accumulation dtype.
Tensor weight_gradient(const ConvShape& s, const Tensor& x, const Tensor& dy, const Shape& w_shape) {
  const DType wide = accumulate_dtype(x.dtype());
  if (is_pointwise(s)) return matmul(transposed(pixels(dy)), pixels(x), wide).reshape(w_shape);
  Tensor dw;
  if (x.device() == kCpu) {
    dw = weight_gradient_on_cpu(s, x, dy);
  } else {
    dw = empty({s.outputs, s.taps(), s.group_channels()}, wide, x.device());
    run_on_device(s, [&] { CudnnConvolution::backward_weights(s, x, dy, dw); });
  }
  return swap_axes(dw, s.outputs, s.taps(), s.group_channels()).reshape(w_shape);
}

}  // namespace

Variable conv2d(const Variable& x, const Variable& w, const Variable& b, const Conv2dOptions& options) {
  const ConvShape shape = conv_shape(x, w, b, options);
  if (shape.is_depthwise()) return depthwise_conv2d(x, w, b, shape);
  const Tensor y = empty(output_shape(shape), x.dtype(), x.device());
  forward(shape, x.value(), w.value(), b.defined() ? b.value() : Tensor(), y);
  return record("conv2d", y, {x, w, b},
                [x = x.value(), w = w.value(), shape, needs_dx = x.requires_grad(),
                 needs_dw = w.requires_grad(), needs_db = b.requires_grad()](const Tensor& dy) -> Grads {
                  Grads grads(3);
                  if (needs_dx) grads[0] = data_gradient(shape, x.shape(), w, dy);
                  if (needs_dw) grads[1] = weight_gradient(shape, x, dy, w.shape());
                  if (needs_db) grads[2] = bias_gradient(dy);
                  return grads;
                });
}

}  // namespace moh
