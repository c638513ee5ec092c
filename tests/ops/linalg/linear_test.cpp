#include "ops/linalg/linear.h"

#include <algorithm>
#include <catch2/catch.hpp>

#include "core/error.h"
#include "ops/elementwise/add.h"
#include "ops/shape/reshape.h"
#include "tests/ops/op_cases.h"

using namespace moh;
using namespace moh::test;

namespace {

std::vector<Tensor> reference(const std::vector<Tensor>& in) {
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

OpCase make_case(const Shape& x, std::int64_t out, bool bias) {
  return {.name = to_string(x) + " -> " + std::to_string(out) + (bias ? " with bias" : ""),
          .inputs = {normal(x, 1), normal({out, x[-1]}, 2), bias ? normal({out}, 3) : Tensor()},
          .run = [](const Inputs& in) { return Outputs{linear(in[0], in[1], in[2])}; },
          .reference = reference,
          .units = 32};
}

}  // namespace

OP_CASES(linear) {
  return {make_case({1, 1}, 1, true),     make_case({5}, 3, false),   make_case({3, 7}, 5, true),
          make_case({2, 3, 8}, 17, true), make_case({0, 4}, 3, true), make_case({66, 5}, 4, false)};
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
               results.push_back(reference({in[0], w, b}).front());
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
                             results.push_back(reference({in[0], in[i], Tensor()}).front());
                           }
                           return results;
                         },
                     .units = 32});
  }
  return cases;
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
