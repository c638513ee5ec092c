#include "ops/linalg/gelu_mlp.h"

#include <catch2/catch.hpp>
#include <functional>

#include "autograd/node.h"
#include "core/allocator.h"
#include "core/error.h"
#include "ops/linalg/linear.h"
#include "tests/ops/activation/gelu_reference.h"
#include "tests/ops/op_cases.h"
#include "tests/ops/op_run.h"

using namespace moh;
using namespace moh::test;

namespace {

/// x w^T + b of matrices in float64; b may be undefined.
Tensor layer(const Tensor& x, const Tensor& w, const Tensor& b) {
  Tensor y = empty({x.dim(0), w.dim(0)}, DType::kFloat64);
  for (std::int64_t i = 0; i < y.dim(0); ++i) {
    for (std::int64_t o = 0; o < y.dim(1); ++o) {
      double sum = b.defined() ? b.data<double>()[o] : 0.0;
      for (std::int64_t j = 0; j < x.dim(1); ++j)
        sum += x.data<double>()[i * x.dim(1) + j] * w.data<double>()[o * x.dim(1) + j];
      y.data<double>()[i * y.dim(1) + o] = sum;
    }
  }
  return y;
}

struct Sizes {
  Shape x;
  std::int64_t inner, out;
  bool biases;
};

OpCase make_case(const Sizes& s, GeluForm form) {
  const std::int64_t width = s.x[-1];
  return {
      .name = to_string(s.x) + " -> " + std::to_string(s.inner) + " -> " + std::to_string(s.out) +
              (s.biases ? " with biases" : "") + (form == GeluForm::kExact ? " exact" : " tanh"),
      .inputs = {normal(s.x, 1), normal({s.inner, width}, 2), s.biases ? normal({s.inner}, 3) : Tensor(),
                 normal({s.out, s.inner}, 4), s.biases ? normal({s.out}, 5) : Tensor()},
      .run = [form](const Inputs& in) { return Outputs{gelu_mlp(in[0], in[1], in[2], in[3], in[4], form)}; },
      .reference =
          [form, s, width](const std::vector<Tensor>& in) {
            Tensor g = layer(in[0].reshape({width == 0 ? 3 : in[0].numel() / width, width}), in[1], in[2]);
            for (double& value : g.span<double>()) value = gelu_of(value, form);
            std::vector<std::int64_t> extents(s.x.extents().begin(), s.x.extents().end());
            extents.back() = s.out;
            return std::vector<Tensor>{
                layer(g, in[3], in[4]).reshape(Shape(std::span<const std::int64_t>(extents)))};
          },
      .units = 64};
}

Variable leaf(const Shape& shape, std::uint64_t seed) {
  return Variable(normal(shape, seed), true);
}

}  // namespace

OP_CASES(gelu_mlp) {
  OpCases cases;
  for (const GeluForm form : {GeluForm::kExact, GeluForm::kTanh}) {
    for (const Sizes& sizes :
         {Sizes{{1, 1}, 1, 1, true}, Sizes{{5}, 3, 2, false}, Sizes{{3, 7}, 12, 5, true},
          Sizes{{2, 3, 8}, 16, 8, true}, Sizes{{9, 8}, 24, 17, false}, Sizes{{0, 4}, 8, 4, true},
          Sizes{{3, 0}, 8, 4, true}, Sizes{{66, 5}, 40, 4, true}})
      cases.push_back(make_case(sizes, form));
  }
  return cases;
}

TEST_CASE("ops: gelu_mlp is linear, gelu, linear, bit for bit in float32") {
  const auto inputs = [] {
    const auto narrow = [](const Shape& shape, std::uint64_t seed) {
      return Variable(normal(shape, seed).to(DType::kFloat32), true);
    };
    return Inputs{narrow({37, 24}, 1), narrow({40, 24}, 2), narrow({40}, 3), narrow({24, 40}, 4),
                  narrow({24}, 5)};
  };
  const Tensor dy = normal({37, 24}, 6).to(DType::kFloat32);
  for (const GeluForm form : {GeluForm::kExact, GeluForm::kTanh}) {
    const Inputs a = inputs(), b = inputs();
    const Variable fused = gelu_mlp(a[0], a[1], a[2], a[3], a[4], form);
    const Variable apart = linear(gelu(linear(b[0], b[1], b[2]), form), b[3], b[4]);
    fused.backward(dy);
    apart.backward(dy);
    Result found{{fused.value()}, {}, 1}, expected{{apart.value()}, {}, 1};
    for (std::size_t i = 0; i < a.size(); ++i) {
      found.tensors.push_back(a[i].grad());
      expected.tensors.push_back(b[i].grad());
    }
    CHECK(same_bits(found, expected));
  }
}

TEST_CASE("ops: gelu_mlp gives gradients to what asks for them") {
  const Inputs all = {leaf({6, 8}, 1), leaf({16, 8}, 2), leaf({16}, 3), leaf({4, 16}, 4), leaf({4}, 5)};
  const Tensor dy = normal({6, 4}, 6);
  const auto run = [&](const Inputs& in) {
    return gelu_mlp(in[0], in[1], in[2], in[3], in[4], GeluForm::kTanh);
  };
  run(all).backward(dy);
  for (unsigned mask = 1; mask < 32; ++mask) {
    Inputs some;
    for (std::size_t i = 0; i < all.size(); ++i) some.emplace_back(all[i].value(), (mask >> i & 1) != 0);
    const Variable y = run(some);
    y.backward(dy);
    for (std::size_t i = 0; i < all.size(); ++i) {
      INFO("mask " << mask << ", input " << i);
      CHECK(some[i].grad().defined() == some[i].requires_grad());
      if (some[i].requires_grad()) check_close(some[i].grad(), all[i].grad(), 1e-12, "gradient");
    }
  }
}

TEST_CASE("ops: gelu_mlp adds to gradients that are there, and sums over uses") {
  const Inputs in = {leaf({6, 8}, 1), leaf({16, 8}, 2), leaf({16}, 3), leaf({8, 16}, 4), leaf({8}, 5)};
  const Tensor dy = normal({6, 8}, 6);
  const auto run = [&](const Variable& x) {
    return gelu_mlp(x, in[1], in[2], in[3], in[4], GeluForm::kExact);
  };
  run(in[0]).backward(dy);
  std::vector<Tensor> once;
  for (const Variable& input : in) once.push_back(input.grad().clone());
  const double* const place = in[1].grad().data<double>();
  run(in[0]).backward(dy);
  CHECK(in[1].grad().data<double>() == place);
  for (std::size_t i = 0; i < in.size(); ++i) {
    for (std::int64_t j = 0; j < once[i].numel(); ++j)
      CHECK(in[i].grad().data<double>()[j] == Approx(2 * once[i].data<double>()[j]).margin(1e-12));
  }
}

TEST_CASE("ops: gelu_mlp keeps x and one tensor of the inner width for its backward pass") {
  const Variable x(normal({64, 32}, 1), true), w1(normal({256, 32}, 2), true), w2(normal({32, 256}, 3), true);
  const auto kept_by = [&](const std::function<Variable()>& run) {
    const auto bytes = [] { return CpuAllocator::instance().stats().total.current_bytes; };
    const std::int64_t before = bytes();
    const Variable y = run();
    return bytes() - before - static_cast<std::int64_t>(y.value().bytes());
  };
  constexpr std::int64_t kInner = 64 * 256 * sizeof(double);
  const auto mlp = [&] { return gelu_mlp(x, w1, {}, w2, {}, GeluForm::kTanh); };
  CHECK(kept_by(mlp) == kInner);
  CHECK(kept_by([&] { return linear(gelu(linear(x, w1), GeluForm::kTanh), w2); }) == 2 * kInner);
  const NoGrad no_grad;
  CHECK(kept_by(mlp) == 0);
}

TEST_CASE("ops: gelu_mlp refuses what does not fit") {
  const Variable x(normal({3, 7})), w1(normal({4, 7})), b1(normal({4})), w2(normal({5, 4})), b2(normal({5}));
  const auto run = [](const Variable& input, const Variable& up, const Variable& up_bias,
                      const Variable& down, const Variable& down_bias) {
    return gelu_mlp(input, up, up_bias, down, down_bias, GeluForm::kExact);
  };
  CHECK_NOTHROW(run(x, w1, b1, w2, b2));
  CHECK_THROWS_WITH(run(x, w2, {}, w2, {}), "gelu_mlp: w1: expected [any, 7] (last axis of x), found [5, 4]");
  CHECK_THROWS_WITH(run(x, w1, b1, w1, {}),
                    "gelu_mlp: w2: expected [any, 4] (first axis of w1), found [4, 7]");
  CHECK_THROWS_AS(run(x, w1, b2, w2, b2), ShapeError);
  CHECK_THROWS_AS(run(x, w1, b1, w2, b1), ShapeError);
  CHECK_THROWS_AS(run(x, w1, b1, Variable(normal({5, 4}).to(DType::kFloat32)), b2), DTypeError);
  CHECK_THROWS_AS(run(Variable(), w1, b1, w2, b2), ValueError);
  CHECK_THROWS_AS(run(Variable(normal({})), w1, b1, w2, b2), ShapeError);
}
