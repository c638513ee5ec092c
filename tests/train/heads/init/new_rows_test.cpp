#include "train/heads/init/initialise_model.h"

#include <catch2/catch.hpp>
#include <cmath>

using namespace moh;

namespace {

constexpr std::int64_t kOld = 400, kNew = 4000, kWidth = 3;

Tensor some_matrix() {
  Tensor matrix = zeros({kNew, kWidth}, DType::kFloat32);
  fill_normal(matrix.slice(0, kOld), {3, 1}, 2.0, 0.5);
  return matrix;
}

struct Moments {
  double mean = 0, std = 0;
};
Moments moments(const Tensor& rows, std::int64_t column) {
  Moments m;
  const auto count = static_cast<double>(rows.dim(0));
  const auto at = [&](std::int64_t i) { return rows.data<float>()[i * kWidth + column]; };
  for (std::int64_t i = 0; i < rows.dim(0); ++i) m.mean += at(i) / count;
  for (std::int64_t i = 0; i < rows.dim(0); ++i) m.std += std::pow(at(i) - m.mean, 2) / count;
  m.std = std::sqrt(m.std);
  return m;
}

bool same_rows(const Tensor& a, const Tensor& b) {
  return std::ranges::equal(a.span<float>(), b.span<float>());
}

}  // namespace

TEST_CASE("init: new rows are the mean of the old ones and a tenth of their deviation, old rows stay") {
  const Tensor matrix = some_matrix(), before = matrix.clone();
  fill_new_rows(matrix, kOld, NewRows::kMean, 0.02, {1, 2});
  CHECK(same_rows(matrix.slice(0, kOld), before.slice(0, kOld)));
  for (std::int64_t j = 0; j < kWidth; ++j) {
    const Moments old = moments(matrix.slice(0, kOld), j), added = moments(matrix.slice(kOld, kNew), j);
    CHECK(added.mean == Approx(old.mean).margin(0.1 * old.std * 4 / std::sqrt(kNew - kOld)));
    CHECK(added.std == Approx(0.1 * old.std).epsilon(0.05));
  }
}

TEST_CASE("init: normal and zero rows, and the seed decides") {
  const auto filled = [](NewRows how, std::uint64_t seed) {
    const Tensor matrix = some_matrix();
    fill_new_rows(matrix, kOld, how, 0.02, {seed, 2});
    return matrix.slice(kOld, kNew);
  };
  CHECK(moments(filled(NewRows::kNormal, 1), 1).mean == Approx(0).margin(0.002));
  CHECK(moments(filled(NewRows::kNormal, 1), 1).std == Approx(0.02).epsilon(0.05));
  const Tensor zeros = filled(NewRows::kZeros, 1);
  for (const float value : zeros.span<float>()) REQUIRE(value == 0.0F);
  for (const NewRows how : {NewRows::kMean, NewRows::kNormal}) {
    CHECK(same_rows(filled(how, 1), filled(how, 1)));
    CHECK_FALSE(same_rows(filled(how, 1), filled(how, 2)));
  }
}
