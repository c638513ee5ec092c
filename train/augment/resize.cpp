#include "train/augment/resize.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>

#include "core/error.h"
#include "core/visit_cpu_isa.h"
#include "train/augment/resize_kernels.h"

namespace moh {

namespace {

double support_of(Filter filter) {
  switch (filter) {
    case Filter::kBox:
      return 0.5;
    case Filter::kBilinear:
      return 1;
    case Filter::kBicubic:
      return 2;
  }
  fail_check(__FILE__, __LINE__, "filter", "unknown filter");
}

double weight_at(Filter filter, double x) {
  if (filter == Filter::kBox) return x > -0.5 && x <= 0.5 ? 1 : 0;
  x = std::abs(x);
  if (filter == Filter::kBilinear) return x < 1 ? 1 - x : 0;
  constexpr double kA = -0.5;
  if (x < 1) return ((kA + 2) * x - (kA + 3)) * x * x + 1;
  if (x < 2) return (((x - 5) * x + 8) * x - 4) * kA;
  return 0;
}

/// Halves up.
int half_up(double value) {
  return static_cast<int>(std::floor(value + 0.5));
}

std::int32_t fixed_point(double weight) {
  const double scaled = weight * (1 << ResampleWeights::kBits);
  return scaled < 0 ? -half_up(-scaled) : half_up(scaled);
}

template <class P, class Rows>
Rows rows_of(P& picture) {
  return {picture.row(0), static_cast<std::ptrdiff_t>(picture.row_bytes())};
}
ConstRows rows_of(const Picture& picture) {
  return rows_of<const Picture, ConstRows>(picture);
}
MutableRows rows_of(Picture& picture) {
  return rows_of<Picture, MutableRows>(picture);
}

int rounded_up(int count, int multiple) {
  return (count + multiple - 1) / multiple * multiple;
}

/// [pixels, taps rounded up to a multiple of `multiple`, 4]: each weight for three channels, and 0.
std::vector<std::int32_t> lanes_of(const ResampleWeights& w, int multiple) {
  const auto taps = static_cast<std::size_t>(rounded_up(w.taps, multiple));
  std::vector<std::int32_t> lanes(w.begins.size() * taps * 4);
  for (std::size_t x = 0; x < w.begins.size(); ++x) {
    for (std::size_t k = 0; k < static_cast<std::size_t>(w.taps); ++k)
      std::fill_n(lanes.begin() + static_cast<std::ptrdiff_t>((x * taps + k) * 4), 3,
                  w.weights[x * static_cast<std::size_t>(w.taps) + k]);
  }
  return lanes;
}

Picture resample_columns(const Picture& from, const ResampleWeights& w) {
  Picture to({static_cast<int>(w.begins.size()), from.height()});
  visit_cpu_isa([&]<class Backend>() {
    const int multiple = ResizeKernels<Backend>::taps_at_once();
    const std::vector<std::int32_t> lanes = lanes_of(w, multiple);
    const int taps = rounded_up(w.taps, multiple);
    ResizeKernels<Backend>::columns(rows_of(from), rows_of(to), to.height(), to.width(), taps,
                                    w.begins.data(), lanes.data());
  });
  return to;
}

Picture resample_rows(const Picture& from, const ResampleWeights& w) {
  Picture to({from.width(), static_cast<int>(w.begins.size())});
  visit_cpu_isa([&]<class Backend>() {
    ResizeKernels<Backend>::rows(rows_of(from), rows_of(to), to.height(), w.taps, w.begins.data(),
                                 w.weights.data());
  });
  return to;
}

}  // namespace

ResampleWeights resample_weights(int from, int to, Filter filter, int begin, int end) {
  const double scale = static_cast<double>(from) / to, stretch = std::max(scale, 1.0);
  const double support = support_of(filter) * stretch;
  const auto most = static_cast<std::size_t>(std::ceil(support)) * 2 + 1;
  std::vector<double> weights(most);
  std::vector<std::vector<std::int32_t>> rows;
  ResampleWeights result;
  for (int x = begin; x < end; ++x) {
    const double center = (x + 0.5) * scale;
    const int low = std::max(0, half_up(center - support));
    const int high = std::min(from, half_up(center + support));
    double sum = 0;
    for (int i = low; i < high; ++i) {
      const double weight = weight_at(filter, (i - center + 0.5) * (1 / stretch));
      weights[static_cast<std::size_t>(i - low)] = weight;
      sum += weight;
    }
    std::vector<std::int32_t>& row = rows.emplace_back();
    for (int i = 0; i < high - low; ++i) {
      const double weight = weights[static_cast<std::size_t>(i)];
      row.push_back(fixed_point(sum == 0 ? weight : weight / sum));
    }
    result.begins.push_back(low);
    result.taps = std::max(result.taps, high - low);
  }
  result.first = *std::ranges::min_element(result.begins);
  int last = 0;
  for (std::size_t x = 0; x < rows.size(); ++x) {
    last = std::max(last, result.begins[x] + static_cast<int>(rows[x].size()));
  }
  result.count = last - result.first;
  // All windows are equally long, and within what is used: those at its end begin earlier, with zeros.
  result.taps = std::min(result.taps, result.count);
  for (std::size_t x = 0; x < rows.size(); ++x) {
    const int own = result.begins[x] - result.first, moved = std::min(own, result.count - result.taps);
    result.begins[x] = moved;
    rows[x].insert(rows[x].begin(), static_cast<std::size_t>(own - moved), 0);
    rows[x].resize(static_cast<std::size_t>(result.taps));
    result.weights.insert(result.weights.end(), rows[x].begin(), rows[x].end());
  }
  return result;
}

Resize::Resize(PictureSize from, PictureSize to, Filter filter, const PictureBox& part)
    : source_(part),
      size_(part.size()),
      horizontal_(from.width != to.width),
      vertical_(from.height != to.height) {
  if (from.width < 1 || from.height < 1 || !is_within(part, to)) {
    throw ValueError(error_message("resize", "sizes", "at least 1 x 1, and a part of the result",
                                   to_string(from) + " to " + to_string(part.size()) + " at " +
                                       std::to_string(part.left) + ", " + std::to_string(part.top) + " of " +
                                       to_string(to)));
  }
  if (horizontal_) {
    columns_ = resample_weights(from.width, to.width, filter, part.left, part.right());
    source_.left = columns_.first;
    source_.width = columns_.count;
  }
  if (vertical_) {
    rows_ = resample_weights(from.height, to.height, filter, part.top, part.bottom());
    source_.top = rows_.first;
    source_.height = rows_.count;
  }
}

Picture Resize::operator()(const Picture& source) const {
  MOH_CHECK(source.size() == source_.size(), "Resize: not the part of the picture that it needs");
  if (horizontal_ && vertical_) return resample_rows(resample_columns(source, columns_), rows_);
  if (horizontal_) return resample_columns(source, columns_);
  if (vertical_) return resample_rows(source, rows_);
  return source.clone();
}

Picture resize(const Picture& picture, PictureSize size, Filter filter) {
  return Resize(picture.size(), size, filter, whole(size))(picture);
}

PictureSize resized_to_short_side(PictureSize size, int side) {
  const bool wide = size.width > size.height;
  const int shorter = wide ? size.height : size.width, longer = wide ? size.width : size.height;
  const int scaled = static_cast<int>(static_cast<double>(std::int64_t{side} * longer) / shorter);
  return wide ? PictureSize{scaled, side} : PictureSize{side, scaled};
}

}  // namespace moh
