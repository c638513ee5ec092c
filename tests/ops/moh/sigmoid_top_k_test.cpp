#include "ops/moh/sigmoid_top_k.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <numeric>

#include "core/error.h"
#include "tests/ops/op_cases.h"

using namespace moh;
using namespace moh::test;

namespace {

struct SigmoidTopKSizes {
  Shape logits;
  std::int64_t experts, top_k;
};
/// No token, one expert, all of them, odd numbers, more than a vector, more than a chunk.
std::vector<SigmoidTopKSizes> all_sizes() {
  return {{{0, 2, 4}, 4, 2}, {{1, 1}, 1, 1},      {{2, 3, 6}, 3, 3},     {{3, 5, 10}, 5, 1},
          {{2, 7, 8}, 4, 2}, {{1, 3, 66}, 33, 7}, {{1, 1100, 12}, 4, 3}, {{9}, 3, 2}};
}

double exact_sigmoid(double z) {
  return 1 / (1 + std::exp(-z));
}

/// 1 for the selected experts, by sorting.
std::vector<double> mask_of(const Tensor& logits, std::int64_t experts, std::int64_t top_k) {
  std::vector<double> mask(static_cast<std::size_t>(logits.numel()));
  const double* z = logits.data<double>();
  for (std::int64_t first = 0; first < logits.numel(); first += experts) {
    std::vector<std::int64_t> order(static_cast<std::size_t>(experts));
    std::iota(order.begin(), order.end(), first);
    std::ranges::stable_sort(order, [z](std::int64_t a, std::int64_t b) { return z[a] > z[b]; });
    for (std::int64_t i = 0; i < top_k; ++i)
      mask[static_cast<std::size_t>(order[static_cast<std::size_t>(i)])] = 1;
  }
  return mask;
}

std::vector<float> floats_of(const Tensor& t) {
  return {t.data<float>(), t.data<float>() + t.numel()};
}

std::vector<int> selection_of(std::initializer_list<float> logits, std::int64_t top_k) {
  const auto count = static_cast<std::int64_t>(logits.size());
  const ExpertGates found =
      sigmoid_top_k(Variable(tensor_of<float>({count}, std::vector<float>(logits))), count, top_k);
  const auto* selected = found.selected.data<std::uint8_t>();
  return {selected, selected + count};
}

}  // namespace

OP_CASES(sigmoid_top_k) {
  OpCases cases;
  for (const SigmoidTopKSizes& s : all_sizes()) {
    cases.push_back(
        {.name = to_string(s.logits) + ", " + std::to_string(s.top_k) + " of " + std::to_string(s.experts),
         .inputs = {normal(s.logits)},
         .run = [s](const Inputs& in) { return Outputs{sigmoid_top_k(in[0], s.experts, s.top_k).gates}; },
         .reference =
             [s](const std::vector<Tensor>& in) {
               const std::vector<double> mask = mask_of(in[0], s.experts, s.top_k);
               Tensor gates = empty_like(in[0]);
               for (std::int64_t i = 0; i < gates.numel(); ++i)
                 gates.data<double>()[i] =
                     mask[static_cast<std::size_t>(i)] * exact_sigmoid(in[0].data<double>()[i]);
               return std::vector{gates};
             },
         .low_precision = false});
    if (cases.back().inputs[0].numel() < 1000) continue;
    cases.back().gradients = [s](const std::vector<Tensor>& in, const std::vector<Tensor>& dy) {
      const std::vector<double> mask = mask_of(in[0], s.experts, s.top_k);
      Tensor dz = empty_like(in[0]);
      for (std::int64_t i = 0; i < dz.numel(); ++i) {
        const double gate = exact_sigmoid(in[0].data<double>()[i]);
        dz.data<double>()[i] =
            mask[static_cast<std::size_t>(i)] * gate * (1 - gate) * dy[0].data<double>()[i];
      }
      return std::vector{dz};
    };
  }
  return cases;
}

TEST_CASE("ops: the selected of equal logits are the first, and NaN is selected last") {
  const float nan = std::nanf(""), inf = HUGE_VALF;
  CHECK(selection_of({1, 1, 1, 1}, 2) == std::vector{1, 1, 0, 0});
  CHECK(selection_of({0, 2, 2, 2}, 2) == std::vector{0, 1, 1, 0});
  CHECK(selection_of({nan, -inf, nan, -1}, 2) == std::vector{0, 1, 0, 1});
  CHECK(selection_of({nan, -inf, nan, -1}, 3) == std::vector{1, 1, 0, 1});
  CHECK(selection_of({30, 40, 35, 20}, 2) == std::vector{0, 1, 1, 0});  // sigmoids that all round to 1
  CHECK(selection_of({inf, -0.0F, 0.0F, -inf}, 2) == std::vector{1, 1, 0, 0});
}

TEST_CASE("ops: gates of large logits, and their gradients, are exact") {
  const Variable z(tensor_of<float>({1, 3}, {40, -80, -90}), /*requires_grad=*/true);
  const ExpertGates found = sigmoid_top_k(z, 3, 2);
  const std::vector<float> gates = floats_of(found.gates.value());
  CHECK(gates[0] == 1);
  CHECK(gates[1] == Approx(std::exp(-80.0)).epsilon(1e-5));
  CHECK(gates[2] == 0);
  found.gates.backward(tensor_of<float>({1, 3}, {1, 1, 1}));
  const std::vector<float> dz = floats_of(z.grad());
  CHECK(dz[0] == Approx(std::exp(-40.0)).epsilon(1e-5));  // 1 - gate has no bit of it
  CHECK(dz[1] == Approx(std::exp(-80.0)).epsilon(1e-5));
  CHECK(dz[2] == 0);
}

TEST_CASE("ops: sigmoid_top_k refuses what does not fit") {
  const Variable z(normal({2, 6}));
  CHECK_THROWS_WITH(sigmoid_top_k(z, 4, 2),
                    "sigmoid_top_k: experts: expected a divisor of the last axis of logits, [2, 6], found 4");
  CHECK_THROWS_AS(sigmoid_top_k(z, 0, 1), Error);
  CHECK_THROWS_AS(sigmoid_top_k(z, 3, 4), ValueError);
  CHECK_THROWS_AS(sigmoid_top_k(z, 3, 0), ValueError);
  CHECK_THROWS_WITH(sigmoid_top_k(Variable(normal({2, 6}).to(DType::kBFloat16)), 3, 1),
                    "sigmoid_top_k: logits: expected float32 or float64, found bfloat16");
}
