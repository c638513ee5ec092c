#include "ops/norm/layer_norm.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>

#include "core/error.h"
#include "ops/elementwise/add.h"
#include "ops/elementwise/gate_residual.h"
#include "ops/shape/reshape.h"
#include "tests/ops/op_cases.h"

using namespace moh;
using namespace moh::test;

namespace {

constexpr double kLayerNormEps = 1e-5;

std::vector<Tensor> layer_norm_reference(const std::vector<Tensor>& in) {
  const std::int64_t width = in[0].dim(-1);
  Tensor y = empty_like(in[0]);
  for (std::int64_t first = 0; first < y.numel(); first += width) {
    const double* x = in[0].data<double>() + first;
    double mean = 0.0, variance = 0.0;
    for (std::int64_t j = 0; j < width; ++j) mean += x[j] / static_cast<double>(width);
    for (std::int64_t j = 0; j < width; ++j)
      variance += (x[j] - mean) * (x[j] - mean) / static_cast<double>(width);
    for (std::int64_t j = 0; j < width; ++j) {
      const double weight = in[1].defined() ? in[1].data<double>()[j] : 1.0;
      const double bias = in[2].defined() ? in[2].data<double>()[j] : 0.0;
      y.data<double>()[first + j] = (x[j] - mean) / std::sqrt(variance + kLayerNormEps) * weight + bias;
    }
  }
  return {y};
}

}  // namespace

OP_CASES(layer_norm) {
  OpCases cases;
  for (const Shape& shape :
       {Shape{4}, Shape{1, 1}, Shape{0, 4}, Shape{3, 7}, Shape{2, 4, 32}, Shape{70, 33}, Shape{20, 270}}) {
    for (const bool has_weight : {false, true}) {
      for (const bool has_bias : {false, true}) {
        const Shape last{shape[-1]};
        cases.push_back(
            {.name = to_string(shape) + (has_weight ? " weight" : "") + (has_bias ? " bias" : ""),
             .inputs = {normal(shape), has_weight ? uniform(last, 0.5, 1.5) : Tensor(),
                        has_bias ? normal(last, 2) : Tensor()},
             .run = [](const Inputs& in) { return Outputs{layer_norm(in[0], in[1], in[2], kLayerNormEps)}; },
             .reference = layer_norm_reference,
             // One element has no variance: its gradient is 0, and what rounds is 1 / sqrt(eps) of it.
             .gradient_scale = shape[-1] > 1 ? 1e-6 : 1 / std::sqrt(kLayerNormEps)});
      }
    }
  }
  return cases;
}

namespace {

/// layer_norm of x as it is, then the modulation.
std::vector<Tensor> modulated_reference(const Tensor& x, const Tensor& modulation, std::int64_t first) {
  const Tensor y = layer_norm_reference({x, Tensor(), Tensor()})[0];
  const std::int64_t width = x.dim(-1), sample = x.numel() / std::max<std::int64_t>(x.dim(0), 1);
  for (std::int64_t i = 0; i < y.numel(); ++i) {
    const double* rows = modulation.data<double>() + (i / sample * modulation.dim(1) + first) * width;
    y.data<double>()[i] = y.data<double>()[i] * (1.0 + rows[width + i % width]) + rows[i % width];
  }
  return {y};
}

}  // namespace

OP_CASES(layer_norm_modulate) {
  struct Sizes {
    Shape x;
    std::int64_t rows, first;
  };
  OpCases cases;
  for (const Sizes& s : std::vector<Sizes>{{{0, 3, 4}, 2, 0},
                                           {{2, 0, 4}, 2, 0},
                                           {{1, 1, 1}, 2, 0},
                                           {{3, 8}, 3, 1},
                                           {{2, 5, 7}, 6, 3},
                                           {{2, 3, 4, 32}, 6, 0},
                                           {{3, 70, 33}, 2, 0},
                                           {{67, 2, 9}, 4, 2},
                                           {{1, 2, 2065}, 2, 0}}) {
    const std::int64_t width = s.x[-1];
    cases.push_back(
        {.name = to_string(s.x) + ", rows from " + std::to_string(s.first) + " of " + std::to_string(s.rows),
         .inputs = {normal(s.x), normal({s.x[0], s.rows, width}, 2)},
         .run =
             [=](const Inputs& in) {
               return Outputs{layer_norm_modulate(in[0], in[1], s.first, kLayerNormEps)};
             },
         .reference = [=](const auto& in) { return modulated_reference(in[0], in[1], s.first); },
         .gradient_scale = width > 1 ? 1e-6 : 1 / std::sqrt(kLayerNormEps)});
  }
  return cases;
}

/// A block as DiT's, whose inputs are results of ops: on a GPU each op adds its gradients to those of the
/// others.
OP_CASES(adaptive_layer_norm_block) {
  OpCases cases;
  for (const Shape& shape : {Shape{2, 5, 7}, Shape{3, 4, 32}, Shape{2, 3, 264}}) {
    const std::int64_t width = shape[-1];
    cases.push_back({.name = to_string(shape),
                     .inputs = {normal(shape), normal({shape[0], 4, width}, 2), uniform({width}, 0.5, 1.5)},
                     .run =
                         [=](const Inputs& in) {
                           const Variable x = reshape(in[0], shape), rows = reshape(in[1], in[1].shape());
                           const Variable y = layer_norm_modulate(x, rows, 1, kLayerNormEps);
                           const Variable z = gate_residual(x, y, rows, 0);
                           return Outputs{add(z, layer_norm(z, in[2], {}, kLayerNormEps))};
                         },
                     .reference =
                         [](const auto& in) {
                           const Tensor y = modulated_reference(in[0], in[1], 1)[0], z = in[0].clone();
                           const std::int64_t last = z.dim(-1), sample = z.numel() / z.dim(0);
                           for (std::int64_t i = 0; i < z.numel(); ++i) {
                             const double gate =
                                 in[1].template data<double>()[i / sample * 4 * last + i % last];
                             z.template data<double>()[i] += gate * y.data<double>()[i];
                           }
                           std::vector<Tensor> sum = layer_norm_reference({z, in[2], Tensor()});
                           sum[0].add(z);
                           return sum;
                         },
                     .gradient_scale = 1e-6});
  }
  return cases;
}

TEST_CASE("ops: layer_norm_modulate leaves the rows of others without a gradient") {
  const Variable x(normal({2, 3, 5})), modulation(normal({2, 4, 5}, 2), true);
  layer_norm_modulate(x, modulation, 1, kLayerNormEps).backward(normal({2, 3, 5}, 3));
  for (std::int64_t i = 0; i < modulation.numel(); ++i) {
    const std::int64_t row = i / 5 % 4;
    CHECK((modulation.grad().data<double>()[i] != 0.0) == (row == 1 || row == 2));
  }
}

TEST_CASE("ops: layer_norm_modulate refuses what does not fit") {
  const Variable x(normal({2, 3, 5})), modulation(normal({2, 4, 5}));
  const auto with = [&](const Tensor& other) {
    return layer_norm_modulate(x, Variable(other), 0, kLayerNormEps);
  };
  CHECK_THROWS_WITH(with(normal({3, 4, 5})),
                    "layer_norm_modulate: modulation: expected shape [2, 4, 5] (first and last axis of x), "
                    "found [3, 4, 5]");
  CHECK_THROWS_WITH(with(normal({2, 1, 5})),
                    "layer_norm_modulate: modulation: expected 2 rows or more, found [2, 1, 5]");
  CHECK_THROWS_WITH(layer_norm_modulate(x, modulation, 3, kLayerNormEps),
                    "layer_norm_modulate: row of modulation: expected 0 to 2, found 3");
  CHECK_THROWS_AS(layer_norm_modulate(x, modulation, -1, kLayerNormEps), ValueError);
  CHECK_THROWS_AS(with(normal({2, 20})), ShapeError);
  CHECK_THROWS_AS(with(normal({2, 4, 5}).to(DType::kFloat32)), DTypeError);
  CHECK_THROWS_AS(layer_norm_modulate(x, Variable(), 0, kLayerNormEps), ValueError);
  CHECK_THROWS_AS(layer_norm_modulate(Variable(normal({5})), modulation, 0, kLayerNormEps), ShapeError);
  CHECK_THROWS_AS(layer_norm_modulate(x, modulation, 0, 0.0), ValueError);
}

TEST_CASE("ops: layer_norm keeps the variance of values far from zero") {
  const Tensor x = tensor_of<float>({1, 4}, {10000.0F, 10001.0F, 10002.0F, 10003.0F});
  const Variable y = layer_norm(Variable(x), Variable(), Variable(), kLayerNormEps);
  CHECK(y.value().data<float>()[3] == Approx(1.5 / std::sqrt(1.25 + kLayerNormEps)).epsilon(1e-6));
}

TEST_CASE("ops: layer_norm refuses what does not fit") {
  const Variable x(normal({3, 7})), none;
  CHECK_THROWS_WITH(layer_norm(x, Variable(normal({8})), none, kLayerNormEps),
                    "layer_norm: weight: expected shape [7] (last axis of x), found [8]");
  CHECK_THROWS_WITH(layer_norm(x, none, Variable(normal({3, 7})), kLayerNormEps),
                    "layer_norm: bias: expected shape [7] (last axis of x), found [3, 7]");
  CHECK_THROWS_AS(layer_norm(x, none, Variable(normal({7}).to(DType::kFloat32)), kLayerNormEps), DTypeError);
  CHECK_THROWS_AS(layer_norm(x, none, none, 0.0), ValueError);
  CHECK_THROWS_AS(layer_norm(none, none, none, kLayerNormEps), ValueError);
  CHECK_THROWS_AS(layer_norm(Variable(normal({})), none, none, kLayerNormEps), ShapeError);
}
