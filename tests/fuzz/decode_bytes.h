#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "core/error.h"
#include "train/base/formats/pictures/decode_picture.h"

namespace moh::test {

/// The body of the targets of JPEG and PNG: decodes all of a picture, and the middle of it.
inline int decode_bytes(const std::uint8_t* data, std::size_t size) {
  const std::span file(reinterpret_cast<const std::byte*>(data), size);
  const auto middle = [](PictureSize picture) {
    return PictureBox{picture.width / 3, picture.height / 3, (picture.width + 2) / 3,
                      (picture.height + 2) / 3};
  };
  try {
    decode_picture(file, "fuzz", middle);
    decode_picture(file, "fuzz");
  } catch (const DataError&) {
  }
  return 0;
}

}  // namespace moh::test
