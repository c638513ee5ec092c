#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "core/function_ref.h"
#include "train/base/formats/pictures/picture.h"

namespace moh {

/// Pixels of the largest picture that is decoded: that above which Pillow refuses, too. It bounds the memory
/// that a small hostile file can take: 3 bytes a pixel, and 6 more for the coefficients of a progressive
/// JPEG.
inline constexpr std::int64_t kMaxPicturePixels = 178'956'970;

/// Chooses the part of a picture to decode from the picture's size, which the header says.
using ChooseRegion = FunctionRef<PictureBox(PictureSize)>;

/// The name of a picture, which is asked for by errors alone.
using PictureName = FunctionRef<std::string()>;

/// Decodes a JPEG or PNG file, told apart by their first bytes and not by name, to RGB: the pixels that
/// Pillow's Image.open(...).convert("RGB") gives, which torchvision's ImageFolder loads.
///
/// - JPEG: gray, YCbCr or RGB; CMYK and YCCK taken as inverted, as Adobe's programs write them. Orientation
///   in EXIF data is ignored.
/// - PNG: all types and depths. Alpha and transparent colours are dropped, not blended; of 16 bits the upper
/// 8
///   are kept, but gray without alpha is clipped to 255. Gamma and colour profiles are ignored.
///
/// Returns the part that `region` chooses. Of a JPEG little more than that is computed, with the same pixels
/// as if all of it were. `name` names the file in errors.
///
/// Throws DataError for a file of another format, one that is damaged or incomplete, and a picture of more
/// than kMaxPicturePixels or of more pixels than so many bytes can hold; before memory for pixels is taken;
/// and where the system refuses that memory.
Picture decode_picture(std::span<const std::byte> file, PictureName name, ChooseRegion region);
Picture decode_picture(std::span<const std::byte> file, std::string_view name, ChooseRegion region);

/// All of it.
Picture decode_picture(std::span<const std::byte> file, std::string_view name);

/// Throws DataError of a picture for whose pixels, or whose file, the system refused the memory.
[[noreturn]] void refuse_without_memory(const std::string& name);

/// The size of a picture, from its header. Throws DataError as decode_picture() does.
PictureSize picture_size(std::span<const std::byte> file, std::string_view name);

}  // namespace moh
