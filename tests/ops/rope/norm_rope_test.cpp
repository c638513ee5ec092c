#include "ops/rope/norm_rope.h"

#include <catch2/catch.hpp>
#include <cmath>

#include "core/error.h"
#include "ops/norm/rms_norm.h"
#include "tests/ops/op_cases.h"

using namespace moh;
using namespace moh::test;

namespace {

constexpr double kTheta = 10000.0, kNormRopeEps = 1e-5;

/// Heads that are normalised and then rotated, for positions from `first` on.
std::vector<Tensor> norm_rope_reference(const Tensor& x, const Tensor& w, std::int64_t first) {
  const std::int64_t positions = x.dim(1), heads = x.dim(2), width = x.dim(3), half = width / 2;
  Tensor y = empty_like(x);
  for (std::int64_t row = 0; row < x.dim(0) * positions * heads; ++row) {
    const auto position = static_cast<double>(first + row / heads % positions);
    const double* from = x.data<double>() + row * width;
    double squares = 0;
    for (std::int64_t j = 0; j < width; ++j) squares += from[j] * from[j];
    const auto normed = [&](std::int64_t j) {
      return from[j] / std::sqrt(squares / static_cast<double>(width) + kNormRopeEps) * w.data<double>()[j];
    };
    for (std::int64_t i = 0; i < half; ++i) {
      const double angle =
          position * std::pow(kTheta, -2.0 * static_cast<double>(i) / static_cast<double>(width));
      double* to = y.data<double>() + row * width;
      to[i] = normed(i) * std::cos(angle) - normed(i + half) * std::sin(angle);
      to[i + half] = normed(i + half) * std::cos(angle) + normed(i) * std::sin(angle);
    }
  }
  return {y};
}

}  // namespace

OP_CASES(norm_rope) {
  OpCases cases;
  // The last has more heads than the backward kernel has warps on the simulated GPU.
  for (const Shape& shape : {Shape{1, 1, 1, 2}, Shape{0, 3, 2, 4}, Shape{2, 0, 2, 4}, Shape{2, 3, 1, 6},
                             Shape{1, 5, 3, 66}, Shape{2, 2, 2, 128}, Shape{2, 7, 11, 8}}) {
    for (const std::int64_t first : {0, 9}) {
      cases.push_back(
          {.name = to_string(shape) + " from " + std::to_string(first),
           .inputs = {normal(shape), uniform({shape[-1]}, 0.5, 1.5)},
           .run =
               [=](const Inputs& in) {
                 const RopeTable table =
                     rope_table(16, shape[-1], kTheta, accumulate_dtype(in[0].dtype()), in[0].device());
                 return Outputs{norm_rope(in[0], in[1], kNormRopeEps, table.rows(first, shape[1]))};
               },
           .reference =
               [=](const std::vector<Tensor>& in) { return norm_rope_reference(in[0], in[1], first); }});
    }
  }
  // A document begins at token 2 of the second sequence: the reference's sequences are apart.
  cases.push_back(
      {.name = "documents",
       .inputs = {normal({2, 5, 3, 6}), uniform({6}, 0.5, 1.5)},
       .run =
           [=](const Inputs& in) {
             const Tensor starts = zeros({2, 5}, DType::kInt32);
             for (const int t : {7, 8, 9}) starts.data<std::int32_t>()[t] = 2;
             const RopeTable table =
                 rope_table(5, 6, kTheta, accumulate_dtype(in[0].dtype()), in[0].device());
             return Outputs{norm_rope(in[0], in[1], kNormRopeEps, table, starts.to(in[0].device()))};
           },
       .reference =
           [=](const std::vector<Tensor>& in) {
             const Tensor y = norm_rope_reference(in[0], in[1], 0).front();
             const Tensor later = in[0].reshape({1, 10, 3, 6}).select(0).slice(7, 10);
             y.reshape({10, 3, 6})
                 .slice(7, 10)
                 .copy_from(
                     norm_rope_reference(later.reshape({1, 3, 3, 6}), in[1], 0).front().reshape({3, 3, 6}));
             return std::vector<Tensor>{y};
           }});
  return cases;
}

// With a table whose factor is not 1, as YaRN's, gradients are no rotation.
TEST_CASE("ops: norm_rope is rms_norm and then rope, whatever the factor of the table") {
  const RopeScaling yarn{.kind = RopeScalingKind::kYarn, .factor = 4, .original_positions = 8};
  const RopeTable table = rope_table(5, 12, kTheta, DType::kFloat64, kCpu, yarn);
  const Variable x(normal({2, 5, 3, 12}, 1), true), w(uniform({12}, 0.5, 1.5), true);
  const Variable other_x(x.value(), true), other_w(w.value(), true);
  const Variable one = norm_rope(x, w, kNormRopeEps, table),
                 two = rope(rms_norm(other_x, other_w, kNormRopeEps), table);
  const Tensor dy = normal({2, 5, 3, 12}, 2);
  one.backward(dy);
  two.backward(dy);
  for (const auto& [found, expected] :
       {std::pair{one.value(), two.value()}, {x.grad(), other_x.grad()}, {w.grad(), other_w.grad()}}) {
    for (std::int64_t i = 0; i < found.numel(); ++i)
      CHECK(found.data<double>()[i] == Approx(expected.data<double>()[i]).epsilon(1e-12).margin(1e-13));
  }
}

TEST_CASE("ops: norm_rope refuses what does not fit") {
  const RopeTable table = rope_table(16, 4, kTheta, DType::kFloat64);
  const Variable x(normal({2, 3, 2, 4})), w(normal({4}));
  CHECK_NOTHROW(norm_rope(x, w, kNormRopeEps, table));
  CHECK_THROWS_WITH(norm_rope(x, Variable(normal({3})), kNormRopeEps, table),
                    "norm_rope: w: expected shape [4] (last axis of x), found [3]");
  CHECK_THROWS_AS(norm_rope(x, w, 0.0, table), ValueError);
  CHECK_THROWS_AS(norm_rope(x, Variable(normal({4}).to(DType::kFloat32)), kNormRopeEps, table), DTypeError);
  CHECK_THROWS_WITH(norm_rope(Variable(normal({2, 3, 2, 6})), Variable(normal({6})), kNormRopeEps, table),
                    "norm_rope: table.cos: expected [positions, 3], found [16, 2]");
  CHECK_THROWS_AS(norm_rope(x, w, kNormRopeEps, table.rows(0, 2)), ValueError);
}
