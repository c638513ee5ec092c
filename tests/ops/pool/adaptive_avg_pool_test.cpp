#include "ops/pool/adaptive_avg_pool.h"

#include <catch2/catch.hpp>

#include "core/dry_run.h"
#include "core/error.h"
#include "ops/pool/adaptive_avg_pool_kernels.h"
#include "tests/ops/op_cases.h"

using namespace moh;
using namespace moh::test;

namespace {

/// Whether cell i of n covers pixel p of L: i L / n < p + 1 and p < (i + 1) L / n, in integers.
bool covers(std::int64_t i, std::int64_t n, std::int64_t p, std::int64_t pixels) {
  return i * pixels < (p + 1) * n && p * n < (i + 1) * pixels;
}

std::vector<Tensor> adaptive_avg_pool_reference(const Tensor& x, std::int64_t height, std::int64_t width) {
  const std::int64_t channels = x.dim(3);
  const Tensor y = zeros({x.dim(0), height, width, channels}, DType::kFloat64);
  for (std::int64_t i = 0; i < y.numel(); ++i) {
    const std::int64_t c = i % channels, cx = i / channels % width, cy = i / channels / width % height;
    double sum = 0, count = 0;
    for (std::int64_t pixel = 0; pixel < x.dim(1) * x.dim(2); ++pixel) {
      if (!covers(cy, height, pixel / x.dim(2), x.dim(1)) || !covers(cx, width, pixel % x.dim(2), x.dim(2)))
        continue;
      const std::int64_t image = i / channels / width / height;
      sum += x.data<double>()[(image * x.dim(1) * x.dim(2) + pixel) * channels + c];
      ++count;
    }
    y.data<double>()[i] = sum / count;
  }
  return {y};
}

}  // namespace

OP_CASES(adaptive_avg_pool) {
  struct Sizes {
    Shape x;
    std::int64_t height, width;
  };
  OpCases cases;
  for (const Sizes& s : std::vector<Sizes>{{{1, 1, 1, 1}, 1, 1},
                                           {{0, 4, 4, 3}, 2, 2},
                                           {{2, 6, 4, 5}, 3, 2},
                                           {{1, 7, 8, 3}, 3, 3},
                                           {{2, 5, 9, 33}, 4, 7},
                                           {{1, 14, 14, 4}, 1, 1},
                                           {{1, 3, 5, 2}, 3, 5}}) {
    cases.push_back(
        {.name = to_string(s.x) + " to " + to_string(Shape{s.height, s.width}),
         .inputs = {normal(s.x)},
         .run = [=](const Inputs& in) { return Outputs{adaptive_avg_pool(in[0], s.height, s.width)}; },
         .reference = [=](const auto& in) { return adaptive_avg_pool_reference(in[0], s.height, s.width); }});
  }
  return cases;
}

TEST_CASE("ops: the cells over a pixel are those that cover it") {
  for (std::int64_t pixels = 1; pixels < 20; ++pixels) {
    for (std::int64_t cells = 1; cells <= pixels; ++cells) {
      const PoolAxis axis{pixels, cells};
      for (std::int64_t p = 0; p < pixels; ++p) {
        for (std::int64_t i = 0; i < cells; ++i) {
          CHECK((axis.first(i) <= p && p < axis.last(i)) == covers(i, cells, p, pixels));
          CHECK((axis.first_over(p) <= i && i < axis.last_over(p)) == covers(i, cells, p, pixels));
        }
      }
    }
  }
}

TEST_CASE("ops: adaptive_avg_pool refuses what does not fit") {
  const Variable x(normal({2, 3, 4, 5}));
  CHECK_THROWS_WITH(adaptive_avg_pool(x, 4, 2),
                    "adaptive_avg_pool: height: expected 1 to the 3 pixels of x, found 4");
  CHECK_THROWS_AS(adaptive_avg_pool(x, 2, 0), ShapeError);
  const DryRunScope without_memory;
  const Variable wide(empty({1, 1, std::int64_t{1} << 31, 1}, DType::kFloat32, kCpu));
  CHECK_THROWS_WITH(adaptive_avg_pool(wide, 1, 1),
                    "adaptive_avg_pool: width: expected fewer than 2^31 pixels of x, found 2147483648");
  CHECK_THROWS_AS(adaptive_avg_pool(Variable(normal({2, 3, 4})), 1, 1), ShapeError);
}
