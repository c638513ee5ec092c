#include "ops/optim/muon.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <vector>

#include "core/cpu_isa.h"
#include "core/error.h"
#include "tests/ops/op_cases.h"
#include "tests/support/every_isa.h"

using namespace moh;
using namespace moh::test;

namespace {

constexpr AdamWStep kMuonStep{.learning_rate = 0.02, .momentum = 0.9, .grad_scale = 0.5};

/// A matrix of doubles in plain loops.
struct Plain {
  std::int64_t rows, columns;
  std::vector<double> at;

  Plain(std::int64_t r, std::int64_t c) : rows(r), columns(c), at(static_cast<std::size_t>(r * c)) {}
  explicit Plain(const Tensor& t) : Plain(t.dim(0), t.dim(1)) {
    const Tensor wide = t.to(DType::kFloat64);
    at.assign(wide.data<double>(), wide.data<double>() + wide.numel());
  }
  double& operator()(std::int64_t i, std::int64_t j) { return at[static_cast<std::size_t>(i * columns + j)]; }
  double operator()(std::int64_t i, std::int64_t j) const {
    return at[static_cast<std::size_t>(i * columns + j)];
  }
};

Plain product(const Plain& a, const Plain& b) {
  Plain c(a.rows, b.columns);
  for (std::int64_t i = 0; i < a.rows; ++i) {
    for (std::int64_t k = 0; k < a.columns; ++k) {
      const double factor = a(i, k);
      const double* const from = b.at.data() + k * b.columns;
      double* const to = c.at.data() + i * b.columns;
      for (std::int64_t j = 0; j < b.columns; ++j) to[j] += factor * from[j];
    }
  }
  return c;
}

Plain transpose(const Plain& a) {
  Plain t(a.columns, a.rows);
  for (std::int64_t i = 0; i < a.rows; ++i)
    for (std::int64_t j = 0; j < a.columns; ++j) t(j, i) = a(i, j);
  return t;
}

/// As the authors' function does it: a tall matrix is transposed first.
Plain newton_schulz(Plain x) {
  const bool tall = x.rows > x.columns;
  if (tall) x = transpose(x);
  double squares = 0;
  for (const double value : x.at) squares += value * value;
  for (double& value : x.at) value /= std::sqrt(squares) + 1e-7;
  for (int step = 0; step < 5; ++step) {
    const Plain gram = product(x, transpose(x)), gram_squared = product(gram, gram);
    Plain polynomial = gram;
    for (std::size_t i = 0; i < gram.at.size(); ++i)
      polynomial.at[i] = -4.7750 * gram.at[i] + 2.0315 * gram_squared.at[i];
    const Plain more = product(polynomial, x);
    for (std::size_t i = 0; i < x.at.size(); ++i) x.at[i] = 3.4445 * x.at[i] + more.at[i];
  }
  return tall ? transpose(x) : x;
}

AdamWParameter matrix_of(const Shape& shape, DType dtype) {
  const DType state = accumulate_dtype(dtype);
  AdamWParameter p{.value = normal(shape, 1).to(dtype),
                   .grad = empty(shape, state),
                   .exp_avg = zeros(shape, state),
                   .weight_decay = 0.1,
                   .learning_rate_scale = 0.5,
                   .orthogonal = true};
  if (dtype == DType::kBFloat16) p.master = p.value.to(DType::kFloat32);
  return p;
}

/// Muon in plain float64 loops.
struct MuonReference {
  explicit MuonReference(const AdamWParameter& p)
      : value(p.master.defined() ? p.master : p.value), m(value.rows, value.columns) {}

  void update(const AdamWParameter& of) {
    const double rate = of.learning_rate_scale * kMuonStep.learning_rate, mu = kMuonStep.momentum;
    const Plain grad(of.grad);
    Plain u = m;
    for (std::size_t i = 0; i < m.at.size(); ++i) {
      const double g = grad.at[i] * kMuonStep.grad_scale;
      m.at[i] = mu * m.at[i] + (1 - mu) * g;
      u.at[i] = mu * m.at[i] + (1 - mu) * g;
    }
    const Plain direction = newton_schulz(u);
    const double length = 0.2 * std::sqrt(static_cast<double>(std::max(m.rows, m.columns)));
    for (std::size_t i = 0; i < m.at.size(); ++i)
      value.at[i] = value.at[i] * (1 - rate * of.weight_decay) - rate * length * direction.at[i];
  }

  Plain value, m;
};

double worst_of(const Tensor& found, const Plain& expected) {
  const Plain plain(found);
  double worst = 0;
  for (std::size_t i = 0; i < plain.at.size(); ++i)
    worst = std::max(worst, std::abs(plain.at[i] - expected.at[i]));
  return worst;
}

}  // namespace

TEST_CASE("ops: muon follows its formula", "[every_isa]") {
  for (const CpuIsa isa : every_isa()) {
    const CpuIsaScope scope(isa);
    for (const DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kFloat64}) {
      for (const Shape& shape : {Shape{1, 1}, Shape{1, 9}, Shape{7, 3}, Shape{40, 24}, Shape{128, 150}}) {
        INFO(cpu_isa_name(isa) << " " << dtype_name(dtype) << " " << to_string(shape));
        const AdamWParameter matrix = matrix_of(shape, dtype);
        MuonReference reference(matrix);
        for (std::uint64_t step = 1; step <= 3; ++step) {
          matrix.grad.copy_from(normal(shape, 10 + step));
          reference.update(matrix);
          adamw({&matrix, 1}, kMuonStep);
        }
        const double tolerance = dtype == DType::kFloat64 ? 1e-12 : 2e-6;
        CHECK(worst_of(matrix.master.defined() ? matrix.master : matrix.value, reference.value) < tolerance);
        CHECK(worst_of(matrix.exp_avg, reference.m) < tolerance);
      }
    }
  }
}

TEST_CASE(
    "ops: an orthogonalised matrix has singular values near one, and what a list has besides is as before") {
  const Tensor x = normal({24, 60}, 3);
  x.scale(1 / std::sqrt(24.0 * 60));
  const Plain rows(orthogonalised(x)), gram = product(rows, transpose(rows));
  for (std::int64_t i = 0; i < 24; ++i) {
    CHECK(gram(i, i) == Approx(1).margin(0.45));
    for (std::int64_t j = 0; j < i; ++j) CHECK(std::abs(gram(i, j)) < 0.25);
  }
  AdamWParameter vector{.value = normal({5}, 1),
                        .grad = normal({5}, 2),
                        .exp_avg = zeros({5}, DType::kFloat64),
                        .exp_avg_sq = zeros({5}, DType::kFloat64)};
  const AdamWParameter alone{vector.value.clone(), vector.grad, zeros({5}, DType::kFloat64),
                             zeros({5}, DType::kFloat64)};
  AdamWParameter matrix = matrix_of({4, 6}, DType::kFloat64);
  matrix.grad.copy_from(normal({4, 6}, 4));
  adamw(std::vector{vector, matrix}, kMuonStep);
  adamw({&alone, 1}, kMuonStep);
  CHECK(std::memcmp(vector.value.raw(), alone.value.raw(), alone.value.bytes()) == 0);
  matrix.value = matrix.value.reshape({24});
  matrix.grad = matrix.grad.reshape({24});
  matrix.exp_avg = matrix.exp_avg.reshape({24});
  CHECK_THROWS_WITH(adamw({&matrix, 1}, kMuonStep),
                    "adamw: parameter 0: expected a matrix, as it is updated by Muon, found [24]");
}
