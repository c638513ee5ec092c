#include "ops/linalg/linear.h"

#include <algorithm>
#include <catch2/catch.hpp>

#include "core/error.h"
#include "ops/elementwise/add.h"
#include "ops/shape/reshape.h"
#include "tests/ops/op_cases.h"
#include "tests/support/same_bits.h"

using namespace moh;
using namespace moh::test;

namespace {

std::vector<Tensor> linear_reference(const std::vector<Tensor>& in) {
  const std::int64_t width = in[1].dim(1), out = in[1].dim(0), rows = in[0].numel() / width;
  Tensor y = empty({rows, out}, DType::kFloat64);
  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::int64_t o = 0; o < out; ++o) {
      double sum = in[2].defined() ? in[2].data<double>()[o] : 0.0;
      for (std::int64_t j = 0; j < width; ++j) {
        sum += in[0].data<double>()[i * width + j] * in[1].data<double>()[o * width + j];
      }
      y.data<double>()[i * out + o] = sum;
    }
  }
  std::vector<std::int64_t> extents(in[0].shape().extents().begin(), in[0].shape().extents().end());
  extents.back() = out;
  return {y.reshape(Shape(std::span<const std::int64_t>(extents)))};
}

OpCase linear_case(const Shape& x, std::int64_t out, bool bias) {
  return {.name = to_string(x) + " -> " + std::to_string(out) + (bias ? " with bias" : ""),
          .inputs = {normal(x, 1), normal({out, x[-1]}, 2), bias ? normal({out}, 3) : Tensor()},
          .run = [](const Inputs& in) { return Outputs{linear(in[0], in[1], in[2])}; },
          .reference = linear_reference,
          .units = 32};
}

}  // namespace

OP_CASES(linear) {
  return {linear_case({1, 1}, 1, true),     linear_case({5}, 3, false),   linear_case({3, 7}, 5, true),
          linear_case({2, 3, 8}, 17, true), linear_case({0, 4}, 3, true), linear_case({66, 5}, 4, false)};
}

OP_CASES(linears) {
  OpCases cases;
  cases.push_back(
      {.name = "3 weights, the outer two with biases",
       .inputs = {normal({2, 3, 8}, 1), normal({5, 8}, 2), normal({4, 8}, 3), normal({17, 8}, 4),
                  normal({5}, 5), normal({17}, 6)},
       .run = [](const Inputs& in) -> Outputs {
         return linears(in[0], {in[1], in[2], in[3]}, {in[4], Variable(), in[5]});
       },
       .reference =
           [](const std::vector<Tensor>& in) {
             std::vector<Tensor> results;
             for (const auto& [w, b] : {std::pair{in[1], in[4]}, {in[2], Tensor()}, {in[3], in[5]}})
               results.push_back(linear_reference({in[0], w, b}).front());
             return results;
           },
       .units = 32});
  for (const std::vector<std::int64_t>& outs :
       std::vector<std::vector<std::int64_t>>{{1}, {3, 5}, {17, 2, 40}}) {
    std::vector<Tensor> inputs = {normal({2, 3, 8}, 1)};
    for (std::size_t i = 0; i < outs.size(); ++i) inputs.push_back(normal({outs[i], 8}, 2 + i));
    cases.push_back({.name = std::to_string(outs.size()) + " weights",
                     .inputs = inputs,
                     .run = [](const Inputs& in) -> Outputs {
                       return linears(in[0], {in.begin() + 1, in.end()});
                     },
                     .reference =
                         [](const std::vector<Tensor>& in) {
                           std::vector<Tensor> results;
                           for (std::size_t i = 1; i < in.size(); ++i) {
                             results.push_back(linear_reference({in[0], in[i], Tensor()}).front());
                           }
                           return results;
                         },
                     .units = 32});
  }
  return cases;
}

namespace {

/// The columns of matrices side by side.
Tensor side_by_side(const std::vector<Tensor>& matrices) {
  const std::int64_t rows = matrices.front().numel() / matrices.front().dim(-1);
  std::int64_t width = 0;
  for (const Tensor& matrix : matrices) width += matrix.dim(-1);
  Tensor all = empty({rows, width}, DType::kFloat64);
  std::int64_t begin = 0;
  for (const Tensor& matrix : matrices) {
    for (std::int64_t i = 0; i < matrix.numel(); ++i) {
      const std::int64_t row = i / matrix.dim(-1), column = i % matrix.dim(-1);
      all.data<double>()[row * width + begin + column] = matrix.data<double>()[i];
    }
    begin += matrix.dim(-1);
  }
  return all;
}

/// Weights [3, 6], [5, 6] and [2, 6] and biases in float32, one behind the other.
struct Adjoining {
  std::vector<Variable> weights, biases;
};
Adjoining adjoining(bool adjoin) {
  const Tensor all = normal({10, 6}, 2).to(DType::kFloat32), bias = normal({10}, 3).to(DType::kFloat32);
  Adjoining parts;
  for (const auto& [begin, end] : {std::pair{0, 3}, {3, 8}, {8, 10}}) {
    const Tensor w = all.slice(begin, end), b = bias.slice(begin, end);
    parts.weights.emplace_back(adjoin ? w : w.clone(), true);
    parts.biases.emplace_back(adjoin ? b : b.clone(), true);
  }
  return parts;
}

}  // namespace

OP_CASES(packed_linear) {
  OpCases cases;
  for (const bool biased : {false, true}) {
    cases.push_back(
        {.name = biased ? "3 weights with biases" : "3 weights",
         .inputs = {normal({6, 8}, 1), normal({5, 8}, 2), normal({4, 8}, 3), normal({17, 8}, 4),
                    normal({5}, 5), normal({4}, 6), normal({17}, 7)},
         .run = [=](const Inputs& in) -> Outputs {
           const auto biases = in.begin() + 4;
           return {packed_linear(in[0], {in[1], in[2], in[3]},
                                 biased ? std::vector(biases, in.end()) : std::vector<Variable>())};
         },
         .reference = [=](const std::vector<Tensor>& in) -> std::vector<Tensor> {
           std::vector<Tensor> each;
           for (const std::size_t i : {1, 2, 3})
             each.push_back(linear_reference({in[0], in[i], biased ? in[i + 3] : Tensor()}).front());
           return {side_by_side(each)};
         },
         .units = 32});
  }
  return cases;
}

TEST_CASE("ops: packed_linear has the bits of linears, whether weights and gradients adjoin or not") {
  const bool adjoin = GENERATE(true, false), kept = GENERATE(true, false), biased = GENERATE(true, false);
  const Tensor input = normal({7, 6}, 1).to(DType::kFloat32), dy = normal({7, 10}, 4).to(DType::kFloat32);
  const Adjoining one = adjoining(adjoin), other = adjoining(false);
  const Tensor buffer = zeros({10, 6}, DType::kFloat32);
  std::int64_t begin = 0;
  for (Variable w : one.weights) {
    if (kept) w.keep_gradient_in(buffer.slice(begin, begin + w.dim(0)));
    begin += w.dim(0);
  }
  const Variable x(input, true), x_of_other(input, true);
  const auto biases_of = [&](const Adjoining& parts) {
    return biased ? parts.biases : std::vector<Variable>();
  };
  for (int pass = 0; pass < 2; ++pass) {  // the second one adds
    const Variable y = packed_linear(x, one.weights, biases_of(one));
    const std::vector<Variable> each = linears(x_of_other, other.weights, biases_of(other));
    std::vector<Tensor> dys;
    begin = 0;
    for (const Variable& part : each) {
      const Tensor dy_of_part = empty(part.shape(), DType::kFloat32);
      for (std::int64_t i = 0; i < part.numel(); ++i) {
        const std::int64_t at = i / part.dim(1) * 10 + begin + i % part.dim(1);
        CHECK(y.value().data<float>()[at] == part.value().data<float>()[i]);
        dy_of_part.data<float>()[i] = dy.data<float>()[at];
      }
      begin += part.dim(1);
      dys.push_back(dy_of_part);
    }
    y.backward(dy);
    backward(each, dys);
  }
  for (std::size_t i = 0; i < 3; ++i) {
    CHECK(same_bits(one.weights[i].grad(), other.weights[i].grad()));
    if (biased) CHECK(same_bits(one.biases[i].grad(), other.biases[i].grad()));
    if (kept) CHECK(one.weights[i].grad().shares_storage_with(buffer));
  }
  for (std::int64_t i = 0; i < x.numel(); ++i)
    CHECK(x.grad().data<float>()[i] == Approx(x_of_other.grad().data<float>()[i]).margin(1e-5));
}

TEST_CASE("ops: packed_linear gives gradients to what asks for them") {
  const Adjoining parts = adjoining(true);
  Variable(parts.weights[1]).set_requires_grad(false);
  Variable(parts.biases[0]).set_requires_grad(false);
  const Variable x(normal({4, 6}, 1).to(DType::kFloat32));
  const Tensor dy = normal({4, 10}, 5).to(DType::kFloat32);
  packed_linear(x, parts.weights, parts.biases).backward(dy);
  CHECK(parts.weights[0].grad().defined());
  CHECK_FALSE(parts.weights[1].grad().defined());
  CHECK(parts.weights[2].grad().defined());
  CHECK_FALSE(parts.biases[0].grad().defined());
  CHECK(parts.biases[1].grad().defined());
  CHECK_FALSE(x.grad().defined());
  CHECK_THROWS_AS(packed_linear(x, {}), ShapeError);
  CHECK_THROWS_AS(packed_linear(x, {Variable(zeros({3, 5}, DType::kFloat32))}), ShapeError);
  CHECK_THROWS_WITH(
      packed_linear(x, parts.weights, {parts.biases[0], Variable(), parts.biases[2]}),
      "packed_linear: biases: expected a tensor per weight, or no biases, found an undefined one");
}

TEST_CASE("ops: a float32 weight of a bfloat16 input is multiplied as it is") {
  const Tensor narrow = normal({4, 6}, 1).to(DType::kBFloat16),
               weight = normal({3, 6}, 2).to(DType::kFloat32);
  const Variable x(narrow, true), w(weight, true), wide_x(narrow.to(DType::kFloat32), true),
      wide_w(weight, true);
  const Variable y = linears(x, {w}, {}, DType::kFloat32)[0], wide_y = linears(wide_x, {wide_w})[0];
  const auto same = [](const Tensor& a, const Tensor& b) {
    return a.dtype() == b.dtype() && std::ranges::equal(a.span<float>(), b.span<float>());
  };
  CHECK(same(y.value(), wide_y.value()));
  const Tensor dy = normal({4, 3}, 3).to(DType::kFloat32);
  y.backward(dy);
  wide_y.backward(dy);
  CHECK(same(w.grad(), wide_w.grad()));
  // A bfloat16 leaf gathers its gradient in float32, rounded once as it leaves the op.
  CHECK(same(x.grad(), wide_x.grad().to(DType::kBFloat16).to(DType::kFloat32)));
  CHECK(linears(x, {w})[0].dtype() == DType::kBFloat16);
  CHECK_THROWS_AS(linears(wide_x, {Variable(weight.to(DType::kBFloat16))}), DTypeError);
}

TEST_CASE("ops: linears gives gradients to what asks for them, also when some results are not used") {
  const Variable x(normal({4, 6}, 1), true), a(normal({3, 6}, 2), true), b(normal({5, 6}, 3)),
      c(normal({2, 6}, 4), true);
  const std::vector<Variable> y = linears(x, {a, b, c});
  y[0].backward(normal({4, 3}, 5));
  CHECK(a.grad().defined());
  CHECK(x.grad().defined());
  CHECK_FALSE(b.grad().defined());
  CHECK_FALSE(c.grad().defined());
  CHECK_THROWS_AS(linears(x, {a, Variable(normal({3, 5}))}), ShapeError);
  CHECK_THROWS_AS(linears(x, {a, c}, {Variable(normal({3})), Variable(normal({3}))}), ShapeError);
  CHECK_THROWS_WITH(linears(x, {a, c}, {Variable()}),
                    "linears: biases: expected none, or one per weight, found 1");
}

TEST_CASE("ops: linear in bfloat16 can keep its result in float32") {
  const Variable x(normal({4, 9}).to(DType::kBFloat16), true),
      w(normal({3, 9}, 2).to(DType::kBFloat16), true);
  const Variable b(normal({3}, 3).to(DType::kBFloat16), true);
  const Variable y = linear(x, w, b, DType::kFloat32);
  CHECK(y.dtype() == DType::kFloat32);
  const Variable exact =
      linear(Variable(x.value().to(DType::kFloat64)), Variable(w.value().to(DType::kFloat64)),
             Variable(b.value().to(DType::kFloat64)));
  for (std::int64_t i = 0; i < y.numel(); ++i) {
    CHECK(y.value().data<float>()[i] == Approx(exact.value().data<double>()[i]).margin(1e-5));
  }
  y.backward(full({4, 3}, 1.0, DType::kFloat32));
  CHECK(w.grad().dtype() == DType::kFloat32);
  CHECK_THROWS_AS(linear(x, w, b, DType::kFloat64), DTypeError);
}

TEST_CASE("ops: linear refuses what does not fit") {
  const Variable x(normal({3, 7}));
  CHECK_THROWS_WITH(linear(x, Variable(normal({4, 8}))),
                    "linear: w: expected [O, 7] (last axis of x), found [4, 8]");
  CHECK_THROWS_AS(linear(x, Variable(normal({4, 7})), Variable(normal({5}))), ShapeError);
  CHECK_THROWS_AS(linear(x, Variable(normal({4, 7}).to(DType::kFloat32))), DTypeError);
}

TEST_CASE("ops: linear adds to a gradient that a weight has already, where it lies") {
  const auto leaf = [](const Shape& shape, std::uint64_t seed) {
    return Variable(normal(shape, seed), true);
  };
  const Variable x = leaf({6, 3}, 1), w = leaf({4, 3}, 2), b = leaf({4}, 3), other = leaf({4, 3}, 4);
  const Tensor dy = normal({6, 4}, 5);
  int hooks = 0;
  Variable(w).on_gradient([&](Variable&) { ++hooks; });
  linear(x, w, b).backward(dy);
  const Tensor once = w.grad().clone();
  const double* const place = w.grad().data<double>();
  linear(x, w, b).backward(dy);
  CHECK(w.grad().data<double>() == place);
  linears(x, {w, other})[0].backward(dy);
  CHECK(w.grad().data<double>() == place);
  CHECK(hooks == 3);
  for (std::int64_t i = 0; i < once.numel(); ++i)
    CHECK(w.grad().data<double>()[i] == Approx(3 * once.data<double>()[i]));
  CHECK_FALSE(other.grad().defined());
}

TEST_CASE("ops: a weight that two linears of one graph share, or that is computed, gets the sum") {
  const Variable x(normal({6, 3}, 1)), w(normal({4, 3}, 2), true), a(normal({4, 3}, 2), true);
  const Tensor dy = normal({6, 4}, 5);
  linear(x, w).backward(dy);
  const Tensor once = w.grad().clone();
  Variable(w).zero_grad();
  add(linear(x, w), linear(x, w)).backward(dy);
  linear(x, add(a, a)).backward(dy);
  for (std::int64_t i = 0; i < once.numel(); ++i) {
    CHECK(w.grad().data<double>()[i] == Approx(2 * once.data<double>()[i]));
    CHECK(a.grad().data<double>()[i] == Approx(2 * once.data<double>()[i]));
  }
}

TEST_CASE("ops: a bfloat16 weight that is computed gets its gradient through what computed it") {
  const auto leaf = [](const Shape& shape, std::uint64_t seed) {
    return Variable(normal(shape, seed).to(DType::kBFloat16), true);
  };
  const Variable x = leaf({6, 3}, 1), w = leaf({4, 3}, 2), b = leaf({4}, 3);
  const Variable flat_w = leaf({12}, 2), flat_b = leaf({2, 2}, 3);
  const Tensor dy = normal({6, 4}, 5).to(DType::kBFloat16);
  linear(x, w, b).backward(dy);
  linear(x, reshape(flat_w, {4, 3}), reshape(flat_b, {4})).backward(dy);
  const auto check = [](const Variable& direct, const Variable& computed) {
    const Tensor expected = direct.grad().to(DType::kBFloat16).to(DType::kFloat64);
    const Tensor found = computed.grad().to(DType::kFloat64);
    for (std::int64_t i = 0; i < expected.numel(); ++i)
      CHECK(found.data<double>()[i] == expected.data<double>()[i]);
  };
  check(w, flat_w);
  check(b, flat_b);
}
