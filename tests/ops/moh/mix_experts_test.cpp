#include "ops/moh/mix_experts.h"

#include <catch2/catch.hpp>
#include <cmath>

#include "core/error.h"
#include "core/random.h"
#include "tests/ops/op_cases.h"

using namespace moh;
using namespace moh::test;

namespace {

struct MixExpertsSizes {
  std::int64_t batch, tokens, heads, experts, head_dim;

  Shape of_heads() const { return {batch, tokens, heads, head_dim}; }
  Shape of_experts() const { return {batch, tokens, heads * experts, head_dim}; }
  Shape of_gates() const { return {batch, tokens, heads * experts}; }
};

/// No token, one element, an odd width, whole vectors, more than a vector, more than a chunk of heads.
constexpr MixExpertsSizes kMixExpertsSizes[] = {{1, 0, 2, 3, 4},  {1, 1, 1, 1, 1},  {2, 3, 2, 3, 5},
                                                {1, 5, 2, 4, 32}, {1, 4, 3, 2, 19}, {1, 700, 2, 3, 16}};

/// A random half of the experts: of some heads none, of some all.
Tensor selected_experts(const MixExpertsSizes& s) {
  Tensor selected = empty(s.of_gates(), DType::kUInt8);
  for (std::int64_t i = 0; i < selected.numel(); ++i)
    selected.data<std::uint8_t>()[i] = random_uniform({3, 1}, static_cast<std::uint64_t>(i)) < 0.5F;
  return selected;
}

/// Calls body(head, expert) for the selected experts, both counted through all tokens.
template <class Body>
void for_each_selected(const MixExpertsSizes& s, const Body& body) {
  const Tensor selected = selected_experts(s);
  for (std::int64_t e = 0; e < selected.numel(); ++e)
    if (selected.data<std::uint8_t>()[e] != 0) body(e / s.experts, e);
}

const double* row(const Tensor& t, std::int64_t number, const MixExpertsSizes& s) {
  return t.data<double>() + number * s.head_dim;
}
double* row(Tensor& t, std::int64_t number, const MixExpertsSizes& s) {
  return t.data<double>() + number * s.head_dim;
}

Tensor mixed(const Tensor& x, const Tensor& gates, const MixExpertsSizes& s) {
  Tensor y = zeros(s.of_heads(), DType::kFloat64);
  for_each_selected(s, [&](std::int64_t head, std::int64_t e) {
    for (std::int64_t j = 0; j < s.head_dim; ++j)
      row(y, head, s)[j] += gates.data<double>()[e] * row(x, e, s)[j];
  });
  return y;
}

Tensor spread(const Tensor& x, const Tensor& gates, const MixExpertsSizes& s) {
  Tensor y = zeros(s.of_experts(), DType::kFloat64);
  for_each_selected(s, [&](std::int64_t head, std::int64_t e) {
    for (std::int64_t j = 0; j < s.head_dim; ++j)
      row(y, e, s)[j] = gates.data<double>()[e] * row(x, head, s)[j];
  });
  return y;
}

/// <row of the head, row of the expert>, the gradient of a gate of both ops.
Tensor dots(const Tensor& of_heads, const Tensor& of_experts, const MixExpertsSizes& s) {
  Tensor d_gates = zeros(s.of_gates(), DType::kFloat64);
  for_each_selected(s, [&](std::int64_t head, std::int64_t e) {
    for (std::int64_t j = 0; j < s.head_dim; ++j)
      d_gates.data<double>()[e] += row(of_heads, head, s)[j] * row(of_experts, e, s)[j];
  });
  return d_gates;
}

std::string name_of(const MixExpertsSizes& s) {
  return to_string(s.of_heads()) + " of " + std::to_string(s.experts) + " experts";
}

}  // namespace

OP_CASES(mix_experts) {
  OpCases cases;
  for (const MixExpertsSizes& s : kMixExpertsSizes) {
    cases.push_back(
        {.name = name_of(s),
         .inputs = {normal(s.of_experts()), uniform(s.of_gates(), 0.2, 1.2)},
         .run =
             [s](const Inputs& in) {
               return Outputs{mix_experts(in[0], in[1], selected_experts(s).to(in[0].device()), s.heads)};
             },
         .reference = [s](const std::vector<Tensor>& in) { return std::vector{mixed(in[0], in[1], s)}; }});
    if (s.of_experts().numel() > 20000)
      cases.back().gradients = [s](const std::vector<Tensor>& in, const std::vector<Tensor>& dy) {
        return std::vector{spread(dy[0], in[1], s), dots(dy[0], in[0], s)};
      };
  }
  return cases;
}

OP_CASES(spread_to_experts) {
  OpCases cases;
  for (const MixExpertsSizes& s : kMixExpertsSizes) {
    cases.push_back(
        {.name = name_of(s),
         .inputs = {normal(s.of_heads()), uniform(s.of_gates(), 0.2, 1.2)},
         .run =
             [s](const Inputs& in) {
               return Outputs{spread_to_experts(in[0], in[1], selected_experts(s).to(in[0].device()))};
             },
         .reference = [s](const std::vector<Tensor>& in) { return std::vector{spread(in[0], in[1], s)}; }});
    if (s.of_experts().numel() > 20000)
      cases.back().gradients = [s](const std::vector<Tensor>& in, const std::vector<Tensor>& dy) {
        return std::vector{mixed(dy[0], in[1], s), dots(in[0], dy[0], s)};
      };
  }
  return cases;
}

TEST_CASE("ops: rows and gates of experts that are not selected are not read") {
  const float nan = std::nanf("");
  const Tensor selected = tensor_of<std::uint8_t>({1, 1, 4}, {0, 1, 1, 0});
  Variable gates(tensor_of<float>({1, 1, 4}, {nan, 2, 0.5F, nan}), /*requires_grad=*/true);
  const Variable rows(tensor_of<float>({1, 1, 4, 2}, {nan, nan, 1, 2, 3, 4, nan, nan}),
                      /*requires_grad=*/true);
  const Variable heads = mix_experts(rows, gates, selected, 2);
  const auto floats = [](const Tensor& t) {
    return std::vector<float>(t.data<float>(), t.data<float>() + t.numel());
  };
  CHECK(floats(heads.value()) == std::vector<float>{2, 4, 1.5F, 2});
  heads.backward(tensor_of<float>({1, 1, 2, 2}, {1, 10, 1, 10}));
  CHECK(floats(rows.grad()) == std::vector<float>{0, 0, 2, 20, 0.5F, 5, 0, 0});
  CHECK(floats(gates.grad()) == std::vector<float>{0, 21, 43, 0});

  Variable x(tensor_of<float>({1, 1, 2, 2}, {1, 2, 3, 4}), /*requires_grad=*/true);
  gates.zero_grad();
  const Variable spread_rows = spread_to_experts(x, gates, selected);
  CHECK(floats(spread_rows.value()) == std::vector<float>{0, 0, 2, 4, 1.5F, 2, 0, 0});
  spread_rows.backward(tensor_of<float>({1, 1, 4, 2}, {nan, nan, 1, 10, 1, 10, nan, nan}));
  CHECK(floats(x.grad()) == std::vector<float>{2, 20, 0.5F, 5});
  CHECK(floats(gates.grad()) == std::vector<float>{0, 21, 43, 0});
}

TEST_CASE("ops: experts that do not fit are refused") {
  const MixExpertsSizes s{2, 3, 2, 2, 5};
  const Variable x(normal(s.of_experts())), heads(normal(s.of_heads())), gates(normal(s.of_gates()));
  const Tensor selected = selected_experts(s);
  CHECK_THROWS_WITH(mix_experts(x, gates, selected, 3),
                    "mix_experts: heads: expected a divisor of the 4 experts of gates, found 3");
  CHECK_THROWS_AS(mix_experts(heads, gates, selected, 2), ShapeError);
  CHECK_THROWS_AS(mix_experts(x, gates, selected.to(DType::kInt32), 2), DTypeError);
  CHECK_THROWS_AS(mix_experts(x, Variable(normal({2, 2, 4})), selected, 2), ShapeError);
  CHECK_THROWS_WITH(spread_to_experts(Variable(normal({2, 3, 3, 5})), gates, selected),
                    "spread_to_experts: heads: expected a divisor of the 4 experts of gates, found 3");
  CHECK_THROWS_AS(spread_to_experts(heads, Variable(selected), selected), DTypeError);
}
