#include <csetjmp>
#include <cstdio>
// After <cstdio>, which it needs.
#include <jpeglib.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "core/error.h"
#include "train/base/formats/pictures/codecs.h"
#include "train/base/io/printable.h"

namespace moh {

namespace {

constexpr std::string_view kJpegFormat = "JPEG";

constexpr int kEndOfImage = 0xd9, kTemporary = 0x01;
constexpr bool is_restart(int marker) {
  return marker >= 0xd0 && marker <= 0xd7;
}
/// Whether a length and as many bytes follow, and libjpeg lets it stand after a picture's data: applications'
/// segments, comments, tables.
constexpr bool is_segment(int marker) {
  const bool of_application = marker >= 0xe0 && marker <= 0xef, is_table = marker == 0xc4 || marker == 0xcc;
  return of_application || is_table || (marker >= 0xdb && marker <= 0xdd) || marker == 0xfe;
}

/// Each scan of a progressive file visits all of its coefficients: many of them in a small file would take
/// minutes. Encoders write about 10; each of 64 coefficients of 3 components in 2 scans would be 384.
constexpr int kMaxScans = 400;

/// Blocks of 64 pixels take at least a bit, with Huffman codes.
constexpr std::int64_t kJpegPixelsPerByte = std::int64_t{64} * 8;

/// CMYK as Adobe's programs store it, inverted, to RGB, rounded as Pillow rounds.
void rgb_of_cmyk(const std::uint8_t* cmyk, int pixels, std::uint8_t* rgb) {
  for (int x = 0; x < pixels; ++x, cmyk += 4, rgb += 3) {
    const int white = cmyk[3];
    for (int c = 0; c < 3; ++c) {
      const int scaled = (255 - cmyk[c]) * white + 128;
      rgb[c] = static_cast<std::uint8_t>(std::max(0, white - (((scaled >> 8) + scaled) >> 8)));
    }
  }
}

/// libjpeg reports errors by a function that must not return: here by a jump back to guarded().
class JpegDecoder {
 public:
  explicit JpegDecoder(const PictureFile& file) : file_(file) {
    info_.err = jpeg_std_error(&errors_);
    errors_.error_exit = [](j_common_ptr info) { std::longjmp(self(info).jump_, 1); };
    errors_.emit_message = [](j_common_ptr, int) {};  // damage within the data, which Pillow ignores, too
    errors_.output_message = [](j_common_ptr) {};
    info_.client_data = this;
    guarded([this] { jpeg_create_decompress(&info_); });
    progress_.progress_monitor = [](j_common_ptr info) { self(info).check_scans(); };
    info_.progress = &progress_;
    source_.next_input_byte = reinterpret_cast<const JOCTET*>(file.bytes.data());
    source_.bytes_in_buffer = file.bytes.size();
    source_.init_source = [](j_decompress_ptr) {};
    source_.term_source = [](j_decompress_ptr) {};
    // No more data: the call that needs them fails, instead of inventing the rest of the picture.
    source_.fill_input_buffer = [](j_decompress_ptr) -> boolean { return FALSE; };
    source_.skip_input_data = [](j_decompress_ptr info, long count) {
      if (count <= 0) return;
      const std::size_t skipped = std::min(static_cast<std::size_t>(count), info->src->bytes_in_buffer);
      info->src->next_input_byte += skipped;
      info->src->bytes_in_buffer -= skipped;
    };
    source_.resync_to_restart = jpeg_resync_to_restart;
    info_.src = &source_;
  }
  ~JpegDecoder() { jpeg_destroy_decompress(&info_); }
  JpegDecoder(const JpegDecoder&) = delete;
  JpegDecoder& operator=(const JpegDecoder&) = delete;

  PictureSize read_header() {
    int status = 0;
    guarded([&] { status = jpeg_read_header(&info_, TRUE); });
    if (status != JPEG_HEADER_OK) fail_incomplete("ends within its header");
    const int channels = info_.num_components;
    if (channels != 1 && channels != 3 && channels != 4)
      file_.fail(kJpegFormat, "1, 3 or 4 colour components", std::to_string(channels));
    const PictureSize size{static_cast<int>(info_.image_width), static_cast<int>(info_.image_height)};
    // Arithmetic codes can take less than a bit.
    file_.check_size(kJpegFormat, size, info_.arith_code != 0 ? kMaxPicturePixels : kJpegPixelsPerByte);
    return size;
  }

  /// After read_header(). The box is within the picture.
  Picture decode(const PictureBox& box) {
    start();
    const Columns columns = crop_columns(box);
    Picture picture(box.size());
    if (box.top > 0) guarded([&] { jpeg_skip_scanlines(&info_, static_cast<JDIMENSION>(box.top)); });
    if (columns.width == box.width && info_.out_color_components == Picture::kChannels) {
      for (int y = 0; y < box.height; ++y) read_row(picture.row(y));
    } else {
      const auto pixel = static_cast<std::size_t>(info_.out_color_components);
      std::vector<std::uint8_t> row(static_cast<std::size_t>(columns.width) * pixel);
      const std::uint8_t* from = row.data() + static_cast<std::size_t>(box.left - columns.left) * pixel;
      for (int y = 0; y < box.height; ++y) {
        read_row(row.data());
        if (pixel == 4)
          rgb_of_cmyk(from, box.width, picture.row(y));
        else
          std::memcpy(picture.row(y), from, picture.row_bytes());
      }
    }
    finish();
    return picture;
  }

 private:
  struct Columns {
    int left = 0, width = 0;
  };

  static JpegDecoder& self(j_common_ptr info) { return *static_cast<JpegDecoder*>(info->client_data); }

  /// Calls libjpeg. `call` must own nothing, as an error leaves it by a jump. Throws DataError.
  template <class Call>
  void guarded(const Call& call) {
    if (setjmp(jump_) == 0) {  // NOLINT: libjpeg has no other way
      call();
      return;
    }
    fail_in_library();
  }

  [[noreturn]] void fail_in_library() {
    if (too_many_scans_)
      file_.fail(kJpegFormat, "at most " + std::to_string(kMaxScans) + " scans", "more of them");
    std::array<char, JMSG_LENGTH_MAX> message{};
    info_.err->format_message(reinterpret_cast<j_common_ptr>(&info_), message.data());
    file_.fail(kJpegFormat, "a picture that libjpeg can decode", message.data());
  }

  [[noreturn]] void fail_incomplete(const std::string& found) {
    file_.fail(kJpegFormat, "a complete picture",
               "one that " + found + ", at byte " + std::to_string(file_.bytes.size()));
  }

  void check_scans() {
    if (info_.input_scan_number <= kMaxScans) return;
    too_many_scans_ = true;
    std::longjmp(jump_, 1);
  }

  void start() {
    // Gray is repeated by libjpeg.
    info_.out_color_space = info_.num_components == 4 ? JCS_CMYK : JCS_RGB;
    boolean started = FALSE;
    guarded([&] { started = jpeg_start_decompress(&info_); });
    if (started == FALSE) fail_incomplete("ends within its data");
  }

  /// Has only the columns of the box computed, and some on either side, as far as they affect it: chroma
  /// samples are interpolated across the borders of blocks.
  Columns crop_columns(const PictureBox& box) {
    const int width = static_cast<int>(info_.output_width);
    const int margin = info_.max_h_samp_factor * DCTSIZE;
    const int left = std::max(0, box.left - margin), right = std::min(width, box.right() + margin);
    if (left == 0 && right == width) return {0, width};
    auto first = static_cast<JDIMENSION>(left), count = static_cast<JDIMENSION>(right - left);
    guarded([&] { jpeg_crop_scanline(&info_, &first, &count); });
    return {static_cast<int>(first), static_cast<int>(count)};
  }

  void read_row(std::uint8_t* row) {
    JSAMPROW rows[] = {row};
    JDIMENSION read = 0;
    guarded([&] { read = jpeg_read_scanlines(&info_, rows, 1); });
    if (read != 1) {
      fail_incomplete("ends within row " + std::to_string(info_.output_scanline) + " of " +
                      std::to_string(info_.output_height));
    }
  }

  /// A file that ends, or is damaged, below the box is broken all the same. Data that end in a marker are
  /// complete: libjpeg would make up for missing ones, and Pillow would not object. As libjpeg, it objects to
  /// markers that cannot follow.
  void finish() {
    if (jpeg_has_multiple_scans(&info_) != FALSE) return;  // the whole file was read before the first row
    if (info_.output_scanline == info_.output_height)
      return guarded([&] { jpeg_finish_decompress(&info_); });  // reads markers, as far as there are any
    Bytes rest{source_.next_input_byte, source_.next_input_byte + source_.bytes_in_buffer};
    int marker = info_.unread_marker;
    bool ended = marker != 0;
    while (marker != 0 || (marker = next_marker(rest)) != 0) {
      if (marker == kEndOfImage) return;
      ended = ended || !is_restart(marker);
      if (is_segment(marker)) {
        skip_segment(rest);
      } else if (!is_restart(marker) && marker != kTemporary) {
        file_.fail(kJpegFormat, "the end of the picture after its data",
                   "the marker ff" + hex_digits(std::string(1, static_cast<char>(marker))));
      }
      marker = 0;
    }
    if (ended) return;
    fail_incomplete("ends below row " + std::to_string(info_.output_scanline) + " of " +
                    std::to_string(info_.output_height));
  }

  struct Bytes {
    const JOCTET *at, *end;

    std::size_t size() const { return static_cast<std::size_t>(end - at); }
  };

  /// The next marker in `bytes`, which then begin after it; 0 if there is none.
  static int next_marker(Bytes& bytes) {
    while (const void* const found = std::memchr(bytes.at, 0xff, bytes.size())) {
      bytes.at = static_cast<const JOCTET*>(found) + 1;
      if (bytes.at == bytes.end) break;
      if (*bytes.at != 0 && *bytes.at != 0xff) return *bytes.at++;
    }
    bytes.at = bytes.end;
    return 0;
  }

  static void skip_segment(Bytes& bytes) {
    const std::size_t length = bytes.size() < 2 ? bytes.size() : std::size_t{bytes.at[0]} << 8U | bytes.at[1];
    bytes.at += std::min(length, bytes.size());
  }

  const PictureFile& file_;
  jpeg_decompress_struct info_{};
  jpeg_error_mgr errors_{};
  jpeg_progress_mgr progress_{};
  jpeg_source_mgr source_{};
  std::jmp_buf jump_{};
  bool too_many_scans_ = false;
};

}  // namespace

Picture decode_jpeg(const PictureFile& file, ChooseRegion region) {
  JpegDecoder decoder(file);
  const PictureBox box = region(decoder.read_header());
  return box.width == 0 ? Picture() : decoder.decode(box);
}

}  // namespace moh
