#include "ops/conv/conv2d_kernels.h"
#include "ops/conv/patches_cpu.h"
#include "ops/cpu/reduce.h"

namespace moh {
namespace {

template <class F>
[[gnu::always_inline]] inline void add(const F* from, F* to, std::int64_t count) {
#pragma omp simd
  for (std::int64_t i = 0; i < count; ++i) to[i] += from[i];
}
/// Adds row r of the taps of a row of patches to the row of the image it covers.
template <class F>
void scatter_taps(const F* patches, F* image_row, const ConvShape& s, std::int64_t r,
                  std::int64_t first_channel) {
  const std::int64_t tap_row = s.x.kernel * s.group_channels();
  for (std::int64_t j = 0; j < s.x.output; ++j) {
    const std::int64_t x0 = j * s.x.stride - s.x.padding;
    const F* const from = patches + (j * s.y.kernel + r) * tap_row;
    each_run(s, taps_inside(s.x, j), [=, &s](std::int64_t tap, std::int64_t value, std::int64_t count) {
      add(from + value, image_row + (x0 + tap) * s.channels + first_channel, count);
    });
  }
}

}  // namespace

template <class Backend, class T>
void ConvKernels<Backend, T>::swap_axes(const T* from, T* to, std::int64_t batch, std::int64_t rows,
                                        std::int64_t columns) {
  // Some columns at a time, so that cache lines of `from` are used whole.
  constexpr std::int64_t kBlock = 16;
  const std::int64_t blocks = num_chunks(columns, kBlock);
  parallel_for(batch * blocks, row_grain(batch * blocks, rows * kBlock),
               [=](std::int64_t begin, std::int64_t end) {
                 for (std::int64_t i = begin; i < end; ++i) {
                   const std::int64_t n = i / blocks, first = i % blocks * kBlock;
                   const std::int64_t last = first + kBlock < columns ? first + kBlock : columns;
                   for (std::int64_t r = 0; r < rows; ++r) {
                     for (std::int64_t c = first; c < last; ++c)
                       to[(n * columns + c) * rows + r] = from[(n * rows + r) * columns + c];
                   }
                 }
               });
}

template <class Backend, class T>
void ConvPatchKernels<Backend, T>::gather(const T* x, T* patches, const ConvShape& s,
                                          const PatchBlock& block) {
  const std::int64_t values = s.taps() * s.group_channels(), width = s.x.output;
  parallel_for(block.last_row - block.first_row, 1, [&](std::int64_t begin, std::int64_t end) {
    gather_patches(x, patches + begin * width * values, values, s, (block.first_row + begin) * width,
                   (block.first_row + end) * width, block.first_channel);
  });
}

// Each thread owns rows of the image, and adds to them the taps of all patches that cover them.
template <class Backend, class T>
void ConvPatchKernels<Backend, T>::scatter(const Acc<T>* patches, Acc<T>* dx, const ConvShape& s,
                                           const PatchBlock& block) {
  if (block.first_row == block.last_row) return;
  const std::int64_t first_image = block.first_row / s.y.output,
                     last_image = (block.last_row - 1) / s.y.output;
  const std::int64_t row = s.x.output * s.taps() * s.group_channels();
  const std::int64_t rows = (last_image - first_image + 1) * s.y.input;
  parallel_for(rows, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t image = first_image + i / s.y.input, y = i % s.y.input;
      for (std::int64_t r = 0; r < s.y.kernel; ++r) {
        const std::int64_t place = y + s.y.padding - r, output_y = place / s.y.stride;
        if (place < 0 || place % s.y.stride != 0 || output_y >= s.y.output) continue;
        const std::int64_t output_row = image * s.y.output + output_y;
        if (output_row < block.first_row || output_row >= block.last_row) continue;
        scatter_taps(patches + (output_row - block.first_row) * row,
                     dx + (image * s.y.input + y) * s.x.input * s.channels, s, r, block.first_channel);
      }
    }
  });
}

template <class Backend, class T>
void ConvPatchKernels<Backend, T>::reverse_taps(const T* from, T* to, std::int64_t batch, std::int64_t taps,
                                                std::int64_t width) {
  parallel_for(batch, row_grain(batch, taps * width), [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin * taps; i < end * taps; ++i)
      copy(from + i * width, to + (i / taps * taps + taps - 1 - i % taps) * width, width);
  });
}

template struct ConvKernels<cpu::MOH_ISA, float>;
template struct ConvKernels<cpu::MOH_ISA, bfloat16>;
template struct ConvKernels<cpu::MOH_ISA, double>;
template struct ConvPatchKernels<cpu::MOH_ISA, float>;
template struct ConvPatchKernels<cpu::MOH_ISA, bfloat16>;
template struct ConvPatchKernels<cpu::MOH_ISA, double>;

}  // namespace moh
