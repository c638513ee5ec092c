#include "train/apps/watch/series.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace moh::watch {

namespace {

constexpr auto kByValue = [](const Point& a, const Point& b) { return a.value < b.value; };

/// Adds the lowest and the highest of some points, in the order of their steps.
void add_extremes(std::span<const Point> points, std::vector<Point>& to) {
  const auto [low, high] = std::ranges::minmax_element(points, kByValue);
  to.push_back(*std::min(low, high));
  if (low != high) to.push_back(*std::max(low, high));
}

std::size_t column_of(const Point& point, const Window& window) {
  const double share = (point.step - window.from) / std::max(window.to - window.from, 1e-9);
  const auto column = static_cast<std::size_t>(std::max(share, 0.0) * window.columns);
  return std::min(column, static_cast<std::size_t>(window.columns) - 1);
}

std::span<const Point> within(std::span<const Point> points, const Window& window) {
  const auto begin = std::ranges::lower_bound(points, window.from, {}, &Point::step);
  const auto end = std::ranges::upper_bound(points, window.to, {}, &Point::step);
  return begin < end ? std::span(begin, end) : std::span<const Point>();
}

/// Calls `use` with the points of each column that has any.
template <class Use>
void for_each_column(std::span<const Point> points, const Window& window, Use use) {
  while (!points.empty()) {
    const std::size_t column = column_of(points.front(), window);
    const auto other = [&](const Point& point) { return column_of(point, window) != column; };
    const auto count = static_cast<std::size_t>(std::ranges::find_if(points, other) - points.begin());
    use(column, points.first(count));
    points = points.subspan(count);
  }
}

}  // namespace

void Series::add(Point point) {
  if (!points_.empty() && points_.back().step >= point.step)
    points_.erase(std::ranges::lower_bound(points_, point.step, {}, &Point::step), points_.end());
  points_.push_back(point);
}

void Series::halve() {
  constexpr std::size_t kNeighbours = 4;
  std::vector<Point> kept;
  kept.reserve(points_.size() / 2 + kNeighbours);
  for (std::span<const Point> left = points_; !left.empty();) {
    const std::size_t count = std::min(left.size(), kNeighbours);
    add_extremes(left.first(count), kept);
    left = left.subspan(count);
  }
  points_ = std::move(kept);
}

std::vector<Point> thinned(std::span<const Point> points, const Window& window) {
  const auto first = std::ranges::lower_bound(points, window.from, {}, &Point::step);
  const auto last = std::ranges::upper_bound(points, window.to, {}, &Point::step);
  std::vector<Point> kept;
  if (first > last) return kept;
  if (first != points.begin()) kept.push_back(*(first - 1));
  const std::span<const Point> shown(first, last);
  if (shown.size() <= 2 * static_cast<std::size_t>(window.columns)) {
    kept.insert(kept.end(), shown.begin(), shown.end());
  } else {
    for_each_column(shown, window,
                    [&](std::size_t, std::span<const Point> column) { add_extremes(column, kept); });
  }
  if (last != points.end()) kept.push_back(*last);
  return kept;
}

std::vector<BandPoint> band_of(std::span<const std::span<const Point>> runs, const Window& window) {
  struct Column {
    double steps = 0.0, sum = 0.0, squares = 0.0;
    int runs = 0;
  };
  std::vector<Column> columns(static_cast<std::size_t>(window.columns));
  for (const std::span<const Point> run : runs) {
    for_each_column(within(run, window), window, [&](std::size_t at, std::span<const Point> points) {
      double steps = 0.0, sum = 0.0;
      for (const Point& point : points) {
        steps += point.step;
        sum += point.value;
      }
      const auto count = static_cast<double>(points.size());
      Column& column = columns[at];
      column.steps += steps / count;
      column.sum += sum / count;
      column.squares += sum / count * (sum / count);
      ++column.runs;
    });
  }
  std::vector<BandPoint> band;
  for (const Column& column : columns) {
    if (column.runs == 0) continue;
    const double mean = column.sum / column.runs;
    const double excess = column.squares - column.sum * mean;
    const double deviation = column.runs > 1 ? std::sqrt(std::max(excess, 0.0) / (column.runs - 1)) : 0.0;
    band.push_back({static_cast<std::uint32_t>(std::llround(column.steps / column.runs)),
                    static_cast<float>(mean), static_cast<float>(mean - deviation),
                    static_cast<float>(mean + deviation)});
  }
  return band;
}

}  // namespace moh::watch
