#include "ops/rope/rope.h"

#include <catch2/catch.hpp>
#include <cmath>

#include "core/error.h"
#include "tests/ops/op_cases.h"

using namespace moh;
using namespace moh::test;

namespace {

constexpr double kTheta = 10000.0;

std::vector<Tensor> reference(const Tensor& x, std::int64_t first_position) {
  const std::int64_t positions = x.dim(1), heads = x.dim(2), width = x.dim(3), half = width / 2;
  Tensor y = empty_like(x);
  for (std::int64_t row = 0; row < x.dim(0) * positions * heads; ++row) {
    const auto position = static_cast<double>(first_position + row / heads % positions);
    const double* from = x.data<double>() + row * width;
    double* to = y.data<double>() + row * width;
    for (std::int64_t i = 0; i < half; ++i) {
      const double angle =
          position * std::pow(kTheta, -2.0 * static_cast<double>(i) / static_cast<double>(width));
      to[i] = from[i] * std::cos(angle) - from[i + half] * std::sin(angle);
      to[i + half] = from[i + half] * std::cos(angle) + from[i] * std::sin(angle);
    }
  }
  return {y};
}

}  // namespace

OP_CASES(rope) {
  OpCases cases;
  for (const Shape& shape : {Shape{1, 1, 1, 2}, Shape{0, 3, 2, 4}, Shape{2, 0, 2, 4}, Shape{2, 3, 1, 6},
                             Shape{1, 5, 3, 34}, Shape{2, 2, 2, 64}}) {
    for (const std::int64_t first : {0, 9}) {
      cases.push_back(
          {.name = to_string(shape) + " from " + std::to_string(first),
           .inputs = {normal(shape)},
           .run =
               [=](const Inputs& in) {
                 const DType dtype = accumulate_dtype(in[0].dtype());
                 return Outputs{rope(in[0], rope_table(16, shape[-1], kTheta, dtype, in[0].device()), first)};
               },
           .reference = [=](const std::vector<Tensor>& in) { return reference(in[0], first); }});
    }
  }
  return cases;
}

TEST_CASE("ops: rope keeps the dot product a function of the distance") {
  const RopeTable table = rope_table(100, 8, kTheta, DType::kFloat64);
  const Tensor q = normal({1, 1, 1, 8}), k = normal({1, 1, 1, 8}, 2);
  const auto score = [&](std::int64_t q_position, std::int64_t k_position) {
    const Tensor a = rope(Variable(q), table, q_position).value();
    const Tensor b = rope(Variable(k), table, k_position).value();
    double sum = 0.0;
    for (int i = 0; i < 8; ++i) sum += a.data<double>()[i] * b.data<double>()[i];
    return sum;
  };
  CHECK(score(40, 33) == Approx(score(99, 92)).epsilon(1e-12));
  CHECK(std::abs(score(40, 33) - score(40, 32)) > 1e-3);
}

TEST_CASE("ops: rope_table is exact far from the origin") {
  const RopeTable table = rope_table(131072, 4, 500000.0);
  const double angle = 131071.0 * std::pow(500000.0, -0.5);
  CHECK(table.cos.data<float>()[131071 * 2 + 1] == static_cast<float>(std::cos(angle)));
  CHECK(table.sin.data<float>()[131071 * 2] == static_cast<float>(std::sin(131071.0)));
}

TEST_CASE("ops: rope refuses what does not fit") {
  const RopeTable table = rope_table(16, 4, kTheta, DType::kFloat64);
  const Variable x(normal({2, 3, 2, 4}));
  CHECK_THROWS_WITH(
      rope(x, table, 14),
      "rope: positions: expected up to 16, the rows of the table, found 3 from 14 on; build the "
      "table for more positions");
  CHECK_NOTHROW(rope(x, table, 13));
  CHECK_THROWS_WITH(rope(Variable(normal({2, 3, 2, 5})), table),
                    "rope: x: expected an even last axis, found [2, 3, 2, 5]");
  CHECK_THROWS_WITH(rope(Variable(normal({2, 3, 2, 6})), table),
                    "rope: table.cos: expected [positions, 3], found [16, 2]");
  CHECK_THROWS_WITH(rope(x, rope_table(16, 4, kTheta)),
                    "rope: table.cos: expected float64, found float32; pass this dtype to rope_table");
  CHECK_THROWS_AS(rope(x, {table.cos, rope_table(15, 4, kTheta, DType::kFloat64).sin}), ShapeError);
  CHECK_THROWS_AS(rope(x, table, -1), ValueError);
  CHECK_THROWS_AS(rope(x, RopeTable{}), ValueError);
  CHECK_THROWS_AS(rope(Variable(normal({3, 2, 4})), table), ShapeError);
  CHECK_THROWS_WITH(rope_table(16, 5, kTheta), "rope_table: head_dim: expected an even number, found 5");
  CHECK_THROWS_AS(rope_table(-1, 4, kTheta), ShapeError);
  CHECK_THROWS_AS(rope_table(16, 4, 0.0), ValueError);
  CHECK_THROWS_AS(rope_table(16, 4, kTheta, DType::kBFloat16), DTypeError);
}
