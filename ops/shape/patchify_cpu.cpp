#include "core/cpu_isa.h"
#include "ops/cpu/reduce.h"
#include "ops/shape/patchify_kernels.h"

namespace moh {

namespace {

/// Calls copy(pixel, value) with the offsets of each value in the images and in the patches.
template <class Copy>
[[gnu::always_inline]] inline void each_value(const PatchGrid& grid, const Copy& copy) {
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
