#include "train/apps/watch/curves_json.h"

#include <cstdint>
#include <span>

#include "train/apps/watch/json_text.h"

namespace moh::watch {

namespace {

/// Adds ,"NAME":[...].
template <class Range, class Number>
void add_column(const char* name, const Range& points, Number number, std::string& to) {
  to.append(",\"").append(name).append("\":");
  add_json_list(points, number, to);
}

void add_curve(const std::vector<Point>& points, std::string& to) {
  add_column(
      "steps", points, [](const Point& point) { return point.step; }, to);
  add_column(
      "values", points, [](const Point& point) { return point.value; }, to);
}

void add_band(const std::vector<BandPoint>& band, std::string& to) {
  add_column(
      "steps", band, [](const BandPoint& point) { return point.step; }, to);
  add_column(
      "mean", band, [](const BandPoint& point) { return point.mean; }, to);
  add_column(
      "low", band, [](const BandPoint& point) { return point.low; }, to);
  add_column(
      "high", band, [](const BandPoint& point) { return point.high; }, to);
}

/// The curve without the runs that it is of; "" if there are no points.
std::string curve_of(const DrawnRuns& drawn, const std::string& name, const Window& window) {
  std::string text;
  if (drawn.data.size() == 1) {
    drawn.data[0]->with_points(name, [&](std::span<const Point> points) {
      if (!points.empty()) add_curve(thinned(points, window), text);
    });
    return text;
  }
  std::vector<std::vector<Point>> copies;
  for (const std::shared_ptr<const RunData>& data : drawn.data)
    data->with_points(name, [&](std::span<const Point> points) {
      if (!points.empty()) copies.emplace_back(points.begin(), points.end());
    });
  if (!copies.empty())
    add_band(band_of(std::vector<std::span<const Point>>(copies.begin(), copies.end()), window), text);
  return text;
}

}  // namespace

std::string curves_json(const CurvesRequest& request) {
  std::string text = "{";
  for (const std::string& name : request.names) {
    text += text.size() > 1 ? "," : "";
    add_json(name, text);
    text += ":[";
    for (const DrawnRuns& drawn : request.drawn) {
      const std::string curve = curve_of(drawn, name, request.window);
      if (curve.empty()) continue;
      text += text.back() == '[' ? "{\"runs\":" : ",{\"runs\":";
      add_json_list(
          drawn.ids, [](int id) { return static_cast<std::uint32_t>(id); }, text);
      text += curve + "}";
    }
    text += "]";
  }
  return text + "}";
}

}  // namespace moh::watch
