#include "ops/shape/patchify.h"

#include <string>

#include "ops/op.h"
#include "ops/shape/patchify_kernels.h"

namespace moh {

namespace {

PatchGrid patch_grid(const char* op, std::int64_t batch, const ImageSize& image, std::int64_t p,
                     PatchOrder order) {
  Check check(op);
  check.positive("p", static_cast<double>(p));
  const auto [channels, height, width] = image;
  const std::string size = std::to_string(height) + " x " + std::to_string(width);
  check.require(channels >= 0 && height >= 0 && width >= 0, "image", "sizes of 0 or more",
                std::to_string(channels) + " channels of " + size);
  check.require(height % p == 0 && width % p == 0, "height and width", "multiples of " + std::to_string(p),
                size);
  PatchGrid grid{batch, channels, height, width, p};
  if (order == PatchOrder::kChannelRowColumn) {
    grid.channel_step = p * p;
    grid.row_step = p;
    grid.column_step = 1;
  } else {
    grid.row_step = p * channels;
    grid.column_step = channels;
    grid.channel_step = 1;
  }
  return grid;
}

Tensor patches_of(const char* op, const Tensor& images, const PatchGrid& grid) {
  const std::int64_t in_image = (grid.height / grid.side) * (grid.width / grid.side);
  Tensor patches = empty({grid.batch, in_image, grid.patch_values()}, images.dtype(), images.device());
  run_kernel(op, images, [&]<class Backend, class T>() {
    PatchKernels<Backend, T>::to_patches(images.data<T>(), patches.data<T>(), grid);
  });
  return patches;
}

Tensor images_of(const char* op, const Tensor& patches, const PatchGrid& grid) {
  Tensor images =
      empty({grid.batch, grid.channels, grid.height, grid.width}, patches.dtype(), patches.device());
  run_kernel(op, patches, [&]<class Backend, class T>() {
    PatchKernels<Backend, T>::to_images(patches.data<T>(), images.data<T>(), grid);
  });
  return images;
}

}  // namespace

Variable patchify(const Variable& images, std::int64_t p, PatchOrder order) {
  Check("patchify").floating("images", images).rank("images", images, 4);
  const PatchGrid grid =
      patch_grid("patchify", images.dim(0), {images.dim(1), images.dim(2), images.dim(3)}, p, order);
  return record("patchify", patches_of("patchify", images.value(), grid), {images},
                [grid](const Tensor& dy) -> Grads { return {images_of("patchify", dy, grid)}; });
}

Variable unpatchify(const Variable& patches, const ImageSize& image, std::int64_t p, PatchOrder order) {
  Check check("unpatchify");
  check.floating("patches", patches).rank("patches", patches, 3);
  const PatchGrid grid = patch_grid("unpatchify", patches.dim(0), image, p, order);
  check.shape("patches", patches, {grid.batch, (grid.height / p) * (grid.width / p), grid.patch_values()},
              "images of " + to_string(Shape{image.channels, image.height, image.width}));
  return record("unpatchify", images_of("unpatchify", patches.value(), grid), {patches},
                [grid](const Tensor& dy) -> Grads { return {patches_of("unpatchify", dy, grid)}; });
}

}  // namespace moh
