#include "models/diffusion/row_convolution.h"

#include <algorithm>

#include "core/error.h"

namespace moh {

namespace {

/// Rows of the result that are made at a time: an even number.
std::int64_t block_rows(const RowSource& image, std::int64_t step, DType dtype, std::int64_t block_bytes) {
  const std::int64_t row = image.width * image.channels * static_cast<std::int64_t>(dtype_size(dtype));
  return std::max<std::int64_t>(2, block_bytes / (row * step) / 2 * 2);
}

/// Rows [first, last) of the image, which may reach a row beyond it on either side, and `right` columns of
/// zeros: zeros where there is no image.
Tensor with_border(const RowSource& image, std::int64_t first, std::int64_t last, std::int64_t right) {
  const std::int64_t from = std::max<std::int64_t>(first, 0), to = std::min(last, image.height);
  Tensor inside = image.rows(from, to);
  if (from == first && to == last && right == 0) return inside;
  const Tensor whole =
      zeros({last - first, image.width + right, image.channels}, inside.dtype(), inside.device());
  if (right == 0) {
    whole.slice(from - first, to - first).copy_from(inside.select(0));
  } else {
    for (std::int64_t y = from; y < to; ++y)
      whole.select(y - first).slice(0, image.width).copy_from(inside.select(0).select(y - from));
  }
  return whole.reshape({1, last - first, image.width + right, image.channels});
}

}  // namespace

Tensor rows_of(const Tensor& image, std::int64_t first, std::int64_t last) {
  MOH_CHECK(image.rank() == 4 && image.dim(0) == 1, "rows_of: one image");
  return image.select(0).slice(first, last).reshape({1, last - first, image.dim(2), image.dim(3)});
}

void convolve_rows(const Conv2d& conv, const RowSource& image, RowStride stride, std::int64_t block_bytes,
                   FunctionRef<void(std::int64_t first, std::int64_t last, const Tensor& rows)> take) {
  const bool halves = stride == RowStride::kTwo;
  const std::int64_t step = halves ? 2 : 1, height = image.height / step, before = halves ? 0 : 1,
                     right = halves ? 1 : 0;
  const Conv2dOptions options = halves ? Conv2dOptions{.stride = 2} : Conv2dOptions{.padding = {0, 1}};
  const std::int64_t rows = block_rows(image, step, conv.weight().dtype(), block_bytes);
  for (std::int64_t first = 0; first < height; first += rows) {
    const std::int64_t last = std::min(first + rows, height);
    const Tensor seen = with_border(image, first * step - before, (last - 1) * step + 3 - before, right);
    take(first, last, conv2d(Variable(seen), conv.weight(), conv.bias(), options).value());
  }
}

}  // namespace moh
