#pragma once

#include <span>
#include <string>
#include <vector>

#include "train/apps/watch/series.h"

namespace moh::watch {

/// The size and the abilities of what a chart is drawn on.
struct ChartSize {
  int columns = 80, rows = 12;  ///< with the axes
  bool color = false;
};

/// The ANSI sequence that begins the colour of curve number `at`, and the one that ends any.
std::string curve_color(std::size_t at);
inline constexpr const char* kEndColor = "\033[0m";

/// Draws curves over each other in braille patterns, 2 by 4 dots to a character: `rows` lines without ends.
/// The left has the highest and the lowest value, the last line the first and the last step. Lines say so
/// where there is nothing to draw.
std::vector<std::string> braille_chart(std::span<const std::vector<Point>> curves, const ChartSize& size);

}  // namespace moh::watch
