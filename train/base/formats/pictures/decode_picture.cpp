#include "train/base/formats/pictures/decode_picture.h"

#include <algorithm>
#include <iterator>
#include <new>
#include <string>
#include <utility>

#include "core/error.h"
#include "train/base/formats/pictures/codecs.h"
#include "train/base/io/printable.h"
#include "train/base/io/stand_in.h"

namespace moh {

namespace {

using namespace std::string_view_literals;

constexpr std::string_view kJpeg = "\xff\xd8\xff"sv, kPng = "\x89PNG\r\n\x1a\n"sv;

/// Formats that people have under names of pictures, by their first bytes.
constexpr std::pair<std::string_view, std::string_view> kOthers[] = {
    {"GIF8"sv, "a GIF file"},         {"BM"sv, "a BMP file"},        {"RIFF"sv, "a WebP or other RIFF file"},
    {"II*\0"sv, "a TIFF file"},       {"MM\0*"sv, "a TIFF file"},    {"\0\0\0\x0cJXL"sv, "a JPEG XL file"},
    {"\xff\x0a"sv, "a JPEG XL file"}, {"<"sv, "a text of markup"},   {"%PDF"sv, "a PDF file"},
    {"PK\3\4"sv, "a zip archive"},    {"\x1f\x8b"sv, "a gzip file"},
};

std::string format_found(std::string_view bytes) {
  if (bytes.empty()) return "an empty file";
  if (const StandIn* const other = stand_in_of(bytes))
    return std::string(other->found) + " (" + std::string(other->fix) + ")";
  for (const auto& [start, name] : kOthers) {
    if (bytes.starts_with(start)) return std::string(name);
  }
  return "a file that begins with the bytes " + hex_digits(bytes.substr(0, 4));
}

Picture decode(std::span<const std::byte> bytes, PictureName name, ChooseRegion region) {
  const PictureFile file{bytes, name};
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  try {
    if (text.starts_with(kJpeg)) return decode_jpeg(file, region);
    if (text.starts_with(kPng)) return decode_png(file, region);
  } catch (const std::bad_alloc&) {
    refuse_without_memory(name());
  }
  file.fail("picture", "a JPEG or PNG file", format_found(text));
}

}  // namespace

void PictureFile::fail(std::string_view format, std::string_view expected, std::string_view found) const {
  throw DataError(error_message(name(), format, expected, found));
}

void PictureFile::check_size(std::string_view format, PictureSize size, std::int64_t pixels_per_byte) const {
  const std::int64_t pixels = std::int64_t{size.width} * size.height;
  if (pixels > kMaxPicturePixels) {
    fail(format, "at most " + std::to_string(kMaxPicturePixels) + " pixels", to_string(size));
  }
  if (pixels / pixels_per_byte > std::ssize(bytes)) {
    fail(format, "no more pixels than the data of the file can hold",
         to_string(size) + " in " + std::to_string(bytes.size()) + " bytes");
  }
}

void refuse_without_memory(const std::string& name) {
  throw DataError(error_message(name, "picture", "memory for its pixels", "that the system refused it",
                                "make it smaller, or allow this process more memory"));
}

Picture decode_picture(std::span<const std::byte> file, PictureName name, ChooseRegion region) {
  return decode(file, name, [&](PictureSize size) {
    const PictureBox box = region(size);
    MOH_CHECK(is_within(box, size), "decode_picture: region outside of the picture");
    return box;
  });
}

Picture decode_picture(std::span<const std::byte> file, std::string_view name, ChooseRegion region) {
  const auto named = [name] { return std::string(name); };
  return decode_picture(file, named, region);
}

Picture decode_picture(std::span<const std::byte> file, std::string_view name) {
  return decode_picture(file, name, [](PictureSize size) { return whole(size); });
}

PictureSize picture_size(std::span<const std::byte> file, std::string_view name) {
  PictureSize found;
  const auto named = [name] { return std::string(name); };
  decode(file, named, [&](PictureSize size) {
    found = size;
    return PictureBox();
  });
  return found;
}

}  // namespace moh
