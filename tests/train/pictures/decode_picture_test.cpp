#include "train/base/formats/pictures/decode_picture.h"

#include <catch2/catch.hpp>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <new>
#include <random>
#include <string>
#include <vector>

#include "core/error.h"
#include "tests/support/message_of.h"
#include "tests/support/skip.h"
#include "tests/train/pictures/golden.h"

using namespace moh;
using namespace moh::test;

namespace {

using Bytes = std::vector<std::byte>;

std::vector<std::string> sample_names() {
  std::vector<std::string> names;
  for (const auto& entry : golden_pictures()["decoded"].items()) names.push_back(entry.key());
  return names;
}

void check_against_pillow(const Bytes& file, const std::string& name, const nlohmann::json& expected) {
  INFO(name);
  const Picture picture = decode_picture(file, name);
  CHECK(picture.width() == expected["size"][0]);
  CHECK(picture.height() == expected["size"][1]);
  CHECK(sha256_of(picture) == expected["sha256"]);
  CHECK(picture_size(file, name) == picture.size());
}

/// Parts at every border and random ones have the pixels of the whole.
void check_parts(const Bytes& file, const std::string& name, int count) {
  const Picture full = decode_picture(file, name);
  std::mt19937 random(7);
  const auto below = [&](int limit) { return static_cast<int>(random() % static_cast<unsigned>(limit)); };
  for (int i = 0; i < count; ++i) {
    PictureBox box;
    box.width = 1 + below(full.width());
    box.height = 1 + below(full.height());
    box.left = i % 4 == 0 ? full.width() - box.width : below(full.width() - box.width + 1);
    box.top = i % 3 == 0 ? full.height() - box.height : below(full.height() - box.height + 1);
    const Picture part = decode_picture(file, name, [&](PictureSize) { return box; });
    INFO(name << ": " << to_string(box.size()) << " at " << box.left << ", " << box.top);
    REQUIRE(same_pixels(part, part_of(full, box)));
  }
}

std::string refused_picture(const Bytes& file) {
  return message_of<DataError>([&] { decode_picture(file, "a/b.jpg"); });
}

Bytes cut(Bytes file, std::size_t size) {
  file.resize(size);
  return file;
}

/// The place of the two bytes of a marker.
std::size_t find_marker(const Bytes& file, std::uint8_t marker) {
  for (std::size_t i = 0; i + 1 < file.size(); ++i) {
    if (file[i] == std::byte{0xff} && file[i + 1] == std::byte{marker}) return i;
  }
  FAIL("no such marker");
  return 0;
}

Bytes with(Bytes file, std::size_t at, std::initializer_list<int> bytes) {
  for (const int byte : bytes) file.at(at++) = static_cast<std::byte>(byte);
  return file;
}

Bytes text_bytes(const std::string& text) {
  Bytes bytes;
  for (const char c : text) bytes.push_back(static_cast<std::byte>(c));
  return bytes;
}

}  // namespace

TEST_CASE("pictures: every kind of JPEG and PNG decodes to Pillow's pixels") {
  CHECK(sample_names().size() > 30);
  for (const std::string& name : sample_names()) {
    check_against_pillow(sample_bytes(name), name, golden_pictures()["decoded"][name]);
  }
}

TEST_CASE("pictures: the ImageNet sample decodes to Pillow's pixels", "[shared][one_isa]") {
  const auto folder = imagenet_sample();
  if (!folder) MOH_SKIP("MOH_SHARED is not set");
  for (const auto& [name, expected] : golden_pictures()["decoded_sample"].items()) {
    check_against_pillow(bytes_of(*folder / name), name, expected);
  }
}

TEST_CASE("pictures: a part has the pixels of the whole picture") {
  for (const std::string& name : sample_names()) check_parts(sample_bytes(name), name, 60);
}

TEST_CASE("pictures: parts of the ImageNet sample have the pixels of the whole pictures",
          "[shared][one_isa]") {
  const auto folder = imagenet_sample();
  if (!folder) MOH_SKIP("MOH_SHARED is not set");
  for (const auto& entry : golden_pictures()["decoded_sample"].items())
    check_parts(bytes_of(*folder / entry.key()), entry.key(), 4);
}

TEST_CASE("pictures: broken files of ten kinds are refused by name") {
  const Bytes jpeg = sample_bytes("ycc420.jpg"), png = sample_bytes("rgb8.png");
  const std::size_t frame = find_marker(jpeg, 0xc0);
  constexpr std::size_t kPngWidth = 16;
  const struct {
    const char* kind;
    Bytes file;
    const char* found;
  } cases[] = {
      {"empty", {}, "found an empty file"},
      {"text", text_bytes("<html>not found</html>"), "found a web page, not the file"},
      {"another format", text_bytes("GIF89a..."), "found a GIF file"},
      {"unknown", text_bytes("\x01\x02\x03\x04"), "begins with the bytes 01020304"},
      {"JPEG cut in its header", cut(jpeg, 100), "ends within its header, at byte 100"},
      {"JPEG cut in its data", cut(jpeg, jpeg.size() * 3 / 4), "ends within row "},
      {"JPEG without its end", cut(jpeg, jpeg.size() - 2), "ends within row "},
      {"progressive JPEG cut", cut(sample_bytes("ycc420_progressive.jpg"), 2500), "ends within its data"},
      {"JPEG of 12 bits", with(jpeg, frame + 4, {12}), "Unsupported JPEG data precision 12"},
      {"JPEG of no size", with(jpeg, frame + 5, {0, 0, 0, 0}), "Empty JPEG image (DNL not supported)"},
      {"JPEG bomb", with(jpeg, frame + 5, {255, 200, 255, 200}),
       "at most 178956970 pixels, found 65480 x 65480"},
      {"JPEG of few bytes", with(jpeg, frame + 5, {31, 255, 31, 255}), "found 8191 x 8191 in 3723 bytes"},
      {"PNG cut", cut(png, png.size() - 40), "ends within its data"},
      {"PNG with a flipped bit", with(png, png.size() - 60, {std::to_integer<int>(png[png.size() - 60]) ^ 4}),
       "PNG: expected a picture that libpng can decode"},
      {"PNG header with a flipped bit", with(png, kPngWidth, {1}), "PNG: expected"},
  };
  for (const auto& each : cases) {
    INFO(each.kind);
    const std::string message = refused_picture(each.file);
    CHECK_THAT(message, Catch::StartsWith("a/b.jpg: "));
    CHECK_THAT(message, Catch::Contains(each.found));
  }
}

TEST_CASE("pictures: a part above the end of a cut file is refused, too") {
  const Bytes jpeg = sample_bytes("ycc420.jpg");
  const auto top = [](PictureSize size) { return PictureBox{0, 0, size.width, 8}; };
  CHECK(decode_picture(jpeg, "whole", top).height() == 8);
  CHECK_THAT(message_of<DataError>([&] { decode_picture(cut(jpeg, jpeg.size() - 300), "cut", top); }),
             Catch::Contains("ends below row 8 of 61"));
  // Accepted by Pillow: the rest is replaced by an end.
  Bytes ended = cut(jpeg, jpeg.size() - 300);
  ended.insert(ended.end(), {std::byte{0xff}, std::byte{0xd9}});
  CHECK(decode_picture(ended, "ended", top).height() == 8);
  CHECK(decode_picture(ended, "ended").height() == 61);
}

TEST_CASE("pictures: what follows the data of a JPEG is looked at as libjpeg does, for a part, too") {
  const Bytes jpeg = sample_bytes("ycc420.jpg");
  const auto top = [](PictureSize size) { return PictureBox{0, 0, size.width, 8}; };
  const auto ended_by = [&](std::initializer_list<int> markers) {
    Bytes file = cut(jpeg, jpeg.size() - 300);
    for (const int byte : markers) file.push_back(static_cast<std::byte>(byte));
    return file;
  };
  // Markers that cannot be there: one that means nothing, another picture, frame or scan, also after a table.
  for (const Bytes& file :
       {ended_by({0xff, 0x02, 0xff, 0xd9}), ended_by({0xff, 0xd8, 0xff, 0xd9}),
        ended_by({0xff, 0xc0, 0, 17, 8, 0, 61, 0, 83, 3, 1, 34, 0, 2, 17, 1, 3, 17, 1, 0xff, 0xd9}),
        ended_by({0xff, 0xda, 0, 12, 3, 1, 0, 2, 17, 3, 17, 0, 63, 0, 0xff, 0xd9}),
        ended_by({0xff, 0xfe, 0, 4, 0xff, 0xd9, 0xff, 0x70})}) {
    CHECK_THAT(refused_picture(file),
               Catch::StartsWith("a/b.jpg: JPEG: expected a picture that libjpeg can decode"));
    CHECK_THAT(
        message_of<DataError>([&] { decode_picture(file, "part", top); }),
        Catch::StartsWith("part: JPEG: expected the end of the picture after its data, found the marker "));
  }
  // Accepted by Pillow: segments and bytes that are no marker, whole or not, before the end or without one.
  for (const Bytes& file : {ended_by({0xff, 0xfe, 0, 4, 0xff, 0x70, 0xff, 0xd9}), ended_by({0xff, 0xe1}),
                            ended_by({0xff, 0xd9, 0xff, 0x02, 1}), ended_by({0xff, 0xe1, 99, 9, 9})}) {
    CHECK(decode_picture(file, "whole").height() == 61);
    CHECK(decode_picture(file, "part", top).height() == 8);
  }
}

TEST_CASE("pictures: a PNG of more pixels than its bytes can hold is refused before memory is taken") {
  // The header alone, with a checksum that fits: 13000 x 13000.
  const Bytes header =
      text_bytes(std::string("\x89PNG\r\n\x1a\n\0\0\0\x0dIHDR\0\0\x32\xc8\0\0\x32\xc8\x08\x02\0\0\0", 29));
  Bytes file = header;
  for (const int byte : {0x6d, 0xc0, 0x7f, 0x6f}) file.push_back(static_cast<std::byte>(byte));
  CHECK_THAT(refused_picture(file), Catch::Contains("data"));
}

TEST_CASE("decode_picture: memory that the system refuses is an error of the picture") {
  for (const char* name : {"rgb.jpg", "ycc420_progressive.jpg", "rgb8.png", "rgb8_interlaced.png"}) {
    const auto without_memory = [](PictureSize) -> PictureBox { throw std::bad_alloc(); };
    CHECK_THAT(message_of<DataError>([&] { decode_picture(sample_bytes(name), name, without_memory); }),
               Catch::StartsWith(std::string(name) + ": picture: expected memory for its pixels"));
  }
}
