#include "core/cpu_isa.h"
#include "ops/cpu/reduce.h"
#include "ops/shape/patchify_kernels.h"

namespace moh {

namespace {

/// Calls copy(pixel, value) with the offsets of each value in the images and in the patches.
template <class Copy>
[[gnu::always_inline]] inline void by_patches(const PatchGrid& grid, const Copy& copy) {
  const std::int64_t count = grid.patches(), values = grid.patch_values();
  parallel_for(count, row_grain(count, values), [=](std::int64_t begin, std::int64_t end) {
    const std::int64_t rows = grid.height / grid.side, columns = grid.width / grid.side;
    for (std::int64_t patch = begin; patch < end; ++patch) {
      const std::int64_t image = patch / (rows * columns), y = patch / columns % rows, x = patch % columns;
      for (std::int64_t c = 0; c < grid.channels; ++c) {
        for (std::int64_t row = 0; row < grid.side; ++row) {
          const std::int64_t pixel =
              ((image * grid.channels + c) * grid.height + y * grid.side + row) * grid.width + x * grid.side;
          const std::int64_t value = patch * values + c * grid.channel_step + row * grid.row_step;
          for (std::int64_t column = 0; column < grid.side; ++column)
            copy(pixel + column, value + column * grid.column_step);
        }
      }
    }
  });
}

/// by_patches() for patches with too few columns for a vector: a row of patches after the other, by rows of
/// pixels through all its patches.
template <std::int64_t kSide, class Copy>
[[gnu::always_inline]] inline void by_rows(const PatchGrid& grid, const Copy& copy) {
  const std::int64_t rows = grid.height / kSide, columns = grid.width / kSide, values = grid.patch_values();
  const std::int64_t count = grid.batch * rows;
  parallel_for(count, row_grain(count, columns * values), [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      for (std::int64_t at = 0; at < grid.channels * kSide; ++at) {
        const std::int64_t c = at / kSide, row = at % kSide;
        const std::int64_t pixel_row = (i / rows * grid.channels + c) * grid.height + i % rows * kSide + row;
        const std::int64_t value = i * columns * values + c * grid.channel_step + row * grid.row_step;
#pragma omp simd
        for (std::int64_t x = 0; x < columns; ++x) {
          for (std::int64_t column = 0; column < kSide; ++column)
            copy(pixel_row * grid.width + x * kSide + column, value + x * values + column * grid.column_step);
        }
      }
    }
  });
}

template <class Copy>
[[gnu::always_inline]] inline void each_value(const PatchGrid& grid, const Copy& copy) {
  if (grid.side == 2) return by_rows<2>(grid, copy);
  if (grid.side == 4) return by_rows<4>(grid, copy);
  by_patches(grid, copy);
}

}  // namespace

template <class Backend, class T>
void PatchKernels<Backend, T>::to_patches(const T* images, T* patches, const PatchGrid& grid) {
  each_value(grid, [=](std::int64_t pixel, std::int64_t value) { patches[value] = images[pixel]; });
}

template <class Backend, class T>
void PatchKernels<Backend, T>::to_images(const T* patches, T* images, const PatchGrid& grid) {
  each_value(grid, [=](std::int64_t pixel, std::int64_t value) { images[pixel] = patches[value]; });
}

template struct PatchKernels<cpu::MOH_ISA, float>;
template struct PatchKernels<cpu::MOH_ISA, bfloat16>;
template struct PatchKernels<cpu::MOH_ISA, double>;

}  // namespace moh
