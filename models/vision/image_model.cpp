#include "models/vision/image_model.h"

#include <string>

#include "core/error.h"

namespace moh {

void require_images(std::string_view model, const Variable& images, std::int64_t channels) {
  if (images.shape().rank() == 4 && images.dim(3) == channels) return;
  throw ShapeError(error_message(model, "images", "[B, H, W, " + std::to_string(channels) + "]",
                                 to_string(images.shape())));
}

}  // namespace moh
