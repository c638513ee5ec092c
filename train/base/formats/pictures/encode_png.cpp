#include "train/base/formats/pictures/encode_png.h"

#include <png.h>

#include <vector>

#include "core/error.h"

namespace moh {

std::string encode_png(const Picture& picture) {
  MOH_CHECK(picture.width() > 0 && picture.height() > 0, "encode_png: a picture with pixels");
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  image.width = static_cast<png_uint_32>(picture.width());
  image.height = static_cast<png_uint_32>(picture.height());
  image.format = PNG_FORMAT_RGB;
  std::string file(PNG_IMAGE_PNG_SIZE_MAX(image), '\0');
  png_alloc_size_t size = file.size();
  const int written = png_image_write_to_memory(&image, file.data(), &size, /*convert_to_8_bit=*/0,
                                                picture.bytes().data(), /*row_stride=*/0, nullptr);
  MOH_CHECK(written != 0, image.message);
  file.resize(size);
  return file;
}

}  // namespace moh
