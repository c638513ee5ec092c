#pragma once

#include <cstdint>

#include "core/cpu_isa.h"
#include "core/dtype.h"
#include "ops/conv/conv_shape.h"

namespace moh {

template <class Backend, class T>
struct ConvKernels {
  /// to[n, c, r] = from[n, r, c] for n < batch, r < rows, c < columns: weights between PyTorch's order, [O,
  /// C, taps], and that of images, [O, taps, C].
  static void swap_axes(const T* from, T* to, std::int64_t batch, std::int64_t rows, std::int64_t columns);
};

/// Rows of output pixels [first_row, last_row), numbered through all images, and the first channel
/// of a group.
struct PatchBlock {
  std::int64_t first_row, last_row, first_channel;
};

/// im2col and col2im, on the CPU only. The patch of an output pixel is the input under the kernel,
/// [kh, kw, C / groups], zeros outside the image; patches are [pixels of the block, values of a patch].
template <class Backend, class T>
struct ConvPatchKernels {
  static void gather(const T* x, T* patches, const ConvShape& shape, const PatchBlock& block);
  /// dx += the patches, at the pixels that gather reads. Each element of dx gets its terms in a fixed order.
  static void scatter(const Acc<T>* patches, Acc<T>* dx, const ConvShape& shape, const PatchBlock& block);
  /// to[n, taps - 1 - t, i] = from[n, t, i] for n < batch, t < taps, i < width.
  static void reverse_taps(const T* from, T* to, std::int64_t batch, std::int64_t taps, std::int64_t width);
};

}  // namespace moh
