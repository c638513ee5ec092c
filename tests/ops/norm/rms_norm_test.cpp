#include "ops/norm/rms_norm.h"

#include <catch2/catch.hpp>
#include <cmath>

#include "core/error.h"
#include "tests/ops/op_cases.h"

using namespace moh;
using namespace moh::test;

namespace {

constexpr double kEps = 1e-5;

std::vector<Tensor> reference(const std::vector<Tensor>& in) {
  const std::int64_t width = in[0].dim(-1), rows = in[0].numel() / std::max<std::int64_t>(width, 1);
  Tensor y = empty_like(in[0]);
  for (std::int64_t i = 0; i < rows; ++i) {
    const double* x = in[0].data<double>() + i * width;
    double squares = 0;
    for (std::int64_t j = 0; j < width; ++j) squares += x[j] * x[j];
    for (std::int64_t j = 0; j < width; ++j) {
      y.data<double>()[i * width + j] = x[j] / std::sqrt(squares / width + kEps) * in[1].data<double>()[j];
    }
  }
  return {y};
}

}  // namespace

OP_CASES(rms_norm) {
  OpCases cases;
  for (const Shape& shape :
       {Shape{4}, Shape{1, 1}, Shape{0, 4}, Shape{3, 7}, Shape{2, 4, 32}, Shape{70, 65}}) {
    cases.push_back({.name = to_string(shape),
                     .inputs = {normal(shape), uniform({shape[-1]}, 0.5, 1.5)},
                     .run = [](const Inputs& in) { return Outputs{rms_norm(in[0], in[1], kEps)}; },
                     .reference = reference});
  }
  return cases;
}

TEST_CASE("ops: rms_norm refuses what does not fit") {
  const Variable x(normal({3, 7}));
  CHECK_THROWS_WITH(rms_norm(x, Variable(normal({8})), kEps),
                    "rms_norm: w: expected shape [7] (last axis of x), found [8]");
  CHECK_THROWS_AS(rms_norm(x, Variable(normal({7}).to(DType::kFloat32)), kEps), DTypeError);
  CHECK_THROWS_AS(rms_norm(x, Variable(normal({7})), 0.0), ValueError);
  CHECK_THROWS_AS(rms_norm(Variable(), Variable(normal({7})), kEps), ValueError);
}
