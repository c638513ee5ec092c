#pragma once

// For kernel files only (they are compiled once per instruction set): everything here has internal linkage.
//
// Patches of an image: the pixels under the kernel, [kh, kw, C / groups], zeros outside the image.

#include "core/dtype.h"
#include "ops/conv/taps_cpu.h"

namespace moh {
namespace {

/// to = from. Elements go some at a time; the last of them may be copied twice.
template <class T>
[[gnu::always_inline]] inline void copy(const T* from, T* to, std::int64_t count) {
  constexpr std::int64_t kUnit = 8;
  if (count >= kUnit) {
    for (std::int64_t i = 0; i + kUnit <= count; i += kUnit)
      __builtin_memcpy(static_cast<void*>(to + i), from + i, kUnit * sizeof(T));
    const std::int64_t last = count - kUnit;
    __builtin_memcpy(static_cast<void*>(to + last), from + last, kUnit * sizeof(T));
    return;
  }
  for (std::int64_t i = 0; i < count; ++i) to[i] = from[i];
}
template <class T>
[[gnu::always_inline]] inline void clear(T* to, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) to[i] = T(0);
}

/// Calls body(pixel, value, count) for runs of values that are contiguous both in the image and in the patch:
/// all taps [first, last) if there is one group, else one tap at a time.
template <class Body>
[[gnu::always_inline]] inline void each_run(const ConvShape& s, TapRange taps, const Body& body) {
  const std::int64_t width = s.group_channels();
  if (s.groups == 1) return body(taps.first, taps.first * width, (taps.last - taps.first) * width);
  for (std::int64_t tap = taps.first; tap < taps.last; ++tap) body(tap, tap * width, width);
}

/// Copies one row of taps of a patch from the row of the image it covers; x0 is the column of its first tap.
template <class T>
void gather_taps(const T* image_row, T* patch, const ConvShape& s, TapRange taps, std::int64_t x0,
                 std::int64_t first_channel) {
  const std::int64_t width = s.group_channels();
  clear(patch, taps.first * width);
  each_run(s, taps, [=, &s](std::int64_t tap, std::int64_t value, std::int64_t count) {
    copy(image_row + (x0 + tap) * s.channels + first_channel, patch + value, count);
  });
  clear(patch + taps.last * width, (s.x.kernel - taps.last) * width);
}

/// The patches of output pixels [first, last), numbered through all images; patches are `stride` elements
/// apart.
template <class T>
void gather_patches(const T* x, T* patches, std::int64_t stride, const ConvShape& s, std::int64_t first,
                    std::int64_t last, std::int64_t first_channel) {
  const std::int64_t tap_row = s.x.kernel * s.group_channels(), image_row = s.x.input * s.channels;
  for (std::int64_t pixel = first; pixel < last; ++pixel, patches += stride) {
    const std::int64_t row = pixel / s.x.output, j = pixel % s.x.output, i = row % s.y.output;
    const TapRange rows = taps_inside(s.y, i), columns = taps_inside(s.x, j);
    const T* const top = x + (row / s.y.output * s.y.input + i * s.y.stride - s.y.padding) * image_row;
    for (std::int64_t r = 0; r < s.y.kernel; ++r) {
      T* const to = patches + r * tap_row;
      if (r < rows.first || r >= rows.last) {
        clear(to, tap_row);
      } else {
        gather_taps(top + r * image_row, to, s, columns, j * s.x.stride - s.x.padding, first_channel);
      }
    }
  }
}

}  // namespace
}  // namespace moh
