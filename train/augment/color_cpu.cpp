#include "core/cpu_isa.h"
#include "train/augment/color_kernels.h"

namespace moh {

template <class Backend>
void ColorKernels<Backend>::blend(const std::uint8_t* from, std::uint8_t* to, std::ptrdiff_t count,
                                  float factor) {
#pragma omp simd
  for (std::ptrdiff_t i = 0; i < count; ++i) {
    const int base = from[i], difference = to[i] - base;
    float value = static_cast<float>(base) + factor * static_cast<float>(difference);
    value = value > 0 ? value : 0;
    value = value < 255 ? value : 255;
    to[i] = static_cast<std::uint8_t>(static_cast<std::int32_t>(value));
  }
}

template <class Backend>
void ColorKernels<Backend>::luminance(const std::uint8_t* rgb, std::ptrdiff_t pixels, std::uint8_t* to) {
#pragma omp simd
  for (std::ptrdiff_t i = 0; i < pixels; ++i) {
    const std::uint32_t sum =
        rgb[3 * i] * 19595U + rgb[3 * i + 1] * 38470U + rgb[3 * i + 2] * 7471U + 0x8000U;
    to[i] = static_cast<std::uint8_t>(sum >> 16);
  }
}

template <class Backend>
void ColorKernels<Backend>::smooth(const std::uint8_t* above, const std::uint8_t* row,
                                   const std::uint8_t* below, std::ptrdiff_t count, std::uint8_t* to) {
#pragma omp simd
  for (std::ptrdiff_t i = 3; i < count - 3; ++i) {
    const unsigned sum = 0U + above[i - 3] + above[i] + above[i + 3] + row[i - 3] + 5U * row[i] + row[i + 3] +
                         below[i - 3] + below[i] + below[i + 3];
    to[i] = static_cast<std::uint8_t>((2 * sum + 13) / 26);
  }
}

template struct ColorKernels<cpu::MOH_ISA>;

}  // namespace moh
