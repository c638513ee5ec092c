#include "ops/norm/group_norm.h"

#include <catch2/catch.hpp>
#include <cmath>

#include "core/error.h"
#include "tests/ops/op_cases.h"
#include "tests/support/same_bits.h"

using namespace moh;
using namespace moh::test;

namespace {

constexpr double kGroupNormEps = 1e-6;

std::vector<Tensor> group_norm_reference(const std::vector<Tensor>& in, std::int64_t groups) {
  const Tensor& x = in[0];
  const std::int64_t channels = x.dim(3), pixels = x.dim(1) * x.dim(2), each = channels / groups;
  const double count = static_cast<double>(pixels * each);
  Tensor y = empty_like(x);
  for (std::int64_t i = 0; i < x.dim(0) * groups; ++i) {
    const std::int64_t begin = i / groups * pixels * channels + i % groups * each;
    const auto each_element = [&](auto body) {
      for (std::int64_t p = 0; p < pixels; ++p) {
        for (std::int64_t c = 0; c < each; ++c) body(begin + p * channels + c, i % groups * each + c);
      }
    };
    double mean = 0, variance = 0;
    each_element([&](std::int64_t j, std::int64_t) { mean += x.data<double>()[j] / count; });
    each_element(
        [&](std::int64_t j, std::int64_t) { variance += std::pow(x.data<double>()[j] - mean, 2) / count; });
    each_element([&](std::int64_t j, std::int64_t c) {
      y.data<double>()[j] =
          (x.data<double>()[j] - mean) / std::sqrt(variance + kGroupNormEps) * in[1].data<double>()[c] +
          in[2].data<double>()[c];
    });
  }
  return {y};
}

}  // namespace

OP_CASES(group_norm) {
  struct Sizes {
    Shape x;
    std::int64_t groups;
  };
  OpCases cases;
  for (const Sizes& s : std::vector<Sizes>{{{0, 2, 2, 4}, 2},
                                           {{1, 1, 1, 4}, 2},
                                           {{2, 3, 4, 8}, 2},
                                           {{2, 9, 7, 6}, 6},
                                           {{3, 2, 5, 33}, 3},
                                           {{1, 20, 21, 4}, 1},
                                           {{2, 6, 6, 32}, 32}}) {
    cases.push_back({.name = to_string(s.x) + " in " + std::to_string(s.groups),
                     .inputs = {normal(s.x), uniform({s.x[3]}, 0.5, 1.5), normal({s.x[3]}, 2)},
                     .run =
                         [=](const Inputs& in) {
                           return Outputs{group_norm(in[0], in[1], in[2], s.groups, kGroupNormEps)};
                         },
                     .reference = [=](const auto& in) { return group_norm_reference(in, s.groups); }});
  }
  return cases;
}

TEST_CASE("ops: group_norm of rows has the bits of the whole image") {
  const Shape shape{2, 70, 9, 6};
  const Tensor x = normal(shape).to(DType::kFloat32), w = uniform({6}, 0.5, 1.5).to(DType::kFloat32),
               b = normal({6}, 2).to(DType::kFloat32);
  const Tensor whole = group_norm(Variable(x), Variable(w), Variable(b), 3, kGroupNormEps).value();
  for (std::int64_t image = 0; image < 2; ++image) {
    const Tensor own = x.slice(image, image + 1);
    const GroupStatistics of = group_statistics(own, 3, kGroupNormEps);
    for (const auto& [first, last] : {std::pair(0, 1), std::pair(1, 36), std::pair(36, 70)}) {
      const Tensor rows = own.select(0).slice(first, last).reshape({1, last - first, 9, 6});
      const Tensor expected = whole.select(image).slice(first, last).reshape(rows.shape());
      CHECK(same_bits(group_norm_rows(rows, w, b, of), expected));
    }
  }
  CHECK_THROWS_AS(group_norm_rows(x, w, b, group_statistics(x.slice(0, 1), 3, kGroupNormEps)), Error);
}

TEST_CASE("ops: group_norm refuses what does not fit") {
  const Variable x(normal({2, 3, 4, 6})), w(normal({6})), b(normal({6}));
  CHECK_THROWS_WITH(group_norm(x, w, b, 4, kGroupNormEps),
                    Catch::Contains("group_norm: groups: expected a divisor of the 6 channels, found 4"));
  CHECK_THROWS_AS(group_norm(x, w, b, 0, kGroupNormEps), Error);
  CHECK_THROWS_AS(group_norm(x, Variable(normal({5})), b, 2, kGroupNormEps), ShapeError);
  CHECK_THROWS_AS(group_norm(Variable(normal({2, 6})), w, b, 2, kGroupNormEps), ShapeError);
  CHECK_THROWS_AS(group_norm(x, w, b, 2, 0), ValueError);
}
