#pragma once

#include <cstdint>

#include "core/function_ref.h"
#include "models/layers/conv2d.h"

namespace moh {

/// Rows [first, last) of an image [1, H, W, C]: the same memory.
Tensor rows_of(const Tensor& image, std::int64_t first, std::int64_t last);

/// The input of a convolution: an image [1, height, width, channels] whose rows are made as they are needed.
/// `rows` returns [1, last - first, width, channels], in row-major order of its calls, some rows twice.
struct RowSource {
  std::int64_t height = 0, width = 0, channels = 0;
  FunctionRef<Tensor(std::int64_t first, std::int64_t last)> rows;
};

/// How a 3 x 3 convolution goes over the image: with a border of zeros on all sides, to as many rows and
/// columns; or with stride 2 and a border below and to the right alone, as AutoencoderKL halves images of
/// even sides.
enum class RowStride : std::uint8_t { kOne, kTwo };

/// Convolves an image block of rows by block of rows, of about `block_bytes` of the image each, and passes
/// the rows of the result, [1, last - first, width, outputs], to `take`, from the first to the last. So
/// neither image nor result need be in memory as wholes. On the CPU the bits do not depend on the blocks, as
/// these begin at even rows, where Winograd's tiles do; on a GPU cuDNN may choose other algorithms for other
/// sizes. Not recorded.
void convolve_rows(const Conv2d& conv, const RowSource& image, RowStride stride, std::int64_t block_bytes,
                   FunctionRef<void(std::int64_t first, std::int64_t last, const Tensor& rows)> take);

}  // namespace moh
