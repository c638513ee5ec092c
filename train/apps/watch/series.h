#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace moh::watch {

/// A number of a record: 8 bytes, as a run may have millions.
struct Point {
  std::uint32_t step = 0;
  float value = 0.0F;
};

/// The numbers of one name over a run, in the order of their steps.
class Series {
 public:
  /// Points at this step and after it are dropped: a record that goes back replaces what was there.
  void add(Point point);
  /// Halves the number of points: of four neighbours the lowest and the highest stay, so that no peak is
  /// lost.
  void halve();
  std::span<const Point> points() const { return points_; }

 private:
  std::vector<Point> points_;
};

/// A range of steps, and how many columns of pixels show it (at least 1).
struct Window {
  double from = 0.0, to = 0.0;
  int columns = 1;
};

/// Points whose line looks like that through all of them: the lowest and the highest of each column, and one
/// neighbour on either side of the window, as lines lead there. All points where they are few.
std::vector<Point> thinned(std::span<const Point> points, const Window& window);

/// The mean of several runs and one standard deviation to either side.
struct BandPoint {
  std::uint32_t step = 0;
  float mean = 0.0F, low = 0.0F, high = 0.0F;
};
/// One point for each column in which a run has points; runs without one there are left out of it.
std::vector<BandPoint> band_of(std::span<const std::span<const Point>> runs, const Window& window);

}  // namespace moh::watch
