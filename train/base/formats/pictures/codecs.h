#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string_view>

#include "train/base/formats/pictures/decode_picture.h"

namespace moh {

// The decoders of decode_picture(), which see files of their own format only.

/// A file in memory and its name for errors.
struct PictureFile {
  std::span<const std::byte> bytes;
  PictureName name;

  /// Throws DataError: "NAME: FORMAT: expected E, found F".
  [[noreturn]] void fail(std::string_view format, std::string_view expected, std::string_view found) const;
  /// Throws DataError for a picture that is too large, or larger than the file can hold: one with more pixels
  /// than `pixels_per_byte` for each byte of the file.
  void check_size(std::string_view format, PictureSize size, std::int64_t pixels_per_byte) const;
};

/// Reads only the header if `region` returns an empty box; the result is then empty.
Picture decode_jpeg(const PictureFile& file, ChooseRegion region);
Picture decode_png(const PictureFile& file, ChooseRegion region);

}  // namespace moh
