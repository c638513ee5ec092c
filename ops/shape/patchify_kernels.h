#pragma once

#include <cstdint>

#include "core/dtype.h"

namespace moh {

/// Layout of images [batch, channels, height, width] and of patches, in which value (c, row, column) has
/// index c * channel_step + row * row_step + column * column_step.
struct PatchGrid {
  std::int64_t batch = 0, channels = 0, height = 0, width = 0;
  std::int64_t side = 1;  ///< rows and columns of a patch
  std::int64_t channel_step = 0, row_step = 0, column_step = 0;

  constexpr std::int64_t patches() const { return batch * (height / side) * (width / side); }
  constexpr std::int64_t patch_values() const { return channels * side * side; }
};

/// Copies all values from images to patches, and back.
template <class Backend, class T>
struct PatchKernels {
  static void to_patches(const T* images, T* patches, const PatchGrid& grid);
  static void to_images(const T* patches, T* images, const PatchGrid& grid);
};

}  // namespace moh
