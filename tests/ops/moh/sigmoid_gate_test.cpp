#include "ops/moh/sigmoid_gate.h"

#include <catch2/catch.hpp>
#include <cmath>

#include "core/error.h"
#include "tests/ops/op_cases.h"

using namespace moh;
using namespace moh::test;

namespace {

double sigmoid(double z) {
  return 1 / (1 + std::exp(-z));
}

/// The logit of element i of x.
double logit_of(const Tensor& x, const Tensor& logits, std::int64_t i) {
  return logits.data<double>()[logits.numel() == x.numel() ? i : i / x.dim(-1)];
}

std::vector<Tensor> sigmoid_gate_reference(const std::vector<Tensor>& in) {
  Tensor y = empty_like(in[0]);
  for (std::int64_t i = 0; i < y.numel(); ++i)
    y.data<double>()[i] = sigmoid(logit_of(in[0], in[1], i)) * in[0].data<double>()[i];
  return {y};
}

std::vector<Tensor> gate_gradients(const std::vector<Tensor>& in, const std::vector<Tensor>& dy) {
  Tensor dx = empty_like(in[0]), dlogits = zeros(in[1].shape(), DType::kFloat64);
  for (std::int64_t i = 0; i < dx.numel(); ++i) {
    const double s = sigmoid(logit_of(in[0], in[1], i)), gradient = dy[0].data<double>()[i];
    dx.data<double>()[i] = s * gradient;
    dlogits.data<double>()[dlogits.numel() == dx.numel() ? i : i / dx.dim(-1)] +=
        s * (1 - s) * gradient * in[0].data<double>()[i];
  }
  return {dx, dlogits};
}

struct SigmoidGateSizes {
  Shape x, of_heads, of_elements;
};
/// No token, one element, odd widths, one head past a vector, more than a chunk.
const SigmoidGateSizes sigmoid_gate_sizes[] = {{{0, 3, 4}, {0, 3}, {0, 12}},
                                               {{1, 1, 1}, {1, 1}, {1, 1}},
                                               {{3, 8}, {3}, {24}},
                                               {{5, 3, 7}, {5, 3}, {5, 21}},
                                               {{2, 17, 1, 16}, {2, 17, 1}, {2, 17, 16}},
                                               {{2, 1030, 2, 9}, {2, 1030, 2}, {2, 1030, 18}}};

}  // namespace

OP_CASES(sigmoid_gate) {
  OpCases cases;
  for (const SigmoidGateSizes& s : sigmoid_gate_sizes) {
    for (const Shape& logits : {s.of_heads, s.of_elements}) {
      cases.push_back({.name = to_string(s.x) + " with logits " + to_string(logits),
                       .inputs = {normal(s.x), normal(logits, 2)},
                       .run = [](const Inputs& in) { return Outputs{sigmoid_gate(in[0], in[1])}; },
                       .reference = sigmoid_gate_reference});
      if (s.x.numel() > 20000) cases.back().gradients = gate_gradients;
    }
  }
  return cases;
}

TEST_CASE("ops: a gate of a large logit passes bits, and zeros stay zeros") {
  for (const Shape& shape : {Shape{1, 2}, Shape{1, 6}}) {
    const Tensor x = tensor_of<float>({1, 2, 3}, {1.5F, -0.0F, 3, 0, -2, 1e-30F});
    const auto gated = [&](double logit) {
      return sigmoid_gate(Variable(x), Variable(full(shape, logit, DType::kFloat32))).value();
    };
    const Tensor open = gated(100), half = gated(0), closed = gated(-HUGE_VAL);
    for (std::int64_t i = 0; i < x.numel(); ++i) {
      CHECK(open.data<float>()[i] == x.data<float>()[i]);
      CHECK(half.data<float>()[i] == 0.5F * x.data<float>()[i]);
      CHECK(std::abs(closed.data<float>()[i]) < 1e-37F);
    }
  }
}

TEST_CASE("ops: sigmoid_gate refuses what does not fit") {
  const Variable x(normal({2, 3, 5}));
  CHECK_THROWS_WITH(sigmoid_gate(x, Variable(normal({2, 5}))),
                    "sigmoid_gate: logits: expected [2, 3] for the heads of x, or [2, 15] for its elements, "
                    "found [2, 5]");
  CHECK_THROWS_AS(sigmoid_gate(x, Variable(normal({6}))), ShapeError);
  CHECK_THROWS_AS(sigmoid_gate(Variable(normal({5})), Variable(normal({5}))), ShapeError);
  CHECK_THROWS_AS(sigmoid_gate(x, Variable(normal({2, 3}).to(DType::kFloat32))), DTypeError);
}
