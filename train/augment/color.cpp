#include "train/augment/color.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <numeric>
#include <vector>

#include "core/visit_cpu_isa.h"
#include "train/augment/color_kernels.h"

namespace moh {

namespace {

using Table = std::array<std::uint8_t, 256>;
using Histogram = std::array<std::int64_t, 256>;

std::uint8_t clipped(double value) {
  return static_cast<std::uint8_t>(std::clamp(static_cast<int>(value), 0, 255));
}

template <class Value>
Table table_of(Value value) {
  Table table;
  for (int v = 0; v < 256; ++v) table[static_cast<std::size_t>(v)] = value(v);
  return table;
}

void map_values(Picture& picture, const Table& table) {
  for (std::uint8_t& value : picture.bytes()) value = table[value];
}

/// Each channel by a table that make(its histogram) returns.
template <class Make>
void map_channels(Picture& picture, Make make) {
  std::array<Histogram, Picture::kChannels> histograms{};
  const auto bytes = picture.bytes();
  for (std::size_t i = 0; i < bytes.size(); i += Picture::kChannels) {
    for (std::size_t c = 0; c < Picture::kChannels; ++c) ++histograms[c][bytes[i + c]];
  }
  std::array<Table, Picture::kChannels> tables;
  std::ranges::transform(histograms, tables.begin(), make);
  for (std::size_t i = 0; i < bytes.size(); i += Picture::kChannels) {
    for (std::size_t c = 0; c < Picture::kChannels; ++c) bytes[i + c] = tables[c][bytes[i + c]];
  }
}

Table identity() {
  return table_of([](int v) { return static_cast<std::uint8_t>(v); });
}

Table stretched(const Histogram& histogram) {
  const auto used = [](std::int64_t count) { return count > 0; };
  const auto low = std::ranges::find_if(histogram, used) - histogram.begin();
  const auto high = 255 - (std::find_if(histogram.rbegin(), histogram.rend(), used) - histogram.rbegin());
  if (high <= low) return identity();
  const double scale = 255.0 / static_cast<double>(high - low), offset = static_cast<double>(-low) * scale;
  return table_of([=](int v) { return clipped(v * scale + offset); });
}

Table equalized(const Histogram& histogram) {
  const std::int64_t pixels = std::accumulate(histogram.begin(), histogram.end(), std::int64_t{0});
  const auto last =
      std::find_if(histogram.rbegin(), histogram.rend(), [](std::int64_t count) { return count > 0; });
  const std::int64_t step = (pixels - *last) / 255;
  if (step == 0) return identity();
  std::int64_t sum = step / 2;
  return table_of([&](int v) {
    const std::int64_t value = sum / step;
    sum += histogram[static_cast<std::size_t>(v)];
    return static_cast<std::uint8_t>(std::min<std::int64_t>(value, 255));
  });
}

/// blend() with one value for all pixels.
void blend_with(Picture& picture, int value, double factor) {
  std::vector<std::uint8_t> from(256, static_cast<std::uint8_t>(value));
  Table table = identity();
  visit_cpu_isa([&]<class Backend>() {
    ColorKernels<Backend>::blend(from.data(), table.data(), 256, static_cast<float>(factor));
  });
  map_values(picture, table);
}

void blend_with(Picture& picture, const Picture& other, double factor) {
  visit_cpu_isa([&]<class Backend>() {
    ColorKernels<Backend>::blend(other.row(0), picture.row(0), std::ssize(picture.bytes()),
                                 static_cast<float>(factor));
  });
}

std::vector<std::uint8_t> luminance(const Picture& picture) {
  std::vector<std::uint8_t> values(picture.bytes().size() / Picture::kChannels);
  visit_cpu_isa([&]<class Backend>() {
    ColorKernels<Backend>::luminance(picture.row(0), std::ssize(values), values.data());
  });
  return values;
}

}  // namespace

void auto_contrast(Picture& picture) {
  map_channels(picture, stretched);
}

void equalize(Picture& picture) {
  map_channels(picture, equalized);
}

void invert(Picture& picture) {
  solarize(picture, 0);
}

void posterize(Picture& picture, int bits) {
  const int mask = 256 - (1 << (8 - bits));
  map_values(picture, table_of([=](int v) { return static_cast<std::uint8_t>(v & mask); }));
}

void solarize(Picture& picture, int threshold) {
  map_values(picture,
             table_of([=](int v) { return static_cast<std::uint8_t>(v < threshold ? v : 255 - v); }));
}

void solarize_add(Picture& picture, int addend) {
  map_values(picture, table_of([=](int v) { return clipped(v < 128 ? v + addend : v); }));
}

void adjust_brightness(Picture& picture, double factor) {
  blend_with(picture, 0, factor);
}

void adjust_contrast(Picture& picture, double factor) {
  const std::vector<std::uint8_t> values = luminance(picture);
  const auto sum = std::accumulate(values.begin(), values.end(), std::int64_t{0});
  const double mean = static_cast<double>(sum) / static_cast<double>(values.size());
  blend_with(picture, static_cast<int>(std::floor(mean + 0.5)), factor);
}

void adjust_saturation(Picture& picture, double factor) {
  const std::vector<std::uint8_t> values = luminance(picture);
  Picture gray(picture.size());
  std::uint8_t* to = gray.row(0);
  for (const std::uint8_t value : values) to = std::fill_n(to, Picture::kChannels, value);
  blend_with(picture, gray, factor);
}

void adjust_sharpness(Picture& picture, double factor) {
  Picture smooth = picture.clone();  // the border stays as it is
  for (int y = 1; y + 1 < picture.height(); ++y) {
    visit_cpu_isa([&]<class Backend>() {
      ColorKernels<Backend>::smooth(picture.row(y - 1), picture.row(y), picture.row(y + 1),
                                    static_cast<std::ptrdiff_t>(picture.row_bytes()), smooth.row(y));
    });
  }
  blend_with(picture, smooth, factor);
}

}  // namespace moh
