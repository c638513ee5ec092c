#include "ops/conv/conv_glu.h"

#include <catch2/catch.hpp>
#include <cmath>

#include "core/error.h"
#include "tests/ops/op_cases.h"

using namespace moh;
using namespace moh::test;

namespace {

std::vector<Tensor> conv_glu_reference(const std::vector<Tensor>& in) {
  const Tensor &h = in[0], &w = in[1], &b = in[2];
  const std::int64_t height = h.dim(1), width = h.dim(2), channels = w.dim(0), kh = w.dim(2), kw = w.dim(3);
  const Tensor y = empty({h.dim(0), height, width, channels}, DType::kFloat64);
  for (std::int64_t i = 0; i < y.numel(); ++i) {
    const std::int64_t c = i % channels, pixel = i / channels, px = pixel % width,
                       py = pixel / width % height;
    double z = b.data<double>()[c];
    for (std::int64_t tap = 0; tap < kh * kw; ++tap) {
      const std::int64_t dy = tap / kw - kh / 2, dx = tap % kw - kw / 2;
      if (py + dy < 0 || py + dy >= height || px + dx < 0 || px + dx >= width) continue;
      z += w.data<double>()[c * kh * kw + tap] *
           h.data<double>()[(pixel + dy * width + dx) * 2 * channels + c];
    }
    y.data<double>()[i] =
        z * 0.5 * std::erfc(-z / std::sqrt(2.0)) * h.data<double>()[(2 * pixel + 1) * channels + c];
  }
  return {y};
}

}  // namespace

OP_CASES(conv_glu) {
  struct Sizes {
    Shape h;
    std::int64_t kh, kw;
  };
  OpCases cases;
  for (const Sizes& s : std::vector<Sizes>{{{1, 1, 1, 2}, 1, 1},
                                           {{0, 3, 3, 4}, 3, 3},
                                           {{2, 4, 5, 6}, 3, 3},
                                           {{1, 3, 9, 34}, 3, 3},
                                           {{1, 2, 3, 260}, 3, 3},
                                           {{2, 6, 2, 10}, 5, 3}}) {
    const std::int64_t channels = s.h[3] / 2;
    cases.push_back({.name = to_string(s.h) + " kernel " + to_string(Shape{s.kh, s.kw}),
                     .inputs = {normal(s.h), normal({channels, 1, s.kh, s.kw}, 2), normal({channels}, 3)},
                     .run = [](const Inputs& in) { return Outputs{conv_glu(in[0], in[1], in[2])}; },
                     .reference = conv_glu_reference});
  }
  return cases;
}

TEST_CASE("ops: conv_glu refuses what does not fit") {
  const Variable h(normal({2, 3, 4, 6})), w(normal({3, 1, 3, 3})), b(normal({3}));
  CHECK_THROWS_WITH(
      conv_glu(Variable(normal({2, 3, 4, 3})), w, b),
      "conv_glu: h: expected shape [2, 3, 4, 6] (last axis: twice the first of w), found [2, 3, 4, 3]");
  CHECK_THROWS_WITH(conv_glu(h, Variable(normal({3, 1, 3, 2})), b),
                    "conv_glu: w's width: expected an odd number, found 2");
  CHECK_THROWS_AS(conv_glu(h, Variable(normal({3, 3, 3, 3})), b), ShapeError);
  CHECK_THROWS_AS(conv_glu(h, w, Variable(normal({6}))), ShapeError);
  CHECK_THROWS_AS(conv_glu(h, w, Variable()), ValueError);
  CHECK_THROWS_AS(conv_glu(h, Variable(normal({3, 1, 3, 3}).to(DType::kFloat32)), b), DTypeError);
}
