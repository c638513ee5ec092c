#include "train/moh/init/new_rows.h"

#include <cmath>
#include <vector>

namespace moh {

namespace {

constexpr double kNoise = 0.1;  // of the old rows' deviation

struct Columns {
  std::vector<double> mean, std;
};

Columns columns_of_rows(const Tensor& rows) {
  const std::int64_t width = rows.dim(1);
  const auto count = static_cast<double>(rows.dim(0));
  Columns columns{std::vector<double>(static_cast<std::size_t>(width)),
                  std::vector<double>(static_cast<std::size_t>(width))};
  const float* values = rows.data<float>();
  for (std::int64_t i = 0; i < rows.numel(); ++i)
    columns.mean[static_cast<std::size_t>(i % width)] += values[i] / count;
  for (std::int64_t i = 0; i < rows.numel(); ++i) {
    const auto j = static_cast<std::size_t>(i % width);
    columns.std[j] += std::pow(values[i] - columns.mean[j], 2) / count;
  }
  for (double& value : columns.std) value = std::sqrt(value);
  return columns;
}

}  // namespace

void fill_new_rows(const Tensor& matrix, std::int64_t old_rows, NewRows how, double std, RandomKey key) {
  const std::int64_t width = matrix.dim(1);
  const Tensor target = matrix.slice(old_rows, matrix.dim(0));
  if (how == NewRows::kZeros) return target.fill(0);
  Columns columns;
  if (how == NewRows::kMean)
    columns = columns_of_rows(matrix.slice(0, old_rows).to(kCpu).to(DType::kFloat32));
  const Tensor rows = empty(target.shape(), DType::kFloat32);
  for (std::int64_t i = 0; i < rows.numel(); ++i) {
    const double noise = random_normal(key, static_cast<std::uint64_t>(old_rows * width + i));
    const auto j = static_cast<std::size_t>(i % width);
    const double value =
        how == NewRows::kMean ? columns.mean[j] + kNoise * columns.std[j] * noise : std * noise;
    rows.data<float>()[i] = static_cast<float>(value);
  }
  target.copy_from(rows);
}

}  // namespace moh
