#include "train/apps/watch/braille_chart.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>

#include "train/base/log/format.h"

namespace moh::watch {

namespace {

constexpr int kLabel = 9;  // columns left of the curves, with the axis
/// Bits of U+2800 by the row and the column of a dot.
constexpr std::uint8_t kDots[4][2] = {{0x01, 0x08}, {0x02, 0x10}, {0x04, 0x20}, {0x40, 0x80}};

struct Range {
  double low = std::numeric_limits<double>::infinity(), high = -std::numeric_limits<double>::infinity();
  void add(double value) {
    low = std::min(low, value);
    high = std::max(high, value);
  }
  /// 0 at the low end, 1 at the high one.
  double share(double value) const { return high > low ? (value - low) / (high - low) : 0.5; }
};

class Dots {
 public:
  Dots(int columns, int rows)
      : columns_(columns),
        rows_(rows),
        cells_(static_cast<std::size_t>(columns) * static_cast<std::size_t>(rows)) {}

  int width() const { return 2 * columns_; }
  int height() const { return 4 * rows_; }

  void line(int x0, int y0, int x1, int y1, std::size_t curve) {
    const int steps = std::max({std::abs(x1 - x0), std::abs(y1 - y0), 1});
    for (int i = 0; i <= steps; ++i) set(x0 + (x1 - x0) * i / steps, y0 + (y1 - y0) * i / steps, curve);
  }

  std::string row(int at, bool color) const {
    std::string text;
    std::optional<std::size_t> now;
    for (int i = 0; i < columns_; ++i) {
      const Cell& cell = cells_[index(i, at)];
      if (color && cell.bits != 0 && now != cell.curve) text += curve_color(*(now = cell.curve));
      text += cell.bits == 0 ? " " : utf8(cell.bits);
    }
    return now ? text + kEndColor : text;
  }

 private:
  struct Cell {
    std::uint8_t bits = 0;
    std::size_t curve = 0;
  };

  void set(int x, int y, std::size_t curve) {
    Cell& cell = cells_[index(x / 2, y / 4)];
    cell.bits |= kDots[y % 4][x % 2];
    cell.curve = curve;
  }

  std::size_t index(int column, int row) const {
    return static_cast<std::size_t>(row) * static_cast<std::size_t>(columns_) +
           static_cast<std::size_t>(column);
  }

  static std::string utf8(std::uint8_t bits) {
    return {'\xE2', static_cast<char>(0xA0 | bits >> 6), static_cast<char>(0x80 | (bits & 0x3F))};
  }

  int columns_, rows_;
  std::vector<Cell> cells_;
};

std::string label(const std::string& text) {
  return std::string(static_cast<std::size_t>(std::max(kLabel - 2 - static_cast<int>(text.size()), 0)), ' ') +
         text;
}

void draw(const std::vector<Point>& curve, std::size_t at, const Range& steps, const Range& values,
          Dots& dots) {
  const auto x_of = [&](const Point& point) {
    return static_cast<int>(std::lround(steps.share(point.step) * (dots.width() - 1)));
  };
  const auto y_of = [&](const Point& point) {
    return static_cast<int>(std::lround((1.0 - values.share(point.value)) * (dots.height() - 1)));
  };
  for (std::size_t i = 0; i < curve.size(); ++i) {
    const Point& before = curve[i == 0 ? 0 : i - 1];
    dots.line(x_of(before), y_of(before), x_of(curve[i]), y_of(curve[i]), at);
  }
}

}  // namespace

std::string curve_color(std::size_t at) {
  constexpr int kColors[] = {36, 33, 35, 32, 34, 31};
  return "\033[" + std::to_string(kColors[at % std::size(kColors)]) + "m";
}

std::vector<std::string> braille_chart(std::span<const std::vector<Point>> curves, const ChartSize& size) {
  Range steps, values;
  for (const std::vector<Point>& curve : curves) {
    for (const Point& point : curve) {
      steps.add(point.step);
      values.add(point.value);
    }
  }
  if (steps.low > steps.high) return {"no records yet"};
  Dots dots(std::max(size.columns - kLabel, 8), std::max(size.rows - 1, 1));
  for (std::size_t i = 0; i < curves.size(); ++i) draw(curves[i], i, steps, values, dots);
  std::vector<std::string> lines;
  const int rows = dots.height() / 4;
  for (int i = 0; i < rows; ++i) {
    const bool is_end = i == 0 || i == rows - 1;
    const double value = i == 0 ? values.high : values.low;
    lines.push_back(label(is_end ? format_fixed(value, 3) : "") + " ┤" + dots.row(i, size.color));
  }
  const std::string first = "step " + std::to_string(static_cast<std::uint32_t>(steps.low)),
                    last = std::to_string(static_cast<std::uint32_t>(steps.high));
  const int gap = dots.width() / 2 - static_cast<int>(first.size() + last.size());
  lines.push_back(std::string(kLabel, ' ') + first +
                  std::string(static_cast<std::size_t>(std::max(gap, 1)), ' ') + last);
  return lines;
}

}  // namespace moh::watch
