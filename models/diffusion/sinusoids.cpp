#include "models/diffusion/sinusoids.h"

#include <cmath>

namespace moh {

namespace {

constexpr double kPeriod = 10000;

double frequency(std::int64_t i, std::int64_t count) {
  return std::exp(-std::log(kPeriod) * static_cast<double>(i) / static_cast<double>(count));
}

}  // namespace

Tensor grid_positions(std::int64_t side, std::int64_t width) {
  const std::int64_t quarter = width / 4;
  Tensor table = empty({side * side, width}, DType::kFloat64);
  for (std::int64_t token = 0; token < side * side; ++token) {
    double* to = table.data<double>() + token * width;
    const std::int64_t y = token / side, x = token % side;
    const auto row = static_cast<double>(y), column = static_cast<double>(x);
    for (std::int64_t i = 0; i < quarter; ++i) {
      const double w = frequency(i, quarter);
      to[i] = std::sin(column * w);
      to[quarter + i] = std::cos(column * w);
      to[2 * quarter + i] = std::sin(row * w);
      to[3 * quarter + i] = std::cos(row * w);
    }
  }
  return table;
}

void time_embedding(double t, std::span<float> to) {
  const std::int64_t half = std::ssize(to) / 2;
  for (std::int64_t i = 0; i < half; ++i) {
    const float angle = static_cast<float>(t) * static_cast<float>(frequency(i, half));
    to[static_cast<std::size_t>(i)] = static_cast<float>(std::cos(static_cast<double>(angle)));
    to[static_cast<std::size_t>(half + i)] = static_cast<float>(std::sin(static_cast<double>(angle)));
  }
}

Tensor time_embeddings(std::int64_t count, std::int64_t width) {
  Tensor table = empty({count, width}, DType::kFloat32);
  for (std::int64_t t = 0; t < count; ++t)
    time_embedding(static_cast<double>(t), table.select(t).span<float>());
  return table;
}

}  // namespace moh
