#include "models/vision/resample.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "core/error.h"

namespace moh {

namespace {

/// Keys 1981, with a = -1/2.
double cubic(double x) {
  constexpr double kA = -0.5;
  x = std::abs(x);
  if (x < 1) return ((kA + 2) * x - (kA + 3)) * x * x + 1;
  return x < 2 ? (((x - 5) * x + 8) * x - 4) * kA : 0;
}

/// [to, from] along one axis.
std::vector<double> axis_weights(std::int64_t from, std::int64_t to) {
  const double scale = static_cast<double>(from) / static_cast<double>(to), wide = std::max(scale, 1.0);
  std::vector<double> weights(static_cast<std::size_t>(from * to));
  for (std::int64_t i = 0; i < to; ++i) {
    const double center = (static_cast<double>(i) + 0.5) * scale;
    double* row = weights.data() + i * from;
    double sum = 0;
    for (std::int64_t j = 0; j < from; ++j)
      sum += row[j] = cubic((static_cast<double>(j) + 0.5 - center) / wide);
    for (std::int64_t j = 0; j < from; ++j) row[j] /= sum;
  }
  return weights;
}

}  // namespace

Tensor bicubic_weights(const GridSize& from, const GridSize& to) {
  for (const GridSize& grid : {from, to}) {
    if (grid.height >= 1 && grid.width >= 1) continue;
    throw ValueError(error_message("bicubic_weights", "grid", "1 or more tokens along each axis",
                                   std::to_string(grid.height) + " x " + std::to_string(grid.width)));
  }
  const std::vector<double> y = axis_weights(from.height, to.height), x = axis_weights(from.width, to.width);
  Tensor weights = empty({to.tokens(), from.tokens()}, DType::kFloat32);
  for (std::int64_t i = 0; i < weights.numel(); ++i) {
    const std::int64_t target = i / from.tokens(), source = i % from.tokens();
    const std::int64_t along_y = target / to.width * from.height + source / from.width;
    const std::int64_t along_x = target % to.width * from.width + source % from.width;
    weights.data<float>()[i] =
        static_cast<float>(y[static_cast<std::size_t>(along_y)] * x[static_cast<std::size_t>(along_x)]);
  }
  return weights;
}

Tensor position_weights(const GridSize& from, const GridSize& to, std::int64_t prefix) {
  const Tensor of_grid = bicubic_weights(from, to);
  Tensor weights = zeros({prefix + to.tokens(), prefix + from.tokens()}, DType::kFloat32);
  for (std::int64_t t = 0; t < prefix; ++t) weights.data<float>()[t * weights.dim(1) + t] = 1.0F;
  for (std::int64_t t = 0; t < to.tokens(); ++t) {
    std::copy_n(of_grid.data<float>() + t * from.tokens(), from.tokens(),
                weights.data<float>() + (prefix + t) * weights.dim(1) + prefix);
  }
  return weights;
}

}  // namespace moh
