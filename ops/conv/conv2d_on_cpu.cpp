#include "ops/conv/conv2d_on_cpu.h"

#include <algorithm>

#include "ops/conv/conv2d_kernels.h"
#include "ops/conv/conv_operands.h"
#include "ops/conv/few_outputs_kernels.h"
#include "ops/conv/patch_gemm_kernels.h"
#include "ops/conv/winograd.h"
#include "ops/linalg/matmul.h"
#include "ops/op.h"

namespace moh {

namespace {

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
    Tensor patches = of(block);
    run_cpu_kernel("conv2d", x, [&]<class Backend, class T>() {
      ConvPatchKernels<Backend, T>::gather(x.data<T>(), patches.data<T>(), shape_, block);
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
    return w.slice(group * shape_.group_outputs(), (group + 1) * shape_.group_outputs())
        .reshape({shape_.group_outputs(), values_});
  }

 private:
  /// Bytes of patches in memory at a time, so that they stay in the last-level cache until they are
  /// multiplied. A constant, as the order of sums of a weight's gradient depends on it.
  static constexpr std::int64_t kBytes = std::int64_t{4} << 20;

  const ConvShape& shape_;
  std::int64_t values_, rows_ = 1;
  Tensor buffer_;
};

/// Whether the gradient of the input is the convolution of dy that `mirrored` describes.
bool can_be_mirrored(const ConvShape& s) {
  const auto can = [](const ConvAxis& axis) { return axis.stride == 1 && axis.padding < axis.kernel; };
  return s.groups == 1 && can(s.y) && can(s.x);
}
/// The convolution of dy, by the kernel rotated by half a turn, that is the gradient of the input.
ConvShape mirrored(const ConvShape& s) {
  const auto axis = [](const ConvAxis& a) {
    return ConvAxis{a.output, a.input, a.kernel, 1, a.kernel - 1 - a.padding};
  };
  return {s.batch, s.outputs, s.channels, 1, axis(s.y), axis(s.x)};
}
/// Weights [rows, taps, columns] with the taps in opposite order: of the kernel rotated by half a turn.
Tensor rotated(const Tensor& rows) {
  Tensor turned = empty_like(rows);
  run_cpu_kernel("conv2d", rows, [&]<class Backend, class T>() {
    ConvPatchKernels<Backend, T>::reverse_taps(rows.data<T>(), turned.data<T>(), rows.dim(0), rows.dim(1),
                                               rows.dim(2));
  });
  return turned;
}

/// A weight as [C, taps, O].
Tensor by_channels(const Tensor& w, const ConvShape& s) {
  return swap_axes(w, 1, s.outputs, s.channels * s.taps()).reshape({s.channels, s.taps(), s.outputs});
}

/// y = b + the convolution of x by a weight [O, taps, C / groups].
void convolve(const ConvShape& s, const Tensor& x, const Tensor& rows, const Tensor& b, const Tensor& y) {
  if (s.groups == 1 && s.outputs <= kFewOutputs) {
    const Tensor wide = rows.to(accumulate_dtype(x.dtype()));
    return run_cpu_kernel({"conv2d", s.flops()}, x, [&]<class Backend, class T>() {
      ConvFewOutputs<Backend, T>::forward(x.data<T>(), wide.data<Acc<T>>(),
                                          b.defined() ? b.data<T>() : nullptr, y.data<T>(), s);
    });
  }
  const auto run = [&]<class Backend, class T>() {
    PatchGemmKernels<Backend, T>::run(x.data<T>(), rows.data<T>(), b.defined() ? b.data<T>() : nullptr,
                                      y.data<T>(), s);
  };
  run_matrix_kernel({"conv2d", s.flops()}, x, run,
                    [&]<class Backend, class T>() { return PatchGemmKernels<Backend, T>::scratch_bytes(s); });
}

/// The gradient of w as [O, taps, C / groups], in the accumulation dtype.
Tensor weight_gradient(const ConvShape& s, const Tensor& x, const Tensor& dy) {
  const Patches patches(s, x.dtype());
  Tensor dw = zeros({s.outputs, s.taps(), s.group_channels()}, accumulate_dtype(x.dtype()));
  patches.each([&](const PatchBlock& block, std::int64_t g) {
    matmul_into(patches.weight(dw, g), patches.outputs(dy, block, g, /*is_transposed=*/true),
                patches.gather(x, block), /*accumulate=*/true);
  });
  return dw;
}

}  // namespace

Tensor like_patches(const Tensor& w, const ConvShape& s) {
  return swap_axes(w, s.outputs, s.group_channels(), s.taps());
}

void conv2d_forward_on_cpu(const ConvShape& s, const Tensor& x, const Tensor& w, const Tensor& b,
                           const Tensor& y) {
  if (!uses_winograd(s, x.dtype())) return convolve(s, x, like_patches(w, s), b, y);
  winograd_convolve(s, x, by_channels(w, s).to(DType::kFloat32), b, y);
}

Tensor conv2d_data_gradient_on_cpu(const ConvShape& s, const Shape& x_shape, const Tensor& w,
                                   const Tensor& dy) {
  if (can_be_mirrored(s) && uses_winograd(s, w.dtype())) {
    Tensor dx = empty(x_shape, w.dtype());
    winograd_convolve(mirrored(s), dy, rotated(like_patches(w, s).to(DType::kFloat32)), {}, dx);
    return dx;
  }
  if (can_be_mirrored(s)) {
    Tensor dx = empty(x_shape, w.dtype());
    convolve(mirrored(s), dy, rotated(by_channels(w, s)), {}, dx);
    return dx;
  }
  const DType wide = accumulate_dtype(w.dtype());
  const Patches patches(s, wide);
  const Tensor rows = like_patches(w, s), dx = zeros(x_shape, wide);
  patches.each([&](const PatchBlock& block, std::int64_t g) {
    const Tensor to = patches.of(block);
    matmul_into(to, patches.outputs(dy, block, g), patches.weight(rows, g));
    patches.scatter(to, dx, block);
  });
  return dx.to(w.dtype());
}

Tensor conv2d_weight_gradient_on_cpu(const ConvShape& s, const Tensor& x, const Tensor& dy,
                                     const Shape& w_shape) {
  // Patches are smaller from the image with fewer channels.
  if (can_be_mirrored(s) && s.outputs < s.channels && !uses_winograd(s, x.dtype())) {
    const Tensor dw = rotated(weight_gradient(mirrored(s), dy, x));
    return swap_axes(dw, 1, s.channels * s.taps(), s.outputs).reshape(w_shape);
  }
  const Tensor dw =
      uses_winograd(s, x.dtype()) ? winograd_weight_gradient(s, x, dy) : weight_gradient(s, x, dy);
  return swap_axes(dw, s.outputs, s.taps(), s.group_channels()).reshape(w_shape);
}

}  // namespace moh
