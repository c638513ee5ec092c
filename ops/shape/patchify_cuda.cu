#include <algorithm>
#include <limits>

#include "core/cuda/tag.h"
#include "core/error.h"
#include "ops/device/kernel.h"
#include "ops/shape/patchify_kernels.h"

namespace moh {

namespace {

constexpr int kMostThreads = 256;

/// One block per patch, whose threads stride over its values; within a patch indices have 32 bits, whose
/// division costs a GPU far less than that of 64.
template <class T, bool kToPatches>
MOH_KERNEL(kMostThreads)
void patch_kernel(const T* from, T* to, PatchGrid grid) {
  const std::int64_t patch = device::block_x(), side = grid.side;
  const std::int64_t rows = grid.height / side, columns = grid.width / side;
  const std::int64_t image = patch / (rows * columns), y = patch / columns % rows, x = patch % columns;
  const std::int64_t corner = (image * grid.channels * grid.height + y * side) * grid.width + x * side;
  const auto values = static_cast<unsigned>(grid.patch_values());
  const auto short_side = static_cast<unsigned>(side), channels = static_cast<unsigned>(grid.channels);
  const auto channel_step = static_cast<unsigned>(grid.channel_step);
  const auto row_step = static_cast<unsigned>(grid.row_step);
  const auto column_step = static_cast<unsigned>(grid.column_step);
  for (auto i = static_cast<unsigned>(device::thread_x()); i < values;
       i += static_cast<unsigned>(device::block_threads())) {
    const unsigned c = i / channel_step % channels;
    const unsigned row = i / row_step % short_side, column = i / column_step % short_side;
    const std::int64_t pixel = corner + (c * grid.height + row) * grid.width + column;
    const std::int64_t value = patch * values + i;
    if constexpr (kToPatches) {
      to[value] = from[pixel];
    } else {
      to[pixel] = from[value];
    }
  }
}

template <bool kToPatches, class T>
void launch_patches(const char* name, const T* from, T* to, const PatchGrid& grid) {
  const std::int64_t values = grid.patch_values();
  MOH_CHECK(values <= std::numeric_limits<std::int32_t>::max(), "a patch has fewer than 2^31 values");
  if (values == 0) return;
  const auto threads = static_cast<int>(std::min<std::int64_t>((values + 31) / 32 * 32, kMostThreads));
  cuda::launch(name, patch_kernel<T, kToPatches>, {.blocks_x = grid.patches(), .threads = threads}, from, to,
               grid);
}

}  // namespace

template <class Backend, class T>
void PatchKernels<Backend, T>::to_patches(const T* images, T* patches, const PatchGrid& grid) {
  launch_patches<true>("patchify", images, patches, grid);
}

template <class Backend, class T>
void PatchKernels<Backend, T>::to_images(const T* patches, T* images, const PatchGrid& grid) {
  launch_patches<false>("unpatchify", patches, images, grid);
}

template struct PatchKernels<Cuda, float>;
template struct PatchKernels<Cuda, bfloat16>;

}  // namespace moh
