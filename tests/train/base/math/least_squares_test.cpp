#include "train/base/math/least_squares.h"

#include <catch2/catch.hpp>

#include "core/random.h"

using namespace moh;

namespace {

Tensor normal_matrix(const Shape& shape, std::uint64_t seed, DType dtype) {
  const Tensor matrix = empty(shape, dtype);
  fill_normal(matrix, {seed, 0}, 0.0, 1.0);
  return matrix;
}

/// x w^T.
Tensor images_of(const Tensor& x, const Tensor& w) {
  const Tensor y = zeros({x.dim(0), w.dim(0)}, DType::kFloat64);
  for (std::int64_t i = 0; i < y.numel(); ++i) {
    for (std::int64_t j = 0; j < x.dim(1); ++j)
      y.data<double>()[i] += double{x.data<float>()[i / w.dim(0) * x.dim(1) + j]} *
                             w.data<double>()[i % w.dim(0) * x.dim(1) + j];
  }
  return y;
}

}  // namespace

TEST_CASE("init: least squares find the map behind the data, in one piece or several") {
  for (const std::int64_t inputs : {1, 5, 37}) {
    const Tensor w = normal_matrix({3, inputs}, 1, DType::kFloat64);
    const Tensor x = normal_matrix({200, inputs}, 2, DType::kFloat32), y = images_of(x, w);
    LeastSquares whole(inputs, 3), pieces(inputs, 3);
    whole.add(x, y);
    pieces.add(x.slice(0, 70), y.slice(0, 70));
    pieces.add(x.slice(70, 200), y.slice(70, 200));
    for (const LeastSquares* fit : {&whole, &pieces}) {
      const Tensor found = fit->solve(1e-9);
      for (std::int64_t i = 0; i < w.numel(); ++i)
        CHECK(found.data<double>()[i] == Approx(w.data<double>()[i]).margin(1e-4));
    }
    double squares = 0;
    for (const double value : y.span<double>()) squares += value * value / 200;
    CHECK(whole.mean_square_of(w) == Approx(squares).epsilon(1e-4));
  }
}

TEST_CASE("init: the ridge makes maps small, and allows inputs that say the same, or nothing") {
  const Tensor x = normal_matrix({50, 4}, 2, DType::kFloat32);
  for (std::int64_t i = 0; i < 50; ++i) x.data<float>()[4 * i + 3] = x.data<float>()[4 * i];
  const Tensor w = normal_matrix({2, 4}, 1, DType::kFloat64);
  LeastSquares fit(4, 2);
  fit.add(x, images_of(x, w));
  const auto size_of = [&](double ridge) { return fit.mean_square_of(fit.solve(ridge)); };
  CHECK(size_of(1e-6) > size_of(0.1));
  CHECK(size_of(0.1) > size_of(10));
  LeastSquares nothing(4, 2);
  nothing.add(zeros({5, 4}, DType::kFloat32), zeros({5, 2}, DType::kFloat64));
  const Tensor none = nothing.solve(1e-3);
  for (const double value : none.span<double>()) CHECK(value == 0);
}
