#include <png.h>

#include <algorithm>
#include <array>
#include <csetjmp>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "core/error.h"
#include "train/base/formats/pictures/codecs.h"

namespace moh {

namespace {

constexpr std::string_view kPngFormat = "PNG";

/// deflate makes at most 1032 bytes of one; of one bit each there are 8 pixels in a byte.
constexpr std::int64_t kPngPixelsPerByte = std::int64_t{1032} * 8;

/// Chunks that change no pixel of the result; some are compressed, and would take memory.
constexpr png_byte kIgnoredChunks[] =
    "bKGD\0cHRM\0eXIf\0gAMA\0hIST\0iCCP\0iTXt\0oFFs\0pCAL\0pHYs\0sBIT\0sCAL\0sPLT\0sRGB\0sTER\0tEXt\0tIME\0"
    "tRNS\0zTXt";

/// The number of the pixel's sample of 1, 2, 4 or 8 bits.
int packed_sample(const std::uint8_t* row, int x, int bits) {
  const int place = x * bits;  // at most 8 * kMaxPicturePixels
  return (row[place / 8] >> (8 - bits - place % 8)) & ((1 << bits) - 1);
}

class PngDecoder {
 public:
  explicit PngDecoder(const PictureFile& file) : file_(file), left_(file.bytes) {
    png_ = png_create_read_struct(
        PNG_LIBPNG_VER_STRING, this,
        [](png_structp png, png_const_charp message) { self(png_get_error_ptr(png)).jump_back(message); },
        [](png_structp, png_const_charp) {});
    MOH_CHECK(png_ != nullptr, "libpng could not be set up");
    guarded([this] {
      info_ = png_create_info_struct(png_);
      png_set_read_fn(png_, this, [](png_structp png, png_bytep to, png_size_t count) {
        self(png_get_io_ptr(png)).read(to, count);
      });
      // Sizes are checked by check_size().
      png_set_user_limits(png_, PNG_UINT_31_MAX, PNG_UINT_31_MAX);
      png_set_keep_unknown_chunks(png_, PNG_HANDLE_CHUNK_NEVER, nullptr, 0);
      png_set_keep_unknown_chunks(png_, PNG_HANDLE_CHUNK_NEVER, kIgnoredChunks,
                                  static_cast<int>(sizeof kIgnoredChunks / 5));
    });
  }
  ~PngDecoder() { png_destroy_read_struct(&png_, &info_, nullptr); }
  PngDecoder(const PngDecoder&) = delete;
  PngDecoder& operator=(const PngDecoder&) = delete;

  PictureSize read_header() {
    guarded([this] { png_read_info(png_, info_); });
    const png_uint_32 width = png_get_image_width(png_, info_), height = png_get_image_height(png_, info_);
    const PictureSize size{static_cast<int>(width), static_cast<int>(height)};
    file_.check_size(kPngFormat, size, kPngPixelsPerByte);
    return size;
  }

  /// After read_header(). The box is within the picture. All of the file is decoded, so that damage below the
  /// box is found.
  Picture decode(const PictureBox& box) {
    int passes = 0;
    guarded([&] {
      passes = png_set_interlace_handling(png_);
      png_read_update_info(png_, info_);
      bits_ = png_get_bit_depth(png_, info_);
      type_ = png_get_color_type(png_, info_);
    });
    MOH_CHECK(bits_ > 0, "a depth of PNG files");
    read_palette();
    Picture picture(box.size());
    const std::size_t row_bytes = png_get_rowbytes(png_, info_);
    const auto height = static_cast<int>(png_get_image_height(png_, info_));
    const bool interlaced = passes > 1;
    std::vector<std::uint8_t> rows(row_bytes * static_cast<std::size_t>(interlaced ? height : 1));
    for (int pass = 0; pass < passes; ++pass) {
      const bool last = pass == passes - 1;
      for (int y = 0; y < height; ++y) {
        std::uint8_t* row = rows.data() + (interlaced ? row_bytes * static_cast<std::size_t>(y) : 0);
        guarded([&] { png_read_row(png_, row, nullptr); });
        if (last && y >= box.top && y < box.bottom()) to_rgb(row, box, picture.row(y - box.top));
      }
    }
    return picture;
  }

 private:
  static PngDecoder& self(png_voidp decoder) { return *static_cast<PngDecoder*>(decoder); }

  /// Calls libpng. `call` must own nothing, as an error leaves it by a jump. Throws DataError.
  template <class Call>
  void guarded(const Call& call) {
    if (setjmp(jump_) == 0) {  // NOLINT: libpng has no other way
      call();
      return;
    }
    if (incomplete_)
      file_.fail(kPngFormat, "a complete picture",
                 "one that ends within its data, at byte " + std::to_string(file_.bytes.size()));
    file_.fail(kPngFormat, "a picture that libpng can decode", message_.data());
  }

  [[noreturn]] void jump_back(const char* message) {
    std::strncpy(message_.data(), message, message_.size() - 1);
    std::longjmp(jump_, 1);
  }

  void read(png_bytep to, png_size_t count) {
    if (count > left_.size()) {
      incomplete_ = true;
      std::longjmp(jump_, 1);
    }
    std::memcpy(to, left_.data(), count);
    left_ = left_.subspan(count);
  }

  /// Colours that the file does not have are black, as Pillow's.
  void read_palette() {
    if (type_ != PNG_COLOR_TYPE_PALETTE) return;
    png_colorp colors = nullptr;
    int count = 0;
    guarded([&] { png_get_PLTE(png_, info_, &colors, &count); });
    for (int i = 0; i < count; ++i) {
      palette_[static_cast<std::size_t>(i)] = {colors[i].red, colors[i].green, colors[i].blue};
    }
  }

  void to_rgb(const std::uint8_t* row, const PictureBox& box, std::uint8_t* rgb) const {
    const std::size_t channels = (type_ & PNG_COLOR_MASK_COLOR) != 0 ? 3 : 1;
    const std::size_t all = channels + ((type_ & PNG_COLOR_MASK_ALPHA) != 0 ? 1 : 0);
    const std::size_t bytes = bits_ == 16 ? 2 : 1;  // of a sample; the first is the upper one
    for (int x = box.left; x < box.right(); ++x, rgb += Picture::kChannels) {
      const std::uint8_t* from = row + static_cast<std::size_t>(x) * all * bytes;
      if (type_ == PNG_COLOR_TYPE_PALETTE) {
        const auto& color = palette_[static_cast<std::size_t>(packed_sample(row, x, bits_))];
        std::copy(color.begin(), color.end(), rgb);
      } else if (channels == 3) {
        for (std::size_t c = 0; c < 3; ++c) rgb[c] = from[c * bytes];
      } else if (bits_ < 8) {
        std::fill_n(rgb, 3,
                    static_cast<std::uint8_t>(packed_sample(row, x, bits_) * 255 / ((1 << bits_) - 1)));
      } else if (bits_ == 16 && all == 1) {
        std::fill_n(rgb, 3, from[0] > 0 ? 255 : from[1]);  // Pillow clips these, and these alone
      } else {
        std::fill_n(rgb, 3, from[0]);
      }
    }
  }

  const PictureFile& file_;
  std::span<const std::byte> left_;  ///< what libpng has not read yet
  png_structp png_ = nullptr;
  png_infop info_ = nullptr;
  int bits_ = 0, type_ = 0;
  std::array<std::array<std::uint8_t, 3>, 256> palette_{};
  std::jmp_buf jump_{};
  std::array<char, 128> message_{};
  bool incomplete_ = false;
};

}  // namespace

Picture decode_png(const PictureFile& file, ChooseRegion region) {
  PngDecoder decoder(file);
  const PictureBox box = region(decoder.read_header());
  return box.width == 0 ? Picture() : decoder.decode(box);
}

}  // namespace moh
