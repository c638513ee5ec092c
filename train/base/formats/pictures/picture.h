#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string>

namespace moh {

/// Width and height in pixels.
struct PictureSize {
  int width = 0;
  int height = 0;

  bool operator==(const PictureSize&) const = default;
};

/// "500 x 375", for messages.
inline std::string to_string(PictureSize size) {
  return std::to_string(size.width) + " x " + std::to_string(size.height);
}

/// A rectangle of pixels: columns [left, left + width), rows [top, top + height).
struct PictureBox {
  int left = 0;
  int top = 0;
  int width = 0;
  int height = 0;

  int right() const { return left + width; }
  int bottom() const { return top + height; }
  PictureSize size() const { return {width, height}; }
  bool operator==(const PictureBox&) const = default;
};

inline PictureBox whole(PictureSize size) {
  return {0, 0, size.width, size.height};
}

/// Whether the box is not empty and lies within a picture of that size.
inline bool is_within(const PictureBox& box, PictureSize size) {
  return box.left >= 0 && box.top >= 0 && box.width > 0 && box.height > 0 &&
         box.width <= size.width - box.left && box.height <= size.height - box.top;
}

/// A picture of 8-bit RGB pixels: rows from the top, pixels from the left, without padding.
class Picture {
 public:
  static constexpr int kChannels = 3;
  /// Bytes behind the last row that vector code may read, and overwrite.
  static constexpr std::size_t kSlack = 64;

  Picture() = default;
  /// Pixels are undefined. width, height >= 0.
  explicit Picture(PictureSize size)
      : size_(size), bytes_(std::make_unique_for_overwrite<std::uint8_t[]>(num_bytes() + kSlack)) {
    std::memset(bytes_.get() + num_bytes(), 0, kSlack);
  }

  PictureSize size() const { return size_; }
  int width() const { return size_.width; }
  int height() const { return size_.height; }
  std::size_t row_bytes() const { return static_cast<std::size_t>(size_.width) * kChannels; }

  std::uint8_t* row(int y) { return bytes_.get() + static_cast<std::size_t>(y) * row_bytes(); }
  const std::uint8_t* row(int y) const { return bytes_.get() + static_cast<std::size_t>(y) * row_bytes(); }
  std::span<std::uint8_t> bytes() { return {bytes_.get(), num_bytes()}; }
  std::span<const std::uint8_t> bytes() const { return {bytes_.get(), num_bytes()}; }

  Picture clone() const {
    Picture copy(size_);
    if (num_bytes() > 0) std::memcpy(copy.bytes_.get(), bytes_.get(), num_bytes());
    return copy;
  }

 private:
  std::size_t num_bytes() const { return row_bytes() * static_cast<std::size_t>(size_.height); }

  PictureSize size_;
  std::unique_ptr<std::uint8_t[]> bytes_;
};

}  // namespace moh
