#include "train/apps/watch/series.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <vector>

using namespace moh::watch;

namespace {

Series series_of(std::uint32_t count, std::uint32_t peak) {
  Series series;
  for (std::uint32_t step = 1; step <= count; ++step)
    series.add({step, step == peak ? 100.0F : static_cast<float>(step % 7)});
  return series;
}

float highest(std::span<const Point> points) {
  return std::ranges::max_element(points, {}, &Point::value)->value;
}

}  // namespace

TEST_CASE("watch: a step that goes back replaces what was there") {
  Series series;
  for (const std::uint32_t step : {1, 2, 3, 4}) series.add({step, 1.0F});
  series.add({2, 5.0F});
  REQUIRE(series.points().size() == 2);
  CHECK(series.points()[0].step == 1);
  CHECK(series.points()[1].value == 5.0F);
}

TEST_CASE("watch: halving keeps peaks and the order of steps") {
  Series series = series_of(1001, 777);
  series.halve();
  series.halve();
  const std::span<const Point> points = series.points();
  CHECK(points.size() <= 252);
  CHECK(highest(points) == 100.0F);
  CHECK(std::ranges::is_sorted(points, {}, &Point::step));
}

TEST_CASE("watch: what is drawn has each column's lowest and highest point, and a neighbour on either side") {
  const Series series = series_of(10000, 5003);
  const std::vector<Point> all = thinned(series.points(), {0.0, 10000.0, 100});
  CHECK(all.size() <= 200);
  CHECK(highest(all) == 100.0F);
  CHECK(std::ranges::is_sorted(all, {}, &Point::step));

  const std::vector<Point> few = thinned(series.points(), {5000.0, 5004.0, 100});
  REQUIRE(few.size() == 7);
  CHECK(few.front().step == 4999);
  CHECK(few.back().step == 5005);

  CHECK(thinned({}, {0.0, 10.0, 5}).empty());
  CHECK(thinned(series.points(), {20000.0, 30000.0, 5}).size() == 1);
  CHECK(thinned(series.points(), {8.0, 3.0, 5}).empty());
  CHECK(thinned(series.points(), {5.0, 5.0, 1}).size() == 3);
}

TEST_CASE("watch: the band of runs is their mean and standard deviation") {
  const std::vector<Point> a = {{10, 1.0F}, {20, 4.0F}}, b = {{10, 3.0F}, {20, 4.0F}}, c = {{10, 2.0F}};
  const std::vector<std::span<const Point>> runs = {a, b, c};
  const std::vector<BandPoint> band = band_of(runs, {0.0, 20.0, 2});
  REQUIRE(band.size() == 1);  // both steps are in the last column
  CHECK(band_of(runs, {0.0, 21.0, 2}).size() == 2);
  const std::vector<BandPoint> fine = band_of(runs, {0.0, 40.0, 40});
  REQUIRE(fine.size() == 2);
  CHECK(fine[0].step == 10);
  CHECK(fine[0].mean == Approx(2.0));
  CHECK(fine[0].low == Approx(1.0));
  CHECK(fine[0].high == Approx(3.0));
  CHECK(fine[1].mean == Approx(4.0));
  CHECK(fine[1].low == Approx(4.0));
}
